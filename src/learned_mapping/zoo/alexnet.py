"""AlexNet (Krizhevsky et al. 2012, sizes of Krizhevsky 2014): five convolutions and three dense layers."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp


def alexnet(images: jax.Array, *, classes: int = 1000, training: bool = False) -> jax.Array:
    """Class scores [B, classes] of images [B, 224, 224, 3].

    The single-tower layer sizes of the author's later version, with the response normalisation and the dropout of the
    first.
    """
    x = jax.nn.relu(hk.Conv2D(64, 11, stride=4, padding="VALID", name="conv_1")(images))
    x = hk.max_pool(_response_norm(x), (3, 3, 1), (2, 2, 1), "VALID")
    x = jax.nn.relu(hk.Conv2D(192, 5, name="conv_2")(x))
    x = hk.max_pool(_response_norm(x), (3, 3, 1), (2, 2, 1), "VALID")
    x = jax.nn.relu(hk.Conv2D(384, 3, name="conv_3")(x))
    x = jax.nn.relu(hk.Conv2D(384, 3, name="conv_4")(x))
    x = jax.nn.relu(hk.Conv2D(256, 3, name="conv_5")(x))
    x = hk.max_pool(x, (3, 3, 1), (2, 2, 1), "VALID")
    x = hk.Flatten()(x)
    for i in (6, 7):
        x = jax.nn.relu(hk.Linear(4096, name=f"dense_{i}")(x))
        if training:
            x = hk.dropout(hk.next_rng_key(), 0.5, x)
    return hk.Linear(classes, name="dense_8")(x)


def _response_norm(
    x: jax.Array, depth: int = 5, alpha: float = 1e-4, beta: float = 0.75, bias: float = 2.0
) -> jax.Array:
    """Local response normalisation across channels."""
    window = jax.lax.reduce_window(
        jnp.square(x),
        x.dtype.type(0),
        jax.lax.add,
        (1, 1, 1, depth),
        (1, 1, 1, 1),
        [(0, 0)] * 3 + [(depth // 2, depth // 2)],
    )
    return x / (bias + alpha * window) ** beta


def alexnet_loss(images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of a training batch; `labels` is [B] int32."""
    return cross_entropy(alexnet(images, training=True), labels)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy [] of `logits` [..., C] and integer `labels` [...]."""
    one_hot = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    return -jnp.mean(jnp.sum(one_hot * jax.nn.log_softmax(logits), axis=-1))
