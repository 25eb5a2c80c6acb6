"""The compiled repair: Algorithms 1 and 2 of paper 2 with their propagation, for a batch of
partitions at a time.

`solver` holds the plain version of the same procedure; a test holds one to the other, random number
by random number.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

SAMPLE, FIX, NEAREST = 0, 1, 2
"""Modes: Algorithm 1; Algorithm 2; the chip of the domain nearest to the candidate's, which draws
nothing."""


class Links(NamedTuple):
    """The consequences when the bound of op u rises, without what others imply, for rows k = u and
    those from N on.

    Op u has row u and the rows ``offsets[u]:offsets[u + 1]``; an entry of N stands for no op.
    Numbers of ops are unsigned here and below: an index that can be negative costs the compiled
    loops half their speed.
    """

    offsets: np.ndarray  # [N + 1] uint32, from N to R.
    same: np.ndarray  # [R] uint32, an op whose bound is at least as large.
    onward: np.ndarray  # [R] uint32, an op whose bound is at least as large less one.


class RepairArrays(NamedTuple):
    """A graph as the kernels read it."""

    # For the smallest chips: f(v) >= f(u) along an edge u -> v, f(u) >= f(v) - 1 against it.
    after: Links
    # For the largest, negated: -f(u) >= -f(v) against an edge, -f(v) >= -f(u) - 1 along it.
    before: Links
    # [N] bool, whether an op is in the main component, the one that can reach most chips.
    in_main: np.ndarray
    # [S] int32, sources of the main component that can have chip 0: one of them has (Eq. 3).
    anchors: np.ndarray
    # [S, N + 1] int32, the largest chip each op can have when the anchor has chip 0.
    anchor_reach: np.ndarray
    # [N] int32, the smallest chip of each op by the ops that are fixed to one; 0 where none is.
    lows: np.ndarray
    drops: np.ndarray  # [N] int32, the same of the largest, negated.


class Workspace(NamedTuple):
    """Scratch of one repair after another: N ops, S anchors."""

    order: np.ndarray  # [N] uint32, T of the algorithms.
    # [N + 1] int32, the smallest chip of each op's domain; at the end a bound nothing raises.
    lows: np.ndarray
    # [N + 1] int32, the same of the largest, negated: a smaller domain raises both.
    drops: np.ndarray
    queue: np.ndarray  # [2, N] uint32.
    alive: np.ndarray  # [S] int32, anchors that can still have chip 0.


@njit(cache=True)
def tighten(links, op, value, bounds, queue):
    """bounds[op] = value, and what follows from it along `links`; `bounds` is `lows` or `drops`,
    `queue` scratch.

    Levels of equal value one by one, so that no op changes twice.
    """
    offsets, same, onward, row = links.offsets, links.same, links.onward, 0
    bounds[op] = value
    queue[0, 0] = op
    count = 1
    while count > 0:
        waiting = 0
        while count > 0:
            count -= 1
            u = queue[row, count]
            while True:
                for k in range(offsets[u], offsets[u + 1]):
                    v = same[k]
                    if bounds[v] < value:
                        bounds[v] = value
                        queue[row, count] = v
                        count += 1
                    v = onward[k]
                    if bounds[v] < value - 1:
                        bounds[v] = value - 1
                        queue[1 - row, waiting] = v
                        waiting += 1
                v = onward[u]
                if bounds[v] < value - 1:
                    bounds[v] = value - 1
                    queue[1 - row, waiting] = v
                    waiting += 1
                u = same[u]
                if bounds[u] >= value:
                    break
                bounds[u] = value
        value -= 1
        row, count = 1 - row, waiting


@njit(cache=True)
def shuffle(order, rng):
    """Fisher-Yates in place, one draw per swap."""
    for i in range(len(order) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        order[i], order[j] = order[j], order[i]


@njit(cache=True)
def draw(low, high, u, weights, rng):
    """A chip in low..high for op u by its `weights` [N, C] there; uniform where there are none or
    only zeros."""
    if low == high:
        return low
    r = rng.random()
    if len(weights) > 0:
        total = 0.0
        for chip in range(low, high + 1):
            total += weights[u, chip]
        if total > 0.0:
            r *= total
            for chip in range(low, high + 1):
                r -= weights[u, chip]
                if r < 0.0:
                    return chip
            for chip in range(high, low, -1):  # rounding used up the total
                if weights[u, chip] > 0.0:
                    return chip
            return low
    return low + int(r * (high - low + 1))


@njit(cache=True)
def chain_repair(arrays, chips, mode, candidate, weights, rng, out, work):
    """One repair under the chain rule; `out` [N] receives the partition. Never fails.

    Bounds propagation is complete for difference constraints, and Eq. 3 is a set of alternatives
    (some anchor on chip 0) of which at least one always stays open: an op's domain ends at the
    largest chip any open anchor allows.
    """
    n, lows, drops, alive = len(out), work.lows, work.drops, work.alive
    for v in range(n):
        lows[v] = arrays.lows[v]
        drops[v] = max(arrays.drops[v], 1 - chips)
    open_anchors = len(arrays.anchors)
    alive[:] = np.arange(open_anchors)
    if open_anchors == 1:
        tighten(arrays.before, arrays.anchors[0], 0, drops, work.queue)
    passes = 2 if mode == FIX else 1
    components = 1 if arrays.in_main.all() else 2
    for last in range(2 - passes, 2):
        for part in range(components):
            if part == 1 and last:
                # The main component decides which chips are in use; the others stay within them.
                top = 0
                for v in range(n):
                    if arrays.in_main[v]:
                        top = max(top, lows[v])
                for v in range(n):
                    if not arrays.in_main[v]:
                        drops[v] = max(drops[v], -top)
                        lows[v] = min(lows[v], top)
            for i in range(n):
                u = work.order[i]
                low, high = lows[u], -drops[u]
                if low == high or arrays.in_main[u] != (part == 0):
                    continue
                if open_anchors > 1 and part == 0:
                    limit = 0
                    for s in range(open_anchors):
                        limit = max(limit, arrays.anchor_reach[alive[s], u])
                    high = min(high, limit)
                if last and mode != NEAREST:
                    chip = draw(low, high, u, weights, rng)
                else:
                    chip = min(max(candidate[u], low), high)
                    if mode == FIX and chip != candidate[u]:
                        continue
                if chip > lows[u]:
                    tighten(arrays.after, u, chip, lows, work.queue)
                    if open_anchors > 1 and part == 0:
                        s = 0
                        while s < open_anchors:
                            if lows[arrays.anchors[alive[s]]] > 0:
                                open_anchors -= 1
                                alive[s] = alive[open_anchors]
                            else:
                                s += 1
                        if open_anchors == 1:
                            tighten(arrays.before, arrays.anchors[alive[0]], 0, drops, work.queue)
                if chip < -drops[u]:
                    tighten(arrays.before, u, -chip, drops, work.queue)
    out[:] = lows[:n]


@njit(cache=True)
def repair_many(arrays, chips, mode, candidates, weights, order, rng, out):
    """Repairs `len(out)` partitions.

    Args:
      candidates: [B, N], [1, N] for one shared by all, or [0, N] in SAMPLE mode, int32.
      weights: [W, N, C] float64, W = B, 1 or 0 (uniform).
      order: [N] op order of every repair, or empty: a random one each time.
    """
    n = out.shape[1]
    work = Workspace(
        np.arange(n).astype(np.uint32),
        np.full(n + 1, chips, np.int32),
        np.full(n + 1, chips, np.int32),
        np.empty((2, n), np.uint32),
        np.empty(len(arrays.anchors), np.int32),
    )
    for b in range(len(out)):
        candidate = (
            candidates[b % len(candidates)] if len(candidates) > 0 else np.empty(0, np.int32)
        )
        row_weights = weights[b % len(weights)] if len(weights) > 0 else np.empty((0, 0))
        if len(order) > 0:
            work.order[:] = order
        else:
            shuffle(work.order, rng)
        chain_repair(arrays, chips, mode, candidate, row_weights, rng, out[b], work)
