"""Edits of a game: a run of decisions redrawn, a tensor's uses redecided, or room made for a tensor that has none.

An edit is a list of decisions and the actions wanted for them. Everything else follows the incumbent.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.arrays import ProgramArrays
from learned_mapping.mmap.edits.incumbent import Incumbent
from learned_mapping.mmap.rules import COPY, DROP, NO_COPY
from learned_mapping.mmap.state import NONE, GameState

SEGMENT, TENSOR, EJECT, COMPLETE = 0, 1, 2, 3
KINDS = ("segment", "tensor", "eject", "complete")
MOST = 96
"""Decisions of an edit before others are pushed out."""
SEEN = 1000
"""Earlier buffers among which a copy that is in the way is looked for."""
COPIES_PUSHED = 3
"""Copies that may be pushed out for another."""
NEAR = 50
"""Buffers looked at for one to eject others for."""


class Edit(NamedTuple):
    """An edit being drawn, and room to draw it in."""

    buffer: np.ndarray
    """[B] int64."""
    action: np.ndarray
    """[B] int64."""
    facts: np.ndarray
    """[8] float64: see `GAIN` and the rest."""
    low: np.ndarray
    """[B + T] int64: bottoms of what stands in the way; and as many of the following."""
    top: np.ndarray
    owner: np.ndarray
    cost_s: np.ndarray
    mark: np.ndarray
    """[B] int64, zeros between uses."""


GAIN, COST, FIRST_STEP, LAST_STEP, BYTES, PUSHED, PARTS = range(7)
"""Of `Edit.facts`: seconds the wanted placements save at most, seconds what goes saved, the interval wanted, its size,
allocations pushed out, tensors to make room for."""
OFFSETS = 64
"""Offsets tried for a tensor, drawn at random where there are more."""
MUCH = 8.0
"""An offset this many times as dear as the best so far is not looked at to the end."""
SUBSETS = 64
"""Subsets of an instruction's buffers that are looked at, drawn at random where there are more."""
BACK = 4
"""Uses of a tensor by which an edit may begin earlier than the one it is for."""


def new_edit(program: ProgramArrays) -> Edit:
    """Room for edits of a program."""
    count = program.num_buffers
    room = 2 * count + program.num_instructions + 8
    return Edit(
        buffer=np.zeros(room, np.int64),
        action=np.zeros(room, np.int64),
        facts=np.zeros(8),
        low=np.zeros(room, np.int64),
        top=np.zeros(room, np.int64),
        owner=np.zeros(room, np.int64),
        cost_s=np.zeros(room),
        mark=np.zeros(count, np.int64),
    )


@numba.njit(cache=True)
def segment(inc: Incumbent, edit: Edit, place: int, length: int, deviation: float, rng) -> int:
    """Redraws some of the decisions of a run of at most `length`, the first of them always; returns how many."""
    size = 0
    for b in range(place, min(place + 1 + int(rng.random() * length), len(inc.moves))):
        if b == place or rng.random() < deviation:
            edit.buffer[size] = b
            edit.action[size] = (inc.moves[b].action + 1 + int(rng.random() * 2)) % 3
            size += 1
    return size


@numba.njit(cache=True)
def tensor(inc: Incumbent, edit: Edit, place: int, rng) -> int:
    """Redecides uses of a tensor in a row: kept, copied in once or each time, or dropped."""
    first = int(rng.random() * 3)
    rest = first
    draw = rng.random()
    if first == COPY and draw < 0.7:
        rest = NO_COPY
    elif first == NO_COPY and draw < 0.3:
        rest = DROP
    stop = 0.3 if rng.random() < 0.5 else 0.0
    size, n, wanted = 0, place, first
    while n != NONE and size < MOST:
        if wanted != inc.moves[n].action:
            edit.buffer[size], edit.action[size] = n, wanted
            size += 1
        if rng.random() < stop:
            break
        wanted = rest
        n = inc.next_buffer[n]
    return size


@numba.njit(cache=True)
def without_place(program: ProgramArrays, inc: Incumbent, place: int) -> int:
    """The next buffer from `place` on that is dropped though it or its tensor's later uses could save; or -1."""
    for b in range(place, min(place + NEAR, len(inc.moves))):
        buffer = program.buffers[b]
        if inc.moves[b].action == DROP and 0 < buffer.bytes <= program.fast_bytes:
            if buffer.benefit_s + buffer.benefit_left_s > 0:
                return b
    return NONE


