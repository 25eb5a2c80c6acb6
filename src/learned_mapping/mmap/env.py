"""The MMapGame of `rules` in JAX: pure `reset` and `step` of one game, for the caller to vmap and
jit.

The program is an argument (`EnvProgram`), so programs of equal shape share one compilation, and
`padded` gives several one shape. Seconds
are float64, as in the kernel, because Eq. 5 compares sums of supplies with demands: use everything
here inside ``with exact():``.

Allocations stand in a list of fixed capacity, sorted by offset. When it is full, the allocation
that ended first makes room. A later question that reaches back to a forgotten step could then be
answered wrongly: the state raises its `overflow` flag, and stays exact as long as the flag is down.
With capacity B the flag cannot rise.
"""

import bisect

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.errors import InputError, expect_type, expect_whole
from learned_mapping.learning.precision import exact, require_exact, whole_scalar
from learned_mapping.mmap.env_observation import ObservationTables, observation_tables, observe
from learned_mapping.mmap.env_state import (
    UNUSED,
    EnvProgram,
    EnvState,
    Position,
    env_program,
    padded,
)
from learned_mapping.mmap.rules.actions import (
    COPY,
    DROP,
    DROPPED,
    NEVER,
    NO_COPY,
    NO_OFFSET,
    PLACED,
    UNDECIDED,
)
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.rules.state import ProgramArrays, program_arrays
from learned_mapping.programs.program import MAX_BUFFERS, Program

__all__ = [
    "EnvProgram",
    "EnvState",
    "ObservationTables",
    "Position",
    "capacity_for",
    "decide",
    "env_program",
    "exact",
    "observation_tables",
    "observe",
    "padded",
    "reset",
    "step",
]

# Up to this many buffers the environment gets a slot for each, which rules an overflow out.
SMALL = 256
MARGIN = 1.5


