"""The graphs paper 3 is measured on: traced models and synthetic ones; the best schedules known."""

import functools
from collections import Counter
from pathlib import Path

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder, kept_while_unchanged
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import read_json
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping_companion.artifact import Record
from learned_mapping_companion.datasets.registry import SETS, stored_manifest

DATASETS = {
    "traced-runtime": ("traced", "runtime"),
    "traced-memory": ("traced", "memory"),
    "synthetic-runtime": ("synthetic", "runtime"),
}
"""Name as in table 1 -> (graphs, objective)."""

SYNTHETIC_OPS = {
    "test": (20, 30, 40, 55, 70, 85, 100, 120, 140, 170, 200, 240, 290, 350, 420, 500),
    "train": (25, 40, 60, 80, 100, 130, 160, 200, 250, 300),
    "small": (8, 10, 12, 14, 16, 18, 20, 24),
    "twenty": (20,) * 20,
}
"""Split -> sizes; the families take turns. ``small`` and ``twenty`` are for exact optima."""
UNTOUCHED, FRESH, DISTANCE = "regal-test", "regal-fresh", "regal-distance"
"""The data sets of the held-out test graphs, of those that came after them, and of those at growing
distance."""


def members(name: str, of: str = DISTANCE) -> tuple[str, ...]:
    """The members of a set of graphs, in order; raises `InputError` where there is no such set."""
    names = tuple(
        item.facts["member"] for item in stored_manifest(of).items if item.facts["set"] == name
    )
    if not names:
        raise InputError("set", "", f"no set of graphs is named {name!r}")
    return names


def graph_of(name: str, member: str, of: str = DISTANCE) -> ComputationGraph:
    """A graph of a set; raises `InputError` where there is none, or its file is damaged."""
    if member not in members(name, of):
        raise InputError("member", member, f"is not in the set {name}")
    return read_graph(SETS[of].path / name / f"{member}.json.gz")


def graph_names(kind: str, split: str = "test") -> tuple[str, ...]:
    """The graphs of a split of a set, in the set's order or that of size.

    The set is ``traced`` or ``synthetic``, whose test graphs the methods were developed beside; or
    one of `DATASETS`, whose graphs are those of `UNTOUCHED`, or of `FRESH` where that is the split.
    """
    if kind in DATASETS:
        return members(kind, FRESH if split == "fresh" else UNTOUCHED)
    if kind == "traced":
        return tuple(item.name for item in stored_manifest("regal-graphs").split(split))
    names, turns = [], Counter()
    for i, ops in enumerate(SYNTHETIC_OPS[split]):
        name = f"{_family(i)}-{ops}"
        turns[name] += 1
        names.append(name if turns[name] == 1 else f"{name}-{turns[name]}")
    return tuple(names)


def family_of(dataset: str, member: str) -> str:
    """The architecture, or the generator, that a graph of a dataset's test set is of."""
    if DATASETS[dataset][0] == "traced":
        return str(stored_manifest("regal-traced").item(member).facts["family"])
    return str(stored_manifest("regal-synthetic").item(f"test-{int(member):04d}").facts["family"])


def _family(i: int) -> str:
    """The family of the i-th graph of a synthetic split."""
    return sorted(GRAPH_FAMILIES)[i % len(GRAPH_FAMILIES)]


@functools.lru_cache(maxsize=64)
def load_graph(kind: str, name: str, split: str = "test") -> ComputationGraph:
    """One graph of a set; raises `InputError` where there is none of this name."""
    names = graph_names(kind, split)
    if name not in names:
        raise InputError("graph", name, f"is not in the {kind} {split} set: {', '.join(names)}")
    if kind in DATASETS:
        return graph_of(kind, name, FRESH if split == "fresh" else UNTOUCHED)
    if kind == "traced":
        return read_graph(SETS["regal-graphs"].path / split / f"{name}.json.gz")
    i = names.index(name)
    rng = np.random.default_rng([2019, sorted(SYNTHETIC_OPS).index(split), i])
    return random_graph(rng, _family(i), SYNTHETIC_OPS[split][i], name=name)


BEST_SCHEMA = "best-schedules"


def best_path(kind: str, objective: str, split: str = "test") -> Path:
    """The file of a set of graphs, as `graph_names` knows it."""
    name = f"{kind}-{objective}" if split == "test" else f"{split}-{kind}-{objective}"
    return data_folder() / "regal" / "best" / f"{name}.json.gz"


def best_entries(kind: str, objective: str, split: str = "test") -> dict[str, Record]:
    """Graph -> ``digest``, ``cost`` and ``bound`` (seconds or bytes), ``method``, ``placement``,
    ``order``."""
    path = best_path(kind, objective, split)
    return _read(path) if path.exists() else {}


@kept_while_unchanged
def _read(path: Path) -> dict[str, Record]:
    return read_json(path, BEST_SCHEMA).value["graphs"]
