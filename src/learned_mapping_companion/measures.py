"""Numbers that rules measure over the rows of results, with their intervals.

An instance on which a learner has learned less than `LEARNERS` asks for does not count, nor does
one on which an arm of the rule has finished no game.
"""

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

LEARNERS: dict[str, dict[str, float]] = {
    **{
        name: {"games_worth": 200, "updates": 1000}
        for name in ("muzero", "prod", "learning-only", "muzero-no-backup")
    },
    "ppo": {"updates": 100},
    **{name: {"updates": 20} for name in ("rl", "rl-sample-credit")},
    **{
        name: {"updates": 20, "pretraining_samples": 20_000}
        for name in ("finetune", "finetune-sample-credit")
    },
    **{name: {"pretraining_samples": 20_000} for name in ("zeroshot", "zeroshot-sample-credit")},
    **{name: {"updates": 1000} for name in ("regal", "regal-cloned", "gas", "idrs")},
}
"""Learners -> the least that their rows of these metrics must say on an instance that counts for a
claim. ``games_worth`` counts the decisions of windows too."""
DRAWS = 2000  # Of a bootstrap over instances.
DEVIATIONS = 1.96  # From the middle of a normal 95% interval to its end.
KINDS = ("value", "ratio", "difference", "share_better", "gap")
OVER: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": lambda values: values.mean(axis=-1),
    "sum": lambda values: values.sum(axis=-1),
    "min": lambda values: values.min(axis=-1),
    "max": lambda values: values.max(axis=-1),
    "geomean": lambda values: np.exp(np.log(values).mean(axis=-1)),
}
"""Functions by which the values [..., instances] of several instances become one."""


@dataclass(frozen=True)
class Measure:
    """The number that decides a claim.

    ``value`` is the value of the rows that match; ``ratio`` and ``difference`` compare them,
    instance by instance, with the rows that match once the keys of `against` replace theirs;
    ``share_better`` is the share of instances in which they are larger. Several instances become
    one number as `over` says. ``gap`` is the gap of the mean logarithm, of gaps in percent, over
    the rival's: a mean of ratios would have zeros beneath.
    """

    kind: str
    rows: Mapping[str, str]  # Keys of the rows: method, metric, instance or any other column.
    against: Mapping[str, str] = field(default_factory=dict)
    over: str = "mean"


@dataclass(frozen=True)
class Measured:
    """The number that a rule measures, and its 95% interval where the rows have one (else the
    number twice)."""

    value: float
    low: float
    high: float
    instances: int = 1  # That the number is of.
    runs: int | None = None  # Behind the row with the fewest, where rows say so.
    by_training: tuple[float, ...] = ()  # Of one row, by each training, of a method trained before.


