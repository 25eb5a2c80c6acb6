"""The graphs of ``data/mcm/graphs``, read without what builds them: runs on them do not rest on the builders."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from learned_mapping.folders import data_folder
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.graph import ComputationGraph


@lru_cache(maxsize=1)
def _items() -> dict[str, dict[str, Any]]:
    text = (data_folder() / "mcm" / "graphs" / "manifest.json").read_text()
    return {item["name"]: item for item in json.loads(text)["items"]}


def load(name: str) -> ComputationGraph:
    """A graph of the set, cheap sources folded."""
    return fold_cheap_sources(read_graph(data_folder() / "mcm" / "graphs" / str(_items()[name]["file"])))


def chips(name: str) -> int:
    """How many chips it is partitioned over."""
    return int(_items()[name]["chips"])
