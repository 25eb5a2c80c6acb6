"""Scaled dot-product attention with several heads, shared by the Transformers of the zoo."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp


def multi_head_attention(
    query: jax.Array, memory: jax.Array, *, heads: int, bias: jax.Array | None = None, name: str = "attention"
) -> jax.Array:
    """Attention of `query` over `memory`.

    Args:
      query: [B, S, D].
      memory: [B, M, D].
      heads: number of heads; D is divided among them.
      bias: added to the scores [B, heads, S, M] before the softmax, broadcast; large and negative where masked.
      name: scope of the four projections.

    Returns:
      [B, S, D].
    """
    batch, length, width = query.shape
    size = width // heads

    def project(x: jax.Array, role: str) -> jax.Array:
        return hk.Linear(width, name=role)(x).reshape(batch, x.shape[1], heads, size).transpose(0, 2, 1, 3)

    with hk.name_scope(name):
        q, k, v = project(query, "query"), project(memory, "key"), project(memory, "value")
        scores = jnp.einsum("bhsd,bhmd->bhsm", q, k) / size**0.5
        weights = jax.nn.softmax(scores if bias is None else scores + bias, axis=-1)
        context = jnp.einsum("bhsm,bhmd->bhsd", weights, v).transpose(0, 2, 1, 3).reshape(batch, length, width)
        return hk.Linear(width, name="output")(context)
