"""Transformers for language, answers and images; and the MLP-Mixer, which has no attention."""

import haiku as hk
import jax
import jax.numpy as jnp

from .layers import (
    attention_layer,
    causal_bias,
    cross_entropy,
    feed_forward,
    layer_norm,
    multi_head_attention,
)

Cache = list[tuple[jax.Array, jax.Array]]  # Keys and values of each layer, [B, H, M, D / H].


def language_model_loss(
    tokens: jax.Array,
    *,
    layers: int = 6,
    width: int = 512,
    heads: int = 8,
    vocabulary: int = 32_000,
) -> jax.Array:
    """Mean cross-entropy of a decoder-only Transformer; `tokens` is [B, S + 1] int32."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    x, table = _embed(inputs, vocabulary, width, jnp.float32)
    bias = causal_bias(inputs.shape[1], x.dtype)
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            x = attention_layer(x, heads, bias)
    return cross_entropy(layer_norm(x, "norm") @ table.T, targets)


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
            encoded = attention_layer(encoded, heads)
    encoded = layer_norm(encoded, "encoder_norm")
    inputs, wanted = target[:, :-1], target[:, 1:]
    x = table[inputs] * width**0.5 + _positions(inputs.shape[1], width, dtype)
    bias = causal_bias(inputs.shape[1], dtype)
    for i in range(layers):
        with hk.name_scope(f"decoder_{i}"):
            y = layer_norm(x, "attention_norm")
            x = x + multi_head_attention(y, y, heads=heads, bias=bias)
            x = x + multi_head_attention(
                layer_norm(x, "memory_norm"), encoded, heads=heads, name="memory_attention"
            )
            x = x + feed_forward(layer_norm(x, "feed_forward_norm"))
    return cross_entropy((layer_norm(x, "decoder_norm") @ table.T).astype(jnp.float32), wanted)


def _embed(
    tokens: jax.Array, vocabulary: int, width: int, dtype: jnp.dtype
) -> tuple[jax.Array, jax.Array]:
    """Embedded tokens with sinusoidal positions, and the table, which also makes the scores."""
    table = hk.get_parameter(
        "embedding", [vocabulary, width], dtype, init=hk.initializers.RandomNormal(width**-0.5)
    )
    return table[tokens] * width**0.5 + _positions(tokens.shape[1], width, dtype), table


def _positions(length: int, width: int, dtype: jnp.dtype) -> jax.Array:
    rate = jnp.exp(-jnp.arange(0, width, 2) * (jnp.log(10_000.0) / width))
    angle = jnp.arange(length)[:, None] * rate
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1).astype(dtype)[None]


def decoder_step(
    tokens: jax.Array,
    position: jax.Array,
    cache: Cache,
    *,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = 50_257,
) -> tuple[jax.Array, Cache]:
    """Scores of the next token, as in GPT-2 (Radford et al. 2019), and the cache with one position
    filled in place.

    Args:
      tokens: [B] int32, the token at `position` of each sequence.
      position: [] int32.
      cache: one entry per layer; M positions have room in it.

    Returns:
      [B, vocabulary] scores and the new cache.
    """
    batch, room = tokens.shape[0], cache[0][0].shape[2]
    table = hk.get_parameter(
        "embedding", [vocabulary, width], init=hk.initializers.TruncatedNormal(0.02)
    )
    places = hk.get_parameter("position", [room, width], init=hk.initializers.TruncatedNormal(0.02))
    x = (table[tokens] + jax.lax.dynamic_index_in_dim(places, position, keepdims=False)).astype(
        cache[0][0].dtype
    )
    bias = jnp.where(jnp.arange(room) <= position, 0.0, -1e9).astype(x.dtype)
    filled = []
    for i, (keys, values) in enumerate(cache):
        with hk.name_scope(f"layer_{i}"):
            y = hk.Linear(3 * width, name="attention")(layer_norm(x, "attention_norm"))
            query, key, value = jnp.moveaxis(y.reshape(batch, 3, heads, width // heads), 1, 0)
            start = (0, 0, position, 0)
            keys = jax.lax.dynamic_update_slice(keys, key[:, :, None], start)
            values = jax.lax.dynamic_update_slice(values, value[:, :, None], start)
            filled.append((keys, values))
            scores = jnp.einsum("bhd,bhmd->bhm", query, keys) / (width // heads) ** 0.5
            context = jnp.einsum("bhm,bhmd->bhd", jax.nn.softmax(scores + bias), values)
            x = x + hk.Linear(width, name="attention_output")(context.reshape(batch, width))
            x = x + feed_forward(layer_norm(x, "dense_norm"), jax.nn.gelu)
    return layer_norm(x, "norm") @ table.T.astype(x.dtype), filled


def bert_question_answering(
    tokens: jax.Array,
    segments: jax.Array,
    mask: jax.Array,
    *,
    layers: int = 24,
    width: int = 1024,
    heads: int = 16,
    vocabulary: int = 30_522,
    positions: int = 512,
) -> tuple[jax.Array, jax.Array]:
    """The encoder with the head that marks an answer's span (SQuAD); the defaults are BERT-large.

    Details follow the published code: segments are embedded by a product with their one-hot code,
    every layer turns the mask into a bias of its own, and the activation is the tanh form of GELU.

    Args:
      tokens, segments: [B, S] int32, word pieces and which sentence each belongs to.
      mask: [B, S] int32, 1 where there is a token, 0 where there is padding.

    Returns:
      [B, S] probabilities of the answer's first token, and of its last.
    """
    batch, length = tokens.shape
    words = hk.Embed(vocabulary, width, name="word_embedding")(tokens)
    kinds = hk.Linear(width, with_bias=False, name="segment_embedding")(
        jax.nn.one_hot(segments, 2, dtype=words.dtype)
    )
    place = hk.get_parameter(
        "position_embedding", [positions, width], init=hk.initializers.TruncatedNormal(0.02)
    )
    x = layer_norm(words + kinds + place[None, :length], "embedding_norm", 1e-12)
    visible = jnp.ones((batch, length, 1), mask.dtype) * mask[:, None, :]
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            bias = (1.0 - visible[:, None].astype(x.dtype)) * -1e4
            x = layer_norm(
                x + multi_head_attention(x, x, heads=heads, bias=bias), "attention_norm", 1e-12
            )
            hidden = jax.nn.gelu(hk.Linear(4 * width, name="intermediate")(x), approximate=True)
            x = layer_norm(x + hk.Linear(width, name="output")(hidden), "output_norm", 1e-12)
    spans = jnp.moveaxis(hk.Linear(2, name="span")(x), -1, 0)
    return jax.nn.softmax(spans[0]), jax.nn.softmax(spans[1])


def vision_transformer(
    images: jax.Array,
    *,
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    patch: int = 16,
    classes: int = 1000,
    training: bool = False,
) -> jax.Array:
    """Class scores [B, classes] of images [B, H, W, 3]; the defaults are ViT-B/16 (Dosovitskiy et
    al. 2020)."""
    x = hk.Conv2D(width, patch, stride=patch, padding="VALID", name="patches")(images)
    x = x.reshape(x.shape[0], -1, width)
    start = hk.get_parameter("class_token", [1, 1, width], init=jnp.zeros).astype(x.dtype)
    x = jnp.concatenate([jnp.broadcast_to(start, (x.shape[0], 1, width)), x], axis=1)
    place = hk.get_parameter(
        "position", [1, x.shape[1], width], init=hk.initializers.TruncatedNormal(0.02)
    )
    x = x + place.astype(x.dtype)
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            x = attention_layer(x, heads, activation=jax.nn.gelu, dense_norm="dense_norm")
    return hk.Linear(classes, name="scores")(layer_norm(x, "norm")[:, 0])


def mlp_mixer(
    images: jax.Array, *, layers: int = 8, width: int = 512, patch: int = 16, classes: int = 1000
) -> jax.Array:
    """Class scores [B, classes] of images [B, H, W, 3]; the defaults are Mixer-S/16 (Tolstikhin et
    al. 2021)."""
    x = hk.Conv2D(width, patch, stride=patch, padding="VALID", name="patches")(images)
    x = x.reshape(x.shape[0], -1, width)
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            y = jnp.swapaxes(layer_norm(x, "token_norm"), 1, 2)
            x = x + jnp.swapaxes(_mlp(y, width // 2, "token"), 1, 2)
            x = x + _mlp(layer_norm(x, "channel_norm"), width * 4, "channel")
    return hk.Linear(classes, name="scores")(jnp.mean(layer_norm(x, "norm"), axis=1))


def _mlp(x: jax.Array, hidden: int, name: str) -> jax.Array:
    y = jax.nn.gelu(hk.Linear(hidden, name=f"{name}_1")(x))
    return hk.Linear(x.shape[-1], name=f"{name}_2")(y)
