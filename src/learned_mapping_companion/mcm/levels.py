"""Curves over samples: the geometric mean over graphs, samples until it reaches a level, and the
tables of levels."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from learned_mapping_companion import results
from learned_mapping_companion.display import Html, grid, provenance_line
from learned_mapping_companion.statistics import RESAMPLES, drawn_anew, drawn_tasks
from learned_mapping_companion.table import Record, Records, Row, by, interval_row, row

SECONDS_A_SAMPLE = 26.97  # How long the paper's package takes for one (section 5.3).
LEAST = 1e-12  # In place of 0, which has no logarithm: what cannot run.


def best_so_far(curve: Record, samples: int) -> np.ndarray:
    """[samples] the best value after 1, 2, ..., `samples` samples, from a curve of `Budget`."""
    place = np.searchsorted(curve["samples"], np.arange(1, samples + 1), side="right") - 1
    return np.asarray(curve["y"], float)[np.maximum(place, 0)]


def log_curves(records: Records, unit: Mapping[str, float], samples: int) -> np.ndarray:
    """[G, S, samples] logarithms of throughput over `unit`, by graph and seed; every graph needs as
    many seeds."""
    curves = {
        name: [best_so_far(record["result"]["curve"], samples) / unit[name] for record in group]
        for name, group in by(records, "instance").items()
    }
    return np.log(np.maximum(np.array(list(curves.values())), LEAST))


def reached(mean: np.ndarray, level: float) -> np.ndarray:
    """[...] samples until curves [..., samples] are at least `level`; one more than there are where
    they never are."""
    above = mean >= level * (1 - 1e-9)
    return np.where(above.any(-1), above.argmax(-1) + 1, mean.shape[-1] + 1)


def end_row(
    instance: str,
    method: str,
    metric: str,
    logs: np.ndarray,
    trainings: Sequence[int] | None = None,
    **cells: Any,
) -> Row:
    """The geometric mean after the last sample, with the interval over trainings, if any, graphs
    and seeds, all drawn anew."""
    (graphs, seeds, samples), last = logs.shape, logs[..., -1]
    means = drawn_anew(last, drawn_tasks(graphs), np.random.default_rng(1), trainings).mean((1, 2))
    low, high = np.exp(np.percentile(means, (2.5, 97.5)))
    cells |= {"low": low, "high": high, "n": seeds, "graphs": graphs, "samples": samples}
    return row(instance, method, metric, np.exp(last.mean()), **cells)


def level_row(
    method: str,
    level: float,
    target: str,
    logs: np.ndarray,
    instance: str,
    trainings: Sequence[int] | None = None,
) -> Row:
    """Samples until the geometric mean reaches a level, None where it does not; the interval is
    over trainings, if any, and seeds.

    ``censored`` and its ends count one more than the budget where a level is not reached, so that a
    ratio is a bound.
    """
    samples = logs.shape[-1]
    value = int(reached(np.exp(logs.mean((0, 1))), level))
    # all graphs, each's seeds drawn anew
    rng, graphs = np.random.default_rng(0), np.arange(len(logs))[None]
    means = [
        np.exp(drawn_anew(logs, graphs, rng, trainings).mean((0, 1, 2)))
        for _ in range(RESAMPLES // 4)
    ]
    low, high = np.percentile(reached(np.array(means), level), (2.5, 97.5)).tolist()
    cells = {"censored": value, "censored_low": low, "censored_high": high, "target": target}
    cells |= (
        {"low": _known(low, samples), "high": _known(high, samples)} if value <= samples else {}
    )
    cells["n"] = logs.shape[1]
    return row(instance, method, "samples", _known(value, samples), **cells)


def _known(count: float, samples: int) -> float | None:
    return None if count > samples else float(count)


def curve_of(mean: np.ndarray) -> Record:
    """A curve as a row keeps it, at about evenly spaced logarithms of the number of samples."""
    x = np.unique(np.round(np.geomspace(1, len(mean), 60)).astype(int))
    return {"x": x.tolist(), "y": np.round(mean[x - 1], 6).tolist(), "x_unit": "samples"}


def at_least(level: Row) -> Row:
    """The row ``samples_at_least`` of a row of `level_row`, with its interval."""
    ends = [level[name] for name in ("censored", "censored_low", "censored_high")]
    cells = {name: level[name] for name in ("target", "n")}
    return interval_row(level["instance"], level["method"], "samples_at_least", ends, **cells)


def level_table(
    result: Record,
    caption: str,
    *,
    levels: Collection[str] | None = None,
    paper_seconds_a_sample: float | None = None,
) -> Html:
    """Samples to every level by method, or to those of `levels`; a dash is a level not reached, an
    empty cell one that was not tried, or the paper's alone. Rows ``minutes`` stand beside the
    samples; the paper's become minutes by `paper_seconds_a_sample`."""
    ours = _by_method_and_level(results.select(result, metric="samples"))
    minutes = _by_method_and_level(results.select(result, metric="minutes"))
    paper = _by_method_and_level(results.select(result, "paper", metric="samples"))
    keys = [key for key in dict.fromkeys((*ours, *paper)) if levels is None or key[1] in levels]
    down, across = (list(dict.fromkeys(key[place] for key in keys)) for place in (0, 1))
    reached_by = {key[1] for key in keys if ours.get(key) is not None}
    missed = [level for level in across if level not in reached_by]
    cells = {}
    for key in keys:
        known = key in ours and key[1] not in missed
        lines = [_amount(ours[key], minutes.get(key))] if known else []
        if key in paper:
            count = paper[key]
            took = (
                None
                if None in (count, paper_seconds_a_sample)
                else count * paper_seconds_a_sample / 60
            )
            lines.append(f'<span class="lm-paper">paper {_amount(count, took)}</span>')
        cells[key] = Html("<br>".join(lines))
    if missed:
        caption += f"; ours reach none of {', '.join(missed)}"
    return grid(caption, down, across, cells, key=True)


def _by_method_and_level(rows: Iterable[Row]) -> dict[tuple[str, str], float | None]:
    return {(row["method"], row["target"]): row["value"] for row in rows}


def _amount(samples: float | None, minutes: float | None) -> str:
    """``36, 16.2 min``; a dash where there are no samples."""
    if samples is None:
        return "–"
    return f"{samples:,.0f}" if minutes is None else f"{samples:,.0f}, {minutes:.1f} min"


def level_tables(result: Record, captions: Sequence[str]) -> Html:
    """`level_table` of a result with its provenance: one table, or by two captions that of the
    levels that are plain numbers and that of those in per cent. Where ours has minutes, so has the
    paper's."""
    targets = dict.fromkeys(row["target"] for row in results.select(result, metric="samples"))
    plain = [target for target in targets if "%" not in target]
    parts = [plain, [t for t in targets if t not in plain]] if len(captions) == 2 else [None]
    timed = SECONDS_A_SAMPLE if results.select(result, metric="minutes") else None
    pairs = zip(captions, parts)
    tables = [
        level_table(result, caption, levels=part, paper_seconds_a_sample=timed)
        for caption, part in pairs
    ]
    return Html("".join(tables) + provenance_line(result))
