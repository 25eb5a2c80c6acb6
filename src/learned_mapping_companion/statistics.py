"""Statistics over a handful of seeds: interquartile means, stratified bootstrap intervals,
probability of improvement.

After "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (Agarwal et al., 2021).
Scores come per task (an instance) as the values of its runs (seeds). Every statistic takes the axis
to reduce, so that the bootstrap evaluates all resamples at once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Scores = Mapping[str, Sequence[float]]  # Task -> the values of its runs.
Statistic = Callable[..., np.ndarray]

RESAMPLES = 2000
CONFIDENCE = 0.95  # Of an interval: its share of the resamples.


def interquartile_mean(values: Any, axis: int = -1) -> np.ndarray:
    """The mean of what is left when a quarter of the values, rounded down, is cut off at each end.

    With 5 values it is the mean of the middle three, with 3 the plain mean.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=axis)
    count = ordered.shape[axis]
    if count == 0 or np.isnan(ordered).any():
        raise ValueError("the interquartile mean of no values, or of what is no number")
    cut = count // 4
    return np.take(ordered, np.arange(cut, count - cut), axis=axis).mean(axis=axis)


def geometric_mean(values: Any, axis: int = -1) -> np.ndarray:
    """The n-th root of the product of n values; raises ValueError where one is not positive."""
    values = np.asarray(values, dtype=np.float64)
    if values.shape[axis] == 0 or not np.all(values > 0):
        raise ValueError("a geometric mean needs positive values")
    return np.exp(np.log(values).mean(axis=axis))


def bootstrap_interval(
    scores: Scores | Sequence[float], statistic: Statistic = interquartile_mean
) -> tuple[float, float]:
    """95% percentile interval (low, high) of `statistic`, which reduces an axis, over the pooled
    values, the runs of each task drawn anew; a plain sequence is one task."""
    generator = np.random.default_rng(0)
    tasks = scores.values() if isinstance(scores, Mapping) else [scores]
    pooled = np.concatenate([_resampled(task, generator) for task in tasks], axis=1)
    return percentiles(statistic(pooled, axis=-1))


def drawn_tasks(count: int) -> np.ndarray:
    """[`RESAMPLES`, count] numbers of tasks drawn anew; the same at every call, so that all methods
    share them."""
    return np.random.default_rng(0).integers(0, count, size=(RESAMPLES, count))


def drawn_families(families: Sequence[str]) -> np.ndarray:
    """[`RESAMPLES`, tasks] how often each task is drawn, given the family of each: families drawn
    anew, and within each draw its tasks anew; the same at every call. Few families, of tasks that
    are alike, make a wide interval."""
    generator, labels = np.random.default_rng(2), np.array(families)
    members = [np.flatnonzero(labels == family) for family in dict.fromkeys(families)]
    counts = np.zeros((RESAMPLES, len(labels)))
    for row in counts:
        for family in generator.integers(0, len(members), len(members)):
            np.add.at(row, generator.choice(members[family], len(members[family])), 1.0)
    return counts


