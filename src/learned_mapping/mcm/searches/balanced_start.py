"""Searches of the paper that begin at a balanced partition: on silicon, uniform distributions give none that fits.

The start is the even cut of the analytical model's costs (`linear_cut`). Around it stands the distribution

    p_i(c) ∝ exp(-λ |c - s_i|),    λ = log(2 N / m),

under which about m of the N ops leave their chip s_i, most of them for the next one. Annealing begins with it as its P;
the policy over chips has its logarithm added to the network's output.
"""

from __future__ import annotations

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.bounds.linear_cut import even_cut, late_order
from learned_mapping.mcm.repair.engine import repair_batch
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.mcm.searches.annealing import AnnealingParameters

MOVED = 10.0
"""m. On training graphs, with 10 most samples differ from the start and keep over 0.95 of its throughput; with 20 on
some graphs a third is lost, with 2 most samples are the start again."""
MOST_MOVED = 0.5
"""m is at most this share of the ops."""
REDRAWN = 0.01
"""Share of the ops whose row an iteration of annealing redraws, at least one."""

COOLING = AnnealingParameters()
"""The temperatures of `annealing`; its other parameters have no part here."""


def balanced_start(model: ChipModel, arrays: RepairArrays) -> np.ndarray:
    """[N] int32, the even cut of the model's own costs in late order."""
    return even_cut(model.op_seconds, late_order(model.graph), arrays, model.package.chips)


def log_weights(start: np.ndarray, chips: int) -> np.ndarray:
    """[N, C] float64, -λ |c - s_i|."""
    moved = min(MOVED, MOST_MOVED * len(start))
    return -np.log(2 * len(start) / moved) * np.abs(np.arange(chips) - np.asarray(start)[:, None])


def annealing_from_balance(
    model: ChipModel,
    arrays: RepairArrays,
    rng: np.random.Generator,
    budget: Budget,
    *,
    parameters: AnnealingParameters = COOLING,
) -> np.ndarray:
    """[N] int32, the fastest partition sampled; the first sample is the start itself.

    As `annealing`, but a row is redrawn by moving its centre s_i to a chip beside it.
    """
    chips, n = model.package.chips, model.graph.num_ops
    start = balanced_start(model, arrays)
    best = start.copy()
    accepted = model.throughput(start)
    budget.record(accepted)
    centre, count = start.astype(np.int64), max(1, round(REDRAWN * n))
    cooling = parameters.end_temperature / parameters.start_temperature
    while not budget.spent():
        ops = rng.choice(n, count, replace=False)
        proposed = centre.copy()
        proposed[ops] = np.clip(centre[ops] + rng.integers(-1, 2, count), 0, chips - 1)
        weights = np.exp(log_weights(proposed, chips))
        assignment = repair_batch(arrays, chips, mode="sample", rng=rng, weights=weights)[0][0]
        throughput = model.throughput(assignment)
        if budget.record(throughput):
            best = assignment
        share = 0.0 if budget.limit_samples is None else budget.samples / budget.limit_samples
        temperature = parameters.start_temperature * cooling ** min(share, 1.0)
        loss = (accepted - throughput) / max(accepted, 1e-300)
        if loss <= 0 or rng.random() < np.exp(-loss / temperature):
            accepted, centre = throughput, proposed
    return best
