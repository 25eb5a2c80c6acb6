"""Replay of decisions: games in a ring, sampled uniformly, with n-step targets along an unroll.

A game is a row of decisions. Decision i has an observation, the action taken, the reward that followed, the search's
policy and value, and whatever else the agent stores. Positions past the end of a game are absorbing: reward 0, value 0,
and no policy target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from learned_mapping.errors import InputError

REWARD, VALUE = "reward", "value"
"""The fields that targets are made of."""


class Unroll(NamedTuple):
    """Where samples and what follows them stand in the ring, N samples, K steps."""

    index: np.ndarray
    """[N, K + 1] int64 rows of the ring; past the end of a game that of its last decision."""
    inside: np.ndarray
    """[N, K + 1] bool: whether the game has such a decision."""


class Replay:
    """The last decisions of finished games.

    Args:
      capacity: decisions kept at most; the oldest games go first, whole. Of a game longer than this the end is kept.
      fields: name -> an array or scalar of the shape and type of one decision's entry; `REWARD` and `VALUE` among them.

    Raises:
      InputError: no capacity, or a field that targets need is missing.
    """

    def __init__(self, capacity: int, fields: Mapping[str, Any]):
        if capacity < 1:
            raise InputError("replay", "capacity", f"must be at least 1, got {capacity}")
        for name in (REWARD, VALUE):
            if name not in fields:
                raise InputError("replay", name, "is missing")
        self.capacity = int(capacity)
        self.fields = {
            name: np.zeros((self.capacity, *np.shape(entry)), np.asarray(entry).dtype) for name, entry in fields.items()
        }
        self.left = np.zeros(self.capacity, np.int64)
        """Decisions of the same game after this one."""
        self.first, self.size = 0, 0
        self.lengths: list[int] = []
        """Of the games kept, oldest first."""

    def __len__(self) -> int:
        return self.size

    def add(self, game: Mapping[str, np.ndarray]) -> None:
        """Appends a finished game: arrays [length, ...] for every field; an empty game changes nothing.

        Raises:
          InputError: the fields are not the replay's, or differ in length.
        """
        if set(game) != set(self.fields):
            raise InputError("game", "", f"fields {sorted(game)}, expected {sorted(self.fields)}")
        length = len(game[REWARD])
        if any(len(column) != length for column in game.values()):
            raise InputError("game", "", "fields differ in length")
        kept = min(length, self.capacity)
        if kept == 0:
            return
        while self.size + kept > self.capacity:
            oldest = self.lengths.pop(0)
            self.first, self.size = (self.first + oldest) % self.capacity, self.size - oldest
        rows = (self.first + self.size + np.arange(kept)) % self.capacity
        for name, column in game.items():
            self.fields[name][rows] = column[length - kept :]
        self.left[rows] = np.arange(kept - 1, -1, -1)
        self.size += kept
        self.lengths.append(kept)

    def sample(self, count: int, steps: int, rng: np.random.Generator) -> Unroll:
        """`count` decisions drawn uniformly, with replacement, and the `steps` that follow each.

        Raises:
          InputError: the replay is empty.
        """
        if self.size == 0:
            raise InputError("replay", "", "is empty")
        start = (self.first + rng.integers(self.size, size=count)) % self.capacity
        return self.unroll(start, steps)

    def unroll(self, start: np.ndarray, steps: int) -> Unroll:
        """The rows of the decisions `start` [N] and of the `steps` that follow each."""
        ahead = np.arange(steps + 1)
        left = self.left[start][:, None]
        return Unroll((start[:, None] + np.minimum(ahead, left)) % self.capacity, ahead <= left)

    def value_targets(self, where: Unroll, n: int, discount: float) -> np.ndarray:
        """[N, K + 1] float32: r_0 + g r_1 + ... + g^(n-1) r_(n-1) + g^n v_n from each position; 0 past the end.

        Args:
          where: the positions.
          n: rewards summed before the stored value takes over; 0 sums to the end of the game.
          discount: g.
        """
        left = self.left[where.index]
        reach = left + 1 if n == 0 else np.minimum(left + 1, n)
        total = np.zeros(where.index.shape)
        for i in range(int(reach.max(initial=0))):
            rows = (where.index + i) % self.capacity
            total += np.where(i < reach, discount**i * self.fields[REWARD][rows], 0.0)
        if n > 0:
            rows = (where.index + n) % self.capacity
            total += np.where(left >= n, discount**n * self.fields[VALUE][rows], 0.0)
        return np.where(where.inside, total, 0.0).astype(np.float32)

    def reward_targets(self, where: Unroll) -> np.ndarray:
        """[N, K + 1] float32: the reward that followed each position; 0 past the end."""
        return np.where(where.inside, self.fields[REWARD][where.index], 0.0).astype(np.float32)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that is kept, oldest first, for a checkpoint."""
        rows = (self.first + np.arange(self.size)) % self.capacity
        stored = {f"field.{name}": column[rows] for name, column in self.fields.items()}
        return {**stored, "lengths": np.array(self.lengths, np.int64), "first": np.array(self.first)}

    def restore(self, arrays: Mapping[str, np.ndarray], source: object = "checkpoint") -> None:
        """Makes the replay what `arrays` returned, rows included.

        Raises:
          InputError: something is missing, or does not fit.
        """
        for name in (*(f"field.{name}" for name in self.fields), "lengths", "first"):
            if name not in arrays:
                raise InputError(source, name, "is missing")
        lengths = arrays["lengths"].tolist()
        first = int(arrays["first"])
        size = sum(lengths)
        if size > self.capacity or any(length < 1 for length in lengths) or not 0 <= first < self.capacity:
            raise InputError(source, "lengths", "do not fit the replay")
        rows = (first + np.arange(size)) % self.capacity
        for name, column in self.fields.items():
            stored = arrays[f"field.{name}"]
            if stored.shape != (size, *column.shape[1:]) or stored.dtype != column.dtype:
                raise InputError(source, f"field.{name}", f"{stored.dtype}{list(stored.shape)} does not fit")
            column[rows] = stored
        self.first, self.size, self.lengths = first, size, lengths
        if size:
            self.left[rows] = np.concatenate([np.arange(length - 1, -1, -1) for length in lengths])
