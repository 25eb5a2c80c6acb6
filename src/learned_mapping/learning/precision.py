"""Float64 in JAX, which two of the environments need: their sums are compared with what compiled
code sums."""

from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp

from learned_mapping.errors import InputError, told


def exact() -> AbstractContextManager:
    """A context in which JAX computes in float64."""
    return jax.enable_x64(True)


def require_exact(door: str) -> None:
    """Raises `InputError` outside `exact`; `door` is the module whose ``exact`` the message
    names."""
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]  # JAX makes it as it starts
        raise InputError(
            "environment", "", f"float64 is off; use `with learned_mapping.{door}.exact():`"
        )


def whole_scalar(value: Any, field: str) -> jax.Array:
    """An integer of Python, NumPy or JAX as one of JAX, traced or not; raises `InputError` for all
    else."""
    try:
        array = jnp.asarray(value)
        if array.shape == () and jnp.issubdtype(array.dtype, jnp.integer):
            return array
    except Exception:  # of another's object, or too many digits
        pass
    raise InputError("environment", field, f"expected a whole number, got {told(value)}")
