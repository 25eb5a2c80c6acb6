"""Many games of one program side by side on the compiled kernel: one call moves all of them.

A decision is a choice among two or three legal actions; moves without choice are made at once. A
dead end is settled by Drop-backup, which takes savings back: the return so far falls, and that is
the local negative reward of section 4.3.2.

`Games` is what the agent plays on. A `Guide` is a finished game with snapshots along it: games can
set out from any of its decisions, and end by its actions.
"""

from collections.abc import Iterable, Mapping

import numba
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mmap.agent.priced_view import PricedView, look_at_prices
from learned_mapping.mmap.observation import (
    SEEN,
    WIDTH,
    observe,
    tables_of,
)
from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import DROP
from learned_mapping.mmap.rules.state import (
    GameState,
    ProgramArrays,
    copy_state,
    new_state,
    program_arrays,
    stacked,
    view,
)
from learned_mapping.programs.program import Program

SNAPSHOTS = 32
"""Kept along the guide, so that a game starts anywhere after a short walk."""
TOLERANCE = 1e-12
"""Returns that differ by less are equal."""


@numba.njit(cache=True)
def _lose(program: ProgramArrays, state: GameState) -> None:
    """Ends a game with a return of 0: it becomes that of "Drop everything"."""
    game = state.game[0]
    resets = game.resets + 1
    kernel.restart(program, state)
    while game.cursor < len(program.buffers):
        kernel.follow_on(program, state, DROP)
    game.resets = resets


@numba.njit(cache=True)
def settle(program: ProgramArrays, state: GameState, backup: bool) -> None:
    """Plays what is forced, and settles dead ends, with Drop-backup or as a loss: then the game is
    over or there is a choice."""
    game = state.game[0]
    while game.cursor < len(program.buffers):
        legal = kernel.evaluate(program, state)
        if legal > 1:
            return
        if legal == 0:
            if backup:
                kernel.drop_backup(program, state)
            else:
                _lose(program, state)
            continue
        for action in range(3):
            if state.outcomes[action].legal != 0:
                kernel.apply(program, state, action)
                break


@numba.njit(cache=True)
def _observe_all(program, states, tables, vector, ids, legal, cursor, saved_s) -> None:
    for g in range(len(cursor)):
        state = view(states, g)
        game = state.game[0]
        observe(program, state, tables, vector[g, :WIDTH], ids[g])
        for action in range(3):
            over = game.cursor == len(program.buffers)
            legal[g, action] = not over and state.outcomes[action].legal != 0
        cursor[g], saved_s[g] = game.cursor, game.saved_s


@numba.njit(cache=True)
def _look_at_prices(program, states, at, rule, tables, vector) -> None:
    for g in range(len(vector)):
        state, out = view(states, g), vector[g, WIDTH:]
        out[:] = 0.0
        if state.game[0].cursor < len(program.buffers):
            look_at_prices(program, state, at, rule, tables.reward_scale, out)


@numba.njit(cache=True)
def _step_all(program, states, actions, backup) -> None:
    for g in range(len(actions)):
        if actions[g] >= 0:
            state = view(states, g)
            kernel.apply(program, state, actions[g])
            settle(program, state, backup)


@numba.njit(cache=True)
def _restart(program, states, g, backup) -> None:
    state = view(states, g)
    kernel.restart(program, state)
    settle(program, state, backup)


@numba.njit(cache=True)
def _record_guide(program, state, wanted, snapshots, cursors, saved_s, is_decision) -> None:
    """Plays the guide from its start; fills what was saved before each buffer, which buffers are
    decisions, and the snapshots with their cursors."""
    game, count = state.game[0], 0
    kernel.restart(program, state)
    while game.cursor < len(program.buffers):
        b = game.cursor
        if count < len(cursors) and b >= count * len(program.buffers) // len(cursors):
            kernel.evaluate(program, state)
            copy_state(view(snapshots, count), state)
            cursors[count] = b
            count += 1
        saved_s[b] = game.saved_s
        is_decision[b] = kernel.evaluate(program, state) > 1
        kernel.follow_on(program, state, wanted[state.game[0].cursor])
    saved_s[len(program.buffers)] = game.saved_s
    cursors[count:] = len(program.buffers) + 1


