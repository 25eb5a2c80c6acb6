"""The set ``mcm-graphs``: paper 2's 87 convolutional and recurrent networks, and how experiments get at them.

Files hold the graphs as traced. Methods partition the folded ones (`mcm.fold`), which `load` returns; ``chips`` and all
measured facts are of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from learned_mapping.companion.datasets.manifest import FILE_NAME, Item, Manifest, read_manifest, stored_item
from learned_mapping.companion.datasets.mcm_facts import facts
from learned_mapping.companion.datasets.mcm_members import SPLITS, generate, members
from learned_mapping.companion.datasets.registry import SETS
from learned_mapping.companion.datasets.topology import topology_digest
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.programs.formats import read_graph, write_graph
from learned_mapping.programs.graph import ComputationGraph

SET = SETS["mcm-graphs"]


def build(folder: Path, *, progress: Callable[[int, int], None] | None = None) -> Manifest:
    """Traces the table of `mcm_members` into ``FOLDER/SPLIT/NAME.json.gz``; there is no randomness. About a minute."""
    items: list[Item] = []
    table = members()
    for name, (split, family) in table.items():
        graph = generate(name)
        file = f"{split}/{name}.json.gz"
        write_graph(Path(folder) / file, graph)
        kind = SPLITS[split][family].kind
        measured = {"family": family, "kind": kind, **facts(graph), "topology": topology_digest(graph)}
        items.append(stored_item(folder, file, graph, split=split, **measured))
        if progress is not None:
            progress(len(items), len(table))
    counts = Counter(item.split for item in items)
    found = {f"graphs_{split}": counts[split] for split in SPLITS}
    return Manifest(SET.name, SET.about, None, tuple(items), found)


@lru_cache(maxsize=1)
def manifest() -> Manifest:
    """The stored manifest; raises `InputError` where it is missing or damaged."""
    return read_manifest(SET.path / FILE_NAME)


def names(split: str | None = None) -> tuple[str, ...]:
    """The graphs of a split, ``train``, ``validation`` or ``test``, in the order of the table; all where None."""
    return tuple(item.name for item in manifest().items if split in (None, item.split))


@lru_cache(maxsize=128)
def load(name: str) -> ComputationGraph:
    """The stored graph of this name, cheap sources folded; raises `InputError` where there is none."""
    return fold_cheap_sources(load_unfolded(name))


def load_unfolded(name: str) -> ComputationGraph:
    """The stored graph of this name, as traced; raises `InputError` where there is none."""
    return read_graph(SET.path / str(manifest().item(name).file))


def chips(name: str) -> int:
    """How many chips this graph is partitioned over, by the rule of `mcm_chips`."""
    return int(manifest().item(name).facts["chips"])


def rows(stored: Manifest | None = None) -> list[dict[str, Any]]:
    """One row per split, for a table: counts, ranges as (smallest, median, largest), and the graphs per chip count.

    Greedy rules are per cent above the optimum, medians over the graphs whose optimum is known (``exact``).
    """
    stored = manifest() if stored is None else stored
    return [_row(split, stored.split(split)) for split in SPLITS]


def _row(split: str, items: tuple[Item, ...]) -> dict[str, Any]:
    def all_of(fact: str, chosen: tuple[Item, ...] = items) -> list:
        return [item.facts[fact] for item in chosen]

    def spread(fact: str) -> tuple[float, float, float]:
        values = all_of(fact)
        return min(values), round(median(values), 3), max(values)

    exact = tuple(item for item in items if item.facts["exact"])
    kinds = Counter(all_of("kind"))
    return {
        "split": split,
        "graphs": len(items),
        **{kind: kinds[kind] for kind in ("convolutional", "recurrent")},
        "families": len(set(all_of("family"))),
        "ops": spread("ops"),
        "edges": spread("edges"),
        "gflop": spread("gflop"),
        "parameters": spread("parameters"),
        "longest chain, chips": spread("longest_chain_chips"),
        "chips": dict(sorted(Counter(all_of("chips")).items())),
        "exact": len(exact),
        "naive greedy above the optimum, %": round(median(all_of("greedy_naive_above_percent", exact)), 1),
        "careful greedy above the optimum, %": round(median(all_of("greedy_careful_above_percent", exact)), 1),
    }
