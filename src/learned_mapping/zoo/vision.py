"""Vision Transformer and ConvNeXt: images as sequences of patches, and convolutions made like Transformers."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.attention import multi_head_attention

CONVNEXT_TINY = ((96, 3), (192, 3), (384, 9), (768, 3))
"""Channels and blocks per stage (Liu et al. 2022)."""


def vision_transformer(
    images: jax.Array,
    *,
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    patch: int = 16,
    classes: int = 1000,
    training: bool = False,
) -> jax.Array:
    """Class scores [B, classes] of images [B, H, W, 3]; the defaults are ViT-B/16 (Dosovitskiy et al. 2020)."""
    x = hk.Conv2D(width, patch, stride=patch, padding="VALID", name="patches")(images)
    x = x.reshape(x.shape[0], -1, width)
    start = hk.get_parameter("class_token", [1, 1, width], init=jnp.zeros).astype(x.dtype)
    x = jnp.concatenate([jnp.broadcast_to(start, (x.shape[0], 1, width)), x], axis=1)
    place = hk.get_parameter("position", [1, x.shape[1], width], init=hk.initializers.TruncatedNormal(0.02))
    x = x + place.astype(x.dtype)
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            y = _norm(x, "attention_norm")
            x = x + multi_head_attention(y, y, heads=heads)
            y = jax.nn.gelu(hk.Linear(4 * width, name="expand")(_norm(x, "dense_norm")))
            x = x + hk.Linear(width, name="contract")(y)
    return hk.Linear(classes, name="scores")(_norm(x, "norm")[:, 0])


def convnext(
    images: jax.Array, *, stages: tuple = CONVNEXT_TINY, classes: int = 1000, training: bool = False
) -> jax.Array:
    """Class scores [B, classes] of images [B, 224, 224, 3]; the defaults are ConvNeXt-T (Liu et al. 2022)."""
    x = _norm(hk.Conv2D(stages[0][0], 4, stride=4, padding="VALID", name="stem")(images), "stem_norm")
    for stage, (channels, blocks) in enumerate(stages):
        if stage:
            x = hk.Conv2D(channels, 2, stride=2, padding="VALID", name=f"down_{stage}")(_norm(x, f"down_norm_{stage}"))
        for i in range(blocks):
            with hk.name_scope(f"stage_{stage}_{i}"):
                y = _norm(hk.DepthwiseConv2D(1, 7, padding="SAME", name="depthwise")(x), "norm")
                y = hk.Linear(channels, name="contract")(jax.nn.gelu(hk.Linear(4 * channels, name="expand")(y)))
                scale = hk.get_parameter("layer_scale", [channels], init=hk.initializers.Constant(1e-6))
                x = x + y * scale.astype(y.dtype)
    return hk.Linear(classes, name="scores")(_norm(jnp.mean(x, axis=(1, 2)), "head_norm"))


def _norm(x: jax.Array, name: str) -> jax.Array:
    return hk.LayerNorm(axis=-1, create_scale=True, create_offset=True, name=name)(x)