@numba.njit(cache=True)
def _start_at(program, states, wanted, snapshots, cursors, games, starts) -> None:
    for i in range(len(games)):
        state = view(states, games[i])
        nearest = 0
        while nearest + 1 < len(cursors) and cursors[nearest + 1] <= starts[i]:
            nearest += 1
        copy_state(state, view(snapshots, nearest))
        while state.game[0].cursor < starts[i]:
            kernel.follow_on(program, state, wanted[state.game[0].cursor])
        settle(program, state, True)


@numba.njit(cache=True)
def _end_like(program, states, wanted, saved_s, quiet, games, finals_s) -> None:
    """Follows the guide to the end, or until the difference to it has stood still for `quiet`
    buffers."""
    num_buffers = len(program.buffers)
    for i in range(len(games)):
        state = view(states, games[i])
        game = state.game[0]
        difference, since = game.saved_s - saved_s[game.cursor], game.cursor
        while game.cursor < num_buffers:
            if game.cursor - since > quiet:
                break
            kernel.follow_on(program, state, wanted[state.game[0].cursor])
            now = game.saved_s - saved_s[game.cursor]
            if abs(now - difference) > 1e-15:
                difference, since = now, game.cursor
        finals_s[i] = saved_s[num_buffers] + game.saved_s - saved_s[game.cursor]


@numba.njit(cache=True)
def _play_wanted(program, state, wanted) -> float:
    kernel.restart(program, state)
    while state.game[0].cursor < len(program.buffers):
        kernel.follow_on(program, state, wanted[state.game[0].cursor])
    return state.game[0].saved_s


class Guide:
    """A finished game that others can set out from and end like."""

    def __init__(self, program: Program | ProgramArrays):
        self.program = program_arrays(program)
        num_buffers = self.program.num_buffers
        self.possible_s = (
            self.program.possible_saving_s if self.program.possible_saving_s > 0 else 1.0
        )
        self._state = new_state(self.program)
        self.snapshots = stacked(self._state, min(SNAPSHOTS, num_buffers))
        self.cursors = np.zeros(len(self.snapshots.game), np.int64)
        """The buffers at which they were taken."""
        self.saved_s = np.zeros(num_buffers + 1)
        """[B + 1] seconds saved before each buffer, and at the end."""
        self._is_decision = np.zeros(num_buffers, bool)

    def value_of(self, actions: np.ndarray) -> tuple[float, np.ndarray]:
        """The return of the game of these actions [B], or of the nearest legal ones, and those."""
        value = (
            _play_wanted(self.program, self._state, np.asarray(actions, np.int64)) / self.possible_s
        )
        return value, self._state.moves["action"].copy()

    def follow(self, actions: np.ndarray) -> float:
        """Becomes the game of these actions [B], or of the nearest legal ones; returns its
        return."""
        value, self.actions = self.value_of(actions)
        _record_guide(
            self.program,
            self._state,
            self.actions,
            self.snapshots,
            self.cursors,
            self.saved_s,
            self._is_decision,
        )
        self.decisions = np.flatnonzero(self._is_decision)
        return value

    @property
    def saved(self) -> np.ndarray:
        """[B + 1] returns so far before each buffer, and at the end."""
        return self.saved_s / self.possible_s

    @property
    def to_go(self) -> np.ndarray:
        """[B + 1] returns from each buffer on, 0 at the end."""
        return self.saved[-1] - self.saved


class Best(Guide):
    """The best game that a training has met by whatever means: windows too."""

    def __init__(self, program: Program | ProgramArrays):
        super().__init__(program)
        self.value = -np.inf
        """Its return; -inf before the first."""
        self.follow(np.full(self.program.num_buffers, DROP))

    def offer(self, actions: np.ndarray, value: float) -> bool:
        """Becomes the game of these actions [B] where its return is higher; returns whether it
        is."""
        if value <= self.value + TOLERANCE:
            return False
        self.value = float(value)
        self.follow(actions)
        return True


