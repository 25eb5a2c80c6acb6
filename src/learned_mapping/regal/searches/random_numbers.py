"""Random numbers inside compiled searches, and draws from many Beta laws at once.

A search is written once and compiled for NumPy's generators or for a cheap stream whose state is
one integer: splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
2014), a counter and a mixing function, so that draws do not wait for each other, and a copy of one
number goes back to a point in it. Its draws have 53 bits, its coins 16.

A search draws a million entries from a few hundred laws. By NumPy's gammas an entry costs about as
much as decoding it; by a table of the law's quantiles it costs one uniform number and one linear
interpolation. The table is the law to within `KOLMOGOROV`.
"""

from typing import NamedTuple

import numba
import numpy as np
from numba import types
from numba.extending import overload

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ULP = 1.0 / 9007199254740992.0


def stream(*seed: int) -> np.ndarray:
    """[1] uint64, a stream: in place of a generator, and advanced in place."""
    return np.random.SeedSequence(seed).generate_state(1, np.uint64)


@numba.njit(cache=True, inline="always")
def _mix(z):
    """The number of a stream's state."""
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@numba.njit(cache=True, inline="always")
def _next(state):
    state[0] += _STEP
    return _mix(state[0])


def _for_streams(of_stream):
    """A decorator of a function for generators: compiled for a stream, it is `of_stream`."""

    def decorate(of_generator):
        def chosen(*arguments):
            streams = [
                arg
                for arg in arguments
                if isinstance(arg, types.Array) and arg.dtype == types.uint64
            ]
            return of_stream if streams else of_generator

        overload(of_generator, strict=False)(chosen)
        return of_generator

    return decorate


@_for_streams(lambda rng: (_next(rng) >> np.uint64(11)) * _ULP)
def uniform(rng):
    """A number in [0, 1)."""
    return rng.random()


def _no_beta(rng, a, b):
    if a > 0.0:
        raise ValueError("a stream draws from tables alone")
    return np.nan


@_for_streams(_no_beta)
def beta(rng, a, b):
    """A number from Beta(a, b); a stream has none."""
    return rng.beta(a, b)


