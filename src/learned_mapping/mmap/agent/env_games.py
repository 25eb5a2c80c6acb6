"""The same games on the JAX environment: what `Games` is to the kernel, for an accelerator.

`mmap.env` has the rules and the observation, pure functions of one game that are jitted and vmapped
here; the numba kernel is the check. What windows set out from are states along the `Guide`,
stacked.
"""

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.errors import LearnedMappingError
from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.mmap import env
from learned_mapping.mmap.agent.games import SNAPSHOTS, Games, Guide
from learned_mapping.mmap.rules.actions import DROP, NEAREST
from learned_mapping.mmap.rules.state import ProgramArrays, program_arrays
from learned_mapping.programs.program import Program


@jax.jit
def _step_all(program, tables, states, actions):
    states = jax.vmap(env.decide, in_axes=(None, 0, 0))(program, states, actions)
    return states, look(program, tables, states)


@jax.jit
def look(program, tables, states):
    """The view of G games: vector, ids, legal, cursor, seconds saved, dead ends met, actions so
    far; and whether the slots were too few for any of them."""
    vector, ids = jax.vmap(env.observe, in_axes=(None, None, 0))(program, tables, states)
    position, overflow = states.position, states.overflow.any()
    return (
        vector,
        ids,
        position.legal,
        position.cursor,
        position.saved_s,
        states.resets,
        position.action,
        overflow,
    )


def chosen(which: jax.Array, yes: env.EnvState, no: env.EnvState) -> env.EnvState:
    """The G states, each of the one kind or the other; which [G] bool."""
    return jax.tree.map(
        lambda a, b: jnp.where(which.reshape(-1, *[1] * (b.ndim - 1)), a, b), yes, no
    )


@functools.partial(jax.jit, static_argnums=(2, 3))
def _begin(program, tables, capacity: int, count: int):
    state = env.decide(program, env.reset(program, capacity), jnp.asarray(-1))
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * count), state)


def _follow(program, state, wanted):
    """A move like that of a game of actions `wanted` [B], or the nearest legal one."""
    order = jnp.asarray(NEAREST)[wanted[jnp.minimum(state.position.cursor, len(wanted) - 1)]]
    return env.step(program, state, order[jnp.argmax(state.position.legal[order])])[0]


def _reach(program, state, wanted, place):
    """Follows until the buffer `place`, or the end."""
    return jax.lax.while_loop(
        lambda s: s.position.cursor < place, lambda s: _follow(program, s, wanted), state
    )


