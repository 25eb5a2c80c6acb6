"""Curves over samples: the geometric mean over graphs, samples until it reaches a level, intervals over the seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from learned_mapping.companion.statistics import RESAMPLES

Record = dict[str, Any]
LEAST = 1e-12
"""In place of 0, which has no logarithm: what cannot run."""


def best_so_far(curve: Record, samples: int) -> np.ndarray:
    """[samples] the best value after 1, 2, ..., `samples` samples, from a curve of `Budget`."""
    found = np.searchsorted(curve["samples"], np.arange(1, samples + 1), side="right") - 1
    return np.asarray(curve["y"], float)[np.maximum(found, 0)]


def log_curves(records: Sequence[Record], unit: Mapping[str, float], samples: int) -> np.ndarray:
    """[G, S, samples] logarithms of throughput over `unit`, by graph and seed; every graph needs as many seeds."""
    by_graph: dict[str, list[np.ndarray]] = {}
    for record in records:
        name = record["instance"]
        value = best_so_far(record["result"]["curve"], samples) / unit[name]
        by_graph.setdefault(name, []).append(np.log(np.maximum(value, LEAST)))
    return np.array(list(by_graph.values()))


def reached(mean: np.ndarray, level: float) -> np.ndarray:
    """[...] samples until curves [..., samples] are at least `level`; one more than there are where they never are."""
    above = mean >= level * (1 - 1e-9)
    return np.where(above.any(-1), above.argmax(-1) + 1, mean.shape[-1] + 1)


def resampled_means(logs: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES // 4) -> np.ndarray:
    """[resamples, samples] geometric means over graphs and seeds, the seeds of each graph drawn anew."""
    graphs, seeds, _ = logs.shape
    rng, found = np.random.default_rng(seed), []
    for _ in range(resamples):
        chosen = rng.integers(0, seeds, (graphs, seeds))
        found.append(np.exp(logs[np.arange(graphs)[:, None], chosen].mean((0, 1))))
    return np.array(found)


def level_row(method: str, level: float, target: str, logs: np.ndarray, instance: str, **extra: Any) -> Record:
    """Samples until the geometric mean reaches a level: None where it does not, with the interval over the seeds.

    ``censored`` and its ends count one more than the budget where a level is not reached, so that a ratio is a bound.
    """
    samples = logs.shape[-1]
    value = int(reached(np.exp(logs.mean((0, 1))), level))
    low, high = np.percentile(reached(resampled_means(logs), level), (2.5, 97.5))
    row = {"instance": instance, "method": method, "metric": "samples", "target": target, "censored": value}
    row |= {"censored_low": float(low), "censored_high": float(high)}
    ends = {"low": _known(low, samples), "high": _known(high, samples)} if value <= samples else {}
    return {**row, "value": _known(value, samples), **ends, "n": int(logs.shape[1]), **extra}


def _known(count: float, samples: int) -> float | None:
    return None if count > samples else float(count)


def curve_of(mean: np.ndarray, points: int = 60) -> Record:
    """A curve as a row keeps it, at about evenly spaced logarithms of the number of samples."""
    x = np.unique(np.round(np.geomspace(1, len(mean), points)).astype(int))
    return {"x": x.tolist(), "y": np.round(mean[x - 1], 6).tolist(), "x_unit": "samples"}


def at_least(row: Record) -> Record:
    """The row ``samples_at_least`` of a row of `level_row`, with its interval."""
    key = {name: row[name] for name in ("instance", "method", "target", "n")}
    ends = {"value": row["censored"], "low": row["censored_low"], "high": row["censored_high"]}
    return {**key, "metric": "samples_at_least", **ends}
