"""Sequences to sequences by recurrence and by convolution: NMT, seq2seq, an LSTM language model, TCN, a game player."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.alexnet import cross_entropy
from learned_mapping.zoo.convolutional import batch_norm
from learned_mapping.zoo.recurrent import initial_state, unroll

CORES = {"rnn": hk.VanillaRNN, "gru": hk.GRU, "lstm": hk.LSTM}


def recurrent_language_model_loss(
    tokens: jax.Array, *, core: str = "lstm", layers: int = 2, width: int = 650, vocabulary: int = 10_000
) -> jax.Array:
    """Mean cross-entropy of a recurrent language model; `tokens` is [S + 1, B] int32.

    The defaults are the medium model of Zaremba et al. 2014 without dropout; `core` is a key of `CORES`.
    """
    x = hk.Embed(vocabulary, width, name="embedding")(tokens[:-1])
    cores = [CORES[core](width, name=f"layer_{i}") for i in range(layers)]
    outputs = jnp.stack(unroll(hk.DeepRNN(cores), list(x)))
    return cross_entropy(hk.Linear(vocabulary, name="scores")(outputs), tokens[1:])


def seq2seq_loss(
    source: jax.Array, target: jax.Array, *, layers: int = 2, width: int = 1000, vocabulary: int = 16_000
) -> jax.Array:
    """Mean cross-entropy of an LSTM that reads, then writes (Sutskever et al. 2014).

    Args:
      source: [S, B] int32; read backwards, as in the paper.
      target: [T + 1, B] int32.
    """
    encoder = hk.DeepRNN([hk.LSTM(width, name=f"encoder_{i}") for i in range(layers)])
    decoder = hk.DeepRNN([hk.LSTM(width, name=f"decoder_{i}") for i in range(layers)])
    steps = hk.Embed(vocabulary, width, name="source_embedding")(source)[::-1]
    state = initial_state(encoder, steps[0])
    for step in steps:
        _, state = encoder(step, state)
    outputs = []
    for step in hk.Embed(vocabulary, width, name="target_embedding")(target[:-1]):
        output, state = decoder(step, state)
        outputs.append(output)
    return cross_entropy(hk.Linear(vocabulary, name="scores")(jnp.stack(outputs)), target[1:])


def translation_by_lstm_loss(
    source: jax.Array,
    target: jax.Array,
    *,
    layers: int = 4,
    width: int = 1024,
    vocabulary: int = 32_000,
) -> jax.Array:
    """Mean cross-entropy of neural machine translation with attention (Wu et al. 2016, GNMT).

    The encoder's first layer runs in both directions, the layers above have residual connections, and the decoder's
    first layer asks for the context that all its layers read.

    Args:
      source: [S, B] int32.
      target: [T + 1, B] int32.
    """
    steps = list(hk.Embed(vocabulary, width, name="source_embedding")(source))
    left = unroll(hk.LSTM(width, name="encoder_left"), steps)
    right = unroll(hk.LSTM(width, name="encoder_right"), steps[::-1])[::-1]
    steps = [jnp.concatenate(pair, axis=-1) for pair in zip(left, right)]
    for i in range(1, layers):
        outputs = unroll(hk.LSTM(width, name=f"encoder_{i}"), steps)
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


def temporal_convolution(
    sequence: jax.Array, *, levels: int = 8, width: int = 256, size: int = 3, classes: int = 256, training: bool = False
) -> jax.Array:
    """TCN (Bai et al. 2018): scores [B, S, classes] of a sequence [B, S, D], each from what came before."""
    x = sequence
    for i in range(levels):
        with hk.name_scope(f"level_{i}"):
            y = x
            for j in range(2):
                conv = hk.Conv1D(width, size, rate=2**i, padding=hk.pad.causal, name=f"conv_{j}")
                y = jax.nn.relu(conv(y))
            x = jax.nn.relu(y + (x if x.shape == y.shape else hk.Conv1D(width, 1, name="match")(x)))
    return hk.Linear(classes, name="scores")(x)


def game_player_loss(
    boards: jax.Array, policy: jax.Array, outcome: jax.Array, *, blocks: int = 20, channels: int = 256
) -> jax.Array:
    """Policy and value loss of AlphaZero's residual tower (Silver et al. 2017).

    Args:
      boards: [B, 19, 19, planes].
      policy: [B, moves], the search's visit probabilities.
      outcome: [B], from -1 to 1.
    """

    def conv(x: jax.Array, width: int, size: int, name: str) -> jax.Array:
        return batch_norm(hk.Conv2D(width, size, with_bias=False, name=name)(x), f"{name}_norm", True)

    x = jax.nn.relu(conv(boards, channels, 3, "stem"))
    for i in range(blocks):
        with hk.name_scope(f"block_{i}"):
            y = jax.nn.relu(conv(x, channels, 3, "conv_1"))
            x = jax.nn.relu(x + conv(y, channels, 3, "conv_2"))
    moves = hk.Linear(policy.shape[-1], name="moves")(hk.Flatten()(jax.nn.relu(conv(x, 2, 1, "policy"))))
    hidden = jax.nn.relu(hk.Linear(256, name="hidden")(hk.Flatten()(jax.nn.relu(conv(x, 1, 1, "value")))))
    value = jnp.tanh(hk.Linear(1, name="outcome")(hidden))[:, 0]
    scores = jnp.sum(policy * jax.nn.log_softmax(moves), axis=-1)
    return jnp.mean(jnp.square(outcome - value) - scores)
