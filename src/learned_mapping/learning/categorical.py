"""Scalars as categorical distributions over fixed atoms, and the transform under which MuZero spaces them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.errors import InputError

EPSILON = 1e-3
"""Slope of h at infinity."""


def compress(x: jax.Array) -> jax.Array:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + EPSILON x, elementwise (Pohlen et al. 2018, Proposition A.2)."""
    return jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1.0) - 1.0) + EPSILON * x


def expand(y: jax.Array) -> jax.Array:
    """The inverse of `compress`, elementwise."""
    root = (jnp.sqrt(1.0 + 4.0 * EPSILON * (jnp.abs(y) + 1.0 + EPSILON)) - 1.0) / (2.0 * EPSILON)
    return jnp.sign(y) * (root * root - 1.0)


FAINT = 8.0
"""How far below the middle the logits of `Atoms.near_zero` lie at the ends."""


class Atoms(NamedTuple):
    """Evenly spaced atoms from -limit to limit, of x itself or of h(x)."""

    limit: float
    """In the units of x."""
    count: int
    """Odd, so that 0 is an atom."""
    transform: bool

    def positions(self) -> jax.Array:
        """[count] where the atoms are: values of h(x) or of x."""
        end = _compress_number(self.limit) if self.transform else self.limit
        return jnp.linspace(-end, end, self.count)

    def near_zero(self) -> jax.Array:
        """[count] logits to start from: most of the probability within one of 0, little left for learning to undo.

        A uniform start has a mean of 0 too, but the slightest tilt of its far ends moves that by a lot.
        """
        return -jnp.minimum(self.positions() ** 2, FAINT)

    def encode(self, x: jax.Array) -> jax.Array:
        """[..., count] probabilities whose mean is x [...], on the two atoms next to it; x is cut off at the ends."""
        y = compress(x) if self.transform else x
        end = _compress_number(self.limit) if self.transform else self.limit
        place = jnp.clip((y / end + 1.0) * (self.count - 1) / 2.0, 0.0, self.count - 1.0)
        low = jnp.minimum(jnp.floor(place), self.count - 2.0)
        upper = place - low
        index = low.astype(jnp.int32)
        return (
            jax.nn.one_hot(index, self.count) * (1.0 - upper)[..., None]
            + jax.nn.one_hot(index + 1, self.count) * upper[..., None]
        )

    def decode(self, logits: jax.Array) -> jax.Array:
        """[...] the mean under softmax(logits [..., count]), transformed back."""
        y = jnp.sum(jax.nn.softmax(logits) * self.positions(), axis=-1)
        return expand(y) if self.transform else y


def make_atoms(limit: float, count: int, transform: bool) -> Atoms:
    """Checked `Atoms`.

    Raises:
      InputError: the limit is not positive, or the count is even or below 3.
    """
    if not limit > 0:
        raise InputError("atoms", "limit", f"must be above 0, got {limit}")
    if count < 3 or count % 2 == 0:
        raise InputError("atoms", "count", f"must be odd and at least 3, got {count}")
    return Atoms(float(limit), int(count), bool(transform))


def _compress_number(x: float) -> float:
    return float(np.sqrt(abs(x) + 1.0) - 1.0 + EPSILON * abs(x))
