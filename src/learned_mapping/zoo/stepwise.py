"""Recurrent networks that write, or forecast, step by step: each step reads what the step before made.

Forward passes, unrolled. None has attention: all a step knows of the past is in the state.
"""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.recurrent import initial_state, unroll


def _stack(core: str, layers: int, width: int, name: str = "layer") -> hk.RNNCore:
    cores = {"rnn": hk.VanillaRNN, "gru": hk.GRU, "lstm": hk.LSTM}
    return hk.DeepRNN([cores[core](width, name=f"{name}_{i}") for i in range(layers)])


def character_generator(
    token: jax.Array, *, core: str = "lstm", steps: int = 8, layers: int = 1, width: int = 512, vocabulary: int = 256
) -> list[jax.Array]:
    """A recurrent network writes the likeliest next character, `steps` times (after Graves 2013).

    Args:
      token: [B] int32, the first character.
      core: ``rnn``, ``gru`` or ``lstm``.

    Returns:
      The characters written, `steps` times [B] int32. They stay apart, here and below: one tensor of all steps would
      need the first step's result until the last step is done.
    """
    network = _stack(core, layers, width)
    return _write(network, None, token, steps=steps, width=width, vocabulary=vocabulary)


def captioner(
    frames: jax.Array, token: jax.Array, *, words: int = 6, layers: int = 1, width: int = 512, vocabulary: int = 4000
) -> list[jax.Array]:
    """An LSTM reads video frames, a second one writes a sentence from its state (after Venugopalan et al. 2015).

    Args:
      frames: [S, B, D] features of the frames.
      token: [B] int32, the mark at a sentence's start.

    Returns:
      The words written, `words` times [B] int32.
    """
    encoder, decoder = _stack("lstm", layers, width, "encoder"), _stack("lstm", layers, width, "decoder")
    state = initial_state(encoder, frames[0])
    for frame in frames:
        _, state = encoder(frame, state)
    return _write(decoder, state, token, steps=words, width=width, vocabulary=vocabulary)


def _write(
    core: hk.RNNCore, state: Any, token: jax.Array, *, steps: int, width: int, vocabulary: int
) -> list[jax.Array]:
    """`steps` times [B] int32: greedy decoding of `core` from `state`, or from zeros where it is None."""
    table = hk.get_parameter("embedding", [vocabulary, width], init=hk.initializers.TruncatedNormal())
    scores = hk.Linear(vocabulary, name="scores")
    state = core.initial_state(token.shape[0]) if state is None else state
    written = []
    for _ in range(steps):
        x = table.at[token].get(mode="promise_in_bounds")
        x, state = core(x, state)
        token = jnp.argmax(scores(x), axis=-1).astype(jnp.int32)
        written.append(token)
    return written


def highway_forecaster(
    start: jax.Array, *, steps: int = 4, depth: int = 4, width: int = 830, features: int = 128
) -> list[jax.Array]:
    """A recurrent highway network (Zilly et al. 2016, eq. 7-9) forecasts a series from its first value [B, D].

    A step runs `depth` highway layers over the state, of which the first reads the input; the carry gate is what the
    transform gate leaves. The forecast is the next input.

    Returns:
      `steps` times [B, features].
    """
    state, x, forecast = jnp.zeros((start.shape[0], width), start.dtype), start, []
    layers = [hk.Linear(2 * width, name=f"highway_{i}") for i in range(depth)]
    out = hk.Linear(features, name="forecast")
    for _ in range(steps):
        for i, layer in enumerate(layers):
            both = layer(jnp.concatenate([x, state], axis=-1) if i == 0 else state)
            new, gate = jnp.tanh(both[:, :width]), jax.nn.sigmoid(both[:, width:])
            state = state + gate * (new - state)
        x = out(state)
        forecast.append(x)
    return forecast


def weather_forecaster(
    maps: jax.Array, *, steps: int = 6, layers: int = 1, channels: int = 64, size: int = 3
) -> list[jax.Array]:
    """Convolutional LSTM (Shi et al. 2015): each map [B, H, W, C] forecasts the next, `steps` times.

    Returns:
      `steps` times [B, H, W, C].
    """
    place = maps.shape[1:3]
    core = hk.DeepRNN([hk.Conv2DLSTM(place, channels, size, name=f"layer_{i}") for i in range(layers)])
    out = hk.Conv2D(maps.shape[-1], 1, name="map")
    state, x, forecast = initial_state(core, maps), maps, []
    for _ in range(steps):
        hidden, state = core(x, state)
        x = out(hidden)
        forecast.append(x)
    return forecast


def text_reader(images: jax.Array, *, channels: int = 64, width: int = 256, classes: int = 37) -> list[jax.Array]:
    """CRNN (Shi et al. 2015) with one LSTM in place of its two of both directions: scores of each column of a line.

    Args:
      images: [B, 32, W, 1], a line of text.

    Returns:
      W / 16 times [B, classes].
    """
    x = images
    for i, (factor, pool) in enumerate(((1, (2, 2)), (2, (2, 2)), (4, (1, 1)), (4, (2, 2)), (8, (1, 1)), (8, (2, 2)))):
        x = jax.nn.relu(hk.Conv2D(channels * factor, 3, name=f"conv_{i}")(x))
        x = x if pool == (1, 1) else hk.max_pool(x, (*pool, 1), (*pool, 1), "VALID")
    x = jax.nn.relu(hk.Conv2D(channels * 8, (2, 1), padding="VALID", name="conv_6")(x))[:, 0]
    columns = unroll(hk.LSTM(width, name="lstm"), [x[:, i] for i in range(x.shape[1])])
    scores = hk.Linear(classes, name="scores")
    return [scores(column) for column in columns]