def _cross_by_coins(child, elite, other, rng, bias):
    limit, length, state = round(bias * 65536.0), len(child), rng[0]
    whole = length - length % 4
    words = np.empty(length // 4 + length % 4, np.uint64)
    for i in range(len(words)):
        words[i] = _mix(state + _STEP * np.uint64(i + 1))
    rng[0] = state + _STEP * np.uint64(len(words))
    coins = words.view(np.uint16)  # Four to a number, the last entries one each.
    for i in range(whole):
        child[i] = elite[i] if coins[i] < limit else other[i]
    for i in range(whole, length):
        child[i] = elite[i] if coins[whole + 4 * (i - whole)] < limit else other[i]


@_for_streams(_cross_by_coins)
def cross(child, elite, other, rng, bias):
    """Fills a child: each entry from the elite parent with probability `bias`, else the other."""
    for i in range(len(child)):
        ours, theirs = elite[i], other[i]
        child[i] = ours if rng.random() < bias else theirs


# Cells of equal probability in a table; the outermost two are halved again and again, towards the
# ends.
CELLS = 64
# Of an outermost cell: beyond its last knot lies a probability of 1 / (CELLS 2^HALVINGS).
HALVINGS = 8
# Largest difference between the distribution of draws by a table and the law's, anywhere.
KOLMOGOROV = 0.002
TABULATED = (0.5, 100.0)
"""Alpha and beta of laws that have a table. Outside, draws are NumPy's: densities too steep for
`ANGLES`."""

# Cells of x = sin^2(angle) by which a density is summed: Beta's singular ends are regular in the
# angle.
ANGLES = 256
_MIDDLES = (np.arange(ANGLES) + 0.5) * (np.pi / 2 / ANGLES)
_LOG_SIN, _LOG_COS = np.log(np.sin(_MIDDLES)), np.log(np.cos(_MIDDLES))
_TAIL = 0.5 ** np.arange(HALVINGS, 0, -1) / CELLS
_LEVELS = np.concatenate([_TAIL, np.arange(1, CELLS) / CELLS, 1 - _TAIL[::-1]])
CHUNK = 128  # Laws tabulated at a time; their densities fit into a core's cache.
UNIFORM, BY_NUMPY = -1, -2  # In `Tables.rows`, of an entry without a table.


class Tables(NamedTuple):
    """The tables that `draw` reads."""

    alpha: np.ndarray  # [K, L] float64, alpha of every entry of a chromosome, for each of K turns
    beta: np.ndarray  # [K, L] float64
    # [K, L] int32, the row of `knots` that serves an entry, or `UNIFORM`, or `BY_NUMPY`
    rows: np.ndarray
    knots: np.ndarray
    """[R, CELLS + 1 + 2 HALVINGS] float32 in [0, 1]: an end; the quantiles of 2^-k / CELLS, the
    largest k first, of j / CELLS, of 1 - 2^-k / CELLS, the smallest k first; an end. An end is two
    steps beyond its neighbour."""


def tabulate(alpha: np.ndarray, beta: np.ndarray) -> Tables:
    """The tables of Beta(alpha, beta) for every entry.

    Args:
      alpha, beta: [K, L] float64 above 0.
    """
    low, high = TABULATED
    fits = (np.minimum(alpha, beta) >= low) & (np.maximum(alpha, beta) <= high)
    uniform = (alpha == 1) & (beta == 1)
    rows = np.where(uniform, UNIFORM, BY_NUMPY).astype(np.int32)
    a, b = alpha[fits & ~uniform], beta[fits & ~uniform]
    # Neighbours of one law, such as all transfers, share a row.
    new = np.ones(len(a), bool)
    new[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    rows[fits & ~uniform] = np.cumsum(new) - 1
    return Tables(alpha, beta, rows, _quantiles(a[new], b[new]))


def _quantiles(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """The knots of laws [R]."""
    knots = np.empty((len(alpha), len(_LEVELS) + 2), np.float32)
    density, scratch = np.empty((2, CHUNK, ANGLES))
    places = np.empty((CHUNK, len(_LEVELS)), np.float32)
    for first in range(0, len(alpha), CHUNK):
        a, b = alpha[first : first + CHUNK, None], beta[first : first + CHUNK, None]
        mass = density[: len(a)]
        # The density of the angle is sin^(2 alpha - 1) cos^(2 beta - 1) up to a factor.
        np.multiply(2 * a - 1, _LOG_SIN, out=mass)
        mass += np.multiply(2 * b - 1, _LOG_COS, out=scratch[: len(a)])
        mass -= mass.max(axis=1, keepdims=True)
        np.exp(mass, out=mass)
        # In the outermost cells the density is a power of the distance to the end.
        mass[:, :1] *= 2 ** (2 * a - 1) / (2 * a)
        mass[:, -1:] *= 2 ** (2 * b - 1) / (2 * b)
        _invert(mass, a[:, 0], b[:, 0], _LEVELS, places)
        knots[first : first + len(a), 1:-1] = (
            np.sin(places[: len(a)] * np.float32(np.pi / 2 / ANGLES)) ** 2
        )
    for end, last, before in ((0, 1, 2), (-1, -2, -3)):
        knots[:, end] = np.clip(3 * knots[:, last] - 2 * knots[:, before], 0.0, 1.0)
    return knots


@numba.njit(cache=True)
def _invert(mass, alpha, beta, levels, places):
    """Quantiles of `levels` [Q], counted in cells of the angle, into `places` [R, Q].

    mass [R, ANGLES] of each cell of the angle, of any sum; alpha and beta [R] say how it lies in
    the outermost cells; in the others it is spread evenly.
    """
    last = mass.shape[1] - 1
    for row in range(len(mass)):
        total, k, below = mass[row].sum(), 0, 0.0
        for j in range(len(levels)):
            wanted = total * levels[j]
            while k < last and below + mass[row, k] < wanted:
                below += mass[row, k]
                k += 1
            share = min(1.0, (wanted - below) / mass[row, k]) if mass[row, k] > 0.0 else 0.0
            if k == 0:
                share = share ** (0.5 / alpha[row])
            elif k == last:
                share = 1.0 - (1.0 - share) ** (0.5 / beta[row])
            places[row, j] = k + share


@numba.njit(cache=True)
def draw(chromosome, rng, tables, turn, entries):
    """Fills a chromosome: its first `entries` entries by the laws of a turn, the others uniform."""
    rows, knots = tables.rows, tables.knots
    for i in range(entries):
        row = rows[turn, i]
        if row == BY_NUMPY:
            chromosome[i] = beta(rng, tables.alpha[turn, i], tables.beta[turn, i])
        elif row == UNIFORM:
            chromosome[i] = uniform(rng)
        else:
            place = uniform(rng) * CELLS
            cell = int(place)
            if 0 < cell < CELLS - 1:
                low = knots[row, HALVINGS + cell]
                chromosome[i] = low + (place - cell) * (knots[row, HALVINGS + cell + 1] - low)
            else:
                chromosome[i] = _in_tail(
                    knots[row] if cell == 0 else knots[row, ::-1], min(place, CELLS - place)
                )
    for i in range(entries, len(chromosome)):
        chromosome[i] = uniform(rng)


@numba.njit(cache=True)
def _in_tail(knots, share):
    """The draw at a share of the first cell; in the last one, at a share from the end, with the
    knots reversed."""
    halvings = 0
    while share < 0.5 and halvings < HALVINGS:
        share *= 2
        halvings += 1
    inner, outer = knots[HALVINGS - halvings], knots[HALVINGS + 1 - halvings]
    if halvings < HALVINGS:
        return inner + (2 * share - 1) * (outer - inner)
    return inner + share * (outer - inner)
