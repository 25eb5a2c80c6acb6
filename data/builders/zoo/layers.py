"""Blocks that several models of the zoo are made of."""

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

CORES = {"rnn": hk.VanillaRNN, "gru": hk.GRU, "lstm": hk.LSTM}
"""Elman 1990, Cho et al. 2014, Hochreiter and Schmidhuber 1997."""


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy [] of `logits` [..., C] and integer `labels` [...]."""
    one_hot = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    return -jnp.mean(jnp.sum(one_hot * jax.nn.log_softmax(logits), axis=-1))


def layer_norm(x: jax.Array, name: str, eps: float = 1e-5) -> jax.Array:
    """Layer normalisation over the last axis with learned scale and offset."""
    return hk.LayerNorm(axis=-1, create_scale=True, create_offset=True, eps=eps, name=name)(x)


def batch_norm(x: jax.Array, name: str, training: bool = False) -> jax.Array:
    """Batch normalisation with learned scale and offset."""
    norm = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.99, name=name)
    # only training makes the averages that inference reads
    return norm(x, is_training=training or hk.running_init())


def conv(
    x: jax.Array,
    channels: int,
    size: int,
    stride: int,
    name: str,
    activation: Callable | None = jax.nn.relu,
    *,
    training: bool = False,
    padding: str = "SAME",
) -> jax.Array:
    """Convolution without bias, batch normalisation, activation."""
    x = hk.Conv2D(channels, size, stride=stride, padding=padding, with_bias=False, name=name)(x)
    x = batch_norm(x, f"{name}_norm", training)
    return activation(x) if activation else x


def halved(x: jax.Array, window: int = 2, padding: str = "VALID") -> jax.Array:
    """The greatest of each window of pixels [B, H, W, C], every second one."""
    return hk.max_pool(x, (window, window, 1), (2, 2, 1), padding)


def pooled_scores(x: jax.Array, classes: int) -> jax.Array:
    """Class scores [B, classes] from the means of the channels of [B, H, W, C]."""
    return hk.Linear(classes, name="scores")(jnp.mean(x, axis=(1, 2)))


def multi_head_attention(
    query: jax.Array,
    memory: jax.Array,
    *,
    heads: int,
    bias: jax.Array | None = None,
    name: str = "attention",
) -> jax.Array:
    """Scaled dot-product attention of `query` over `memory`.

    Args:
      query: [B, S, D].
      memory: [B, M, D].
      heads: number of heads; D is divided among them.
      bias: added to the scores [B, heads, S, M] before the softmax, broadcast; large and negative
        where masked.
      name: scope of the four projections.

    Returns:
      [B, S, D].
    """
    batch, length, width = query.shape
    size = width // heads

    def project(x: jax.Array, role: str) -> jax.Array:
        return (
            hk.Linear(width, name=role)(x)
            .reshape(batch, x.shape[1], heads, size)
            .transpose(0, 2, 1, 3)
        )

    with hk.name_scope(name):
        q, k, v = project(query, "query"), project(memory, "key"), project(memory, "value")
        scores = jnp.einsum("bhsd,bhmd->bhsm", q, k) / size**0.5
        weights = jax.nn.softmax(scores if bias is None else scores + bias, axis=-1)
        context = (
            jnp.einsum("bhsm,bhmd->bhsd", weights, v)
            .transpose(0, 2, 1, 3)
            .reshape(batch, length, width)
        )
        return hk.Linear(width, name="output")(context)


def causal_bias(length: int, dtype: jnp.dtype) -> jax.Array:
    """[1, 1, length, length], to be added to scores: a position attends to none behind it."""
    return jnp.where(jnp.tri(length, dtype=bool), 0.0, -1e9).astype(dtype)[None, None]


def feed_forward(x: jax.Array, activation: Callable = jax.nn.relu) -> jax.Array:
    """Two dense layers [..., D], four times as wide in between."""
    y = activation(hk.Linear(4 * x.shape[-1], name="expand")(x))
    return hk.Linear(x.shape[-1], name="contract")(y)


def attention_layer(
    x: jax.Array,
    heads: int,
    bias: jax.Array | None = None,
    *,
    activation: Callable = jax.nn.relu,
    dense_norm: str = "feed_forward_norm",
) -> jax.Array:
    """Self-attention, then a dense block [B, S, D]; each reads the normalised input and is added to
    the input."""
    y = layer_norm(x, "attention_norm")
    x = x + multi_head_attention(y, y, heads=heads, bias=bias)
    return x + feed_forward(layer_norm(x, dense_norm), activation)


def stack(core: str, layers: int, width: int, name: str = "layer") -> hk.RNNCore:
    """Recurrent layers on top of each other; `core` is a key of `CORES`."""
    return hk.DeepRNN([CORES[core](width, name=f"{name}_{i}") for i in range(layers)])


def unroll(core: hk.RNNCore, steps: Any, state: Any = None) -> tuple[list[jax.Array], Any]:
    """Outputs of a recurrent core, one per step [B, D], and its last state; from zeros where
    `state` is None."""
    state, outputs = initial_state(core, steps[0]) if state is None else state, []
    for step in steps:
        output, state = core(step, state)
        outputs.append(output)
    return outputs, state


def initial_state(core: hk.RNNCore, step: jax.Array) -> Any:
    """The core's state of zeros, of the element type of the inputs [B, D]."""
    return jax.tree_util.tree_map(
        lambda zeros: zeros.astype(step.dtype), core.initial_state(step.shape[0])
    )
