"""A small network that says how likely an edit is to help, learning from every edit that was played.

Evaluated and trained inside the compiled loop, one edit at a time: a call of haiku or optax from there is not possible,
and one per edit from outside would cost more than most edits.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.rules.actions import DROP, NO_COPY
from learned_mapping.mmap.rules.arrays import ProgramArrays
from learned_mapping.mmap.rules.state import NONE
from learned_mapping.mmap.searches.edits.incumbent import Incumbent
from learned_mapping.mmap.searches.edits.proposals import EJECT, GAIN, KINDS, LAST_STEP, PARTS, Edit, marginal_s

NUM_FEATURES = 33
HIDDEN = 32


class Scorer(NamedTuple):
    """A perceptron with one hidden layer, and Adam's memory; changed in place."""

    first: np.ndarray
    """[HIDDEN, NUM_FEATURES]."""
    second: np.ndarray
    """[HIDDEN + 1]: the last is the bias."""
    moments: np.ndarray
    """[2, HIDDEN * (NUM_FEATURES + 1) + 1]."""
    hidden: np.ndarray
    """[HIDDEN] of the last evaluation."""
    steps: np.ndarray
    """[1]: updates made."""
    rates: np.ndarray
    """[arms, 2]: running sums of gains and of decisions by way of proposing; see `improve`."""
    gain: np.ndarray
    """[1]: running mean of the gains of successes."""


def new_scorer(rng: np.random.Generator) -> Scorer:
    return Scorer(
        first=rng.standard_normal((HIDDEN, NUM_FEATURES)) / np.sqrt(NUM_FEATURES),
        second=np.append(0.01 * rng.standard_normal(HIDDEN), -3.0),
        moments=np.zeros((2, HIDDEN * (NUM_FEATURES + 1) + 1)),
        hidden=np.zeros(HIDDEN),
        steps=np.zeros(1),
        rates=np.full((2 * len(KINDS), 2), 1.0) * np.array([1.0, 1000.0]),
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
def describe(program: ProgramArrays, inc: Incumbent, edit: Edit, kind: int, size: int, x: np.ndarray) -> None:
    """Fills the features x [NUM_FEATURES] of an edit."""
    unit = program.possible_saving_s / len(inc.moves)
    x[:] = 0.0
    x[0] = 1.0
    x[1 + min(kind, 2)] = 1.0
    x[31] = 1.0 if kind > EJECT else 0.0
    x[32] = edit.facts[PARTS] if kind > EJECT else 0.0
    b = edit.buffer[0]
    buffer, move = program.buffers[b], inc.moves[b]
    x[4 + move.action] = 1.0
    x[7 + edit.action[0]] = 1.0
    gain, loss, placed, dropped = 0.0, 0.0, 0, 0
    for i in range(size):
        n, wanted = edit.buffer[i], edit.action[i]
        old = inc.moves[n].action
        if wanted != DROP and old == DROP:
            gain += marginal_s(program, inc, n)
            placed += 1
        elif wanted == DROP and old != DROP:
            loss += inc.moves[n].reward_s
            dropped += 1
            if inc.root[n] == n:
                loss += 0.5 * max(inc.value_s[n] - inc.moves[n].reward_s, 0.0)
    if kind >= EJECT:
        gain = edit.facts[GAIN]
    x[10] = np.log1p(max(gain, 0.0) / unit)
    x[11] = np.log1p(max(loss, 0.0) / unit)
    x[12] = np.tanh((gain - loss) / unit)
    x[13] = np.log1p(placed)
    x[14] = np.log1p(dropped)
    x[15] = np.log1p(abs(edit.buffer[size - 1] - b))
    bytes_ = buffer.bytes / program.fast_bytes
    x[16] = np.log(max(bytes_, 1e-6)) / 5.0
    x[17] = min(bytes_, 2.0)
    first = buffer.instruction
    last = program.buffers[edit.buffer[size - 1]].instruction
    if kind >= EJECT:
        last = int(edit.facts[LAST_STEP])
    elif edit.action[0] == NO_COPY and buffer.is_output != 0:
        last = buffer.live_end
    last = max(last, first)
    x[18] = np.log1p(last - first) / 3.0
    fill, most, samples = 0.0, 0.0, min(last - first + 1, 16)
    for i in range(samples):
        level = inc.used_bytes[first + (last - first) * i // max(samples - 1, 1)] / program.fast_bytes
        fill += level / samples
        most = max(most, level)
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
