"""Float64 in JAX, which two of the environments need: their sums are compared with what compiled
code sums."""

from contextlib import AbstractContextManager

import jax

from learned_mapping.errors import InputError


def exact() -> AbstractContextManager:
    """A context in which JAX computes in float64."""
    return jax.enable_x64(True)


def require_exact(door: str) -> None:
    """Raises `InputError` outside `exact`; `door` is the module whose ``exact`` the message
    names."""
    if not jax.config.jax_enable_x64:
        raise InputError(
            "environment", "", f"float64 is off; use `with learned_mapping.{door}.exact():`"
        )
