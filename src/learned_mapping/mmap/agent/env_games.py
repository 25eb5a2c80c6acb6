"""The same games on the JAX environment: what `Games` is to the kernel, for an accelerator.

Observation and step are pure functions of one game, jitted and vmapped here; `mmap.env` has the rules, and the numba
kernel is the check. Whole games only: windows need the kernel's snapshots.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.errors import LearnedMappingError
from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.mmap import env
from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.agent.observation import (
    AHEAD,
    CELLS,
    LIVE,
    NEXT_BUFFERS,
    NEXT_OF_TENSOR,
    PROFILE,
    SUPPLY,
    tables_of,
)
from learned_mapping.mmap.rules.actions import DROP, DROPPED, PLACED
from learned_mapping.mmap.rules.state import ProgramArrays, program_arrays
from learned_mapping.programs.program import Program


class EnvTables(NamedTuple):
    """`observation.Tables` on the device, and the number of steps."""

    static: jax.Array
    next_of_tensor: jax.Array
    reward_scale: jax.Array
    supply_scale: jax.Array
    num_steps: jax.Array


def _log_steps(steps: jax.Array) -> jax.Array:
    return jnp.sign(steps) * jnp.log1p(jnp.abs(steps)) / 4.0


def _buffers(program: env.EnvProgram, tables: EnvTables, state: env.EnvState, b, now) -> jax.Array:
    """[k + l + 1, BUFFER_NUMBERS]: the current buffer, those after it, those of its tensor."""
    position = state.position
    chain = [b]
    for _ in range(NEXT_OF_TENSOR):
        chain.append(jnp.where(chain[-1] < 0, -1, tables.next_of_tensor[chain[-1]]))
    shown = jnp.stack([*(b + i for i in range(NEXT_BUFFERS + 1)), *chain[1:]])
    there = (shown >= 0) & (shown < program.num_buffers)
    shown = jnp.clip(shown, 0, len(program.size) - 1)
    when, tensor, alias = program.instruction[shown], program.tensor[shown], program.alias[shown]
    end, status = position.tensor_end[tensor], position.group_status[jnp.maximum(alias, 0)]
    forced = state.forced[jnp.maximum(alias, 0)]
    moving = [
        _log_steps(when - now),
        end >= when,
        jnp.where(end >= 0, _log_steps(end - now), -1.0),
        position.in_hbm_from[tensor] <= when,
        (alias >= 0) & (status == PLACED),
        (alias >= 0) & ((status == DROPPED) | forced),
    ]
    numbers = jnp.concatenate([tables.static[shown], jnp.stack(moving, axis=1)], axis=1)
    return jnp.where(there[:, None], numbers, 0.0)


def _taken(low: jax.Array, high: jax.Array, cells: int) -> jax.Array:
    """[C, cells]: the share of each cell of the memory that [low, high) takes."""
    cell = jnp.arange(cells)
    return jnp.maximum(jnp.minimum(high[:, None] * cells, cell + 1) - jnp.maximum(low[:, None] * cells, cell), 0.0)


def observe(program: env.EnvProgram, tables: EnvTables, state: env.EnvState) -> tuple[jax.Array, jax.Array]:
    """What `observation.observe` fills in: vector [WIDTH] float32 and ids [3] int32 of one game."""
    position = state.position
    over = position.cursor == program.num_buffers
    b = jnp.minimum(position.cursor, len(program.size) - 1)
    now, tensor = program.instruction[b], program.tensor[b]
    alive = position.slot_end >= now
    low, high = position.slot_offset / program.fast_bytes, position.slot_top / program.fast_bytes
    rank = jnp.where(alive, jnp.cumsum(alive) - 1, LIVE)
    each = [jnp.ones_like(low), low, high, _log_steps(position.slot_end - now), position.slot_tensor == tensor]
    live = jnp.zeros((LIVE, len(each))).at[rank].set(jnp.stack(each, axis=1), mode="drop")
    drawn = alive & (position.slot_end >= now + jnp.asarray(AHEAD)[:, None])
    tops = jnp.where(drawn, high, 0.0)
    below = jnp.concatenate([jnp.zeros((len(AHEAD), 1)), jax.lax.cummax(tops, axis=1)[:, :-1]], axis=1)
    gap = jnp.maximum(jnp.where(drawn, low - below, 0.0).max(axis=1), 1.0 - tops.max(axis=1))
    steps = now - SUPPLY + jnp.arange(2 * SUPPLY)
    there = (steps >= 0) & (steps < tables.num_steps)
    supply = jnp.where(there, position.supply_s[jnp.clip(steps, 0, len(position.supply_s) - 1)], 0.0)
    placing = position.legal & (jnp.arange(3) != DROP)
    actions = [
        _log_steps(now - position.start),
        _log_steps(position.end - now),
        _log_steps(position.end - position.start + 1),
        position.offset / program.fast_bytes,
        jnp.log1p(jnp.maximum(position.reward_s, 0.0) * tables.reward_scale),
    ]
    actions = jnp.where(placing[:, None], jnp.stack(actions, axis=1), 0.0)
    in_use = jnp.where(alive, high - low, 0.0)
    overall = [
        b / program.num_buffers,
        now / tables.num_steps,
        in_use.sum(),
        jnp.log1p(alive.sum()) / 2.0,
        position.open_groups > 0,
        (now > 0) & position.joined[jnp.maximum(now - 1, 0)],
        jnp.log1p(state.resets) / 2.0,
    ]
    parts = [
        _buffers(program, tables, state, b, now),
        live,
        jnp.where(drawn, high - low, 0.0).sum(axis=1),
        gap,
        drawn.astype(low.dtype) @ jnp.where(alive[:, None], _taken(low, high, CELLS), 0.0),
        jnp.where(alive[:, None], _taken(low, high, PROFILE), 0.0).sum(axis=0),
        jnp.log1p(supply * tables.supply_scale),
        jnp.concatenate([position.legal[:, None], actions], axis=1),
        jnp.stack([jnp.asarray(value, low.dtype) for value in overall]),
    ]
    vector = jnp.concatenate([part.reshape(-1) for part in parts])
    ids = jnp.stack([b, tensor, program.alias[b] + 1])
    return jnp.where(over, 0.0, vector).astype(jnp.float32), jnp.where(over, 0, ids).astype(jnp.int32)


def decide(program: env.EnvProgram, state: env.EnvState, action: jax.Array) -> env.EnvState:
    """A decision (-1: none) and all that is forced after it."""
    state = jax.lax.cond(action >= 0, lambda s: env.step(program, s, action)[0], lambda s: s, state)

    def forced(state: env.EnvState) -> env.EnvState:
        return env.step(program, state, jnp.argmax(state.position.legal))[0]

    return jax.lax.while_loop(lambda s: s.position.legal.sum() == 1, forced, state)


@jax.jit
def _step_all(program, tables, states, actions):
    states = jax.vmap(decide, in_axes=(None, 0, 0))(program, states, actions)
    return states, look(program, tables, states)


@jax.jit
def look(program, tables, states):
    """What is seen of G games: vector, ids, legal, cursor, seconds saved, dead ends met, actions so far; and whether
    the slots were too few for any of them."""
    vector, ids = jax.vmap(observe, in_axes=(None, None, 0))(program, tables, states)
    position, overflow = states.position, states.overflow.any()
    return vector, ids, position.legal, position.cursor, position.saved_s, states.resets, position.action, overflow


def chosen(which: jax.Array, yes: env.EnvState, no: env.EnvState) -> env.EnvState:
    """Of G states each the one or the other; which [G] bool."""
    return jax.tree.map(lambda a, b: jnp.where(which.reshape(-1, *[1] * (b.ndim - 1)), a, b), yes, no)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _begin(program, tables, capacity: int, count: int):
    state = decide(program, env.reset(program, capacity), jnp.asarray(-1))
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
            tables = (*tables_of(self.program), self.program.num_instructions)
            self._tables = EnvTables(*map(jnp.asarray, tables))
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
    def played_on(self) -> tuple[env.EnvProgram, EnvTables, env.EnvState]:
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
