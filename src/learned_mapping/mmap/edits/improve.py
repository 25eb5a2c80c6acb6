"""The loop: draw edits, choose one, play it as far as it is worth, keep what is not worse."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap import kernel
from learned_mapping.mmap.arrays import ProgramArrays
from learned_mapping.mmap.edits import scorer
from learned_mapping.mmap.edits.incumbent import Incumbent, adopt, go_to, nearest_legal, synced
from learned_mapping.mmap.edits.proposals import (
    BYTES,
    COMPLETE,
    COST,
    EJECT,
    FIRST_STEP,
    GAIN,
    KINDS,
    LAST_STEP,
    PARTS,
    SEGMENT,
    TENSOR,
    Edit,
    chain,
    complete,
    make_room,
    segment,
    tensor,
    without_place,
)  # fmt: skip
from learned_mapping.mmap.edits.scorer import NUM_FEATURES, Scorer
from learned_mapping.mmap.rules import COPY, DROP, NO_COPY
from learned_mapping.mmap.state import NONE, GameState

LOSS = 1e-12
"""Of the possible saving: less is rounding."""
CHECK = 8
"""Decisions after an edit's last before the first look whether the game is the incumbent's again; doubled each time."""


class EditParameters(NamedTuple):
    """Hyperparameters; chosen on programs that stand in no table."""

    length: int = 12
    """Decisions of a segment, at most."""
    deviation: float = 0.3
    """Probability that a decision of a segment is redrawn."""
    eject: float = 0.5
    """Share of edits that make room."""
    together: float = 0.5
    """Share of those that make room for all that an instruction lacks."""
    tensors: float = 0.3
    """Share of the others that redecide a tensor."""
    noise: float = 0.3
    """Blur of the costs of what is pushed out."""
    least: float = 0.7
    """An edit that makes room is played if it gains at least this share of what it costs."""
    refill: float = 0.5
    """Probability that an edit also places what has become legal by it."""
    refill_reach: int = 200
    """Decisions behind an edit's last up to which it does."""
    stride: int = 100
    """Most buffers between the places of two edits that follow each other."""
    jump: float = 0.01
    """Probability of a place anywhere in the program instead."""
    far: float = 0.3
    """Probability that a candidate is drawn anywhere in the program instead of near the place."""
    candidates: int = 1
    """Edits drawn for one played; with more than one the scorer chooses."""
    explore: float = 0.3
    """Probability that the kind is drawn by the fixed shares, not by what the kinds have lately gained."""
    sharpness: float = 1.0
    """Of the choice: probabilities go with exp(sharpness * logit)."""
    thrift: float = 1.0
    """Power of the decisions an edit is expected to take, by which its odds are divided."""
    learning_rate: float = 1e-3
    weighting: float = 1.0
    """Power of a gain, relative to the mean gain, by which a success weighs more or less in learning; 0: all alike."""
    trial: float = 0.3
    """Probability that an edit may lose a little, to be followed by others around it."""
    trial_loss: float = 5.0
    """Mean of what it may lose, in shares of the possible saving over the number of buffers."""
    trial_edits: int = 8
    """Edits tried after it before it is taken back."""
    trial_stride: int = 40
    """Most buffers between it and them."""


NUM_KINDS = len(KINDS)
RATE_DECAY = 0.995
"""Per use of an arm."""
COUNTS = 7
DRAWN, PLAYED, KEPT, BETTER, TRIED, BY_TRIAL, TAKEN_BACK = range(COUNTS)


