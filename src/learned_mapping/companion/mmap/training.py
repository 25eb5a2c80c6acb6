"""Trainings of paper 1's agent: the records in ``data/training/mmap``, made by ``builders.training.mmap_muzero``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from learned_mapping.folders import data_folder
from learned_mapping.programs.json_io import read_json

SCHEMA = "learned-mapping/mmap-training/1"
CURVE_ROWS = 100
"""Of a learning curve that is stored, at most about."""
MEANS = ("hot", "cold", "dead_ends", "equal", "entropy", "value_error")
"""Columns of `mmap.agent.agent.ROW` that are averaged over the rows left out."""


def thinned(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A learning curve of about `CURVE_ROWS` of its rows, those with an evaluation among them."""
    every = max(-(-len(rows) // CURVE_ROWS), 1)
    kept, waiting = [], []
    for i, row in enumerate(rows, 1):
        waiting.append(row)
        if i % every and row["own_return"] is None and i < len(rows):
            continue
        means = {}
        for name in MEANS:
            values = [r[name] for r in waiting if r[name] is not None]
            means[name] = sum(values) / len(values) if values else None
        merged = row | means
        kept.append({k: round(v, 6) if isinstance(v, float) else v for k, v in merged.items()})
        waiting = []
    return kept


def trainings() -> list[dict[str, Any]]:
    """The stored trainings by program, method and seed: the record as it is, and ``method``, its name in the tables.

    Raises:
      InputError: a record is damaged.
    """
    found = []
    for path in sorted((data_folder() / "training" / "mmap").glob("*.json")):
        if path.name.endswith(".mapping.json"):
            continue
        node = read_json(path, "mmap-training")
        cells = node.mapping(100)
        for name in ("program", "seed", "config", "cpu_seconds", "games", "updates", "best_whole", "curve"):
            if name not in cells:
                node.fail(f"missing field {name!r}")
        cells["program"].string()
        cells["seed"].integer(0, 2**53)
        for row in cells["curve"].array(100_000):
            columns = row.mapping(100)
            for name in ("cpu_s", "cold", "best"):
                if name not in columns:
                    row.fail(f"missing field {name!r}")
                if columns[name].value is not None:
                    columns[name].number(-1e6, 1e9)
        found.append({**node.value, "method": _method(node.value["config"])})
    return sorted(found, key=lambda record: (record["program"], record["method"], record["seed"]))


def _method(config: dict[str, Any]) -> str:
    if config["frozen"]:
        return "muzero-frozen"
    if config["imitation"] == 1.0:
        return "learning-only"
    return "muzero-demonstration" if config["demonstration"] else "muzero"
