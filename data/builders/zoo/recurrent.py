"""Recurrent networks, unrolled: classifiers, a tagger, a language model, a translator."""

import haiku as hk
import jax
import jax.numpy as jnp

from .layers import cross_entropy, stack, unroll


def recurrent_classifier(
    sequence: jax.Array, *, core: str, layers: int = 2, width: int = 1024, classes: int = 1024
) -> jax.Array:
    """Stacked recurrent network: scores [B, classes] after the sequence [S, B, D]; `core` is a key
    of `CORES`."""
    outputs, _ = unroll(stack(core, layers, width), list(sequence))
    return hk.Linear(classes, name="scores")(outputs[-1])


def bidirectional_tagger(sequence: jax.Array, *, width: int = 512, classes: int = 64) -> jax.Array:
    """Bidirectional LSTM tagger (Graves and Schmidhuber 2005): scores [S, B, classes] of the
    sequence [S, B, D]."""
    steps = list(sequence)
    left = unroll(hk.LSTM(width, name="forward"), steps)[0]
    right = unroll(hk.LSTM(width, name="backward"), steps[::-1])[0][::-1]
    tagger = hk.Linear(classes, name="scores")
    return jnp.stack([tagger(jnp.concatenate([a, b], axis=-1)) for a, b in zip(left, right)])


def recurrent_language_model_loss(
    tokens: jax.Array,
    *,
    core: str = "lstm",
    layers: int = 2,
    width: int = 650,
    vocabulary: int = 10_000,
) -> jax.Array:
    """Mean cross-entropy of a recurrent language model; `tokens` is [S + 1, B] int32.

    The defaults are the medium model of Zaremba et al. 2014 without dropout; `core` is a key of
    `CORES`.
    """
    x = hk.Embed(vocabulary, width, name="embedding")(tokens[:-1])
    outputs = jnp.stack(unroll(stack(core, layers, width), list(x))[0])
    return cross_entropy(hk.Linear(vocabulary, name="scores")(outputs), tokens[1:])


def seq2seq_loss(
    source: jax.Array,
    target: jax.Array,
    *,
    layers: int = 2,
    width: int = 1000,
    vocabulary: int = 16_000,
) -> jax.Array:
    """Mean cross-entropy of an LSTM that reads, then writes (Sutskever et al. 2014).

    Args:
      source: [S, B] int32; read backwards, as in the paper.
      target: [T + 1, B] int32.
    """
    encoder, decoder = (
        stack("lstm", layers, width, "encoder"),
        stack("lstm", layers, width, "decoder"),
    )
    _, state = unroll(encoder, hk.Embed(vocabulary, width, name="source_embedding")(source)[::-1])
    outputs, _ = unroll(
        decoder, hk.Embed(vocabulary, width, name="target_embedding")(target[:-1]), state
    )
    return cross_entropy(hk.Linear(vocabulary, name="scores")(jnp.stack(outputs)), target[1:])
