"""The compiled repair: Algorithms 1 and 2 of paper 2 with their propagation, for a batch of partitions at a time.

`solver` holds the plain version of the same procedure; a test holds one to the other, random number by random number.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

SAMPLE, FIX, NEAREST = 0, 1, 2
"""Modes: Algorithm 1; Algorithm 2; the chip of the domain nearest to the candidate's, which draws nothing."""
MAX_GENERAL_CHIPS = 63
"""The general strength keeps sets of chips in 64-bit words; the last bit stands for ops without a chip."""


class Neighbours(NamedTuple):
    """Lists of ops: those of op u are ``ops[offsets[u]:offsets[u + 1]]``.

    Numbers of ops are unsigned here and below: an index that can be negative costs the compiled loops half their speed.
    """

    offsets: np.ndarray  # [N + 1] uint32.
    ops: np.ndarray  # uint32.


class Links(NamedTuple):
    """What follows when the bound of op u rises, without what others imply, for rows k = u and those from N on.

    Op u has row u and the rows ``offsets[u]:offsets[u + 1]``; an entry of N stands for no op.
    """

    offsets: np.ndarray  # [N + 1] uint32, from N to R.
    same: np.ndarray  # [R] uint32, an op whose bound is at least as large.
    onward: np.ndarray  # [R] uint32, an op whose bound is at least as large less one.


class RepairArrays(NamedTuple):
    """A graph as the kernels read it."""

    after: Links  # For the smallest chips: f(v) >= f(u) along an edge u -> v, f(u) >= f(v) - 1 against it.
    before: Links  # For the largest, negated: -f(u) >= -f(v) against an edge, -f(v) >= -f(u) - 1 along it.
    joined: Neighbours  # The ops that share an edge with u.
    in_main: np.ndarray  # [N] bool, whether an op is in the main component, the one that can reach most chips.
    anchors: np.ndarray  # [S] int32, sources of the main component: one of them runs on chip 0 (Eq. 3).
    anchor_reach: np.ndarray  # [S, N + 1] int32, the largest chip each op can have when the anchor has chip 0.


class Workspace(NamedTuple):
    """Scratch of one repair after another: N ops, C chips, S anchors."""

    order: np.ndarray  # [N] uint32, T of the algorithms.
    lows: np.ndarray  # [N + 1] int32, the smallest chip of each op's domain; at the end a bound nothing raises.
    drops: np.ndarray  # [N + 1] int32, the same of the largest, negated: a smaller domain raises both.
    queue: np.ndarray  # [2, N] uint32.
    alive: np.ndarray  # [S] int32, anchors that can still have chip 0.
    direct: np.ndarray  # [C] uint64, bit b of entry a: there is a chip edge from a to b.
    trial: np.ndarray  # [C] uint64, the same with the edges of one more op.
    reach: np.ndarray  # [C] uint64, the same for paths.
    untried: np.ndarray  # [C] float64, weights of the chips an op may still try; below 0 those it has tried.


@njit(cache=True)
def tighten(links, op, value, gap, bounds, queue):
    """bounds[op] = value, and what follows from it along `links`; `bounds` is `lows` or `drops`, `queue` scratch.

    `gap` is how much smaller a bound onward may be. Levels of equal value one by one, so that no op changes twice.
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
                    if bounds[v] < value - gap:
                        bounds[v] = value - gap
                        queue[1 - row, waiting] = v
                        waiting += 1
                v = onward[u]
                if bounds[v] < value - gap:
                    bounds[v] = value - gap
                    queue[1 - row, waiting] = v
                    waiting += 1
                u = same[u]
                if bounds[u] >= value:
                    break
                bounds[u] = value
        value -= gap
        row, count = 1 - row, waiting


@njit(cache=True)
def shuffle(order, rng):
    """Fisher-Yates in place, one draw per swap."""
    for i in range(len(order) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        order[i], order[j] = order[j], order[i]


@njit(cache=True)
def draw(low, high, u, weights, rng):
    """A chip in low..high for op u by its `weights` [N, C] there; uniform where there are none or only zeros."""
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

    Bounds propagation is complete for difference constraints, and Eq. 3 is a set of alternatives (some anchor on chip
    0) of which at least one always stays open: an op's domain ends at the largest chip any open anchor allows.
    """
    n, lows, drops, alive = len(out), work.lows, work.drops, work.alive
    lows[:n] = 0
    drops[:n] = 1 - chips
    open_anchors = len(arrays.anchors)
    alive[:] = np.arange(open_anchors)
    if open_anchors == 1:
        tighten(arrays.before, arrays.anchors[0], 0, 1, drops, work.queue)
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
                    tighten(arrays.after, u, chip, 1, lows, work.queue)
                    if open_anchors > 1 and part == 0:
                        s = 0
                        while s < open_anchors:
                            if lows[arrays.anchors[alive[s]]] > 0:
                                open_anchors -= 1
                                alive[s] = alive[open_anchors]
                            else:
                                s += 1
                        if open_anchors == 1:
                            tighten(arrays.before, arrays.anchors[alive[0]], 0, 1, drops, work.queue)
                if chip < -drops[u]:
                    tighten(arrays.before, u, -chip, 1, drops, work.queue)
    out[:] = lows[:n]


