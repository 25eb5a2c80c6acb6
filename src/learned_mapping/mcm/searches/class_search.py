"""A search over six numbers: by what factor each class of ops costs more than the analytical model says.

Node by node, a partition of BERT has thousands of degrees of freedom; how silicon differs from the model has few. So
the search draws a factor for every class (`hardware.op_classes`), cuts the graph evenly by the corrected costs,
measures the partition, and moves its distribution towards the factors of the best: the cross-entropy method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.hardware.op_classes import OP_CLASSES, op_classes
from learned_mapping.mcm.bounds.linear_cut import even_cut, late_order
from learned_mapping.mcm.repair.kernel import RepairArrays

Cut = Callable[[np.ndarray], np.ndarray]
"""[N] corrected seconds -> [N] chips, a valid partition."""


@dataclass(frozen=True)
class ClassSearchParameters:
    """Round numbers, never tuned."""

    population: int = 20
    """Partitions per round."""
    elite: int = 5
    """Of which the best so many decide the next round's distribution."""
    spread: float = 0.4
    """Standard deviation of the logarithm of a factor at the start."""
    least_spread: float = 0.05
    """It never falls below this."""


def class_search(
    model: ChipModel,
    arrays: RepairArrays,
    rng: np.random.Generator,
    budget: Budget,
    *,
    cut: Cut | None = None,
    parameters: ClassSearchParameters = ClassSearchParameters(),
) -> np.ndarray:
    """[N] int32, the partition that measured best.

    Args:
      model: plans with `op_seconds`, judges by `throughput`, one call per sample.
      arrays: of the graph.
      cut: how corrected costs become a partition; `linear_cut.even_cut` in late order where None.
    """
    classes, chips = op_classes(model.graph), model.package.chips
    if cut is None:
        order = late_order(model.graph)
        cut = lambda seconds: even_cut(seconds, order, arrays, chips)  # noqa: E731
    mean, spread = np.zeros(len(OP_CLASSES)), np.full(len(OP_CLASSES), parameters.spread)
    best = cut(model.op_seconds)
    budget.record(model.throughput(best))
    while not budget.spent():
        logs = mean + spread * rng.standard_normal((parameters.population, len(mean)))
        values: list[float] = []
        for row in logs:
            if budget.spent():
                return best
            assignment = cut(model.op_seconds * np.exp(row[classes]))
            values.append(model.throughput(assignment))
            if budget.record(values[-1]):
                best = assignment
        elite = logs[np.argsort(values)[-parameters.elite :]]
        mean = elite.mean(axis=0)
        spread = np.maximum(elite.std(axis=0), parameters.least_spread)
    return best