def drawn_anew(
    values: np.ndarray,
    tasks: np.ndarray,
    generator: np.random.Generator,
    trainings: Sequence[int] | None = None,
) -> np.ndarray:
    """[b, n, runs, ...] of values [tasks, runs, ...]: those of the tasks [b, n] drawn, as by
    `drawn_tasks`, and, within each, of its runs drawn anew. Methods that are compared share the
    tasks.

    Args:
      trainings: the number of the training behind each run, of a method that was trained before it
        met the tasks. Then trainings are drawn anew first, the same for every task, as many as
        there are, and of each its runs.
    """
    if trainings is None:
        runs = generator.integers(0, values.shape[1], size=(*tasks.shape, values.shape[1]))
        return values[tasks[..., None], runs]
    members = [
        np.flatnonzero(np.asarray(trainings) == number) for number in dict.fromkeys(trainings)
    ]
    # every training drawn has as many runs
    count = len(members) * -(-values.shape[1] // len(members))
    drawn = generator.integers(0, len(members), size=(len(tasks), len(members)))
    drawn = np.repeat(drawn, count // len(members), axis=1)[:, None]
    sizes, padded = (
        np.array([len(runs) for runs in members]),
        np.zeros((len(members), values.shape[1]), int),
    )
    for number, runs in enumerate(members):
        padded[number, : len(runs)] = runs
    places = generator.integers(0, sizes[drawn], size=(*tasks.shape, count))
    return values[tasks[..., None], padded[drawn, places]]


def resampled_means(
    scores: Scores,
    tasks: np.ndarray,
    generator: np.random.Generator,
    trainings: Sequence[int] | None = None,
) -> np.ndarray:
    """[b] means over what is `drawn_anew` of the values of each task, of every task as many."""
    return drawn_anew(
        np.array(list(scores.values()), dtype=np.float64), tasks, generator, trainings
    ).mean(axis=(1, 2))


def mean_over_tasks(scores: Scores) -> tuple[float, float, float]:
    """(value, low, high) of the mean over tasks of a task's mean, however many runs each has;
    stratified bootstrap."""
    generator = np.random.default_rng(0)
    drawn = [_resampled(values, generator).mean(axis=1) for values in scores.values()]
    return float(np.mean([np.mean(values) for values in scores.values()])), *percentiles(
        np.mean(drawn, axis=0)
    )


def probability_of_improvement(scores: Scores, baseline: Scores) -> float:
    """P(a run of one method beats a run of the other on the same task), a tie counting half,
    averaged over tasks.

    Larger is better; negate costs. Both must hold the same tasks.
    """
    _check_tasks(scores, baseline)
    return float(
        np.mean(
            [_wins(np.asarray(scores[t])[None], np.asarray(baseline[t])[None])[0] for t in scores]
        )
    )


def improvement_interval(scores: Scores, baseline: Scores) -> tuple[float, float]:
    """Stratified bootstrap interval of `probability_of_improvement`: (low, high)."""
    _check_tasks(scores, baseline)
    generator = np.random.default_rng(0)
    wins = [
        _wins(*(_resampled(side[task], generator) for side in (scores, baseline)))
        for task in scores
    ]
    return percentiles(np.mean(wins, axis=0))


Trainings = tuple[Sequence[int] | None, Sequence[int] | None]
"""Of the two methods of a contrast, the training behind each run, or None of a method that learns
in its runs alone."""


def mean_ratio(
    scores: Scores,
    baseline: Scores,
    *,
    over_tasks: bool = False,
    trainings: Trainings = (None, None),
) -> tuple[float, float, float] | None:
    """(value, low, high) of one method's mean over the other's, geometric mean over tasks;
    stratified bootstrap.

    With `over_tasks` the tasks are drawn anew too, the same for both methods, not only the runs of
    each; and first of all `trainings`, where a method was trained. None where a run's value is not
    positive: its ratio would say nothing.
    """
    if any(min(values) <= 0 for both in (scores, baseline) for values in both.values()):
        return None
    value, low, high = (
        float(np.exp(end)) for end in _contrast(np.log, scores, baseline, over_tasks, trainings)
    )
    return value, low, high


def ratio_over_families(
    scores: Scores, baseline: Scores, families: Mapping[str, str]
) -> tuple[float, float, float] | None:
    """The mean ratio over tasks, with families, which tasks are given, drawn anew first, then
    tasks of each family, then runs of each task."""
    ratio = mean_ratio(scores, baseline)
    if ratio is None:
        return None
    generator, groups = np.random.default_rng(2), {}
    for task in scores:
        groups.setdefault(families[task], []).append(task)
    sides = {
        task: [
            np.log(_resampled(side[task], generator).mean(axis=1)) for side in (scores, baseline)
        ]
        for task in scores
    }
    gains = {task: ours - theirs for task, (ours, theirs) in sides.items()}  # [RESAMPLES] each
    names, draws = list(groups), generator.integers(0, len(groups), size=(RESAMPLES, len(groups)))
    means = np.zeros(RESAMPLES)
    for i in range(RESAMPLES):
        drawn = [
            t for f in draws[i] for t in generator.choice(groups[names[f]], len(groups[names[f]]))
        ]
        means[i] = np.mean([gains[task][i] for task in drawn])
    return ratio[0], *percentiles(np.exp(means))


def mean_difference(
    scores: Scores, baseline: Scores, *, over_tasks: bool = False
) -> tuple[float, float, float]:
    """The difference of two means, averaged over tasks, with its interval as `mean_ratio` has it,
    but never None."""
    return _contrast(lambda mean: mean, scores, baseline, over_tasks)


def _contrast(
    of: Callable[[np.ndarray], np.ndarray],
    scores: Scores,
    baseline: Scores,
    over_tasks: bool,
    trainings: Trainings = (None, None),
) -> tuple[float, float, float]:
    """The mean over tasks of `of` one method's mean minus `of` the other's, and its interval."""
    _check_tasks(scores, baseline)
    pairs = [(scores[task], baseline[task]) for task in scores]
    value = float(np.mean([of(np.mean(ours)) - of(np.mean(theirs)) for ours, theirs in pairs]))
    if over_tasks:
        if any(len({len(runs) for runs in side}) > 1 for side in zip(*pairs)):
            raise ValueError(
                "tasks are drawn anew only where a method has equally many runs of each"
            )
        tasks, generator = drawn_tasks(len(scores)), np.random.default_rng(1)
        sides = [np.array(side, dtype=np.float64) for side in zip(*pairs)]
        # of one training both start, so both are drawn
        if trainings[0] is not None and trainings[0] == trainings[1]:
            both = drawn_anew(np.stack(sides, axis=-1), tasks, generator, trainings[0]).mean(axis=2)
            ours, theirs = of(both[..., 0]), of(both[..., 1])
        else:
            ours, theirs = (
                of(drawn_anew(v, tasks, generator, t).mean(axis=2))
                for v, t in zip(sides, trainings)
            )
        return value, *percentiles((ours - theirs).mean(axis=1))
    generator = np.random.default_rng(0)
    drawn = [[of(_resampled(side, generator).mean(axis=1)) for side in pair] for pair in pairs]
    return value, *percentiles(np.mean([ours - theirs for ours, theirs in drawn], axis=0))


def _check_tasks(scores: Scores, baseline: Scores) -> None:
    if set(scores) != set(baseline) or not scores:
        raise ValueError("both methods need the same tasks, at least one")


def _resampled(values: Sequence[float], generator: np.random.Generator) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError("each task needs at least one run")
    return values[generator.integers(0, len(values), size=(RESAMPLES, len(values)))]


def _wins(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Shapes [b, n], [b, m] -> [b]: the share of pairs in which the first is larger, ties half."""
    difference = np.sign(values[:, :, None] - others[:, None, :])
    return (difference.mean(axis=(1, 2)) + 1) / 2


def percentiles(samples: np.ndarray) -> tuple[float, float]:
    """(low, high), between which `CONFIDENCE` of the samples lie."""
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(samples, [tail, 100 - tail])
    return float(low), float(high)


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Pearson's correlation; None of fewer than three, and where one side does not vary."""
    return (
        None if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0 else float(np.corrcoef(x, y)[0, 1])
    )
