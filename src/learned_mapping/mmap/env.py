"""The MMapGame of `rules` in JAX: pure `reset` and `step` of one game, for the caller to vmap and jit.

The program is an argument (`EnvProgram`), so programs of equal shape share one compilation. Seconds are float64, as in
the kernel, because Eq. 5 compares sums of supplies with demands: use everything here inside ``with exact():``.

Allocations stand in a list of fixed capacity, sorted by offset. When it is full, the allocation that ended first makes
room. A later question that reaches back to a forgotten step could then be answered wrongly: the state raises its
`overflow` flag, and stays exact as long as the flag is down. With capacity B the flag cannot rise.
"""

import bisect
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.learning.precision import exact, require_exact
from learned_mapping.mmap.env_observation import ObservationTables, observation_tables, observe
from learned_mapping.mmap.rules.actions import COPY, DROP, DROPPED, NEVER, NO_COPY, NO_OFFSET, PLACED, UNDECIDED
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.rules.state import ProgramArrays, program_arrays
from learned_mapping.programs.program import Program

__all__ = [
    "EnvProgram", "EnvState", "ObservationTables", "Position", "capacity_for", "decide", "env_program", "exact",
    "observation_tables", "observe", "reset", "step",
]  # fmt: skip

UNUSED = 2**30  # The offset of an empty slot: above every fast memory.
SMALL = 256  # Up to this many buffers the environment gets a slot for each, which rules an overflow out.
MARGIN = 1.5


class EnvProgram(NamedTuple):
    """A program on the device. [B] arrays are int32 unless said otherwise; zeros behind any of them (-1
    behind `updated`) change no game."""

    num_buffers: jax.Array  # []: how many of the B buffers are the program's, the others being padding.
    instruction: jax.Array
    tensor: jax.Array
    is_output: jax.Array  # [B] bool.
    alias: jax.Array
    group_left: jax.Array  # Later buffers of the same alias group.
    bit: jax.Array
    size: jax.Array  # Bytes; one more than the fast memory holds where larger.
    live_end: jax.Array
    updated: jax.Array
    """[B, K]: tensors an output may overlap at its step because its instruction updates them in place, or -1."""
    demand_s: jax.Array  # [B] float64.
    table_start: jax.Array  # [T + 1].
    latency_s: jax.Array  # float64.
    supply_s: jax.Array  # [T] float64.
    in_hbm_from: jax.Array  # [N]: 0 for parameters, else NEVER.
    tensor_size: jax.Array  # [N]: as `size`.
    num_groups: jax.Array  # [max(G, 1)] zeros; its shape tells G.
    fast_bytes: jax.Array  # [].


class Position(NamedTuple):
    """All of a state that Drop-backup takes back. T steps, N tensors, G groups, B buffers, C slots; int32."""

    cursor: jax.Array  # The buffer to decide next; B when the game is over.
    supply_s: jax.Array  # [T] float64: W.
    joined: jax.Array  # [T] bool: one copy runs through both u and u + 1.
    slot_offset: jax.Array  # [C], ascending; `UNUSED` in an empty slot.
    slot_top: jax.Array  # [C]: offset + size.
    slot_end: jax.Array  # [C]: last step; -1 in an empty slot.
    slot_tensor: jax.Array  # [C].
    forgotten: jax.Array  # The latest last step of an allocation that had to make room, or -1.
    tensor_end: jax.Array  # [N]: last step of the latest allocation, or -1.
    tensor_offset: jax.Array  # [N].
    tensor_blocked: jax.Array  # [N] bool: another allocation occupies the latest allocation's bytes after its end.
    in_hbm_from: jax.Array  # [N].
    group_status: jax.Array  # [G].
    group_offset: jax.Array  # [G].
    placed: jax.Array  # B' of the current instruction as an index into its table.
    open_groups: jax.Array
    saved_s: jax.Array  # [] float64: sum of the rewards.
    action: jax.Array  # [B] int8: the decisions so far.
    legal: jax.Array  # [3] bool, of the buffer at the cursor; all False when the game is over.
    start: jax.Array  # [3]: the first step of I(b) under each action.
    end: jax.Array  # [3].
    offset: jax.Array  # [3].
    reward_s: jax.Array  # [3] float64.
    leftover_s: jax.Array  # [] float64: supply left at the far step of the copy.


