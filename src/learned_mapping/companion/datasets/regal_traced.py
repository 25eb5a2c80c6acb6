"""The set ``regal-traced``: graphs of the zoo in many configurations, for paper 3.

The paper mined 372 topologically distinct TensorFlow graphs (Section 3.1). These are traced from public models;
topologies are distinct over the whole set, and no architecture family stands on two sides of the split. `regal_noise`
makes the augmented sets of them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping import zoo
from learned_mapping.companion.datasets import regal_noise
from learned_mapping.companion.datasets.manifest import SPLITS, Item, Manifest, stored_item
from learned_mapping.companion.datasets.regal_traced_table import (
    CONFIGURATIONS,
    GRADIENT,
    SPLIT_OF_FAMILY,
    Configuration,
    configuration,
    names,
)
from learned_mapping.companion.datasets.topology import topology_digest
from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.programs.formats import read_graph, write_graph
from learned_mapping.programs.graph import ComputationGraph, frozen_array
from learned_mapping.programs.trace.graph import trace

NAME = "regal-traced"
FOLDER = "regal/traced"
"""Relative to the data folder."""
ABOUT = "Graphs traced from the zoo in many configurations, split by topology and architecture family, for paper 3."
SMALLEST, LARGEST = 20, 600
"""Ops."""


@functools.lru_cache(maxsize=512)
def load(name: str) -> ComputationGraph:
    """A stored graph; raises `InputError` for an unknown name or a damaged file."""
    return read_graph(data_folder() / FOLDER / configuration(name).split / f"{name}.json.gz")


def make(name: str) -> ComputationGraph:
    """A graph of the set, traced anew."""
    return make_configuration(configuration(name))


def make_configuration(chosen: Configuration) -> ComputationGraph:
    """The graph of a configuration, traced now, without its weights (the paper's model knows tensors alone, A.1)."""
    example = zoo.example(chosen.model, **chosen.options)
    function = example.function if chosen.mode != GRADIENT else _gradient(example.function)
    graph = trace(function, *example.args, name=chosen.name, parameters=example.parameters)
    return dataclasses.replace(graph, op_weight_bytes=frozen_array(np.zeros(graph.num_ops), np.int64))


def _gradient(forward: Callable) -> Callable:
    """Value and gradient, with respect to the first argument, of the outputs' mean square."""

    def run(params: Any, *inputs: Any) -> Any:
        def loss(params: Any) -> Any:
            return sum(jnp.mean(jnp.square(x)) for x in jax.tree_util.tree_leaves(forward(params, *inputs)))

        return jax.value_and_grad(loss)(params)

    return run


def generate(dataset: str, split: str, index: int) -> ComputationGraph:
    """A member of an augmented set of `regal_noise`; raises `InputError` where there is none."""
    return regal_noise.member(load(regal_noise.pair(dataset, split, index)[0]), dataset, split, index)


def build(folder: Path, *, progress: Callable[[int, int], None] | None = None) -> Manifest:
    """Traces all configurations into ``FOLDER/SPLIT/NAME.json.gz``: about a minute of one core.

    Raises:
      InputError: a graph is too small, too large, or has the topology of an earlier one.
    """
    items: list[Item] = []
    graphs: dict[str, ComputationGraph] = {}
    seen: dict[str, str] = {}
    for split in SPLITS:
        for name in names(split):
            chosen, graph = configuration(name), make(name)
            graphs[name] = graph
            topology = topology_digest(graph)
            if not SMALLEST <= graph.num_ops <= LARGEST:
                raise InputError(f"set {NAME}", name, f"{graph.num_ops} ops, outside [{SMALLEST}, {LARGEST}]")
            if topology in seen:
                raise InputError(f"set {NAME}", name, f"has the topology of {seen[topology]}")
            seen[topology] = name
            file = f"{split}/{name}.json.gz"
            write_graph(Path(folder) / file, graph)
            facts = {"family": chosen.family, "model": chosen.model, "mode": chosen.mode}
            facts |= {"options": _plain(dict(chosen.options)), "topology": topology}
            facts |= {"ops": graph.num_ops, "tensors": graph.num_tensors, "edges": graph.num_edges}
            items.append(stored_item(Path(folder), file, graph, split=split, **facts))
            if progress is not None:
                progress(len(items), len(CONFIGURATIONS))
    facts = _facts(items) | {"augmented": regal_noise.augmented_facts(graphs.__getitem__)}
    return Manifest(NAME, ABOUT, regal_noise.SEED, tuple(items), facts)


def _facts(items: list[Item]) -> dict[str, Any]:
    families = {family: sum(item.facts["family"] == family for item in items) for family in SPLIT_OF_FAMILY}
    return {
        "graphs": {split: sum(item.split == split for item in items) for split in SPLITS},
        "graphs_by_family": families,
        "split_of_family": dict(SPLIT_OF_FAMILY),
        "noise_log_standard_deviation": regal_noise.SPREAD,
    }


def _plain(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value
