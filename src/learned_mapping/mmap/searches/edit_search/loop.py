"""The loop: draw an edit, try it as far as it is worth, accept what is not worse."""

import numba
import numpy as np

from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.state import NONE, GameState, ProgramArrays, record
from learned_mapping.mmap.searches.edit_search.eviction import make_room
from learned_mapping.mmap.searches.edit_search.incumbent import Incumbent, accept, load, synced
from learned_mapping.mmap.searches.edit_search.neighbourhood import (
    COMPLETE,
    EJECT,
    REPEAT,
    SEGMENT,
    TENSOR,
    Edits,
    draw,
    want,
)
from learned_mapping.mmap.searches.edit_search.repeats import Repeats, draw_repeat

LOSS = 1e-12  # Of the possible saving: less is rounding.
CHECK = 8
"""Decisions after an edit's last before the first look whether the game is the incumbent's again;
doubled each time."""
COUNTS = 4
PLAYED, BETTER, BY_TRIAL, UNDONE = range(COUNTS)

TRIAL = record("left length around low high base_s")
"""Edits that together may make up for what the first of them lost: edits until it is undone (0
where no trial is under way), edits that the next one gets, the place of its first edit, the
decisions [low, high) that may differ from those before it, and the seconds saved then."""


@numba.njit(cache=True)
def improve(
    program: ProgramArrays,
    state: GameState,
    inc: Incumbent,
    edits: Edits,
    repeats: Repeats,
    p,
    count: int,
    counts: np.ndarray,
    rng,
) -> None:
    """Draws and tries `count` edits.

    Args:
      edits: room for one.
      repeats: of the program.
      p: `EditParameters`.
      counts: [kinds, COUNTS] int64, added to.
    """
    num_buffers, edit = len(inc.moves), edits.facts[0]
    tolerance_s, unit_s = LOSS * program.possible_saving_s, program.possible_saving_s / num_buffers
    base = inc.moves["action"].copy()
    trials = np.zeros(1, TRIAL)
    trial = trials[0]
    trial.low, trial.base_s = num_buffers, inc.saved_s[num_buffers]
    place = state.game[0].cursor % num_buffers
    for _ in range(count):
        place = _draw_place(trials, place, num_buffers, p, rng)
        kind = _draw_kind(p, rng)
        if kind == REPEAT:
            draw_repeat(inc, edits, repeats, place, rng)
        else:
            draw(program, inc, edits, kind, place, p, rng)
        if trial.left > 0:
            trial.left -= 1
            if trial.left == 0:
                place = trial.low
                _undo(program, state, inc, edits, trials, base, p, rng)
                counts[0, UNDONE] += 1
                continue
        if edit.size == 0:
            continue
        place = edit.place
        if kind >= EJECT and not make_room(program, state, inc, edits, p, rng):
            continue
        counts[kind, PLAYED] += 1
        allowed_s = tolerance_s + _allowance_s(trials, unit_s, p, rng)
        gain_s, low, high = _try(program, state, inc, edits, allowed_s, p, rng)
        if gain_s > -np.inf:
            trial.low, trial.high = min(trial.low, low), max(trial.high, high)
            _accept(inc, trials, base, place, tolerance_s, counts[kind])
    if trial.left > 0:
        _undo(program, state, inc, edits, trials, base, p, rng)


@numba.njit(cache=True)
def _nearby(stride: int, rng) -> int:
    return int(rng.random() * (2 * stride + 1)) - stride


@numba.njit(cache=True)
def _draw_place(trials: np.ndarray, place: int, num_buffers: int, p, rng) -> int:
    """The buffer at or near which to edit next: around the trial under way, near the last one, or
    anywhere."""
    trial = trials[0]
    if trial.left > 0:
        return (trial.around + _nearby(p.trial_stride, rng)) % num_buffers
    if rng.random() < p.jump:
        return int(rng.random() * num_buffers)
    return (place + _nearby(p.stride, rng)) % num_buffers


