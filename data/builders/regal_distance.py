"""The set ``regal-distance``: graphs at growing distance from those that REGAL's networks were
trained on.

For networks of traced graphs: training graphs of several architectures; the same with other noise;
larger graphs of the same architectures; test graphs of trained families; test graphs of other
families. For networks of synthetic graphs: training graphs; the same topologies with times and
sizes drawn anew; graphs of the same generators with more ops; test graphs of the same generators.
"""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.programs.graph import ComputationGraph, frozen_array
from learned_mapping.programs.synthetic import random_graph
from learned_mapping_companion.datasets import registry
from learned_mapping_companion.datasets.manifest import Manifest
from learned_mapping_companion.datasets.registry import Progress
from learned_mapping_companion.regal.graphs import load_graph

from . import regal_synthetic_graphs as synthetic
from . import regal_traced_graphs as traced
from .building import Items
from .zoo.residual import EFFICIENTNET_B0, MNASNET_B1, SHUFFLENET_STAGES

NAME = "regal-distance"
SEED = 2020
"""First entry of every seed of this module."""
GROWN: dict[str, tuple[str, dict[str, Any]]] = {
    "mnasnet-2-gradient": ("mnasnet-gradient", {"stages": MNASNET_B1}),
    "efficientnet-1-gradient": ("efficientnet-gradient", {"stages": EFFICIENTNET_B0}),
    "shufflenet-1-gradient": ("shufflenet-gradient", {"stages": SHUFFLENET_STAGES}),
    "resnet-depth-14-gradient": ("resnet-depth-50-gradient", {"depth": 50}),
    "unet-depth-1-training": ("unet-depth-3-training", {"depth": 3}),
    "alphazero-blocks-0-training": ("alphazero-blocks-3-training", {"blocks": 3}),
    "lstm-layers-2-steps-4-inference": ("lstm-layers-2-steps-24-inference", {"steps": 24}),
    "lstm-tagger-steps-4-inference": ("lstm-tagger-steps-24-inference", {"steps": 24}),
}
"""Training graph of `traced` -> name and options of the same architecture with more blocks or
steps: 684 to 1,511 ops, while the largest graph of the set has 600."""
NEW_TOPOLOGIES = (
    "alexnet-train",
    "squeezenet",
    "inception",
    "unet",
    "resnet50",
    "lstm-2x8",
    "lstm-3x6",
    "tagger-6",
)
"""Test graphs of `graphs` of families that are trained on."""
NEW_FAMILIES = (
    "gru-layers-3-steps-4-inference",
    "densenet-blocks-2-2-gradient",
    "wavenet-cycles-2-dilations-8-inference",
    "edsr-blocks-12-gradient",
    "gru-language-core-gru-layers-1-steps-3-training",
    "wavenet-cycles-1-dilations-6-gradient",
    "edsr-blocks-1-training",
    "bert-layers-2-inference",
)
"""Test graphs of `traced` of some 220 ops, of the families that no training or validation graph
has. Most forward passes of these are chains that leave BRKGA no room, and are not taken."""
TRAINED = (2, 5, 0, 16, 17, 23, 28, 70)
"""Training graphs of `synthetic`: of each family but attention, of which hardly any are trained on,
the first of at most 60 ops, then the first of more than 80."""
TESTED = (7, 600, 78, 82, 898, 62, 149, 358)
"""Its test graphs of the same families, nearest in ops."""
GROWTH = 4  # Times as many ops in the larger synthetic graphs.
MEDIAN_SECONDS, MEDIAN_BYTES = 1e-4, 2**20
"""The generator's laws are log-normal around these, the standard deviation of the logarithm being
1."""


def _noisy(copy: int, name: str) -> ComputationGraph:
    """Member of the augmented training set: every graph comes once before any comes with other
    noise (`copy` 1)."""
    known = traced.names("train")
    return traced.generate("traced-runtime", "train", known.index(name) + copy * len(known))


def _larger_traced(name: str) -> ComputationGraph:
    title, options = GROWN[name]
    small = traced.configuration(name)
    return traced.trace_configuration(
        dataclasses.replace(small, name=title, options=dict(small.options) | options)
    )


def _trained(name: str) -> ComputationGraph:
    return synthetic.generate("train", int(name))


def _redrawn(name: str) -> ComputationGraph:
    """A training topology, its running times and tensor sizes drawn anew from the generator's
    laws."""
    graph, rng = _trained(name), np.random.default_rng([SEED, 1, int(name)])
    nanoseconds = np.round(1e9 * MEDIAN_SECONDS * np.exp(rng.standard_normal(graph.num_ops)))
    sizes = np.maximum(4, np.round(MEDIAN_BYTES * np.exp(rng.standard_normal(graph.num_tensors))))
    return dataclasses.replace(
        graph,
        name=f"{graph.name}-redrawn",
        op_seconds=frozen_array(nanoseconds / 1e9, np.float64),
        op_flop=frozen_array(nanoseconds * 1e3, np.float64),
        tensor_bytes=frozen_array(sizes, np.int64),
    )


def _larger_synthetic(name: str) -> ComputationGraph:
    """A graph of a training graph's family with `GROWTH` times its ops."""
    small, rng = _trained(name), np.random.default_rng([SEED, 2, int(name)])
    family, ops = small.metadata["family"], GROWTH * small.num_ops
    graph = random_graph(rng, family, ops, name=f"{small.name}-{ops}")
    return dataclasses.replace(
        graph,
        op_seconds=frozen_array(np.round(1e9 * graph.op_seconds) / 1e9, np.float64),
        op_weight_bytes=frozen_array(np.zeros(ops), np.int64),
    )


def _tested(name: str) -> ComputationGraph:
    return synthetic.generate("test", int(name))


SETS: dict[str, tuple[tuple[str, ...], Callable[[str], ComputationGraph]]] = {
    "traced-trained": (tuple(GROWN), functools.partial(_noisy, 0)),
    "traced-noise": (tuple(GROWN), functools.partial(_noisy, 1)),
    "traced-larger": (tuple(GROWN), _larger_traced),
    "traced-topology": (NEW_TOPOLOGIES, functools.partial(load_graph, "traced")),
    "traced-family": (NEW_FAMILIES, traced.load),
    "synthetic-trained": (tuple(map(str, TRAINED)), _trained),
    "synthetic-redrawn": (tuple(map(str, TRAINED)), _redrawn),
    "synthetic-larger": (tuple(map(str, TRAINED)), _larger_synthetic),
    "synthetic-topology": (tuple(map(str, TESTED)), _tested),
}
"""Set -> its members, and the function from a member's name to its graph."""


def build(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Writes every graph into ``FOLDER/SET/MEMBER.json.gz``; the seeds are fixed."""
    items = Items(folder, sum(len(graphs) for graphs, _ in SETS.values()), progress)
    for name, (members, make) in SETS.items():
        for member in members:
            graph = make(member)
            items.add(f"{name}/{member}.json.gz", graph, set=name, member=member, ops=graph.num_ops)
    return Manifest(NAME, registry.SETS[NAME].about, SEED, tuple(items))
