"""The game being improved, and what an edit of it needs to know: where its effects end, who holds what.

Following the incumbent, a decision looks at nothing before the first step of its own interval. So once a game that was
edited agrees with the incumbent on everything from ``reach_step`` of the cursor on, the rest is the incumbent's, and
the edit is judged there: its cost does not grow with the program.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import COPY, DROP
from learned_mapping.mmap.rules.state import MOVE, NONE, GameState, ProgramArrays


class Incumbent(NamedTuple):
    """A finished game as arrays, changed in place."""

    moves: np.ndarray  # [B] `MOVE`: its decisions, and what each met; counters of the log mean nothing here.
    saved_s: np.ndarray  # [B + 1] float64, seconds saved before each decision; the last is the whole game's.
    reach_step: np.ndarray  # [B + 1] int64: the earliest step any decision from this one on has its interval in.
    root: np.ndarray  # [B] int64: the decision that allocated what this one uses, or -1.
    value_s: np.ndarray  # [B] float64, seconds: what all uses of an allocation save, at its root.
    placed: np.ndarray
    """[T] int64: the subset of each instruction's buffers in fast memory, an index into its latency table."""
    legal: np.ndarray  # [B] int64: actions that were legal, bit by bit.
    next_buffer: np.ndarray  # [B] int64: the next buffer of the same tensor, or -1.
    first_buffer: np.ndarray  # [N] int64: the first buffer of each tensor, or -1.
    want: np.ndarray  # [B] int64: the edit in hand: the action wanted, or -1.


def new_incumbent(program: ProgramArrays, num_tensors: int) -> Incumbent:
    """An empty one; `begin` fills it."""
    count, steps = program.num_buffers, program.num_instructions
    next_buffer, first_buffer = np.full(count, NONE, np.int64), np.full(num_tensors, NONE, np.int64)
    for b in range(count - 1, -1, -1):
        tensor = program.buffers["tensor"][b]
        next_buffer[b], first_buffer[tensor] = first_buffer[tensor], b
    return Incumbent(
        moves=np.zeros(count, MOVE),
        saved_s=np.zeros(count + 1),
        reach_step=np.full(count + 1, steps, np.int64),
        root=np.full(count, NONE, np.int64),
        value_s=np.zeros(count),
        placed=np.zeros(steps, np.int64),
        legal=np.zeros(count, np.int64),
        next_buffer=next_buffer,
        first_buffer=first_buffer,
        want=np.full(count, NONE, np.int64),
    )


@numba.njit(cache=True)
def _same(new, old) -> bool:
    """Whether two `MOVE` are one decision with one outcome."""
    return new.action == old.action and new.start == old.start and new.end == old.end and new.offset == old.offset


@numba.njit(cache=True)
def _copy_moves(state: GameState, inc: Incumbent, low: int, high: int) -> None:
    for d in range(low, high):
        inc.moves[d] = state.moves[d]
        inc.saved_s[d] = state.moves[d].saved_s


@numba.njit(cache=True)
def begin(program: ProgramArrays, state: GameState, inc: Incumbent, action: np.ndarray) -> None:
    """Plays the game of actions [B] from the start, as far as they are legal, and makes it the incumbent.

    With its own actions the incumbent stays what it is; `Incumbent.legal` is noted anew.
    """
    count = len(action)
    kernel.restart(program, state)
    while state.game[0].cursor < count:
        if kernel.evaluate(program, state) == 0:
            kernel.drop_backup(program, state)
            continue
        c = state.game[0].cursor
        outcomes = state.outcomes
        inc.legal[c] = (outcomes[0].legal != 0) + 2 * (outcomes[1].legal != 0) + 4 * (outcomes[2].legal != 0)
        kernel.apply(program, state, kernel.nearest_legal(state, action[c]))
    _copy_moves(state, inc, 0, count)
    inc.saved_s[count] = state.game[0].saved_s
    inc.reach_step[count] = len(inc.placed)
    _reach(program, inc, count - 1, 0)
    inc.placed[:] = state.steps["placed"]
    for first in inc.first_buffer:
        if first != NONE:
            _roots(program, inc, first)


@numba.njit(cache=True)
def load(program: ProgramArrays, state: GameState, inc: Incumbent, cursor: int) -> None:
    """Sets the game to the incumbent's position before decision `cursor`; it agrees with it up to where it stands."""
    state.groups["forced"][:] = 0
    kernel.rewind(program, state, cursor)
    while state.game[0].cursor < cursor:
        kernel.follow_on(program, state, inc.moves[state.game[0].cursor].action)


