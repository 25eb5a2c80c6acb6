"""Further convolutional networks, forward passes: ResNet of plain blocks, Darknet, Xception, for text, for images.

None of them has attention. Image models take [B, H, W, 3] and, but for the last, return class scores [B, classes].
"""

from __future__ import annotations

from collections.abc import Sequence

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.convolutional import batch_norm

DARKNET_19 = ((64,), (128, 64, 128), (256, 128, 256), (512, 256, 512, 256, 512), (1024, 512, 1024, 512, 1024))
"""Channels of the convolutions of each stage, 3x3 and 1x1 in turn (Redmon and Farhadi 2016, table 6)."""
VDCNN_BLOCKS = {9: (1, 1, 1, 1), 17: (2, 2, 2, 2), 29: (5, 5, 2, 2)}
"""Blocks of two convolutions per width by depth (Conneau et al. 2016, table 2)."""


def plain_block_resnet(
    images: jax.Array, *, blocks: Sequence[int] = (2, 2, 2, 2), width: int = 64, classes: int = 1000
) -> jax.Array:
    """ResNet-18 and its like (He et al. 2015, table 1): residual blocks of two 3x3 convolutions."""
    x = _conv(images, width, 7, 2, "stem")
    x = hk.max_pool(x, (3, 3, 1), (2, 2, 1), "SAME")
    for stage, count in enumerate(blocks):
        for i in range(count):
            channels, stride = width * 2**stage, 2 if stage and not i else 1
            with hk.name_scope(f"stage_{stage}_{i}"):
                shortcut = _conv(x, channels, 1, stride, "shortcut", "none") if stride == 2 else x
                y = _conv(_conv(x, channels, 3, stride, "conv_1"), channels, 3, 1, "conv_2", "none")
                x = jax.nn.relu(shortcut + y)
    return hk.Linear(classes, name="scores")(jnp.mean(x, axis=(1, 2)))


def darknet_19(images: jax.Array, *, classes: int = 1000) -> jax.Array:
    """Darknet-19, the classifier behind YOLO v2 (Redmon and Farhadi 2016, table 6)."""
    x = hk.max_pool(_conv(images, 32, 3, 1, "stem", "leaky"), (2, 2, 1), (2, 2, 1), "VALID")
    for stage, widths in enumerate(DARKNET_19):
        for i, channels in enumerate(widths):
            x = _conv(x, channels, 1 if i % 2 else 3, 1, f"conv_{stage}_{i}", "leaky")
        if stage < len(DARKNET_19) - 1:
            x = hk.max_pool(x, (2, 2, 1), (2, 2, 1), "VALID")
    return jax.nn.softmax(jnp.mean(hk.Conv2D(classes, 1, name="scores")(x), axis=(1, 2)))