class EnvState(NamedTuple):
    """A game in progress, a state of this decision process. A pytree; no number in it is NaN.

    - Reset: `reset`, from a program and a number of slots; no randomness.
    - Step: `step`, 0 Copy, 1 NoCopy or 2 Drop of the buffer at ``position.cursor``; deterministic. Drop-backup, which a
      dead end causes, is part of the step.
    - Observe: ``position`` is all there is; `observe` makes a vector of it.
    - Mask: ``position.legal`` [3] bool; an action that is not legal changes nothing and earns nothing.
    - Reward: seconds that the move saves; ``position.saved_s`` is their sum less what Drop-backup took back, so its
      difference over a step is a reward that sums to the game's saving.
    - Termination: `over`, after the last buffer. A decision with one legal action is a step like any other.
    - Units: seconds, bytes, steps of the program.
    """

    position: Position
    backup: Position  # The latest prefix with no alias group open.
    forced: jax.Array  # [G] bool: groups that may only be dropped.
    resets: jax.Array
    moves: jax.Array  # Decisions made, those taken back included.
    overflow: jax.Array  # [] bool: the capacity was too small for the game to be exact.

    @property
    def over(self) -> jax.Array:
        """[] bool."""
        return ~self.position.legal.any(axis=-1)


def env_program(program: Program | ProgramArrays) -> EnvProgram:
    """A program for `reset` and `step`.

    Raises:
      InputError: not inside `exact`, or the fast memory has 2^30 bytes or more.
    """
    arrays = program_arrays(program)
    require_exact("mmap.env")
    if arrays.fast_bytes >= UNUSED:
        raise InputError("environment", "fast_bytes", f"{arrays.fast_bytes} is 2^30 or more")
    buffers, counts = arrays.buffers, np.diff(arrays.updated_offsets)
    updated = np.full((arrays.num_buffers, max(int(counts.max(initial=0)), 1)), -1)
    updated[np.arange(updated.shape[1]) < counts[:, None]] = arrays.updated
    size = np.minimum(buffers["bytes"], arrays.fast_bytes + 1)
    tensor_size = np.zeros(len(arrays.is_parameter), np.int64)
    tensor_size[buffers["tensor"]] = size
    names = ("instruction", "tensor", "alias", "group_left", "bit", "live_end")
    integers = {
        **{name: buffers[name] for name in names},
        "num_buffers": arrays.num_buffers,
        "size": size,
        "updated": updated,
        "table_start": arrays.table_start,
        "in_hbm_from": np.where(arrays.is_parameter, 0, NEVER),
        "tensor_size": tensor_size,
        "num_groups": np.zeros(max(arrays.num_groups, 1)),
        "fast_bytes": arrays.fast_bytes,
    }
    seconds = {"demand_s": buffers["demand_s"], "latency_s": arrays.latency_s, "supply_s": arrays.supply_s}
    return EnvProgram(
        **{name: jnp.asarray(values, jnp.int32) for name, values in integers.items()},
        **{name: jnp.asarray(values, jnp.float64) for name, values in seconds.items()},
        is_output=jnp.asarray(buffers["is_output"] != 0),
    )


