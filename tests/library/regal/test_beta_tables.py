"""Draws from Beta laws by tables."""

import numpy as np
import pytest
from scipy.stats import beta as beta_law
from scipy.stats import kstest

from learned_mapping.regal.searches.random_numbers import (
    BY_NUMPY,
    CELLS,
    HALVINGS,
    KOLMOGOROV,
    TABULATED,
    UNIFORM,
    draw,
    tabulate,
)

TAIL = 0.5 ** np.arange(HALVINGS, 0, -1) / CELLS
LEVELS = np.concatenate([[0], TAIL, np.arange(1, CELLS) / CELLS, 1 - TAIL[::-1], [1]])
LAWS = [
    (a, b)
    for a in (0.5, 0.8, 1.0, 1.5, 3.0, 8.0, 61.0, 100.0)
    for b in (0.5, 1.0, 2.2, 17.0, 100.0)
    if a * b != 1
]


@pytest.mark.parametrize("alpha, beta", LAWS)
def test_a_table_is_its_law(alpha, beta):
    """Catches densities summed too coarsely, quantiles of the wrong end, tails cut off, means that
    drift."""
    tables = tabulate(np.array([[alpha]]), np.array([[beta]]))
    u = (np.arange(CELLS * 200) + 0.5) / (CELLS * 200)
    x = np.interp(u, LEVELS, tables.knots[0].astype(float))
    assert np.abs(beta_law.cdf(x, alpha, beta) - u).max() < KOLMOGOROV
    assert x.min() >= 0 and x.max() <= 1 and (np.diff(x) >= 0).all()
    assert x.mean() == pytest.approx(beta_law.mean(alpha, beta), abs=3e-4)
    assert x.std() == pytest.approx(beta_law.std(alpha, beta), rel=8e-3)
    # Of the tails, the probability of what lies beyond a knot, to half of itself.
    assert beta_law.cdf(
        tables.knots[0, 1 : HALVINGS + 1].astype(float), alpha, beta
    ) == pytest.approx(TAIL, rel=0.5)


class Places:
    """Stands in for the source of randomness: gives its numbers in turn."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)


def test_a_draw_is_the_quantile_at_its_place():
    """The same number between 0 and 1 for a draw and for the table read by interpolation. Catches a
    knot taken for its neighbour, the upper tail read as the lower."""
    u = np.concatenate([[0.0, 1e-5, 5e-5], np.linspace(1e-4, 1 - 1e-4, 4001), [1 - 5e-5, 1 - 1e-7]])
    tables = tabulate(np.full((1, len(u)), 3.0), np.full((1, len(u)), 2.0))
    drawn = np.empty(len(u))
    draw.py_func(drawn, Places(u), tables, 0, len(u))
    np.testing.assert_allclose(
        drawn, np.interp(u, LEVELS, tables.knots[0].astype(float)), atol=1e-6
    )


def test_drawn_entries_follow_their_laws():
    """Entries with tables, without, uniform, past the law's end, in two turns. Catches rows mixed
    up between entries or turns."""
    alpha = np.array([[61.0, 61.0, 3.0, 1.0, 0.2, 3.0, 250.0], [2.0, 9.0, 1.0, 4.0, 4.0, 0.7, 1.0]])
    beta = np.array([[1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 90.0], [2.0, 9.0, 1.0, 4.0, 1.0, 0.6, 1.0]])
    tables = tabulate(alpha, beta)
    assert tables.rows[0, 3] == UNIFORM and tables.rows[0, 4] == BY_NUMPY == tables.rows[0, 6]
    assert tables.rows[0, 0] == tables.rows[0, 1] and tables.rows.max() == len(tables.knots) - 1
    for turn in range(2):
        for entries in (7, 2):
            rng, drawn = np.random.default_rng(turn), np.empty((4000, 9))
            for row in drawn:
                draw(row, rng, tables, turn, entries)
            for i, column in enumerate(drawn.T):
                law = beta_law(alpha[turn, i], beta[turn, i]) if i < entries else beta_law(1, 1)
                assert kstest(column, law.cdf).pvalue > 1e-3
            assert abs(np.corrcoef(drawn.T) - np.eye(9)).max() < 0.08


def test_the_range_of_tables():
    """Catches laws outside it that would get a table too coarse for them."""
    low, high = TABULATED
    alpha = np.array([[low, low / 2, high, 2 * high, 3.0]])
    rows = tabulate(alpha, np.array([[2.0, 2.0, 2.0, 2.0, 2 * high]])).rows[0]
    assert (rows == [0, BY_NUMPY, 1, BY_NUMPY, BY_NUMPY]).all()
    assert tabulate(np.zeros((1, 0)), np.zeros((1, 0))).knots.shape == (0, CELLS + 1 + 2 * HALVINGS)
