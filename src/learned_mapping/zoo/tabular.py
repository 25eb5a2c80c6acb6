"""Tables, points and graphs: DLRM, TabNet, PointNet, and a graph network of message passing."""

from __future__ import annotations

from collections.abc import Sequence

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.zoo.layers import batch_norm, layer_norm


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


def tabnet(
    features: jax.Array, *, steps: int = 5, width: int = 64, classes: int = 2, training: bool = False
) -> jax.Array:
    """TabNet (Arik and Pfister 2019): class scores [B, classes] of rows [B, D].

    The mask of each step is a softmax; the paper's sparsemax has to sort.
    """
    features = batch_norm(features, "features", training)

    def transform(x: jax.Array, name: str) -> jax.Array:
        for i in range(4):
            y = batch_norm(hk.Linear(4 * width, with_bias=False, name=f"{name}_{i}")(x), f"{name}_norm_{i}", training)
            y = y[..., : 2 * width] * jax.nn.sigmoid(y[..., 2 * width :])
            x = y if x.shape != y.shape else (x + y) * 0.5**0.5
        return x

    prior, total = jnp.ones_like(features), 0.0
    attended = transform(features, "step_0")[:, width:]
    for i in range(1, steps + 1):
        scores = batch_norm(hk.Linear(features.shape[-1], name=f"mask_{i}")(attended), f"mask_norm_{i}", training)
        mask = jax.nn.softmax(scores * prior)
        prior = prior * (1.5 - mask)
        out = transform(features * mask, f"step_{i}")
        total, attended = total + jax.nn.relu(out[:, :width]), out[:, width:]
    return hk.Linear(classes, name="scores")(total)


def pointnet(points: jax.Array, *, classes: int = 40, width: int = 64, training: bool = False) -> jax.Array:
    """PointNet (Qi et al. 2017): class scores [B, classes] of point clouds [B, N, 3]."""
    points = points @ _transform_net(points, 3, width, "input", training)
    x = _shared(points, (width, width), "first", training)
    x = x @ _transform_net(x, width, width, "features", training)
    x = jnp.max(_shared(x, (width, 2 * width, 16 * width), "second", training), axis=1)
    x = _shared(x, (8 * width, 4 * width), "head", training)
    return hk.Linear(classes, name="scores")(x)


def _transform_net(x: jax.Array, size: int, width: int, name: str, training: bool) -> jax.Array:
    """[B, size, size] matrix near the identity that aligns a cloud."""
    y = jnp.max(_shared(x, (width, 2 * width, 16 * width), f"{name}_points", training), axis=1)
    y = _shared(y, (8 * width, 4 * width), f"{name}_head", training)
    matrix = hk.Linear(size * size, name=f"{name}_matrix", w_init=jnp.zeros)(y).reshape(-1, size, size)
    return matrix + jnp.eye(size, dtype=matrix.dtype)


def _shared(x: jax.Array, widths: Sequence[int], name: str, training: bool) -> jax.Array:
    for i, width in enumerate(widths):
        x = jax.nn.relu(batch_norm(hk.Linear(width, name=f"{name}_{i}")(x), f"{name}_norm_{i}", training))
    return x


def graph_network(
    nodes: jax.Array, edges: jax.Array, senders: jax.Array, receivers: jax.Array, *, steps: int = 4, width: int = 128
) -> jax.Array:
    """Encode-process-decode graph network (Battaglia et al. 2018, Sanchez-Gonzalez et al. 2020): [N, 3] per node.

    Args:
      nodes: [N, F] features.
      edges: [E, G] features.
      senders, receivers: [E] int32.
      steps: rounds of message passing, each with weights of its own.
    """

    def block(x: jax.Array, name: str) -> jax.Array:
        return layer_norm(hk.nets.MLP([width, width], name=name)(x), f"{name}_norm")

    nodes, edges = block(nodes, "encode_nodes"), block(edges, "encode_edges")
    for i in range(steps):
        messages = block(jnp.concatenate([edges, nodes[senders], nodes[receivers]], axis=-1), f"edges_{i}")
        received = jax.ops.segment_sum(messages, receivers, nodes.shape[0])
        nodes = nodes + block(jnp.concatenate([nodes, received], axis=-1), f"nodes_{i}")
        edges = edges + messages
    return hk.nets.MLP([width, 3], name="decode")(nodes)
