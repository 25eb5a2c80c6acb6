"""Tidy rows: from records of runs in a pandas frame to rows of one schema, summarised and
contrasted in one way.

A row has the names ``instance``, ``method`` and ``metric``, a ``value`` (a number; a word or
nothing where its metric says so), and where it has them the ends of its 95% interval, ``low`` and
``high``, the number of runs behind it, ``n``, their own ``values``, where a claim is of one
instance, and a ``curve``; further cells as its table needs them. `results.check_result` holds every
stored row to these types.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas

from learned_mapping_companion import statistics
from learned_mapping_companion.artifact import Record, Run
from learned_mapping_companion.statistics import (
    Scores,
    Statistic,
    bootstrap_interval,
    geometric_mean,
)

Row = Record
Rows = Iterable[Row]
Records = Sequence[Record]


def frame(records: Records) -> pandas.DataFrame:
    """A line per record: instance, method and seed, the cells of its result, and of its config
    (``config_X``)."""
    lines = [
        {**{f"config_{name}": cell for name, cell in record["config"].items()}, **record["result"]}
        | {name: record.get(name) for name in ("instance", "method", "seed")}
        for record in records
    ]
    return pandas.DataFrame(lines, dtype=object).infer_objects()


def grouped(records: Records) -> dict[tuple[str, str], list[Record]]:
    """(instance, method) -> its records, in their order; of a run with ``config["arm"]`` that is
    the method."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        method = record.get("config", {}).get("arm", record["method"])
        groups.setdefault((record["instance"], method), []).append(record)
    return groups


def column(records: Iterable[Record], name: str) -> list[Any]:
    """What the result of each record says of `name`."""
    return [record["result"][name] for record in records]


def by(entries: Iterable[Mapping[str, Any]], *keys: str) -> dict[Any, list[Any]]:
    """Value of a key, or values of several -> the rows or records that have it, in their order."""
    groups: dict[Any, list[Any]] = {}
    for entry in entries:
        groups.setdefault(
            entry[keys[0]] if len(keys) == 1 else tuple(entry[key] for key in keys), []
        ).append(entry)
    return groups


def sweep(
    task: str,
    methods: Iterable[str],
    instances: Iterable[str],
    config: Record | None = None,
    seeds: int = 1,
) -> list[Run]:
    """A run for each instance, method and seed, in this order, all with one configuration."""
    methods, config = list(methods), {} if config is None else config
    return [
        Run(task, m, i, config, seed) for i in instances for m in methods for seed in range(seeds)
    ]


def values_of(entries: Iterable[Row], *keys: str, **where: Any) -> dict[Any, Any]:
    """Value of a key, or values of several -> the ``value`` of the row that has it, among the rows
    whose cells equal `where`."""
    chosen = [e for e in entries if all(e.get(name) == cell for name, cell in where.items())]
    return {key: entry["value"] for key, (*_, entry) in by(chosen, *keys).items()}


def row(instance: str, method: str, metric: str, value: Any, **cells: Any) -> Row:
    """One row; NumPy's scalars become Python's."""
    entry = {"instance": instance, "method": method, "metric": metric, "value": value, **cells}
    return {
        name: cell.item() if isinstance(cell, np.generic) else cell for name, cell in entry.items()
    }


def rows(instance: str, method: str, values: Mapping[str, Any], **cells: Any) -> list[Row]:
    """A row per metric, with the same further cells."""
    return [row(instance, method, metric, value, **cells) for metric, value in values.items()]


def interval_row(
    instance: str, method: str, metric: str, interval: tuple[Any, Any, Any], **cells: Any
) -> Row:
    """A row of (value, low, high)."""
    value, low, high = interval
    return row(instance, method, metric, value, low=low, high=high, **cells)


def summary_row(
    instance: str,
    method: str,
    metric: str,
    values: Sequence[float] | Scores,
    *,
    statistic: Statistic = statistics.interquartile_mean,
    **cells: Any,
) -> Row:
    """The statistic of the runs' values, or of task -> values for a row over several instances; its
    95% interval, and their number."""
    pooled = (
        np.concatenate([np.asarray(v, float) for v in values.values()])
        if isinstance(values, Mapping)
        else values
    )
    interval = (float(statistic(pooled)), *bootstrap_interval(values, statistic))
    return interval_row(instance, method, metric, interval, n=len(pooled), **cells)


def summaries(
    instance: str, method: str, columns: Mapping[str, Sequence[float]], **options: Any
) -> list[Row]:
    """A `summary_row` per metric."""
    return [
        summary_row(instance, method, metric, values, **options)
        for metric, values in columns.items()
    ]


def mean_row(
    instance: str, method: str, metric: str, values: Sequence[float] | Scores, **cells: Any
) -> Row:
    """The row of a mean, as `summary_row` has it."""
    return summary_row(instance, method, metric, values, statistic=np.mean, **cells)


def gap_row(
    instance: str,
    method: str,
    metric: str,
    ratios: Sequence[float] | Scores,
    *,
    below: bool = False,
    **cells: Any,
) -> Row:
    """The row of the percent by which the geometric mean of ratios is above 1, or with `below`
    under it."""
    entry = summary_row(instance, method, metric, ratios, statistic=geometric_mean, **cells)
    value, low, high = (
        100 * (1 - entry[end] if below else entry[end] - 1) for end in ("value", "low", "high")
    )
    return entry | {"value": value, "low": high if below else low, "high": low if below else high}


def ratio_rows(
    instance: str,
    scores: Mapping[str, Scores],
    pairs: Iterable[tuple[str, str]],
    *,
    over_tasks: bool = False,
    trainings: Mapping[str, Sequence[int]] | None = None,
    **cells: Any,
) -> list[Row]:
    """Rows ``ratio`` of each pair (method, baseline) that both have scores and whose ratio says
    something, of method -> task -> the values of its runs; `over_tasks` as of `mean_ratio`,
    `trainings` by method."""
    entries = []
    for ours, other in pairs:
        ratio = None
        if {ours, other} <= set(scores):
            behind = tuple((trainings or {}).get(method) for method in (ours, other))
            ratio = statistics.mean_ratio(
                scores[ours], scores[other], over_tasks=over_tasks, trainings=behind
            )
        if ratio is not None:
            runs = len(next(iter(scores[ours].values())))
            entries.append(
                interval_row(instance, ours, "ratio", ratio, baseline=other, n=runs, **cells)
            )
    return entries
