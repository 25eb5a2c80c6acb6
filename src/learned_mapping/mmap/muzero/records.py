"""What a game leaves behind for learning: a row of decisions with what was seen, done, searched and rewarded."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from learned_mapping.learning.replay import REWARD, VALUE
from learned_mapping.mmap.muzero.config import RepresentationConfig
from learned_mapping.mmap.muzero.position import Position
from learned_mapping.mmap.muzero.representation import Observation, Observer, empty_observation

SEARCHED = ("policy", "value", "network_value")
"""What a decision's search leaves; the rest follows from the actions."""


def replay_fields(config: RepresentationConfig) -> dict[str, np.ndarray]:
    """One decision's entries, as `learning.replay.Replay` wants them; rewards and values in units of `value_scale`."""
    return {
        **empty_observation(config)._asdict(),
        "legal": np.zeros(3, bool),
        "action": np.int32(0),
        "policy": np.zeros(3, np.float32),
        REWARD: np.float32(0),
        VALUE: np.float32(0),
    }


@dataclass
class Record:
    """A game in progress: its position, and a list entry per decision made."""

    position: Position
    observations: list[Observation] = field(default_factory=list)
    legal: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    """Shares of the possible saving."""
    policy: list[np.ndarray] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    network_value: list[float] = field(default_factory=list)
    """Values in the units of `value_scale`."""

    def decide(
        self, observation: Observation, action: int, policy: np.ndarray, value: float, network_value: float
    ) -> None:
        """Makes a decision and notes all about it."""
        self.observations.append(observation)
        self.legal.append(self.position.legal)
        self.policy.append(np.asarray(policy, np.float32))
        self.value.append(float(value))
        self.network_value.append(float(network_value))
        self.rewards.append(self.position.step(action))

    def restart(self) -> None:
        """A new game."""
        for column in (self.observations, self.legal, self.rewards, self.policy, self.value, self.network_value):
            column.clear()
        self.position.restart()

    def returns_to_go(self) -> np.ndarray:
        """[decisions]: the undiscounted sum of the rewards from each on, shares of the possible saving."""
        return np.cumsum(np.asarray(self.rewards)[::-1])[::-1]

    def columns(self, value_scale: float) -> dict[str, np.ndarray]:
        """The finished game for the replay, see `replay_fields`; it has at least one decision."""
        stacked = Observation(*(np.stack(column) for column in zip(*self.observations)))
        return {
            **stacked._asdict(),
            "legal": np.stack(self.legal),
            "action": np.asarray(self.position.actions, np.int32),
            "policy": np.stack(self.policy),
            REWARD: (value_scale * np.asarray(self.rewards)).astype(np.float32),
            VALUE: np.asarray(self.value, np.float32),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps of a game in progress."""
        count = len(self.rewards)
        return {
            "actions": np.asarray(self.position.actions, np.int64),
            "policy": np.reshape(np.asarray(self.policy, np.float32), (count, 3)),
            "value": np.asarray(self.value, np.float64),
            "network_value": np.asarray(self.network_value, np.float64),
        }

    def restore(self, arrays: dict[str, np.ndarray], observer: Observer) -> None:
        """Plays the game in progress again from what `arrays` kept."""
        self.restart()
        rows = zip(*(arrays[name] for name in ("actions", *SEARCHED)))
        for action, policy, value, network_value in rows:
            self.decide(first_row(observer([self.position])), int(action), policy, value, network_value)


def first_row(batch: Observation) -> Observation:
    """The first observation of a batch."""
    return Observation(*(column[0] for column in batch))