@numba.njit(cache=True)
def _reach(program: ProgramArrays, inc: Incumbent, last: int, first: int) -> None:
    for c in range(last, -1, -1):
        move = inc.moves[c]
        step = program.buffers[c].instruction
        if move.action != DROP and move.end >= move.start:
            step = min(step, move.start)
        step = min(step, inc.reach_step[c + 1])
        if c < first and inc.reach_step[c] == step:
            break
        inc.reach_step[c] = step


@numba.njit(cache=True)
def _roots(program: ProgramArrays, inc: Incumbent, first: int) -> None:
    """Allocations of a tensor, by its first buffer: their roots and values."""
    root, n = NONE, first
    while n != NONE:
        move = inc.moves[n]
        if move.action == DROP:
            inc.root[n] = NONE
        else:
            if move.action == COPY or program.buffers[n].is_output != 0:
                root = n
                inc.value_s[n] = 0.0
            inc.root[n] = root
            if root != NONE:
                inc.value_s[root] += move.reward_s
        n = inc.next_buffer[n]


@numba.njit(cache=True)
def synced(program: ProgramArrays, state: GameState, inc: Incumbent, low: int) -> bool:
    """Whether the game, at the first buffer of an instruction, goes on as the incumbent does from there.

    Args:
      low: the two agree on all decisions before this one.
    """
    cursor = state.game[0].cursor
    if cursor >= len(inc.moves):
        return True
    reach, drained = inc.reach_step[cursor], NONE
    for d in range(low, cursor):
        new, old, buffer = state.moves[d], inc.moves[d], program.buffers[d]
        if _same(new, old):
            # The same copy-out may leave another rest where the supply before it differs.
            if new.action == COPY and buffer.is_output != 0 and buffer.instruction < drained:
                drained = max(drained, new.end)
                if drained >= reach:
                    return False
            continue
        if buffer.bytes > 0:
            for move in (new, old):
                if move.action == COPY:
                    drained = max(drained, kernel.copy_span(program, d, move.start, move.end)[1])
            if drained >= reach:
                return False
            both = new.action != DROP and old.action != DROP
            if not (both and new.end == old.end and new.offset == old.offset):
                if (new.action != DROP and new.end >= reach) or (old.action != DROP and old.end >= reach):
                    return False
        if buffer.alias != NONE and buffer.group_left > 0:
            if (new.action == DROP) != (old.action == DROP) or (new.action != DROP and new.offset != old.offset):
                return False
        if not _tensor_agrees(state, inc, d, buffer.tensor, cursor):
            return False
    return True


@numba.njit(cache=True)
def _tensor_agrees(state: GameState, inc: Incumbent, d: int, t: int, cursor: int) -> bool:
    """Whether the later uses of a tensor meet it as they do in the incumbent, or do not care."""
    n = inc.next_buffer[d]
    while n != NONE and n < cursor:
        n = inc.next_buffer[n]
    if n == NONE:
        return True
    tensor, after = state.tensors[t], inc.moves[n]
    if tensor.in_hbm_from == after.in_hbm_from and tensor.end == after.tensor_end:
        if tensor.offset == after.tensor_offset or tensor.end == NONE:
            return True
    while n != NONE and inc.moves[n].action == DROP:
        n = inc.next_buffer[n]
    if n == NONE:
        return True
    move = inc.moves[n]
    return move.action == COPY and tensor.end < move.start and tensor.in_hbm_from <= move.start


@numba.njit(cache=True)
def accept(program: ProgramArrays, state: GameState, inc: Incumbent, low: int, gain_s: float) -> None:
    """Makes the game at hand, `synced` or over, the incumbent."""
    cursor = state.game[0].cursor
    first = low
    while first < cursor and _same(state.moves[first], inc.moves[first]):
        first += 1
    if first == cursor:
        return
    _copy_moves(state, inc, low, cursor)
    for d in range(low, cursor):
        buffer = program.buffers[d]
        if buffer.bit >= 0:
            if inc.moves[d].action != DROP:
                inc.placed[buffer.instruction] |= 1 << buffer.bit
            else:
                inc.placed[buffer.instruction] &= ~(1 << buffer.bit)
    inc.saved_s[cursor:] += gain_s
    _reach(program, inc, cursor - 1, low)
    for d in range(low, cursor):
        t = program.buffers[d].tensor
        _roots(program, inc, inc.first_buffer[t])
        n = inc.next_buffer[d]
        tensor = state.tensors[t]
        while n != NONE and n >= cursor:  # what the uses to come will meet, as far as they change nothing
            move = inc.moves[n]
            move.tensor_end, move.tensor_offset, move.in_hbm_from = tensor.end, tensor.offset, tensor.in_hbm_from
            if move.action != DROP:
                break
            n = inc.next_buffer[n]
