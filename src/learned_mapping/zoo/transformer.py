"""Transformers to train: a language model, and the encoder-decoder of the original paper (Vaswani et al. 2017)."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.alexnet import cross_entropy
from learned_mapping.zoo.attention import multi_head_attention


def language_model_loss(
    tokens: jax.Array, *, layers: int = 6, width: int = 512, heads: int = 8, vocabulary: int = 32_000
) -> jax.Array:
    """Mean cross-entropy of a decoder-only Transformer; `tokens` is [B, S + 1] int32."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    x, table = _embed(inputs, vocabulary, width, jnp.float32)
    bias = _causal_bias(inputs.shape[1], x.dtype)
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            y = _norm(x, "attention_norm")
            x = x + multi_head_attention(y, y, heads=heads, bias=bias)
            x = x + _feed_forward(_norm(x, "feed_forward_norm"), 4 * width)
    return cross_entropy(_norm(x, "norm") @ table.T, targets)


def translation_loss(
    source: jax.Array,
    target: jax.Array,
    *,
    layers: int = 6,
    width: int = 512,
    heads: int = 8,
    vocabulary: int = 32_000,
    dtype: jnp.dtype = jnp.bfloat16,
) -> jax.Array:
    """Mean cross-entropy of an encoder-decoder with a shared vocabulary.

    Args:
      source: [B, S] int32.
      target: [B, T + 1] int32.
      layers: layers of the encoder, and of the decoder.
      dtype: type of the activations.
    """
    encoded, table = _embed(source, vocabulary, width, dtype)
    for i in range(layers):
        with hk.name_scope(f"encoder_{i}"):
            y = _norm(encoded, "attention_norm")
            encoded = encoded + multi_head_attention(y, y, heads=heads)
            encoded = encoded + _feed_forward(_norm(encoded, "feed_forward_norm"), 4 * width)
    encoded = _norm(encoded, "encoder_norm")
    inputs, wanted = target[:, :-1], target[:, 1:]
    x = table[inputs] * width**0.5 + _positions(inputs.shape[1], width, dtype)
    bias = _causal_bias(inputs.shape[1], dtype)
    for i in range(layers):
        with hk.name_scope(f"decoder_{i}"):
            y = _norm(x, "attention_norm")
            x = x + multi_head_attention(y, y, heads=heads, bias=bias)
            x = x + multi_head_attention(_norm(x, "memory_norm"), encoded, heads=heads, name="memory_attention")
            x = x + _feed_forward(_norm(x, "feed_forward_norm"), 4 * width)
    return cross_entropy((_norm(x, "decoder_norm") @ table.T).astype(jnp.float32), wanted)


def _embed(tokens: jax.Array, vocabulary: int, width: int, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
    """Embedded tokens with sinusoidal positions, and the table, which also makes the scores."""
    table = hk.get_parameter("embedding", [vocabulary, width], dtype, init=hk.initializers.RandomNormal(width**-0.5))
    return table[tokens] * width**0.5 + _positions(tokens.shape[1], width, dtype), table


def _positions(length: int, width: int, dtype: jnp.dtype) -> jax.Array:
    rate = jnp.exp(-jnp.arange(0, width, 2) * (jnp.log(10_000.0) / width))
    angle = jnp.arange(length)[:, None] * rate
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1).astype(dtype)[None]


def _causal_bias(length: int, dtype: jnp.dtype) -> jax.Array:
    return jnp.where(jnp.tri(length, dtype=bool), 0.0, -1e9).astype(dtype)[None, None]


def _feed_forward(x: jax.Array, hidden: int) -> jax.Array:
    y = jax.nn.relu(hk.Linear(hidden, name="expand")(x))
    return hk.Linear(x.shape[-1], name="contract")(y)


def _norm(x: jax.Array, name: str) -> jax.Array:
    return hk.LayerNorm(axis=-1, create_scale=True, create_offset=True, name=name)(x)
