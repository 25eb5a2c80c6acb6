"""The best schedules known of the test graphs, stored with a bound each, so that anybody can beat or use them."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import expect_schema, read_json
from learned_mapping.regal.schedule import Schedule

SCHEMA = "best-schedules"


def path_of(kind: str, objective: str) -> Path:
    """The file of a set of graphs, as `graphs.graph_names` knows it."""
    return data_folder() / "regal" / "best" / f"{kind}-{objective}.json.gz"


def best_entries(kind: str, objective: str) -> dict[str, dict[str, Any]]:
    """Graph -> ``digest``, ``cost`` and ``bound`` (seconds or bytes), ``method``, ``placement``, ``order``."""
    path = path_of(kind, objective)
    return _read(str(path), path.stat().st_mtime_ns) if path.exists() else {}


@functools.lru_cache(maxsize=16)
def _read(path: str, changed: int) -> dict[str, dict[str, Any]]:
    node = read_json(path, SCHEMA)
    expect_schema(node, SCHEMA)
    return node.value["graphs"]


def best_schedule(kind: str, objective: str, name: str, graph: ComputationGraph) -> Schedule:
    """The best schedule known of a graph; raises `InputError` where none is stored, or it is of another graph."""
    entry, path = best_entries(kind, objective).get(name), path_of(kind, objective)
    if entry is None or entry["digest"] != graph.digest:
        raise InputError(path, name, "no schedule of this graph is stored")
    return Schedule.of(np.array(entry["placement"]), np.array(entry["order"]), entry["devices"])
