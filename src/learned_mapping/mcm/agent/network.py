"""GraphSAGE over the ops, a policy network of two layers, and a value (paper 2, Section 4.1, Fig. 3)."""

import haiku as hk
import jax
import jax.numpy as jnp
import jraph

from learned_mapping.learning.networks import layer_norm, mlp
from learned_mapping.mcm.agent.config import AgentConfig
from learned_mapping.mcm.agent.features import GraphFeatures

ANCHORS = 36  # Positions along the package at which the network gives logits: the paper's 36 chips.
STATE = 5  # Numbers per op that tell of the assignment of the iteration before.


def graph_sage(graph: GraphFeatures, config: AgentConfig) -> jax.Array:
    """[n, width] embeddings of the ops: h_G.

    Each layer joins an op with the means of its producers and of its consumers (Hamilton et al. 2017, mean aggregator),
    and adds what it was; the sum lets eight layers learn.
    """
    n = graph.ops.shape[0]
    h = hk.Linear(config.width, name="encoder")(graph.ops)
    for layer in range(config.layers):
        x = layer_norm(h, name=f"sage_norm_{layer}")
        before = jraph.segment_mean(x[graph.producers], graph.consumers, n)
        behind = jraph.segment_mean(x[graph.consumers], graph.producers, n)
        joined = jnp.concatenate([x, before, behind], axis=-1)
        h = h + jax.nn.relu(hk.Linear(config.width, name=f"sage_{layer}")(joined))
    return layer_norm(h, name="sage_norm_out") * graph.mask[:, None]


def value(h: jax.Array, graph: GraphFeatures, config: AgentConfig) -> jax.Array:
    """[] the reward to expect of this graph, from the mean over the ops."""
    pooled = (h * graph.mask[:, None]).sum(0) / jnp.maximum(graph.mask.sum(), 1.0)
    return mlp(pooled, (config.width,), 1, name="value")[0]


def chip_state(previous: jax.Array, graph: GraphFeatures) -> jax.Array:
    """[n, STATE] what op i is told of y^(t-1) [n]: all 0 where there is none (entries below 0).

    Its chip's position, the means of its producers' and consumers' positions relative to it, its chip's share of the
    graph's time against an even one, and 1.
    """
    n, known = previous.shape[0], (previous >= 0).astype(jnp.float32) * graph.mask
    place = jnp.maximum(previous, 0) / jnp.maximum(graph.chips - 1.0, 1.0)
    before = jraph.segment_mean(place[graph.producers] - place[graph.consumers], graph.consumers, n)
    behind = jraph.segment_mean(place[graph.consumers] - place[graph.producers], graph.producers, n)
    seconds = (10.0 ** (4.0 * graph.ops[:, 0])) * graph.mask  # over an even share, as `graph_features` has it
    chip = jnp.maximum(previous, 0)
    load = jax.ops.segment_sum(seconds, chip, num_segments=n)[chip]  # chips in use are fewer than ops
    return jnp.stack([place, before, behind, jnp.log1p(load), jnp.ones(n)], axis=-1) * known[:, None]


def chip_logits(
    h: jax.Array, previous: jax.Array, graph: GraphFeatures, reading: jax.Array, config: AgentConfig
) -> jax.Array:
    """[B, n, P] logits of the chips of every op, Eq. 7, given the assignments before.

    Args:
      h: [n, width] from `graph_sage`.
      previous: [B, n] int32, y^(t-1); -1 in the first iteration.
      reading: [ANCHORS, P], how chips read the network's positions, from `reading_of`; the caller masks the columns of
        no chip.
    """
    x = jnp.broadcast_to(hk.Linear(config.width, name="policy_0")(h), (*previous.shape, config.width))
    if config.iterations > 1:
        states = jax.vmap(chip_state, (0, None))(previous, graph)
        x = x + hk.Linear(config.width, False, name="policy_state")(states)
    x = jax.nn.relu(x)
    x = jax.nn.relu(hk.Linear(config.width, name="policy_1")(x))
    return hk.Linear(ANCHORS, name="policy_out")(x) @ reading