def capacity_for(program: Program | ProgramArrays) -> int:
    """Slots for the environment: B for small programs (never an overflow); else `MARGIN` times the most allocations
    that any legal move of some compiled games had to look at: two that place all they can, two that play at random."""
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
    """The most allocations that end at or after the start of a legal move's interval, over a finished game's states."""
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
      InputError: not inside `exact`.
    """
    require_exact("mmap.env")
    num_buffers, num_tensors, num_groups = len(program.size), len(program.in_hbm_from), len(program.num_groups)
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
      action: [] integer. An illegal action, whatever number it is, or any after the end, changes nothing.

    Returns:
      The next state, and the reward of the move in seconds; what a reset takes back shows in ``position.saved_s``.

    Raises:
      InputError: not inside `exact`.
    """
    require_exact("mmap.env")
    before = state.position
    valid = (action >= 0) & (action < len(before.legal))
    action = jnp.where(valid, action, DROP).astype(jnp.int32)  # an index that means the number and no other
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
        going = ~enough & ~position.joined[jnp.clip(jnp.minimum(u, beyond), 0, last)] & inside(beyond)
        missing = jnp.where(enough, supply - missing, missing - supply)
        return jnp.where(going, beyond, u), missing, going, enough

    first = t + direction
    going = active & inside(first)
    carry = (jnp.clip(first, 0, last), demand_s, going, jnp.zeros_like(going))
    far, leftover_s, _, covered = jax.lax.while_loop(lambda c: c[2], body, carry)
    return far, leftover_s, covered


def _offset(program: EnvProgram, position: Position, b, reach, fixed_offset, is_fixed):
    """Rule 7 for an interval from step `reach` to the current step or later; `NO_OFFSET` if there is none."""
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
    clash = overlaps & (position.slot_offset < fixed_offset + size) & (position.slot_top > fixed_offset) & ~exempt
    fixed = jnp.where((clash.any() | (fixed_offset + size > program.fast_bytes)) & (size > 0), NO_OFFSET, fixed_offset)
    return jnp.where(is_fixed, fixed, jnp.where(size == 0, 0, lowest))


def _evaluate(program: EnvProgram, position: Position, forced: jax.Array) -> tuple[Position, jax.Array]:
    """Fills in what each action on the buffer at the cursor would do; returns whether memory may have failed."""
    over = position.cursor == program.num_buffers
    b = jnp.minimum(position.cursor, len(program.size) - 1)
    t, n, size, is_output = program.instruction[b], program.tensor[b], program.size[b], program.is_output[b]
    group = jnp.maximum(program.alias[b], 0)
    grouped = program.alias[b] >= 0
    status = jnp.where(grouped, position.group_status[group], UNDECIDED)
    is_fixed = status == PLACED
    may_place = ~over & (status != DROPPED) & ~(grouped & forced[group]) & (size <= program.fast_bytes)
    may_drop = ~over & ~is_fixed
    tensor_end, in_hbm_from = position.tensor_end[n], position.in_hbm_from[n]

    moving = may_place & (size > 0)
    far, leftover_s, covered = _transfer(position, t, is_output, in_hbm_from, program.demand_s[b], moving)
    empty = size == 0
    far = jnp.where(empty, t, far)
    covered = jnp.where(empty, is_output | (in_hbm_from <= t), covered)
    reach = jnp.where(is_output, t, far)
    copies = may_place & covered & (is_output | (tensor_end < reach))
    offset = _offset(program, position, b, reach, position.group_offset[group], is_fixed)
    overflow = moving & (is_output | copies) & (reach <= position.forgotten)

    extends = (tensor_end >= 0) & (~is_fixed | (position.group_offset[group] == position.tensor_offset[n]))
    extends &= (tensor_end >= t) | empty | ~position.tensor_blocked[n]
    keeps = may_place & jnp.where(is_output, offset >= 0, extends)

    bit = jnp.maximum(program.bit[b], 0)
    entry = program.table_start[t] + position.placed
    faster = jnp.minimum(entry + (1 << bit), len(program.latency_s) - 1)
    benefit = jnp.where(program.bit[b] >= 0, program.latency_s[entry] - program.latency_s[faster], 0.0)

    legal = jnp.stack([copies & (offset >= 0), keeps, may_drop])
    start = jnp.stack([reach, jnp.where(is_output, t, jnp.minimum(tensor_end, t) + 1), -jnp.ones_like(t)])
    end = jnp.stack([jnp.where(is_output, far, t), jnp.where(is_output, program.live_end[b], t), -jnp.ones_like(t)])
    offset = jnp.stack([offset, jnp.where(is_output, offset, position.tensor_offset[n]), -jnp.ones_like(t)])
    return position._replace(
        legal=legal,
        start=jnp.where(legal, start, -1),
        end=jnp.where(legal, end, -1),
        offset=jnp.where(legal, offset, NO_OFFSET),
        reward_s=jnp.where(legal & jnp.array([True, True, False]), benefit, 0.0),
        leftover_s=leftover_s,
    ), overflow


