"""Room by other offsets: what a mapping holds is packed anew, so that more gets in.

Beside what is placed come values that are wholly in HBM and that fast memory could hold from their
making to their last use, without any copy. All are packed by `packing`; where they do not fit,
fewer are tried, those that save least for the room they take left out first. Of a few values every
set is tried, that which saves most first.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mmap.mapping import Mapping, claimed_share, make_mapping
from learned_mapping.mmap.rules.actions import DROP, NO_COPY
from learned_mapping.mmap.searches.heuristic import values_of
from learned_mapping.mmap.searches.packing import make_pieces, pack
from learned_mapping.programs.program import NO_ALIAS, Program

SLACK = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
"""Shares of the memory that are left free at every step, tried in turn until the rest is packed."""
MOST = 2000  # Pieces that are packed together; a mapping of more is left as it is.
NODES = 20_000  # Placements tried for a set with one value more.
FEW = 12  # Up to so many values more, all sets of them are tried.


class Piece(NamedTuple):
    """Bytes at one offset, held over some intervals of steps, both ends included."""

    bytes: int
    intervals: list[tuple[int, int]]
    buffers: list[int]


def repack(program: Program, base: Mapping, budget: Budget) -> Mapping:
    """A mapping that holds what the valid `base` holds, over the same steps, and as much more as
    was found room for.

    A sample of the budget is 2,000 placements tried.
    """
    held, dropped = held_pieces(program, base), dropped_pieces(program, base)
    value, best = claimed_share(program, base), base
    budget.record(value)

    def pack_all(pieces: list[Piece], share: float, nodes: int | None = None) -> Mapping | None:
        def go_on() -> bool:
            budget.record(value)
            return not budget.spent(share)

        pieces = sorted(pieces, key=lambda piece: int(program.buffer_tensor[piece.buffers[0]]))
        rows = np.array(
            [(i, s, e) for i, piece in enumerate(pieces) for s, e in piece.intervals], np.int64
        )
        sizes = np.array([piece.bytes for piece in pieces])
        owner, start, end = rows.T
        packed = make_pieces(sizes, owner, start, end, elapsed_s)
        offsets = pack(packed, program.fast_bytes, go_on, nodes)
        return None if offsets is None else _at_offsets(program, base, pieces, offsets.tolist())

    if len(held) >= MOST or not dropped:
        return base
    # equal times stay equal
    elapsed_s = np.round(np.concatenate([[0.0], np.cumsum(program.supply_s[:-1])]), 12)
    # Few pieces: every set of them, the best first.
    for few in _sets(program, dropped) if len(dropped) <= FEW else ():
        load = _load(program, held)
        if all(_fits(load, piece, program.fast_bytes) for piece in few):
            mapping = pack_all([*held, *few], 0.7, NODES)
            if mapping is not None and claimed_share(program, mapping) > value:
                best, value = mapping, claimed_share(program, mapping)
                break
        if budget.spent():
            break
    # Many: as much at once as the load allows, with more and more room to spare.
    for i, slack in enumerate(SLACK):
        if i and budget.spent():
            break
        load, chosen = _load(program, held), list(held)
        for piece in dropped:
            if len(chosen) < MOST and _fits(load, piece, (1.0 - slack) * program.fast_bytes):
                chosen.append(piece)
        if len(chosen) == len(held):
            return best
        if (mapping := pack_all(chosen, 0.7 + 0.04 * i)) is not None:
            if claimed_share(program, mapping) < value:
                return best
            best = mapping
            break
    else:
        load, chosen = _load(program, held), list(held)
    value = claimed_share(program, best)
    already = {piece.buffers[0] for piece in chosen}
    for piece in dropped:  # one at a time, where the whole was too much
        if budget.spent() or len(chosen) == MOST:
            break
        if piece.buffers[0] in already or not _fits(
            trial := load.copy(), piece, program.fast_bytes
        ):
            continue
        if (mapping := pack_all([*chosen, piece], 1.0, NODES)) is not None:
            best, load, value = mapping, trial, claimed_share(program, mapping)
            chosen.append(piece)
    budget.record(value, 0)
    return best


def _sets(program: Program, pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Every set of some of a few pieces, by the seconds they save alone, the most first."""
    gains = [float(np.sum(program.initial_benefit_s[piece.buffers])) for piece in pieces]
    chosen = np.array(list(itertools.product((True, False), repeat=len(pieces))))[:-1]
    for row in chosen[np.argsort(-(chosen @ np.array(gains)), kind="stable")]:
        yield [piece for piece, taken in zip(pieces, row) if taken]


def _load(program: Program, pieces: list[Piece]) -> np.ndarray:
    """[T] bytes held at each step."""
    load = np.zeros(program.num_instructions, np.int64)
    for piece in pieces:
        for s, e in piece.intervals:
            load[s : e + 1] += piece.bytes
    return load


