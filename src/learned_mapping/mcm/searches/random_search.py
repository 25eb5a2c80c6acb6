"""The paper's random search: SAMPLE with a uniform distribution over chips for every op (Section 5.1)."""

from __future__ import annotations

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.repair.engine import Repair
from learned_mapping.mcm.rules.constraints import is_valid

BATCH = 64


def random_search(model: ChipModel, repair: Repair, rng: np.random.Generator, budget: Budget) -> np.ndarray:
    """[N] int32, the fastest of as many valid random partitions as the budget allows."""
    best = np.zeros(model.graph.num_ops, np.int32)
    while not budget.spent():
        left = budget.remaining_samples
        count = BATCH if left is None else min(BATCH, left)
        batch, _ = repair(mode="sample", rng=rng, count=count)
        for assignment in batch:
            if budget.record(model.throughput(assignment)):
                best = assignment.copy()
    return best


def unconstrained_search(model: ChipModel, rng: np.random.Generator, budget: Budget) -> tuple[np.ndarray, int]:
    """Uniform assignments without a solver, an invalid one worth nothing: ([N] int32 the best, how many were valid).

    Where none was valid the best is the last one tried, and invalid.
    """
    chips, n = model.package.chips, model.graph.num_ops
    best, valid = None, 0
    last = np.zeros(n, np.int32)
    while not budget.spent():
        last = rng.integers(0, chips, n, dtype=np.int32)
        ok = is_valid(last, model.graph.op_edges)
        valid += ok
        if budget.record(model.throughput(last) if ok else 0.0) and ok:
            best = last
    return (last if best is None else best), valid
