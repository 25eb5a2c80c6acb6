"""The loop: draw edits, choose one, try it as far as it is worth, accept what is not worse, learn from the outcome."""

from __future__ import annotations

import numba
import numpy as np

from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.state import NONE, GameState, ProgramArrays
from learned_mapping.mmap.searches.edit_search import scorer
from learned_mapping.mmap.searches.edit_search.eviction import make_room
from learned_mapping.mmap.searches.edit_search.incumbent import Incumbent, accept, load, synced
from learned_mapping.mmap.searches.edit_search.neighbourhood import (
    COMPLETE,
    EJECT,
    KINDS,
    SEGMENT,
    TENSOR,
    Edits,
    draw,
    want,
)
from learned_mapping.mmap.searches.edit_search.scorer import NUM_FEATURES, Scorer

LOSS = 1e-12
"""Of the possible saving: less is rounding."""
CHECK = 8
"""Decisions after an edit's last before the first look whether the game is the incumbent's again; doubled each time."""
COUNTS = 6
DRAWN, PLAYED, KEPT, BETTER, BY_TRIAL, UNDONE = range(COUNTS)
NUM_KINDS = len(KINDS)

TRIAL = np.dtype(
    [
        ("left", "i8"),  # edits until it is undone; 0 where no trial is under way
        ("length", "i8"),  # edits that the next one gets
        ("around", "i8"),  # the place of its first edit
        ("low", "i8"),  # the decisions [low, high) may differ from those before it
        ("high", "i8"),
        ("base_s", "f8"),  # seconds saved before it
    ]
)
"""Edits that together may make up for what the first of them lost."""


@numba.njit(cache=True)
def improve(
    program: ProgramArrays,
    state: GameState,
    inc: Incumbent,
    edits: Edits,
    net: Scorer,
    p,
    count: int,
    counts: np.ndarray,
    rng,
) -> None:
    """Draws and tries `count` edits.

    Args:
      edits: room for ``p.candidates`` of them.
      net: chooses where there is more than one candidate, and learns.
      p: `EditParameters`.
      counts: [kinds, COUNTS] int64, added to.
    """
    num_buffers = len(inc.moves)
    tolerance_s, unit_s = LOSS * program.possible_saving_s, program.possible_saving_s / num_buffers
    features = np.zeros((p.candidates, NUM_FEATURES))
    base = inc.moves["action"].copy()
    trials = np.zeros(1, TRIAL)
    trial = trials[0]
    trial.low, trial.base_s = num_buffers, inc.saved_s[num_buffers]
    place = state.game[0].cursor % num_buffers
    for _ in range(count):
        before = state.game[0].moves
        place = _draw_place(trials, place, num_buffers, p, rng)
        arm = _draw_arm(net, p, rng)
        kind, drawn = arm % NUM_KINDS, p.candidates if arm >= NUM_KINDS else 1
        for k in range(drawn):
            at = place
            if k > 0 and trial.left == 0 and rng.random() < p.far:
                at = int(rng.random() * num_buffers)
            elif k > 0:
                at = (place + _nearby(p.stride, rng)) % num_buffers
            draw(program, inc, edits, k, kind, at, p, rng)
            if edits.facts[k].size > 0:
                edits.facts[k].effort = np.log(_decisions(program, edits, k, state.game[0].cursor))
                counts[kind, DRAWN] += 1
                if p.candidates > 1:
                    scorer.describe(program, inc, edits, k, features[k])
        k = _choose(net, edits, drawn, features, p, rng)
        if trial.left > 0:
            trial.left -= 1
            if trial.left == 0:
                place = trial.low
                _undo(program, state, inc, edits, trials, base, p, rng)
                counts[0, UNDONE] += 1
                continue
        if k == NONE:
            continue
        place = edits.facts[k].place
        inc.tries[place] += 1.0
        gain_s, low, high, won_s = -np.inf, 0, 0, 0.0
        if kind < EJECT or make_room(program, state, inc, edits, k, p, rng):
            counts[kind, PLAYED] += 1
            allowed_s = tolerance_s + _allowance_s(trials, unit_s, p, rng)
            gain_s, low, high = _try(program, state, inc, edits, k, allowed_s, p, rng)
        if gain_s > -np.inf:
            trial.low, trial.high = min(trial.low, low), max(trial.high, high)
            won_s = _accept(inc, trials, base, place, tolerance_s, counts[kind])
        if p.candidates > 1:
            scorer.credit(net, arm, won_s / unit_s, state.game[0].moves - before)
            if gain_s > tolerance_s:
                weight = scorer.weight(net, gain_s / unit_s, p.weighting)
                scorer.learn(net, features[k], 1.0, weight, p.learning_rate)
            else:
                scorer.learn(net, features[k], 0.0, 1.0, p.learning_rate)
    if trials[0].left > 0:
        _undo(program, state, inc, edits, trials, base, p, rng)


@numba.njit(cache=True)
def _nearby(stride: int, rng) -> int:
    return int(rng.random() * (2 * stride + 1)) - stride


