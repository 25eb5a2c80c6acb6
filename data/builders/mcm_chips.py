"""How many chips a graph is partitioned over: a rule that looks at the graph, at no method.

More chips are of no use where the largest op alone takes longer than an even share, where the chain
rule does not reach that far, or where transfers eat what a further chip would take over. The last
is told by the *linear split*: ops in topological order, cut into intervals, each charged its ops
and the transfers over both its ends. It heeds no rule of paper 2 and is no method of the tables.
"""

from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.programs.graph import ComputationGraph

CHIP_COUNTS = (4, 6, 8, 12, 16, 24, 36)
WORTH = 0.05
"""A count is taken when the linear split gains at least this share of its time over the count
before."""


def chip_count(graph: ComputationGraph) -> int:
    """The largest of `CHIP_COUNTS` that is worth it; the smallest where none is.

    A count C is worth it when C chips can be used under the chain rule (`longest_chain`), no op
    takes more than 1/C of all ops' time, and the linear split over C chips is faster by `WORTH`
    than over the next smaller count.
    """
    seconds = ChipModel(graph, ChipPackage()).op_seconds
    limit = min(longest_chain(graph), float(seconds.sum() / seconds.max()))
    split = linear_split(graph, CHIP_COUNTS[-1])
    worth = [
        b
        for a, b in pairwise(CHIP_COUNTS)
        if b <= limit and split[b - 1] <= (1 - WORTH) * split[a - 1]
    ]
    return max(worth, default=CHIP_COUNTS[0])


def longest_chain(graph: ComputationGraph) -> int:
    """The most chips a partition under the chain rule, f(u) <= f(v) <= f(u) + 1 on every edge, can
    use.

    One more than the largest f(b) - f(a): the shortest path from a to b over edges, each of length
    1 along the arrow and 0 against it. A source comes first in such a pair, since going back to it
    costs nothing.
    """
    first, second = graph.op_edges.T
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    lengths = np.repeat([1.0, 0.0], len(first))  # a stored 0 is an arc of no length
    arcs = coo_array((lengths, ends), shape=(graph.num_ops, graph.num_ops)).tocsr()
    distances = dijkstra(arcs, indices=np.setdiff1d(np.arange(graph.num_ops), second))
    return 1 + int(distances[np.isfinite(distances)].max())


def linear_split(graph: ComputationGraph, chips: int) -> np.ndarray:
    """[chips] seconds: the least bottleneck of the ops in topological order cut into at most 1, 2,
    ... intervals.

    Program inputs count neither as ops nor as transfers.
    """
    model = ChipModel(graph, ChipPackage())
    order = [op for op in graph.topological_order.tolist() if graph.op_kinds[op] != "input"]
    position = np.zeros(graph.num_ops, np.int64)
    position[order] = np.arange(1, len(order) + 1)
    last = np.zeros(graph.num_tensors, np.int64)
    np.maximum.at(last, graph.edge_tensor, position[graph.edge_consumer])
    first = position[graph.tensor_producer]
    crossing = np.flatnonzero((first > 0) & (last > first))
    change = np.zeros(len(order) + 2)
    np.add.at(change, first[crossing], model.tensor_seconds[crossing])
    np.add.at(change, last[crossing], -model.tensor_seconds[crossing])
    cut = np.maximum(np.cumsum(change)[: len(order) + 1], 0.0)
    done = np.concatenate([[0.0], np.cumsum(model.op_seconds[order])])
    cost = done[None, :] - done[:, None] + cut[None, :] + cut[:, None]
    cost[np.tril_indices(len(cost))] = np.inf
    best, ends = cost[0], [cost[0][-1]]
    for _ in range(1, chips):
        best = np.minimum(best, np.maximum(best[:, None], cost).min(axis=0))
        ends.append(best[-1])
    return np.array(ends)
