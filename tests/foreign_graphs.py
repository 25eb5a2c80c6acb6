"""Twenty graphs as other tools write them: layers, training steps, several parts, weights as ops, bare numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from learned_mapping.programs.costgraph import parse_costgraph
from learned_mapping.programs.formats import graph_from_json
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import Node

Edges = dict[int, list[int]]
"""Op -> the ops it reads."""


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


def side_by_side(*parts: Edges) -> Edges:
    edges: Edges = {}
    for part in parts:
        first = len(edges)
        edges |= {first + op: [first + source for source in read] for op, read in part.items()}
    return edges


def random_dag(n: int, seed: int) -> Edges:
    rng = np.random.default_rng(seed)
    return {i: sorted({int(j) for j in rng.integers(max(i - 8, 0), i, 2)}) if i else [] for i in range(n)}


def with_weights(edges: Edges) -> Edges:
    """Each op but the first reads a weight that is an op of its own."""
    n = len(edges)
    return {op: [*read, n + op] if op else read for op, read in edges.items()} | {n + op: [] for op in range(1, n)}


def exported(edges: Edges, seed: int, *, weights: bool = False, style: str = "flop") -> ComputationGraph:
    """The graph of these edges with drawn sizes and costs, through the file format in one of three styles."""
    rng, n = np.random.default_rng(seed), len(edges)
    heavy = (n + 1) // 2 if weights else n
    uses: dict[int, list[int]] = {op: [] for op in edges}
    for op, read in edges.items():
        for source in read:
            uses[source].append(op)
    name: Callable[[int], Any] = (lambda op: op) if style == "numbers" else lambda op: f"layer/{op}:0"
    ops, tensors = [], []
    for op in edges:
        cost, weight = float(rng.lognormal(20, 1)), op >= heavy
        entry: dict[str, Any] = {"name": name(op)}
        if style == "flop":
            entry |= {"kind": "parameter" if weight else "Conv2D", "flop": 0 if weight else cost}
        else:
            entry |= {"seconds": 0.0 if weight else cost * 1e-12}
        ops.append(entry)
        size = float(int(rng.lognormal(12, 1)))
        tensors.append(
            {"name": f"t{op}", "producer": name(op), "bytes": size, "consumers": [name(v) for v in uses[op]]}
        )
    value = {"schema": "learned-mapping/graph/1", "name": f"foreign {seed}", "ops": ops, "tensors": tensors}
    return graph_from_json(Node(value, "foreign"))


def cost_graph(edges: Edges, seed: int) -> ComputationGraph:
    """The same as the text of a TensorFlow cost graph."""
    rng = np.random.default_rng(seed)
    nodes = []
    for op, read in edges.items():
        inputs = "".join(f" input_info {{ preceding_node: {source} preceding_port: 0 }}" for source in read)
        sizes = f"compute_cost: {int(rng.lognormal(5, 1))} output_info {{ size: {int(rng.lognormal(12, 1))} }}"
        nodes.append(f'node {{ name: "n{op}" id: {op} {sizes}{inputs} }}\n')
    return parse_costgraph("".join(nodes), name=f"foreign-{seed}")


def foreign_graphs() -> Iterator[ComputationGraph]:
    plain = [layers(30), residual(60), branches(8, 4), branches(4, 9), u_shaped(20), training(15), random_dag(80, 1)]
    parts = [side_by_side(training(12), training(12)), side_by_side(layers(20), branches(4, 5), u_shaped(8)),
             side_by_side(*[training(6)] * 4), side_by_side(random_dag(40, 2), layers(3))]  # fmt: skip
    for seed, edges in enumerate(plain + parts):
        yield exported(edges, seed, style=("flop", "numbers", "seconds")[seed % 3])
    for seed, edges in enumerate([layers(30), residual(40), u_shaped(15), training(12), branches(5, 4)], 100):
        yield exported(with_weights(edges), seed, weights=True, style=("flop", "numbers")[seed % 2])
    for seed, edges in enumerate(
        [residual(45), random_dag(60, 3), training(14), side_by_side(layers(9), layers(25))], 200
    ):
        yield cost_graph(edges, seed)
