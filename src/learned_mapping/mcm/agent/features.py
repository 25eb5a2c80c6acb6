"""The network's view of a graph on a package: a row per op, the edges, padded to a few sizes.

Padding keeps the number of compilations small: graphs of one size class share one. A padded graph
has at least one op too many, which all its padded edges join to itself.
"""

from typing import NamedTuple

import numpy as np

from learned_mapping.hardware.chip_package import (
    OP_CLASSES,
    ChipPackage,
    GraphWork,
    op_classes,
    op_seconds,
)
from learned_mapping.programs.graph import ComputationGraph, longest_paths

INPUT = len(OP_CLASSES)
"""The class of program inputs, which take no time; the others are those of
`chip_package.op_classes`."""
NUM_FEATURES = 12 + INPUT + 1


class GraphFeatures(NamedTuple):
    """One graph on one package, padded to n ops and e edges. A pytree of arrays."""

    ops: np.ndarray  # [n, NUM_FEATURES] float32.
    producers: np.ndarray  # [e] int32.
    consumers: np.ndarray  # [e] int32.
    mask: np.ndarray  # [n] float32, 1 for an op, 0 for padding.
    chips: np.float32  # C.


EIGHT_OPS = GraphFeatures(
    np.zeros((8, NUM_FEATURES), np.float32), np.zeros(8, np.int32), np.zeros(8, np.int32),
    np.ones(8, np.float32), np.float32(2),
)  # fmt: skip
"""Eight ops on two chips, from which the shapes of new parameters are read."""


def padded_size(count: int) -> int:
    """The smallest of 64, 128, 256, 512, 768, 1024, 1536, 2048, ... above `count`."""
    size = 64
    while size <= count:
        if size >= 512 and size * 3 // 2 > count:
            return size * 3 // 2
        size *= 2
    return size


def graph_features(
    graph: ComputationGraph, work: GraphWork, package: ChipPackage, xp=np
) -> GraphFeatures:
    """Features of a graph, as the analytical model of the package sees it.

    Per op: logarithms of its time, arithmetic, weights, inputs and outputs, each relative to an
    even share; the degrees; the topological position; the cumulative share of time up to it; the
    longest paths to and from it, in ops; the number of chips; its class.

    Args:
      xp: `numpy`, or `jax.numpy` where numbers of `work` or `package` are traced.
    """
    n, edges, order, chips = graph.num_ops, graph.op_edges, graph.topological_order, package.chips
    rank = np.argsort(order)
    head, tail = (
        longest_paths(graph.op_producers, order),
        longest_paths(graph.op_consumers, order[::-1]),
    )
    longest = max(float(head.max()), 1.0)
    seconds = xp.maximum(op_seconds(work, package, xp), 0.0)
    share = xp.maximum(seconds.sum() / chips, 1e-30)

    def relative_log(values, unit):
        """About 0 for a share of 1, down to -1 for next to nothing."""
        return xp.log10(values / unit + 1e-4) / 4.0

    columns = [
        relative_log(seconds, share),
        relative_log(work.flop, share * package.flop_per_s),
        relative_log(work.weight_bytes, share * package.weight_bytes_per_s),
        relative_log(graph.op_input_bytes, share * package.link_bytes_per_s),
        relative_log(graph.op_output_bytes, share * package.link_bytes_per_s),
        np.log1p(np.bincount(edges[:, 1], minlength=n)),
        np.log1p(np.bincount(edges[:, 0], minlength=n)),
        rank / max(n - 1, 1),
        (xp.cumsum(seconds[order]) / (share * chips))[rank],
        head / longest,
        tail / longest,
        np.full(n, np.log(chips) / 4.0),
    ]
    size = padded_size(n)
    is_input = np.array([kind == "input" for kind in graph.op_kinds])
    classes = np.eye(INPUT + 1)[np.where(is_input, INPUT, op_classes(graph))]
    ops = xp.concatenate([xp.stack(columns, axis=1), classes], axis=1).astype(np.float32)
    ops = xp.concatenate([ops, np.zeros((size - n, NUM_FEATURES), np.float32)])
    slots = 2 * size
    while slots < len(edges):
        slots *= 2
    ends = np.full((2, slots), size - 1, np.int32)
    ends[:, : len(edges)] = edges.T
    mask = (np.arange(size) < n).astype(np.float32)
    return GraphFeatures(ops, ends[0], ends[1], mask, np.float32(chips))
