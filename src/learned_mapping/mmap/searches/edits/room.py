"""Room for a tensor: what stands in its way is pushed out where that costs least."""

from __future__ import annotations

import numba
import numpy as np

from learned_mapping.mmap.rules.actions import COPY, DROP
from learned_mapping.mmap.rules.arrays import ProgramArrays
from learned_mapping.mmap.rules.state import NONE, GameState
from learned_mapping.mmap.searches.edits.incumbent import Incumbent
from learned_mapping.mmap.searches.edits.proposals import COST, FIRST_STEP, LAST_STEP, NEAR, PUSHED, Edit

SEEN = 1000
"""Earlier buffers among which a copy that is in the way is looked for."""
COPIES_PUSHED = 3
"""Copies that may be pushed out for another."""
OFFSETS = 64
"""Offsets tried for a tensor, drawn at random where there are more."""
MUCH = 8.0
"""An offset this many times as dear as the best so far is not looked at to the end."""


@numba.njit(cache=True)
def make_room(
    program: ProgramArrays, state: GameState, inc: Incumbent, edit: Edit, part: int, size: int, noise: float, rng
) -> int:
    """Adds to an edit the decisions that push out what stands in the way of a tensor at the cheapest offset.

    The game stands before the tensor's first buffer, ``edit.buffer[part]``; the facts hold its interval. Costs are
    blurred by exp(noise * normal). Returns the edit's new size, or 0 where the tensor cannot be copied in.
    """
    b = edit.buffer[part]
    buffer, facts = program.buffers[b], edit.facts
    start, end = int(facts[FIRST_STEP]), int(facts[LAST_STEP])
    copies_s = facts[COST]
    if edit.action[part] == COPY and buffer.is_output == 0:
        facts[PUSHED] = 0.0
        start = _copy_start(program, state, inc, edit, b)
        if start == NONE or state.tensors[buffer.tensor].end >= start:
            return 0
        facts[FIRST_STEP] = start
        copies_s = facts[COST]
        for i in range(int(facts[PUSHED])):
            edit.buffer[size], edit.action[size] = edit.owner[i], DROP
            size += 1
    count = _in_the_way(program, state, inc, edit, b, start, end)
    best, best_cost = NONE, np.inf
    for k in range(-1, min(count, OFFSETS)):
        offset = 0 if k < 0 else edit.top[k if count <= OFFSETS else int(rng.random() * count)]
        if offset + buffer.bytes > program.fast_bytes:
            continue
        cost = 0.0
        for i in range(count):
            if edit.low[i] < offset + buffer.bytes and edit.top[i] > offset:
                cost += edit.cost_s[i]
                if cost > MUCH * best_cost:
                    break
        blurred = cost * np.exp(noise * rng.standard_normal()) if cost > 0 and noise > 0 else cost
        if blurred < best_cost:
            best, best_cost, facts[COST] = offset, blurred, copies_s + cost
    for i in range(count):
        if edit.low[i] < best + buffer.bytes and edit.top[i] > best:
            edit.buffer[size], edit.action[size] = edit.owner[i], DROP
            size += 1
    return size


@numba.njit(cache=True)
def _copy_start(program: ProgramArrays, state: GameState, inc: Incumbent, edit: Edit, b: int) -> int:
    """The step a copy-in of b would start at, or -1; up to `COPIES_PUSHED` copies in its way are pushed out.

    Their allocations become the first of ``edit.owner``; ``edit.facts[PUSHED]`` says how many, `COST` what they save.
    """
    buffer, facts = program.buffers[b], edit.facts
    remaining, free_from, count = buffer.demand_s, buffer.instruction, 0
    for u in range(buffer.instruction - 1, state.tensors[buffer.tensor].in_hbm_from - 1, -1):
        if u < free_from and u < buffer.instruction - 1 and state.steps[u].joined != 0:
            d = _covering_copy(program, inc, b, u) if count < COPIES_PUSHED else NONE
            if d == NONE or inc.root[d] == NONE:
                return NONE
            edit.owner[count] = inc.root[d]
            count += 1
            facts[PUSHED] += 1
            facts[COST] += max(inc.value_s[inc.root[d]], 0.0)
            free_from = inc.moves[d].start
            if program.buffers[d].is_output != 0:
                free_from = program.buffers[d].instruction + 1
        supply = (
            program.supply_s[u] if u >= free_from and u < buffer.instruction - 1 and count > 0 else state.supply_s[u]
        )
        if supply >= remaining:
            return u
        remaining -= supply
    return NONE


@numba.njit(cache=True)
def _covering_copy(program: ProgramArrays, inc: Incumbent, b: int, step: int) -> int:
    """The copy decided before b that runs through `step` and the next, or -1."""
    for d in range(b - 1, max(b - SEEN, -1), -1):
        move = inc.moves[d]
        if move.action == COPY and program.buffers[d].bytes > 0:
            first, last = move.start, program.buffers[d].instruction - 1
            if program.buffers[d].is_output != 0:
                first, last = program.buffers[d].instruction + 1, move.end
            if first <= step < last:
                return d
    return NONE


@numba.njit(cache=True)
def _in_the_way(
    program: ProgramArrays, state: GameState, inc: Incumbent, edit: Edit, b: int, start: int, end: int
) -> int:
    """Allocations of other tensors that the incumbent holds in [start, end], each once; returns how many."""
    own, count = program.buffers[b].tensor, 0
    for i in range(state.game[0].num_live):
        count = _stands(program, inc, edit, state.rectangles[state.live[i].rectangle].tensor, own, b, count)
    for u in range(start, state.game[0].now):
        r = state.steps[u].ended
        while r != NONE:
            count = _stands(program, inc, edit, state.rectangles[r].tensor, own, b, count)
            r = state.rectangles[r].next
    for d in range(b, len(inc.moves)):
        if program.buffers[d].instruction > end + NEAR:
            break
        move = inc.moves[d]
        if move.action != DROP and move.end >= move.start and move.start <= end and program.buffers[d].tensor != own:
            count = _add(program, inc, edit, inc.root[d], count)
    for i in range(count):
        edit.mark[edit.owner[i]] = 0
    return count


@numba.njit(cache=True)
def _stands(program, inc, edit, t: int, own: int, b: int, count: int) -> int:
    """Adds the latest allocation of tensor t before b."""
    if t == own:
        return count
    root, n = NONE, inc.first_buffer[t]
    while n != NONE and n < b:
        if inc.root[n] != NONE:
            root = inc.root[n]
        n = inc.next_buffer[n]
    return _add(program, inc, edit, root, count)


@numba.njit(cache=True)
def _add(program, inc, edit, root: int, count: int) -> int:
    if root == NONE or edit.mark[root] != 0 or program.buffers[root].bytes == 0:
        return count
    edit.mark[root] = 1
    edit.low[count] = inc.moves[root].offset
    edit.top[count] = inc.moves[root].offset + program.buffers[root].bytes
    edit.owner[count], edit.cost_s[count] = root, max(inc.value_s[root], 0.0)
    return count + 1
