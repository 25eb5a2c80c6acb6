"""Building blocks of the agents' networks, and what they weigh."""

from collections.abc import Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np


def mlp(x: jax.Array, hidden: Sequence[int], output: int, *, name: str) -> jax.Array:
    """[..., output] from x [..., n] through hidden layers with layer norm and ReLU; the last layer
    is {name}_out."""
    for i, width in enumerate(hidden):
        x = jax.nn.relu(
            layer_norm(hk.Linear(width, name=f"{name}_{i}")(x), name=f"{name}_norm_{i}")
        )
    return hk.Linear(output, name=f"{name}_out")(x)


def layer_norm(x: jax.Array, *, name: str) -> jax.Array:
    """Layer norm over the last axis with a learned scale and offset per feature."""
    return hk.LayerNorm(-1, create_scale=True, create_offset=True, param_axis=-1, name=name)(x)


def embedding(index: jax.Array, count: int, width: int, *, name: str) -> jax.Array:
    """[..., width] rows of a learned table of `count` for indices [...]; the table is {name}_table
    and starts at 0."""
    return hk.get_parameter(f"{name}_table", (count, width), init=jnp.zeros)[index]


def scale_gradient(x: jax.Array, factor: float) -> jax.Array:
    """x, through which gradients pass multiplied by `factor`."""
    return x * factor + jax.lax.stop_gradient(x) * (1.0 - factor)


def draw_parameters(shapes: Any, rng: np.random.Generator, zero: Sequence[str] = ()) -> Any:
    """Initial values of Haiku parameters, without compiling anything.

    Weights ``w`` are normal with variance 1 / fan-in, cut off at two standard deviations, as
    Haiku's default; scales are 1; the rest is 0.

    Args:
      shapes: nested dicts that end in {module: {parameter: shape and dtype}}.
      rng: the only source of randomness; modules are drawn in the order of their names.
      zero: last parts of the names of modules whose weights start at 0.
    """
    if all(hasattr(entry, "shape") for entry in shapes.values()):
        return {name: _draw(name, entry, rng) for name, entry in sorted(shapes.items())}
    drawn = {}
    for name, entry in sorted(shapes.items()):
        drawn[name] = draw_parameters(entry, rng, zero)
        if name.split("/")[-1] in zero:
            drawn[name] = jax.tree_util.tree_map(np.zeros_like, drawn[name])
    return drawn


def _draw(name: str, entry: Any, rng: np.random.Generator) -> np.ndarray:
    if name != "w":
        return np.full(entry.shape, 1.0 if name == "scale" else 0.0, entry.dtype)
    values = rng.standard_normal(entry.shape)
    while (far := np.abs(values) > 2.0).any():
        values[far] = rng.standard_normal(int(far.sum()))
    return (values / np.sqrt(max(np.prod(entry.shape[:-1]), 1))).astype(entry.dtype)


def count_parameters(parameters: Any) -> int:
    """The number of entries of a pytree of arrays."""
    return int(sum(np.size(leaf) for leaf in jax.tree_util.tree_leaves(parameters)))
