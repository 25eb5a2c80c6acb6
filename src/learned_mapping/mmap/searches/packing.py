"""Offsets for a chosen set: a search in canonical order, after MiniMalloc (Moffitt, ASPLOS 2023).

A piece is a size with the steps during which it is held. Pieces are placed with offsets that never
fall, each at the lowest offset that those below it leave; of equal offsets the one that stands
earlier in a static order comes first. A choice is given up where a section of time cannot hold what
is still to come, or where a piece would have fitted below it. Parts of time that nothing unplaced
spans any more are solved by themselves.
"""

from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np

NODES = 2000  # Placements tried between two looks at the clock.
FLOORS = 4_000_000  # Entries of the log of floors, at most.
PACKED, IMPOSSIBLE, PAUSED = range(3)
# What comes next: a part of the frame's time, its piece, or a step back.
PART, CHOOSE, FAILED = range(3)
LETTERS = "WACBT"
ORDERS = ("WAT", "TAW", "TWA", "CBT", "TBC", "TCB")
"""Static orders that are tried in turn, each the largest first: W by time held, A by size times
that, C by sections, B by size times those, T by bytes still to be placed in the fullest section."""
FIELDS = (
    "items count low high least_offset least_rank at piece offset_log floor_log height hatless cuts"
    " num_cuts cut"
)
FRAME = np.dtype([(name, np.int64) for name in FIELDS.split()])


class Pieces(NamedTuple):
    """The pieces to pack; a section is a stretch of time whose pieces are all held at one step of
    it."""

    size: np.ndarray  # [N] int64, bytes
    keys: np.ndarray  # [4, N] float64: W, A, C and B of `ORDERS`
    first: np.ndarray  # [N] int64, first and last section of each
    last: np.ndarray
    sections: np.ndarray  # int64, the sections of the pieces one after another
    section_at: np.ndarray  # [N + 1] int64, where each piece's begin
    members: np.ndarray  # int64, the pieces of the sections one after another
    member_at: np.ndarray  # [S + 1] int64
    rivals: np.ndarray  # int64, the pieces that share a section with each
    rival_at: np.ndarray  # [N + 1] int64


def make_pieces(
    size: np.ndarray, piece: np.ndarray, start: np.ndarray, end: np.ndarray, elapsed: np.ndarray
) -> Pieces:
    """The pieces of sizes [N] bytes, piece[k] held over the steps [start[k], end[k]], both
    included; elapsed [T] is when each step begins, in any unit."""
    opened: list[int] = []
    ended = np.unique(end)
    for t in np.unique(start).tolist():  # a start after an end opens a section
        if not opened or np.searchsorted(ended, t) > np.searchsorted(ended, opened[-1]):
            opened.append(t)
    low = np.searchsorted(opened, start, side="right") - 1
    high = np.searchsorted(opened, end, side="right") - 1
    spans = zip(piece.tolist(), low.tolist(), high.tolist())
    pairs = np.unique([(i, section) for i, a, b in spans for section in range(a, b + 1)], axis=0)
    count, size = len(size), np.asarray(size, np.int64)
    width = np.bincount(piece, elapsed[end] - elapsed[start], count)
    section_at = np.searchsorted(pairs[:, 0], np.arange(count + 1))
    by_section = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]
    member_at = np.searchsorted(by_section[:, 1], np.arange(len(opened) + 1))
    sections, members = pairs[:, 1].copy(), by_section[:, 0].copy()
    rivals = []
    for i in range(count):
        own = sections[section_at[i] : section_at[i + 1]]
        near = np.unique(np.concatenate([members[member_at[s] : member_at[s + 1]] for s in own]))
        rivals.append(near[near != i])
    rival_at = np.cumsum([0, *map(len, rivals)])
    first, last = sections[section_at[:-1]], sections[section_at[1:] - 1]
    spanned = np.diff(section_at)
    keys = np.stack([width, width * size, spanned, spanned * size])
    return Pieces(size, keys, first, last, sections, section_at, members, member_at,
                  np.concatenate(rivals), rival_at)  # fmt: skip


