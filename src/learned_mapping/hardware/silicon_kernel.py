"""One schedule of every chip, compiled: what `silicon.Silicon` measures. Its docstring has the equations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


class ScheduleArrays(NamedTuple):
    """A graph as the kernel reads it: N ops, M tensors, E uses."""

    order: np.ndarray
    """[N] int32 topological order, which every chip follows."""
    position: np.ndarray
    """[N] int32, the place of each op in it."""
    seconds: np.ndarray
    """[N] float64, seconds of each op on a chip with memory to spare."""
    unit: np.ndarray
    """[N] int64 class of each op; -1 for an op that occupies no unit."""
    resident: np.ndarray
    """[N] float64 bytes of weights each op keeps on its chip."""
    output_bytes: np.ndarray
    """[N] float64 bytes of the tensors each op makes."""
    tensor_producer: np.ndarray
    """[M] int32."""
    tensor_bytes: np.ndarray
    """[M] float64."""
    tensor_is_output: np.ndarray
    """[M] bool."""
    consumer_offsets: np.ndarray
    """[M + 1] int64."""
    consumers: np.ndarray
    """[E] int32, of each tensor in topological order."""


@njit(cache=True)
def schedule(arrays, assignment, chips, switch_s, sram_bytes, spill_from, spill_slowdown):
    """Runs every chip's ops in order.

    Returns:
      ([C] seconds of the ops, [C] bytes and [C] messages over the link behind each chip, [C] peak bytes); the first
      link's bytes are -1 where an edge runs back to an earlier chip.
    """
    n, tensors = len(arrays.order), len(arrays.tensor_producer)
    compute, link_bytes, messages = np.zeros(chips), np.zeros(chips + 1), np.zeros(chips + 1)
    held, freed = np.zeros(chips), np.zeros(n)
    for op in range(n):
        held[assignment[op]] += arrays.resident[op]
    last_use, stamp = np.zeros(chips, np.int64), np.full(chips, -1, np.int64)
    there = np.empty(chips, np.int64)
    for t in range(tensors):
        producer, size = arrays.tensor_producer[t], arrays.tensor_bytes[t]
        home = assignment[producer]
        stamp[home], last_use[home], there[0] = t, arrays.position[producer], home
        count, furthest = 1, home
        for e in range(arrays.consumer_offsets[t], arrays.consumer_offsets[t + 1]):
            consumer = arrays.consumers[e]
            chip = assignment[consumer]
            if chip < home:
                link_bytes[0] = -1.0
                return compute, link_bytes[:chips], messages[:chips], held
            if stamp[chip] != t:
                stamp[chip] = t
                there[count] = chip
                count += 1
            last_use[chip] = arrays.position[consumer]
            furthest = max(furthest, chip)
        for i in range(count):
            chip = there[i]
            if chip != home:
                held[chip] += 2.0 * size
            if chip != home or (count == 1 and not arrays.tensor_is_output[t]):
                freed[last_use[chip]] += size
        if count > 1:
            held[home] += size
        link_bytes[home] += size * (furthest > home)
        link_bytes[furthest] -= size * (furthest > home)
        messages[home] += furthest > home
        messages[furthest] -= furthest > home
    for d in range(1, chips):
        link_bytes[d] += link_bytes[d - 1]
        messages[d] += messages[d - 1]
    peak = held.copy()
    unit = np.full(chips, -1, np.int64)
    for i in range(n):
        op = arrays.order[i]
        chip = assignment[op]
        held[chip] += arrays.output_bytes[op]
        peak[chip] = max(peak[chip], held[chip])
        if arrays.unit[op] >= 0:
            excess = (held[chip] / sram_bytes - spill_from) / (1.0 - spill_from)
            slower = 1.0 + spill_slowdown * max(excess, 0.0) ** 2
            compute[chip] += arrays.seconds[op] * slower
            if unit[chip] >= 0 and unit[chip] != arrays.unit[op]:
                compute[chip] += switch_s
            unit[chip] = arrays.unit[op]
        held[chip] -= freed[i]
    return compute, link_bytes[:chips], messages[:chips], peak