class Games:
    """G games of a program; shares are of the possible saving.

    Args:
      count: G.
      backup: whether dead ends are settled by Drop-backup; else the game is lost, with a return of
        0.
    """

    def __init__(self, program: Program | ProgramArrays, count: int, backup: bool = True):
        self.program, self.backup = program_arrays(program), backup
        self.tables = tables_of(self.program)
        self.possible_s = (
            self.program.possible_saving_s if self.program.possible_saving_s > 0 else 1.0
        )
        self.states = stacked(new_state(self.program), count)
        self.vector = np.zeros((count, SEEN), np.float32)
        """[G, SEEN] observations of the positions, see `observation`."""
        self.prices: PricedView | None = None
        """The prices that are seen, or none."""
        self.ids = np.zeros((count, 3), np.int32)
        """[G, 3]: buffer, tensor, alias group + 1."""
        self.legal = np.zeros((count, 3), bool)
        self.cursor = np.zeros(count, np.int64)
        """[G] the buffer to decide; B where the game is over."""
        self._saved_s = np.zeros(count)
        self.restart(range(count))
        self.observe()

    def __len__(self) -> int:
        return len(self.cursor)

    @property
    def saved(self) -> np.ndarray:
        """[G] returns so far."""
        return self._saved_s / self.possible_s

    @property
    def over(self) -> np.ndarray:
        """[G] bool."""
        return self.cursor == self.program.num_buffers

    @property
    def resets(self) -> np.ndarray:
        """[G] dead ends met."""
        return self.states.game["resets"][:, 0]

    def observe(self) -> None:
        """Fills `vector`, `ids`, `legal`, `cursor` and `saved` from the states."""
        _observe_all(
            self.program,
            self.states,
            self.tables,
            self.vector,
            self.ids,
            self.legal,
            self.cursor,
            self._saved_s,
        )
        if self.prices is not None:
            _look_at_prices(self.program, self.states, *self.prices, self.tables, self.vector)

    def step(self, actions: np.ndarray) -> None:
        """Makes legal decisions [G]; -1 lets a game stand."""
        _step_all(self.program, self.states, np.asarray(actions, np.int64), self.backup)
        self.observe()

    def restart(self, games: Iterable[int]) -> None:
        """Games start over; `observe` afterwards."""
        for g in games:
            _restart(self.program, self.states, int(g), self.backup)

    def played(self, g: int) -> np.ndarray:
        """[B] int64 actions of a game, as far as it was played; Drop after that."""
        actions = self.states.moves["action"][g].copy()
        actions[int(self.states.game["cursor"][g, 0]) :] = DROP
        return actions

    def saved_before(self, g: int) -> np.ndarray:
        """[B + 1] returns so far before each buffer of a finished game, and at its end."""
        total = self.states.game["saved_s"][g, 0]
        return np.append(self.states.moves["saved_s"][g], total) / self.possible_s

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a checkpoint."""
        return {f"games.{name}": column for name, column in self.states._asdict().items()}

    def restore(self, arrays: Mapping[str, np.ndarray], source: object) -> None:
        """Back to games that `arrays` returned; raises `InputError` where they do not fit."""
        for name, column in self.states._asdict().items():
            stored = arrays.get(f"games.{name}")
            if (
                stored is None
                or stored.dtype != column.dtype
                or stored.shape[1:] != column.shape[1:]
            ):
                raise InputError(source, f"games.{name}", "is missing or does not fit")
            column[: len(stored)] = stored
        self.observe()

    def start_at(self, guide: Guide, games: np.ndarray, starts: np.ndarray) -> None:
        """Puts games at these decisions of a guide; `observe` afterwards."""
        _start_at(
            self.program, self.states, guide.actions, guide.snapshots, guide.cursors, games, starts
        )

    def end_like(self, guide: Guide, games: np.ndarray, quiet: int) -> np.ndarray:
        """The returns of games that from here on follow a guide. The games must be restarted.

        They end early where the difference in what is saved has stood still for `quiet` buffers;
        memory may still differ from the guide's, and on some programs the difference comes back
        later.
        """
        finals_s = np.zeros(len(games))
        _end_like(self.program, self.states, guide.actions, guide.saved_s, quiet, games, finals_s)
        return finals_s / self.possible_s
