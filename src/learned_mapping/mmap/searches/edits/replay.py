"""One decision of a game that mostly follows another: the action wanted is looked at, the others where it is illegal.

Of the three actions Drop costs nothing to judge and the two others a search for an offset each, so this is what most of
an edit's time depends on.
"""

from __future__ import annotations

import numba

from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import COPY, DROP, DROPPED, NO_COPY, NO_OFFSET, PLACED
from learned_mapping.mmap.rules.arrays import ProgramArrays
from learned_mapping.mmap.rules.state import NONE, GameState


@numba.njit(cache=True)
def nearest_legal(state: GameState, wanted: int) -> int:
    """The action wanted, or where it is illegal the next best: another way to place, then Drop."""
    outcomes = state.outcomes
    if outcomes[wanted].legal != 0:
        return wanted
    other = NO_COPY if wanted != NO_COPY else COPY
    if outcomes[other].legal != 0:
        return other
    if outcomes[DROP].legal != 0:
        return DROP
    return COPY if outcomes[COPY].legal != 0 else NO_COPY


@numba.njit(cache=True)
def follow(program: ProgramArrays, state: GameState, wanted: int) -> bool:
    """Plays the action wanted, or the nearest legal one; False, and nothing played, where none is legal."""
    game = state.game[0]
    buffer = program.buffers[game.cursor]
    if game.evaluated != game.cursor and _evaluate_one(program, state, wanted):
        if wanted != DROP and buffer.bit >= 0:
            entry = program.table_start[buffer.instruction] + state.steps[buffer.instruction].placed
            state.outcomes[wanted].reward_s = program.latency_s[entry] - program.latency_s[entry + (1 << buffer.bit)]
    else:
        if kernel.evaluate(program, state) == 0:
            return False
        wanted = nearest_legal(state, wanted)
    kernel.apply(program, state, wanted)
    return True


@numba.njit(cache=True)
def _evaluate_one(program: ProgramArrays, state: GameState, wanted: int) -> bool:
    """As `kernel.evaluate`, for one action; whether it is legal."""
    b = state.game[0].cursor
    buffer, outcome = program.buffers[b], state.outcomes[wanted]
    if buffer.alias != NONE:
        group = state.groups[buffer.alias]
        if wanted == DROP and group.status == PLACED:
            return False
        if wanted != DROP and (group.status == DROPPED or group.forced != 0):
            return False
    kernel._move_now(state, buffer.instruction)
    outcome.legal, outcome.start, outcome.end, outcome.offset = 0, NONE, NONE, NO_OFFSET
    outcome.leftover_s = outcome.reward_s = 0.0
    if wanted == COPY:
        kernel._evaluate_copy(program, state, b)
    elif wanted == NO_COPY:
        kernel._evaluate_no_copy(program, state, b)
    else:
        outcome.legal = 1
    return outcome.legal != 0
