"""GoogLeNet, the first Inception network (Szegedy et al. 2014)."""

from __future__ import annotations

from collections.abc import Sequence

import haiku as hk
import jax
import jax.numpy as jnp

INCEPTION_BLOCKS = (
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128),
    (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
)  # fmt: skip
"""Channels of 1x1, 3x3 reduction, 3x3, 5x5 reduction, 5x5 and pooled projection per block (table 1)."""


def inception(
    images: jax.Array, *, blocks: Sequence[tuple] = INCEPTION_BLOCKS, classes: int = 1000, training: bool = False
) -> jax.Array:
    """Class probabilities [B, classes] of images [B, 224, 224, 3]; scores before the softmax where `training`."""
    x = hk.max_pool(_conv(images, 64, 7, "conv_1", stride=2), (3, 3, 1), (2, 2, 1), "SAME")
    x = _conv(_conv(x, 64, 1, "conv_2_reduce"), 192, 3, "conv_2")
    x = hk.max_pool(x, (3, 3, 1), (2, 2, 1), "SAME")
    for i, (one, three_in, three, five_in, five, pooled) in enumerate(blocks):
        with hk.name_scope(f"block_{i}"):
            branches = [
                _conv(x, one, 1, "one"),
                _conv(_conv(x, three_in, 1, "three_reduce"), three, 3, "three"),
                _conv(_conv(x, five_in, 1, "five_reduce"), five, 5, "five"),
                _conv(hk.max_pool(x, (3, 3, 1), (1, 1, 1), "SAME"), pooled, 1, "pooled"),
            ]
        x = jnp.concatenate(branches, axis=-1)
        if i in (1, 6):
            x = hk.max_pool(x, (3, 3, 1), (2, 2, 1), "SAME")
    scores = hk.Linear(classes, name="scores")(jnp.mean(x, axis=(1, 2)))
    return scores if training else jax.nn.softmax(scores)


def _conv(x: jax.Array, width: int, size: int, name: str, stride: int = 1) -> jax.Array:
    return jax.nn.relu(hk.Conv2D(width, size, stride=stride, name=name)(x))
