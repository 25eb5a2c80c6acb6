"""A network like AlphaTensor's (Fawzi et al. 2022): attention over pairs of grids, then policy and value heads.

Written from the paper's supplement, with its structure but not its exact sizes: the published network's
hyperparameters are in the options where they are known.
"""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.alexnet import cross_entropy
from learned_mapping.zoo.attention import multi_head_attention


def alphatensor_loss(
    tensors: jax.Array,
    scalars: jax.Array,
    actions: jax.Array,
    returns: jax.Array,
    *,
    iterations: int = 8,
    channels: int = 512,
    heads: int = 16,
    policy_layers: int = 2,
    policy_width: int = 1024,
    logits: int = 256,
    quantiles: int = 8,
) -> jax.Array:
    """Policy and value loss of a batch.

    Args:
      tensors: [B, T, S, S, S] float32, the residual tensor and the last T - 1 factors.
      scalars: [B, 2] float32, such as the time.
      actions: [B, A] int32, the tokens of the factors played.
      returns: [B] float32.
    """
    grids = _torso(tensors, scalars, iterations, channels, heads)
    policy = _policy(grids, actions, policy_layers, policy_width, heads, logits)
    pooled = jax.nn.relu(hk.Linear(channels, name="value_1")(jnp.mean(grids, axis=1)))
    values = hk.Linear(quantiles, name="value_2")(jax.nn.relu(hk.Linear(channels, name="value_3")(pooled)))
    error = returns[:, None] - values
    levels = (jnp.arange(quantiles) + 0.5) / quantiles
    value_loss = jnp.mean(jnp.abs(levels - (error < 0)) * jnp.where(jnp.abs(error) < 1, error**2 / 2, jnp.abs(error)))
    return cross_entropy(policy, actions) + value_loss


def _torso(tensors: jax.Array, scalars: jax.Array, iterations: int, channels: int, heads: int) -> jax.Array:
    """[B, 3 S^2, channels]: three S x S grids, each the tensor seen along one of its modes."""
    batch, _, size = tensors.shape[:3]
    planes = hk.Linear(size * size, name="scalars")(scalars).reshape(batch, size, size, 1)
    grids = []
    for mode in range(3):
        stacked = jnp.moveaxis(tensors, 2 + mode, -1)  # [B, T, S, S, S]
        stacked = jnp.moveaxis(stacked, 1, -2).reshape(batch, size, size, -1)
        grids.append(hk.Linear(channels, name=f"grid_{mode}")(jnp.concatenate([stacked, planes], axis=-1)))
    for i in range(iterations):
        for first, second in ((0, 1), (2, 0), (1, 2)):
            with hk.name_scope(f"iteration_{i}_{first}{second}"):
                pair = jnp.concatenate([grids[first], jnp.swapaxes(grids[second], 1, 2)], axis=2)
                pair = _attentive_mode(pair.reshape(batch * size, 2 * size, channels), heads)
                pair = pair.reshape(batch, size, 2 * size, channels)
                grids[first], grids[second] = pair[:, :, :size], jnp.swapaxes(pair[:, :, size:], 1, 2)
    return jnp.concatenate([grid.reshape(batch, size * size, channels) for grid in grids], axis=1)


def _attentive_mode(rows: jax.Array, heads: int) -> jax.Array:
    """Self-attention and a dense block along each row [B S, 2 S, channels]."""
    y = _norm(rows, "attention_norm")
    rows = rows + multi_head_attention(y, y, heads=heads)
    y = jax.nn.gelu(hk.Linear(4 * rows.shape[-1], name="expand")(_norm(rows, "dense_norm")))
    return rows + hk.Linear(rows.shape[-1], name="contract")(y)


def _policy(memory: jax.Array, actions: jax.Array, layers: int, width: int, heads: int, logits: int) -> jax.Array:
    """Scores [B, A, logits] of each token given those before it and the torso's output."""
    shifted = jnp.pad(actions[:, :-1], ((0, 0), (1, 0)))
    place = hk.get_parameter("policy_position", [actions.shape[1], width], init=hk.initializers.TruncatedNormal(0.02))
    x = hk.Embed(logits, width, name="policy_embedding")(shifted) + place
    memory = hk.Linear(width, name="policy_memory")(memory)
    bias = jnp.where(jnp.tri(actions.shape[1], dtype=bool), 0.0, -1e9)[None, None]
    for i in range(layers):
        with hk.name_scope(f"policy_{i}"):
            y = _norm(x, "self_norm")
            x = x + multi_head_attention(y, y, heads=heads, bias=bias)
            x = x + multi_head_attention(_norm(x, "memory_norm"), memory, heads=heads, name="memory_attention")
            x = x + hk.Linear(width, name="contract")(
                jax.nn.relu(hk.Linear(4 * width, name="expand")(_norm(x, "dense_norm")))
            )
    return hk.Linear(logits, name="policy_scores")(x)


def _norm(x: jax.Array, name: str) -> jax.Array:
    return hk.LayerNorm(axis=-1, create_scale=True, create_offset=True, name=name)(x)
