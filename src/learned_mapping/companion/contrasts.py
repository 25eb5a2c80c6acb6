"""One method against another over several programs: ratio and difference of means, with intervals over the seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from learned_mapping.companion.statistics import RESAMPLES, Scores, _percentiles, _resampled


def mean_ratio(
    scores: Scores, baseline: Scores, *, seed: int = 0, resamples: int = RESAMPLES, confidence: float = 0.95
) -> tuple[float, float, float] | None:
    """The mean of one method over the mean of the other, geometric mean over tasks; stratified bootstrap interval.

    Returns:
      (value, low, high), or None where a run's value is not positive: its ratio would say nothing.
    """
    if any(min(values) <= 0 for both in (scores, baseline) for values in both.values()):
        return None
    value, low, high = _contrast(
        lambda values, others: np.log(values.mean(axis=1)) - np.log(others.mean(axis=1)),
        scores, baseline, seed, resamples, confidence,
    )  # fmt: skip
    return float(np.exp(value)), float(np.exp(low)), float(np.exp(high))


def mean_difference(
    scores: Scores, baseline: Scores, *, seed: int = 0, resamples: int = RESAMPLES, confidence: float = 0.95
) -> tuple[float, float, float]:
    """The mean of one method minus the mean of the other, averaged over tasks; stratified bootstrap interval.

    Returns:
      (value, low, high).
    """
    return _contrast(
        lambda values, others: values.mean(axis=1) - others.mean(axis=1),
        scores, baseline, seed, resamples, confidence,
    )  # fmt: skip


def ratio_rows(
    instance: str, scores: Mapping[str, Scores], pairs: Iterable[tuple[str, str]], **extra: Any
) -> list[dict[str, Any]]:
    """Tidy rows ``ratio`` of each pair (method, baseline) that both have scores and whose ratio says something.

    Args:
      instance: of the rows.
      scores: method -> task -> the values of its runs.
      pairs: who is compared with whom.
      **extra: further keys of the rows.
    """
    rows = []
    for ours, other in pairs:
        found = mean_ratio(scores[ours], scores[other]) if {ours, other} <= set(scores) else None
        if found is not None:
            key = {"instance": instance, "method": ours, "metric": "ratio", "baseline": other}
            runs = len(next(iter(scores[ours].values())))
            rows.append({**key, **dict(zip(("value", "low", "high"), found)), "n": runs, **extra})
    return rows


def side(row: Mapping[str, Any]) -> str:
    """Of a ratio: ``ahead`` or ``behind`` where its whole interval is on that side of 1, else ``not apart``."""
    return "ahead" if row["low"] > 1 else "behind" if row["high"] < 1 else "not apart"


def told(row: Mapping[str, Any]) -> str:
    """A row of a ratio in words: ``rl against sa: -1.2 % (-2.0 to -0.4), behind``."""
    value, low, high = (f"{100 * (row[end] - 1):+.1f}" for end in ("value", "low", "high"))
    return f"{row['method']} against {row['baseline']}: {value} % ({low} to {high}), {side(row)}"


def _contrast(
    contrast: Callable[[np.ndarray, np.ndarray], np.ndarray],
    scores: Scores,
    baseline: Scores,
    seed: int,
    resamples: int,
    confidence: float,
) -> tuple[float, float, float]:
    """The mean over tasks of `contrast`, which takes runs [b, n] and [b, m], and its interval over resampled runs."""
    if set(scores) != set(baseline) or not scores:
        raise ValueError("both methods need the same tasks, at least one")
    generator = np.random.default_rng(seed)
    pairs = [(scores[task], baseline[task]) for task in scores]
    value = np.mean([contrast(np.array([ours], float), np.array([theirs], float))[0] for ours, theirs in pairs])
    drawn = [
        contrast(_resampled(ours, resamples, generator), _resampled(theirs, resamples, generator))
        for ours, theirs in pairs
    ]
    return float(value), *_percentiles(np.mean(drawn, axis=0), confidence)
