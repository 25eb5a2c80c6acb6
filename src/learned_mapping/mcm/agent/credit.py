"""Who is credited with what a partition is worth: the whole sample, or each op for the chip it was
on.

One reward for hundreds of choices says nothing about any of them. A *credit per op* compares the
three chips y'_i - 1, y'_i and y'_i + 1 that op i might be on in the repaired partition y', all
others staying, weighted by the policy's own probabilities π over the three (a counterfactual
baseline, as in COMA: Foerster et al. 2018):

    A_i(c) = g_i(c) - Σ_c' π(c') g_i(c'),    with weight w π(c) / (ops that have a choice).

What g is, is the kind of credit. ``flow``: with F_d the excess of work on chips 0..d over an even
share, the work that has to cross link d, Φ = -Σ_d F_d². An op of s seconds that moves up a chip
changes Φ by 2 F_c s - s², one that moves down by -2 F_{c-1} s - s². It needs each chip's latency,
which a package can measure, and op times, which pre-training
has, and sees the whole row. ``exact``: the gain of the smooth bottleneck that `searches.moves`
computes, of a push, which takes along the ops that the chain rule forces; it needs the links' times
too.
"""

import numpy as np

SIDES = np.array([-1, 0, 1])
"""The alternatives of an op: a chip lower, its own, a chip higher."""
SHARP = 0.01
"""τ of ``exact``: tanh(gain / τ), so that a gain of a hundredth counts about as much as one of a
tenth."""
LEAST = 1e-12


def flow_gains(
    seconds: np.ndarray, partitions: np.ndarray, latencies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """([B, N, 3] gains of Φ, tanh(gain / their root mean square), [B, N, 3] bool whether there is
    such a chip).

    Args:
      seconds: [N] of each op.
      partitions: [B, N] int, y'.
      latencies: [B, C] seconds of each chip under them; a row of zeros tells nothing.
    """
    chips, share = latencies.shape[1], max(seconds.sum() / latencies.shape[1], LEAST)
    excess = np.cumsum((latencies - latencies.mean(axis=1, keepdims=True)) / share, axis=1)
    excess = np.concatenate([np.zeros((len(latencies), 1)), excess], axis=1)
    rows, s = np.arange(len(partitions))[:, None], seconds / share
    up = 2.0 * excess[rows, partitions + 1] * s - s**2
    down = -2.0 * excess[rows, partitions] * s - s**2
    possible = np.stack(
        [partitions > 0, np.ones_like(partitions, bool), partitions < chips - 1], axis=-1
    )
    possible &= np.any(latencies, axis=1)[:, None, None]
    gains = np.where(possible, np.stack([down, np.zeros_like(up), up], axis=-1), 0.0)
    return np.tanh(gains / max(np.sqrt((gains**2).mean()), LEAST)), possible


def spread(
    gains: np.ndarray, possible: np.ndarray, probabilities: np.ndarray, weight: float
) -> tuple[np.ndarray, np.ndarray]:
    """([B, N, 3] advantages A_i(c), [B, N, 3] their weights) of the alternatives; 0 where an op has
    no choice.

    Args:
      gains, possible: of the alternatives.
      probabilities: [B, N, 3] of the policy that sampled.
      weight: w, what all ops of a sample weigh together.
    """
    chosen = probabilities * possible
    chosen = chosen / np.maximum(chosen.sum(axis=-1, keepdims=True), LEAST)
    free = possible.sum(axis=-1, keepdims=True) > 1
    advantage = np.where(possible & free, gains - (chosen * gains).sum(axis=-1, keepdims=True), 0.0)
    ops = max(free.sum() / len(gains), LEAST)
    return advantage.astype(np.float32), (np.where(free, chosen, 0.0) * weight / ops).astype(
        np.float32
    )
