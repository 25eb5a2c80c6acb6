"""The same games on the JAX environment: what `Games` is to the kernel, for an accelerator.

`mmap.env` has the rules and the observation, pure functions of one game that are jitted and vmapped here; the numba
kernel is the check. Whole games only: windows need the kernel's snapshots.
"""

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.errors import LearnedMappingError
from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.mmap import env
from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.rules.actions import DROP
from learned_mapping.mmap.rules.state import ProgramArrays, program_arrays
from learned_mapping.programs.program import Program


@jax.jit
def _step_all(program, tables, states, actions):
    states = jax.vmap(env.decide, in_axes=(None, 0, 0))(program, states, actions)
    return states, look(program, tables, states)


@jax.jit
def look(program, tables, states):
    """What is seen of G games: vector, ids, legal, cursor, seconds saved, dead ends met, actions so far; and whether
    the slots were too few for any of them."""
    vector, ids = jax.vmap(env.observe, in_axes=(None, None, 0))(program, tables, states)
    position, overflow = states.position, states.overflow.any()
    return vector, ids, position.legal, position.cursor, position.saved_s, states.resets, position.action, overflow


def chosen(which: jax.Array, yes: env.EnvState, no: env.EnvState) -> env.EnvState:
    """Of G states each the one or the other; which [G] bool."""
    return jax.tree.map(lambda a, b: jnp.where(which.reshape(-1, *[1] * (b.ndim - 1)), a, b), yes, no)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _begin(program, tables, capacity: int, count: int):
    state = env.decide(program, env.reset(program, capacity), jnp.asarray(-1))
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * count), state)


class EnvGames(Games):
    """`Games` on the JAX environment, but for the methods that follow a `Guide`. Where a game needs more slots than
    `env.capacity_for` gave it, a move raises `LearnedMappingError`, for what it earns could be wrong."""

    def __init__(self, program: Program | ProgramArrays, count: int):
        self.program = program_arrays(program)
        self._guide = Guide(self.program)
        self.possible_s = self._guide.possible_s
        with env.exact():
            self._env = env.env_program(self.program)
            self._tables = env.observation_tables(self.program)
            self._fresh = _begin(self._env, self._tables, env.capacity_for(self.program), count)
        self._states = self._fresh
        self.observe()

    def _show(self, seen) -> None:
        *seen, overflow = map(np.asarray, seen)
        if overflow:
            slots = self._states.position.slot_offset.shape[-1]
            raise LearnedMappingError(f"more allocations at a time than the {slots} slots of the JAX environment")
        self.vector, self.ids, self.legal, self.cursor, self._saved_s, self._resets, self._actions = seen

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

    def compile(self) -> None:
        """Compiles a move and a restart for so many games; the games stay where they are."""
        before = self._states
        self.step(np.full(len(self), DROP))
        self.restart(())
        self._states = before
        self.observe()

    def step(self, actions: np.ndarray) -> None:
        with env.exact():
            self._states, seen = _step_all(self._env, self._tables, self._states, np.asarray(actions, np.int32))
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

    def arrays(self, count: int) -> dict[str, np.ndarray]:
        """All games."""
        return flatten(self._states, "games")

    def restore(self, arrays: Mapping[str, np.ndarray], source: object) -> None:
        with env.exact():
            stored = unflatten(self._states, dict(arrays), "games", source)
            self._states = jax.tree.map(jnp.asarray, stored)
        self.observe()
