"""Simulated annealing over distributions, as Section 5.1 of paper 2 describes it.

The state is the matrix P of chip probabilities, uniform at first. Each iteration redraws the rows of a random set of
ops, has the solver SAMPLE a valid partition, and accepts the new P by the partition's throughput. The paper names
neither the size of the set, nor the new distributions, nor the temperatures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.repair.engine import repair_batch
from learned_mapping.mcm.repair.kernel import RepairArrays


@dataclass(frozen=True)
class AnnealingParameters:
    """Chosen on synthetic graphs alone, by `experiments.mcm_tuning`; `data/mcm/annealing.json` is the record."""

    redrawn: float = 0.5
    """Share of the ops whose distribution an iteration redraws."""
    concentration: float = 0.1
    """Parameter of the symmetric Dirichlet distribution new rows come from; small ones favour few chips."""
    start_temperature: float = 0.2
    """Relative loss of throughput that is accepted with probability 1/e at the start."""
    end_temperature: float = 0.001
    """The same at the end of the budget; geometric between."""


def annealing(
    model: ChipModel,
    arrays: RepairArrays,
    rng: np.random.Generator,
    budget: Budget,
    *,
    parameters: AnnealingParameters = AnnealingParameters(),
) -> np.ndarray:
    """[N] int32, the fastest partition sampled on the way."""
    chips, n = model.package.chips, model.graph.num_ops
    weights = np.full((n, chips), 1.0 / chips)
    count = max(1, round(parameters.redrawn * n))
    best, accepted, first = np.zeros(n, np.int32), 0.0, True
    cooling = parameters.end_temperature / parameters.start_temperature
    while not budget.spent():
        ops = rng.choice(n, count, replace=False)
        saved = weights[ops].copy()
        if not first:
            weights[ops] = rng.dirichlet(np.full(chips, parameters.concentration), count)
        assignment = repair_batch(arrays, chips, mode="sample", rng=rng, weights=weights)[0][0]
        throughput = model.throughput(assignment)
        if budget.record(throughput):
            best = assignment
        temperature = parameters.start_temperature * cooling ** min(_progress(budget), 1.0)
        loss = (accepted - throughput) / max(accepted, 1e-300)
        if first or loss <= 0 or rng.random() < np.exp(-loss / temperature):
            accepted, first = throughput, False
        else:
            weights[ops] = saved
    return best


def _progress(budget: Budget) -> float:
    """The share of the budget that is spent."""
    shares = [0.0]
    if budget.limit_samples is not None:
        shares.append(budget.samples / budget.limit_samples)
    if budget.limit_s is not None:
        shares.append(budget.seconds / budget.limit_s)
    return max(shares)
