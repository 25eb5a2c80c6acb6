"""Statistics over a handful of seeds: interquartile means, stratified bootstrap intervals, probability of improvement.

After "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (Agarwal et al., 2021). Scores come per
task (an instance) as the values of its runs (seeds). Every statistic takes the axis to reduce, so that the bootstrap
evaluates all resamples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Scores = Mapping[str, Sequence[float]]
"""Task -> the values of its runs."""
Statistic = Callable[..., np.ndarray]

RESAMPLES = 2000


def interquartile_mean(values: Any, axis: int = -1) -> np.ndarray:
    """The mean of what is left when a quarter of the values, rounded down, is cut off at each end.

    With 5 values it is the mean of the middle three, with 3 the plain mean.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=axis)
    count = ordered.shape[axis]
    if count == 0:
        raise ValueError("the interquartile mean of no values")
    cut = count // 4
    return np.take(ordered, np.arange(cut, count - cut), axis=axis).mean(axis=axis)


def geometric_mean(values: Any, axis: int = -1) -> np.ndarray:
    """The n-th root of the product of n positive values; raises ValueError where one is not positive."""
    values = np.asarray(values, dtype=np.float64)
    if values.shape[axis] == 0 or not np.all(values > 0):
        raise ValueError("a geometric mean needs positive values")
    return np.exp(np.log(values).mean(axis=axis))


def bootstrap_interval(
    scores: Scores | Sequence[float],
    statistic: Statistic = interquartile_mean,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of `statistic` over the pooled values, resampling the runs within each task.

    Args:
      scores: task -> values; a plain sequence is one task.
      statistic: reduces an axis, such as `interquartile_mean`.
      seed: of the resampling.
      resamples: how many.
      confidence: the interval's share of the resamples.

    Returns:
      (low, high).
    """
    generator = np.random.default_rng(seed)
    tasks = scores.values() if isinstance(scores, Mapping) else [scores]
    pooled = np.concatenate([_resampled(task, resamples, generator) for task in tasks], axis=1)
    return _percentiles(statistic(pooled, axis=-1), confidence)


def probability_of_improvement(scores: Scores, baseline: Scores) -> float:
    """P(a run of one method beats a run of the other on the same task), a tie counting half, averaged over tasks.

    Larger is better; negate costs. Both must hold the same tasks.
    """
    if set(scores) != set(baseline) or not scores:
        raise ValueError("both methods need the same tasks, at least one")
    return float(np.mean([_wins(np.asarray(scores[t])[None], np.asarray(baseline[t])[None])[0] for t in scores]))


def improvement_interval(
    scores: Scores, baseline: Scores, *, seed: int = 0, resamples: int = RESAMPLES, confidence: float = 0.95
) -> tuple[float, float]:
    """Stratified bootstrap interval of `probability_of_improvement`: (low, high)."""
    generator = np.random.default_rng(seed)
    wins = [
        _wins(_resampled(scores[task], resamples, generator), _resampled(baseline[task], resamples, generator))
        for task in scores
    ]
    return _percentiles(np.mean(wins, axis=0), confidence)


def summary_row(
    instance: str,
    method: str,
    metric: str,
    values: Sequence[float] | Scores,
    *,
    statistic: Statistic = interquartile_mean,
    seed: int = 0,
    **extra: Any,
) -> dict[str, Any]:
    """One tidy row: the statistic of the runs' values, its 95% interval, and their number.

    Args:
      values: one value per run, or task -> values for a row over several instances.
      **extra: further keys of the row.
    """
    pooled = np.concatenate([np.asarray(v, float) for v in values.values()]) if isinstance(values, Mapping) else values
    low, high = bootstrap_interval(values, statistic, seed=seed)
    row = {"instance": instance, "method": method, "metric": metric, "value": float(statistic(pooled))}
    return {**row, "low": low, "high": high, "n": len(pooled), **extra}


def _resampled(values: Sequence[float], resamples: int, generator: np.random.Generator) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError("each task needs at least one run")
    return values[generator.integers(0, len(values), size=(resamples, len(values)))]


def _wins(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Shapes [b, n], [b, m] -> [b]: the share of pairs in which the first is larger, ties half."""
    difference = np.sign(values[:, :, None] - others[:, None, :])
    return (difference.mean(axis=(1, 2)) + 1) / 2


def _percentiles(samples: np.ndarray, confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2 * 100
    low, high = np.percentile(samples, [tail, 100 - tail])
    return float(low), float(high)
