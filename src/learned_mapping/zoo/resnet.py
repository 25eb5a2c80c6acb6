"""Residual networks with bottleneck blocks (He et al. 2015)."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.convolutional import batch_norm

RESNET_BLOCKS = {14: (1, 1, 1, 1), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Bottleneck blocks per stage by depth (table 1; 14 is a smaller one)."""


def resnet(images: jax.Array, *, depth: int = 50, classes: int = 1000, training: bool = False) -> jax.Array:
    """Class scores [B, classes] of images [B, 224, 224, 3]."""
    x = _convolution(images, 64, 7, 2, "stem", training)
    x = hk.max_pool(jax.nn.relu(x), (3, 3, 1), (2, 2, 1), "SAME")
    for stage, count in enumerate(RESNET_BLOCKS[depth]):
        for i in range(count):
            stride = 2 if stage and not i else 1
            with hk.name_scope(f"stage_{stage}_{i}"):
                x = _bottleneck(x, 64 * 2**stage, stride, project=not i, training=training)
    return hk.Linear(classes, name="scores")(jnp.mean(x, axis=(1, 2)))


def _bottleneck(x: jax.Array, width: int, stride: int, *, project: bool, training: bool) -> jax.Array:
    shortcut = _convolution(x, 4 * width, 1, stride, "shortcut", training) if project else x
    y = jax.nn.relu(_convolution(x, width, 1, 1, "reduce", training))
    y = jax.nn.relu(_convolution(y, width, 3, stride, "conv", training))
    return jax.nn.relu(shortcut + _convolution(y, 4 * width, 1, 1, "expand", training))


def _convolution(x: jax.Array, width: int, size: int, stride: int, name: str, training: bool) -> jax.Array:
    x = hk.Conv2D(width, size, stride=stride, with_bias=False, name=name)(x)
    return batch_norm(x, f"{name}_norm", training)
