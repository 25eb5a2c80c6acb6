"""Convolutional networks for images [B, H, W, C], without residual connections.

Unless said otherwise they return class probabilities [B, classes], scores before the softmax where
`training`.
"""

from collections.abc import Sequence

import haiku as hk
import jax
import jax.numpy as jnp

from .layers import batch_norm, conv, halved, pooled_scores

VGG_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions per stage by depth (Simonyan and Zisserman 2014, table 1)."""
INCEPTION_BLOCKS = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)
"""Channels of 1x1, 3x3 reduction, 3x3, 5x5 reduction, 5x5 and pooled projection per block (Szegedy
et al. 2014, table 1)."""
SSD_ANCHORS = (4, 6, 6, 6, 4, 4)
"""Default boxes per place of each feature map (Liu et al. 2016, section 3.1)."""
SSD_LAYERS = (
    (256, 512, 2, "SAME"),
    (128, 256, 2, "SAME"),
    (128, 256, 1, "VALID"),
    (128, 256, 1, "VALID"),
)
"""Channels of the reducing and the next convolution, its stride, its padding: the layers behind VGG
(figure 2)."""


def _relu_conv(
    x: jax.Array, channels: int, size: int, name: str, stride: int = 1, padding: str = "SAME"
) -> jax.Array:
    return jax.nn.relu(hk.Conv2D(channels, size, stride=stride, padding=padding, name=name)(x))


def _finish(scores: jax.Array, training: bool) -> jax.Array:
    return scores if training else jax.nn.softmax(scores)


def lenet(images: jax.Array, *, classes: int = 10) -> jax.Array:
    """LeNet-5 (LeCun et al. 1998) for images [B, 28, 28, 1]."""
    x = hk.avg_pool(jnp.tanh(hk.Conv2D(6, 5, name="conv_1")(images)), (2, 2, 1), (2, 2, 1), "VALID")
    x = hk.avg_pool(
        jnp.tanh(hk.Conv2D(16, 5, padding="VALID", name="conv_2")(x)), (2, 2, 1), (2, 2, 1), "VALID"
    )
    x = jnp.tanh(hk.Linear(120, name="dense_3")(hk.Flatten()(x)))
    x = jnp.tanh(hk.Linear(84, name="dense_4")(x))
    return jax.nn.softmax(hk.Linear(classes, name="dense_5")(x))


def alexnet(images: jax.Array, *, classes: int = 1000, training: bool = False) -> jax.Array:
    """AlexNet: class scores [B, classes].

    The single-tower layer sizes of the author's later version (Krizhevsky 2014), with the response
    normalisation and the dropout of the first (Krizhevsky et al. 2012).
    """
    x = halved(_response_norm(_relu_conv(images, 64, 11, "conv_1", 4, "VALID")), 3)
    x = halved(_response_norm(_relu_conv(x, 192, 5, "conv_2")), 3)
    for name, channels in (("conv_3", 384), ("conv_4", 384), ("conv_5", 256)):
        x = _relu_conv(x, channels, 3, name)
    x = hk.Flatten()(halved(x, 3))
    for i in (6, 7):
        x = jax.nn.relu(hk.Linear(4096, name=f"dense_{i}")(x))
        if training:
            x = hk.dropout(hk.next_rng_key(), 0.5, x)
    return hk.Linear(classes, name="dense_8")(x)


def _response_norm(x: jax.Array) -> jax.Array:
    """Local response normalisation across five channels."""
    padding = [(0, 0)] * 3 + [(2, 2)]
    window = jax.lax.reduce_window(
        jnp.square(x), x.dtype.type(0), jax.lax.add, (1, 1, 1, 5), (1, 1, 1, 1), padding
    )
    return x / (2.0 + 1e-4 * window) ** 0.75


def vgg(
    images: jax.Array, *, depth: int = 16, classes: int = 1000, training: bool = False
) -> jax.Array:
    """VGG (Simonyan and Zisserman 2014)."""
    x = images
    for stage, count in enumerate(VGG_STAGES[depth]):
        x = halved(_vgg_stage(x, stage, count))
    x = hk.Flatten()(x)
    for i in range(2):
        x = jax.nn.relu(hk.Linear(4096, name=f"dense_{i}")(x))
    return _finish(hk.Linear(classes, name="scores")(x), training)


def _vgg_stage(x: jax.Array, stage: int, count: int) -> jax.Array:
    for i in range(count):
        x = _relu_conv(x, min(64 * 2**stage, 512), 3, f"conv_{stage}_{i}")
    return x


def ssd(images: jax.Array, *, classes: int = 81) -> tuple[jax.Array, jax.Array]:
    """SSD300 (Liu et al. 2016): box offsets [B, 8732, 4] and class probabilities [B, 8732,
    classes].

    From feature maps of six sizes in one pass: of VGG-16 with its dense layers turned into
    convolutions, and of four extra layers.
    """
    maps, x = [], images
    for stage, count in enumerate(VGG_STAGES[16]):
        x = _vgg_stage(x, stage, count)
        if stage == 3:
            scale = hk.get_parameter(
                "scale", [x.shape[-1]], init=hk.initializers.Constant(20.0)
            ).astype(x.dtype)
            maps.append(x * scale * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-6))
        x = (
            hk.max_pool(x, (3, 3, 1), (1, 1, 1), "SAME")
            if stage == 4
            else halved(x, padding="SAME")
        )
    x = jax.nn.relu(hk.Conv2D(1024, 3, rate=6, name="conv_6")(x))
    maps.append(_relu_conv(x, 1024, 1, "conv_7"))
    for i, (reduced, channels, stride, padding) in enumerate(SSD_LAYERS):
        x = _relu_conv(maps[-1], reduced, 1, f"extra_{i}_reduce")
        maps.append(_relu_conv(x, channels, 3, f"extra_{i}", stride, padding))
    boxes, scores = [], []
    for i, (x, anchors) in enumerate(zip(maps, SSD_ANCHORS)):
        boxes.append(hk.Conv2D(4 * anchors, 3, name=f"boxes_{i}")(x).reshape(len(x), -1, 4))
        scores.append(
            hk.Conv2D(classes * anchors, 3, name=f"scores_{i}")(x).reshape(len(x), -1, classes)
        )
    return jnp.concatenate(boxes, axis=1), jax.nn.softmax(jnp.concatenate(scores, axis=1))


def squeezenet(
    images: jax.Array, *, padding: str = "VALID", classes: int = 1000, training: bool = False
) -> jax.Array:
    """SqueezeNet 1.1 (Iandola et al. 2016)."""
    x = _relu_conv(images, 64, 3, "conv_1", 2, padding)
    for i, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        x = halved(x, 3, padding) if i in (0, 2, 4) else x
        x = _relu_conv(x, squeezed, 1, f"fire_{i}_squeeze")
        small = _relu_conv(x, 4 * squeezed, 1, f"fire_{i}_expand_1")
        large = _relu_conv(x, 4 * squeezed, 3, f"fire_{i}_expand_3")
        x = jnp.concatenate([small, large], axis=-1)
    return _finish(jnp.mean(_relu_conv(x, classes, 1, "conv_10"), axis=(1, 2)), training)


def inception(
    images: jax.Array,
    *,
    blocks: Sequence[tuple] = INCEPTION_BLOCKS,
    classes: int = 1000,
    training: bool = False,
) -> jax.Array:
    """GoogLeNet, the first Inception network (Szegedy et al. 2014)."""
    x = halved(_relu_conv(images, 64, 7, "conv_1", 2), 3, "SAME")
    x = halved(_relu_conv(_relu_conv(x, 64, 1, "conv_2_reduce"), 192, 3, "conv_2"), 3, "SAME")
    for i, (one, three_in, three, five_in, five, pooled) in enumerate(blocks):
        with hk.name_scope(f"block_{i}"):
            branches = [
                _relu_conv(x, one, 1, "one"),
                _relu_conv(_relu_conv(x, three_in, 1, "three_reduce"), three, 3, "three"),
                _relu_conv(_relu_conv(x, five_in, 1, "five_reduce"), five, 5, "five"),
                _relu_conv(hk.max_pool(x, (3, 3, 1), (1, 1, 1), "SAME"), pooled, 1, "pooled"),
            ]
        x = jnp.concatenate(branches, axis=-1)
        x = halved(x, 3, "SAME") if i in (1, 6) else x
    return _finish(pooled_scores(x, classes), training)


def densenet(
    images: jax.Array,
    *,
    blocks: Sequence[int] = (6, 12, 24, 16),
    growth: int = 32,
    training: bool = False,
) -> jax.Array:
    """DenseNet-121 (Huang et al. 2017), 1,000 classes."""
    x = halved(conv(images, 2 * growth, 7, 2, "stem", training=training), 3, "SAME")
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
    return _finish(pooled_scores(x, 1000), training)
