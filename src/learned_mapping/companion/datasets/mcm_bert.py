"""The set ``mcm-bert``: the large graph of paper 2, BERT (Section 5.3), with the same facts as the other 87.

Its file is the one of the set ``graphs``; `mcm_graphs.load_graph` reads it, folded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from learned_mapping import zoo
from learned_mapping.companion.datasets.manifest import Item, Manifest
from learned_mapping.companion.datasets.mcm_facts import facts
from learned_mapping.companion.datasets.registry import SETS
from learned_mapping.companion.datasets.topology import topology_digest

SET = SETS["mcm-bert"]
MEMBER = "bert_large_inference"
CHIPS = 36
"""The whole package (Section 5.1)."""
PAPER = {"ops": 2138, "parameters": 340_000_000}
"""What the paper says of its graph (Section 5.1); the parameters are "around 340 million"."""


def build(folder: Path, *, progress: Callable[[int, int], None] | None = None) -> Manifest:
    """Traces BERT and measures it; writes no file of its own. There is no randomness."""
    graph = zoo.graph(MEMBER)
    found = {"family": "bert", "kind": "attention", **facts(graph, CHIPS), "topology": topology_digest(graph)}
    item = Item(MEMBER, graph.digest, None, None, None, found)
    if progress is not None:
        progress(1, 1)
    return Manifest(SET.name, SET.about, None, (item,), {f"paper_{key}": value for key, value in PAPER.items()})