@numba.njit(cache=True)
def _draw_kind(p, rng) -> int:
    if rng.random() < p.eject:
        return COMPLETE if rng.random() < p.together else EJECT
    if rng.random() < p.tensors:
        return TENSOR
    return REPEAT if p.repeats > 0.0 and rng.random() < p.repeats else SEGMENT


@numba.njit(cache=True)
def _allowance_s(trials: np.ndarray, unit_s: float, p, rng) -> float:
    """The seconds that the next edit may lose: above 0 for the first edit of a trial."""
    trial = trials[0]
    if trial.left > 0 or rng.random() >= p.trial:
        return 0.0
    scale = p.trial_spread ** max(2.0 * rng.random() - 1.0, 0.0)
    trial.length = int(p.trial_edits * np.sqrt(scale))
    return -p.trial_loss * scale * unit_s * np.log(max(rng.random(), 1e-300))


@numba.njit(cache=True)
def _try(
    program: ProgramArrays, state: GameState, inc: Incumbent, edits: Edits, allowed_s: float, p, rng
) -> tuple[float, int, int]:
    """Plays an edit until the game is the incumbent's again; it is the new incumbent if it loses no
    more than allowed.

    Returns:
      Seconds gained, -inf where it is not accepted; and the range of decisions [low, high) that may
      have changed.
    """
    num_buffers, edit, wanted = len(inc.moves), edits.facts[0], edits.wanted
    first, last = num_buffers, 0
    for i in range(edit.size):
        b = wanted[i].buffer
        if inc.want[b] == NONE:
            inc.want[b] = wanted[i].action
        first, last = min(first, b), max(last, b)
    load(program, state, inc, first)
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
        action = inc.moves[c].action
        if inc.want[c] != NONE:
            action = inc.want[c]
        elif (
            refill
            and action == DROP
            and first < c < last + p.refill_reach
            and kernel.evaluate(program, state) > 0
        ):
            for bit, other in ((2, NO_COPY), (1, COPY)):
                outcome = state.outcomes[other]
                if outcome.legal != 0 and inc.legal[c] & bit == 0 and outcome.reward_s > 0:
                    action = other
                    break
        if not kernel.follow(program, state, action):
            kernel.drop_backup(program, state)
            low = min(low, state.game[0].cursor)
    for i in range(edit.size):
        inc.want[wanted[i].buffer] = NONE
    if gain_s < -allowed_s:
        kernel.rewind(program, state, low)
        return -np.inf, 0, 0
    accept(program, state, inc, low, gain_s)
    return gain_s, low, state.game[0].cursor


@numba.njit(cache=True)
def _accept(
    inc: Incumbent,
    trials: np.ndarray,
    base: np.ndarray,
    place: int,
    tolerance_s: float,
    counts: np.ndarray,
) -> None:
    """Ends the trial where the edits since its start lose nothing, or begins one."""
    trial, count = trials[0], len(inc.moves)
    total_s = inc.saved_s[count] - trial.base_s
    if total_s >= -tolerance_s:
        if total_s > tolerance_s:
            counts[BETTER] += 1
            if trial.left > 0:
                counts[BY_TRIAL] += 1
        for d in range(trial.low, trial.high):
            base[d] = inc.moves[d].action
        trial.base_s, trial.left, trial.low, trial.high = inc.saved_s[count], 0, count, 0
    elif trial.left == 0:
        trial.left, trial.around = trial.length, place


@numba.njit(cache=True)
def _undo(
    program: ProgramArrays,
    state: GameState,
    inc: Incumbent,
    edits: Edits,
    trials: np.ndarray,
    base,
    p,
    rng,
) -> None:
    """Replays the decisions that the trial changed as they were before it, actions `base` [B]."""
    trial = trials[0]
    edits.facts[0].size = 0
    for d in range(trial.low, trial.high):
        if inc.moves[d].action != base[d]:
            want(edits, d, base[d])
    if edits.facts[0].size > 0:
        _try(program, state, inc, edits, np.inf, p, rng)
    trial.low, trial.high = len(inc.moves), 0
