"""The resources of a planner that allocates in any order: fast memory over time, and the supply of
the copy engine."""

import heapq
from collections import defaultdict

import numpy as np

from learned_mapping.programs.program import Program

SLACK = 1e-10  # Relative, on seconds of demand: the rounding of sums.


class FreeSpace:
    """Allocations as rectangles, steps [start, end] by bytes [low, high), and the free chunks
    between them."""

    def __init__(self, fast_bytes: int):
        self.fast_bytes = fast_bytes
        self.count = 0
        self._rows = np.zeros((5, 256), np.int64)  # start, end, low, high, tensor

    def mark(self) -> int:
        """A point to which `undo` goes back."""
        return self.count

    def undo(self, mark: int) -> None:
        """Takes back all allocations made after `mark`."""
        self.count = mark

    def add(self, tensor: int, start: int, end: int, offset: int, size: int) -> None:
        """Allocates; empty intervals and sizes take nothing."""
        if end < start or size == 0:
            return
        if self.count == self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)], axis=1)
        self._rows[:, self.count] = start, end, offset, offset + size, tensor
        self.count += 1

    def _overlapping(self, start: int, end: int) -> np.ndarray:
        rows = self._rows[:, : self.count]
        return rows[1:, (rows[0] <= end) & (rows[1] >= start)]

    def is_free(
        self, start: int, end: int, offset: int, size: int, updated: tuple[int, ...] = ()
    ) -> bool:
        """Whether [offset, offset + size) is free over [start, end].

        Args:
          start, end: steps, both included.
          offset, size: bytes.
          updated: tensors updated in place at `start`: an allocation of one that ends there at this
            offset may overlap.
        """
        if offset + size > self.fast_bytes:
            return False
        if end < start or size == 0:
            return True
        rows = self._overlapping(start, end)
        rows = rows[:, (rows[1] < offset + size) & (rows[2] > offset)]
        return all(
            tensor in updated and last == start and low == offset
            for last, low, _, tensor in rows.T.tolist()
        )

    def best_fit(self, start: int, end: int, size: int) -> int | None:
        """The offset of the smallest free chunk over [start, end] that holds `size` bytes, the
        lowest of equals."""
        if size > self.fast_bytes:
            return None
        if size == 0 or end < start:
            return 0
        _, low, high, _ = self._overlapping(start, end)
        order = np.argsort(low, kind="stable")
        starts = np.concatenate([[0], np.maximum.accumulate(high[order])])
        room = np.concatenate([low[order], [self.fast_bytes]]) - starts
        fitting = np.flatnonzero(room >= size)
        return int(starts[fitting[np.argmin(room[fitting])]]) if len(fitting) else None


class CopySchedule:
    """The copies planned so far: which steps each takes (Eq. 6), and what each draws from every
    step's supply (Eq. 5).

    In the game, copies draw on the supply in the order of their buffers, each from the step nearest
    to its instruction on (rules 1 and 3 of `mmap.rules.actions`). A planner that places the most
    valuable tensors first adds copies in another order, so one that comes late may take from a step
    what a copy later in the program counted on. `add` works out what all of them draw in program
    order and refuses a copy that leaves any of them short.
    """

    def __init__(self, program: Program):
        self.supply_s: list[float] = program.supply_s.tolist()
        self.demand_s: list[float] = program.buffer_demand_s.tolist()
        self.step_of: list[int] = program.buffer_instruction.tolist()
        self.is_output: list[bool] = program.buffer_is_output.tolist()
        self.span: dict[int, tuple[int, int]] = {}
        """Buffer -> first and last step of its copy, both included."""
        self.joined: set[int] = set()
        """u where one copy takes both u and u + 1."""
        # step -> buffer -> seconds
        self._draws: defaultdict[int, dict[int, float]] = defaultdict(dict)
        # step -> buffers whose span has it
        self._users: defaultdict[int, list[int]] = defaultdict(list)
        # what draws were before: step, buffer, seconds
        self._log: list[tuple[int, int, float | None]] = []
        self._added: list[tuple[int, int]] = []  # buffer, length of the log before

    def mark(self) -> int:
        """A point to which `undo` goes back."""
        return len(self._added)

    def undo(self, mark: int) -> None:
        """Takes back all copies added after `mark`."""
        while len(self._added) > mark:
            b, length = self._added.pop()
            first, last = self.span.pop(b)
            self.joined.difference_update(range(first, last))
            for step in range(first, last + 1):
                self._users[step].remove(b)
            self._restore(length)

    def shortest(self, b: int, limit: int) -> tuple[int, int] | None:
        """The copy of buffer b over the fewest steps that Eq. 5 and 6 allow, given the copies of
        earlier buffers.

        Args:
          b: a buffer of above 0 bytes.
          limit: for an input the first step, for an output the last step the copy may take.

        Returns:
          Its first and last step, or None where the supply within the limit does not cover the
          demand.
        """
        t, left = self.step_of[b], self.demand_s[b]
        forward = self.is_output[b]
        steps = range(t + 1, limit + 1) if forward else range(t - 1, limit - 1, -1)
        previous = None
        for step in steps:
            if previous is not None and min(step, previous) in self.joined:
                return None
            left -= self._available(step, b)
            if left <= SLACK * self.demand_s[b]:
                return (t + 1, step) if forward else (step, t - 1)
            previous = step
        return None

    def add(self, b: int, first: int, last: int) -> bool:
        """Plans the copy of buffer b over steps [first, last]; False, and nothing changed, where
        Eq. 5 or 6 forbids."""
        if any(step in self.joined for step in range(first, last)):
            return False
        length = len(self._log)
        self.span[b] = (first, last)
        later, queued = [b], {b}
        while later:
            c = heapq.heappop(later)
            queued.discard(c)
            changed = self._draw(c)
            if changed is None:
                del self.span[b]
                self._restore(length)
                return False
            for step in changed:
                for d in self._users[step]:
                    if d > c and d not in queued:
                        heapq.heappush(later, d)
                        queued.add(d)
        self._added.append((b, length))
        self.joined.update(range(first, last))
        for step in range(first, last + 1):
            self._users[step].append(b)
        return True

    def _available(self, step: int, b: int) -> float:
        return max(self.supply_s[step] - sum(s for c, s in self._draws[step].items() if c < b), 0.0)

    def _draw(self, b: int) -> list[int] | None:
        """Works out anew what b draws; the steps where that changed, or None where it is left
        short."""
        first, last = self.span[b]
        left, changed = self.demand_s[b], []
        for step in range(first, last + 1) if self.is_output[b] else range(last, first - 1, -1):
            drawn = min(self._available(step, b), left)
            left -= drawn
            before = self._draws[step].get(b)
            if drawn != (before or 0.0):
                self._log.append((step, b, before))
                self._draws[step][b] = drawn
                changed.append(step)
        return None if left > SLACK * self.demand_s[b] else changed

    def _restore(self, length: int) -> None:
        while len(self._log) > length:
            step, b, before = self._log.pop()
            if before is None:
                del self._draws[step][b]
            else:
                self._draws[step][b] = before
