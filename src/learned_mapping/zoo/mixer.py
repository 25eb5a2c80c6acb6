"""MLP-Mixer (Tolstikhin et al. 2021): dense layers across patches, then across channels; no attention."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp


def mlp_mixer(
    images: jax.Array, *, layers: int = 8, width: int = 512, patch: int = 16, classes: int = 1000
) -> jax.Array:
    """Class scores [B, classes] of images [B, H, W, 3]; the defaults are Mixer-S/16."""
    x = hk.Conv2D(width, patch, stride=patch, padding="VALID", name="patches")(images)
    x = x.reshape(x.shape[0], -1, width)
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            y = jnp.swapaxes(_norm(x, "token_norm"), 1, 2)
            x = x + jnp.swapaxes(_mlp(y, width // 2, "token"), 1, 2)
            x = x + _mlp(_norm(x, "channel_norm"), width * 4, "channel")
    return hk.Linear(classes, name="scores")(jnp.mean(_norm(x, "norm"), axis=1))


def _mlp(x: jax.Array, hidden: int, name: str) -> jax.Array:
    y = jax.nn.gelu(hk.Linear(hidden, name=f"{name}_1")(x))
    return hk.Linear(x.shape[-1], name=f"{name}_2")(y)


def _norm(x: jax.Array, name: str) -> jax.Array:
    return hk.LayerNorm(axis=-1, create_scale=True, create_offset=True, name=name)(x)
