"""The loop: draw edits, choose one, play it as far as it is worth, keep what is not worse."""

from __future__ import annotations

import numba
import numpy as np

from learned_mapping.mmap.rules.arrays import ProgramArrays
from learned_mapping.mmap.rules.state import NONE, GameState
from learned_mapping.mmap.searches.edits import choice, scorer
from learned_mapping.mmap.searches.edits.choice import NUM_KINDS
from learned_mapping.mmap.searches.edits.incumbent import Incumbent
from learned_mapping.mmap.searches.edits.parameters import EditParameters
from learned_mapping.mmap.searches.edits.playing import make_all_room, play, take_back
from learned_mapping.mmap.searches.edits.proposals import (
    COMPLETE,
    COST,
    EJECT,
    GAIN,
    LAST_STEP,
    PARTS,
    TENSOR,
    Edit,
    chain,
    complete,
    segment,
    tensor,
    without_place,
)  # fmt: skip
from learned_mapping.mmap.searches.edits.scorer import NUM_FEATURES, Scorer

LOSS = 1e-12
"""Of the possible saving: less is rounding."""
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
    base_s, tries_left, tries_then, around = inc.saved_s[num_buffers], 0, 0, 0
    low, high = num_buffers, 0
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
            arm = choice.draw_arm(net, p, rng)
            kind, drawn = arm % NUM_KINDS, p.candidates if arm >= NUM_KINDS else 1
        else:
            arm = kind = choice.draw_kind(p, rng)
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
                effort[k] = np.log(choice.decisions(program, edit, kind, size, state.game[0].cursor))
                counts[kind, DRAWN] += 1
                for i in range(size):
                    buffers[k, i], actions[k, i] = edit.buffer[i], edit.action[i]
                facts[k] = edit.facts
                if p.candidates > 1:
                    scorer.describe(program, inc, edit, kind, size, features[k])
        chosen = choice.choose(net, p, sizes, drawn, features, effort, rng)
        if tries_left > 0:
            tries_left -= 1
            if tries_left == 0:
                place = low
                take_back(program, state, inc, edit, base, low, high, p, span, rng)
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
            size = make_all_room(program, state, inc, edit, parts[chosen], size, p.noise, rng)
            if size == 0 or edit.facts[GAIN] < p.least * edit.facts[COST]:
                if p.candidates > 1:
                    scorer.learn(net, features[chosen], 0.0, 1.0, p.learning_rate)
                choice.credit(net, arm, 0.0, state.game[0].moves - spent)
                continue
        counts[kind, PLAYED] += 1
        allowed_s = tolerance_s
        if tries_left == 0 and rng.random() < p.trial:
            scale = p.trial_spread ** max(2.0 * rng.random() - 1.0, 0.0)
            allowed_s -= p.trial_loss * scale * unit_s * np.log(max(rng.random(), 1e-300))
            tries_then = int(p.trial_edits * np.sqrt(scale))
        gain_s = play(program, state, inc, edit, size, allowed_s, p, span, rng)
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
                tries_left, around = tries_then, place
                counts[kind, TRIED] += 1
        choice.credit(net, arm, won_s / unit_s, state.game[0].moves - spent)
        if p.candidates > 1:
            if gain_s > tolerance_s:
                scorer.learn(
                    net, features[chosen], 1.0, scorer.weight(net, gain_s / unit_s, p.weighting), p.learning_rate
                )
            else:
                scorer.learn(net, features[chosen], 0.0, 1.0, p.learning_rate)
    if tries_left > 0:
        take_back(program, state, inc, edit, base, low, high, p, span, rng)
