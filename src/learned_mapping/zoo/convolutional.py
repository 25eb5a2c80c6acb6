"""Plain convolutional networks: LeNet, VGG, SqueezeNet, MobileNet, U-Net."""

from __future__ import annotations

from collections.abc import Sequence

import haiku as hk
import jax
import jax.numpy as jnp

VGG_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions per stage by depth (Simonyan and Zisserman 2014, table 1)."""
MOBILENET_STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
MOBILENET_CHANNELS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
"""Separable layers of MobileNet (Howard et al. 2017, table 1)."""


def batch_norm(x: jax.Array, name: str, training: bool = False) -> jax.Array:
    """Batch normalisation with learned scale and offset."""
    norm = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.99, name=name)
    return norm(x, is_training=training or hk.running_init())  # only training makes the averages that inference reads


def lenet(images: jax.Array, *, classes: int = 10) -> jax.Array:
    """LeNet-5 (LeCun et al. 1998): scores [B, classes] of images [B, 28, 28, 1]."""
    x = hk.avg_pool(jnp.tanh(hk.Conv2D(6, 5, name="conv_1")(images)), (2, 2, 1), (2, 2, 1), "VALID")
    x = hk.avg_pool(jnp.tanh(hk.Conv2D(16, 5, padding="VALID", name="conv_2")(x)), (2, 2, 1), (2, 2, 1), "VALID")
    x = jnp.tanh(hk.Linear(120, name="dense_3")(hk.Flatten()(x)))
    x = jnp.tanh(hk.Linear(84, name="dense_4")(x))
    return jax.nn.softmax(hk.Linear(classes, name="dense_5")(x))


def vgg(images: jax.Array, *, depth: int = 16, classes: int = 1000, training: bool = False) -> jax.Array:
    """VGG (Simonyan and Zisserman 2014): class probabilities [B, classes] of images [B, 224, 224, 3].

    Like its neighbours in this file, it returns scores before the softmax where `training`.
    """
    x = images
    for stage, count in enumerate(VGG_STAGES[depth]):
        for i in range(count):
            x = jax.nn.relu(hk.Conv2D(min(64 * 2**stage, 512), 3, name=f"conv_{stage}_{i}")(x))
        x = hk.max_pool(x, (2, 2, 1), (2, 2, 1), "VALID")
    x = hk.Flatten()(x)
    for i in range(2):
        x = jax.nn.relu(hk.Linear(4096, name=f"dense_{i}")(x))
    return _finish(hk.Linear(classes, name="scores")(x), training)


def squeezenet(images: jax.Array, *, padding: str = "VALID", classes: int = 1000, training: bool = False) -> jax.Array:
    """SqueezeNet 1.1 (Iandola et al. 2016): class probabilities [B, classes] of images [B, 224, 224, 3]."""
    x = jax.nn.relu(hk.Conv2D(64, 3, stride=2, padding=padding, name="conv_1")(images))
    for i, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        if i in (0, 2, 4):
            x = hk.max_pool(x, (3, 3, 1), (2, 2, 1), padding)
        x = jax.nn.relu(hk.Conv2D(squeezed, 1, name=f"fire_{i}_squeeze")(x))
        small = jax.nn.relu(hk.Conv2D(4 * squeezed, 1, name=f"fire_{i}_expand_1")(x))
        large = jax.nn.relu(hk.Conv2D(4 * squeezed, 3, name=f"fire_{i}_expand_3")(x))
        x = jnp.concatenate([small, large], axis=-1)
    x = jax.nn.relu(hk.Conv2D(classes, 1, name="conv_10")(x))
    return _finish(jnp.mean(x, axis=(1, 2)), training)


def mobilenet(images: jax.Array, *, width: float = 1.0, classes: int = 1000, training: bool = False) -> jax.Array:
    """MobileNet v1 (Howard et al. 2017): class probabilities [B, classes] of images [B, 224, 224, 3]."""
    x = hk.Conv2D(int(32 * width), 3, stride=2, with_bias=False, name="stem")(images)
    x = jax.nn.relu(batch_norm(x, "norm", training))
    for i, (stride, channels) in enumerate(zip(MOBILENET_STRIDES, MOBILENET_CHANNELS)):
        x = hk.DepthwiseConv2D(1, 3, stride=stride, padding="SAME", with_bias=False, name=f"depthwise_{i}")(x)
        x = jax.nn.relu6(batch_norm(x, f"depthwise_norm_{i}", training))
        x = hk.Conv2D(int(channels * width), 1, with_bias=False, name=f"pointwise_{i}")(x)
        x = jax.nn.relu6(batch_norm(x, f"pointwise_norm_{i}", training))
    return _finish(hk.Linear(classes, name="scores")(jnp.mean(x, axis=(1, 2))), training)


def unet(images: jax.Array, *, depth: int = 4, channels: int = 64, classes: int = 2) -> jax.Array:
    """U-Net (Ronneberger et al. 2015): per-pixel scores [B, H, W, classes]; H and W divisible by 2^depth."""

    def double(x: jax.Array, width: int, name: str) -> jax.Array:
        for i in range(2):
            x = jax.nn.relu(hk.Conv2D(width, 3, name=f"{name}_{i}")(x))
        return x

    x, skips = images, []
    for level in range(depth):
        skips.append(double(x, channels * 2**level, f"down_{level}"))
        x = hk.max_pool(skips[-1], (2, 2, 1), (2, 2, 1), "VALID")
    x = double(x, channels * 2**depth, "bottom")
    for level in reversed(range(depth)):
        x = hk.Conv2DTranspose(channels * 2**level, 2, stride=2, name=f"rise_{level}")(x)
        x = double(jnp.concatenate([skips[level], x], axis=-1), channels * 2**level, f"up_{level}")
    return hk.Conv2D(classes, 1, name="scores")(x)


def densenet(
    images: jax.Array, *, blocks: Sequence[int] = (6, 12, 24, 16), growth: int = 32, training: bool = False
) -> jax.Array:
    """DenseNet-121 (Huang et al. 2017): class probabilities [B, 1000] of images [B, 224, 224, 3]."""
    x = hk.Conv2D(2 * growth, 7, stride=2, with_bias=False, name="stem")(images)
    x = jax.nn.relu(batch_norm(x, "stem_norm", training))
    x = hk.max_pool(x, (3, 3, 1), (2, 2, 1), "SAME")
    for b, layers in enumerate(blocks):
        for i in range(layers):
            with hk.name_scope(f"block_{b}_{i}"):
                y = jax.nn.relu(batch_norm(x, "norm_1", training))
                y = hk.Conv2D(4 * growth, 1, with_bias=False, name="conv_1")(y)
                y = jax.nn.relu(batch_norm(y, "norm_2", training))
                y = hk.Conv2D(growth, 3, with_bias=False, name="conv_2")(y)
                x = jnp.concatenate([x, y], axis=-1)
        x = jax.nn.relu(batch_norm(x, f"transition_norm_{b}", training))
        if b < len(blocks) - 1:
            x = hk.Conv2D(x.shape[-1] // 2, 1, with_bias=False, name=f"transition_{b}")(x)
            x = hk.avg_pool(x, (2, 2, 1), (2, 2, 1), "VALID")
    return _finish(hk.Linear(1000, name="scores")(jnp.mean(x, axis=(1, 2))), training)


def _finish(scores: jax.Array, training: bool) -> jax.Array:
    return scores if training else jax.nn.softmax(scores)