@numba.njit(cache=True)
def _draw_place(trials: np.ndarray, place: int, num_buffers: int, p, rng) -> int:
    """The buffer at or near which to edit next: around the trial under way, near the last one, or anywhere."""
    trial = trials[0]
    if trial.left > 0:
        return (trial.around + _nearby(p.trial_stride, rng)) % num_buffers
    if rng.random() < p.jump:
        return int(rng.random() * num_buffers)
    return (place + _nearby(p.stride, rng)) % num_buffers


@numba.njit(cache=True)
def _draw_arm(net: Scorer, p, rng) -> int:
    """A kind of edit by chance, or `NUM_KINDS` more: that kind, chosen by the network."""
    if p.candidates > 1 and rng.random() >= p.explore:
        return scorer.draw_arm(net, rng)
    if rng.random() < p.eject:
        arm = COMPLETE if rng.random() < p.together else EJECT
    else:
        arm = TENSOR if rng.random() < p.tensors else SEGMENT
    return arm + NUM_KINDS if p.candidates > 1 and rng.random() < 0.5 else arm


@numba.njit(cache=True)
def _decisions(program: ProgramArrays, edits: Edits, k: int, cursor: int) -> float:
    """About how many decisions trying an edit takes: going there, through its interval, and until all is as before."""
    edit, wanted = edits.facts[k], edits.wanted[k]
    first = last = wanted[0].buffer
    for i in range(edit.size):
        first, last = min(first, wanted[i].buffer), max(last, wanted[i].buffer)
    if edit.kind >= EJECT:
        last = max(last, program.first_buffer[min(edit.last_step + 1, len(program.supply_s) - 1)])
    return 50.0 + abs(cursor - first) + last - first


@numba.njit(cache=True)
def _choose(net: Scorer, edits: Edits, drawn: int, features: np.ndarray, p, rng) -> int:
    """The candidate to try, or -1 where none says anything."""
    if drawn == 1:
        return 0 if edits.facts[0].size > 0 else NONE
    best, best_score = NONE, -np.inf
    for k in range(drawn):
        if edits.facts[k].size == 0:
            continue
        score = p.sharpness * (scorer.logit(net, features[k]) - p.thrift * edits.facts[k].effort)
        score -= np.log(-np.log(max(rng.random(), 1e-300)))
        if score > best_score:
            best, best_score = k, score
    return best


@numba.njit(cache=True)
def _allowance_s(trials: np.ndarray, unit_s: float, p, rng) -> float:
    """What the next edit may lose, seconds: above 0 for the first edit of a trial."""
    trial = trials[0]
    if trial.left > 0 or rng.random() >= p.trial:
        return 0.0
    scale = p.trial_spread ** max(2.0 * rng.random() - 1.0, 0.0)
    trial.length = int(p.trial_edits * np.sqrt(scale))
    return -p.trial_loss * scale * unit_s * np.log(max(rng.random(), 1e-300))


@numba.njit(cache=True)
def _try(
    program: ProgramArrays, state: GameState, inc: Incumbent, edits: Edits, k: int, allowed_s: float, p, rng
) -> tuple[float, int, int]:
    """Plays an edit until the game is the incumbent's again; it is the new incumbent if it loses no more than allowed.

    Returns:
      Seconds gained, -inf where it is not accepted; and the range of decisions [low, high) that may have changed.
    """
    num_buffers, edit, wanted = len(inc.moves), edits.facts[k], edits.wanted[k]
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
        elif refill and action == DROP and first < c < last + p.refill_reach and kernel.evaluate(program, state) > 0:
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
    inc: Incumbent, trials: np.ndarray, base: np.ndarray, place: int, tolerance_s: float, counts: np.ndarray
) -> float:
    """Ends the trial where the edits since its start lose nothing, or begins one; returns seconds won since then."""
    trial, count = trials[0], len(inc.moves)
    total_s = inc.saved_s[count] - trial.base_s
    if total_s >= -tolerance_s:
        counts[KEPT] += 1
        if total_s > tolerance_s:
            counts[BETTER] += 1
            if trial.left > 0:
                counts[BY_TRIAL] += 1
        for d in range(trial.low, trial.high):
            base[d] = inc.moves[d].action
        trial.base_s, trial.left, trial.low, trial.high = inc.saved_s[count], 0, count, 0
    elif trial.left == 0:
        trial.left, trial.around = trial.length, place
    return max(total_s, 0.0)


@numba.njit(cache=True)
def _undo(
    program: ProgramArrays, state: GameState, inc: Incumbent, edits: Edits, trials: np.ndarray, base, p, rng
) -> None:
    """Replays the decisions that the trial changed as they were before it, actions `base` [B]."""
    trial = trials[0]
    edits.facts[0].size = 0
    for d in range(trial.low, trial.high):
        if inc.moves[d].action != base[d]:
            want(edits, 0, d, base[d])
    if edits.facts[0].size > 0:
        _try(program, state, inc, edits, 0, np.inf, p, rng)
    trial.low, trial.high = len(inc.moves), 0
