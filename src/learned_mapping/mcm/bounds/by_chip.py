"""The programme over ideals for chips that differ, and for chips whose memory counts.

The time of chip c and the most bytes that it holds depend on the two ideals that bound it alone, so
that ``reached[c][ideal]`` follows chip by chip: from every ideal that chips 0..c-1 can hold to
every larger one that chip c can add. Where chips and their memories are alike an ideal that fewer
chips hold need not be looked at again.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from learned_mapping.hardware.chip_memory import memory_arrays, memory_between
from learned_mapping.hardware.chip_package import ChipModel

ROWS = 4096
"""Ideals whose ops are unpacked at once."""
LOOKS = 20_000_000
"""Steps between ideals, some tenths of a second, between two looks at the clock."""
UNREACHED, KNOWN = -1, -2
"""In place of the ideal that one comes from: none yet, or one of fewer chips."""


class ByChip(NamedTuple):
    """K ideals on C chips, as the kernel reads them."""

    ops: np.ndarray  # [K, N / 8] uint8, a bit an op; empty rows where memory does not count.
    seconds: np.ndarray  # [C, K] float64 of each ideal's ops on each chip.
    rest_s: np.ndarray  # [K] float64 of all other ops, each where it is fastest.
    weight_bytes: np.ndarray  # [K] float64.
    output_bytes: np.ndarray  # [K] float64 of all tensors that the ideal's ops make.
    cut_s: np.ndarray  # [K] float64 seconds of what leaves it on a link of factor 1.
    cut_bytes: np.ndarray  # [K] float64.
    factor: np.ndarray  # [C] float64 of each link's seconds.
    required: np.ndarray  # [K] int32.
    step_offsets: np.ndarray  # [K + 1] int32.
    steps: np.ndarray  # [L] int32.


class Layers:
    """The chains of ideals of one model.

    Args:
      model: of chips, of which one may be unlike another; its memory counts where it has a limit.
      ideals: `optimum.Ideals` of its graph.
    """

    def __init__(self, model: ChipModel, ideals):
        n, count = model.graph.num_ops, len(ideals.seconds)
        limit = np.full(model.package.chips, np.inf) if model.limit is None else model.limit
        self.limit = np.array(limit, np.float64)
        self._limited = model.limit is not None
        self._same = model.alike and len(np.unique(self.limit)) == 1
        self._memory = memory_arrays(model.graph)
        raw = b"".join(ideal.to_bytes((n + 7) // 8, "little") for ideal in ideals.members)
        ops = np.frombuffer(raw, np.uint8).reshape(count, -1)
        times = model.chip_seconds
        least = times.min(axis=0)
        whole = [*times, least, self._memory.weight_bytes, self._memory.output_bytes]
        of_op = np.array(whole, np.float64).T
        sums = np.empty((count, of_op.shape[1]))
        for row in range(0, count, ROWS):
            bits = np.unpackbits(ops[row : row + ROWS], axis=1, count=n, bitorder="little")
            sums[row : row + ROWS] = bits @ of_op
        *seconds, done, weights, outputs = np.ascontiguousarray(sums.T)
        self._arrays = ByChip(
            ops=ops,
            seconds=np.array(seconds),
            rest_s=least.sum() - done,
            weight_bytes=weights,
            output_bytes=outputs,
            cut_s=ideals.cut_s,
            cut_bytes=ideals.cut_bytes,
            factor=np.array(model.link_factor),
            required=ideals.required,
            step_offsets=ideals.step_offsets,
            steps=ideals.steps,
        )

    def chain(
        self, target_s: float, stop: Callable[[], bool], scale: float = 1.0
    ) -> list[int] | None:
        """The ideals I_0 ⊂ ... ⊂ V of a partition with every t_c <= target whose chips hold at most
        `scale` times their memory; None where there is none, and an empty list where `stop` came
        first."""
        arrays, limit = self._arrays, self.limit * scale
        chips, count = arrays.seconds.shape
        came_from = np.full((chips, count), UNREACHED, np.int32)
        reached = np.zeros((chips + 1, count), bool)
        reached[0, 0] = True
        for chip in range(chips):
            first = 0
            if self._same:
                came_from[chip, reached[: chip + 1].any(axis=0)] = KNOWN
            while first < count:
                first = _add_chip(
                    arrays,
                    self._memory,
                    chip,
                    target_s,
                    limit[chip],
                    self._limited,
                    reached[chip],
                    came_from[chip],
                    reached[chip + 1],
                    first,
                )
                if stop():
                    return []
            if came_from[chip, -1] >= 0:
                return self._back(came_from, chip)
        return None

    @staticmethod
    def _back(came_from: np.ndarray, chip: int) -> list[int]:
        chain = [came_from.shape[1] - 1]
        for c in range(chip, 0, -1):
            chain.append(int(came_from[c, chain[-1]]))
        return chain[::-1]


@njit(cache=True)
def _fits(arrays, memory, i, j, limit, freed):
    """Whether a chip that adds ideal j to i keeps to `limit` bytes: two bounds decide most."""
    weights = arrays.weight_bytes[j] - arrays.weight_bytes[i]
    arriving, leaving = arrays.cut_bytes[i], arrays.cut_bytes[j]
    if weights + max(arriving, leaving) > limit:
        return False
    made = arrays.output_bytes[j] - arrays.output_bytes[i]
    if weights + arriving + made <= limit:
        return True
    return memory_between(memory, arrays.ops[i], arrays.ops[j], freed) <= limit


@njit(cache=True)
def _add_chip(
    arrays, memory, chip, target_s, limit, limited, reached, came_from, larger_reached, first
):
    """Fills in, for the ideals from `first` on that the chips before can hold, those that this chip
    can add to them: where each comes from, and that it is reached; returns the ideal to go on
    from, K at the end."""
    seconds, cut_s, steps = arrays.seconds[chip], arrays.cut_s, arrays.steps
    count, chips = len(seconds), len(arrays.factor)
    stack, seen = np.empty(count, np.int64), np.full(count, -1, np.int64)
    freed = np.zeros(len(memory.order), np.int64)
    behind = arrays.factor[chip - 1] if chip else 1.0
    looked = 0
    for i in range(first, count):
        if looked > LOOKS:
            return i
        # Even a perfect balance of what is left must fit the chips that are left.
        if not reached[i] or arrays.rest_s[i] > (chips - chip) * target_s * (1 + 1e-12):
            continue
        room = seconds[i] + target_s - cut_s[i] * behind
        most = arrays.weight_bytes[i] + limit
        start = arrays.required[i]
        if seconds[start] > room or arrays.weight_bytes[start] > most:
            continue
        stack[0], seen[start], top = start, i, 1
        while top > 0:
            top -= 1
            j = stack[top]
            looked += 1
            if (
                j != i
                and came_from[j] == UNREACHED
                and seconds[j] + cut_s[j] * arrays.factor[chip] <= room
            ):
                looked += 100 * limited
                if not limited or _fits(arrays, memory, i, j, limit, freed):
                    came_from[j], larger_reached[j] = i, True
            for k in range(arrays.step_offsets[j], arrays.step_offsets[j + 1]):
                larger = steps[k]
                looked += 1
                if seen[larger] != i and seconds[larger] <= room:
                    if arrays.weight_bytes[larger] <= most:
                        seen[larger] = i
                        stack[top] = larger
                        top += 1
    return count
