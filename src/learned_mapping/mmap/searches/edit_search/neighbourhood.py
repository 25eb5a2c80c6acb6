"""Edits of a game: a run of decisions redrawn, a tensor's uses redecided, or room made for a tensor
that has none; what is decided elsewhere is taken over in `repeats`.

An edit is a list of decisions and the actions wanted for them. Everything else follows the
incumbent.
"""

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.kernel import benefit_s
from learned_mapping.mmap.rules.state import NONE, ProgramArrays, record
from learned_mapping.mmap.searches.edit_search.incumbent import Incumbent
from learned_mapping.programs.program import MAX_VARIED

SEGMENT, TENSOR, REPEAT, EJECT, COMPLETE = range(5)
KINDS = ("segment", "tensor", "repeat", "eject", "complete")  # Those from `EJECT` on make room.
MOST = 96  # Decisions of an edit before others are evicted.
NEAR = 50  # Buffers looked at for one to evict others for.
# Subsets of an instruction's buffers that are looked at, drawn at random where there are more.
SUBSETS = 64
COPIES_EVICTED = 3  # Copies that may be evicted for another.
AHEAD = 20  # Instructions looked at for one to complete.
BACK = 32  # Steps by which an edit may begin earlier than the use it is for.

EDIT = record("place size parts gain_s cost_s")
"""The buffer it is tried at, decisions wanted (0 where nothing could be drawn), tensors to make
room for, what the wanted placements save at most, what the evicted allocations saved."""
WANTED = record("buffer action")
PART = record("first last_step")
"""A tensor to make room for: where its decisions begin among those wanted, and until when it is to
stay."""
OBSTACLE = record("offset top root cost_s")
"""An allocation in the way: its bytes [offset, top), the decision that made it, and what all its
uses save."""


class Edits(NamedTuple):
    """An edit, and room to draw it in."""

    facts: np.ndarray  # [1] `EDIT`.
    wanted: np.ndarray  # [W] `WANTED`, the first `size` in use.
    parts: np.ndarray  # [MAX_VARIED] `PART`, the first `parts` in use.
    obstacles: np.ndarray  # [B] `OBSTACLE`, of the part looked at.
    mark: np.ndarray  # [B] int64, zeros between uses.


def new_edits(program: ProgramArrays) -> Edits:
    """Room for an edit of a program: of its `MAX_VARIED` parts each may evict every allocation, and
    `COPIES_EVICTED` copies."""
    most = MOST + MAX_VARIED * (program.num_buffers + COPIES_EVICTED)
    return Edits(
        facts=np.zeros(1, EDIT),
        wanted=np.zeros(most, WANTED),
        parts=np.zeros(MAX_VARIED, PART),
        obstacles=np.zeros(program.num_buffers, OBSTACLE),
        mark=np.zeros(program.num_buffers, np.int64),
    )


@numba.njit(cache=True)
def want(edits: Edits, b: int, action: int) -> None:
    """Adds a decision."""
    edit = edits.facts[0]
    wanted = edits.wanted[edit.size]
    wanted.buffer, wanted.action = b, action
    edit.size += 1


@numba.njit(cache=True)
def clear(edits: Edits, place: int) -> None:
    """Begins an edit that wants nothing yet."""
    edit = edits.facts[0]
    edit.place, edit.size, edit.parts, edit.gain_s = place, 0, 0, 0.0


@numba.njit(cache=True)
def draw(
    program: ProgramArrays, inc: Incumbent, edits: Edits, kind: int, place: int, p, rng
) -> None:
    """Draws an edit at or near the buffer `place`; its size is 0 where there is nothing to gain."""
    edit = edits.facts[0]
    clear(edits, place)
    if kind == SEGMENT:
        _segment(inc, edits, place, p, rng)
    elif kind == TENSOR:
        _tensor(inc, edits, place, rng)
    else:
        if kind == COMPLETE:
            _complete(program, inc, edits, place, rng)
        else:
            b = _without_place(program, inc, place)
            if b != NONE:
                edit.gain_s = chain(program, inc, edits, b, rng)
        if edit.gain_s <= 0:
            edit.size = 0
        if edit.size > 0:
            edit.place = edits.wanted[0].buffer


@numba.njit(cache=True)
def _segment(inc: Incumbent, edits: Edits, place: int, p, rng) -> None:
    """Redraws some of the decisions of a run of at most ``p.length``, the first of them always."""
    for b in range(place, min(place + 1 + int(rng.random() * p.length), len(inc.moves))):
        if b == place or rng.random() < p.deviation:
            want(edits, b, (inc.moves[b].action + 1 + int(rng.random() * 2)) % 3)


