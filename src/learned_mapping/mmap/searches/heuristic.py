"""The compiler's heuristic, memory space assignment, written anew for the MMapGame: paper 1's
production baseline.

The algorithm is public: OpenXLA, ``xla/service/memory_space_assignment``, in the files
``algorithm`` (which value goes where), ``cost_analysis`` (what it saves) and
``prefetch_interval_picker`` (when a copy starts). In words:

1. *Order.* A value is a tensor with the tensors it is updated into in place. Values are placed one
   after another, the one first whose benefits, summed over its definition and uses where they are
   positive, are largest for the square root of its size. A benefit is estimated from the bytes that
   no longer go through HBM. Nothing placed is moved again.
2. *No copy when possible.* A tensor that an instruction writes goes to fast memory if it can stay
   until its first use, at the offset where it can stay through most of its uses. A use whose tensor
   is in fast memory since the use before extends the stay.
3. *Eviction.* A tensor that cannot stay to its last use, or is a result of the program, is copied
   to HBM right after its definition, by the shortest copy; without room for that copy it is not
   placed.
4. *Prefetch.* Any other use gets a copy that begins where the instructions it overlaps last closest
   to `Settings.overlap` times as long as the copy; if Eq. 5, Eq. 6 or space forbid that one, the
   next closest, up to `Settings.attempts`. Without one the use reads HBM.
5. *No stay for long.* Nothing bridges two uses that lie further apart in time than
   `Settings.longest` times what a copy of the whole fast memory takes.
6. *Space.* Of the free chunks that hold a value over the longest stay, the smallest.

What differs from the compiler: copies obey Eq. 5 and Eq. 6 (one at a time, always hidden) where the
compiler lets them share the engine and slices large ones; every instruction counts as bound by
memory, since the game knows no other limit of it; and what the compiler adds before and after
(required placements, loops, repacking, prefetch across programs) is left out.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, NO_OFFSET
from learned_mapping.mmap.searches.resources import CopySchedule, FreeSpace
from learned_mapping.programs.program import NO_ALIAS, Program


@dataclass(frozen=True)
class Settings:
    """Numbers the public sources leave to the backend."""

    # Preferred time of the instructions beside a copy, as a multiple of the copy's own.
    overlap: float = 1.5
    attempts: int = 100  # Starts of a prefetch tried.
    # Longest time between two uses bridged in fast memory, in copies of the whole fast memory.
    longest: float = 10.0


class DeadEnd(Exception):
    """An alias group whose first member is placed has no room for its second."""

    def __init__(self, group: int):
        self.group = group


def heuristic(program: Program, settings: Settings | None = None) -> Mapping:
    """Maps a program by the compiler's published rules, kept within the game's: a valid mapping,
    deterministic."""
    return Planner(program, Settings() if settings is None else settings).plan()


def values_of(program: Program) -> list[list[int]]:
    """The tensors of each value, in order of definition; values in the order of their first
    tensors.

    Two tensors belong to one value if buffers of theirs are in one alias group, directly or through
    others.
    """
    aliased = np.flatnonzero(program.buffer_alias >= 0)
    ends = (
        program.buffer_tensor[aliased],
        program.num_tensors + program.buffer_alias[aliased].astype(np.int64),
    )
    size = program.num_tensors + program.num_alias_groups
    _, value = connected_components(
        coo_array((np.ones(len(aliased)), ends), shape=(size, size)), directed=False
    )
    values: defaultdict[int, list[int]] = defaultdict(list)
    for n in np.argsort(program.tensor_live[:, 0], kind="stable").tolist():
        values[value[n]].append(n)
    return list(values.values())


def values_by_benefit(program: Program, benefit: np.ndarray) -> list[list[int]]:
    """`values_of` the program, the best first; then the larger, then the earlier. A value's worth
    is the sum of what is positive of `benefit` [B], in any unit, over its definitions and uses, for
    the square root of its size."""
    benefit = np.bincount(
        program.buffer_tensor, np.maximum(benefit, 0.0), minlength=program.num_tensors
    )

    def key(value: list[int]) -> tuple[float, int, int, int]:
        size = int(max(program.tensor_bytes[n] for n in value))
        total = sum(float(benefit[n]) for n in value)
        return (
            -total / math.sqrt(max(size, 1)),
            -size,
            int(program.tensor_live[value[0], 0]),
            value[0],
        )

    return sorted(values_of(program), key=key)


class Planner:
    """Places values one after another, by `values_by_benefit`; `place` says how, the rest keeps the
    books."""

    def __init__(self, program: Program, settings: Settings):
        self.program, self.settings = program, settings
        self.copies = CopySchedule(program)
        self.space = FreeSpace(program.fast_bytes)
        self.step: list[int] = program.buffer_instruction.tolist()
        self.alias: list[int] = program.buffer_alias.tolist()
        self.bytes: list[int] = program.tensor_bytes.tolist()
        self.elapsed_s = np.concatenate([[0.0], np.cumsum(program.slow_s)])
        self.longest_s = settings.longest * program.fast_bytes / program.copy_bytes_per_s
        self.definition: dict[int, int] = {}
        self.uses: defaultdict[int, list[int]] = defaultdict(list)
        for b, tensor in enumerate(program.buffer_tensor.tolist()):
            if program.buffer_is_output[b]:
                self.definition[tensor] = b
            else:
                self.uses[tensor].append(b)
        self.action = np.full(program.num_buffers, DROP)
        self.offset, self.start, self.end = (
            np.full(program.num_buffers, NO_OFFSET) for _ in range(3)
        )
        self.group_offset: dict[int, int | None] = {}
        """Decided alias groups: the offset, None where dropped."""

    def plan(self) -> Mapping:
        """Places everything; a value that meets a dead end starts again with that alias group in
        HBM."""
        program = self.program
        for value in values_by_benefit(program, program.buffer_demand_s):
            marks = self.copies.mark(), self.space.mark()
            refused: dict[int, None] = {}
            while True:
                self.group_offset.update(refused)
                try:
                    for tensor in value:
                        self.place(tensor)
                    break
                except DeadEnd as dead_end:
                    refused[dead_end.group] = None
                    self.copies.undo(marks[0])
                    self.space.undo(marks[1])
                    for b in (b for n in value for b in self._buffers(n)):
                        self.group_offset.pop(self.alias[b], None)
                        self.action[b] = DROP
                        self.offset[b] = self.start[b] = self.end[b] = NO_OFFSET
        return make_mapping(self.program, self.action, self.offset, self.start, self.end)

    def _buffers(self, tensor: int) -> list[int]:
        return ([self.definition[tensor]] if tensor in self.definition else []) + self.uses[tensor]

    def place(self, tensor: int) -> None:
        """Decides the definition of a tensor and its uses in order (2 to 4)."""
        uses = self.uses[tensor]
        served, held, offset = 0, -1, NO_OFFSET
        in_hbm: int | None = 0
        if tensor in self.definition:
            b = self.definition[tensor]
            stay = self._stay_from_definition(tensor, b)
            if stay is None:
                in_hbm = self.step[b] + 1
                self.drop_group(b)
            else:
                served, offset, held, in_hbm = stay
        previous = self.step[uses[served - 1]] if served else None
        for i in range(served, len(uses)):
            b = uses[i]
            kept = previous is not None and self._extend(tensor, b, held, offset, previous)
            if not kept:
                place = None if in_hbm is None else self._prefetch(tensor, i, max(in_hbm, held + 1))
                if place is None:
                    previous = None
                    self.drop_group(b)
                    continue
                offset = place
            previous = self.step[b]
            held = max(held, previous)

    def group_of(self, b: int) -> tuple[bool, int | None]:
        """Whether the buffer may be placed, and the offset its alias group prescribes."""
        group = self.alias[b]
        if group == NO_ALIAS or group not in self.group_offset:
            return True, None
        return self.group_offset[group] is not None, self.group_offset[group]

    def drop_group(self, b: int) -> None:
        """Leaves a buffer, and so its alias group, in HBM; raises `DeadEnd` where the group is
        placed."""
        group = self.alias[b]
        if group != NO_ALIAS:
            if self.group_offset.get(group) is not None:
                raise DeadEnd(group)
            self.group_offset[group] = None

    def enter(self, b: int, action: int, offset: int, start: int, end: int) -> None:
        """Books a buffer in fast memory; the copy is in `copies` already."""
        self.action[b], self.offset[b], self.start[b], self.end[b] = action, offset, start, end
        self.space.add(
            int(self.program.buffer_tensor[b]),
            start,
            end,
            offset,
            int(self.program.buffer_bytes[b]),
        )
        if self.alias[b] != NO_ALIAS:
            self.group_offset.setdefault(self.alias[b], offset)

    def _bridged(self, one: int, other: int) -> bool:
        return self.elapsed_s[other] - self.elapsed_s[min(one + 1, other)] <= self.longest_s

    def _reach(self, tensor: int, first: int, step: int, offset: int | None) -> list[int]:
        """Ends of longer and longer stays through the uses from number `first` on, after one at
        `step`; stops at a use that may not be placed, at another offset than the stay's, or too far
        away."""
        ends: list[int] = []
        for b in self.uses[tensor][first:]:
            allowed, prescribed = self.group_of(b)
            if (
                not allowed
                or prescribed not in (None, offset)
                or not self._bridged(step, self.step[b])
            ):
                break
            step = self.step[b]
            ends.append(step)
        return ends

    def _longest(
        self, start: int, ends: list[int], offset: int | None, size: int, updated=()
    ) -> tuple[int, int] | None:
        """The number of the last of `ends` (ascending) to which there is room from `start` on, and
        the offset."""

        def chunk(end: int) -> int | None:
            if offset is None:
                return self.space.best_fit(start, end, size)
            return offset if self.space.is_free(start, end, offset, size, updated) else None

        low, high, longest = 0, len(ends) - 1, None
        while low <= high:
            middle = (
                high
                if longest is None and low == 0 and high == len(ends) - 1
                else (low + high) // 2
            )
            at = chunk(ends[middle])
            if at is None:
                high = middle - 1
            else:
                longest, low = (middle, at), middle + 1
        return longest

    def _stay_from_definition(self, tensor: int, b: int) -> tuple[int, int, int, int | None] | None:
        """Places an output: (uses served without a copy, offset, last step held, first step in HBM
        or None)."""
        program, t, size = self.program, self.step[b], self.bytes[tensor]
        allowed, offset = self.group_of(b)
        if not allowed:
            return None
        updated, live_end = program.updated_tensors[b], int(program.tensor_live[tensor, 1])
        ends = self._reach(tensor, 0, t, offset)
        is_result = bool(program.tensor_is_output[tensor])
        whole = len(ends) == len(self.uses[tensor]) and not is_result
        if whole and ends:
            stay = self._longest(t, [live_end], offset, size, updated)
            if stay is not None:
                self._hold(tensor, b, NO_COPY, stay[1], live_end, ends)
                return len(ends), stay[1], live_end, None
        out = (t, t) if size == 0 else self.copies.shortest(b, program.num_instructions - 1)
        must = offset is not None
        if out is None or not (ends or is_result or must):
            return None
        copied = out[1]
        # A result's last use is the program's end, so that it may leave at once; so may what has to
        # be placed.
        choices = ([copied] if is_result or must else []) + [max(end, copied) for end in ends]
        stay = self._longest(t, choices, offset, size, updated)
        if stay is None or (size > 0 and not self.copies.add(b, *out)):
            return None
        served = stay[0] + (0 if is_result or must else 1)
        self._hold(tensor, b, COPY, stay[1], copied, ends[:served])
        return served, stay[1], max([copied, *ends[:served]]), copied + 1

    def _hold(
        self, tensor: int, b: int, action: int, offset: int, end: int, ends: list[int]
    ) -> None:
        """Enters an output held to `end` and the uses at `ends` that go with it."""
        self.enter(b, action, offset, self.step[b], end)
        for use, step in zip(self.uses[tensor], ends):
            self.enter(use, NO_COPY, offset, min(end, step) + 1, step)
            end = max(end, step)

    def _extend(self, tensor: int, b: int, held: int, offset: int, previous: int) -> bool:
        """Extends a stay to the use b, if there is room and the use is not too far away."""
        allowed, prescribed = self.group_of(b)
        t = self.step[b]
        if not allowed or prescribed not in (None, offset) or not self._bridged(previous, t):
            return False
        if not self.space.is_free(held + 1, t, offset, self.bytes[tensor]):
            return False
        self.enter(b, NO_COPY, offset, min(held, t) + 1, t)
        return True

    def _prefetch(self, tensor: int, i: int, earliest: int) -> int | None:
        """Copies the tensor in for its use number i, from step `earliest` on; the offset, or None
        where it cannot."""
        b, size = self.uses[tensor][i], self.bytes[tensor]
        t = self.step[b]
        allowed, offset = self.group_of(b)
        if not allowed or earliest > t:
            return None
        ends = [t, *self._reach(tensor, i + 1, t, offset)]
        if size == 0:
            self.enter(b, COPY, 0 if offset is None else offset, t, t)
            return int(self.offset[b])
        shortest = self.copies.shortest(b, earliest)
        if shortest is None:
            return None
        for start in self._starts(b, earliest, shortest[0]):
            stay = self._longest(start, ends, offset, size)
            if stay is not None and self.copies.add(b, start, t - 1):
                self.enter(b, COPY, stay[1], start, t)
                return stay[1]
        return None

    def _starts(self, b: int, earliest: int, latest: int) -> list[int]:
        """First steps of a prefetch, the preferred one first (4)."""
        t = self.step[b]
        preferred = self.settings.overlap * float(self.program.buffer_demand_s[b])
        first = int(
            np.searchsorted(self.elapsed_s, self.elapsed_s[t] - max(self.longest_s, preferred))
        )
        steps = np.arange(max(earliest, min(first, latest)), latest + 1)
        lasts = self.elapsed_s[t] - self.elapsed_s[steps]
        order = np.lexsort((-steps, np.abs(lasts - preferred)))
        return steps[order[: self.settings.attempts]].tolist()
