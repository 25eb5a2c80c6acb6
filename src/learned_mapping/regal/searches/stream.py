"""Random numbers inside compiled searches: from NumPy's generators, or from a cheap stream whose state is one integer.

A search is written once and compiled for whichever it is given. The stream is splitmix64 (Steele, Lea and Flood, "Fast
splittable pseudorandom number generators", 2014): a counter and a mixing function, so that draws do not wait for each
other, and a copy of one number goes back to a point in it. Its draws have 53 bits, its coins 16.
"""

from __future__ import annotations

import numba
import numpy as np
from numba import types
from numba.extending import overload

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_COIN = np.uint64(0xFFFF)


def stream(*seed: int) -> np.ndarray:
    """[1] uint64, a stream: in place of a generator, and advanced in place."""
    return np.random.SeedSequence(seed).generate_state(1, np.uint64)


@numba.njit(cache=True, inline="always")
def _next(state):
    state[0] += _STEP
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def uniform(rng):
    """A number in [0, 1)."""
    return rng.random()


@overload(uniform)
def _uniform(rng):
    if isinstance(rng, types.Array):
        return lambda rng: (_next(rng) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    return lambda rng: rng.random()


def beta(rng, a, b):
    """A number from Beta(a, b); a stream has none."""
    return rng.beta(a, b)


@overload(beta)
def _beta(rng, a, b):
    if isinstance(rng, types.Array):

        def without(rng, a, b):
            if a > 0.0:
                raise ValueError("a stream draws from tables alone")
            return np.nan

        return without
    return lambda rng, a, b: rng.beta(a, b)


def cross(child, elite, other, rng, bias):
    """Fills a child: every entry from the elite parent with probability `bias`, else from the other one."""
    for i in range(len(child)):
        ours, theirs = elite[i], other[i]
        child[i] = ours if rng.random() < bias else theirs


@overload(cross)
def _cross(child, elite, other, rng, bias):
    if isinstance(rng, types.Array):

        def by_coins(child, elite, other, rng, bias):
            limit = np.uint64(round(bias * 65536.0))
            length = len(child)
            for i in range(0, length - 3, 4):
                word = _next(rng)
                for j in range(4):
                    ours, theirs = elite[i + j], other[i + j]
                    child[i + j] = ours if (word >> np.uint64(16 * j)) & _COIN < limit else theirs
            for i in range(length - length % 4, length):
                child[i] = elite[i] if _next(rng) & _COIN < limit else other[i]

        return by_coins
    return cross