class State(NamedTuple):
    """A search under way; what changes on the way down is logged and undone on the way up."""

    offset: np.ndarray  # [N] int64, -1 where not placed
    lowest: np.ndarray  # [N] int64, the lowest offset left to each
    solution: np.ndarray  # [N] int64, the last offset each was given
    floor: np.ndarray  # [S] int64, below which a section has no room
    total: np.ndarray  # [S] int64, bytes still to be placed
    spans: np.ndarray  # [S] int64, unplaced pieces that reach from a section to the next
    marked: np.ndarray  # [S] int64, scratch
    frames: np.ndarray
    items: np.ndarray  # [., 2] int64, piece and rank, of the frames one after another
    cuts: np.ndarray
    log: np.ndarray  # [., 2] int64
    floors: np.ndarray  # [., 2] int64
    depth: np.ndarray  # [4] int64: of the frames, of both logs, and what comes next


def new_state(p: Pieces) -> State:
    """A search at its start: the frame of everything, split where nothing spans."""
    n, s = len(p.size), len(p.member_at) - 1
    total, spans = np.zeros(s, np.int64), np.zeros(s, np.int64)
    np.add.at(total, p.sections, np.repeat(p.size, np.diff(p.section_at)))
    for a, b in zip(p.first.tolist(), p.last.tolist()):
        spans[a:b] += 1
    frames = np.zeros(n + 2, FRAME)
    items = np.zeros((n * (n + 3) // 2 + 2 * n + 8, 2), np.int64)
    items[:n, 0] = np.arange(n)
    closed = np.flatnonzero(spans[:-1] == 0) + 1
    cuts = np.zeros(2 * (n + s) + 8, np.int64)
    cuts[: len(closed) + 2] = [0, *closed, s]
    whole = {"count": n, "high": s, "piece": -1, "num_cuts": len(closed) + 2}
    for field, value in whole.items():
        frames[field][0] = value
    log, floors = (
        np.zeros((len(p.rivals) + 8, 2), np.int64),
        np.zeros((min(n * s + s, FLOORS) + 8, 2), np.int64),
    )
    return State(
        np.full(n, -1),
        np.zeros(n, np.int64),
        np.full(n, -1),
        np.zeros(s, np.int64),
        total,
        spans,
        np.zeros(s, np.int64),
        frames,
        items,
        cuts,
        log,
        floors,
        np.zeros(4, np.int64),
    )


@numba.njit(cache=True)
def _before(order: np.ndarray, p: Pieces, fullest: np.ndarray, a: int, b: int) -> bool:
    """Whether piece a stands before piece b in a static order."""
    for k in order:
        x, y = float(fullest[a]), float(fullest[b])
        if k < len(p.keys):
            x, y = p.keys[k, a], p.keys[k, b]
        if x != y:
            return x > y
    return a < b


@numba.njit(cache=True)
def _sort(
    items: np.ndarray, low: int, high: int, order: np.ndarray, p: Pieces, fullest: np.ndarray
) -> None:
    """Shell sort by the static order; ranks are the places."""
    gap = 1
    while gap < (high - low) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(low + gap, high):
            piece, j = items[i, 0], i
            while j >= low + gap and _before(order, p, fullest, piece, items[j - gap, 0]):
                items[j, 0] = items[j - gap, 0]
                j -= gap
            items[j, 0] = piece
        gap //= 3
    for i in range(low, high):
        items[i, 1] = i - low


@numba.njit(cache=True)
def _place(p: Pieces, s: State, frame, capacity: int) -> bool:
    """Places the frame's piece at its lowest offset; False where a section can no longer hold what
    is to come."""
    i = frame.piece
    offset = s.lowest[i]
    top = offset + p.size[i]
    s.offset[i] = s.solution[i] = offset
    frame.hatless = 1
    logged, floors, fits = s.depth[1], s.depth[2], True
    if floors + p.section_at[i + 1] - p.section_at[i] + frame.high - frame.low > len(s.floors):
        fits = False  # no room in the log; what follows is not looked at
    frame.offset_log, frame.floor_log = logged, floors
    for k in range(p.section_at[i], p.section_at[i + 1]):
        section = p.sections[k]
        s.floors[floors] = section, s.floor[section]
        floors += 1
        s.floor[section] = top
        s.total[section] -= p.size[i]
    for k in range(p.rival_at[i], p.rival_at[i + 1]):
        j = p.rivals[k]
        if s.offset[j] >= 0:
            continue
        frame.hatless = 0
        if s.lowest[j] < top:
            s.log[logged] = j, s.lowest[j]
            logged += 1
            s.lowest[j] = top
            fits = fits and top + p.size[j] <= capacity
            for m in range(p.section_at[j], p.section_at[j + 1]):
                s.marked[p.sections[m]] = 1
    for section in range(frame.low, frame.high):
        if s.marked[section] == 1:
            s.marked[section] = 0
            if not fits:
                continue
            least = 1 << 62
            for k in range(p.member_at[section], p.member_at[section + 1]):
                j = p.members[k]
                if s.offset[j] < 0:
                    least = min(least, s.lowest[j])
            if least < 1 << 62 and s.floor[section] < least:
                s.floors[floors] = section, s.floor[section]
                floors += 1
                s.floor[section] = least
        if max(s.floor[section], offset) + s.total[section] > capacity and s.total[section] > 0:
            fits = False
    s.depth[1], s.depth[2] = logged, floors
    return fits


@numba.njit(cache=True)
def _lift(p: Pieces, s: State, frame) -> None:
    """Undoes `_place`."""
    i = frame.piece
    for k in range(s.depth[2] - 1, frame.floor_log - 1, -1):
        s.floor[s.floors[k, 0]] = s.floors[k, 1]
    for k in range(s.depth[1] - 1, frame.offset_log - 1, -1):
        s.lowest[s.log[k, 0]] = s.log[k, 1]
    for k in range(p.section_at[i], p.section_at[i + 1]):
        s.total[p.sections[k]] += p.size[i]
    s.depth[1], s.depth[2] = frame.offset_log, frame.floor_log
    s.offset[i] = -1


@numba.njit(cache=True)
def _enter(p: Pieces, s: State, frame, child, order: np.ndarray, fullest: np.ndarray) -> bool:
    """Fills the child with the frame's next part; False where it has none left. A whole goes on in
    its parent's order, a part in an order of its own."""
    whole = frame.num_cuts == 2 and frame.piece >= 0
    base = frame.items + frame.count
    while frame.cut + 1 < frame.num_cuts:
        low, high = s.cuts[frame.cuts + frame.cut], s.cuts[frame.cuts + frame.cut + 1]
        frame.cut += 1
        n = base
        for k in range(frame.items, base):
            j = s.items[k, 0]
            if s.offset[j] < 0 and (whole or (p.first[j] < high and p.last[j] >= low)):
                s.items[n] = s.items[k]
                n += 1
        if n == base:
            continue
        child.items, child.count, child.low, child.high, child.at = base, n - base, low, high, 0
        child.least_offset, child.least_rank, child.piece = 0, 0, -1
        child.cuts, child.num_cuts, child.cut = frame.cuts + frame.num_cuts, 0, 0
        if whole:
            child.least_offset = s.lowest[frame.piece]
            for k in range(frame.items, base):
                if s.items[k, 0] == frame.piece:
                    child.least_rank = s.items[k, 1]
        else:
            for k in range(base, n):
                j = s.items[k, 0]
                fullest[j] = 0
                for m in range(p.section_at[j], p.section_at[j + 1]):
                    fullest[j] = max(fullest[j], s.total[p.sections[m]])
            _sort(s.items, base, n, order, p, fullest)
        child.height = 1 << 62
        for k in range(base, n):  # nearly sorted already
            piece, rank, m = s.items[k, 0], s.items[k, 1], k
            lowest = s.lowest[piece]
            child.height = min(child.height, lowest + p.size[piece])
            while m > base:
                other = s.lowest[s.items[m - 1, 0]]
                if other < lowest or (other == lowest and s.items[m - 1, 1] < rank):
                    break
                s.items[m] = s.items[m - 1]
                m -= 1
            s.items[m, 0], s.items[m, 1] = piece, rank
        return True
    return False


@numba.njit(cache=True)
def _split(p: Pieces, s: State, frame) -> None:
    """Cuts the frame's time where nothing spans any more, its piece placed."""
    frame.cut, frame.num_cuts = 0, 1
    s.cuts[frame.cuts] = frame.low
    for section in range(p.first[frame.piece], p.last[frame.piece]):
        s.spans[section] -= 1
        if s.spans[section] == 0:
            s.cuts[frame.cuts + frame.num_cuts] = section + 1
            frame.num_cuts += 1
    s.cuts[frame.cuts + frame.num_cuts] = frame.high
    frame.num_cuts += 1


@numba.njit(cache=True)
def _join(p: Pieces, s: State, frame) -> None:
    """Undoes `_split`."""
    for section in range(p.first[frame.piece], p.last[frame.piece]):
        s.spans[section] += 1


@numba.njit(cache=True)
def search(p: Pieces, s: State, capacity: int, order: np.ndarray, nodes: int) -> int:
    """Goes on for so many nodes: PACKED (offsets in ``solution``), IMPOSSIBLE or PAUSED."""
    fullest = np.zeros(len(p.size), np.int64)
    frames, depth, step = s.frames, s.depth[0], s.depth[3]
    while True:
        frame = frames[depth]
        if step == CHOOSE:
            if nodes <= 0:
                s.depth[0], s.depth[3] = depth, step
                return PAUSED
            step = FAILED
            while frame.at < frame.count:
                j, rank = s.items[frame.items + frame.at]
                lowest = s.lowest[j]
                if lowest >= frame.height:
                    break
                if lowest > frame.least_offset or (
                    lowest == frame.least_offset and rank >= frame.least_rank
                ):
                    frame.piece = j
                    nodes -= 1
                    if _place(p, s, frame, capacity):
                        _split(p, s, frame)
                        step = PART
                        break
                    _lift(p, s, frame)
                    if frame.hatless:
                        break
                frame.at += 1
            if step == FAILED:
                depth -= 1
        elif step == PART:
            if _enter(p, s, frame, frames[depth + 1], order, fullest):
                depth += 1
                step = CHOOSE
            elif depth == 0:
                return PACKED
            else:  # every part is done
                _join(p, s, frame)
                _lift(p, s, frame)
                depth -= 1
        elif depth == 0:
            return IMPOSSIBLE
        else:
            _join(p, s, frame)
            _lift(p, s, frame)
            if frame.hatless:
                depth -= 1
            else:
                frame.at += 1
                step = CHOOSE


def pack(
    pieces: Pieces, capacity: int, go_on: Callable[[], bool], nodes: int | None = None
) -> np.ndarray | None:
    """Offsets [N] in bytes at which all pieces fit below `capacity`; None where none were found.

    Args:
      go_on: asked every `NODES` nodes.
      nodes: the most in all, None where only `go_on` limits.
    """
    limit, left = len(pieces.size), np.inf if nodes is None else nodes
    while True:
        limit *= 2
        for order in ORDERS:
            state, budget = new_state(pieces), min(limit, left)
            code = np.array([LETTERS.index(letter) for letter in order])
            left -= budget
            while budget > 0:
                if not go_on():
                    return None
                status = search(pieces, state, capacity, code, int(min(budget, NODES)))
                budget -= NODES
                if status != PAUSED:
                    return state.solution if status == PACKED else None
        if left <= 0:
            return None
