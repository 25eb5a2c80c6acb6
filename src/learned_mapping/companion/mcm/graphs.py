"""Paper 2's graphs, as its methods get them."""

from __future__ import annotations

from functools import lru_cache

from learned_mapping.folders import data_folder
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.graph import ComputationGraph


@lru_cache(maxsize=4)
def load_graph(name: str) -> ComputationGraph:
    """A graph of ``data/graphs``, cheap sources folded."""
    return fold_cheap_sources(read_graph(data_folder() / "graphs" / f"{name}.json.gz"))