def counting_rows(rule: Measure, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of instances that count: every learner that a rule names has behind it what
    `LEARNERS` asks for, and no method that it names, and whose games are counted, has finished
    none. Where the rule names its instance, or the learners' rows are of all together, it is all
    rows or none."""
    short, named = set[str](), rule.rows.get("instance")
    for method in {
        rule.rows.get("method"),
        rule.rows.get("baseline"),
        rule.against.get("method"),
    } - {None}:
        of_method = [row for row in rows if row["method"] == method]
        deciding = {_place(row) for row in of_method if row["metric"] == rule.rows.get("metric")}
        deciding -= {"all"}
        deciding &= {named} if named not in (None, "all") else deciding
        for metric, least in ({"games": 1} | LEARNERS.get(method, {})).items():
            counts = [row for row in of_method if row["metric"] == metric]
            counts = [row for row in counts if row["instance"] == named] or counts
            if not counts and metric in LEARNERS.get(method, {}):
                return []
            asked = {_place(row) for row in counts}
            short |= {_place(row) for row in counts if row["value"] is None or row["value"] < least}
            short |= (
                deciding - asked
                if asked & deciding and metric in LEARNERS.get(method, {})
                else set()
            )
    if short and ("instance" in rule.rows or "all" in short):
        return []
    return [row for row in rows if _place(row) not in short]


def _place(row: dict[str, Any]) -> str:
    """Where a method was trained for a row: for the data set of its instance, or for that alone."""
    return row.get("dataset", row["instance"])


def measure(rule: Measure, rows: list[dict[str, Any]]) -> Measured | None:
    """The number a rule asks for, with its interval; None where rows are missing.

    The interval of one row is its own, of a contrast of two rows what their intervals allow at
    most. Of several instances it is a bootstrap: instances are drawn anew; of a method that was
    trained before, its trainings too, the same for all instances; any other value moves by its own
    interval.
    """
    ours = by_instance(rows, rule.rows)
    if rule.kind == "value":
        return _joined(rule, [list(ours.values())]) if ours else None
    theirs = by_instance(rows, {**rule.rows, **rule.against})
    if "instance" in rule.against:  # one instance compared with another
        pairs = list(zip(ours.values(), theirs.values()))
    else:
        pairs = [(ours[name], theirs[name]) for name in ours if name in theirs]
    if not pairs or (rule.kind == "ratio" and any(b.low <= 0 for _, b in pairs)):
        return None
    return _joined(rule, [list(side) for side in zip(*pairs)])


CONTRASTS: dict[str, Callable[..., Any]] = {
    "value": lambda a: a,
    "ratio": operator.truediv,
    "difference": operator.sub,
    "share_better": lambda a, b: np.greater(a, b).astype(float),
    "gap": operator.truediv,
}
"""The number of an instance, of what both sides of a rule have there."""


def _number(rule: Measure, *sides: np.ndarray) -> np.ndarray:
    """The number that a rule makes of the values [..., instances] of its sides."""
    if rule.kind == "gap":
        ours, theirs = (np.expm1(np.log1p(side / 100).mean(axis=-1)) for side in sides)
        return ours / theirs
    return OVER[rule.over](CONTRASTS[rule.kind](*sides))


@np.errstate(divide="ignore", invalid="ignore")
def _joined(rule: Measure, sides: list[list[Measured]]) -> Measured | None:
    """One number of several instances, and its interval; None where a draw of it is none."""
    count, entries = len(sides[0]), [entry for side in sides for entry in side]
    runs = min((entry.runs for entry in entries if entry.runs), default=None)
    value = _number(rule, *(_ends(side, "value") for side in sides))
    if count == 1 or rule.over in ("min", "max"):
        # of each instance the least and the most that its rows allow
        corners = itertools.product(*((_ends(s, "low"), _ends(s, "high")) for s in sides))
        each = [CONTRASTS[rule.kind](*corner) for corner in corners]
        drawn = [OVER[rule.over](extreme(each, axis=0)) for extreme in (np.min, np.max)]
    else:
        numbers = np.sort(_number(rule, *(_drawn(side, k) for k, side in enumerate(sides))))
        drawn = [numbers[int(0.025 * DRAWS)], numbers[int(0.975 * DRAWS) - 1]]
        drawn = drawn if np.isfinite(numbers).all() else [math.nan]
    if not np.isfinite([value, *drawn]).all():
        return None
    return Measured(float(value), *map(float, drawn), count, runs)


def _ends(side: list[Measured], end: str) -> np.ndarray:
    return np.array([getattr(entry, end) for entry in side])


def _drawn(side: list[Measured], which: int) -> np.ndarray:
    """[`DRAWS`, instances] values of a side of a rule, drawn anew."""
    chosen = _places(0, len(side))
    trainings = {len(entry.by_training) for entry in side}
    if len(trainings) == 1 and (count := trainings.pop()) > 1:
        table = np.array([entry.by_training for entry in side])
        return table[chosen[..., None], _places(1, count)[:, None]].mean(axis=-1)
    values, low, high = (_ends(side, end) for end in ("value", "low", "high"))
    if (low == high).all():
        return values[chosen]
    far = _deviates(2 + which, len(side))
    return values[chosen] + far * np.where(far > 0, (high - values)[chosen], (values - low)[chosen])


@lru_cache
def _places(seed: int, count: int) -> np.ndarray:
    """[`DRAWS`, count] of so many places, drawn anew: the same at every call, and in the page."""
    return (np.random.RandomState(seed).random_sample((DRAWS, count)) * count).astype(int)


@lru_cache
def _deviates(seed: int, count: int) -> np.ndarray:
    """[`DRAWS`, count] draws of a normal distribution, in its distances from the middle to the end
    of a 95% interval."""
    flat, turn = np.moveaxis(np.random.RandomState(seed).random_sample((DRAWS, count, 2)), -1, 0)
    return np.sqrt(-2 * np.log1p(-flat)) * np.cos(2 * np.pi * turn) / DEVIATIONS


def by_instance(rows: list[dict[str, Any]], keys: Mapping[str, str]) -> dict[str, Measured]:
    """Instance -> the number of its row that has these cells; summaries over instances only where
    the cells ask for one."""
    found = {}
    for key, value in keys.items():
        rows = [row for row in rows if str(row.get(key)) == value]
    for row in rows:
        if row["instance"] == "all" and "instance" not in keys:
            continue  # a summary over instances is none of them
        if isinstance(row["value"], int | float) and not isinstance(row["value"], bool):
            value, known = float(row["value"]), tuple(row.get("by_training", ()))
            widest = known or (value,)
            low, high = row.get("low"), row.get("high")
            low = min(widest) if low is None else float(low)
            high = max(widest) if high is None else float(high)
            found[row["instance"]] = Measured(
                value, low, high, runs=row.get("n"), by_training=known
            )
    return found
