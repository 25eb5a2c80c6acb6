"""The training of REGAL's networks by imitation of good schedules, ours: a minute for a network.

The paper trains by REINFORCE alone (Section 2.3; `reinforce`), on tens of thousands of graphs. Here
the loss is the cross-entropy between what the law makes likely and what an elite has, of the ops'
devices and of which of two ready ops or transfers is next (`elites.draw_pairs`).
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.regal.agent.features import Features
from learned_mapping.regal.agent.network import (
    Batch,
    graph_of,
    initial_parameters,
    make_batch,
    network,
)
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.proposals import BINS, larger_table

from .elites import OTHERS, TRANSFER, Elites, draw_pairs

MOST_GRAPHS = 31  # In a batch.


class Example(NamedTuple):
    """A training graph."""

    instance: Instance
    seen: Features
    elites: Elites


@dataclass(frozen=True)
class TrainConfig:
    """What decides a training run."""

    seed: int = 0
    imitation_iterations: int = 10  # Of `steps` gradient steps each.
    steps: int = 50
    batch_nodes: int = 1024  # Ops in a batch, padding included.
    learning_rate: float = 3e-3  # It falls along a cosine.
    weight_decay: float = 0.1  # Of AdamW: the training graphs are few.
    temperature: float = 0.02
    """Of the weights of a graph's elites, in their relative excess cost."""
    priority_weight: float = 0.3  # Of the pairs' cross-entropy.
    strength_weight: float = 1e-3
    """Of the mean of alpha and beta: a law says no more than it has learned."""


class Targets(NamedTuple):
    """What a batch is to imitate: K elites of each graph."""

    devices: np.ndarray  # [N, K] float32.
    weights: np.ndarray  # [G, K] float32, summing to 1 over a graph's elites; 0 for padding.
    # [P, 2] int64, ops that were ready at once; the first ran first. N stands for any transfer.
    pairs: np.ndarray
    # [P] float32, summing to 1 over the batch, graphs weighing alike; 0 for padding.
    pair_weights: np.ndarray


def make_targets(
    examples: Sequence[Example], batch: Batch, config: TrainConfig, rng: np.random.Generator
) -> Targets:
    """The targets of the graphs in a batch, padded like it; pairs are drawn of one elite of each,
    by its weight."""
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
        targets.pairs[filled : filled + len(pairs)] = np.where(
            pairs == TRANSFER, nodes, pairs + offset
        )
        targets.pair_weights[filled : filled + len(pairs)] = 1 / (
            max(len(pairs), 1) * len(examples)
        )
        filled += len(pairs)
        offset += size
    return targets


def imitation_loss(
    logits: jax.Array, batch: Batch, targets: Targets, config: TrainConfig
) -> tuple[jax.Array, Any]:
    """Cross-entropy between the device an op probably gets and its devices in the graph's elites,
    mean over graphs.

    The probability that an op goes to device 1 is that of its affinity there being the larger, all
    four bins being drawn from the network. Elites weigh by their cost. Two further terms: the same
    for pairs that were ready at once, of ops or of an op and a transfer, that which was next having
    the larger priority; and the mean of alpha and beta, so that a law is no sharper than it needs
    to be.
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
    return loss, {
        "loss": loss,
        "cross_entropy": cross_entropy,
        "priority_loss": priority,
        "strength": strength,
    }


def _larger(one: jax.Array, other: jax.Array) -> jax.Array:
    """[K] probability that X > Y, each from the mixture of Betas that bins drawn from its [K, 2,
    bins] make."""
    table = jnp.asarray(larger_table(), jnp.float32)
    share = jnp.einsum("abcd,na,nb,nc,nd->n", table, one[:, 0], one[:, 1], other[:, 0], other[:, 1])
    return jnp.clip(share, 1e-4, 1 - 1e-4)


@functools.lru_cache(maxsize=4)
def training_step(config: TrainConfig) -> tuple[optax.GradientTransformation, Callable]:
    """The optimiser, and the compiled (parameters, its memory, batch, targets) -> both after a
    step, a log row."""
    steps = max(config.steps * config.imitation_iterations, 1)
    rate = optax.cosine_decay_schedule(config.learning_rate, steps, 0.1)
    optimiser = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=config.weight_decay)
    )
    apply = network("plain").apply

    def step(parameters, memory, batch, targets):
        loss = jax.grad(
            lambda p: imitation_loss(apply(p, batch), batch, targets, config), has_aux=True
        )
        gradient, row = loss(parameters)
        updates, memory = optimiser.update(gradient, memory, parameters)
        return optax.apply_updates(parameters, updates), memory, row

    return optimiser, jax.jit(step)


class RegalAgent:
    """A network in training on graphs with two devices; the `learning.loop.Agent` of paper 3."""

    def __init__(self, examples: Sequence[Example], config: TrainConfig):
        if not examples:
            raise InputError("examples", "", "no training graphs")
        self.examples, self.config = list(examples), config
        self.iterations = 0
        probe = self._batch(list(range(min(2, len(self.examples)))))[0]
        self.parameters = initial_parameters(
            "plain", probe, np.random.default_rng([config.seed, 0])
        )
        optimiser, self._step = training_step(config)
        self.memory = optimiser.init(self.parameters)

    @property
    def done(self) -> bool:
        return self.iterations >= self.config.imitation_iterations

    def iterate(self, stop: Callable[[], bool]) -> dict[str, Any] | None:
        rng = np.random.default_rng([self.config.seed, 1, self.iterations])
        rows = []
        for _ in range(self.config.steps):
            if stop():
                return None
            batch, examples = self._batch(self._pack(rng.permutation(len(self.examples))))
            targets = make_targets(examples, batch, self.config, rng)
            self.parameters, self.memory, row = self._step(
                self.parameters, self.memory, batch, targets
            )
            rows.append(row)
        self.iterations += 1
        return {"iteration": self.iterations} | {
            key: float(np.mean([row[key] for row in rows])) for key in rows[0]
        }

    def _pack(self, order: np.ndarray) -> list[int]:
        """As many of the graphs, in this order, as fill a batch."""
        chosen, total = [], 1
        for i in order.tolist():
            size = self.examples[i].instance.graph.num_ops
            if total + size > self.config.batch_nodes or len(chosen) == MOST_GRAPHS:
                break
            chosen.append(i)
            total += size
        return chosen or [int(order[0])]

    def _batch(self, chosen: list[int]) -> tuple[Batch, list[Example]]:
        """The chosen graphs as one batch, of the same shape whatever the graphs, so that one
        compilation does."""
        examples = [self.examples[i] for i in chosen]
        nodes = self.config.batch_nodes
        seen = [e.seen.without_links() for e in examples]
        return make_batch(
            seen, nodes=nodes, edges=2 * nodes, graphs=MOST_GRAPHS + 1, sequence=1
        ), examples

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = flatten(self.parameters, "parameters") | flatten(self.memory, "memory")
        return arrays, {"config": asdict(self.config), "iterations": self.iterations}

    def restore(
        self, arrays: dict[str, np.ndarray], header: dict[str, Any], source: object
    ) -> None:
        if header.get("config") != asdict(self.config):
            raise InputError(
                source, "config", f"{header.get('config')}, expected {asdict(self.config)}"
            )
        self.parameters = unflatten(self.parameters, arrays, "parameters", source)
        self.memory = unflatten(self.memory, arrays, "memory", source)
        self.iterations = int(header["iterations"])
