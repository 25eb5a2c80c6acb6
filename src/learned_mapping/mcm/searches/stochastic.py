"""Random search and simulated annealing over distributions, as Section 5.1 of paper 2 describes
them.

The state of the annealing is the matrix P of chip probabilities, uniform at first. Each iteration
redraws the rows of a random set of ops, has the solver SAMPLE a valid partition, and accepts the
new P by the partition's throughput. The paper names neither the size of the set, nor the new
distributions, nor the temperatures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.repair.engine import Repair
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.mcm.rules.constraints import is_valid, obeys_pins
from learned_mapping.mcm.searches.even_cut import balanced_start, log_weights

BATCH = 64


def random_search(
    model: ChipModel, repair: Repair, rng: np.random.Generator, budget: Budget
) -> np.ndarray:
    """[N] int32, the fastest of as many valid random partitions as the budget allows."""
    best = np.zeros(model.graph.num_ops, np.int32)
    while not budget.spent():
        left = budget.remaining_samples
        count = BATCH if left is None else min(BATCH, left)
        for assignment in repair(mode="sample", rng=rng, count=count):
            if budget.record(model.throughput(assignment)):
                best = assignment.copy()
    return best


def unconstrained_search(
    model: ChipModel, rng: np.random.Generator, budget: Budget
) -> tuple[np.ndarray, dict[str, float]]:
    """Uniform assignments without a solver, an invalid one worth nothing: [N] int32 the best, and
    how many are valid.

    Where none is valid the best is the last one tried, and invalid.
    """
    chips, n = model.package.chips, model.graph.num_ops
    best, valid = None, 0
    last = np.zeros(n, np.int32)
    while not budget.spent():
        last = rng.integers(0, chips, n, dtype=np.int32)
        ok = is_valid(last, model.graph.op_edges) and obeys_pins(last, model.graph)
        valid += ok
        if budget.record(model.throughput(last) if ok else 0.0) and ok:
            best = last
    return (last if best is None else best), {"valid": float(valid)}


@dataclass(frozen=True)
class AnnealingParameters:
    """Chosen on the five validation graphs, by `builders.mcm_tuning`; `data/mcm/annealing.json` is
    the record."""

    redrawn: float = 0.2  # Share of the ops whose distribution an iteration redraws.
    concentration: float = 0.5
    """Parameter of the symmetric Dirichlet distribution new rows come from; small ones favour few
    chips."""
    # Relative loss of throughput that is accepted with probability 1/e at the start.
    start_temperature: float = 0.005
    end_temperature: float = 0.001  # The same at the end of the budget; geometric between.


@dataclass(frozen=True)
class BalancedParameters:
    """The parameters of `annealing_from_balance`; chosen on the five validation graphs, with the
    same record."""

    # Share of the ops that an iteration moves to a chip beside theirs, at least one.
    redrawn: float = 0.01
    moved: float = 3.0  # m of `even_cut`: about how many ops leave their chip before the repair.
    start_temperature: float = 0.005
    end_temperature: float = 0.001


def annealing(
    model: ChipModel,
    repair: Repair,
    rng: np.random.Generator,
    budget: Budget,
    *,
    parameters: AnnealingParameters = AnnealingParameters(),
) -> np.ndarray:
    """[N] int32, the fastest partition sampled on the way; the first distributions are uniform."""
    chips, n = model.package.chips, model.graph.num_ops
    count = max(1, round(parameters.redrawn * n))

    def propose(weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        ops = rng.choice(n, count, replace=False)
        if weights is None:
            proposed = np.full((n, chips), 1.0 / chips)
        else:
            proposed = weights.copy()
            proposed[ops] = rng.dirichlet(np.full(chips, parameters.concentration), count)
        return proposed, proposed

    return _anneal(model, repair, rng, budget, propose, None, parameters)


def annealing_from_balance(
    model: ChipModel,
    arrays: RepairArrays,
    repair: Repair,
    rng: np.random.Generator,
    budget: Budget,
    *,
    parameters: BalancedParameters = BalancedParameters(),
) -> np.ndarray:
    """[N] int32, the fastest partition sampled; the first sample is the even cut of the model's
    costs itself.

    The state is the partition accepted last. Each iteration moves some of its ops to a chip beside
    theirs and has the solver SAMPLE about that, with the distributions of `even_cut`.
    """
    chips, n = model.package.chips, model.graph.num_ops
    count = max(1, round(parameters.redrawn * n))

    def propose(centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ops = rng.choice(n, count, replace=False)
        proposed = centre.copy()
        proposed[ops] = np.clip(centre[ops] + rng.integers(-1, 2, count), 0, chips - 1)
        return proposed, np.exp(log_weights(proposed, chips, parameters.moved))

    return _anneal(model, repair, rng, budget, propose, balanced_start(model, arrays), parameters)


def _anneal(
    model: ChipModel,
    repair: Repair,
    rng: np.random.Generator,
    budget: Budget,
    propose: Callable[[Any], tuple[np.ndarray, np.ndarray]],
    start: np.ndarray | None,
    parameters: AnnealingParameters | BalancedParameters,
) -> np.ndarray:
    """Annealing from a partition `start` as the first state and sample, or from what
    ``propose(None)`` gives, a state and the distributions to sample from.

    With a start the state is the accepted partition, without one the distributions it was drawn
    from.
    """
    state, accepted, best = start, None, np.zeros(model.graph.num_ops, np.int32)
    if start is not None:
        accepted, best = model.throughput(start), start
        budget.record(accepted)
    cooling = parameters.end_temperature / parameters.start_temperature
    while not budget.spent():
        proposed, weights = propose(state)
        assignment = repair(mode="sample", rng=rng, weights=weights)[0]
        throughput = model.throughput(assignment)
        if budget.record(throughput):
            best = assignment
        limits = ((budget.samples, budget.limit_samples), (budget.seconds, budget.limit_s))
        spent = max(used / limit for used, limit in limits if limit is not None)
        temperature = parameters.start_temperature * cooling ** min(spent, 1.0)
        loss = 0.0 if accepted is None else (accepted - throughput) / max(accepted, 1e-300)
        if loss <= 0 or rng.random() < np.exp(-loss / temperature):
            state, accepted = proposed if start is None else assignment, throughput
    return best