@functools.partial(jax.jit, static_argnums=3)
def _along(program, state, wanted, count: int):
    """The states of a game by its actions [B] at `count` buffers even over it, stacked."""

    def reach(state, place):
        state = _reach(program, state, wanted, place)
        return state, state

    return jax.lax.scan(reach, state, jnp.arange(count) * len(wanted) // count)[1]


@jax.jit
def _start_at(program, states, along, wanted, which, starts):
    """The G games with those that are `which` [G] at the buffers `starts` [G] of the game that
    `along` is of."""

    def game_at(start):
        nearest = (along.position.cursor <= start).sum() - 1
        return _reach(program, jax.tree.map(lambda leaf: leaf[nearest], along), wanted, start)

    return chosen(which, jax.vmap(game_at)(jnp.where(which, starts, 0)), states)


@jax.jit
def _end_like(program, states, wanted, saved_s, quiet, which):
    """[G] seconds saved in the end by games that are `which` and follow from here on, as in
    `Games.end_like`."""

    def end(state, mine):
        def difference(state):
            return state.position.saved_s - saved_s[state.position.cursor]

        def going(carry):
            state, _, since = carry
            return (
                mine
                & (state.position.cursor < len(wanted))
                & (state.position.cursor - since <= quiet)
            )

        def move(carry):
            state, before, since = carry
            state = _follow(program, state, wanted)
            moved = jnp.abs(difference(state) - before) > 1e-15
            return (
                state,
                jnp.where(moved, difference(state), before),
                jnp.where(moved, state.position.cursor, since),
            )

        last, _, _ = jax.lax.while_loop(
            going, move, (state, difference(state), state.position.cursor)
        )
        return saved_s[-1] + difference(last)

    return jax.vmap(end)(states, which)


class EnvGames(Games):
    """`Games` on the JAX environment. Where a game needs more slots than `env.capacity_for` gave
    it, a move raises `LearnedMappingError`, for what it earns could be wrong."""

    def __init__(self, program: Program | ProgramArrays, count: int):
        self.program = program_arrays(program)
        self._guide = Guide(self.program)
        self.possible_s = self._guide.possible_s
        with env.exact():
            self._env = env.env_program(self.program)
            self._tables = env.observation_tables(self.program)
            self._fresh = _begin(self._env, self._tables, env.capacity_for(self.program), count)
        self._states = self._fresh
        self._along: dict[bytes, env.EnvState] = {}
        """Actions -> states along their game, of the two that windows last set out from."""
        self.observe()

    def _show(self, seen) -> None:
        *seen, overflow = map(np.asarray, seen)
        if overflow:
            slots = self._states.position.slot_offset.shape[-1]
            raise LearnedMappingError(
                f"more allocations at a time than the {slots} slots of the JAX environment"
            )
        (
            self.vector,
            self.ids,
            self.legal,
            self.cursor,
            self._saved_s,
            self._resets,
            self._actions,
        ) = seen

    @property
    def resets(self) -> np.ndarray:
        return self._resets

    @property
    def played_on(self) -> tuple[env.EnvProgram, env.ObservationTables, env.EnvState]:
        """The program and the states of all games, for functions that play on."""
        return self._env, self._tables, self._states

    def observe(self) -> None:
        with env.exact():
            self._show(look(self._env, self._tables, self._states))

    def compile(self, windows: bool = False) -> None:
        """Compiles a move, a restart and, where asked for, windows for so many games; the games
        stay where they are."""
        before = self._states
        self.step(np.full(len(self), DROP))
        self.restart(())
        if windows:
            self._guide.follow(np.full(self.program.num_buffers, DROP))
            self.start_at(self._guide, np.arange(0), np.arange(0))
            self.end_like(self._guide, np.arange(0), 0)
        self._states = before
        self.observe()

    def step(self, actions: np.ndarray) -> None:
        with env.exact():
            self._states, seen = _step_all(
                self._env, self._tables, self._states, np.asarray(actions, np.int32)
            )
            self._show(seen)

    def restart(self, games: object) -> None:
        again = np.isin(np.arange(len(self)), list(games))
        with env.exact():
            self._states = chosen(again, self._fresh, self._states)

    def played(self, g: int) -> np.ndarray:
        actions = self._actions[g].astype(np.int64)
        actions[int(self.cursor[g]) :] = DROP
        return actions

    def saved_before(self, g: int) -> np.ndarray:
        self._guide.follow(self.played(g))
        return self._guide.saved

    def arrays(self) -> dict[str, np.ndarray]:
        return flatten(self._states, "games")

    def restore(self, arrays: Mapping[str, np.ndarray], source: object) -> None:
        with env.exact():
            stored = unflatten(self._states, dict(arrays), "games", source)
            self._states = jax.tree.map(jnp.asarray, stored)
        self.observe()

    def start_at(self, guide: Guide, games: np.ndarray, starts: np.ndarray) -> None:
        which, places = np.zeros(len(self), bool), np.zeros(len(self), np.int32)
        which[games], places[games] = True, starts
        wanted = guide.actions.astype(np.int32)
        with env.exact():
            along = self._along.pop(wanted.tobytes(), None)
            if along is None:
                first = env.reset(self._env, self._fresh.position.slot_offset.shape[-1])
                along = _along(self._env, first, wanted, min(SNAPSHOTS, len(wanted)))
            self._along = dict([*self._along.items(), (wanted.tobytes(), along)][-2:])
            self._states = _start_at(self._env, self._states, along, wanted, which, places)

    def end_like(self, guide: Guide, games: np.ndarray, quiet: int) -> np.ndarray:
        which = np.isin(np.arange(len(self)), games)
        with env.exact():
            wanted = guide.actions.astype(np.int32)
            finals_s = _end_like(self._env, self._states, wanted, guide.saved_s, quiet, which)
        return np.asarray(finals_s)[games] / self.possible_s
