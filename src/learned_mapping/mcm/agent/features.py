"""What the network sees of a graph on a package: a row per op, the edges, padded to a few sizes.

Padding keeps the number of compilations small: graphs of one size class share one. A padded graph has at least one op
too many, which all its padded edges join to itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.hardware.op_classes import OP_CLASSES, op_classes
from learned_mapping.programs.graph import ComputationGraph

NUM_CLASSES = len(OP_CLASSES) + 1
"""Those of `hardware.op_classes`, and program inputs, which take no time."""
INPUT = len(OP_CLASSES)
NUM_FEATURES = 12 + NUM_CLASSES


class GraphFeatures(NamedTuple):
    """One graph on one package, padded to n ops and e edges. A pytree of arrays."""

    ops: np.ndarray
    """[n, NUM_FEATURES] float32."""
    producers: np.ndarray
    """[e] int32."""
    consumers: np.ndarray
    """[e] int32."""
    mask: np.ndarray
    """[n] float32, 1 for an op, 0 for padding."""
    chips: np.ndarray
    """[] float32, C."""


def classes_of(graph: ComputationGraph) -> np.ndarray:
    """[N] int64 classes, `INPUT` for a program input."""
    is_input = np.array([kind == "input" for kind in graph.op_kinds])
    return np.where(is_input, INPUT, op_classes(graph))


def padded_size(count: int) -> int:
    """The smallest of 64, 128, 256, 512, 768, 1024, 1536, 2048, ... above `count`."""
    size = 64
    while size <= count:
        if size >= 512 and size * 3 // 2 > count:
            return size * 3 // 2
        size *= 2
    return size


def graph_features(model: ChipModel) -> GraphFeatures:
    """Features of the model's graph, as the analytical model sees it.

    Per op: logarithms of its time, arithmetic, weights, inputs and outputs, each relative to an even share; the
    degrees; the topological position; the cumulative share of time up to it; the longest paths to and from it, in ops;
    the number of chips; its class.
    """
    graph = model.graph
    n, edges = graph.num_ops, graph.op_edges
    order = graph.topological_order
    seconds = np.maximum(model.op_seconds, 0.0)
    share = max(float(seconds.sum()) / model.package.chips, 1e-30)
    position, cumulative = np.empty(n), np.empty(n)
    position[order] = np.arange(n) / max(n - 1, 1)
    cumulative[order] = np.cumsum(seconds[order]) / (share * model.package.chips)
    link = model.package.link_bytes_per_s
    head, tail = _depths(n, edges, order)
    columns = [
        _relative_log(seconds, share),
        _relative_log(graph.op_flop, share * model.package.flop_per_s),
        _relative_log(graph.op_weight_bytes, share * model.package.weight_bytes_per_s),
        _relative_log(graph.op_input_bytes, share * link),
        _relative_log(graph.op_output_bytes, share * link),
        np.log1p(np.bincount(edges[:, 1], minlength=n)),
        np.log1p(np.bincount(edges[:, 0], minlength=n)),
        position,
        cumulative,
        head,
        tail,
        np.full(n, np.log(model.package.chips) / 4.0),
    ]
    ops = np.zeros((padded_size(n), NUM_FEATURES), np.float32)
    ops[:n, : len(columns)] = np.stack(columns, axis=1)
    ops[np.arange(n), len(columns) + classes_of(graph)] = 1.0
    size = 2 * len(ops)
    while size < len(edges):
        size *= 2
    ends = np.full((size, 2), len(ops) - 1, np.int32)
    ends[: len(edges)] = edges
    mask = (np.arange(len(ops)) < n).astype(np.float32)
    return GraphFeatures(ops, ends[:, 0].copy(), ends[:, 1].copy(), mask, np.float32(model.package.chips))


def _relative_log(values: np.ndarray, unit: float) -> np.ndarray:
    """About 0 for a share of 1, down to -1 for next to nothing."""
    return np.log10(np.asarray(values, np.float64) / unit + 1e-4) / 4.0


def _depths(n: int, edges: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[N] longest path in ops before each op and behind it, over the longest of the graph."""
    before: list[list[int]] = [[] for _ in range(n)]
    behind: list[list[int]] = [[] for _ in range(n)]
    for u, v in edges.tolist():
        before[v].append(u)
        behind[u].append(v)
    head, tail = np.zeros(n), np.zeros(n)
    for u in order.tolist():
        head[u] = max((head[p] + 1 for p in before[u]), default=0)
    for u in order[::-1].tolist():
        tail[u] = max((tail[v] + 1 for v in behind[u]), default=0)
    longest = max(float(head.max()), 1.0)
    return head / longest, tail / longest
