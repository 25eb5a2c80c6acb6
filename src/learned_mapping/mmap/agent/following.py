"""Following: in positions of its own games the agent learns what the best game does there.

Windows of the best game show what lies along it. A whole game of the agent's leaves it sooner or
later, and where nothing was ever learned one mistake brings the next. So the best game's actions
are the policy's targets in positions of the agent's own games too (dataset aggregation: Ross,
Gordon and Bagnell 2011), of whole games and of windows of the last cold one.
"""

from collections.abc import Mapping

import numpy as np

from learned_mapping.mmap.agent.replay import Replay
from learned_mapping.mmap.rules.actions import NEAREST

SHARE = 0.3
"""Of a batch, positions of its own games, beside windows."""
KEPT = 32_768
"""Positions that are learned from: the latest."""
CONFIDENCE = 0.9
"""Policy target of the best game's action."""


def labels(actions: np.ndarray, ids: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """[N, 3] policy targets: of the actions [B] of a game, or of the nearest legal ones, at
    positions with these ids [N, 3] and legal actions [N, 3]."""
    wanted = NEAREST[actions[ids[:, 0]]]
    first = np.argmax(np.take_along_axis(legal, wanted, axis=1), axis=1)
    label = np.take_along_axis(wanted, first[:, None], axis=1)[:, 0]
    policy = legal * ((1.0 - CONFIDENCE) / np.maximum(legal.sum(axis=1) - 1, 1))[:, None]
    policy[np.arange(len(label)), label] = CONFIDENCE
    return policy.astype(np.float32)


class Followed(Replay):
    """The latest positions of the agent's own games, with the best game's actions as targets."""

    def __init__(self):
        super().__init__(KEPT)

    def take(self, columns: Mapping[str, np.ndarray], actions: np.ndarray) -> None:
        """Adds those of an iteration whose column ``own`` is True; `actions` [B] are the best
        game's."""
        kept = {name: columns[name][columns["own"]] for name in self.fields}
        self.add(kept | {"policy": labels(actions, kept["ids"], kept["legal"])})

    def renew(self, actions: np.ndarray) -> None:
        """Makes the targets those of another best game."""
        ids, legal = (self.fields[name][: self.size] for name in ("ids", "legal"))
        self.fields["policy"][: self.size] = labels(actions, ids, legal)
