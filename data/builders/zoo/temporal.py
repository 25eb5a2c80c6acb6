"""Convolutions over sequences: WaveNet and TCN."""

import haiku as hk
import jax
import jax.numpy as jnp

from .layers import cross_entropy


def wavenet(
    audio: jax.Array,
    *,
    cycles: int = 3,
    dilations: int = 10,
    residual: int = 64,
    skip: int = 256,
    levels: int = 256,
) -> jax.Array:
    """WaveNet (van den Oord et al. 2016): scores [B, S, levels] of the next sample, given `audio`
    [B, S] int32.

    `cycles` times `dilations` gated layers, the dilation doubling within a cycle.
    """
    x = hk.Embed(levels, residual, name="embedding")(audio)
    total = jnp.zeros((*audio.shape, skip), x.dtype)
    for i in range(cycles * dilations):
        with hk.name_scope(f"layer_{i}"):
            hidden = hk.Conv1D(
                2 * residual, 2, rate=2 ** (i % dilations), padding=hk.pad.causal, name="dilated"
            )(x)
            gated = jnp.tanh(hidden[..., :residual]) * jax.nn.sigmoid(hidden[..., residual:])
            total = total + hk.Conv1D(skip, 1, name="skip")(gated)
            x = x + hk.Conv1D(residual, 1, name="residual")(gated)
    x = jax.nn.relu(total)
    x = jax.nn.relu(hk.Conv1D(skip, 1, name="head_1")(x))
    return hk.Conv1D(levels, 1, name="head_2")(x)


def wavenet_loss(audio: jax.Array, **options: int) -> jax.Array:
    """Mean cross-entropy of each sample given those before it; `audio` is [B, S + 1] int32."""
    return cross_entropy(wavenet(audio[:, :-1], **options), audio[:, 1:])


def temporal_convolution(
    sequence: jax.Array,
    *,
    levels: int = 8,
    width: int = 256,
    size: int = 3,
    classes: int = 256,
    training: bool = False,
) -> jax.Array:
    """TCN (Bai et al. 2018): scores [B, S, classes] of a sequence [B, S, D], each from what came
    before."""
    x = sequence
    for i in range(levels):
        with hk.name_scope(f"level_{i}"):
            y = x
            for j in range(2):
                conv = hk.Conv1D(width, size, rate=2**i, padding=hk.pad.causal, name=f"conv_{j}")
                y = jax.nn.relu(conv(y))
            x = jax.nn.relu(y + (x if x.shape == y.shape else hk.Conv1D(width, 1, name="match")(x)))
    return hk.Linear(classes, name="scores")(x)
