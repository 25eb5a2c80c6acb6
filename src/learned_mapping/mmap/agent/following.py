"""Following: in positions of its own games the agent learns what the best game does there.

Windows of the best game show what lies along it. A whole game of the agent's leaves it sooner or later, and where
nothing was ever learned one mistake brings the next. So the best game's actions are the policy's targets in positions
of the agent's own games too (dataset aggregation: Ross, Gordon and Bagnell 2011), of whole games and of windows of the
last cold one. Half of these windows begin where that game loses most beside the best one.
"""

from collections.abc import Mapping

import numpy as np

from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.agent.replay import Replay
from learned_mapping.mmap.rules.actions import NEAREST

KEPT = 32_768
"""Positions that are learned from: the latest."""
CONFIDENCE = 0.9
"""Policy target of the best game's action."""
STRETCHES = 32
"""Parts of an own game, with as many decisions each, in which its losses are measured."""
WEAK_SHARE = 0.5
"""Of the windows of the own game, those that begin where it loses."""


def labels(actions: np.ndarray, ids: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """[N, 3] policy targets: of the actions [B] of a game, or of the nearest legal ones, at positions with these ids
    [N, 3] and legal actions [N, 3]."""
    wanted = NEAREST[actions[ids[:, 0]]]
    first = np.argmax(np.take_along_axis(legal, wanted, axis=1), axis=1)
    label = np.take_along_axis(wanted, first[:, None], axis=1)[:, 0]
    policy = legal * ((1.0 - CONFIDENCE) / np.maximum(legal.sum(axis=1) - 1, 1))[:, None]
    policy[np.arange(len(label)), label] = CONFIDENCE
    return policy.astype(np.float32)


class Followed(Replay):
    """The latest positions of the agent's own games, with the best game's actions as policy targets."""

    def __init__(self):
        super().__init__(KEPT)

    def take(self, columns: Mapping[str, np.ndarray], actions: np.ndarray) -> None:
        """Adds those of an iteration whose column ``own`` is True; `actions` [B] are the best game's."""
        kept = {name: columns[name][columns["own"]] for name in self.fields}
        self.add(kept | {"policy": labels(actions, kept["ids"], kept["legal"])})

    def renew(self, actions: np.ndarray) -> None:
        """Makes the targets those of another best game."""
        ids, legal = (self.fields[name][: self.size] for name in ("ids", "legal"))
        self.fields["policy"][: self.size] = labels(actions, ids, legal)


def losses(games: Games, own: Guide, best: Guide) -> np.ndarray:
    """[STRETCHES] what an own game loses in each stretch: by how much less the best game comes to when it is followed
    from the end of the stretch on than from its beginning on; at least 0.

    Args:
      games: `STRETCHES` games to play on; where they stand does not matter.
      own, best: the two games.
    """
    every = np.arange(STRETCHES)
    games.start_at(own, every, own.decisions[_bounds(len(own.decisions))[:-1]])
    games.observe()
    values = np.append(games.end_like(best, every), own.saved[-1])
    return np.maximum(-np.diff(values), 0.0)


def weak_starts(lost: np.ndarray, decisions: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """[count] of a game's decisions, a stretch as likely as it loses much; one of them loses something."""
    bounds = _bounds(len(decisions))
    stretch = rng.choice(STRETCHES, count, p=lost / lost.sum())
    low, high = bounds[stretch], np.maximum(bounds[stretch + 1], bounds[stretch] + 1)
    return decisions[(low + rng.random(count) * (high - low)).astype(np.int64)]


def _bounds(count: int) -> np.ndarray:
    """[STRETCHES + 1] where the stretches of so many decisions begin, and the last one."""
    return np.linspace(0, count - 1, STRETCHES + 1).astype(np.int64)
