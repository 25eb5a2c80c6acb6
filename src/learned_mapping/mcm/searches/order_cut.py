"""Partitions from costs: an order of the ops, and the best cut of that order under the chain rule.

Every chain of ideals (see `bounds.optimum`) is a cut of some topological order into intervals. So an order and a cut
say all, and for a given order the best cut is cheap to find: the dynamic programme of `bounds.optimum` over its N + 1
prefixes in place of all ideals. The order comes from keys that grow along every edge; any convex combination of such
keys does, too.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from learned_mapping.hardware.chip_package import ChipModel

TOLERANCE = 1e-3  # Relative, of the bisection; the costs are estimates.
MAX_STEPS = 40
NUM_KEYS = 5
"""Places of an op, each in [0, 1] and growing along edges: by the longest path to it and from it, counted in ops, the
same in time, and its place in the graph's own order."""


class CutArrays(NamedTuple):
    """A graph as the kernels read it."""

    topological: np.ndarray  # [N] int64, ops in order.
    edge_offsets: np.ndarray  # [N + 1] int64; successors[edge_offsets[u]:edge_offsets[u + 1]] consume what u makes.
    successors: np.ndarray  # [K] int64.
    tensor_producer: np.ndarray  # [M] int64.
    use_offsets: np.ndarray  # [M + 1] int64.
    users: np.ndarray  # [E] int64.


def cut_arrays(model: ChipModel) -> CutArrays:
    """The arrays of the model's graph."""
    graph = model.graph
    offsets = np.searchsorted(graph.op_edges[:, 0], np.arange(graph.num_ops + 1))
    parts = (graph.topological_order, offsets, graph.op_edges[:, 1], graph.tensor_producer, graph.consumer_offsets)
    return CutArrays(*(np.ascontiguousarray(part, np.int64) for part in (*parts, graph.edge_consumer)))


@njit(cache=True)
def keys_of(arrays, seconds):
    """[NUM_KEYS, N] the places of the ops when op i takes seconds[i]."""
    n = len(seconds)
    keys = np.zeros((NUM_KEYS, n))
    head = np.zeros((2, n))
    tail = np.zeros((2, n))
    for i in range(n):
        u = arrays.topological[i]
        head[0, u] += 1.0
        head[1, u] += seconds[u]
        keys[4, u] = i / n
        for k in range(arrays.edge_offsets[u], arrays.edge_offsets[u + 1]):
            v = arrays.successors[k]
            for j in range(2):
                if head[j, u] > head[j, v]:
                    head[j, v] = head[j, u]
    for i in range(n - 1, -1, -1):
        u = arrays.topological[i]
        for k in range(arrays.edge_offsets[u], arrays.edge_offsets[u + 1]):
            v = arrays.successors[k]
            for j in range(2):
                if tail[j, v] > tail[j, u]:
                    tail[j, u] = tail[j, v]
        tail[0, u] += 1.0
        tail[1, u] += seconds[u]
    for j in range(2):
        longest = max(head[j].max(), 1e-300)
        for u in range(n):
            keys[2 * j, u] = head[j, u] / longest
            keys[2 * j + 1, u] = 1.0 - tail[j, u] / longest
    return keys


@njit(cache=True)
def order_by(arrays, key):
    """[N] the ops by key, ties and rounding resolved by the topological order."""
    risen = key.copy()
    for u in arrays.topological:
        for k in range(arrays.edge_offsets[u], arrays.edge_offsets[u + 1]):
            v = arrays.successors[k]
            if risen[u] > risen[v]:
                risen[v] = risen[u]
    return arrays.topological[np.argsort(risen[arrays.topological], kind="mergesort")]


@njit(cache=True)
def best_cut(arrays, order, seconds, tensor_seconds, chips):
    """[N] int32 chips: the order cut into at most `chips` intervals under the chain rule, least slowest interval.

    An interval costs its ops and the tensors over both its ends; within `TOLERANCE` of the best.
    """
    n = len(order)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    done = np.zeros(n + 1)
    done[1:] = np.cumsum(seconds[order])
    crossing = np.zeros(n + 1)
    for m in range(len(tensor_seconds)):
        first = place[arrays.tensor_producer[m]]
        last = first
        for k in range(arrays.use_offsets[m], arrays.use_offsets[m + 1]):
            last = max(last, place[arrays.users[k]])
        if last > first:
            crossing[first + 1] += tensor_seconds[m]
            crossing[last + 1] -= tensor_seconds[m]
    crossing = np.cumsum(crossing)
    required = np.zeros(n + 1, np.int64)  # the shortest prefix that holds all consumers of a prefix
    for i in range(n):
        u = order[i]
        reach = max(required[i], i + 1)
        for k in range(arrays.edge_offsets[u], arrays.edge_offsets[u + 1]):
            reach = max(reach, place[arrays.successors[k]] + 1)
        required[i + 1] = reach
    low = max(done[n] / chips, seconds.max())
    high = np.inf
    fewest = np.empty(n + 1, np.int64)
    came = np.zeros(n + 1, np.int64)
    best = np.zeros(n + 1, np.int64)
    target = 1.25 * low
    for _ in range(MAX_STEPS):
        fewest[:] = chips + 1
        fewest[0] = 0
        for i in range(n):
            used = fewest[i] + 1
            if used > chips or done[n] - done[i] > (chips - fewest[i]) * target:
                continue
            limit = target + done[i] - max(crossing[i], 0.0)
            j = max(required[i], i + 1)
            while j <= n and done[j] <= limit:
                if done[j] + crossing[j] <= limit and used < fewest[j]:
                    fewest[j] = used
                    came[j] = i
                j += 1
        if fewest[n] <= chips:
            best[:] = came
            high = 0.0
            j = n
            while j > 0:
                i = came[j]
                high = max(high, done[j] - done[i] + crossing[i] + crossing[j])
                j = i
        else:
            low = target
        if high <= low * (1.0 + TOLERANCE):
            break
        target = 1.5 * target if high == np.inf else (low + high) / 2.0
    out = np.zeros(n, np.int32)
    if high == np.inf:
        return out
    count, j = 0, n
    while j > 0:
        count += 1
        j = best[j]
    end = n
    while end > 0:
        count -= 1
        for i in range(best[end], end):
            out[order[i]] = count
        end = best[end]
    return out


@njit(cache=True)
def cut_one(arrays, mix, seconds, tensor_seconds, chips):
    """[N] int32 chips from costs: the best cut of the ops ordered by `mix` of their places.

    Args:
      mix: [NUM_KEYS], non-negative, sums to 1.
      seconds: [N], at least 0.
      tensor_seconds: [M], at least 0.
      chips: C.
    """
    keys = keys_of(arrays, seconds)
    key = np.zeros(len(seconds))
    for j in range(NUM_KEYS):
        key += mix[j] * keys[j]
    return best_cut(arrays, order_by(arrays, key), seconds, tensor_seconds, chips)
