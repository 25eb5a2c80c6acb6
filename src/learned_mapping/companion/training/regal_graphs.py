"""Graphs the agent learns from and is watched on: of training and validation splits, no topology of a test graph."""

from __future__ import annotations

import numpy as np

from learned_mapping.companion.datasets.topology import topology_digest
from learned_mapping.companion.regal import synthetic, traced
from learned_mapping.companion.regal.graphs import DATASETS, graph_names, load_graph
from learned_mapping.companion.training.regal_sets import floor, validation_instances
from learned_mapping.regal.agent.rollouts import uniform_cost
from learned_mapping.regal.rules.instance import Instance

LOOKED_AT = 480
"""Graphs taken of the training split, from the first on; traced ones with noise, every topology once or twice."""
ROOM = 1.02
"""A graph on which 1,060 uniform evaluations come this close to what no schedule can beat has nothing to teach."""


def training_graphs(dataset: str, largest_ops: int) -> list[Instance]:
    """Up to `LOOKED_AT` graphs of the training split that leave room, of at most `largest_ops` ops."""
    kind, objective = DATASETS[dataset]
    found, tested = [], _tested(kind)
    for index in range(LOOKED_AT):
        if kind == "traced":
            graph = traced.generate(dataset, "train", index)
        else:
            graph = synthetic.generate("train", index)
        if graph.num_ops > largest_ops or topology_digest(graph) in tested:
            continue
        instance = Instance(graph, objective=objective)
        if uniform_cost(instance.arrays, (index,), 1060, 1) > ROOM * floor(instance):
            found.append(instance)
    return found


def watched_graphs(dataset: str, count: int, largest_ops: int) -> list[Instance]:
    """`count` graphs of the validation split, none of a test graph's topology, of at most `largest_ops` ops."""
    kind, _ = DATASETS[dataset]
    tested = _tested(kind)
    found = [
        instance
        for instance in validation_instances(dataset, 2 * count)
        if instance.graph.num_ops <= largest_ops and topology_digest(instance.graph) not in tested
    ]
    return [found[i] for i in np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int)]


def _tested(kind: str) -> set[str]:
    return {topology_digest(load_graph(kind, name)) for name in graph_names(kind)}
