"""A small network that says how likely an edit is to help, learning from every edit that was played.

Evaluated and trained inside the compiled loop, one edit at a time: a call of haiku or optax from there is not possible,
and one per edit from outside would cost more than most edits.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.rules.actions import DROP, NO_COPY
from learned_mapping.mmap.rules.state import NONE, ProgramArrays
from learned_mapping.mmap.searches.edit_search.incumbent import Incumbent
from learned_mapping.mmap.searches.edit_search.neighbourhood import EJECT, KINDS, Edits, marginal_s

NUM_FEATURES = 33
HIDDEN = 32
NUM_ARMS = 2 * len(KINDS)
"""Ways to propose: the kinds of edits by chance, then the kinds by the network."""
RATE_DECAY = 0.995
"""Per use of an arm."""


class Scorer(NamedTuple):
    """A perceptron with one hidden layer, and Adam's memory; changed in place."""

    first: np.ndarray  # [HIDDEN, NUM_FEATURES].
    second: np.ndarray  # [HIDDEN + 1]: the last is the bias.
    moments: np.ndarray  # [2, HIDDEN * (NUM_FEATURES + 1) + 1].
    hidden: np.ndarray  # [HIDDEN] of the last evaluation.
    steps: np.ndarray  # [1]: updates made.
    rates: np.ndarray  # [arms, 2]: running sums of gains and of decisions by way of proposing.
    gain: np.ndarray  # [1]: running mean of the gains of successes.


def new_scorer(rng: np.random.Generator) -> Scorer:
    return Scorer(
        first=rng.standard_normal((HIDDEN, NUM_FEATURES)) / np.sqrt(NUM_FEATURES),
        second=np.append(0.01 * rng.standard_normal(HIDDEN), -3.0),
        moments=np.zeros((2, HIDDEN * (NUM_FEATURES + 1) + 1)),
        hidden=np.zeros(HIDDEN),
        steps=np.zeros(1),
        rates=np.tile([1.0, 1000.0], (NUM_ARMS, 1)),
        gain=np.zeros(1),
    )


@numba.njit(cache=True, fastmath=True)
def logit(net: Scorer, x: np.ndarray) -> float:
    """Log-odds of success of an edit with features x [NUM_FEATURES]."""
    total = net.second[-1]
    for i in range(HIDDEN):
        s = 0.0
        for j in range(NUM_FEATURES):
            s += net.first[i, j] * x[j]
        net.hidden[i] = max(s, 0.0)
        total += net.second[i] * net.hidden[i]
    return total


@numba.njit(cache=True)
def draw_arm(net: Scorer, rng) -> int:
    """A way to propose, as often as it has lately gained per decision."""
    total = 0.0
    for arm in range(NUM_ARMS):
        total += net.rates[arm, 0] / net.rates[arm, 1]
    draw = rng.random() * total
    for arm in range(NUM_ARMS):
        draw -= net.rates[arm, 0] / net.rates[arm, 1]
        if draw <= 0:
            return arm
    return 0


@numba.njit(cache=True)
def credit(net: Scorer, arm: int, gain: float, decisions: int) -> None:
    """Running sums of an arm's gains and of the decisions they took."""
    net.rates[arm, 0] = RATE_DECAY * net.rates[arm, 0] + gain
    net.rates[arm, 1] = RATE_DECAY * net.rates[arm, 1] + decisions + 1.0


@numba.njit(cache=True)
def weight(net: Scorer, gain: float, power: float) -> float:
    """How much a success with this gain counts; the running mean follows."""
    if net.gain[0] <= 0:
        net.gain[0] = gain
    net.gain[0] += 0.01 * (gain - net.gain[0])
    return min(max((gain / net.gain[0]) ** power, 0.1), 20.0)


