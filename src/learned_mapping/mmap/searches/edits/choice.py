"""What to draw and what to play: a kind of edit, whether chance or the network chooses, and which candidate."""

from __future__ import annotations

import numba
import numpy as np

from learned_mapping.mmap.rules.state import NONE
from learned_mapping.mmap.searches.edits import scorer
from learned_mapping.mmap.searches.edits.proposals import COMPLETE, EJECT, KINDS, LAST_STEP, SEGMENT, TENSOR

NUM_KINDS = len(KINDS)
RATE_DECAY = 0.995
"""Per use of an arm."""


@numba.njit(cache=True)
def draw_kind(p, rng) -> int:
    """A kind of edit by the fixed shares."""
    if rng.random() < p.eject:
        return COMPLETE if rng.random() < p.together else EJECT
    return TENSOR if rng.random() < p.tensors else SEGMENT


@numba.njit(cache=True)
def draw_arm(net, p, rng) -> int:
    """A kind of edit, and whether chance or the network chooses it: as often as it has lately gained per decision.

    Arms below `NUM_KINDS` are the kinds by chance, those from there on by the network.
    """
    if rng.random() < p.explore:
        arm = draw_kind(p, rng)
        return arm + NUM_KINDS if rng.random() < 0.5 else arm
    total = 0.0
    for arm in range(2 * NUM_KINDS):
        total += net.rates[arm, 0] / net.rates[arm, 1]
    draw = rng.random() * total
    for arm in range(2 * NUM_KINDS):
        draw -= net.rates[arm, 0] / net.rates[arm, 1]
        if draw <= 0:
            return arm
    return SEGMENT


@numba.njit(cache=True)
def credit(net, arm: int, gain: float, decisions: int) -> None:
    """Running sums of an arm's gains and of the decisions they took."""
    net.rates[arm, 0] = RATE_DECAY * net.rates[arm, 0] + gain
    net.rates[arm, 1] = RATE_DECAY * net.rates[arm, 1] + decisions + 1.0


@numba.njit(cache=True)
def decisions(program, edit, kind, size, cursor) -> float:
    """About how many decisions playing an edit takes: going there, through its interval, and until all is as before."""
    first = last = edit.buffer[0]
    for i in range(size):
        first, last = min(first, edit.buffer[i]), max(last, edit.buffer[i])
    if kind >= EJECT:
        step = min(int(edit.facts[LAST_STEP]) + 1, len(program.supply_s) - 1)
        last = max(last, program.first_buffer[step])
    return 50.0 + abs(cursor - first) + last - first


@numba.njit(cache=True)
def choose(net, p, sizes, drawn, features, effort, rng) -> int:
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
