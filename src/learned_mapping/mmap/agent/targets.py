"""Targets of values: TD(lambda) along chunks of games that need not be finished."""

from __future__ import annotations

import numpy as np


def lambda_returns(
    reward: np.ndarray,
    value: np.ndarray,
    ended: np.ndarray,
    active: np.ndarray,
    bootstrap: np.ndarray,
    discount: float,
    trace: float,
) -> np.ndarray:
    """z_t = r_t + γ ((1 − λ) v_{t+1} + λ z_{t+1}), with nothing after the end of a game (Sutton and Barto, eq. 12.20).

    Args:
      reward: [M, G] r_t, of M decisions in each of G games.
      value: [M, G] v_t, by the search.
      ended: [M, G] bool: the game was over after the decision.
      active: [M, G] bool: there was a decision; none follows the first False of a column without a restart.
      bootstrap: [G] v_M = z_M: what follows the last decision where the game goes on.
      discount, trace: γ and λ.

    Returns:
      [M, G] z; 0 where not active.
    """
    z = np.zeros(reward.shape)
    following = next_value = np.asarray(bootstrap, np.float64)
    for m in range(len(reward) - 1, -1, -1):
        ahead = np.where(ended[m], 0.0, (1.0 - trace) * next_value + trace * following)
        z[m] = np.where(active[m], reward[m] + discount * ahead, 0.0)
        following = np.where(active[m], z[m], following)
        next_value = np.where(active[m], value[m], next_value)
    return z


def decisions_left(ended: np.ndarray, active: np.ndarray) -> np.ndarray:
    """[M, G] int64: how many decisions of the same game follow each in its chunk; arguments as `lambda_returns`."""
    left = np.zeros(ended.shape, np.int64)
    following = np.full(ended.shape[1], -1)
    for m in range(len(ended) - 1, -1, -1):
        left[m] = np.where(ended[m], 0, following + 1)
        following = np.where(active[m], left[m], following)
    return left
