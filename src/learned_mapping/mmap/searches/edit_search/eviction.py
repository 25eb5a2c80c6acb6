"""Room for a tensor: what stands in its way is evicted where that costs least."""

import numba
import numpy as np

from learned_mapping.mmap.rules.actions import COPY, DROP
from learned_mapping.mmap.rules.kernel import copy_span
from learned_mapping.mmap.rules.state import NONE, GameState, ProgramArrays
from learned_mapping.mmap.searches.edit_search.incumbent import Incumbent, load
from learned_mapping.mmap.searches.edit_search.neighbourhood import (
    COPIES_EVICTED,
    NEAR,
    Edits,
    want,
)

SEEN = 1000  # Earlier buffers among which a copy that is in the way is looked for.
OFFSETS = 64  # Offsets tried for a tensor, drawn at random where there are more.
MUCH = 8.0  # An offset this many times as dear as the best so far is not looked at to the end.


@numba.njit(cache=True)
def make_room(
    program: ProgramArrays, state: GameState, inc: Incumbent, edits: Edits, p, rng
) -> bool:
    """`evict` for each part; False where one cannot be placed, or costs too much for what all
    gain."""
    edit = edits.facts[0]
    edit.cost_s = 0.0
    for i in range(edit.parts):
        load(program, state, inc, edits.wanted[edits.parts[i].first].buffer)
        if (
            not evict(program, state, inc, edits, i, p.noise, rng)
            or edit.gain_s < 0.5 * edit.cost_s
        ):
            return False
    return edit.gain_s >= p.least * edit.cost_s


@numba.njit(cache=True)
def evict(
    program: ProgramArrays,
    state: GameState,
    inc: Incumbent,
    edits: Edits,
    i: int,
    noise: float,
    rng,
) -> bool:
    """Adds the drops of what stands in the way of part i at the cheapest offset.

    The game stands before the part's first decision. Costs are blurred by exp(noise * normal).
    False where the tensor cannot be copied in, or is larger than the memory.
    """
    edit, obstacles, part = edits.facts[0], edits.obstacles, edits.parts[i]
    b = edits.wanted[part.first].buffer
    buffer = program.buffers[b]
    start = buffer.instruction
    if edits.wanted[part.first].action == COPY and buffer.is_output == 0:
        start = _copy_start(program, state, inc, edits, b)
        if start == NONE or state.tensors[buffer.tensor].end >= start:
            return False
    copies_s = edit.cost_s
    count = _find_obstacles(program, state, inc, edits, b, start, part.last_step)
    best, best_cost = NONE, np.inf
    for j in range(-1, min(count, OFFSETS)):
        offset = 0 if j < 0 else obstacles[j if count <= OFFSETS else int(rng.random() * count)].top
        if offset + buffer.bytes > program.fast_bytes:
            continue
        cost = 0.0
        for m in range(count):
            if obstacles[m].offset < offset + buffer.bytes and obstacles[m].top > offset:
                cost += obstacles[m].cost_s
                if cost > MUCH * best_cost:
                    break
        blurred = cost * np.exp(noise * rng.standard_normal()) if cost > 0 and noise > 0 else cost
        if blurred < best_cost:
            best, best_cost, edit.cost_s = offset, blurred, copies_s + cost
    if best == NONE:
        return False
    for m in range(count):
        if obstacles[m].offset < best + buffer.bytes and obstacles[m].top > best:
            want(edits, obstacles[m].root, DROP)
    return True


@numba.njit(cache=True)
def _copy_start(
    program: ProgramArrays, state: GameState, inc: Incumbent, edits: Edits, b: int
) -> int:
    """The step a copy-in of b would start at, or -1; up to `COPIES_EVICTED` copies in its way are
    evicted for it."""
    buffer = program.buffers[b]
    remaining, free_from, count = buffer.demand_s, buffer.instruction, 0
    for u in range(buffer.instruction - 1, state.tensors[buffer.tensor].in_hbm_from - 1, -1):
        if u < free_from and u < buffer.instruction - 1 and state.steps[u].joined != 0:
            d = _covering_copy(program, inc, b, u) if count < COPIES_EVICTED else NONE
            if d == NONE or inc.root[d] == NONE:
                return NONE
            want(edits, inc.root[d], DROP)
            count += 1
            edits.facts[0].cost_s += max(inc.value_s[inc.root[d]], 0.0)
            free_from = copy_span(program, d, inc.moves[d].start, inc.moves[d].end)[0]
        freed = free_from <= u < buffer.instruction - 1 and count > 0
        supply = program.supply_s[u] if freed else state.supply_s[u]
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
            first, last = copy_span(program, d, move.start, move.end)
            if first <= step < last:
                return d
    return NONE


@numba.njit(cache=True)
def _find_obstacles(
    program: ProgramArrays,
    state: GameState,
    inc: Incumbent,
    edits: Edits,
    b: int,
    start: int,
    end: int,
) -> int:
    """Allocations of other tensors that the incumbent holds in [start, end], each once; returns how
    many."""
    owner, count = program.buffers[b].tensor, 0
    for i in range(state.game[0].num_live):
        tensor = state.rectangles[state.live[i].rectangle].tensor
        if tensor != owner:
            count = _add(program, inc, edits, _latest_root(inc, tensor, b), count)
    for u in range(start, state.game[0].now):
        r = state.steps[u].ended
        while r != NONE:
            if state.rectangles[r].tensor != owner:
                count = _add(
                    program, inc, edits, _latest_root(inc, state.rectangles[r].tensor, b), count
                )
            r = state.rectangles[r].next
    for d in range(b, len(inc.moves)):
        if program.buffers[d].instruction > end + NEAR:
            break
        move = inc.moves[d]
        if (
            move.action != DROP
            and move.end >= move.start
            and move.start <= end
            and program.buffers[d].tensor != owner
        ):
            count = _add(program, inc, edits, inc.root[d], count)
    for i in range(count):
        edits.mark[edits.obstacles[i].root] = 0
    return count


@numba.njit(cache=True)
def _latest_root(inc: Incumbent, tensor: int, b: int) -> int:
    """The decision that made the latest allocation of a tensor before b, or -1."""
    root, n = NONE, inc.first_buffer[tensor]
    while n != NONE and n < b:
        if inc.root[n] != NONE:
            root = inc.root[n]
        n = inc.next_buffer[n]
    return root


@numba.njit(cache=True)
def _add(program: ProgramArrays, inc: Incumbent, edits: Edits, root: int, count: int) -> int:
    if root == NONE or edits.mark[root] != 0 or program.buffers[root].bytes == 0:
        return count
    edits.mark[root] = 1
    obstacle = edits.obstacles[count]
    obstacle.offset = inc.moves[root].offset
    obstacle.top = inc.moves[root].offset + program.buffers[root].bytes
    obstacle.root, obstacle.cost_s = root, max(inc.value_s[root], 0.0)
    return count + 1
