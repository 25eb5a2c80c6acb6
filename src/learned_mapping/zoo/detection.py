"""SSD (Liu et al. 2016): boxes and class scores from feature maps of six sizes, in one pass."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.convolutional import VGG_STAGES

ANCHORS = (4, 6, 6, 6, 4, 4)
"""Default boxes per place of each feature map (section 3.1)."""
EXTRA_LAYERS = ((256, 512, 2, "SAME"), (128, 256, 2, "SAME"), (128, 256, 1, "VALID"), (128, 256, 1, "VALID"))
"""Channels of the reducing and the next convolution, its stride, its padding: the layers behind VGG (figure 2)."""


def ssd(images: jax.Array, *, classes: int = 81) -> tuple[jax.Array, jax.Array]:
    """Box offsets [B, 8732, 4] and class probabilities [B, 8732, classes] of images [B, 300, 300, 3] (SSD300)."""
    maps = _feature_maps(images)
    boxes, scores = [], []
    for i, (x, anchors) in enumerate(zip(maps, ANCHORS)):
        boxes.append(hk.Conv2D(4 * anchors, 3, name=f"boxes_{i}")(x).reshape(len(x), -1, 4))
        scores.append(hk.Conv2D(classes * anchors, 3, name=f"scores_{i}")(x).reshape(len(x), -1, classes))
    return jnp.concatenate(boxes, axis=1), jax.nn.softmax(jnp.concatenate(scores, axis=1))


def _feature_maps(images: jax.Array) -> list[jax.Array]:
    """VGG-16 with its dense layers turned into convolutions, then four extra layers."""
    maps, x = [], images
    for stage, count in enumerate(VGG_STAGES[16]):
        for i in range(count):
            x = jax.nn.relu(hk.Conv2D(min(64 * 2**stage, 512), 3, name=f"conv_{stage}_{i}")(x))
        if stage == 3:
            scale = hk.get_parameter("scale", [x.shape[-1]], init=hk.initializers.Constant(20.0)).astype(x.dtype)
            maps.append(x * scale * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-6))
        window, stride = ((3, 3, 1), (1, 1, 1)) if stage == 4 else ((2, 2, 1), (2, 2, 1))
        x = hk.max_pool(x, window, stride, "SAME")
    x = jax.nn.relu(hk.Conv2D(1024, 3, rate=6, name="conv_6")(x))
    maps.append(jax.nn.relu(hk.Conv2D(1024, 1, name="conv_7")(x)))
    for i, (reduced, channels, stride, padding) in enumerate(EXTRA_LAYERS):
        x = jax.nn.relu(hk.Conv2D(reduced, 1, name=f"extra_{i}_reduce")(maps[-1]))
        maps.append(jax.nn.relu(hk.Conv2D(channels, 3, stride=stride, padding=padding, name=f"extra_{i}")(x)))
    return maps