@numba.njit(cache=True, fastmath=True)
def learn(net: Scorer, x: np.ndarray, target: float, weight: float, rate: float) -> float:
    """One step of Adam on the cross-entropy; returns the probability before it."""
    z = logit(net, x)
    probability = 1.0 / (1.0 + np.exp(-z))
    net.steps[0] += 1.0
    n = net.steps[0]
    rate *= np.sqrt(1.0 - 0.999**n) / (1.0 - 0.9**n)
    error = weight * (probability - target)
    m, v = net.moments[0], net.moments[1]
    k = 0
    for i in range(HIDDEN):
        back = error * net.second[i] if net.hidden[i] > 0 else 0.0
        g = error * net.hidden[i]
        m[k] = 0.9 * m[k] + 0.1 * g
        v[k] = 0.999 * v[k] + 0.001 * g * g
        net.second[i] -= rate * m[k] / (np.sqrt(v[k]) + 1e-8)
        k += 1
        for j in range(NUM_FEATURES):
            g = back * x[j]
            m[k] = 0.9 * m[k] + 0.1 * g
            v[k] = 0.999 * v[k] + 0.001 * g * g
            net.first[i, j] -= rate * m[k] / (np.sqrt(v[k]) + 1e-8)
            k += 1
    m[k] = 0.9 * m[k] + 0.1 * error
    v[k] = 0.999 * v[k] + 0.001 * error * error
    net.second[HIDDEN] -= rate * m[k] / (np.sqrt(v[k]) + 1e-8)
    return probability


@numba.njit(cache=True)
def describe(program: ProgramArrays, inc: Incumbent, edits: Edits, k: int, x: np.ndarray) -> None:
    """Fills the features x [NUM_FEATURES] of candidate k; their order is that of the stored weights."""
    unit = program.possible_saving_s / len(inc.moves)
    edit, wanted = edits.facts[k], edits.wanted[k]
    b = wanted[0].buffer
    buffer, move = program.buffers[b], inc.moves[b]
    gain, loss, placed, dropped = 0.0, 0.0, 0, 0
    for i in range(edit.size):
        n = wanted[i].buffer
        old = inc.moves[n].action
        if wanted[i].action != DROP and old == DROP:
            gain += marginal_s(program, inc, n)
            placed += 1
        elif wanted[i].action == DROP and old != DROP:
            loss += inc.moves[n].reward_s
            dropped += 1
            if inc.root[n] == n:
                loss += 0.5 * max(inc.value_s[n] - inc.moves[n].reward_s, 0.0)
    first, last_wanted = buffer.instruction, wanted[edit.size - 1].buffer
    last = program.buffers[last_wanted].instruction
    if edit.kind >= EJECT:
        gain, last = edit.gain_s, edit.last_step
    elif wanted[0].action == NO_COPY and buffer.is_output != 0:
        last = buffer.live_end
    last = max(last, first)
    fill, most, samples = 0.0, 0.0, min(last - first + 1, 16)
    for i in range(samples):
        level = inc.used_bytes[first + (last - first) * i // max(samples - 1, 1)] / program.fast_bytes
        fill += level / samples
        most = max(most, level)
    bytes_ = buffer.bytes / program.fast_bytes
    x[:] = 0.0
    x[0] = 1.0
    x[1 + min(edit.kind, 2)] = 1.0
    x[4 + move.action] = 1.0
    x[7 + wanted[0].action] = 1.0
    x[10] = np.log1p(max(gain, 0.0) / unit)
    x[11] = np.log1p(max(loss, 0.0) / unit)
    x[12] = np.tanh((gain - loss) / unit)
    x[13] = np.log1p(placed)
    x[14] = np.log1p(dropped)
    x[15] = np.log1p(abs(last_wanted - b))
    x[16] = np.log(max(bytes_, 1e-6)) / 5.0
    x[17] = min(bytes_, 2.0)
    x[18] = np.log1p(last - first) / 3.0
    x[19], x[20] = fill, most
    x[21] = 1.0 if most + bytes_ > 1.0 else 0.0
    x[22] = np.log1p(max(gain, 0.0) / unit / max(bytes_ * (last - first + 1), 1e-6)) / 3.0
    x[23] = buffer.is_output
    x[24] = 1.0 if buffer.alias != NONE else 0.0
    x[25] = np.log1p(buffer.uses_left)
    x[26] = np.log1p(inc.tries[b])
    x[27] = 1.0 if inc.tries[b] == 0 else 0.0
    x[28] = np.log1p(buffer.demand_s / unit) / 3.0
    x[29] = inc.legal[b] & 1
    x[30] = (inc.legal[b] >> 1) & 1
    if edit.kind > EJECT:
        x[31], x[32] = 1.0, edit.parts