def _fits(load: np.ndarray, piece: Piece, limit: float) -> bool:
    """Whether no step holds more than `limit` bytes with the piece, which then counts in `load`
    [T]."""
    if any(load[s : e + 1].max() + piece.bytes > limit for s, e in piece.intervals):
        return False
    for s, e in piece.intervals:
        load[s : e + 1] += piece.bytes
    return True


def held_pieces(program: Program, mapping: Mapping) -> list[Piece]:
    """The pieces that a valid mapping holds: allocations that have to stand at one offset are one
    piece."""
    parent: dict[int, int] = {}  # buffer -> another of its piece; itself at the end

    def root(b: int) -> int:
        while parent[b] != b:
            b = parent[b]
        return b

    latest: dict[int, int] = {}  # tensor -> the buffer that its allocation began with
    group: dict[int, int] = {}
    for b in np.flatnonzero(mapping.placed).tolist():
        tensor, alias = int(program.buffer_tensor[b]), int(program.buffer_alias[b])
        if mapping.action[b] == NO_COPY and not program.buffer_is_output[b]:
            parent[b] = root(latest[tensor])
        else:
            parent[b] = latest[tensor] = b
        if alias != NO_ALIAS:
            parent[root(b)] = root(group.setdefault(alias, b))
    members = defaultdict(list)
    for b in parent:
        members[root(b)].append(b)
    pieces = []
    for buffers in members.values():
        spans = [
            (int(mapping.start[b]), int(mapping.end[b]))
            for b in buffers
            if mapping.start[b] <= mapping.end[b]
        ]
        if (size := int(program.buffer_bytes[buffers[0]])) > 0:
            pieces.append(Piece(size, merged(spans), buffers))
    return pieces


def dropped_pieces(program: Program, mapping: Mapping) -> list[Piece]:
    """Values wholly in HBM that could be held without a copy, the most seconds saved for bytes
    times steps first."""
    outputs = np.full(program.num_tensors, -1)
    outputs[program.buffer_tensor[program.buffer_is_output]] = np.flatnonzero(
        program.buffer_is_output
    )
    uses = defaultdict(list)
    for b, tensor in enumerate(program.buffer_tensor.tolist()):
        uses[tensor].append(b)
    ranked = []
    for value in values_of(program):
        buffers = [b for tensor in value for b in uses[tensor]]
        size = int(program.tensor_bytes[value[0]])
        if mapping.placed[buffers].any() or (outputs[value] < 0).any() or size == 0:
            continue
        if (program.tensor_bytes[value] != size).any() or not _in_place(program, value, outputs):
            continue
        intervals = merged([tuple(span) for span in program.tensor_live[value].tolist()])
        gain_s = float(np.sum(program.initial_benefit_s[buffers]))
        if gain_s > 0.0:
            room = size * sum(e - s + 1 for s, e in intervals)
            ranked.append((-gain_s / room, Piece(size, intervals, sorted(buffers))))
    return [piece for _, piece in sorted(ranked, key=lambda pair: (pair[0], pair[1].buffers))]


def _in_place(program: Program, value: list[int], outputs: np.ndarray) -> bool:
    """Whether the tensors of a value follow one another at one offset, each taken over in place
    where two meet."""
    live = program.tensor_live
    for i, tensor in enumerate(value):
        for earlier in value[:i]:
            if live[earlier, 1] > live[tensor, 0] and live[earlier, 0] < live[tensor, 1]:
                return False
            if (
                live[earlier, 1] == live[tensor, 0]
                and earlier not in program.updated_tensors[outputs[tensor]]
            ):
                return False
    return True


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The steps of some intervals as disjoint ones that do not touch, in order."""
    intervals: list[list[int]] = []
    for s, e in sorted(spans):
        if intervals and s <= intervals[-1][1] + 1:
            intervals[-1][1] = max(intervals[-1][1], e)
        else:
            intervals.append([s, e])
    return [(s, e) for s, e in intervals]


def _at_offsets(
    program: Program, base: Mapping, pieces: list[Piece], offsets: list[int]
) -> Mapping:
    """`base`, each piece at its offset; what it had dropped is held from its making to its last
    use."""
    action, offset, start, end = (
        np.array(a) for a in (base.action, base.offset, base.start, base.end)
    )
    for piece, at in zip(pieces, offsets):
        offset[piece.buffers] = at
        for b in piece.buffers:
            if base.action[b] == DROP:
                t, last = (
                    int(program.buffer_instruction[b]),
                    int(program.tensor_live[program.buffer_tensor[b], 1]),
                )
                action[b] = NO_COPY
                start[b], end[b] = (t, last) if program.buffer_is_output[b] else (t + 1, t)
    return make_mapping(program, action, offset, start, end)
