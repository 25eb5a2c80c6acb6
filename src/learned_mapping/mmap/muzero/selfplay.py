"""Self-play: several games of one program side by side, one network call for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mmap.muzero.config import MuZeroConfig
from learned_mapping.mmap.muzero.position import Position
from learned_mapping.mmap.muzero.records import Record
from learned_mapping.mmap.muzero.representation import Observation, Observer
from learned_mapping.mmap.muzero.search import Decisions
from learned_mapping.mmap.rules.arrays import ProgramArrays
from learned_mapping.mmap.rules.play import PlayedGame

Decide = Callable[[Observation, np.ndarray], Decisions]
"""(observations [G, ...], legal [G, 3]) -> `Decisions`."""


class FinishedGame(NamedTuple):
    """What the learning curves need to know of a game."""

    value: float
    """Its return; 0 if lost."""
    decisions: int
    dead_ends: int
    value_error: float
    """Mean over the decisions of |network's value - what followed|, as a share of the possible saving."""
    entropy: float
    """Mean over the decisions of the entropy of the search's policy, nats; at most ln 3."""


class SelfPlay:
    """Games in progress, and the best finished one.

    Args:
      program: what to map.
      config: the agent.
      observer: for the program.
      budget: counts finished games and their returns.
      reference: as in `Position`.
    """

    def __init__(
        self,
        program: ProgramArrays,
        config: MuZeroConfig,
        observer: Observer,
        budget: Budget,
        reference: np.ndarray | None,
    ):
        self.config, self.observer, self.budget = config, observer, budget
        self.records = [
            Record(Position(program, drop_backup=config.drop_backup, reference=reference))
            for _ in range(config.parallel_games)
        ]
        self.best: PlayedGame | None = None
        self.finished: list[FinishedGame] = []
        """Since `take_finished` was last called."""

    def move(self, decide: Decide, keep: Callable[[Record], None], stop: Callable[[], bool]) -> bool:
        """One decision in every game; returns False where `stop` cut it short.

        Args:
          decide: the search.
          keep: called with the record of every finished game, before the next one starts in its place.
          stop: asked before each game that has ended is counted.
        """
        positions = [record.position for record in self.records]
        observation = self.observer(positions)
        found = decide(observation, np.stack([position.legal for position in positions]))
        actions, policies = np.asarray(found.action), np.asarray(found.policy)
        values, network_values = np.asarray(found.value), np.asarray(found.network_value)
        for row, record in enumerate(self.records):
            seen = Observation(*(column[row] for column in observation))
            record.decide(seen, int(actions[row]), policies[row], values[row], network_values[row])
            if record.position.over:
                if stop():
                    return False
                self._finish(record)
                keep(record)
                record.restart()
        return True

    def _finish(self, record: Record) -> None:
        position = record.position
        scale = self.config.network.value_scale
        errors = np.abs(np.asarray(record.network_value) / scale - record.returns_to_go())
        policy = np.stack(record.policy)
        entropy = -np.sum(policy * np.log(np.maximum(policy, 1e-12)), axis=-1)
        dead_ends = position.game.resets + position.lost
        self.finished.append(
            FinishedGame(position.value, len(record.rewards), dead_ends, float(errors.mean()), float(entropy.mean()))
        )
        if not position.lost:
            self.offer(position.played())
        self.budget.record(position.value)

    def offer(self, game: PlayedGame) -> None:
        """Keeps a finished game if it is the best."""
        if self.best is None or game.value > self.best.value:
            self.best = game

    def take_finished(self) -> list[FinishedGame]:
        """The games finished since the last call."""
        finished, self.finished = self.finished, []
        return finished
