"""Edits of a game: a run of decisions redrawn, a tensor's uses redecided, or room made for a tensor that has none.

An edit is a list of decisions and the actions wanted for them. Everything else follows the incumbent.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.arrays import ProgramArrays
from learned_mapping.mmap.rules.state import NONE
from learned_mapping.mmap.searches.edits.incumbent import Incumbent

SEGMENT, TENSOR, EJECT, COMPLETE = 0, 1, 2, 3
KINDS = ("segment", "tensor", "eject", "complete")
MOST = 96
"""Decisions of an edit before others are pushed out."""
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
