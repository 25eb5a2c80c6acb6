"""Decisions of a schedule: of two things that could be next, which one was.

Where an op stands in a schedule says little: most of it follows from what came before. What a priority decides is which
of the ready ops and transfers goes first, so that is what is learned of an elite. Transfers have no law of their own:
against them an op's priority is compared with a uniform one, which decides whether tensors are sent early or late.
"""

from __future__ import annotations

import numba
import numpy as np

from learned_mapping.regal.rules.instance import Instance

OTHERS = 4
"""Ready ops and transfers that each is compared with, at most."""
TRANSFER = -1
"""Stands for any transfer in a pair."""


@numba.njit(cache=True)
def _draw_pairs(a, rng, order, placement, waiting, first, second):
    """Fills first and second with pairs of items, those of two transfers left out; returns how many."""
    n, d, count, size = a.seconds.shape[0], a.devices, 0, 0
    items = n + a.tensor_bytes.shape[0] * d
    ready, where, known = np.zeros(items, np.int64), np.zeros(items, np.int64), np.zeros(items, np.bool_)
    for op in range(n):
        if waiting[op] == 0:
            ready[size], where[op] = op, size
            size += 1
    for item in order:
        size -= 1
        last = ready[size]
        ready[where[item]], where[last] = last, where[item]
        for _ in range(min(OTHERS, size)):
            other = ready[int(rng.random() * size)]
            if item < n or other < n:
                first[count] = item if item < n else TRANSFER
                second[count] = other if other < n else TRANSFER
                count += 1
        if item < n:
            begin, end, device = a.output_offsets[item], a.output_offsets[item + 1], placement[item]
        else:
            begin, end, device = 0, 1, (item - n) % d
        for j in range(begin, end):
            tensor = a.outputs[j] if item < n else (item - n) // d
            for k in range(a.consumer_offsets[tensor], a.consumer_offsets[tensor + 1]):
                op = a.consumers[k]
                if placement[op] == device:
                    waiting[op] -= 1
                    if waiting[op] == 0:
                        ready[size], where[op] = op, size
                        size += 1
                elif item < n:
                    transfer = n + tensor * d + placement[op]
                    if not known[transfer]:
                        ready[size], where[transfer], known[transfer] = transfer, size, True
                        size += 1
    return count


def draw_pairs(instance: Instance, placement: np.ndarray, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pairs of items of a schedule that were ready at the same time, the one that was next in front.

    Args:
      instance: of N ops.
      placement: [N].
      order: [S], items as `decode` numbers them, in the order they ran.
      rng: draws `OTHERS` ready items for each, or as many as there are.

    Returns:
      [P, 2] int64, ops or `TRANSFER`.
    """
    waiting = np.diff(instance.arrays.input_offsets).astype(np.int64)
    first, second = np.zeros(OTHERS * len(order), np.int64), np.zeros(OTHERS * len(order), np.int64)
    count = _draw_pairs(instance.arrays, rng, order.astype(np.int64), placement, waiting, first, second)
    return np.stack([first[:count], second[:count]], axis=1)
