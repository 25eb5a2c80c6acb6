"""An edit played: what must make room for it, the game until it is the incumbent's again, and the way back."""

from __future__ import annotations

import numba
import numpy as np

from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.state import NONE
from learned_mapping.mmap.searches.edits.incumbent import adopt, go_to, synced
from learned_mapping.mmap.searches.edits.proposals import BYTES, COST, FIRST_STEP, GAIN, LAST_STEP, PARTS
from learned_mapping.mmap.searches.edits.replay import follow
from learned_mapping.mmap.searches.edits.room import make_room

CHECK = 8
"""Decisions after an edit's last before the first look whether the game is the incumbent's again; doubled each time."""


@numba.njit(cache=True)
def make_all_room(program, state, inc, edit, parts, size, noise, rng) -> int:
    """`make_room` for each part of an edit; 0 where one cannot be placed."""
    facts = edit.facts
    facts[COST] = 0.0
    for i in range(int(facts[PARTS])):
        part = parts[i, 0]
        b = edit.buffer[part]
        go_to(program, state, inc, b)
        facts[FIRST_STEP], facts[LAST_STEP] = program.buffers[b].instruction, parts[i, 1]
        facts[BYTES] = program.buffers[b].bytes
        size = make_room(program, state, inc, edit, part, size, noise, rng)
        if size == 0 or facts[GAIN] < 0.5 * facts[COST]:
            return 0
    return size


@numba.njit(cache=True)
def play(program, state, inc, edit, size, allowed_s, p, span, rng) -> float:
    """Plays an edit; returns seconds gained where it was adopted, else -inf, and the game agrees with the incumbent."""
    num_buffers = len(inc.moves)
    first, last = num_buffers, 0
    for i in range(size):
        b = edit.buffer[i]
        if inc.want[b] == NONE:
            inc.want[b] = edit.action[i]
        first, last = min(first, b), max(last, b)
    go_to(program, state, inc, first)
    low = min(first, state.game[0].cursor)
    refill = allowed_s < np.inf and rng.random() < p.refill
    check, wait = last + CHECK, CHECK
    gain_s = -np.inf
    while True:
        c = state.game[0].cursor
        if c == num_buffers:
            gain_s = state.game[0].saved_s - inc.saved_s[c]
            break
        if c > last:
            gain_s = state.game[0].saved_s - inc.saved_s[c]
            if gain_s < -allowed_s:
                break
            if c >= check and c == program.first_buffer[program.buffers[c].instruction]:
                if synced(program, state, inc, low):
                    break
                wait *= 2
                check = c + wait
        wanted = inc.moves[c].action
        if inc.want[c] != NONE:
            wanted = inc.want[c]
        elif refill and wanted == DROP and first < c < last + p.refill_reach and kernel.evaluate(program, state) > 0:
            outcomes = state.outcomes
            if outcomes[NO_COPY].legal != 0 and inc.legal[c] & 2 == 0 and outcomes[NO_COPY].reward_s > 0:
                wanted = NO_COPY
            elif outcomes[COPY].legal != 0 and inc.legal[c] & 1 == 0 and outcomes[COPY].reward_s > 0:
                wanted = COPY
        if not follow(program, state, wanted):
            kernel.drop_backup(program, state)
            low = min(low, state.game[0].cursor)
    for i in range(size):
        inc.want[edit.buffer[i]] = NONE
    if gain_s >= -allowed_s:
        adopt(program, state, inc, low, gain_s)
        span[0], span[1] = low, state.game[0].cursor
        return gain_s
    kernel.rewind(program, state, low)
    return -np.inf


@numba.njit(cache=True)
def take_back(program, state, inc, edit, base, low, high, p, span, rng) -> None:
    """Replays the decisions [low, high) of the incumbent as they were."""
    size = 0
    for d in range(low, high):
        if inc.moves[d].action != base[d]:
            edit.buffer[size], edit.action[size] = d, base[d]
            size += 1
    if size > 0:
        play(program, state, inc, edit, size, np.inf, p, span, rng)
