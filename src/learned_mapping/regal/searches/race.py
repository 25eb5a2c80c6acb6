"""A race of laws: a few chromosomes of each decide which one a search follows. It learns
nothing."""

from collections.abc import Sequence

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.regal.rules.decode import make_workspace
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import MutantLaw, tables_of
from learned_mapping.regal.searches.local_search import _sample

DRAWN, JUDGED = 24, 4


def race(
    instance: Instance, rng: np.random.Generator, budget: Budget, laws: Sequence[MutantLaw]
) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of costs [K, 3] by law, and the best chromosome [L] of all: of `DRAWN` chromosomes
    a law, the mean of all, of the `JUDGED` best, which decides, and of the best one.

    Each chromosome is a sample of the budget; a law that it does not suffice for has infinite
    costs.
    """
    a, work, least = instance.arrays, make_workspace(instance), np.inf
    best, drawn, trial = np.zeros((3, instance.chromosome_length))
    scores = np.full((len(laws), 3), np.inf)
    for place, law in enumerate(laws):
        tables = tables_of(law)
        values: list[float] = []
        while len(values) < DRAWN and not budget.spent():
            values.append(
                _sample(a, work, rng, drawn, trial, np.inf, tables, len(values), np.zeros(1))
            )
            budget.record(values[-1], better=float.__lt__)
            if values[-1] < least:
                least, best = values[-1], drawn.copy()
        if values:
            ranked = np.log(np.maximum(np.sort(values), 1e-300))  # finite for a cost of 0 too
            scores[place] = ranked.mean(), ranked[:JUDGED].mean(), ranked[0]
    return scores, best


def winner(scores: np.ndarray) -> int:
    """The place of the law that wins a race with these costs."""
    return int(np.argmin(scores[:, 1]))
