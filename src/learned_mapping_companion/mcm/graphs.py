"""Paper 2's graphs, as its methods get them: BERT and others of ``data/graphs``, and the sets of
`SET_NAMES`.

Files hold the graphs as traced. Methods partition the folded ones (`mcm.rules.fold`), which
`load_graph` returns.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping_companion.datasets.manifest import Item
from learned_mapping_companion.datasets.registry import SETS, stored_manifest

# No two graphs share a name.
SET_NAMES = ("mcm-graphs", "mcm-headroom", "mcm-fresh", "mcm-wide", "mcm-cnn-rnn")
PLAIN, HEADROOM, FRESH, WIDE, CNN_RNN = SET_NAMES


def names(split: str | None = None, of: str = PLAIN) -> tuple[str, ...]:
    """The set's graphs of a split, in order; all where None."""
    return tuple(item.name for item in stored_manifest(of).items if split in (None, item.split))


def chips(name: str) -> int:
    """The number of chips of a graph of a set, by a rule that looks at the graph alone."""
    return int(facts(name)["chips"])


def is_known(name: str) -> bool:
    return _member(name) is not None


def family(name: str) -> str:
    """The architecture or the generator that a graph of a set is of."""
    return str(facts(name)["family"])


def facts(name: str) -> Mapping[str, Any]:
    _, item = _member(name) or (PLAIN, stored_manifest(PLAIN).item(name))
    return item.facts


def _member(name: str) -> tuple[str, Item] | None:
    """The set that has a graph of this name, and its item; None where none has."""
    return next(
        ((of, item) for of in SET_NAMES for item in stored_manifest(of).items if item.name == name),
        None,
    )


@lru_cache(maxsize=128)
def load_graph(name: str) -> ComputationGraph:
    """The graph of this name, of a set or of ``data/graphs``, cheap sources folded; raises
    `InputError` for none."""
    member = _member(name)
    path = (
        SETS[member[0]].path / member[1].file if member else SETS["graphs"].path / f"{name}.json.gz"
    )
    return fold_cheap_sources(read_graph(path))


def largest_op_bytes(name: str) -> int:
    """The most bytes that an operation of a graph takes with its inputs, outputs and weights."""
    graph = load_graph(name)
    return int((graph.op_input_bytes + graph.op_output_bytes + graph.op_weight_bytes).max())
