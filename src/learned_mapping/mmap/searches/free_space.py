"""Fast memory over time for planners that allocate in any order: which bytes are free during which steps."""

from __future__ import annotations

import numpy as np


class FreeSpace:
    """Allocations as rectangles, steps [start, end] by bytes [low, high), and the free chunks between them."""

    def __init__(self, fast_bytes: int, capacity: int = 256):
        self.fast_bytes = fast_bytes
        self.count = 0
        self._start, self._end, self._low, self._high, self._tensor = (np.zeros(capacity, np.int64) for _ in range(5))

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
        if self.count == len(self._start):
            for name in ("_start", "_end", "_low", "_high", "_tensor"):
                setattr(self, name, np.concatenate([getattr(self, name), np.zeros(self.count, np.int64)]))
        row = self.count
        self._start[row], self._end[row], self._tensor[row] = start, end, tensor
        self._low[row], self._high[row] = offset, offset + size
        self.count += 1

    def _overlapping(self, start: int, end: int) -> np.ndarray:
        n = self.count
        return np.flatnonzero((self._start[:n] <= end) & (self._end[:n] >= start))

    def is_free(self, start: int, end: int, offset: int, size: int, updated: tuple[int, ...] = ()) -> bool:
        """Whether [offset, offset + size) is free over [start, end].

        Args:
          start, end: steps, both included.
          offset, size: bytes.
          updated: tensors updated in place at `start`: an allocation of one that ends there at this offset may overlap.
        """
        if offset + size > self.fast_bytes:
            return False
        if end < start or size == 0:
            return True
        rows = self._overlapping(start, end)
        rows = rows[(self._low[rows] < offset + size) & (self._high[rows] > offset)]
        return all(
            self._tensor[row] in updated and self._end[row] == start and self._low[row] == offset for row in rows
        )

    def best_fit(self, start: int, end: int, size: int) -> int | None:
        """The offset of the smallest free chunk over [start, end] that holds `size` bytes, the lowest of equals."""
        if size > self.fast_bytes:
            return None
        if size == 0 or end < start:
            return 0
        rows = self._overlapping(start, end)
        if len(rows) == 0:
            return 0
        low, high = self._low[rows], self._high[rows]
        order = np.argsort(low, kind="stable")
        top = np.maximum.accumulate(high[order])
        starts = np.concatenate([[0], top])
        room = np.concatenate([low[order], [self.fast_bytes]]) - starts
        fitting = np.flatnonzero(room >= size)
        if len(fitting) == 0:
            return None
        return int(starts[fitting[np.argmin(room[fitting])]])
