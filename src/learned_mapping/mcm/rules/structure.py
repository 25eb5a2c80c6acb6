"""What the rules and the methods ask of a graph's edges, as plain lists."""

from __future__ import annotations

import numpy as np

from learned_mapping.programs.graph import ComputationGraph

Lists = list[list[int]]


def neighbours(graph: ComputationGraph) -> tuple[Lists, Lists]:
    """Per op its distinct producers, and its distinct consumers, both ascending."""
    before: Lists = [[] for _ in range(graph.num_ops)]
    behind: Lists = [[] for _ in range(graph.num_ops)]
    for u, v in graph.op_edges.tolist():
        before[v].append(u)
        behind[u].append(v)
    return before, behind


def longest_paths(following: Lists, order: np.ndarray) -> np.ndarray:
    """[N] int64, edges on the longest path from each op along `following`; `order` has an op after all it leads to."""
    depth = np.zeros(len(following), np.int64)
    for u in order.tolist():
        depth[u] = max((depth[v] + 1 for v in following[u]), default=0)
    return depth


def late_order(graph: ComputationGraph) -> np.ndarray:
    """[N] int32, a topological order: longest path behind first, so each op as late as its consumers allow."""
    depth = longest_paths(neighbours(graph)[1], graph.topological_order[::-1])
    return np.argsort(-depth, kind="stable").astype(np.int32)


def tensors_of_ops(graph: ComputationGraph) -> tuple[Lists, Lists]:
    """Per op the tensors it makes and those it uses."""
    made: Lists = [[] for _ in range(graph.num_ops)]
    used: Lists = [[] for _ in range(graph.num_ops)]
    for tensor, producer in enumerate(graph.tensor_producer.tolist()):
        made[producer].append(tensor)
    for tensor, consumer in zip(graph.edge_tensor.tolist(), graph.edge_consumer.tolist()):
        used[consumer].append(tensor)
    return made, used
