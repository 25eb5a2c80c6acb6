"""What REGAL's networks minimise: imitation of elites, and REINFORCE on what BRKGA makes of the proposed laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jraph
import numpy as np

from learned_mapping.regal.agent.decisions import OTHERS, TRANSFER, draw_pairs
from learned_mapping.regal.agent.elites import Elites
from learned_mapping.regal.agent.features import Features
from learned_mapping.regal.agent.network import Batch
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.proposals import BINS, larger_table


class Example(NamedTuple):
    """A training graph."""

    instance: Instance
    seen: Features
    brkga: float
    """H(G, U): what BRKGA finds with uniform mutants and the evaluations of a rollout, seconds or bytes."""
    elites: Elites


@dataclass(frozen=True)
class TrainConfig:
    """What decides a training run."""

    model: str = "gnn"
    seed: int = 0
    imitation_iterations: int = 10
    """Iterations of imitation, `steps` gradient steps each."""
    steps: int = 50
    reinforce_iterations: int = 6
    """Iterations of REINFORCE, one gradient step each."""
    batch_nodes: int = 1024
    """Ops in a batch of imitation, padding included."""
    learning_rate: float = 3e-3
    """Of imitation; it falls along a cosine."""
    weight_decay: float = 0.1
    """Of imitation (AdamW): the training graphs are few."""
    reinforce_rate: float = 3e-4
    temperature: float = 0.02
    """Of the weights of a graph's elites, in their relative excess cost."""
    priority_weight: float = 0.3
    """Of the pairs' cross-entropy."""
    strength_weight: float = 1e-3
    """Of the mean of alpha and beta: a law says no more than it has learned."""
    graphs: int = 4
    """Graphs of a REINFORCE step."""
    rollouts: int = 6
    """Laws sampled and searches run for each."""
    evaluations: int = 5000
    """Of a rollout, as when it is used."""
    reinforce_ops: int = 120
    """Largest graph of REINFORCE, for the sake of time."""
    entropy_weight: float = 4e-3
    """Entropy bonus per op of REINFORCE."""
    in_initial: bool = True
    """Whether the rollouts' initial population follows the law too."""


def imitation_loss(logits: jax.Array, batch: Batch, targets: Targets, config: TrainConfig) -> tuple[jax.Array, Any]:
    """Cross-entropy between the device an op probably gets and its devices in the graph's elites, mean over graphs.

    The probability that an op goes to device 1 is that of its affinity there being the larger, all four bins being
    drawn from the network. Elites weigh by their cost. Two further terms: the same for pairs that were ready at once,
    of ops or of an op and a transfer, that which was next having the larger priority; and the mean of alpha and beta,
    so that a law is no sharper than it needs to be.
    """
    p = jax.nn.softmax(logits)
    one = _larger(p[:, 1], p[:, 0])[:, None]
    entropy = -(targets.devices * jnp.log(one) + (1 - targets.devices) * jnp.log(1 - one))
    of = graph_of(batch)
    count = batch.graphs.n_node.shape[0]
    sizes = jnp.maximum(batch.graphs.n_node, 1)[:, None]

    def mean(values):
        """[G, ...] means over each graph's ops, averaged over the real graphs."""
        per_graph = jax.ops.segment_sum(values, of, count) / sizes
        return (per_graph * targets.weights).sum() / jnp.maximum(targets.weights.sum(), 1e-9)

    cross_entropy = mean(entropy)
    uniform = jax.nn.one_hot(jnp.array([[BINS.index(1.0)] * 2]), len(BINS))
    laws = jnp.concatenate([p[:, -1], uniform])
    first, second = laws[targets.pairs[:, 0]], laws[targets.pairs[:, 1]]
    priority = -(targets.pair_weights * jnp.log(_larger(first, second))).sum()
    bins = jnp.asarray(BINS, jnp.float32)
    strength = mean(jnp.einsum("neab,b->n", p[:, :-1], bins)[:, None] / 4)
    order_strength = mean(jnp.einsum("nab,b->n", p[:, -1], bins)[:, None] / 2)
    loss = cross_entropy + config.priority_weight * priority + config.strength_weight * strength
    loss += config.priority_weight * config.strength_weight * order_strength
    return loss, {"loss": loss, "cross_entropy": cross_entropy, "priority_loss": priority, "strength": strength}