def darknet_53(images: jax.Array, *, blocks: Sequence[int] = (1, 2, 8, 8, 4), classes: int = 1000) -> jax.Array:
    """Darknet-53, the classifier behind YOLO v3 (Redmon and Farhadi 2018, table 1)."""
    x = _conv(images, 32, 3, 1, "stem", "leaky")
    for stage, count in enumerate(blocks):
        channels = 64 * 2**stage
        x = _conv(x, channels, 3, 2, f"down_{stage}", "leaky")
        for i in range(count):
            with hk.name_scope(f"stage_{stage}_{i}"):
                x = x + _conv(_conv(x, channels // 2, 1, 1, "reduce", "leaky"), channels, 3, 1, "conv", "leaky")
    return hk.Linear(classes, name="scores")(jnp.mean(x, axis=(1, 2)))


def xception(images: jax.Array, *, middle: int = 8, classes: int = 1000) -> jax.Array:
    """Xception (Chollet 2016, figure 5) for images [B, 299, 299, 3]; `middle` blocks between entry and exit."""
    x = _conv(_conv(images, 32, 3, 2, "stem_1", padding="VALID"), 64, 3, 1, "stem_2", padding="VALID")
    for i, channels in enumerate((128, 256, 728)):
        x = _narrowing(x, (channels, channels), f"entry_{i}", first_activation=i > 0)
    for i in range(middle):
        y = x
        for j in range(3):
            y = _separable(jax.nn.relu(y), 728, f"middle_{i}_{j}")
        x = x + y
    x = _narrowing(x, (728, 1024), "exit", first_activation=True)
    x = jax.nn.relu(_separable(x, 1536, "exit_1"))
    x = jax.nn.relu(_separable(x, 2048, "exit_2"))
    return hk.Linear(classes, name="scores")(jnp.mean(x, axis=(1, 2)))


def text_classifier(
    tokens: jax.Array, *, sizes: Sequence[int] = (3, 4, 5), width: int = 300, channels: int = 100, classes: int = 2
) -> jax.Array:
    """Convolutions of several sizes side by side over word vectors (Kim 2014); `tokens` is [B, S] int32."""
    x = hk.Embed(20_000, width, name="embedding")(tokens)
    convolutions = [jax.nn.relu(hk.Conv1D(channels, size, padding="VALID", name=f"conv_{size}")(x)) for size in sizes]
    x = jnp.concatenate([jnp.max(y, axis=1) for y in convolutions], axis=-1)
    return jax.nn.softmax(hk.Linear(classes, name="scores")(x))


def very_deep_text_classifier(tokens: jax.Array, *, depth: int = 17, classes: int = 14) -> jax.Array:
    """VDCNN (Conneau et al. 2016): up to 29 convolutions over characters [B, 1024] int32.

    The mean over eighths of the sequence stands for the paper's eight greatest values, which would have to sort.
    """
    x = hk.Conv1D(64, 3, name="stem")(hk.Embed(69, 16, name="embedding")(tokens))
    for stage, count in enumerate(VDCNN_BLOCKS[depth]):
        for i in range(2 * count):
            x = hk.Conv1D(64 * 2**stage, 3, with_bias=False, name=f"conv_{stage}_{i}")(x)
            x = jax.nn.relu(batch_norm(x, f"norm_{stage}_{i}"))
        if stage < 3:
            x = hk.max_pool(x, (3, 1), (2, 1), "SAME")
    eighth = x.shape[1] // 8
    x = hk.Flatten()(hk.avg_pool(x, (eighth, 1), (eighth, 1), "VALID"))
    for i in range(2):
        x = jax.nn.relu(hk.Linear(2048, name=f"dense_{i}")(x))
    return jax.nn.softmax(hk.Linear(classes, name="scores")(x))


def denoising_autoencoder(images: jax.Array, *, levels: int = 4, channels: int = 64, repeats: int = 2) -> jax.Array:
    """Convolutions down and transposed convolutions up, without skips (after Mao et al. 2016): images again."""
    x = images
    for level in range(levels):
        for i in range(repeats):
            stride = 2 if i == repeats - 1 else 1
            x = jax.nn.relu(hk.Conv2D(channels * 2**level, 3, stride=stride, name=f"down_{level}_{i}")(x))
    for level in reversed(range(levels)):
        for i in range(repeats):
            stride = 1 if i else 2
            x = jax.nn.relu(hk.Conv2DTranspose(channels * 2**level, 3, stride=stride, name=f"up_{level}_{i}")(x))
    return jax.nn.sigmoid(hk.Conv2D(images.shape[-1], 3, name="image")(x))


def _narrowing(x: jax.Array, widths: tuple[int, int], name: str, *, first_activation: bool) -> jax.Array:
    """Two separable convolutions and a pool beside a strided convolution of single pixels."""
    shortcut = _conv(x, widths[1], 1, 2, f"{name}_shortcut", "none")
    y = jax.nn.relu(x) if first_activation else x
    y = jax.nn.relu(_separable(y, widths[0], f"{name}_1"))
    y = hk.max_pool(_separable(y, widths[1], f"{name}_2"), (3, 3, 1), (2, 2, 1), "SAME")
    return shortcut + y


def _separable(x: jax.Array, channels: int, name: str) -> jax.Array:
    x = hk.DepthwiseConv2D(1, 3, padding="SAME", with_bias=False, name=f"{name}_depthwise")(x)
    return batch_norm(hk.Conv2D(channels, 1, with_bias=False, name=f"{name}_pointwise")(x), f"{name}_norm")


def _conv(
    x: jax.Array, channels: int, size: int, stride: int, name: str, activation: str = "relu", padding: str = "SAME"
) -> jax.Array:
    """Convolution, normalisation, and an activation: ``relu``, ``leaky`` or ``none``."""
    x = hk.Conv2D(channels, size, stride=stride, padding=padding, with_bias=False, name=name)(x)
    x = batch_norm(x, f"{name}_norm")
    if activation == "leaky":
        return jax.nn.leaky_relu(x, 0.1)
    return jax.nn.relu(x) if activation == "relu" else x