@numba.njit(cache=True)
def improve(
    program: ProgramArrays,
    state: GameState,
    inc: Incumbent,
    edit: Edit,
    net: Scorer,
    p: EditParameters,
    count: int,
    counts: np.ndarray,
    rng,
) -> None:
    """Plays `count` edits; counts [kinds, COUNTS] are added to."""
    num_buffers = len(inc.moves)
    tolerance_s = LOSS * program.possible_saving_s
    place = state.game[0].cursor % num_buffers
    places = np.zeros(p.candidates, np.int64)
    sizes = np.zeros(p.candidates, np.int64)
    buffers = np.zeros((p.candidates, len(edit.buffer) if p.candidates == 1 else 128), np.int64)
    actions = np.zeros((p.candidates, buffers.shape[1]), np.int64)
    features = np.zeros((p.candidates, NUM_FEATURES))
    facts = np.zeros((p.candidates, len(edit.facts)))
    effort = np.zeros(p.candidates)
    parts = np.zeros((p.candidates, 64, 2), np.int64)
    base = np.empty(num_buffers, np.int64)
    for b in range(num_buffers):
        base[b] = inc.moves[b].action
    base_s, tries_left, around, low, high = inc.saved_s[num_buffers], 0, 0, num_buffers, 0
    span = np.zeros(2, np.int64)
    unit_s = program.possible_saving_s / num_buffers
    for _ in range(count):
        if tries_left > 0:
            place = (around + int(rng.random() * (2 * p.trial_stride + 1)) - p.trial_stride) % num_buffers
        elif rng.random() < p.jump:
            place = int(rng.random() * num_buffers)
        else:
            place = (place + int(rng.random() * (2 * p.stride + 1)) - p.stride) % num_buffers
        if p.candidates > 1:
            arm = _arm(net, p, rng)
            kind, drawn = arm % NUM_KINDS, p.candidates if arm >= NUM_KINDS else 1
        else:
            arm = kind = _kind(p, rng)
            drawn = 1
        spent = state.game[0].moves
        sizes[:] = 0
        for k in range(drawn):
            at = place
            if k > 0 and tries_left == 0 and rng.random() < p.far:
                at = int(rng.random() * num_buffers)
            elif k > 0:
                at = (place + int(rng.random() * (2 * p.stride + 1)) - p.stride) % num_buffers
            size = 0
            if kind >= EJECT:
                if kind == COMPLETE:
                    size = complete(program, inc, edit, at, rng)
                    if size > 0:
                        for i in range(int(edit.facts[PARTS])):
                            parts[k, i, 0], parts[k, i, 1] = edit.low[i], edit.owner[i]
                else:
                    at = without_place(program, inc, at)
                    if at != NONE:
                        size = chain(program, inc, edit, at, 0, rng)
                        parts[k, 0, 0], parts[k, 0, 1] = 0, int(edit.facts[LAST_STEP])
                if size > 0 and edit.facts[GAIN] <= 0:
                    size = 0
                if size > 0:
                    at = edit.buffer[0]
            elif kind == TENSOR:
                size = tensor(inc, edit, at, rng)
            else:
                size = segment(inc, edit, at, p.length, p.deviation, rng)
            places[k], sizes[k] = at, size
            if size > 0:
                effort[k] = np.log(_decisions(program, edit, kind, size, state.game[0].cursor))
                counts[kind, DRAWN] += 1
                for i in range(size):
                    buffers[k, i], actions[k, i] = edit.buffer[i], edit.action[i]
                facts[k] = edit.facts
                if drawn > 1:
                    scorer.describe(program, inc, edit, kind, size, features[k])
        chosen = _choose(net, p, sizes, drawn, features, effort, rng)
        if tries_left > 0:
            tries_left -= 1
            if tries_left == 0:
                place = low
                _take_back(program, state, inc, edit, base, low, high, p, span, rng)
                counts[0, TAKEN_BACK] += 1
                low, high = num_buffers, 0
                continue
        if chosen == NONE:
            continue
        size, place = sizes[chosen], places[chosen]
        for i in range(size):
            edit.buffer[i], edit.action[i] = buffers[chosen, i], actions[chosen, i]
        inc.tries[place] += 1.0
        if kind >= EJECT:
            edit.facts[:] = facts[chosen]
            size = _make_all_room(program, state, inc, edit, parts[chosen], size, p.noise, rng)
            if size == 0 or edit.facts[GAIN] < p.least * edit.facts[COST]:
                if drawn > 1:
                    scorer.learn(net, features[chosen], 0.0, 1.0, p.learning_rate)
                _credit(net, arm, 0.0, state.game[0].moves - spent)
                continue
        counts[kind, PLAYED] += 1
        allowed_s = tolerance_s
        if tries_left == 0 and rng.random() < p.trial:
            allowed_s -= p.trial_loss * unit_s * np.log(max(rng.random(), 1e-300))
        gain_s = _play(program, state, inc, edit, size, allowed_s, p, span, rng)
        won_s = 0.0
        if gain_s > -np.inf:
            low, high = min(low, span[0]), max(high, span[1])
            total_s = inc.saved_s[num_buffers] - base_s
            won_s = max(total_s, 0.0)
            if total_s >= -tolerance_s:
                counts[kind, KEPT] += 1
                if total_s > tolerance_s:
                    counts[kind, BETTER] += 1
                    if tries_left > 0:
                        counts[kind, BY_TRIAL] += 1
                for d in range(low, high):
                    base[d] = inc.moves[d].action
                base_s, tries_left, low, high = inc.saved_s[num_buffers], 0, num_buffers, 0
            elif tries_left == 0:
                tries_left, around = p.trial_edits, place
                counts[kind, TRIED] += 1
        _credit(net, arm, won_s / unit_s, state.game[0].moves - spent)
        if drawn > 1:
            if gain_s > tolerance_s:
                scorer.learn(
                    net, features[chosen], 1.0, scorer.weight(net, gain_s / unit_s, p.weighting), p.learning_rate
                )
            else:
                scorer.learn(net, features[chosen], 0.0, 1.0, p.learning_rate)
    if tries_left > 0:
        _take_back(program, state, inc, edit, base, low, high, p, span, rng)


