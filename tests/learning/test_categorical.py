"""Categorical scalars."""

from __future__ import annotations

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.learning.categorical import compress, expand, make_atoms


def test_the_transform_is_inverted():
    """Catches a wrong constant in h or its inverse, by h's definition and on both sides of 0."""
    x = np.array([-300.0, -2.5, -0.01, 0.0, 0.3, 8.0, 250.0], np.float32)
    np.testing.assert_allclose(expand(compress(x)), x, rtol=2e-3, atol=2e-3)
    assert float(compress(np.float32(8.0))) == pytest.approx(2.0 + 0.008)


@pytest.mark.parametrize("transform", [False, True])
def test_encoding_keeps_the_mean(transform):
    """Catches weights on the wrong atoms, above all at 0 and at the ends."""
    atoms = make_atoms(10.0, 21, transform)
    x = np.array([-10.0, -9.97, -0.5, 0.0, 0.26, 3.0, 10.0], np.float32)
    probabilities = np.asarray(atoms.encode(x))
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1.0, rtol=1e-6)
    assert ((probabilities > 0).sum(axis=-1) <= 2).all()
    np.testing.assert_allclose(atoms.decode(np.log(probabilities + 1e-30)), x, rtol=3e-3, atol=3e-3)
    assert probabilities[3, 10] == 1.0


def test_values_beyond_the_ends_are_cut_off():
    atoms = make_atoms(10.0, 21, False)
    np.testing.assert_allclose(atoms.encode(np.array([-99.0, 99.0]))[:, [0, -1]], np.eye(2))


def test_the_start_is_near_zero_and_stays_there_under_a_tilt():
    """Catches far atoms that weigh in the mean: a tilt that moves a uniform start by 4 moves this one by little."""
    atoms = make_atoms(256.0, 129, True)
    tilt = np.linspace(-0.5, 0.5, 129)
    assert abs(float(atoms.decode(atoms.near_zero()))) < 1e-3
    assert float(atoms.decode(tilt)) > 4.0 > 20 * float(atoms.decode(atoms.near_zero() + tilt))


def test_bad_atoms_are_refused():
    for limit, count in ((0.0, 3), (1.0, 4), (1.0, 1)):
        with pytest.raises(InputError):
            make_atoms(limit, count, False)
