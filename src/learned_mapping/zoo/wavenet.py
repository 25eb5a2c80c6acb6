"""WaveNet (van den Oord et al. 2016): dilated causal convolutions over raw audio."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.alexnet import cross_entropy


def wavenet(
    audio: jax.Array, *, cycles: int = 3, dilations: int = 10, residual: int = 64, skip: int = 256, levels: int = 256
) -> jax.Array:
    """Scores [B, S, levels] of the next sample, given `audio` [B, S] int32 of quantised samples.

    `cycles` times `dilations` gated layers, the dilation doubling within a cycle.
    """
    x = hk.Embed(levels, residual, name="embedding")(audio)
    total = jnp.zeros((*audio.shape, skip), x.dtype)
    for i in range(cycles * dilations):
        with hk.name_scope(f"layer_{i}"):
            hidden = hk.Conv1D(2 * residual, 2, rate=2 ** (i % dilations), padding=hk.pad.causal, name="dilated")(x)
            gated = jnp.tanh(hidden[..., :residual]) * jax.nn.sigmoid(hidden[..., residual:])
            total = total + hk.Conv1D(skip, 1, name="skip")(gated)
            x = x + hk.Conv1D(residual, 1, name="residual")(gated)
    x = jax.nn.relu(total)
    x = jax.nn.relu(hk.Conv1D(skip, 1, name="head_1")(x))
    return hk.Conv1D(levels, 1, name="head_2")(x)


def wavenet_loss(audio: jax.Array, **options: int) -> jax.Array:
    """Mean cross-entropy of each sample given those before it; `audio` is [B, S + 1] int32."""
    return cross_entropy(wavenet(audio[:, :-1], **options), audio[:, 1:])
