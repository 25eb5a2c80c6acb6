"""What chips hold, compiled: `chip_package.chip_memory` for searches, and of one chip alone.

What a chip holds depends on its own ops, on the tensors that they use and on who else uses those:
under the chain rule on the two ideals that bound the chip, and on no other chip.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from learned_mapping.programs.graph import ComputationGraph


class MemoryArrays(NamedTuple):
    """A graph as the kernels read it: N ops, M tensors, E uses."""

    order: np.ndarray  # [N] int64 topological order, which every chip follows.
    place: np.ndarray  # [N] int64, the place of each op in it.
    weight_bytes: np.ndarray  # [N] int64.
    output_bytes: np.ndarray  # [N] int64, of the tensors each op makes.
    tensor_producer: np.ndarray  # [M] int64.
    tensor_bytes: np.ndarray  # [M] int64.
    tensor_is_output: np.ndarray  # [M] bool.
    consumer_offsets: np.ndarray  # [M + 1] int64.
    consumers: np.ndarray  # [E] int64.


def memory_arrays(graph: ComputationGraph) -> MemoryArrays:
    """The arrays of a graph."""
    order = np.asarray(graph.topological_order, np.int64)
    return MemoryArrays(
        order=order,
        place=np.argsort(order),
        weight_bytes=np.asarray(graph.op_weight_bytes, np.int64),
        output_bytes=np.asarray(graph.op_output_bytes, np.int64),
        tensor_producer=np.asarray(graph.tensor_producer, np.int64),
        tensor_bytes=np.asarray(graph.tensor_bytes, np.int64),
        tensor_is_output=np.asarray(graph.tensor_is_output, bool),
        consumer_offsets=np.asarray(graph.consumer_offsets, np.int64),
        consumers=np.asarray(graph.edge_consumer, np.int64),
    )


@njit(cache=True)
def memory_of(arrays, assignment, chips):
    """[C] int64, the most bytes each chip holds, of [N] chips that obey Eq. 2."""
    n = len(arrays.order)
    held, freed = np.zeros(chips, np.int64), np.zeros(n, np.int64)
    last, stamp = np.zeros(chips, np.int64), np.full(chips, -1, np.int64)
    there = np.empty(chips, np.int64)
    for op in range(n):
        held[assignment[op]] += arrays.weight_bytes[op]
    for t in range(len(arrays.tensor_producer)):
        producer, size = arrays.tensor_producer[t], arrays.tensor_bytes[t]
        home, count = assignment[producer], 1
        stamp[home], last[home], there[0] = t, producer, home
        for e in range(arrays.consumer_offsets[t], arrays.consumer_offsets[t + 1]):
            op = arrays.consumers[e]
            chip = assignment[op]
            if stamp[chip] != t:
                stamp[chip], last[chip], there[count] = t, op, chip
                count += 1
            elif arrays.place[op] > arrays.place[last[chip]]:
                last[chip] = op
        for i in range(count):
            chip = there[i]
            if chip != home:
                held[chip] += size
            if chip != home or (count == 1 and not arrays.tensor_is_output[t]):
                freed[last[chip]] += size
    peak = held.copy()
    for op in arrays.order:
        chip = assignment[op]
        held[chip] += arrays.output_bytes[op]
        peak[chip] = max(peak[chip], held[chip])
        held[chip] -= freed[op]
    return peak


@njit(cache=True)
def _has(ideal, op):
    return ideal[op >> 3] >> (op & 7) & 1


@njit(cache=True)
def memory_between(arrays, before, after, freed):
    """The most bytes of a chip that runs the ops of the ideal `after` without those of `before`,
    [N / 8] uint8 each, a bit an op; `freed` [N] int64 is room to work in."""
    n, held = len(arrays.order), 0
    freed[:] = 0
    for op in range(n):
        if _has(after, op) and not _has(before, op):
            held += arrays.weight_bytes[op]
    for t in range(len(arrays.tensor_producer)):
        producer, last, stays = arrays.tensor_producer[t], -1, arrays.tensor_is_output[t]
        if not _has(after, producer):
            continue
        made = not _has(before, producer)
        for e in range(arrays.consumer_offsets[t], arrays.consumer_offsets[t + 1]):
            op = arrays.consumers[e]
            if not _has(after, op):
                stays = True
            elif not _has(before, op) and (last < 0 or arrays.place[op] > arrays.place[last]):
                last = op
        if made and not stays:
            freed[last if last >= 0 else producer] += arrays.tensor_bytes[t]
        elif not made and last >= 0:
            held += arrays.tensor_bytes[t]
            freed[last] += arrays.tensor_bytes[t]
    peak = held
    for op in arrays.order:
        if _has(after, op) and not _has(before, op):
            held += arrays.output_bytes[op]
            peak = max(peak, held)
            held -= freed[op]
    return peak
