"""Rounds of a training: where one stands still, the next begins from scratch.

With `AgentConfig.patience` a training on whole games goes in rounds. A round ends when it stands
still: that many updates, and a third of the round's, have made neither its best whole game nor the
best game it has met by whatever means better by `WORTH`. The next one begins with a new network, an
empty replay and a best game of its own, and with settings of its own, see `ROUNDS`. What the agent
has found is the best of all rounds.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from learned_mapping.mmap.agent.config import WHOLE, WINDOWS, AgentConfig

WORTH = 1e-3
"""Return by which a game must be better for a round not to stand still."""
NEAR_DROP: dict[str, Any] = {"drop_start": 3.0, "imitation": 0.1}
IN_WINDOWS: dict[str, Any] = {
    field.name: value
    for field in dataclasses.fields(AgentConfig)
    if (value := getattr(WINDOWS, field.name)) != getattr(WHOLE, field.name)
}
ROUNDS: tuple[dict[str, Any], ...] = ({}, NEAR_DROP, IN_WINDOWS)
"""Changes of a round to the settings of the first one, in turn: nothing; play begins near "Drop
everything"; windows as on long programs."""


def round_config(config: AgentConfig, number: int) -> AgentConfig:
    """The configuration of a round, from that of the first one, which has number 0."""
    return dataclasses.replace(config, **ROUNDS[number % len(ROUNDS)])


@dataclass
class Rounds:
    """The round that a training is in, and the outcome of the earlier ones."""

    number: int = 0
    since: int = 0
    """Updates before this round."""
    reached_at: int = 0
    """Updates before its last worthwhile gain."""
    reached: float = 0.0
    """Return of its best whole game after that gain and of its best game by whatever means,
    added."""
    whole: float = 0.0
    """Return of its best whole game, 0 before the first."""
    found: float | None = None
    """The best return by whatever means in an earlier round."""
    settled: float | None = None
    """The highest mean of last whole games at the end of an earlier round."""

    def begin(self, updates: int, best: float) -> None:
        """Starts to wait for gains, from a game met by whatever means of this return."""
        self.since = self.reached_at = updates
        self.reached = best + self.whole

    def stands_still(self, updates: int, best: float, patience: int) -> bool:
        """Whether the round has brought nothing worthwhile for as long as a round may."""
        reached = best + self.whole
        if reached > self.reached + WORTH:
            self.reached, self.reached_at = reached, updates
        return updates - self.reached_at >= max(patience, (updates - self.since) / 3)

    def end(self, best: float, recent_return: float | None) -> None:
        """Keeps what the round has come to."""
        self.found = best if self.found is None else max(self.found, best)
        self.settled, self.whole = recent_return, 0.0
        self.number += 1
