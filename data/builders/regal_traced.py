"""The set ``regal-traced``: graphs of the zoo in the configurations of `regal_traced_table`, for
paper 3."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping_companion.datasets.manifest import SPLITS, Item, Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress

from .building import Items, as_json
from .regal_traced_graphs import AUGMENTED, SEED, SPREAD, member, pair, trace_configuration
from .regal_traced_table import CONFIGURATIONS, SPLIT_OF_FAMILY
from .topology import topology_digest

NAME = "regal-traced"
SMALLEST, LARGEST = 20, 600
"""Ops."""
SAMPLES = 8  # Members of each split of an augmented set whose digests stand for all.


def build(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Traces all configurations into ``FOLDER/SPLIT/NAME.json.gz``: about a minute of one core.

    Raises:
      InputError: a graph is too small, too large, or has the topology of an earlier one.
    """
    items = Items(folder, len(CONFIGURATIONS), progress)
    graphs: dict[str, ComputationGraph] = {}
    seen: dict[str, str] = {}
    for split in SPLITS:
        for chosen in (entry for entry in CONFIGURATIONS if SPLIT_OF_FAMILY[entry.family] == split):
            name, graph = chosen.name, trace_configuration(chosen)
            graphs[name] = graph
            topology = topology_digest(graph)
            if not SMALLEST <= graph.num_ops <= LARGEST:
                raise InputError(
                    f"set {NAME}", name, f"{graph.num_ops} ops, outside [{SMALLEST}, {LARGEST}]"
                )
            if topology in seen:
                raise InputError(f"set {NAME}", name, f"has the topology of {seen[topology]}")
            seen[topology] = name
            facts = {"family": chosen.family, "model": chosen.model, "mode": chosen.mode}
            facts |= {"options": as_json(chosen.options), "topology": topology}
            facts |= {"ops": graph.num_ops, "tensors": graph.num_tensors, "edges": graph.num_edges}
            items.add(f"{split}/{name}.json.gz", graph, split=split, **facts)
    facts = _facts(items) | {"augmented": augmented_facts(graphs)}
    return Manifest(NAME, SETS[NAME].about, SEED, tuple(items), facts)


def _facts(items: list[Item]) -> dict[str, Any]:
    families = {
        family: sum(item.facts["family"] == family for item in items) for family in SPLIT_OF_FAMILY
    }
    return {
        "graphs": {split: sum(item.split == split for item in items) for split in SPLITS},
        "graphs_by_family": families,
        "split_of_family": dict(SPLIT_OF_FAMILY),
        "noise_log_standard_deviation": SPREAD,
    }


def augmented_facts(graphs: Mapping[str, ComputationGraph]) -> dict[str, Any]:
    """What a manifest says of the augmented sets: members, noise, and digests of a sample; `graphs`
    by name."""
    facts: dict[str, Any] = {}
    for dataset, splits in AUGMENTED.items():
        facts[dataset] = {
            "members": dict(splits),
            "sample": {split: sample(dataset, split) for split in splits},
            "sample_digest": {split: sample_digest(dataset, split, graphs) for split in splits},
        }
    return facts


def sample(dataset: str, split: str) -> list[int]:
    """`SAMPLES` indices spread evenly from the first to the last member."""
    last = AUGMENTED[dataset][split] - 1
    return [last * i // (SAMPLES - 1) for i in range(SAMPLES)]


def sample_digest(dataset: str, split: str, graphs: Mapping[str, ComputationGraph]) -> str:
    """SHA-256 over the digests of the members that `sample` lists, a line each."""
    names = [entry.name for entry in CONFIGURATIONS if SPLIT_OF_FAMILY[entry.family] == split]
    pairs = [pair(dataset, split, i, names) for i in sample(dataset, split)]
    members = (member(graphs[name], dataset, seed) for name, seed in pairs)
    return hashlib.sha256("".join(entry.digest + "\n" for entry in members).encode()).hexdigest()