@numba.njit(cache=True)
def _kind(p, rng) -> int:
    """A kind of edit by the fixed shares."""
    if rng.random() < p.eject:
        return COMPLETE if rng.random() < p.together else EJECT
    return TENSOR if rng.random() < p.tensors else SEGMENT


@numba.njit(cache=True)
def _arm(net, p, rng) -> int:
    """A kind of edit, and whether chance or the network chooses it: as often as it has lately gained per decision.

    Arms below `NUM_KINDS` are the kinds by chance, those from there on by the network; only what makes room has both.
    """
    if rng.random() < p.explore:
        arm = _kind(p, rng)
        return arm + NUM_KINDS if arm >= EJECT and rng.random() < 0.5 else arm
    total = 0.0
    for arm in range(2 * NUM_KINDS):
        if arm < NUM_KINDS or arm >= NUM_KINDS + EJECT:
            total += net.rates[arm, 0] / net.rates[arm, 1]
    draw = rng.random() * total
    for arm in range(2 * NUM_KINDS):
        if arm < NUM_KINDS or arm >= NUM_KINDS + EJECT:
            draw -= net.rates[arm, 0] / net.rates[arm, 1]
            if draw <= 0:
                return arm
    return SEGMENT


@numba.njit(cache=True)
def _credit(net, arm: int, gain: float, decisions: int) -> None:
    """Running sums of an arm's gains and of the decisions they took."""
    net.rates[arm, 0] = RATE_DECAY * net.rates[arm, 0] + gain
    net.rates[arm, 1] = RATE_DECAY * net.rates[arm, 1] + decisions + 1.0


@numba.njit(cache=True)
def _take_back(program, state, inc, edit, base, low, high, p, span, rng) -> None:
    """Replays the decisions [low, high) of the incumbent as they were."""
    size = 0
    for d in range(low, high):
        if inc.moves[d].action != base[d]:
            edit.buffer[size], edit.action[size] = d, base[d]
            size += 1
    if size > 0:
        _play(program, state, inc, edit, size, np.inf, p, span, rng)


@numba.njit(cache=True)
def _make_all_room(program, state, inc, edit, parts, size, noise, rng) -> int:
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
def _decisions(program, edit, kind, size, cursor) -> float:
    """About how many decisions playing an edit takes: going there, through its interval, and until all is as before."""
    first = last = edit.buffer[0]
    for i in range(size):
        first, last = min(first, edit.buffer[i]), max(last, edit.buffer[i])
    if kind >= EJECT:
        step = min(int(edit.facts[LAST_STEP]) + 1, len(program.supply_s) - 1)
        last = max(last, program.first_buffer[step])
    return 50.0 + abs(cursor - first) + last - first


@numba.njit(cache=True)
def _choose(net, p, sizes, drawn, features, effort, rng) -> int:
    """The candidate to play, or -1 where none says anything."""
    if drawn == 1:
        return 0 if sizes[0] > 0 else NONE
    best, best_score = NONE, -np.inf
    for k in range(len(sizes)):
        if sizes[k] == 0:
            continue
        score = p.sharpness * (scorer.logit(net, features[k]) - p.thrift * effort[k])
        score -= np.log(-np.log(max(rng.random(), 1e-300)))
        if score > best_score:
            best, best_score = k, score
    return best


@numba.njit(cache=True)
def _play(program, state, inc, edit, size, allowed_s, p, span, rng) -> float:
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
        if kernel.evaluate(program, state) == 0:
            kernel.drop_backup(program, state)
            low = min(low, state.game[0].cursor)
            continue
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
        elif refill and wanted == DROP and first < c < last + p.refill_reach:
            outcomes = state.outcomes
            if outcomes[NO_COPY].legal != 0 and inc.legal[c] & 2 == 0 and outcomes[NO_COPY].reward_s > 0:
                wanted = NO_COPY
            elif outcomes[COPY].legal != 0 and inc.legal[c] & 1 == 0 and outcomes[COPY].reward_s > 0:
                wanted = COPY
        kernel.apply(program, state, nearest_legal(state, wanted))
    for i in range(size):
        inc.want[edit.buffer[i]] = NONE
    if gain_s >= -allowed_s:
        adopt(program, state, inc, low, gain_s)
        span[0], span[1] = low, state.game[0].cursor
        return gain_s
    kernel.rewind(program, state, low)
    return -np.inf
