"""Paper 2's graphs, as its methods get them: BERT and others of ``data/graphs``, and the set ``mcm-graphs``.

Files hold the graphs as traced. Methods partition the folded ones (`mcm.rules.fold`), which `load_graph` returns.
"""

from functools import lru_cache

from learned_mapping.companion.datasets.manifest import Manifest
from learned_mapping.companion.datasets.registry import SETS, stored_manifest
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.graph import ComputationGraph


def manifest() -> Manifest:
    """Of the set ``mcm-graphs``; raises `InputError` where it is missing or damaged."""
    return stored_manifest("mcm-graphs")


def names(split: str | None = None) -> tuple[str, ...]:
    """The set's graphs of a split, ``train``, ``validation`` or ``test``, in order; all where None."""
    return tuple(item.name for item in manifest().items if split in (None, item.split))


def chips(name: str) -> int:
    """How many chips a graph of the set is partitioned over, by a rule that looks at the graph alone."""
    return int(manifest().item(name).facts["chips"])


@lru_cache(maxsize=128)
def load_graph(name: str) -> ComputationGraph:
    """The graph of this name, of the set or of ``data/graphs``, cheap sources folded; raises `InputError` for none."""
    file = next((item.file for item in manifest().items if item.name == name), None)
    path = SETS["graphs"].path / f"{name}.json.gz" if file is None else SETS["mcm-graphs"].path / file
    return fold_cheap_sources(read_graph(path))
