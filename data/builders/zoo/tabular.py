"""Tables: the deep learning recommendation model."""

from collections.abc import Sequence

import haiku as hk
import jax
import jax.numpy as jnp


def dlrm_loss(
    dense: jax.Array,
    categories: jax.Array,
    clicks: jax.Array,
    *,
    rows: int = 100_000,
    width: int = 128,
    bottom: Sequence[int] = (512, 256),
    top: Sequence[int] = (1024, 1024, 512, 256),
) -> jax.Array:
    """Loss of the deep learning recommendation model (Naumov et al. 2019).

    Args:
      dense: [B, D] features.
      categories: [B, C] int32, an index into each of C embedding tables of `rows` rows.
      clicks: [B], 1 where clicked.
    """
    vectors = [hk.nets.MLP([*bottom, width], activate_final=True, name="bottom")(dense)]
    for i in range(categories.shape[1]):
        vectors.append(hk.Embed(rows, width, name=f"table_{i}")(categories[:, i]))
    stacked = jnp.stack(vectors, axis=1)
    products = jnp.einsum("bid,bjd->bij", stacked, stacked)
    pairs = jnp.tril_indices(stacked.shape[1], -1)
    x = jnp.concatenate([vectors[0], products[:, pairs[0], pairs[1]]], axis=-1)
    logits = hk.nets.MLP([*top, 1], name="top")(x)[:, 0]
    return jnp.mean(jax.nn.softplus(logits) - clicks * logits)
