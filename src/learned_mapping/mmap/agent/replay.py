"""The last decisions of self-play in a ring, chunk by chunk, unrolls drawn from them, and their
value targets."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mmap.observation import SEEN

FIELDS = {
    "vector": ((SEEN,), np.float16),
    "ids": ((3,), np.int32),
    "legal": ((3,), bool),
    "action": ((), np.int8),
    "policy": ((3,), np.float32),
    "reward": ((), np.float32),
    "target": ((), np.float32),
    "left": ((), np.int16),
}
"""Fields of a decision: what was seen, done and searched; reward and value target in units; how
many decisions of its chunk follow."""


class Batch(NamedTuple):
    """N samples and what followed them, K steps."""

    vector: np.ndarray  # [N, SEEN] float16.
    ids: np.ndarray  # [N, 3].
    action: np.ndarray  # [N, K + 1] int8.
    policy: np.ndarray  # [N, K + 1, 3].
    reward: np.ndarray  # [N, K + 1]: what followed each position.
    target: np.ndarray  # [N, K + 1]: value targets.
    # [N, K + 1] bool: whether the chunk reaches so far; what it does not reach is not learned from.
    inside: np.ndarray


class Replay:
    """A ring of `capacity` rows of `FIELDS`."""

    def __init__(self, capacity: int):
        if capacity < 1:
            raise InputError("replay", "capacity", f"must be at least 1, got {capacity}")
        self.capacity, self.size, self.end = capacity, 0, 0
        self.fields: dict[str, np.ndarray] = {
            name: np.zeros((capacity, *shape), kind) for name, (shape, kind) in FIELDS.items()
        }

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Appends decisions, chunks one after the other: arrays [n, ...] for every field; at most
        `capacity` stay."""
        count = len(columns["action"])
        kept = min(count, self.capacity)
        rows = (self.end + np.arange(kept)) % self.capacity
        for name, store in self.fields.items():
            store[rows] = columns[name][count - kept :]
        self.end = (self.end + kept) % self.capacity
        self.size = min(self.size + kept, self.capacity)

    def rows(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """[count] rows drawn evenly, with replacement; something has been added."""
        return (rng.random(count) * self.size).astype(np.int64)

    def batch(self, rows: np.ndarray, steps: int) -> Batch:
        """The batch of what follows these rows."""
        fields, ahead = self.fields, np.arange(steps + 1)
        left = fields["left"][rows][:, None]
        index = (rows[:, None] + np.minimum(ahead, left)) % self.capacity
        columns = {name: fields[name][index] for name in ("action", "policy", "reward", "target")}
        return Batch(
            vector=fields["vector"][rows], ids=fields["ids"][rows], inside=ahead <= left, **columns
        )

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays of a checkpoint."""
        kept = {f"{prefix}.{name}": store[: self.size] for name, store in self.fields.items()}
        return {**kept, f"{prefix}.end": np.array(self.end)}

    def restore(self, arrays: Mapping[str, np.ndarray], prefix: str, source: object) -> None:
        """Back to what `arrays` returned; raises `InputError` where it does not fit."""
        for name, store in self.fields.items():
            stored = arrays.get(f"{prefix}.{name}")
            if (
                stored is None
                or stored.dtype != store.dtype
                or stored.shape[1:] != store.shape[1:]
                or len(stored) > self.capacity
                or f"{prefix}.end" not in arrays
            ):
                raise InputError(source, f"{prefix}.{name}", "is missing or does not fit")
            store[: len(stored)] = stored
            self.size = len(stored)
        self.end = int(arrays[f"{prefix}.end"])


def joined(*batches: Batch) -> Batch:
    """Batches one after the other."""
    return Batch(*(np.concatenate(parts) for parts in zip(*batches)))


def lambda_returns(
    reward: np.ndarray,
    value: np.ndarray,
    ended: np.ndarray,
    active: np.ndarray,
    bootstrap: np.ndarray,
    discount: float,
    trace: float,
) -> np.ndarray:
    """z_t = r_t + γ ((1 − λ) v_{t+1} + λ z_{t+1}), with nothing after the end of a game (Sutton and
    Barto, eq. 12.20).

    Args:
      reward: [M, G] r_t, of M decisions in each of G games.
      value: [M, G] v_t, by the search.
      ended: [M, G] bool: the game was over after the decision.
      active: [M, G] bool: there was a decision; none follows the first False of a column without a
        restart.
      bootstrap: [G] v_M = z_M: what follows the last decision where the game goes on.
      discount, trace: γ and λ.

    Returns:
      [M, G] z; 0 where not active.
    """
    z = np.zeros(reward.shape)
    following = next_value = np.asarray(bootstrap, np.float64)
    for m in range(len(reward) - 1, -1, -1):
        ahead = np.where(ended[m], 0.0, (1.0 - trace) * next_value + trace * following)
        z[m] = np.where(active[m], reward[m] + discount * ahead, 0.0)
        following = np.where(active[m], z[m], following)
        next_value = np.where(active[m], value[m], next_value)
    return z


def decisions_left(ended: np.ndarray, active: np.ndarray) -> np.ndarray:
    """[M, G] int64: how many decisions of the same game follow each in its chunk; arguments as
    `lambda_returns`."""
    left = np.zeros(ended.shape, np.int64)
    following = np.full(ended.shape[1], -1)
    for m in range(len(ended) - 1, -1, -1):
        left[m] = np.where(ended[m], 0, following + 1)
        following = np.where(active[m], left[m], following)
    return left
