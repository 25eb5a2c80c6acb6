"""Recurrent networks, unrolled: LSTM, GRU, the simple one, and a bidirectional tagger."""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp


def lstm(sequence: jax.Array, *, layers: int = 2, width: int = 1024, classes: int = 1024) -> jax.Array:
    """Stacked LSTM (Hochreiter and Schmidhuber 1997): scores [B, classes] after the sequence [S, B, D]."""
    core = hk.DeepRNN([hk.LSTM(width, name=f"layer_{i}") for i in range(layers)])
    return hk.Linear(classes, name="scores")(unroll(core, list(sequence))[-1])


def vanilla_rnn(sequence: jax.Array, *, layers: int = 2, width: int = 1024, classes: int = 1024) -> jax.Array:
    """Stacked simple recurrent network (Elman 1990): scores [B, classes] after the sequence [S, B, D]."""
    core = hk.DeepRNN([hk.VanillaRNN(width, name=f"layer_{i}") for i in range(layers)])
    return hk.Linear(classes, name="scores")(unroll(core, list(sequence))[-1])


def gru(sequence: jax.Array, *, layers: int = 2, width: int = 1024, classes: int = 1024) -> jax.Array:
    """Stacked GRU (Cho et al. 2014): scores [B, classes] after the sequence [S, B, D]."""
    core = hk.DeepRNN([hk.GRU(width, name=f"layer_{i}") for i in range(layers)])
    return hk.Linear(classes, name="scores")(unroll(core, list(sequence))[-1])


def bidirectional_tagger(sequence: jax.Array, *, width: int = 512, classes: int = 64) -> jax.Array:
    """Bidirectional LSTM tagger (Graves and Schmidhuber 2005): scores [S, B, classes] of the sequence [S, B, D]."""
    steps = list(sequence)
    left = unroll(hk.LSTM(width, name="forward"), steps)
    right = unroll(hk.LSTM(width, name="backward"), steps[::-1])[::-1]
    tagger = hk.Linear(classes, name="scores")
    return jnp.stack([tagger(jnp.concatenate([a, b], axis=-1)) for a, b in zip(left, right)])


def unroll(core: hk.RNNCore, steps: list[jax.Array]) -> list[jax.Array]:
    """Outputs of a recurrent core, one per step."""
    state, outputs = initial_state(core, steps[0]), []
    for step in steps:
        output, state = core(step, state)
        outputs.append(output)
    return outputs


def initial_state(core: hk.RNNCore, step: jax.Array) -> Any:
    """The core's state of zeros, of the element type of the inputs [B, D]."""
    return jax.tree_util.tree_map(lambda zeros: zeros.astype(step.dtype), core.initial_state(step.shape[0]))
