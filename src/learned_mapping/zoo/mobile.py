"""Small networks for phones: MnasNet and EfficientNet from inverted bottlenecks, ShuffleNet from shuffled halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.convolutional import batch_norm

Stage = tuple[int, int, int, int, int]
"""Expansion, channels, blocks, first stride, kernel size."""
MNASNET_B1: tuple[Stage, ...] = (
    (3, 24, 3, 2, 3), (3, 40, 3, 2, 5), (6, 80, 3, 2, 5), (6, 96, 2, 1, 3), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
"""Stages of MnasNet-B1 (Tan et al. 2019), after the separable layer of 16 channels."""
EFFICIENTNET_B0: tuple[Stage, ...] = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip
"""Stages of EfficientNet-B0 (Tan and Le 2019, table 1)."""
SHUFFLENET_STAGES = ((116, 4), (232, 8), (464, 4))
"""Channels and blocks of ShuffleNet v2 1x (Ma et al. 2018, table 5)."""


def mnasnet(
    images: jax.Array, *, stages: Sequence[Stage] = MNASNET_B1, classes: int = 1000, training: bool = False
) -> jax.Array:
    """MnasNet-B1 (Tan et al. 2019): class scores [B, classes] of images [B, 224, 224, 3]."""
    x = _conv(images, 32, 3, 2, "stem", jax.nn.relu, training)
    x = _depthwise(x, 3, 1, "separable", jax.nn.relu, training)
    x = _conv(x, 16, 1, 1, "separable_project", None, training)
    x = _inverted_bottlenecks(x, stages, jax.nn.relu, training, attend=False)
    x = _conv(x, 1280, 1, 1, "head", jax.nn.relu, training)
    return hk.Linear(classes, name="scores")(jnp.mean(x, axis=(1, 2)))


def efficientnet(
    images: jax.Array, *, stages: Sequence[Stage] = EFFICIENTNET_B0, classes: int = 1000, training: bool = False
) -> jax.Array:
    """EfficientNet-B0 (Tan and Le 2019): class scores [B, classes] of images [B, 224, 224, 3]."""
    x = _conv(images, 32, 3, 2, "stem", jax.nn.swish, training)
    x = _inverted_bottlenecks(x, stages, jax.nn.swish, training, attend=True)
    x = _conv(x, 1280, 1, 1, "head", jax.nn.swish, training)
    return hk.Linear(classes, name="scores")(jnp.mean(x, axis=(1, 2)))


def shufflenet(
    images: jax.Array,
    *,
    stages: Sequence[tuple[int, int]] = SHUFFLENET_STAGES,
    classes: int = 1000,
    training: bool = False,
) -> jax.Array:
    """ShuffleNet v2 1x (Ma et al. 2018): class scores [B, classes] of images [B, 224, 224, 3]."""
    x = _conv(images, 24, 3, 2, "stem", jax.nn.relu, training)
    x = hk.max_pool(x, (3, 3, 1), (2, 2, 1), "SAME")
    for stage, (channels, blocks) in enumerate(stages):
        for i in range(blocks):
            with hk.name_scope(f"stage_{stage}_{i}"):
                x = _shuffle_block(x, channels // 2, 1 if i else 2, training)
    x = _conv(x, 1024, 1, 1, "head", jax.nn.relu, training)
    return hk.Linear(classes, name="scores")(jnp.mean(x, axis=(1, 2)))


def _inverted_bottlenecks(
    x: jax.Array, stages: Sequence[Stage], activation: Callable, training: bool, *, attend: bool
) -> jax.Array:
    for stage, (expansion, channels, blocks, first_stride, size) in enumerate(stages):
        for i in range(blocks):
            with hk.name_scope(f"stage_{stage}_{i}"):
                width, stride = x.shape[-1], 1 if i else first_stride
                y = x if expansion == 1 else _conv(x, expansion * width, 1, 1, "expand", activation, training)
                y = _depthwise(y, size, stride, "depthwise", activation, training)
                y = _squeeze_and_excite(y, width // 4) if attend else y
                y = _conv(y, channels, 1, 1, "project", None, training)
                x = x + y if x.shape == y.shape else y
    return x


def _squeeze_and_excite(x: jax.Array, width: int) -> jax.Array:
    """Scales every channel by a gate computed from the means of all channels."""
    gate = jax.nn.swish(hk.Linear(width, name="squeeze")(jnp.mean(x, axis=(1, 2))))
    return x * jax.nn.sigmoid(hk.Linear(x.shape[-1], name="excite")(gate))[:, None, None]


def _shuffle_block(x: jax.Array, half: int, stride: int, training: bool) -> jax.Array:
    kept, y = (x, x) if stride == 2 else jnp.split(x, 2, axis=-1)
    if stride == 2:
        kept = _depthwise(kept, 3, 2, "kept_depthwise", None, training)
        kept = _conv(kept, half, 1, 1, "kept_pointwise", jax.nn.relu, training)
    y = _conv(y, half, 1, 1, "pointwise_1", jax.nn.relu, training)
    y = _depthwise(y, 3, stride, "depthwise", None, training)
    y = _conv(y, half, 1, 1, "pointwise_2", jax.nn.relu, training)
    both = jnp.stack([kept, y], axis=-1)  # channels of the two halves alternate
    return both.reshape(*y.shape[:-1], 2 * half)


def _conv(
    x: jax.Array, channels: int, size: int, stride: int, name: str, activation: Callable | None, training: bool
) -> jax.Array:
    x = hk.Conv2D(channels, size, stride=stride, with_bias=False, name=name)(x)
    x = batch_norm(x, f"{name}_norm", training)
    return activation(x) if activation else x


def _depthwise(
    x: jax.Array, size: int, stride: int, name: str, activation: Callable | None, training: bool
) -> jax.Array:
    x = hk.DepthwiseConv2D(1, size, stride=stride, padding="SAME", with_bias=False, name=name)(x)
    x = batch_norm(x, f"{name}_norm", training)
    return activation(x) if activation else x
