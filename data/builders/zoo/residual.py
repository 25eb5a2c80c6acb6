"""Convolutional networks for images [B, H, W, 3] with residual connections or separable
convolutions.

Unless said otherwise they return class scores [B, classes].
"""

from collections.abc import Callable, Sequence

import haiku as hk
import jax
import jax.numpy as jnp

from .layers import batch_norm, conv, halved, layer_norm, pooled_scores

Stage = tuple[int, int, int, int, int]
"""Expansion, channels, blocks, first stride, kernel size."""
RESNET_BLOCKS = {14: (1, 1, 1, 1), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Bottleneck blocks per stage by depth (He et al. 2015, table 1; 14 is a smaller one)."""
MOBILENET_STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
MOBILENET_CHANNELS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
"""Separable layers of MobileNet (Howard et al. 2017, table 1)."""
MNASNET_B1: tuple[Stage, ...] = (
    (3, 24, 3, 2, 3),
    (3, 40, 3, 2, 5),
    (6, 80, 3, 2, 5),
    (6, 96, 2, 1, 3),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Stages of MnasNet-B1 (Tan et al. 2019), after the separable layer of 16 channels."""
EFFICIENTNET_B0: tuple[Stage, ...] = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Stages of EfficientNet-B0 (Tan and Le 2019, table 1)."""
SHUFFLENET_STAGES = ((116, 4), (232, 8), (464, 4))
"""Channels and blocks of ShuffleNet v2 1x (Ma et al. 2018, table 5)."""
CONVNEXT_TINY = ((96, 3), (192, 3), (384, 9), (768, 3))
"""Channels and blocks per stage (Liu et al. 2022)."""


def resnet(
    images: jax.Array, *, depth: int = 50, classes: int = 1000, training: bool = False
) -> jax.Array:
    """ResNet with bottleneck blocks (He et al. 2015)."""
    x = halved(conv(images, 64, 7, 2, "stem", training=training), 3, "SAME")
    for stage, count in enumerate(RESNET_BLOCKS[depth]):
        for i in range(count):
            width, stride = 64 * 2**stage, 2 if stage and not i else 1
            with hk.name_scope(f"stage_{stage}_{i}"):
                shortcut = (
                    x if i else conv(x, 4 * width, 1, stride, "shortcut", None, training=training)
                )
                y = conv(x, width, 1, 1, "reduce", training=training)
                y = conv(y, width, 3, stride, "conv", training=training)
                x = jax.nn.relu(
                    shortcut + conv(y, 4 * width, 1, 1, "expand", None, training=training)
                )
    return pooled_scores(x, classes)


def mobilenet(
    images: jax.Array, *, width: float = 1.0, classes: int = 1000, training: bool = False
) -> jax.Array:
    """MobileNet v1 (Howard et al. 2017): class probabilities [B, classes], scores where
    `training`."""
    x = hk.Conv2D(int(32 * width), 3, stride=2, with_bias=False, name="stem")(images)
    x = jax.nn.relu(batch_norm(x, "norm", training))
    for i, (stride, channels) in enumerate(zip(MOBILENET_STRIDES, MOBILENET_CHANNELS)):
        x = hk.DepthwiseConv2D(
            1, 3, stride=stride, padding="SAME", with_bias=False, name=f"depthwise_{i}"
        )(x)
        x = jax.nn.relu6(batch_norm(x, f"depthwise_norm_{i}", training))
        x = hk.Conv2D(int(channels * width), 1, with_bias=False, name=f"pointwise_{i}")(x)
        x = jax.nn.relu6(batch_norm(x, f"pointwise_norm_{i}", training))
    scores = pooled_scores(x, classes)
    return scores if training else jax.nn.softmax(scores)


def mnasnet(
    images: jax.Array,
    *,
    stages: Sequence[Stage] = MNASNET_B1,
    classes: int = 1000,
    training: bool = False,
) -> jax.Array:
    """MnasNet-B1 (Tan et al. 2019)."""
    x = conv(images, 32, 3, 2, "stem", training=training)
    x = _depthwise(x, 3, 1, "separable", jax.nn.relu, training)
    x = conv(x, 16, 1, 1, "separable_project", None, training=training)
    x = _inverted_bottlenecks(x, stages, jax.nn.relu, training, attend=False)
    return pooled_scores(conv(x, 1280, 1, 1, "head", training=training), classes)


def efficientnet(
    images: jax.Array,
    *,
    stages: Sequence[Stage] = EFFICIENTNET_B0,
    classes: int = 1000,
    training: bool = False,
) -> jax.Array:
    """EfficientNet-B0 (Tan and Le 2019)."""
    x = conv(images, 32, 3, 2, "stem", jax.nn.swish, training=training)
    x = _inverted_bottlenecks(x, stages, jax.nn.swish, training, attend=True)
    return pooled_scores(conv(x, 1280, 1, 1, "head", jax.nn.swish, training=training), classes)


def _inverted_bottlenecks(
    x: jax.Array, stages: Sequence[Stage], activation: Callable, training: bool, *, attend: bool
) -> jax.Array:
    for stage, (expansion, channels, blocks, first_stride, size) in enumerate(stages):
        for i in range(blocks):
            with hk.name_scope(f"stage_{stage}_{i}"):
                width, stride = x.shape[-1], 1 if i else first_stride
                y = (
                    x
                    if expansion == 1
                    else conv(x, expansion * width, 1, 1, "expand", activation, training=training)
                )
                y = _depthwise(y, size, stride, "depthwise", activation, training)
                y = _squeeze_and_excite(y, width // 4) if attend else y
                y = conv(y, channels, 1, 1, "project", None, training=training)
                x = x + y if x.shape == y.shape else y
    return x


def _squeeze_and_excite(x: jax.Array, width: int) -> jax.Array:
    """Scales every channel by a gate computed from the means of all channels."""
    gate = jax.nn.swish(hk.Linear(width, name="squeeze")(jnp.mean(x, axis=(1, 2))))
    return x * jax.nn.sigmoid(hk.Linear(x.shape[-1], name="excite")(gate))[:, None, None]


def shufflenet(
    images: jax.Array,
    *,
    stages: Sequence[tuple[int, int]] = SHUFFLENET_STAGES,
    classes: int = 1000,
    training: bool = False,
) -> jax.Array:
    """ShuffleNet v2 1x (Ma et al. 2018)."""
    x = halved(conv(images, 24, 3, 2, "stem", training=training), 3, "SAME")
    for stage, (channels, blocks) in enumerate(stages):
        for i in range(blocks):
            with hk.name_scope(f"stage_{stage}_{i}"):
                x = _shuffle_block(x, channels // 2, 1 if i else 2, training)
    return pooled_scores(conv(x, 1024, 1, 1, "head", training=training), classes)


def _shuffle_block(x: jax.Array, half: int, stride: int, training: bool) -> jax.Array:
    kept, y = (x, x) if stride == 2 else jnp.split(x, 2, axis=-1)
    if stride == 2:
        kept = _depthwise(kept, 3, 2, "kept_depthwise", None, training)
        kept = conv(kept, half, 1, 1, "kept_pointwise", training=training)
    y = conv(y, half, 1, 1, "pointwise_1", training=training)
    y = _depthwise(y, 3, stride, "depthwise", None, training)
    y = conv(y, half, 1, 1, "pointwise_2", training=training)
    both = jnp.stack([kept, y], axis=-1)  # channels of the two halves alternate
    return both.reshape(*y.shape[:-1], 2 * half)


def _depthwise(
    x: jax.Array, size: int, stride: int, name: str, activation: Callable | None, training: bool
) -> jax.Array:
    x = hk.DepthwiseConv2D(1, size, stride=stride, padding="SAME", with_bias=False, name=name)(x)
    x = batch_norm(x, f"{name}_norm", training)
    return activation(x) if activation else x


def convnext(
    images: jax.Array, *, stages: tuple = CONVNEXT_TINY, classes: int = 1000, training: bool = False
) -> jax.Array:
    """ConvNeXt-T (Liu et al. 2022)."""
    x = layer_norm(
        hk.Conv2D(stages[0][0], 4, stride=4, padding="VALID", name="stem")(images), "stem_norm"
    )
    for stage, (channels, blocks) in enumerate(stages):
        if stage:
            x = layer_norm(x, f"down_norm_{stage}")
            x = hk.Conv2D(channels, 2, stride=2, padding="VALID", name=f"down_{stage}")(x)
        for i in range(blocks):
            with hk.name_scope(f"stage_{stage}_{i}"):
                y = layer_norm(
                    hk.DepthwiseConv2D(1, 7, padding="SAME", name="depthwise")(x), "norm"
                )
                y = hk.Linear(channels, name="contract")(
                    jax.nn.gelu(hk.Linear(4 * channels, name="expand")(y))
                )
                scale = hk.get_parameter(
                    "layer_scale", [channels], init=hk.initializers.Constant(1e-6)
                )
                x = x + y * scale.astype(y.dtype)
    return hk.Linear(classes, name="scores")(layer_norm(jnp.mean(x, axis=(1, 2)), "head_norm"))
