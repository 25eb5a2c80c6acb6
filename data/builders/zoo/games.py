"""Networks that play games: AlphaZero's, and one like AlphaTensor's."""

import haiku as hk
import jax
import jax.numpy as jnp

from .layers import (
    attention_layer,
    conv,
    cross_entropy,
    feed_forward,
    layer_norm,
    multi_head_attention,
)


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
    """Policy and value loss of a network like AlphaTensor's (Fawzi et al. 2022): attention over
    pairs of grids.

    Written from the paper's supplement, with its structure but not its exact sizes.

    Args:
      tensors: [B, T, S, S, S] float32, the residual tensor and the last T - 1 factors.
      scalars: [B, 2] float32, such as the time.
      actions: [B, A] int32, the tokens of the factors played.
      returns: [B] float32.
    """
    grids = _torso(tensors, scalars, iterations, channels, heads)
    policy = _policy(grids, actions, policy_layers, policy_width, heads, logits)
    pooled = jax.nn.relu(hk.Linear(channels, name="value_1")(jnp.mean(grids, axis=1)))
    values = hk.Linear(quantiles, name="value_2")(
        jax.nn.relu(hk.Linear(channels, name="value_3")(pooled))
    )
    error = returns[:, None] - values
    levels = (jnp.arange(quantiles) + 0.5) / quantiles
    value_loss = jnp.mean(
        jnp.abs(levels - (error < 0)) * jnp.where(jnp.abs(error) < 1, error**2 / 2, jnp.abs(error))
    )
    return cross_entropy(policy, actions) + value_loss


def _torso(
    tensors: jax.Array, scalars: jax.Array, iterations: int, channels: int, heads: int
) -> jax.Array:
    """[B, 3 S^2, channels]: three S x S grids, each the tensor seen along one of its modes."""
    batch, _, size = tensors.shape[:3]
    planes = hk.Linear(size * size, name="scalars")(scalars).reshape(batch, size, size, 1)
    grids = []
    for mode in range(3):
        stacked = jnp.moveaxis(tensors, 2 + mode, -1)  # [B, T, S, S, S]
        stacked = jnp.moveaxis(stacked, 1, -2).reshape(batch, size, size, -1)
        grids.append(
            hk.Linear(channels, name=f"grid_{mode}")(jnp.concatenate([stacked, planes], axis=-1))
        )
    for i in range(iterations):
        for first, second in ((0, 1), (2, 0), (1, 2)):
            with hk.name_scope(f"iteration_{i}_{first}{second}"):
                pair = jnp.concatenate([grids[first], jnp.swapaxes(grids[second], 1, 2)], axis=2)
                pair = pair.reshape(batch * size, 2 * size, channels)
                pair = attention_layer(pair, heads, activation=jax.nn.gelu, dense_norm="dense_norm")
                pair = pair.reshape(batch, size, 2 * size, channels)
                grids[first], grids[second] = (
                    pair[:, :, :size],
                    jnp.swapaxes(pair[:, :, size:], 1, 2),
                )
    return jnp.concatenate([grid.reshape(batch, size * size, channels) for grid in grids], axis=1)


def _policy(
    memory: jax.Array, actions: jax.Array, layers: int, width: int, heads: int, logits: int
) -> jax.Array:
    """Scores [B, A, logits] of each token given those before it and the torso's output."""
    shifted = jnp.pad(actions[:, :-1], ((0, 0), (1, 0)))
    place = hk.get_parameter(
        "policy_position", [actions.shape[1], width], init=hk.initializers.TruncatedNormal(0.02)
    )
    x = hk.Embed(logits, width, name="policy_embedding")(shifted) + place
    memory = hk.Linear(width, name="policy_memory")(memory)
    bias = jnp.where(jnp.tri(actions.shape[1], dtype=bool), 0.0, -1e9)[None, None]
    for i in range(layers):
        with hk.name_scope(f"policy_{i}"):
            y = layer_norm(x, "self_norm")
            x = x + multi_head_attention(y, y, heads=heads, bias=bias)
            x = x + multi_head_attention(
                layer_norm(x, "memory_norm"), memory, heads=heads, name="memory_attention"
            )
            x = x + feed_forward(layer_norm(x, "dense_norm"))
    return hk.Linear(logits, name="policy_scores")(x)


def alphazero_loss(
    boards: jax.Array,
    policy: jax.Array,
    outcome: jax.Array,
    *,
    blocks: int = 20,
    channels: int = 256,
) -> jax.Array:
    """Policy and value loss of AlphaZero's residual tower (Silver et al. 2017).

    Args:
      boards: [B, 19, 19, planes].
      policy: [B, moves], the search's visit probabilities.
      outcome: [B], from -1 to 1.
    """
    x = conv(boards, channels, 3, 1, "stem", training=True)
    for i in range(blocks):
        with hk.name_scope(f"block_{i}"):
            y = conv(x, channels, 3, 1, "conv_1", training=True)
            x = jax.nn.relu(x + conv(y, channels, 3, 1, "conv_2", None, training=True))
    moves = hk.Linear(policy.shape[-1], name="moves")(
        hk.Flatten()(conv(x, 2, 1, 1, "policy", training=True))
    )
    x = hk.Flatten()(conv(x, 1, 1, 1, "value", training=True))
    hidden = jax.nn.relu(hk.Linear(256, name="hidden")(x))
    value = jnp.tanh(hk.Linear(1, name="outcome")(hidden))[:, 0]
    scores = jnp.sum(policy * jax.nn.log_softmax(moves), axis=-1)
    return jnp.mean(jnp.square(outcome - value) - scores)
