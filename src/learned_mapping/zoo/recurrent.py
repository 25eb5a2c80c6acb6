"""Recurrent networks, unrolled: classifiers, a tagger, translators, and such that write or forecast step by step."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.layers import cross_entropy, initial_state, stack, unroll


def recurrent_classifier(
    sequence: jax.Array, *, core: str, layers: int = 2, width: int = 1024, classes: int = 1024
) -> jax.Array:
    """Stacked recurrent network: scores [B, classes] after the sequence [S, B, D]; `core` is a key of `CORES`."""
    outputs, _ = unroll(stack(core, layers, width), list(sequence))
    return hk.Linear(classes, name="scores")(outputs[-1])


def bidirectional_tagger(sequence: jax.Array, *, width: int = 512, classes: int = 64) -> jax.Array:
    """Bidirectional LSTM tagger (Graves and Schmidhuber 2005): scores [S, B, classes] of the sequence [S, B, D]."""
    steps = list(sequence)
    left = unroll(hk.LSTM(width, name="forward"), steps)[0]
    right = unroll(hk.LSTM(width, name="backward"), steps[::-1])[0][::-1]
    tagger = hk.Linear(classes, name="scores")
    return jnp.stack([tagger(jnp.concatenate([a, b], axis=-1)) for a, b in zip(left, right)])


def recurrent_language_model_loss(
    tokens: jax.Array, *, core: str = "lstm", layers: int = 2, width: int = 650, vocabulary: int = 10_000
) -> jax.Array:
    """Mean cross-entropy of a recurrent language model; `tokens` is [S + 1, B] int32.

    The defaults are the medium model of Zaremba et al. 2014 without dropout; `core` is a key of `CORES`.
    """
    x = hk.Embed(vocabulary, width, name="embedding")(tokens[:-1])
    outputs = jnp.stack(unroll(stack(core, layers, width), list(x))[0])
    return cross_entropy(hk.Linear(vocabulary, name="scores")(outputs), tokens[1:])


def seq2seq_loss(
    source: jax.Array, target: jax.Array, *, layers: int = 2, width: int = 1000, vocabulary: int = 16_000
) -> jax.Array:
    """Mean cross-entropy of an LSTM that reads, then writes (Sutskever et al. 2014).

    Args:
      source: [S, B] int32; read backwards, as in the paper.
      target: [T + 1, B] int32.
    """
    encoder, decoder = stack("lstm", layers, width, "encoder"), stack("lstm", layers, width, "decoder")
    _, state = unroll(encoder, hk.Embed(vocabulary, width, name="source_embedding")(source)[::-1])
    outputs, _ = unroll(decoder, hk.Embed(vocabulary, width, name="target_embedding")(target[:-1]), state)
    return cross_entropy(hk.Linear(vocabulary, name="scores")(jnp.stack(outputs)), target[1:])


def translation_by_lstm_loss(
    source: jax.Array, target: jax.Array, *, layers: int = 4, width: int = 1024, vocabulary: int = 32_000
) -> jax.Array:
    """Mean cross-entropy of neural machine translation with attention (Wu et al. 2016, GNMT).

    The encoder's first layer runs in both directions, the layers above have residual connections, and the decoder's
    first layer asks for the context that all its layers read.

    Args:
      source: [S, B] int32.
      target: [T + 1, B] int32.
    """
    steps = list(hk.Embed(vocabulary, width, name="source_embedding")(source))
    left = unroll(hk.LSTM(width, name="encoder_left"), steps)[0]
    right = unroll(hk.LSTM(width, name="encoder_right"), steps[::-1])[0][::-1]
    steps = [jnp.concatenate(pair, axis=-1) for pair in zip(left, right)]
    for i in range(1, layers):
        outputs = unroll(hk.LSTM(width, name=f"encoder_{i}"), steps)[0]
        steps = [out + step for out, step in zip(outputs, steps)] if i > 1 else outputs
    memory = jnp.stack(steps, axis=1)
    keys = hk.Linear(width, with_bias=False, name="keys")(memory)
    query, score = hk.Linear(width, name="query"), hk.Linear(1, with_bias=False, name="energy")
    cores = [hk.LSTM(width, name=f"decoder_{i}") for i in range(layers)]
    states = [initial_state(core, memory[:, 0]) for core in cores]
    context, written = jnp.zeros_like(memory[:, 0]), []
    for step in hk.Embed(vocabulary, width, name="target_embedding")(target[:-1]):
        x, states[0] = cores[0](jnp.concatenate([step, context], axis=-1), states[0])
        energy = score(jnp.tanh(query(x)[:, None] + keys))
        context = jnp.sum(jax.nn.softmax(energy, axis=1) * memory, axis=1)
        for i in range(1, layers):
            out, states[i] = cores[i](jnp.concatenate([x, context], axis=-1), states[i])
            x = out + x if i > 1 else out
        written.append(x)
    return cross_entropy(hk.Linear(vocabulary, name="scores")(jnp.stack(written)), target[1:])