@numba.njit(cache=True)
def _tensor(inc: Incumbent, edits: Edits, place: int, rng) -> None:
    """Redecides uses of a tensor in a row: kept, copied in once or each time, or dropped."""
    first = int(rng.random() * 3)
    rest = first
    chance = rng.random()
    if first == COPY and chance < 0.7:
        rest = NO_COPY
    elif first == NO_COPY and chance < 0.3:
        rest = DROP
    stop = 0.3 if rng.random() < 0.5 else 0.0
    n, wanted = place, first
    while n != NONE and edits.facts[0].size < MOST:
        if wanted != inc.moves[n].action:
            want(edits, n, wanted)
        if rng.random() < stop:
            break
        wanted = rest
        n = inc.next_buffer[n]


@numba.njit(cache=True)
def _without_place(program: ProgramArrays, inc: Incumbent, place: int) -> int:
    """The next buffer from `place` on that is dropped though it or its tensor's later uses could
    save; or -1."""
    for b in range(place, min(place + NEAR, len(inc.moves))):
        buffer = program.buffers[b]
        if inc.moves[b].action == DROP and 0 < buffer.bytes <= program.fast_bytes:
            if buffer.benefit_s + buffer.benefit_left_s > 0:
                return b
    return NONE


@numba.njit(cache=True)
def chain(program: ProgramArrays, inc: Incumbent, edits: Edits, b: int, rng) -> float:
    """Adds, as a part, the uses of a tensor from b on that one allocation would serve; returns what
    its dropped uses would save, each by itself, in seconds."""
    edit, buffer = edits.facts[0], program.buffers[b]
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
    first, n, gain_s = edit.size, b, 0.0
    while n != NONE and edit.size < MOST:
        if (
            edit.size > first
            and buffer.is_output != 0
            and action == COPY
            and program.buffers[n].instruction > end
        ):
            break
        if edit.size > first and buffer.is_output == 0:
            if rng.random() < stop:
                break
            end = program.buffers[n].instruction
        want(edits, n, action if edit.size == first else NO_COPY)
        if inc.moves[n].action == DROP:
            gain_s += marginal_s(program, inc, n)
        n = inc.next_buffer[n]
    part = edits.parts[edit.parts]
    part.first, part.last_step = first, end
    edit.parts += 1
    return gain_s


@numba.njit(cache=True)
def marginal_s(program: ProgramArrays, inc: Incumbent, b: int) -> float:
    """The seconds that placing b alone would save, given where its instruction's other buffers are
    in the incumbent."""
    return benefit_s(program, b, inc.placed[program.buffers[b].instruction])


@numba.njit(cache=True)
def _complete(program: ProgramArrays, inc: Incumbent, edits: Edits, place: int, rng) -> None:
    """Places together what an instruction lacks of a subset that would make it faster, a part for
    each tensor."""
    edit, step = edits.facts[0], program.buffers[place].instruction
    for t in range(step, min(step + AHEAD, len(inc.placed))):
        start, placed = program.table_start[t], inc.placed[t]
        subsets = program.table_start[t + 1] - start
        now = program.latency_s[start + placed]
        fitting = 0
        for b in range(program.first_buffer[t], program.first_buffer[t + 1]):
            if program.buffers[b].bit >= 0 and program.buffers[b].bytes <= program.fast_bytes:
                fitting |= 1 << program.buffers[b].bit
        best, best_score = NONE, 0.0
        for i in range(min(subsets, SUBSETS)):
            subset = i if subsets <= SUBSETS else placed | int(rng.random() * subsets)
            subset &= fitting
            gain = now - program.latency_s[start + subset]
            if subset & placed == placed and gain > 0:
                score = gain * (0.2 + rng.random())
                if score > best_score:
                    best, best_score = subset, score
        if best == NONE:
            continue
        edit.gain_s = now - program.latency_s[start + best]
        for b in range(program.first_buffer[t], program.first_buffer[t + 1]):
            buffer = program.buffers[b]
            if buffer.bit < 0 or best & ~placed & (1 << buffer.bit) == 0 or edit.size >= MOST // 2:
                continue
            n = b
            if buffer.is_output == 0 and rng.random() < 0.6:
                n = _dropped_before(program, inc, b)
            edit.gain_s += chain(program, inc, edits, n, rng) - marginal_s(program, inc, b)
        return


@numba.njit(cache=True)
def _dropped_before(program: ProgramArrays, inc: Incumbent, b: int) -> int:
    """The earliest of the dropped uses of b's tensor right before b, not far back; b where there is
    none."""
    n, first = inc.first_buffer[program.buffers[b].tensor], b
    while n != b:
        near = program.buffers[b].instruction - program.buffers[n].instruction <= BACK
        if inc.moves[n].action != DROP or not near:
            first = b
        elif first == b:
            first = n
        n = inc.next_buffer[n]
    return first
