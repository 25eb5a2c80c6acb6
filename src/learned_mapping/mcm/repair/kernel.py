"""The compiled repair: Algorithms 1 and 2 of paper 2 with their propagation, for a batch of partitions at a time.

`engine` holds the plain version of the same procedure; a test holds one to the other, random number by random number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

SAMPLE, FIX, NEAREST = 0, 1, 2
"""Modes: Algorithm 1; Algorithm 2; the chip of the domain nearest to the candidate's, which draws nothing."""

MAX_GENERAL_CHIPS = 63
"""The general strength keeps sets of chips in 64-bit words."""


class RepairArrays(NamedTuple):
    """A graph as the kernels read it: neighbour lists as (offsets [N + 1], ops) pairs of int32 arrays."""

    after_offsets: np.ndarray
    after: np.ndarray
    """u -> v with f(u) <= f(v), implied ones dropped."""
    before_offsets: np.ndarray
    before: np.ndarray
    """The same, v -> u."""
    near_offsets: np.ndarray
    near: np.ndarray
    """u -> v with f(v) <= f(u) + 1, implied ones dropped."""
    far_offsets: np.ndarray
    far: np.ndarray
    """The same, v -> u."""
    successor_offsets: np.ndarray
    successors: np.ndarray
    """All edges, u -> v."""
    predecessor_offsets: np.ndarray
    predecessors: np.ndarray
    """All edges, v -> u."""
    in_main: np.ndarray
    """[N] bool, whether an op is in the main component, the one that can reach most chips."""
    anchors: np.ndarray
    """[S] int32, sources of the main component: one of them runs on chip 0 (Eq. 3)."""
    anchor_reach: np.ndarray
    """[S, N] int32, the largest chip each op can have when the anchor has chip 0."""


@njit(cache=True)
def raise_lows(arrays, op, value, lows, current, following):
    """lows[op] = value, and what follows: f(v) >= f(u) along `after`, f(p) >= f(u) - 1 along `far`.

    Levels of equal value, largest first, so that no op is raised twice. `current`, `following`: scratch, [N] each.
    """
    lows[op] = value
    current[0] = op
    count = 1
    while count > 0:
        waiting = 0
        while count > 0:
            count -= 1
            u = current[count]
            for k in range(arrays.after_offsets[u], arrays.after_offsets[u + 1]):
                v = arrays.after[k]
                if lows[v] < value:
                    lows[v] = value
                    current[count] = v
                    count += 1
            for k in range(arrays.far_offsets[u], arrays.far_offsets[u + 1]):
                p = arrays.far[k]
                if lows[p] < value - 1:
                    lows[p] = value - 1
                    following[waiting] = p
                    waiting += 1
        value -= 1
        current, following = following, current
        count = waiting


@njit(cache=True)
def lower_highs(arrays, op, value, highs, current, following):
    """highs[op] = value, and what follows: f(p) <= f(u) along `before`, f(v) <= f(u) + 1 along `near`."""
    highs[op] = value
    current[0] = op
    count = 1
    while count > 0:
        waiting = 0
        while count > 0:
            count -= 1
            u = current[count]
            for k in range(arrays.before_offsets[u], arrays.before_offsets[u + 1]):
                p = arrays.before[k]
                if highs[p] > value:
                    highs[p] = value
                    current[count] = p
                    count += 1
            for k in range(arrays.near_offsets[u], arrays.near_offsets[u + 1]):
                v = arrays.near[k]
                if highs[v] > value + 1:
                    highs[v] = value + 1
                    following[waiting] = v
                    waiting += 1
        value += 1
        current, following = following, current
        count = waiting