@njit(cache=True)
def triangle_free(direct, reach):
    """Whether no chip edge in `direct` [C] has a detour beside it (Eq. 4); fills `reach` [C]."""
    one = np.uint64(1)
    for chip in range(len(direct) - 1, -1, -1):
        indirect = np.uint64(0)
        d = chip + 1
        bits = direct[chip] >> np.uint64(d)
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
def fits(chip, others, direct, trial, reach):
    """Whether an op on `chip` keeps Eq. 4 beside neighbours on `others`, a set of chips; `direct` then notes its edges.

    Those before `chip` are its producers', those behind it its consumers'. `trial` equals `direct` before and after.
    """
    one = np.uint64(1)
    bit = one << np.uint64(chip)
    trial[chip] |= others & ~(bit | bit - one)
    new = trial[chip] != direct[chip]
    for a in range(chip):
        if others >> np.uint64(a) & one and not trial[a] & bit:
            trial[a] |= bit
            new = True
    if not new:
        return True
    free = triangle_free(trial, reach)
    if free:
        direct[:] = trial
    else:
        trial[:] = direct
    return free


@njit(cache=True)
def draw_untried(low, high, left, untried, rng):
    """One of the `left` chips in low..high not tried yet: by weight, uniform where only weights of zero are left."""
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
        return chip
    skip = int(r * left)
    for c in range(low, high + 1):
        if untried[c] >= 0.0:
            chip = c
            if skip == 0:
                break
            skip -= 1
    return chip


@njit(cache=True)
def general_attempt(arrays, chips, mode, candidate, weights, rng, out, work):
    """One descent under Eq. 2 and Eq. 4 themselves; True and a partition in `out`, or False at the first dead end.

    Only f(u) <= f(v) is propagated, Eq. 4 is tested value by value. Chip ids are squeezed together at the end (Eq. 3),
    which keeps order and chip edges.
    """
    n, lows, drops, untried, edges = len(out), work.lows, work.drops, work.untried, work.direct
    joined, one = arrays.joined, np.uint64(1)
    decided = ~(one << np.uint64(MAX_GENERAL_CHIPS))
    lows[:n] = 0
    drops[:n] = 1 - chips
    out[:] = MAX_GENERAL_CHIPS
    edges[:] = 0
    work.trial[:] = 0
    for last in range(1 if mode != FIX else 0, 2):
        for i in range(n):
            u = work.order[i]
            if out[u] < MAX_GENERAL_CHIPS:
                continue
            low, high = lows[u], -drops[u]
            if not last and not low <= candidate[u] <= high:
                continue
            others = np.uint64(0)
            for k in range(joined.offsets[u], joined.offsets[u + 1]):
                others |= one << np.uint64(out[joined.ops[k]])
            others &= decided
            chip, left, placed = np.int64(low if last else candidate[u]), high - low + 1 if last else 1, False
            if left > 1:
                for c in range(low, high + 1):
                    untried[c] = weights[u, c] if len(weights) > 0 else 1.0
            while not placed and left > 0:
                if low == high and last and mode != NEAREST:
                    rng.random()  # what a choice takes
                elif last and mode != NEAREST:
                    chip = draw_untried(low, high, left, untried, rng)
                elif last and low < high:
                    chip = -1
                    for c in range(low, high + 1):
                        if untried[c] >= 0.0 and (chip < 0 or abs(c - candidate[u]) < abs(chip - candidate[u])):
                            chip = c
                placed = not others & ~(one << np.uint64(chip)) or fits(chip, others, edges, work.trial, work.reach)
                untried[chip] = -1.0
                left -= 1
            if not placed and last:
                return False
            if not placed:
                continue
            out[u] = chip
            if chip > lows[u]:
                tighten(arrays.after, u, chip, chips, lows, work.queue)
            if chip < -drops[u]:
                tighten(arrays.before, u, -chip, chips, drops, work.queue)
    used = np.zeros(chips, np.int32)
    for u in range(n):
        used[out[u]] = 1
    rank = np.cumsum(used) - 1
    for u in range(n):
        out[u] = rank[out[u]]
    return True


@njit(cache=True)
def repair_many(arrays, chips, mode, attempts, candidates, weights, given, rng, out, used_attempts):
    """Repairs `len(out)` partitions; `used_attempts` [B] counts general attempts, -1 where the chain rule stepped in.

    Args:
      attempts: descents under Eq. 4 before the chain rule steps in; 0 for the chain rule alone.
      candidates: [B, N], [1, N] for one shared by all, or [0, N] in SAMPLE mode, int32.
      weights: [W, N, C] float64, W = B, 1 or 0 (uniform).
      given: [N] op order of every repair, or empty: a random one each time.
    """
    n = out.shape[1]
    work = Workspace(
        np.arange(n).astype(np.uint32), np.full(n + 1, chips, np.int32), np.full(n + 1, chips, np.int32),
        np.empty((2, n), np.uint32), np.empty(len(arrays.anchors), np.int32), np.empty(chips, np.uint64),
        np.empty(chips, np.uint64), np.empty(chips, np.uint64), np.empty(chips),
    )  # fmt: skip
    for b in range(len(out)):
        candidate = candidates[b % len(candidates)] if len(candidates) > 0 else np.empty(0, np.int32)
        own = weights[b % len(weights)] if len(weights) > 0 else np.empty((0, 0))
        done = False
        used_attempts[b] = 0
        while not done:
            if len(given) > 0:
                work.order[:] = given
            else:
                shuffle(work.order, rng)
            if 0 <= used_attempts[b] < attempts:
                used_attempts[b] += 1
                done = general_attempt(arrays, chips, mode, candidate, own, rng, out[b], work)
            else:
                used_attempts[b] = -1 if attempts > 0 else 0
                chain_repair(arrays, chips, mode, candidate, own, rng, out[b], work)
                done = True
