"""Decoder-only Transformers: one step of generation with cached keys and values, and a mixture of experts."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.alexnet import cross_entropy
from learned_mapping.zoo.attention import multi_head_attention

Cache = list[tuple[jax.Array, jax.Array]]
"""Keys and values of each layer, [B, H, M, D / H]."""


def decoder_step(
    tokens: jax.Array, position: jax.Array, cache: Cache, *, width: int = 768, heads: int = 12, vocabulary: int = 50_257
) -> tuple[jax.Array, Cache]:
    """Scores of the next token, as in GPT-2 (Radford et al. 2019), and the cache with one position filled in place.

    Args:
      tokens: [B] int32, the token at `position` of each sequence.
      position: [] int32.
      cache: one entry per layer; M positions have room in it.

    Returns:
      [B, vocabulary] scores and the new cache.
    """
    batch, room = tokens.shape[0], cache[0][0].shape[2]
    table = hk.get_parameter("embedding", [vocabulary, width], init=hk.initializers.TruncatedNormal(0.02))
    places = hk.get_parameter("position", [room, width], init=hk.initializers.TruncatedNormal(0.02))
    x = (table[tokens] + jax.lax.dynamic_index_in_dim(places, position, keepdims=False)).astype(cache[0][0].dtype)
    bias = jnp.where(jnp.arange(room) <= position, 0.0, -1e9).astype(x.dtype)
    filled = []
    for i, (keys, values) in enumerate(cache):
        with hk.name_scope(f"layer_{i}"):
            y = hk.Linear(3 * width, name="attention")(_norm(x, "attention_norm"))
            query, key, value = jnp.moveaxis(y.reshape(batch, 3, heads, width // heads), 1, 0)
            start = (0, 0, position, 0)
            keys = jax.lax.dynamic_update_slice(keys, key[:, :, None], start)
            values = jax.lax.dynamic_update_slice(values, value[:, :, None], start)
            filled.append((keys, values))
            scores = jnp.einsum("bhd,bhmd->bhm", query, keys) / (width // heads) ** 0.5
            context = jnp.einsum("bhm,bhmd->bhd", jax.nn.softmax(scores + bias), values)
            x = x + hk.Linear(width, name="attention_output")(context.reshape(batch, width))
            y = jax.nn.gelu(hk.Linear(4 * width, name="expand")(_norm(x, "dense_norm")))
            x = x + hk.Linear(width, name="contract")(y)
    return _norm(x, "norm") @ table.T.astype(x.dtype), filled


def mixture_of_experts_loss(
    tokens: jax.Array,
    *,
    layers: int = 4,
    width: int = 512,
    heads: int = 8,
    experts: int = 8,
    capacity: float = 1.25,
    vocabulary: int = 8192,
) -> jax.Array:
    """Mean cross-entropy of a Transformer whose dense layers are Switch layers (Fedus et al. 2021); `tokens` is
    [B, S + 1] int32."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    table = hk.get_parameter("embedding", [vocabulary, width], init=hk.initializers.TruncatedNormal(0.02))
    x = table[inputs]
    bias = jnp.where(jnp.tri(inputs.shape[1], dtype=bool), 0.0, -1e9).astype(x.dtype)[None, None]
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            y = _norm(x, "attention_norm")
            x = x + multi_head_attention(y, y, heads=heads, bias=bias)
            y = _norm(x, "switch_norm")
            x = x + _switch(y.reshape(-1, width), experts, capacity).reshape(x.shape)
    return cross_entropy(_norm(x, "norm") @ table.T, targets)


def _switch(x: jax.Array, experts: int, capacity: float) -> jax.Array:
    """Each of N tokens [N, D] goes to one expert, as long as that has room; products with one-hot codes route them."""
    room = int(capacity * x.shape[0] / experts)
    gates = jax.nn.softmax(hk.Linear(experts, name="router")(x))
    chosen = jax.nn.one_hot(jnp.argmax(gates, axis=-1), experts, dtype=x.dtype)
    place = jnp.einsum("nm,me->ne", jnp.tri(x.shape[0], dtype=x.dtype), chosen) * chosen - 1  # its turn at its expert
    route = chosen[:, :, None] * jax.nn.one_hot(place, room, dtype=x.dtype)
    size = x.shape[-1]
    first = hk.get_parameter("expand", [experts, size, 4 * size], x.dtype, init=hk.initializers.VarianceScaling())
    second = hk.get_parameter("contract", [experts, 4 * size, size], x.dtype, init=hk.initializers.VarianceScaling())
    inside = jnp.einsum("nec,nd->ecd", route, x)
    out = jnp.einsum("ech,ehd->ecd", jax.nn.relu(jnp.einsum("ecd,edh->ech", inside, first)), second)
    return jnp.einsum("nec,ecd->nd", route * jnp.sum(gates * chosen, axis=-1)[:, None, None], out)


def _norm(x: jax.Array, name: str) -> jax.Array:
    return hk.LayerNorm(axis=-1, create_scale=True, create_offset=True, name=name)(x)
