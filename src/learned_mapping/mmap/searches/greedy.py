"""Greedy play: place whenever legal, or where it pays, with the price tuned on the program
itself."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from learned_mapping.mmap.rules.actions import COPY
from learned_mapping.mmap.rules.policies import FEATURES
from learned_mapping.mmap.searches.search import Search

ONE, DENSITY, TENSOR_DENSITY, SUPPLY = (
    FEATURES.index(name) for name in ("one", "log_density", "log_tensor_density", "log_supply")
)
# Games after which the tuning of a threshold rule stops, even where the budget would allow more.
MAX_GAMES = 400
SMALLEST_STEP = 0.1
STARTS = 4  # Rules of the grid from which the pattern search sets out.


def greedy(search: Search) -> None:
    """Places every buffer it can: the better of two games, one that copies first and one that keeps
    first."""
    for order in ((2.0, 1.0, 0.0), (1.0, 2.0, 0.0)):
        if search.best is not None and search.budget.spent():
            return
        search.play_preferences(np.tile(np.array(order), (search.program.num_buffers, 1)))


@dataclass(frozen=True)
class ThresholdRule:
    """Place a buffer where the log of its benefit per byte and step, new ones only, exceeds a
    price.

    Benefit and area are those of the game's features, relative to the program's means, so that 0 is
    the price at which an average buffer pays for an equal share of the memory.
    """

    price: float = 0.0  # Natural logarithm, for NoCopy.
    copy_price: float = 1.0  # What a Copy must pay on top.
    foresight: float = 1.0
    """0: only the benefit of the buffer at hand counts; 1: also that of the later buffers of its
    tensor."""
    # What a Copy must pay per unit of log(1 + demand / mean supply of a step).
    supply_price: float = 0.0

    def weights(self) -> np.ndarray:
        """[2, len(FEATURES)]: the linear policy that follows the rule."""
        weights = np.zeros((2, len(FEATURES)))
        weights[:, DENSITY] = 1.0 - self.foresight
        weights[:, TENSOR_DENSITY] = self.foresight
        weights[:, ONE] = -self.price
        weights[COPY, ONE] -= self.copy_price
        weights[COPY, SUPPLY] = -self.supply_price
        return weights


def greedy_tuned(search: Search) -> None:
    """The best of `greedy` and of the threshold rules tried: a coarse grid, then a pattern search
    over four numbers.

    The games this takes are the method's own search and count as its samples; nothing is carried
    over from program to program. Stops after `MAX_GAMES`, or with the budget.
    """
    greedy(search)
    values: dict[ThresholdRule, float] = {}

    def value(rule: ThresholdRule) -> float:
        if rule not in values:
            values[rule] = search.play_linear_policy(rule.weights())
        return values[rule]

    def stop() -> bool:
        return search.budget.spent() or len(values) >= MAX_GAMES

    grid = itertools.product((1.0, 2.0, 0.0, 3.0), (0.0, -2.0, 1.0, -6.0, 2.0, -4.0), (1.0, 0.0))
    for copy_price, price, foresight in grid:
        if stop():
            break
        value(ThresholdRule(price=price, copy_price=copy_price, foresight=foresight))
    for start in sorted(values, key=values.__getitem__, reverse=True)[:STARTS]:
        _pattern_search(start, value, stop)


def _pattern_search(
    best: ThresholdRule, value: Callable[[ThresholdRule], float], stop: Callable[[], bool]
) -> None:
    """Moves one number of the rule at a time while that helps, by steps that halve when nothing
    does."""
    step = 1.0
    while step >= SMALLEST_STEP:
        improved = False
        for name, scale in (
            ("price", 1.0),
            ("copy_price", 1.0),
            ("supply_price", 0.5),
            ("foresight", 0.5),
        ):
            for direction in (step, -step):
                if stop():
                    return
                changed = getattr(best, name) + direction * scale
                if name == "foresight":
                    changed = min(max(changed, 0.0), 1.0)
                rule = replace(best, **{name: changed})
                if value(rule) > value(best):
                    best, improved = rule, True
        if not improved:
            step /= 2.0
