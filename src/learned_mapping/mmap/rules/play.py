"""Whole games on the compiled kernel, and `Game`, to step through by hand: outcomes, rewinding,
playing on.

A game is played by chance, by preferences, or by a linear policy on `policies.FEATURES`. Dead ends
are settled by Drop-backup. Same arguments, same generator state: same game.
"""

from operator import index
from typing import NamedTuple

import numpy as np

from learned_mapping.errors import InputError, expect_type, is_whole, told
from learned_mapping.mmap.mapping import Mapping, all_dropped, make_mapping
from learned_mapping.mmap.rules import kernel, policies
from learned_mapping.mmap.rules.actions import ACTION_NAMES
from learned_mapping.mmap.rules.policies import NUM_FEATURES
from learned_mapping.mmap.rules.state import (
    ProgramArrays,
    benefit_unit,
    new_state,
    program_arrays,
    share,
    supply_unit,
)
from learned_mapping.programs.program import Program


class PlayedGame(NamedTuple):
    """A finished game."""

    action: np.ndarray  # [B] int8: Copy 0, NoCopy 1, Drop 2.
    offset: np.ndarray  # [B] int64, bytes; -1 where dropped.
    start: np.ndarray  # [B] int64, first step of I(b); -1 where dropped.
    end: np.ndarray
    """[B] int64, last step of I(b); start - 1 where a NoCopy found its tensor allocated; -1 where
    dropped."""
    value: float  # The return: the time saved as a fraction of ``program.possible_saving_s``.
    resets: int  # Dead ends met.
    moves: int  # Decisions made, those taken back included: the game steps that rates count.


_NO_PREFERENCES = np.zeros((1, 3))
_NO_WEIGHTS = np.zeros((2, NUM_FEATURES))
_NO_CHANCE = np.random.default_rng(0)  # For the policies that draw nothing.


class Game:
    """A game of one program, step by step; of its `ProgramArrays` where many games are made, which
    is cheaper."""

    def __init__(self, program: Program | ProgramArrays):
        self.program = program_arrays(program)
        self.state = new_state(self.program)
        self.scale = np.array([benefit_unit(self.program), supply_unit(self.program)])
        self._settle()

    def _settle(self) -> None:
        while not self.over and kernel.evaluate(self.program, self.state) == 0:
            kernel.drop_backup(self.program, self.state)

    @property
    def cursor(self) -> int:
        """The buffer to decide next; B when the game is over."""
        return int(self.state.game["cursor"][0])

    @property
    def over(self) -> bool:
        return self.cursor == self.program.num_buffers

    @property
    def value(self) -> float:
        """The return so far: seconds saved as a fraction of ``program.possible_saving_s``."""
        return share(self.program, float(self.state.game["saved_s"][0]))

    @property
    def resets(self) -> int:
        return int(self.state.game["resets"][0])

    @property
    def outcomes(self) -> np.ndarray:
        """[3] records with fields legal, start, end, offset, reward_s: what each action would do
        now."""
        return self.state.outcomes

    @property
    def legal(self) -> np.ndarray:
        """[3] bool."""
        return self.state.outcomes["legal"] != 0

    def step(self, action: int) -> float:
        """Makes a move, and Drop-backups where it ends in a dead end; returns the reward in
        seconds.

        Raises:
          InputError: the game is over or the action is not legal.
        """
        if self.over:
            raise InputError("action", "", "the game is over")
        try:
            number = index(action)
        except Exception:  # of another's object
            raise InputError("action", "", f"expected 0, 1 or 2, got {told(action)}") from None
        if not (0 <= number < 3 and self.state.outcomes["legal"][number]):
            name = ACTION_NAMES[number] if 0 <= number < 3 else told(action)
            raise InputError("action", "", f"{name} is not legal for buffer {self.cursor}")
        return kernel.step(self.program, self.state, number)

    def restart(self) -> None:
        """Back to the first buffer, with no group forced to Drop."""
        kernel.restart(self.program, self.state)
        self._settle()

    def rewind(self, prefix: int) -> None:
        """Takes back all but the first `prefix` decisions; groups forced to Drop stay so."""
        if not is_whole(prefix) or prefix < 0:
            raise InputError("prefix", "", f"expected a whole number from 0 on, got {prefix!r}")
        kernel.rewind(self.program, self.state, int(prefix))
        self._settle()

    def play_random(self, rng: np.random.Generator, stop: int | None = None) -> None:
        """Plays on with random legal moves until `stop` buffers are decided (default: all)."""
        expect_type(rng, np.random.Generator, "rng")
        self._play(policies.RANDOM, _NO_PREFERENCES, _NO_WEIGHTS, stop, rng)

    def play_preferences(self, preferences: np.ndarray, stop: int | None = None) -> None:
        """Plays on with the legal actions of highest preference [B, 3]; ties go to Copy, then
        NoCopy."""
        preferences = _checked(preferences, (self.program.num_buffers, 3), "preferences")
        self._play(policies.PREFERENCES, preferences, _NO_WEIGHTS, stop, _NO_CHANCE)

    def play_actions(self, actions: np.ndarray) -> None:
        """Plays on with these actions [B]; in place of one that is not legal, with the first of
        Copy, NoCopy, Drop."""
        actions = np.asarray(actions)
        if actions.size and (
            actions.dtype.kind not in "iu" or actions.min() < 0 or actions.max() > 2
        ):
            raise InputError("actions", "", "expected 0, 1 or 2 for each buffer")
        self.play_preferences(np.eye(3)[actions.astype(np.int64)])

    def play_linear_policy(self, weights: np.ndarray) -> None:
        """Plays on with the legal actions of highest weights [2, len(FEATURES)] . features; Drop
        scores 0."""
        self._play(
            policies.LINEAR,
            _NO_PREFERENCES,
            _checked(weights, (2, NUM_FEATURES), "weights"),
            None,
            _NO_CHANCE,
        )

    def _play(self, mode, preferences, weights, stop, rng) -> None:
        stop = self.program.num_buffers if stop is None else stop
        if not is_whole(stop):
            raise InputError("game", "stop", f"{stop!r} is no number of buffers")
        stop = min(int(stop), self.program.num_buffers)
        policies.play_on(
            self.program, self.state, mode, preferences, weights, self.scale, stop, rng
        )
        self._settle()

    def played(self) -> PlayedGame:
        """The solution of a finished game.

        Raises:
          InputError: the game is not over.
        """
        if not self.over:
            raise InputError(
                "game", "", f"{self.cursor} of {self.program.num_buffers} buffers are decided"
            )
        moves, game = self.state.moves, self.state.game[0]
        return PlayedGame(
            action=moves["action"].astype(np.int8),
            offset=moves["offset"].copy(),
            start=moves["start"].copy(),
            end=moves["end"].copy(),
            value=self.value,
            resets=int(game["resets"]),
            moves=int(game["moves"]),
        )


def mapping_of(program: Program, played: PlayedGame) -> Mapping:
    """A game's solution; where fast memory saves nothing, in any game, none of it is used."""
    if program.possible_saving_s <= 0.0:
        return all_dropped(program)
    return make_mapping(program, played.action, played.offset, played.start, played.end)


def _checked(values: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    values = np.ascontiguousarray(values, np.float64)
    if values.shape != shape:
        raise InputError(name, "", f"expected shape {shape}, got {values.shape}")
    return values