def _larger(one: jax.Array, other: jax.Array) -> jax.Array:
    """[K] probability that X > Y, each from the mixture of Betas that bins drawn from its [K, 2, bins] make."""
    table = jnp.asarray(larger_table(), jnp.float32)
    found = jnp.einsum("abcd,na,nb,nc,nd->n", table, one[:, 0], one[:, 1], other[:, 0], other[:, 1])
    return jnp.clip(found, 1e-4, 1 - 1e-4)


def graph_of(batch: Batch) -> jax.Array:
    """[N] the graph of each op of a batch."""
    count = batch.graphs.n_node.shape[0]
    nodes = batch.graphs.nodes.shape[0]
    return jnp.repeat(jnp.arange(count), batch.graphs.n_node, total_repeat_length=nodes)


class Targets(NamedTuple):
    """What a batch is to imitate: K elites of each graph."""

    devices: np.ndarray
    """[N, K] float32."""
    weights: np.ndarray
    """[G, K] float32, summing to 1 over a graph's elites; 0 for padding."""
    pairs: np.ndarray
    """[P, 2] int64, ops that were ready at once; the first ran first. N stands for any transfer."""
    pair_weights: np.ndarray
    """[P] float32, summing to 1 over the batch, graphs weighing alike; 0 for padding."""


def make_targets(examples: Sequence[Example], batch: Batch, config: TrainConfig, rng: np.random.Generator) -> Targets:
    """The targets of the graphs in a batch, padded like it; pairs are drawn of one elite of each, by its weight."""
    nodes, graphs = batch.graphs.nodes.shape[0], batch.graphs.n_node.shape[0]
    kept = examples[0].elites.devices.shape[0]
    targets = Targets(
        np.zeros((nodes, kept), np.float32), np.zeros((graphs, kept), np.float32),
        np.zeros((OTHERS * nodes, 2), np.int64), np.zeros(OTHERS * nodes, np.float32),
    )  # fmt: skip
    offset = filled = 0
    for row, example in enumerate(examples):
        elites = example.elites
        size = elites.devices.shape[1]
        targets.devices[offset : offset + size] = elites.devices.T
        weights = np.exp(-(elites.costs / elites.costs[0] - 1) / config.temperature)
        targets.weights[row] = weights / weights.sum()
        elite = rng.choice(kept, p=weights / weights.sum())
        order = elites.orders[elite]
        pairs = draw_pairs(example.instance, elites.devices[elite], order[order >= 0], rng)
        pairs = rng.permutation(pairs)[: OTHERS * size]
        targets.pairs[filled : filled + len(pairs)] = np.where(pairs == TRANSFER, nodes, pairs + offset)
        targets.pair_weights[filled : filled + len(pairs)] = 1 / (max(len(pairs), 1) * len(examples))
        filled += len(pairs)
        offset += size
    return targets


def reinforce_loss(
    logits: jax.Array, batch: Batch, actions: jax.Array, advantages: jax.Array, config: TrainConfig
) -> tuple[jax.Array, Any]:
    """REINFORCE: -sum over rollouts of advantage times the log-probability of the bins drawn, less an entropy bonus.

    Args:
      logits: [N, d + 1, 2, bins].
      batch: G graphs.
      actions: [R, N, d + 1, 2] bins drawn in each rollout.
      advantages: [R, G], 0 for padding.
      config: the weights.
    """
    log_p = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(log_p[None], actions[..., None], axis=-1)[..., 0].sum(axis=(2, 3))
    scale = 1.0 / (advantages.shape[0] * jnp.maximum((advantages != 0).any(axis=0).sum(), 1))
    gain = scale * (chosen * advantages[:, graph_of(batch)]).sum()
    present = jraph.get_node_padding_mask(batch.graphs)[:, None, None]
    entropy = -(jnp.exp(log_p) * log_p).sum(axis=-1)
    entropy = (entropy * present).sum() / jnp.maximum(present.sum() * entropy.shape[1] * entropy.shape[2], 1)
    mean_nodes = present.sum() / jraph.get_graph_padding_mask(batch.graphs).sum()
    loss = -gain - config.entropy_weight * mean_nodes * entropy
    return loss, {"loss": loss, "entropy": entropy}