def capacity_for(program: Program | ProgramArrays) -> int:
    """Slots for the environment: B for small programs (never an overflow); else `MARGIN` times the
    most allocations that any legal move of some compiled games had to look at: two that place all
    they can, two that play at random."""
    arrays = program_arrays(program)
    if arrays.num_buffers <= SMALL:
        return max(arrays.num_buffers, 1)
    game, rng, most = Game(arrays), np.random.default_rng(0), 0
    for order in ([2.0, 1.0, 0.0], [1.0, 2.0, 0.0], None, None):
        game.restart()
        if order is None:
            game.play_random(rng)
        else:
            game.play_preferences(np.tile(order, (arrays.num_buffers, 1)))
        most = max(most, _most_overlapping(game))
    return min(arrays.num_buffers, -(-int(MARGIN * most) // 16) * 16)


def _most_overlapping(game: Game) -> int:
    """The most allocations that end at or after the start of a legal move's interval, over a
    finished game's states."""
    actions = game.state.moves["action"].tolist()
    steps = game.program.buffers["instruction"].tolist()
    game.restart()
    ends: list[int] = []
    most = 0
    for t, action in zip(steps, actions):
        copy = game.outcomes[COPY]
        reach = min(t, int(copy["start"])) if copy["legal"] else t
        most = max(most, len(ends) - bisect.bisect_left(ends, reach))
        start, end = int(game.outcomes[action]["start"]), int(game.outcomes[action]["end"])
        if action != DROP and start <= end:
            bisect.insort(ends, end)
        game.step(action)
    return most + 1


def reset(program: EnvProgram, capacity: int) -> EnvState:
    """The state before the first decision.

    Args:
      capacity: C, slots for allocations; see `capacity_for`. Static under jit.

    Raises:
      InputError: no slot, no buffers, or not inside `exact`.
    """
    require_exact("mmap.env")
    expect_whole(capacity, "environment", "capacity", 1, MAX_BUFFERS)
    expect_type(program, EnvProgram, "program")
    num_buffers, num_tensors, num_groups = (
        len(program.size),
        len(program.in_hbm_from),
        len(program.num_groups),
    )
    if not num_buffers:
        raise InputError("environment", "program", "has no buffers to decide")
    integer, no = jnp.int32, jnp.zeros((), bool)
    zero, nothing = jnp.zeros((), integer), jnp.zeros((), program.supply_s.dtype)
    position = Position(
        cursor=zero,
        supply_s=program.supply_s,
        joined=jnp.zeros(program.supply_s.shape, bool),
        slot_offset=jnp.full(capacity, UNUSED, integer),
        slot_top=jnp.full(capacity, UNUSED, integer),
        slot_end=jnp.full(capacity, -1, integer),
        slot_tensor=jnp.full(capacity, -1, integer),
        forgotten=zero - 1,
        tensor_end=jnp.full(num_tensors, -1, integer),
        tensor_offset=jnp.full(num_tensors, NO_OFFSET, integer),
        tensor_blocked=jnp.zeros(num_tensors, bool),
        in_hbm_from=program.in_hbm_from,
        group_status=jnp.full(num_groups, UNDECIDED, integer),
        group_offset=jnp.full(num_groups, NO_OFFSET, integer),
        placed=zero,
        open_groups=zero,
        saved_s=nothing,
        action=jnp.full(num_buffers, -1, jnp.int8),
        legal=jnp.zeros(3, bool),
        start=jnp.zeros(3, integer),
        end=jnp.zeros(3, integer),
        offset=jnp.zeros(3, integer),
        reward_s=jnp.zeros(3, program.supply_s.dtype),
        leftover_s=nothing,
    )
    forced = jnp.zeros(num_groups, bool)
    position, overflow = _evaluate(program, position, forced)
    return EnvState(position, position, forced, zero, zero, no | overflow)


def step(program: EnvProgram, state: EnvState, action: jax.Array) -> tuple[EnvState, jax.Array]:
    """Makes a move and settles a dead end by Drop-backup.

    Args:
      action: [] integer. An illegal action, whatever number it is, or any after the end, changes
        nothing.

    Returns:
      The next state, and the reward of the move in seconds; what a reset takes back shows in
      ``position.saved_s``.

    Raises:
      InputError: not inside `exact`.
    """
    require_exact("mmap.env")
    expect_type(program, EnvProgram, "program")
    expect_type(state, EnvState, "state")
    before, action = state.position, whole_scalar(action, "action")
    valid = (action >= 0) & (action < len(before.legal))
    # an index that means the number and no other
    action = jnp.where(valid, action, DROP).astype(jnp.int32)
    valid &= before.legal[action]
    reward = jnp.where(valid, before.reward_s[action], 0.0)
    after = _apply(program, before, action, valid)
    after, overflow = _evaluate(program, after, state.forced)
    backup = _select(after.open_groups == 0, after, state.backup)
    over = after.cursor == program.num_buffers
    dead = ~over & ~after.legal.any()
    group = jnp.maximum(program.alias[jnp.minimum(after.cursor, len(program.size) - 1)], 0)
    forced = state.forced | (dead & (jnp.arange(len(state.forced)) == group))
    restart_group = program.alias[jnp.minimum(backup.cursor, len(program.size) - 1)]
    may_place = ~((restart_group >= 0) & forced[jnp.maximum(restart_group, 0)])
    legal = backup.legal & jnp.stack([may_place, may_place, jnp.ones_like(may_place)])
    restarted = backup._replace(
        legal=legal,
        start=jnp.where(legal, backup.start, -1),
        end=jnp.where(legal, backup.end, -1),
        offset=jnp.where(legal, backup.offset, NO_OFFSET),
        reward_s=jnp.where(legal, backup.reward_s, 0.0),
    )
    next_state = EnvState(
        position=_select(dead, restarted, after),
        backup=backup,
        forced=forced,
        resets=state.resets + dead,
        moves=state.moves + valid,
        overflow=state.overflow | overflow,
    )
    return next_state, reward


def decide(program: EnvProgram, state: EnvState, action: jax.Array) -> EnvState:
    """A decision (-1: none) and all that is forced after it."""

    def forced(state: EnvState) -> jax.Array:
        legal = state.position.legal
        return jnp.where(legal.sum() == 1, jnp.argmax(legal), -1)

    def move(carry: tuple[EnvState, jax.Array]) -> tuple[EnvState, jax.Array]:
        after = step(program, *carry)[0]
        return after, forced(after)

    action = jnp.where(action >= 0, action, forced(state))
    return jax.lax.while_loop(lambda carry: carry[1] >= 0, move, (state, action))[0]


def _select(condition: jax.Array, yes: Position, no: Position) -> Position:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _transfer(position: Position, t, forward, lowest, demand_s, active):
    """Walks from next to t, forward or back, until the demand is covered (rules 1 and 3).

    Returns the far step, the supply left there, and whether the demand was covered.
    """
    last = len(position.supply_s) - 1
    direction = jnp.where(forward, 1, -1).astype(jnp.int32)

    def inside(u):
        return jnp.where(forward, u <= last, u >= lowest)

    def body(carry):
        u, missing, _, _ = carry
        supply = position.supply_s[u]
        enough = supply >= missing
        beyond = u + direction
        going = (
            ~enough & ~position.joined[jnp.clip(jnp.minimum(u, beyond), 0, last)] & inside(beyond)
        )
        missing = jnp.where(enough, supply - missing, missing - supply)
        return jnp.where(going, beyond, u), missing, going, enough

    first = t + direction
    going = active & inside(first)
    carry = (jnp.clip(first, 0, last), demand_s, going, jnp.zeros_like(going))
    far, leftover_s, _, covered = jax.lax.while_loop(lambda c: c[2], body, carry)
    return far, leftover_s, covered


def _offset(program: EnvProgram, position: Position, b, reach, fixed_offset, is_fixed):
    """Rule 7 for an interval from step `reach` to the current step or later; `NO_OFFSET` if there
    is none."""
    size, t = program.size[b], program.instruction[b]
    overlaps = position.slot_end >= reach
    tops = jax.lax.cummax(jnp.where(overlaps, position.slot_top, 0))
    low = jnp.concatenate([jnp.zeros(1, tops.dtype), tops[:-1]])
    fits = overlaps & (position.slot_offset - low >= size)
    highest = tops[-1]
    above = jnp.where(program.fast_bytes - highest >= size, highest, UNUSED)
    lowest = jnp.minimum(jnp.where(fits, low, UNUSED).min(), above)
    lowest = jnp.where(lowest == UNUSED, NO_OFFSET, lowest)

    updated = (position.slot_tensor[:, None] == program.updated[b][None, :]).any(axis=1)
    exempt = updated & (position.slot_end == t) & (position.slot_offset == fixed_offset)
    clash = (
        overlaps
        & (position.slot_offset < fixed_offset + size)
        & (position.slot_top > fixed_offset)
        & ~exempt
    )
    fixed = jnp.where(
        (clash.any() | (fixed_offset + size > program.fast_bytes)) & (size > 0),
        NO_OFFSET,
        fixed_offset,
    )
    return jnp.where(is_fixed, fixed, jnp.where(size == 0, 0, lowest))


def _evaluate(
    program: EnvProgram, position: Position, forced: jax.Array
) -> tuple[Position, jax.Array]:
    """Fills in what each action on the buffer at the cursor would do; returns whether memory may
    have failed."""
    # What may be done with the buffer at all.
    over = position.cursor == program.num_buffers
    b = jnp.minimum(position.cursor, len(program.size) - 1)
    t, n, size, is_output = (
        program.instruction[b],
        program.tensor[b],
        program.size[b],
        program.is_output[b],
    )
    group = jnp.maximum(program.alias[b], 0)
    grouped = program.alias[b] >= 0
    status = jnp.where(grouped, position.group_status[group], UNDECIDED)
    is_fixed = status == PLACED
    may_place = (
        ~over & (status != DROPPED) & ~(grouped & forced[group]) & (size <= program.fast_bytes)
    )
    may_drop = ~over & ~is_fixed
    tensor_end, in_hbm_from = position.tensor_end[n], position.in_hbm_from[n]

    # Copy: how far it reaches, and an offset for that long.
    moving = may_place & (size > 0)
    far, leftover_s, covered = _transfer(
        position, t, is_output, in_hbm_from, program.demand_s[b], moving
    )
    empty = size == 0
    far = jnp.where(empty, t, far)
    covered = jnp.where(empty, is_output | (in_hbm_from <= t), covered)
    reach = jnp.where(is_output, t, far)
    copies = may_place & covered & (is_output | (tensor_end < reach))
    offset = _offset(program, position, b, reach, position.group_offset[group], is_fixed)
    overflow = moving & (is_output | copies) & (reach <= position.forgotten)

    # NoCopy: an output anywhere, an input where its tensor still lies.
    extends = (tensor_end >= 0) & (
        ~is_fixed | (position.group_offset[group] == position.tensor_offset[n])
    )
    extends &= (tensor_end >= t) | empty | ~position.tensor_blocked[n]
    keeps = may_place & jnp.where(is_output, offset >= 0, extends)

    # The benefit, by the table of the instruction.
    bit = jnp.maximum(program.bit[b], 0)
    entry = program.table_start[t] + position.placed
    faster = jnp.minimum(entry + (1 << bit), len(program.latency_s) - 1)
    benefit = jnp.where(
        program.bit[b] >= 0, program.latency_s[entry] - program.latency_s[faster], 0.0
    )

    legal = jnp.stack([copies & (offset >= 0), keeps, may_drop])
    start = jnp.stack(
        [reach, jnp.where(is_output, t, jnp.minimum(tensor_end, t) + 1), -jnp.ones_like(t)]
    )
    end = jnp.stack(
        [
            jnp.where(is_output, far, t),
            jnp.where(is_output, program.live_end[b], t),
            -jnp.ones_like(t),
        ]
    )
    offset = jnp.stack(
        [offset, jnp.where(is_output, offset, position.tensor_offset[n]), -jnp.ones_like(t)]
    )
    return position._replace(
        legal=legal,
        start=jnp.where(legal, start, -1),
        end=jnp.where(legal, end, -1),
        offset=jnp.where(legal, offset, NO_OFFSET),
        reward_s=jnp.where(legal & jnp.array([True, True, False]), benefit, 0.0),
        leftover_s=leftover_s,
    ), overflow


def _apply(
    program: EnvProgram, position: Position, action: jax.Array, valid: jax.Array
) -> Position:
    """The position after a move, outcomes not yet filled in; unchanged where not `valid`."""
    num_buffers = len(program.size)
    b = jnp.minimum(position.cursor, num_buffers - 1)
    t, n, size, is_output = (
        program.instruction[b],
        program.tensor[b],
        program.size[b],
        program.is_output[b],
    )
    start, end, offset = position.start[action], position.end[action], position.offset[action]
    placing = valid & (action != DROP)

    # The copy engine.
    steps = jnp.arange(len(position.supply_s), dtype=jnp.int32)
    copying = placing & (action == COPY) & (size > 0)
    first, last = jnp.where(is_output, t + 1, start), jnp.where(is_output, end, t - 1)
    far = jnp.where(is_output, end, start)
    used = copying & (steps >= first) & (steps <= last)
    supply_s = jnp.where(used, jnp.where(steps == far, position.leftover_s, 0.0), position.supply_s)
    joined = position.joined | (used & (steps < last))

    # Memory: what lies there now, and which tensors can stay no longer.
    allocates = placing & (start <= end)
    this_tensor = jnp.arange(len(position.tensor_end)) == n
    top = offset + size
    occupied = (position.tensor_offset < top) & (
        position.tensor_offset + program.tensor_size > offset
    )
    blocks = (
        allocates & (size > 0) & occupied & (position.tensor_end >= 0) & (position.tensor_end < end)
    )
    tensor_blocked = jnp.where(
        this_tensor, position.tensor_blocked & ~allocates, position.tensor_blocked | blocks
    )
    hbm = jnp.where(action == NO_COPY, NEVER, jnp.where(action == DROP, t, end) + 1)
    # The alias group.
    grouped, group = program.alias[b] >= 0, jnp.maximum(program.alias[b], 0)
    in_group = valid & grouped & (jnp.arange(len(position.group_status)) == group)
    first_of_group = in_group & (position.group_status == UNDECIDED)
    group_status = jnp.where(
        first_of_group, jnp.where(action == DROP, DROPPED, PLACED), position.group_status
    )
    opened = (first_of_group & (group_status == PLACED)).any()
    closed = valid & grouped & (program.group_left[b] == 0) & (group_status[group] == PLACED)

    # The next buffer.
    cursor = position.cursor + valid
    same_instruction = program.instruction[jnp.minimum(cursor, num_buffers - 1)] == t
    gained = jnp.where(placing & (program.bit[b] >= 0), 1 << jnp.maximum(program.bit[b], 0), 0)
    position = _insert(position, allocates & (size > 0), offset, top, end, n)
    return position._replace(
        cursor=cursor,
        supply_s=supply_s,
        joined=joined,
        tensor_end=jnp.where(this_tensor & allocates, end, position.tensor_end),
        tensor_offset=jnp.where(this_tensor & allocates, offset, position.tensor_offset),
        tensor_blocked=tensor_blocked,
        in_hbm_from=jnp.where(this_tensor & valid & is_output, hbm, position.in_hbm_from),
        group_status=group_status,
        group_offset=jnp.where(first_of_group, offset, position.group_offset),
        placed=jnp.where(same_instruction, position.placed + gained, 0).astype(jnp.int32),
        open_groups=position.open_groups + opened - closed,
        saved_s=position.saved_s + jnp.where(valid, position.reward_s[action], 0.0),
        action=jnp.where(
            valid & (jnp.arange(num_buffers) == b), action.astype(jnp.int8), position.action
        ),
    )


def _insert(position: Position, wanted: jax.Array, offset, top, end, tensor) -> Position:
    """Puts an allocation in its place by offset; an empty slot, or else the allocation that ended
    first, makes room."""
    slots = jnp.arange(len(position.slot_end))
    victim = jnp.argmin(position.slot_end)
    place = (position.slot_offset <= offset).sum()
    place = jnp.where(victim < place, place - 1, place)
    from_right = wanted & (slots >= victim) & (slots < place)
    from_left = wanted & (slots > place) & (slots <= victim)
    at_place = wanted & (slots == place)

    def shifted(values: jax.Array, new: jax.Array) -> jax.Array:
        right = jnp.concatenate([values[1:], values[-1:]])
        left = jnp.concatenate([values[:1], values[:-1]])
        return jnp.where(
            at_place, new, jnp.where(from_right, right, jnp.where(from_left, left, values))
        )

    return position._replace(
        slot_offset=shifted(position.slot_offset, offset),
        slot_top=shifted(position.slot_top, top),
        slot_end=shifted(position.slot_end, end),
        slot_tensor=shifted(position.slot_tensor, tensor),
        forgotten=jnp.where(
            wanted, jnp.maximum(position.forgotten, position.slot_end[victim]), position.forgotten
        ),
    )
