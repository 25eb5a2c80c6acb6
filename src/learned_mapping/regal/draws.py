"""Draws from many Beta laws at once, each law by a table of its quantiles.

A search draws a million entries from a few hundred laws. By NumPy's gammas an entry costs about as much as decoding it;
by a table it costs one uniform number and one linear interpolation. The table is the law to within `KOLMOGOROV`.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

CELLS = 64
"""Cells of equal probability in a table."""
KOLMOGOROV = 0.005
"""Largest difference between the distribution of draws by a table and the law's, anywhere."""
TABULATED = (0.5, 100.0)
"""Alpha and beta of laws that have a table. Outside, draws are NumPy's: densities too steep for `ANGLES`."""

ANGLES = 256
"""Cells of x = sin^2(angle) by which a density is summed: Beta's singular ends are regular in the angle."""
_MIDDLES = (np.arange(ANGLES) + 0.5) * (np.pi / 2 / ANGLES)
_LOG_SIN, _LOG_COS = np.log(np.sin(_MIDDLES)), np.log(np.cos(_MIDDLES))
_MIDDLES_X = np.sin(_MIDDLES) ** 2
CHUNK = 128
"""Laws tabulated at a time; their densities fit into a core's cache."""
UNIFORM, BY_NUMPY = -1, -2
"""In `Tables.rows`, of an entry without a table."""


class Tables(NamedTuple):
    """What `draw` reads."""

    alpha: np.ndarray
    """[K, L] float64, alpha of every entry of a chromosome, for each of K turns."""
    beta: np.ndarray
    """[K, L] float64."""
    rows: np.ndarray
    """[K, L] int32, the row of `knots` that serves an entry, or `UNIFORM`, or `BY_NUMPY`."""
    knots: np.ndarray
    """[R, CELLS + 1] float32 in [0, 1], quantiles of 0, 1 / CELLS, ..., 1; the outermost two stand where the means of
    the outermost cells are the law's."""


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
    """[R, CELLS + 1] float32, the knots of laws [R]."""
    knots = np.empty((len(alpha), CELLS + 1), np.float32)
    density, scratch = np.empty((2, CHUNK, ANGLES))
    for first in range(0, len(alpha), CHUNK):
        a, b = alpha[first : first + CHUNK, None], beta[first : first + CHUNK, None]
        mass = density[: len(a)]
        # The density of the angle is sin^(2 alpha - 1) cos^(2 beta - 1) up to a factor.
        np.multiply(2 * a - 1, _LOG_SIN, out=mass)
        mass += np.multiply(2 * b - 1, _LOG_COS, out=scratch[: len(a)])
        mass -= mass.max(axis=1, keepdims=True)
        places, ends = np.empty((len(a), CELLS + 1)), np.empty((len(a), 2))
        _invert(np.exp(mass, out=mass), _MIDDLES_X, places, ends)
        x = np.sin((places * (np.pi / 2 / ANGLES)).astype(np.float32)) ** 2
        x[:, 0] = np.maximum(0.0, 2 * ends[:, 0] - x[:, 1])
        x[:, -1] = np.minimum(1.0, 2 * ends[:, 1] - x[:, -2])
        knots[first : first + len(a)] = x
    return knots


@numba.njit(cache=True)
def _invert(mass, middles, places, ends):
    """Quantiles in cells of the angle, and the means of x over the outermost cells of equal probability.

    mass [R, ANGLES] of each cell of the angle, of any sum; middles [ANGLES] is x of each; places [R, CELLS + 1] and
    ends [R, 2] are filled.
    """
    angles, cells = mass.shape[1], places.shape[1] - 1
    for row in range(len(mass)):
        share = mass[row].sum() / cells
        places[row, 0], places[row, cells] = 0.0, angles
        k, below = 0, 0.0
        for j in range(1, cells):
            while k < angles - 1 and below + mass[row, k] < share * j:
                below += mass[row, k]
                k += 1
            places[row, j] = k + (min(1.0, (share * j - below) / mass[row, k]) if mass[row, k] > 0.0 else 0.0)
        ends[row, 0] = _mean_of_end(mass[row], middles, share)
        ends[row, 1] = 1.0 - _mean_of_end(mass[row, ::-1], middles, share)


@numba.njit(cache=True)
def _mean_of_end(mass, middles, share):
    """The mean of x over the lowest `share` of the sum of `mass`; of the highest, that of 1 - x, `mass` reversed."""
    found, left = 0.0, share
    for k in range(len(mass)):
        if mass[k] >= left:
            inside = (k + 0.5 * left / mass[k]) / len(mass)
            return (found + left * np.sin(np.pi / 2 * inside) ** 2) / share
        found += mass[k] * middles[k]
        left -= mass[k]
    return found / share


@numba.njit(cache=True)
def draw(chromosome, rng, tables, turn, entries):
    """Fills a chromosome: its first `entries` entries by the laws of a turn, the others uniform."""
    rows, knots = tables.rows, tables.knots
    for i in range(chromosome.shape[0]):
        row = rows[turn, i] if i < entries else UNIFORM
        if row == BY_NUMPY:
            chromosome[i] = rng.beta(tables.alpha[turn, i], tables.beta[turn, i])
        elif row == UNIFORM:
            chromosome[i] = rng.random()
        else:
            place = rng.random() * (knots.shape[1] - 1)
            cell = int(place)
            low = knots[row, cell]
            chromosome[i] = low + (place - cell) * (knots[row, cell + 1] - low)
