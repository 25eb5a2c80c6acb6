"""Whole games on the compiled kernel, and a game to step through by hand.

===========================  ==========================================================================================
`play_random`                one game of uniformly random legal moves
`play_preferences`           one game: at each buffer the legal action of highest preference [B, 3]
`play_sampled`               one game: at each buffer a legal action with probability softmax(logits [B, 3])
`play_linear_policy`         one game: at each buffer the legal action of highest weights . `FEATURES`
`random_returns`             returns of many games, without their solutions: the fast path of evolution and sampling
`preference_returns`
`linear_policy_returns`
`Game`                       step by step: legal actions, outcomes, snapshots, rewinding, playing on from here
===========================  ==========================================================================================

All settle dead ends by Drop-backup and return (the normalised return of 1.0 is everything in fast memory) a
`PlayedGame` or an array of returns. Same arguments, same generator state: same game.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mmap import kernel
from learned_mapping.mmap.arrays import ProgramArrays, program_arrays
from learned_mapping.mmap.rules import ACTION_NAMES, COPY, DROP, NO_COPY
from learned_mapping.mmap.state import GameState, copy_state, new_state
from learned_mapping.programs.program import Program

FEATURES = (
    "one",
    "log_benefit",  # ln(1 + benefit now / mean initial benefit)
    "log_size",  # ln(size / fast memory), at least ln(1e-6)
    "log_new_steps",  # ln(1 + steps this action occupies anew)
    "log_density",  # ln of benefit now per byte-step occupied anew, relative to mean benefit per fast memory and step
    "log_supply",  # ln(1 + supply seconds this action takes / mean supply of a step)
    "free_of_charge",  # 1 if nothing is occupied anew
    "log_uses_left",  # ln(1 + later buffers of the tensor)
    "log_group_left",  # ln(1 + later buffers of the alias group)
    "offset",  # as a fraction of the fast memory
    "fill",  # bytes in fast memory at this step, as a fraction
    "is_output",
    "log_tensor_density",  # as log_density, with the initial benefits of the tensor's later buffers added
)
"""What `play_linear_policy` weighs for Copy and for NoCopy: weights [2, len(FEATURES)]; Drop scores 0. A weight of 1 on
log_density and -ln(threshold) on one is the greedy rule "place what saves more than threshold per byte-step"."""
NUM_FEATURES = len(FEATURES)
_RANDOM, _PREFERENCES, _SAMPLED, _LINEAR = 0, 1, 2, 3


class PlayedGame(NamedTuple):
    """A finished game."""

    action: np.ndarray
    """[B] int8: Copy 0, NoCopy 1, Drop 2."""
    offset: np.ndarray
    """[B] int64, bytes; -1 where dropped."""
    start: np.ndarray
    """[B] int64, first step of I(b); -1 where dropped."""
    end: np.ndarray
    """[B] int64, last step of I(b); start - 1 where a NoCopy found its tensor allocated; -1 where dropped."""
    value: float
    """The return: the time saved as a fraction of ``program.possible_saving_s``."""
    resets: int
    """Dead ends met."""
    moves: int
    """Decisions made, those taken back included: the game steps that rates count."""


@numba.njit(cache=True)
def action_features(
    program: ProgramArrays, state: GameState, scale: np.ndarray, action: int, features: np.ndarray
) -> None:
    """Fills `FEATURES` of a legal Copy or NoCopy on the evaluated buffer; scale [2]: mean benefit and supply, s."""
    game = state.game[0]
    buffer, outcome = program.buffers[game.cursor], state.outcomes[action]
    new_steps = max(outcome.end - outcome.start + 1, 0)
    size = max(buffer.bytes / program.fast_bytes, 1e-6)
    benefit = max(outcome.reward_s, 0.0) / scale[0]
    area = max(size * new_steps, 1e-6)
    features[0] = 1.0
    features[1] = np.log1p(benefit)
    features[2] = np.log(size)
    features[3] = np.log1p(new_steps)
    features[4] = np.log(max(benefit, 1e-9) / area)
    features[5] = np.log1p(buffer.demand_s / scale[1]) if action == COPY else 0.0
    features[6] = 1.0 if new_steps == 0 else 0.0
    features[7] = np.log1p(buffer.uses_left)
    features[8] = np.log1p(buffer.group_left)
    features[9] = outcome.offset / program.fast_bytes
    features[10] = game.live_bytes / program.fast_bytes
    features[11] = buffer.is_output
    features[12] = np.log(max(benefit + max(buffer.benefit_left_s, 0.0) / scale[0], 1e-9) / area)


@numba.njit(cache=True)
def _choose(program, state, mode, preferences, weights, scale, features, rng) -> int:
    """A legal action by the policy `mode` names."""
    b = state.game[0].cursor
    if mode == _RANDOM:
        count = state.outcomes[COPY].legal + state.outcomes[NO_COPY].legal + state.outcomes[DROP].legal
        skip = int(rng.random() * count) if count > 1 else 0
        for action in range(3):
            if state.outcomes[action].legal != 0:
                if skip == 0:
                    return action
                skip -= 1
    best, best_score = -1, -np.inf
    for action in range(3):
        if state.outcomes[action].legal == 0:
            continue
        if mode == _LINEAR:
            score = 0.0
            if action != DROP:
                action_features(program, state, scale, action, features)
                for i in range(len(features)):
                    score += weights[action, i] * features[i]
        else:
            score = preferences[b, action]
            if mode == _SAMPLED:
                score -= np.log(-np.log(max(rng.random(), 1e-300)))
        if best < 0 or score > best_score:
            best, best_score = action, score
    return best


@numba.njit(cache=True)
def _play(program, state, mode, preferences, weights, scale, stop, rng) -> None:
    """Plays on until `stop` buffers are decided."""
    features = np.zeros(NUM_FEATURES)
    while state.game[0].cursor < stop:
        if kernel.evaluate(program, state) == 0:
            kernel.drop_backup(program, state)
        else:
            action = _choose(program, state, mode, preferences, weights, scale, features, rng)
            kernel.apply(program, state, action)


@numba.njit(cache=True)
def _returns(program, state, mode, preferences, weights, scale, rng, values) -> int:
    """Fills `values` with the returns of whole games; returns the decisions made, those taken back included."""
    moves = 0
    for i in range(len(values)):
        kernel.restart(program, state)
        p = preferences[i if len(preferences) > 1 else 0]
        w = weights[i if len(weights) > 1 else 0]
        _play(program, state, mode, p, w, scale, len(program.buffers), rng)
        values[i] = state.game[0].saved_s / program.possible_saving_s
        moves += state.game[0].moves
    return moves


_NO_PREFERENCES = np.zeros((1, 3))
_NO_WEIGHTS = np.zeros((2, NUM_FEATURES))


def _positive_mean(values: np.ndarray) -> float:
    mean = float(np.mean(values)) if len(values) else 0.0
    return mean if mean > 0 else 1.0


class Game:
    """A game of one program, step by step.

    Args:
      program: a `Program` or its `ProgramArrays` (cheaper where many games are made).
    """

    def __init__(self, program: Program | ProgramArrays):
        self.program = program_arrays(program)
        self.state = new_state(self.program)
        self.scale = np.array(
            [_positive_mean(self.program.buffers["benefit_s"]), _positive_mean(self.program.supply_s)]
        )
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
        saved = float(self.state.game["saved_s"][0])
        return saved / self.program.possible_saving_s if self.program.possible_saving_s else 0.0

    @property
    def resets(self) -> int:
        return int(self.state.game["resets"][0])

    @property
    def outcomes(self) -> np.ndarray:
        """[3] records with fields legal, start, end, offset, reward_s: what each action would do now."""
        return self.state.outcomes

    @property
    def legal(self) -> np.ndarray:
        """[3] bool."""
        return self.state.outcomes["legal"] != 0

    def step(self, action: int) -> float:
        """Makes a move, and Drop-backups where it ends in a dead end; returns the reward in seconds.

        Raises:
          InputError: the game is over or the action is not legal.
        """
        if self.over:
            raise InputError("action", "", "the game is over")
        if not (0 <= action < 3 and self.state.outcomes["legal"][action]):
            name = ACTION_NAMES[action] if 0 <= action < 3 else repr(action)
            raise InputError("action", "", f"{name} is not legal for buffer {self.cursor}")
        return kernel.step(self.program, self.state, int(action))

    def restart(self) -> None:
        """Back to the first buffer, with no group forced to Drop."""
        kernel.restart(self.program, self.state)
        self._settle()

    def rewind(self, prefix: int) -> None:
        """Takes back all but the first `prefix` decisions; groups forced to Drop stay so."""
        kernel.rewind(self.program, self.state, int(prefix))
        self._settle()

    def snapshot(self, into: GameState | None = None) -> GameState:
        """A copy of the state (`into` is overwritten and returned if given), for `restore`."""
        target = new_state(self.program) if into is None else into
        copy_state(target, self.state)
        return target

    def restore(self, snapshot: GameState) -> None:
        """Back to a state `snapshot` returned."""
        copy_state(self.state, snapshot)
        self._settle()

    def play_random(self, rng: np.random.Generator, stop: int | None = None) -> None:
        """Plays on with random legal moves until `stop` buffers are decided (default: all)."""
        self._play(_RANDOM, _NO_PREFERENCES, _NO_WEIGHTS, stop, rng)

    def play_preferences(self, preferences: np.ndarray, stop: int | None = None) -> None:
        """Plays on with the legal actions of highest preference [B, 3]; ties go to Copy, then NoCopy."""
        self._play(_PREFERENCES, self._preferences(preferences), _NO_WEIGHTS, stop, _rng())

    def play_sampled(self, logits: np.ndarray, rng: np.random.Generator, stop: int | None = None) -> None:
        """Plays on with legal actions drawn from softmax(logits [B, 3])."""
        self._play(_SAMPLED, self._preferences(logits), _NO_WEIGHTS, stop, rng)

    def play_linear_policy(self, weights: np.ndarray, stop: int | None = None) -> None:
        """Plays on with the legal actions of highest weights [2, len(FEATURES)] . features; Drop scores 0."""
        self._play(_LINEAR, _NO_PREFERENCES, _weights(weights), stop, _rng())

    def _preferences(self, preferences: np.ndarray) -> np.ndarray:
        return _checked(preferences, (self.program.num_buffers, 3), "preferences")

    def _play(self, mode, preferences, weights, stop, rng) -> None:
        stop = self.program.num_buffers if stop is None else min(int(stop), self.program.num_buffers)
        _play(self.program, self.state, mode, preferences, weights, self.scale, stop, rng)
        self._settle()

    def returns(self, mode, count, preferences, weights, rng) -> tuple[np.ndarray, int]:
        """Returns of `count` games from the start, and the decisions they took; see the functions of this module."""
        values = np.zeros(count)
        moves = _returns(self.program, self.state, mode, preferences, weights, self.scale, rng, values)
        return values, int(moves)

    def played(self) -> PlayedGame:
        """The solution of a finished game.

        Raises:
          InputError: the game is not over.
        """
        if not self.over:
            raise InputError("game", "", f"{self.cursor} of {self.program.num_buffers} buffers are decided")
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


def _checked(values: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    values = np.ascontiguousarray(values, np.float64)
    if values.shape != shape:
        raise InputError(name, "", f"expected shape {shape}, got {values.shape}")
    return values


def _weights(weights: np.ndarray) -> np.ndarray:
    return _checked(weights, (2, NUM_FEATURES), "weights")


def _rng() -> np.random.Generator:
    """For the policies that draw nothing."""
    return np.random.default_rng(0)


def play_random(program: Program | ProgramArrays, rng: np.random.Generator) -> PlayedGame:
    """One game of uniformly random legal moves."""
    game = Game(program)
    game.play_random(rng)
    return game.played()


def play_preferences(program: Program | ProgramArrays, preferences: np.ndarray) -> PlayedGame:
    """One game in which each buffer takes its legal action of highest preference [B, 3]."""
    game = Game(program)
    game.play_preferences(preferences)
    return game.played()


def play_sampled(program: Program | ProgramArrays, logits: np.ndarray, rng: np.random.Generator) -> PlayedGame:
    """One game in which each buffer draws a legal action from softmax(logits [B, 3])."""
    game = Game(program)
    game.play_sampled(logits, rng)
    return game.played()


def play_linear_policy(program: Program | ProgramArrays, weights: np.ndarray) -> PlayedGame:
    """One game in which each buffer takes its legal action of highest weights [2, len(FEATURES)] . features."""
    game = Game(program)
    game.play_linear_policy(weights)
    return game.played()


def random_returns(game: Game, count: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """[count] returns of random games, and the decisions made; `game` is reused and ends in the last one."""
    return game.returns(_RANDOM, count, _NO_PREFERENCES[None], _NO_WEIGHTS[None], rng)


def preference_returns(game: Game, preferences: np.ndarray) -> tuple[np.ndarray, int]:
    """[P] returns of the games that preferences [P, B, 3] play, and the decisions made; `game` ends in the last one."""
    preferences = _checked(preferences, (len(preferences), game.program.num_buffers, 3), "preferences")
    return game.returns(_PREFERENCES, len(preferences), preferences, _NO_WEIGHTS[None], _rng())


def linear_policy_returns(game: Game, weights: np.ndarray) -> tuple[np.ndarray, int]:
    """[P] returns of the games that weights [P, 2, len(FEATURES)] play, and the decisions made; `game` ends in the
    last one."""
    weights = _checked(weights, (len(weights), 2, NUM_FEATURES), "weights")
    return game.returns(_LINEAR, len(weights), _NO_PREFERENCES[None], weights, _rng())
