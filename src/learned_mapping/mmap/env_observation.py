"""The agent's view of a position on the JAX environment: `observation.observe` as a pure function
of one game."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from learned_mapping.mmap import observation
from learned_mapping.mmap.env_state import EnvProgram, EnvState
from learned_mapping.mmap.rules.actions import DROP, DROPPED, PLACED
from learned_mapping.mmap.rules.state import ProgramArrays, program_arrays
from learned_mapping.programs.program import Program


class ObservationTables(NamedTuple):
    """`observation.Tables` on the device, and the number of steps."""

    static: jax.Array
    next_of_tensor: jax.Array
    reward_scale: jax.Array
    supply_scale: jax.Array
    num_steps: jax.Array


def observation_tables(program: Program | ProgramArrays) -> ObservationTables:
    """The tables that `observe` needs of a program besides `EnvProgram`."""
    arrays = program_arrays(program)
    return ObservationTables(
        *map(jnp.asarray, (*observation.tables_of(arrays), arrays.num_instructions))
    )


def _log_steps(steps: jax.Array) -> jax.Array:
    return jnp.sign(steps) * jnp.log1p(jnp.abs(steps)) / 4.0


def _buffers(program: EnvProgram, tables: ObservationTables, state: EnvState, b, now) -> jax.Array:
    """[k + l + 1, BUFFER_NUMBERS]: the current buffer, those after it, those of its tensor."""
    position = state.position
    chain = [b]
    for _ in range(observation.NEXT_OF_TENSOR):
        chain.append(jnp.where(chain[-1] < 0, -1, tables.next_of_tensor[chain[-1]]))
    drawn = jnp.stack([*(b + i for i in range(observation.NEXT_BUFFERS + 1)), *chain[1:]])
    there = (drawn >= 0) & (drawn < program.num_buffers)
    drawn = jnp.clip(drawn, 0, len(program.size) - 1)
    when, tensor, alias = program.instruction[drawn], program.tensor[drawn], program.alias[drawn]
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
    numbers = jnp.concatenate([tables.static[drawn], jnp.stack(moving, axis=1)], axis=1)
    return jnp.where(there[:, None], numbers, 0.0)


def _overlaps(low: jax.Array, high: jax.Array, cells: int) -> jax.Array:
    """[C, cells]: the share of each cell of the memory that [low, high) takes."""
    cell = jnp.arange(cells)
    return jnp.maximum(
        jnp.minimum(high[:, None] * cells, cell + 1) - jnp.maximum(low[:, None] * cells, cell), 0.0
    )


def observe(
    program: EnvProgram, tables: ObservationTables, state: EnvState
) -> tuple[jax.Array, jax.Array]:
    """Vector [`observation.WIDTH`] float32, whose parts `observation.PARTS` names, and ids [3]
    int32 (buffer, tensor, alias group + 1) of one game; zeros where it is over."""
    position = state.position
    over = position.cursor == program.num_buffers
    b = jnp.minimum(position.cursor, len(program.size) - 1)
    now, tensor = program.instruction[b], program.tensor[b]
    # Intervals that are alive, and the largest gap at each step ahead.
    alive = position.slot_end >= now
    low, high = position.slot_offset / program.fast_bytes, position.slot_top / program.fast_bytes
    rank = jnp.where(alive, jnp.cumsum(alive) - 1, observation.LIVE)
    columns = [
        jnp.ones_like(low),
        low,
        high,
        _log_steps(position.slot_end - now),
        position.slot_tensor == tensor,
    ]
    live = (
        jnp.zeros((observation.LIVE, len(columns)))
        .at[rank]
        .set(jnp.stack(columns, axis=1), mode="drop")
    )
    drawn = alive & (position.slot_end >= now + jnp.asarray(observation.AHEAD)[:, None])
    tops = jnp.where(drawn, high, 0.0)
    below = jnp.concatenate(
        [jnp.zeros((len(tops), 1)), jax.lax.cummax(tops, axis=1)[:, :-1]], axis=1
    )
    gap = jnp.maximum(jnp.where(drawn, low - below, 0.0).max(axis=1), 1.0 - tops.max(axis=1))
    # The supply around now.
    steps = now - observation.SUPPLY + jnp.arange(2 * observation.SUPPLY)
    there = (steps >= 0) & (steps < tables.num_steps)
    supply = jnp.where(
        there, position.supply_s[jnp.clip(steps, 0, len(position.supply_s) - 1)], 0.0
    )
    # What each action would do.
    placing = position.legal & (jnp.arange(3) != DROP)
    actions = [
        _log_steps(now - position.start),
        _log_steps(position.end - now),
        _log_steps(position.end - position.start + 1),
        position.offset / program.fast_bytes,
        jnp.sign(position.reward_s) * jnp.log1p(jnp.abs(position.reward_s) * tables.reward_scale),
    ]
    placements = jnp.where(placing[:, None], jnp.stack(actions, axis=1), 0.0)
    # The game as a whole.
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
        drawn.astype(low.dtype)
        @ jnp.where(alive[:, None], _overlaps(low, high, observation.CELLS), 0.0),
        jnp.where(alive[:, None], _overlaps(low, high, observation.PROFILE), 0.0).sum(axis=0),
        jnp.log1p(supply * tables.supply_scale),
        jnp.concatenate([position.legal[:, None], placements], axis=1),
        jnp.stack([jnp.asarray(value, low.dtype) for value in overall]),
    ]
    vector = jnp.concatenate([part.reshape(-1) for part in parts])
    ids = jnp.stack([b, tensor, program.alias[b] + 1])
    return jnp.where(over, 0.0, vector).astype(jnp.float32), jnp.where(over, 0, ids).astype(
        jnp.int32
    )
