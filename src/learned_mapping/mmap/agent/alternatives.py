"""Alternatives: one decision of a finished game is made otherwise, and the rest is played like that game.

What this comes to is exactly what the decision is worth beside the one that was made. In self-play the worth of a
decision drowns in that of the others around it, and decisions that the policy has given up are not seen any more: the
model's Q then says little about just those that a search asks about. So the difference of two Q is learned from it.
"""

from typing import NamedTuple

import numpy as np

from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.agent.observation import WIDTH
from learned_mapping.mmap.agent.replay import Replay

FIELDS = {
    "vector": ((WIDTH,), np.float16),
    "ids": ((3,), np.int32),
    "action": ((), np.int8),
    "made": ((), np.int8),
    "worth": ((), np.float32),
}
"""Of an alternative: what was seen, what was done, what had been, and the difference of the returns in units."""
KEPT = 16_384
"""Alternatives that are learned from: the latest."""


class Alternatives(NamedTuple):
    """N samples, see `FIELDS`."""

    vector: np.ndarray  # [N, WIDTH] float16.
    ids: np.ndarray  # [N, 3].
    action: np.ndarray  # [N] int8.
    made: np.ndarray  # [N] int8.
    worth: np.ndarray  # [N].


def play_out(
    games: Games, guide: Guide, unit: float, rng: np.random.Generator, quiet: int | None
) -> dict[str, np.ndarray]:
    """Tries an alternative to as many decisions of a game as there are games to play on, drawn with replacement.

    Args:
      games: [K] to play on; where they stand before does not matter.
      guide: the finished game.
      unit: as in `selfplay.SelfPlay`.
      quiet: see `Games.end_like`.

    Returns:
      `FIELDS`, [K, ...].
    """
    every = np.arange(len(games))
    games.start_at(guide, every, rng.choice(guide.decisions, len(games)))
    games.observe()
    made = guide.actions[games.cursor]
    others = games.legal & (np.arange(games.legal.shape[1]) != made[:, None])
    action = np.argmax(others * rng.random(others.shape), axis=1)
    seen = {"vector": games.vector.astype(np.float16), "ids": games.ids.copy(), "action": action, "made": made}
    games.step(action)
    return {**seen, "worth": unit * (games.end_like(guide, every, quiet) - guide.saved[-1])}


def drawn(replay: Replay, count: int, rng: np.random.Generator) -> Alternatives:
    """[count] of the alternatives in a ring of `FIELDS`, with replacement."""
    rows = rng.integers(replay.size, size=count)
    return Alternatives(**{name: store[rows] for name, store in replay.fields.items()})
