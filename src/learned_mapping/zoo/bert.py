"""BERT (Devlin et al. 2018): a bidirectional Transformer encoder over word pieces."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.attention import multi_head_attention


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

    Details follow the published code: segments are embedded by a product with their one-hot code, every layer turns the
    mask into a bias of its own, and the activation is the tanh form of GELU.

    Args:
      tokens, segments: [B, S] int32, word pieces and which sentence each belongs to.
      mask: [B, S] int32, 1 where there is a token, 0 where there is padding.

    Returns:
      [B, S] probabilities of the answer's first token, and of its last.
    """
    batch, length = tokens.shape
    words = hk.Embed(vocabulary, width, name="word_embedding")(tokens)
    kinds = hk.Linear(width, with_bias=False, name="segment_embedding")(jax.nn.one_hot(segments, 2, dtype=words.dtype))
    place = hk.get_parameter("position_embedding", [positions, width], init=hk.initializers.TruncatedNormal(0.02))
    x = _norm(words + kinds + place[None, :length], "embedding_norm")
    visible = jnp.ones((batch, length, 1), mask.dtype) * mask[:, None, :]
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            bias = (1.0 - visible[:, None].astype(x.dtype)) * -1e4
            x = _norm(x + multi_head_attention(x, x, heads=heads, bias=bias), "attention_norm")
            hidden = jax.nn.gelu(hk.Linear(4 * width, name="intermediate")(x), approximate=True)
            x = _norm(x + hk.Linear(width, name="output")(hidden), "output_norm")
    spans = jnp.moveaxis(hk.Linear(2, name="span")(x), -1, 0)
    return jax.nn.softmax(spans[0]), jax.nn.softmax(spans[1])


def _norm(x: jax.Array, name: str) -> jax.Array:
    return hk.LayerNorm(axis=-1, create_scale=True, create_offset=True, eps=1e-12, name=name)(x)