@numba.njit(cache=True)
def marginal_s(program: ProgramArrays, inc: Incumbent, b: int) -> float:
    """What placing b alone would save, given where its instruction's other buffers are in the incumbent."""
    buffer = program.buffers[b]
    if buffer.bit < 0:
        return 0.0
    without = program.table_start[buffer.instruction] + (inc.placed[buffer.instruction] & ~(1 << buffer.bit))
    return program.latency_s[without] - program.latency_s[without + (1 << buffer.bit)]


@numba.njit(cache=True)
def chain(program: ProgramArrays, inc: Incumbent, edit: Edit, b: int, size: int, rng) -> int:
    """Adds the uses of a tensor from b on that one allocation would serve to an edit of `size`; returns the new size.

    Fills the facts but for where the copy starts; the gain is that of dropped uses, each by itself.
    """
    buffer = program.buffers[b]
    action, stop = NO_COPY, 0.0
    if buffer.is_output == 0:
        action = COPY
        stop = 0.0 if rng.random() < 0.5 else 0.5
        end = buffer.instruction
    else:
        end = buffer.live_end
        if rng.random() < 0.25:
            action = COPY
            end = min(buffer.instruction + 1 + int(rng.random() * 4), len(inc.placed) - 1)
    facts = edit.facts
    first, n = size, b
    facts[GAIN] = 0.0
    while n != NONE and size < MOST:
        if size > first and buffer.is_output != 0 and action == COPY and program.buffers[n].instruction > end:
            break
        if size > first and buffer.is_output == 0:
            if rng.random() < stop:
                break
            end = program.buffers[n].instruction
        edit.buffer[size], edit.action[size] = n, action if size == first else NO_COPY
        facts[GAIN] += marginal_s(program, inc, n) if inc.moves[n].action == DROP else 0.0
        size += 1
        n = inc.next_buffer[n]
    facts[FIRST_STEP], facts[LAST_STEP], facts[BYTES] = buffer.instruction, end, buffer.bytes
    facts[COST] = facts[PUSHED] = 0.0
    facts[PARTS] = 1
    return size


@numba.njit(cache=True)
def complete(program: ProgramArrays, inc: Incumbent, edit: Edit, place: int, rng) -> int:
    """Places together what an instruction lacks of a subset that would make it faster; returns the edit's size.

    The parts stand one after the other; where each begins and ends, and when, is in ``edit.low``, ``edit.top``,
    ``edit.owner`` and ``edit.cost_s``.
    """
    for t in range(program.buffers[place].instruction, min(program.buffers[place].instruction + 20, len(inc.placed))):
        start, placed = program.table_start[t], inc.placed[t]
        subsets = program.table_start[t + 1] - start
        now = program.latency_s[start + placed]
        best, best_score = NONE, 0.0
        for k in range(min(subsets, SUBSETS)):
            subset = k if subsets <= SUBSETS else placed | int(rng.random() * subsets)
            gain = now - program.latency_s[start + subset]
            if subset & placed == placed and gain > 0:
                score = gain * (0.2 + rng.random())
                if score > best_score:
                    best, best_score = subset, score
        if best == NONE:
            continue
        size, parts, gain_s, most, end = 0, 0, now - program.latency_s[start + best], 0.0, t
        for b in range(program.first_buffer[t], program.first_buffer[t + 1]):
            buffer = program.buffers[b]
            if buffer.bit < 0 or best & ~placed & (1 << buffer.bit) == 0 or size >= MOST // 2:
                continue
            n = b
            if buffer.is_output == 0 and rng.random() < 0.6:
                n = _dropped_before(program, inc, b)
            edit.low[parts] = size
            size = chain(program, inc, edit, n, size, rng)
            edit.top[parts] = size
            edit.owner[parts] = int(edit.facts[LAST_STEP])
            gain_s += edit.facts[GAIN] - marginal_s(program, inc, b)
            most, end = max(most, edit.facts[BYTES]), max(end, int(edit.facts[LAST_STEP]))
            parts += 1
        facts = edit.facts
        facts[GAIN], facts[FIRST_STEP], facts[LAST_STEP], facts[BYTES] = gain_s, t, end, most
        facts[PARTS] = parts
        return size
    return 0


@numba.njit(cache=True)
def _dropped_before(program: ProgramArrays, inc: Incumbent, b: int) -> int:
    """The earliest of the dropped uses of b's tensor right before b, not far back."""
    previous, n = b, inc.first_buffer[program.buffers[b].tensor]
    run, first = 0, b
    while n != b:
        if inc.moves[n].action == DROP and program.buffers[b].instruction - program.buffers[n].instruction <= 8 * BACK:
            if run == 0:
                first = n
            run += 1
        else:
            run = 0
        n = inc.next_buffer[n]
    return first if run > 0 else previous


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
