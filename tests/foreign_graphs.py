"""Twenty graphs as other tools write them: layers, training steps, several parts, weights as ops,
bare numbers."""

from collections.abc import Iterator

import numpy as np
from learned_mapping_builders.outside_graphs import Edges, cost_graph, exported, side_by_side

from learned_mapping.programs.graph import ComputationGraph


def layers(n: int) -> Edges:
    return {i: [i - 1] * (i > 0) for i in range(n)}


def residual(n: int) -> Edges:
    return {i: [i - 1] * (i > 0) + [i - 3] * (i > 3 and i % 3 == 0) for i in range(n)}


def branches(blocks: int, width: int) -> Edges:
    edges: Edges = {0: []}
    for _ in range(blocks):
        first = len(edges) - 1
        edges |= {first + 1 + k: [first] for k in range(width)}
        edges[first + 1 + width] = list(range(first + 1, first + 1 + width))
    return edges


def u_shaped(n: int) -> Edges:
    return {i: [i - 1] * (i > 0) + [2 * n - 1 - i] * (i > n) for i in range(2 * n)}


def training(n: int) -> Edges:
    return {i: [i - 1] * (i > 0) + [2 * n - 1 - i] * (i > n) for i in range(2 * n)} | {
        2 * n + i: [2 * n - 1 - i] for i in range(n)
    }


def random_dag(n: int, seed: int) -> Edges:
    rng = np.random.default_rng(seed)
    return {
        i: sorted({int(j) for j in rng.integers(max(i - 8, 0), i, 2)}) if i else []
        for i in range(n)
    }


def with_weights(edges: Edges) -> Edges:
    """Each op but the first reads a weight that is an op of its own."""
    n = len(edges)
    return {op: [*read, n + op] if op else read for op, read in edges.items()} | {
        n + op: [] for op in range(1, n)
    }


def foreign_graphs() -> Iterator[ComputationGraph]:
    plain = [
        layers(30),
        residual(60),
        branches(8, 4),
        branches(4, 9),
        u_shaped(20),
        training(15),
        random_dag(80, 1),
    ]
    parts = [
        side_by_side(training(12), training(12)),
        side_by_side(layers(20), branches(4, 5), u_shaped(8)),
        side_by_side(*[training(6)] * 4),
        side_by_side(random_dag(40, 2), layers(3)),
    ]
    for seed, edges in enumerate(plain + parts):
        yield exported(edges, seed, style=("flop", "numbers", "seconds")[seed % 3])
    for seed, edges in enumerate(
        [layers(30), residual(40), u_shaped(15), training(12), branches(5, 4)], 100
    ):
        yield exported(with_weights(edges), seed, weights=True, style=("flop", "numbers")[seed % 2])
    for seed, edges in enumerate(
        [residual(45), random_dag(60, 3), training(14), side_by_side(layers(9), layers(25))], 200
    ):
        yield cost_graph(edges, seed)