def _apply(program: EnvProgram, position: Position, action: jax.Array, valid: jax.Array) -> Position:
    """The position after a move, outcomes not yet filled in; unchanged where not `valid`."""
    num_buffers = len(program.size)
    b = jnp.minimum(position.cursor, num_buffers - 1)
    t, n, size, is_output = program.instruction[b], program.tensor[b], program.size[b], program.is_output[b]
    start, end, offset = position.start[action], position.end[action], position.offset[action]
    placing = valid & (action != DROP)

    steps = jnp.arange(len(position.supply_s), dtype=jnp.int32)
    copying = placing & (action == COPY) & (size > 0)
    first, last = jnp.where(is_output, t + 1, start), jnp.where(is_output, end, t - 1)
    far = jnp.where(is_output, end, start)
    used = copying & (steps >= first) & (steps <= last)
    supply_s = jnp.where(used, jnp.where(steps == far, position.leftover_s, 0.0), position.supply_s)
    joined = position.joined | (used & (steps < last))

    allocates = placing & (start <= end)
    this_tensor = jnp.arange(len(position.tensor_end)) == n
    top = offset + size
    occupied = (position.tensor_offset < top) & (position.tensor_offset + program.tensor_size > offset)
    blocks = allocates & (size > 0) & occupied & (position.tensor_end >= 0) & (position.tensor_end < end)
    tensor_blocked = jnp.where(this_tensor, position.tensor_blocked & ~allocates, position.tensor_blocked | blocks)
    hbm = jnp.where(action == NO_COPY, NEVER, jnp.where(action == DROP, t, end) + 1)
    grouped, group = program.alias[b] >= 0, jnp.maximum(program.alias[b], 0)
    in_group = valid & grouped & (jnp.arange(len(position.group_status)) == group)
    first_of_group = in_group & (position.group_status == UNDECIDED)
    group_status = jnp.where(first_of_group, jnp.where(action == DROP, DROPPED, PLACED), position.group_status)
    opened = (first_of_group & (group_status == PLACED)).any()
    closed = valid & grouped & (program.group_left[b] == 0) & (group_status[group] == PLACED)

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
        action=jnp.where(valid & (jnp.arange(num_buffers) == b), action.astype(jnp.int8), position.action),
    )


def _insert(position: Position, wanted: jax.Array, offset, top, end, tensor) -> Position:
    """Puts an allocation in its place by offset; an empty slot, or else the allocation that ended first, makes room."""
    slots = jnp.arange(len(position.slot_end))
    victim = jnp.argmin(position.slot_end)
    place = (position.slot_offset <= offset).sum()
    place = jnp.where(victim < place, place - 1, place)
    from_right = wanted & (slots >= victim) & (slots < place)
    from_left = wanted & (slots > place) & (slots <= victim)
    here = wanted & (slots == place)

    def shifted(values: jax.Array, new: jax.Array) -> jax.Array:
        right = jnp.concatenate([values[1:], values[-1:]])
        left = jnp.concatenate([values[:1], values[:-1]])
        return jnp.where(here, new, jnp.where(from_right, right, jnp.where(from_left, left, values)))

    return position._replace(
        slot_offset=shifted(position.slot_offset, offset),
        slot_top=shifted(position.slot_top, top),
        slot_end=shifted(position.slot_end, end),
        slot_tensor=shifted(position.slot_tensor, tensor),
        forgotten=jnp.where(wanted, jnp.maximum(position.forgotten, position.slot_end[victim]), position.forgotten),
    )