@njit(cache=True)
def shuffle(order, rng):
    """Fisher-Yates in place, one draw per swap."""
    for i in range(len(order) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        order[i], order[j] = order[j], order[i]


@njit(cache=True)
def draw(low, high, weights, rng):
    """A chip in low..high by `weights` restricted to it; uniform where `weights` is empty or zero there."""
    if low == high:
        return low
    r = rng.random()
    if len(weights) > 0:
        total = 0.0
        for chip in range(low, high + 1):
            total += weights[chip]
        if total > 0.0:
            r *= total
            for chip in range(low, high + 1):
                r -= weights[chip]
                if r < 0.0:
                    return chip
            for chip in range(high, low, -1):  # rounding used up the total
                if weights[chip] > 0.0:
                    return chip
            return low
    return low + int(r * (high - low + 1))


@njit(cache=True)
def chain_repair(arrays, chips, mode, candidate, weights, order, rng, out, lows, highs, alive, current, following):
    """One repair under the chain rule; `out` [N] receives the partition. Never fails.

    Bounds propagation is complete for difference constraints, and Eq. 3 is a set of alternatives (some anchor on chip
    0) of which at least one always stays open: an op's domain ends at the largest chip any open anchor allows.
    """
    n = len(out)
    lows[:] = 0
    highs[:] = chips - 1
    open_anchors = len(arrays.anchors)
    for s in range(open_anchors):
        alive[s] = s
    anchored = False
    if open_anchors == 1:
        anchored = True
        lower_highs(arrays, arrays.anchors[0], 0, highs, current, following)
    capped = False
    passes = 2 if mode == FIX else 1
    for p in range(passes):
        for part in range(2):
            # The main component decides which chips are in use; the others stay within them.
            for i in range(n):
                u = order[i]
                if arrays.in_main[u] != (part == 0):
                    continue
                if part == 1 and not capped and p == passes - 1:
                    top = 0
                    for v in range(n):
                        if arrays.in_main[v] and lows[v] > top:
                            top = lows[v]
                    for v in range(n):
                        if not arrays.in_main[v] and highs[v] > top:
                            highs[v] = top
                            if lows[v] > top:
                                lows[v] = top
                    capped = True
                low, high = lows[u], highs[u]
                if low == high:
                    continue
                if not anchored and part == 0:
                    limit = 0
                    for s in range(open_anchors):
                        reach = arrays.anchor_reach[alive[s], u]
                        if reach > limit:
                            limit = reach
                    if limit < high:
                        high = limit
                if mode == SAMPLE:
                    chip = draw(low, high, weights[u] if len(weights) > 0 else weights.ravel(), rng)
                elif mode == NEAREST:
                    chip = min(max(candidate[u], low), high)
                elif p == 0:
                    chip = candidate[u]
                    if chip < low or chip > high:
                        continue
                else:
                    chip = low if low == high else low + int(rng.random() * (high - low + 1))
                if chip > lows[u]:
                    raise_lows(arrays, u, chip, lows, current, following)
                    if not anchored and part == 0:
                        s = 0
                        while s < open_anchors:
                            if lows[arrays.anchors[alive[s]]] > 0:
                                open_anchors -= 1
                                alive[s] = alive[open_anchors]
                            else:
                                s += 1
                        if open_anchors == 1:
                            anchored = True
                            lower_highs(arrays, arrays.anchors[alive[0]], 0, highs, current, following)
                if chip < highs[u]:
                    lower_highs(arrays, u, chip, highs, current, following)
    for u in range(n):
        out[u] = lows[u]


@njit(cache=True)
def triangle_free(direct, reach, chips):
    """Eq. 4 over the chip edges `direct` (bit b of direct[a]); fills `reach`. False where an edge has a detour."""
    one = np.uint64(1)
    for chip in range(chips - 1, -1, -1):
        bits = direct[chip]
        indirect = np.uint64(0)
        d = chip + 1
        bits >>= np.uint64(d)
        while bits:
            if bits & one:
                indirect |= reach[d]
            bits >>= one
            d += 1
        if indirect & direct[chip]:
            return False
        reach[chip] = indirect | direct[chip]
    return True


@njit(cache=True)
def general_attempt(arrays, chips, mode, candidate, weights, order, rng, out, lows, highs, current, following):
    """One descent under Eq. 2 and Eq. 4 themselves; True and a partition in `out`, or False at the first dead end.

    `arrays` here hold no `near` and `far` neighbours: only f(u) <= f(v) is propagated, Eq. 4 is tested value by value.
    Chip ids are squeezed together at the end (Eq. 3), which keeps order and chip edges.
    """
    n = len(out)
    one = np.uint64(1)
    lows[:] = 0
    highs[:] = chips - 1
    out[:] = -1
    direct = np.zeros(chips, np.uint64)
    trial = np.zeros(chips, np.uint64)
    reach = np.zeros(chips, np.uint64)
    untried = np.zeros(chips, np.float64)
    for p in range(2 if mode == FIX else 1):
        for i in range(n):
            u = order[i]
            if out[u] >= 0:
                continue
            low, high = lows[u], highs[u]
            for chip in range(low, high + 1):
                untried[chip] = weights[u, chip] if mode == SAMPLE and len(weights) > 0 else 1.0
            left = high - low + 1
            placed = False
            while left > 0:
                if mode == FIX and p == 0:
                    chip = candidate[u]
                    left = 1
                    if chip < low or chip > high:
                        break
                elif mode == NEAREST:
                    chip = -1
                    for c in range(low, high + 1):
                        if untried[c] >= 0.0 and (chip < 0 or abs(c - candidate[u]) < abs(chip - candidate[u])):
                            chip = c
                else:
                    total = 0.0
                    for c in range(low, high + 1):
                        if untried[c] > 0.0:
                            total += untried[c]
                    r = rng.random()
                    chip = -1
                    if total > 0.0:
                        r *= total
                        for c in range(low, high + 1):
                            if untried[c] > 0.0:
                                chip = c
                                r -= untried[c]
                                if r < 0.0:
                                    break
                    else:  # only chips of weight zero are left
                        skip = int(r * left)
                        for c in range(low, high + 1):
                            if untried[c] >= 0.0:
                                if skip == 0:
                                    chip = c
                                    break
                                skip -= 1
                trial[:] = direct
                changed = False
                for k in range(arrays.predecessor_offsets[u], arrays.predecessor_offsets[u + 1]):
                    a = out[arrays.predecessors[k]]
                    if a >= 0 and a != chip and not (trial[a] >> np.uint64(chip)) & one:
                        trial[a] |= one << np.uint64(chip)
                        changed = True
                for k in range(arrays.successor_offsets[u], arrays.successor_offsets[u + 1]):
                    b = out[arrays.successors[k]]
                    if b >= 0 and b != chip and not (trial[chip] >> np.uint64(b)) & one:
                        trial[chip] |= one << np.uint64(b)
                        changed = True
                if not changed or triangle_free(trial, reach, chips):
                    direct[:] = trial
                    placed = True
                    break
                untried[chip] = -1.0
                left -= 1
            if not placed:
                if mode == FIX and p == 0:
                    continue
                return False
            out[u] = chip
            if chip > lows[u]:
                raise_lows(arrays, u, chip, lows, current, following)
            if chip < highs[u]:
                lower_highs(arrays, u, chip, highs, current, following)
    rank = np.full(chips, -1, np.int32)
    for u in range(n):
        rank[out[u]] = 0
    used = 0
    for chip in range(chips):
        if rank[chip] == 0:
            rank[chip] = used
            used += 1
    for u in range(n):
        out[u] = rank[out[u]]
    return True


@njit(cache=True)
def repair_many(arrays, loose, chips, mode, general, attempts, candidates, weights, given, rng, out, used_attempts):
    """Repairs `len(out)` partitions; `used_attempts` [B] counts general attempts, -1 where the chain rule stepped in.

    Args:
      arrays, loose: the graph; the same without `near` and `far` neighbours.
      candidates: [B, N], [1, N] for one shared by all, or [0, N] in SAMPLE mode, int32.
      weights: [W, N, C] float64, W = B, 1 or 0 (uniform).
      given: [N] op order of every repair, or empty: a random one each time.
    """
    n = out.shape[1]
    order = np.arange(n).astype(np.int32)
    lows = np.empty(n, np.int32)
    highs = np.empty(n, np.int32)
    current = np.empty(n + 1, np.int32)
    following = np.empty(n + 1, np.int32)
    alive = np.empty(len(arrays.anchors), np.int32)
    no_weights = np.empty((0, 0), np.float64)
    no_candidate = np.empty(0, np.int32)
    for b in range(len(out)):
        candidate = candidates[b % len(candidates)] if len(candidates) > 0 else no_candidate
        own = weights[b % len(weights)] if len(weights) > 0 else no_weights
        done = False
        used_attempts[b] = 0
        while general and not done and used_attempts[b] < attempts:
            if len(given) > 0:
                order[:] = given
            else:
                shuffle(order, rng)
            used_attempts[b] += 1
            done = general_attempt(
                loose, chips, mode, candidate, own, order, rng, out[b], lows, highs, current, following
            )
        if not done:
            if general:
                used_attempts[b] = -1
            if len(given) > 0:
                order[:] = given
            else:
                shuffle(order, rng)
            chain_repair(
                arrays, chips, mode, candidate, own, order, rng, out[b], lows, highs, alive, current, following
            )
