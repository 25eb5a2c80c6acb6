"""The part that every search over games of the MMapGame shares: the best game so far, under a
budget."""

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mmap.mapping import Mapping, claimed_share
from learned_mapping.mmap.rules.play import Game, PlayedGame, mapping_of
from learned_mapping.programs.program import Program


class Search:
    """A program, a reusable game, the budget and the best finished game.

    One sample of the budget is one game, played to its end from wherever it starts.
    """

    def __init__(self, program: Program, budget: Budget):
        self.program, self.budget = program, budget
        self.game = Game(program)
        self.best: PlayedGame | None = None
        self.metrics: dict[str, float] = {}
        """Numbers that a method says of itself besides its best game, such as ``updates``."""

    def finish(self) -> float:
        """Counts the game that has just been played to its end; returns its return."""
        value = self.game.value
        self.budget.record(value)
        if self.best is None or value > self.best.value:
            self.best = self.game.played()
        return value

    def play_preferences(self, preferences: np.ndarray) -> float:
        """One whole game by preferences [B, 3]."""
        self.game.restart()
        self.game.play_preferences(preferences)
        return self.finish()

    def play_actions(self, actions: np.ndarray) -> float:
        """One whole game by actions [B]."""
        return self.play_preferences(np.eye(3)[actions])

    def play_linear_policy(self, weights: np.ndarray) -> float:
        """One whole game by a linear policy, weights [2, len(FEATURES)]."""
        self.game.restart()
        self.game.play_linear_policy(weights)
        return self.finish()

    def offer(self, mapping: Mapping) -> float:
        """Counts a valid mapping that was made without playing as one game; returns its return."""
        value = claimed_share(self.program, mapping)
        self.budget.record(value)
        if self.best is None or value > self.best.value:
            self.best = PlayedGame(
                mapping.action,
                mapping.offset,
                mapping.start,
                mapping.end,
                value=value,
                resets=0,
                moves=0,
            )
        return value

    @property
    def found(self) -> PlayedGame:
        """The best game; something has been played."""
        assert self.best is not None
        return self.best

    def mapping(self) -> Mapping:
        """Its solution."""
        return mapping_of(self.program, self.found)


def random_play(search: Search, rng: np.random.Generator) -> None:
    """The best of games of uniformly random legal moves."""
    while not search.budget.spent():
        search.game.restart()
        search.game.play_random(rng)
        search.finish()
