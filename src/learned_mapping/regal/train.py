"""REGAL's training: imitate good schedules first, then REINFORCE on what BRKGA makes of the proposed laws.

The paper trains by REINFORCE alone (Section 2.3), on tens of thousands of graphs. Imitation gives the same network its
start in a minute: cross-entropy between the device that the law makes likely and the device in an elite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.regal.brkga import brkga
from learned_mapping.regal.elites import Elites
from learned_mapping.regal.features import Features
from learned_mapping.regal.forward import logits as forward_logits
from learned_mapping.regal.instance import Instance
from learned_mapping.regal.laws import BINS, larger_table, law_of, sample_bins
from learned_mapping.regal.network import ENTRIES, ROUNDS, Batch, bucket, initial_parameters, make_batch, network

MOST_GRAPHS = 31
"""In a batch."""


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
    imitation_iterations: int = 8
    """Iterations of imitation, `steps` gradient steps each."""
    steps: int = 50
    reinforce_iterations: int = 6
    """Iterations of REINFORCE, one gradient step each."""
    batch_nodes: int = 512
    """Ops in a batch of imitation, padding included."""
    learning_rate: float = 3e-3
    """Of imitation; it falls along a cosine."""
    reinforce_rate: float = 3e-4
    temperature: float = 0.02
    """Of the weights of a graph's elites, in their relative excess cost."""
    priority_weight: float = 0.1
    """Of the priorities' likelihood."""
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
    drawn from the network. Elites weigh by their cost. Two further terms: the likelihood of the elites' priorities, and
    the mean of alpha and beta, so that a law is no sharper than it needs to be.
    """
    p = jax.nn.softmax(logits)
    table = jnp.asarray(larger_table(), jnp.float32)
    one = jnp.einsum("abcd,na,nb,nc,nd->n", table, p[:, 1, 0], p[:, 1, 1], p[:, 0, 0], p[:, 0, 1])
    one = jnp.clip(one, 1e-4, 1 - 1e-4)[:, None]
    entropy = -(targets.devices * jnp.log(one) + (1 - targets.devices) * jnp.log(1 - one))
    graph_of = _graph_of(batch)
    count = batch.graphs.n_node.shape[0]
    sizes = jnp.maximum(batch.graphs.n_node, 1)[:, None]

    def mean(values):
        """[G, ...] means over each graph's ops, averaged over the real graphs."""
        per_graph = jax.ops.segment_sum(values, graph_of, count) / sizes
        return (per_graph * targets.weights).sum() / jnp.maximum(targets.weights.sum(), 1e-9)

    cross_entropy = mean(entropy)
    priority = mean(_priority_loss(p[:, -1], targets.priorities))
    strength = mean(jnp.einsum("neab,b->n", p[:, :-1], jnp.asarray(BINS, jnp.float32))[:, None] / 4)
    loss = cross_entropy + config.priority_weight * priority + config.strength_weight * strength
    return loss, {"loss": loss, "cross_entropy": cross_entropy, "priority_loss": priority, "strength": strength}


def _priority_loss(p: jax.Array, priorities: jax.Array) -> jax.Array:
    """[N, K] -log of the mixture of Betas that bins drawn from p [N, 2, bins] make, at priorities [N, K]."""
    alpha, beta = jnp.asarray(BINS)[:, None], jnp.asarray(BINS)[None, :]
    norm = jax.scipy.special.betaln(alpha, beta)
    x = jnp.clip(priorities, 1e-3, 1 - 1e-3)[..., None, None]
    density = jnp.exp((alpha - 1) * jnp.log(x) + (beta - 1) * jnp.log1p(-x) - norm)
    return -jnp.log(jnp.einsum("nkab,na,nb->nk", density, p[:, 0], p[:, 1]) + 1e-6)


def _graph_of(batch: Batch) -> jax.Array:
    count = batch.graphs.n_node.shape[0]
    nodes = batch.graphs.nodes.shape[0]
    return jnp.repeat(jnp.arange(count), batch.graphs.n_node, total_repeat_length=nodes)


class Targets(NamedTuple):
    """What a batch is to imitate: K elites of each graph."""

    devices: np.ndarray
    """[N, K] float32."""
    priorities: np.ndarray
    """[N, K] float32."""
    weights: np.ndarray
    """[G, K] float32, summing to 1 over a graph's elites; 0 for padding."""


def make_targets(examples: Sequence[Example], batch: Batch, config: TrainConfig) -> Targets:
    """The targets of the graphs in a batch, padded like it."""
    nodes, graphs = batch.graphs.nodes.shape[0], batch.graphs.n_node.shape[0]
    kept = examples[0].elites.devices.shape[0]
    targets = Targets(
        np.zeros((nodes, kept), np.float32), np.full((nodes, kept), 0.5, np.float32),
        np.zeros((graphs, kept), np.float32),
    )  # fmt: skip
    offset = 0
    for row, example in enumerate(examples):
        elites = example.elites
        size = elites.devices.shape[1]
        targets.devices[offset : offset + size] = elites.devices.T
        targets.priorities[offset : offset + size] = elites.priorities.T
        weights = np.exp(-(elites.costs / elites.costs[0] - 1) / config.temperature)
        targets.weights[row] = weights / weights.sum()
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
    gain = scale * (chosen * advantages[:, _graph_of(batch)]).sum()
    present = jraph.get_node_padding_mask(batch.graphs)[:, None, None]
    entropy = -(jnp.exp(log_p) * log_p).sum(axis=-1)
    entropy = (entropy * present).sum() / jnp.maximum(present.sum() * entropy.shape[1] * entropy.shape[2], 1)
    mean_nodes = present.sum() / jraph.get_graph_padding_mask(batch.graphs).sum()
    loss = -gain - config.entropy_weight * mean_nodes * entropy
    return loss, {"loss": loss, "entropy": entropy}


class RegalAgent:
    """A network in training; the `learning.loop.Agent` of paper 3.

    Args:
      examples: training graphs with two devices.
      config: everything else.
      evaluate: called with the network's parameters every `every` iterations and after each phase, returns
        what the log should say of them, such as the gap on validation graphs.
      every: see `evaluate`.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        config: TrainConfig,
        evaluate: Callable[[Any], dict[str, float]] | None = None,
        every: int = 1000,
    ):
        if not examples:
            raise InputError("examples", "", "no training graphs")
        self.examples, self.config, self.evaluate, self.every = list(examples), config, evaluate, every
        self.iterations = 0
        probe = self._batch(list(range(min(2, len(self.examples)))))[0]
        self.parameters = initial_parameters(config.model, probe, np.random.default_rng([config.seed, 0]))
        steps = config.steps * config.imitation_iterations
        schedule = optax.cosine_decay_schedule(config.learning_rate, max(steps, 1), 0.1)
        self._imitate = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))
        self._reinforce = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(config.reinforce_rate))
        optimisers = {"imitate": self._imitate, "reinforce": self._reinforce}
        self.memory = {name: optimiser.init(self.parameters) for name, optimiser in optimisers.items()}
        apply = network(config.model).apply

        def imitate(parameters, memory, batch, targets):
            def loss(p):
                return imitation_loss(apply(p, batch), batch, targets, config)

            gradient, row = jax.grad(loss, has_aux=True)(parameters)
            updates, memory = self._imitate.update(gradient, memory, parameters)
            return optax.apply_updates(parameters, updates), memory, row

        def reinforce(parameters, memory, batch, actions, advantages):
            def loss(p):
                return reinforce_loss(apply(p, batch), batch, actions, advantages, config)

            gradient, row = jax.grad(loss, has_aux=True)(parameters)
            updates, memory = self._reinforce.update(gradient, memory, parameters)
            return optax.apply_updates(parameters, updates), memory, row

        self._imitate_step, self._reinforce_step = jax.jit(imitate), jax.jit(reinforce)

    @property
    def done(self) -> bool:
        return self.iterations >= self.config.imitation_iterations + self.config.reinforce_iterations

    def iterate(self, stop: Callable[[], bool]) -> dict[str, Any] | None:
        rng = np.random.default_rng([self.config.seed, 1, self.iterations])
        imitating = self.iterations < self.config.imitation_iterations
        row = self._imitation(rng, stop) if imitating else self._reinforcement(rng, stop)
        if row is None:
            return None
        self.iterations += 1
        row = {"iteration": self.iterations, "phase": "imitation" if imitating else "reinforce"} | row
        last_of_phase = self.done or self.iterations == self.config.imitation_iterations
        if self.evaluate is not None and (last_of_phase or self.iterations % self.every == 0):
            row |= self.evaluate(self.parameters)
        return row

    def _imitation(self, rng: np.random.Generator, stop: Callable[[], bool]) -> dict[str, Any] | None:
        rows = []
        for _ in range(self.config.steps):
            if stop():
                return None
            chosen = self._pack(rng.permutation(len(self.examples)))
            batch, examples = self._batch(chosen)
            targets = make_targets(examples, batch, self.config)
            step = self._imitate_step(self.parameters, self.memory["imitate"], batch, targets)
            self.parameters, self.memory["imitate"], row = step
            rows.append(row)
        return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}

    def _reinforcement(self, rng: np.random.Generator, stop: Callable[[], bool]) -> dict[str, Any] | None:
        c = self.config
        small = [i for i, e in enumerate(self.examples) if e.instance.graph.num_ops <= c.reinforce_ops]
        chosen = rng.permutation(small)[: c.graphs].tolist()
        batch, examples = self._batch(chosen)
        nodes, graphs = batch.graphs.nodes.shape[0], batch.graphs.n_node.shape[0]
        actions = np.zeros((c.rollouts, nodes, ENTRIES, 2), np.int32)
        rewards = np.zeros((c.rollouts, len(examples)))
        offset = 0
        for g, example in enumerate(examples):
            proposed = forward_logits(self.parameters, example.seen, c.model, ROUNDS)
            size = len(proposed)
            for r in range(c.rollouts):
                if stop():
                    return None
                bins = sample_bins(proposed, rng)
                actions[r, offset : offset + size] = bins
                law = law_of(np.asarray(BINS)[bins], in_initial=c.in_initial)
                budget = Budget(samples=c.evaluations)
                # One seed for all rollouts of a graph: they differ in their laws alone.
                brkga(example.instance, np.random.default_rng([c.seed, 2, self.iterations, g]), budget, law=law)
                rewards[r, g] = -budget.best / example.brkga
            offset += size
        spread = rewards.std(axis=0)
        advantages = np.zeros((c.rollouts, graphs), np.float32)
        centred = (rewards - rewards.mean(axis=0)) / np.maximum(spread, 1e-9)
        advantages[:, : len(examples)] = np.where(spread > 1e-9, centred, 0.0)
        step = self._reinforce_step(self.parameters, self.memory["reinforce"], batch, actions, advantages)
        self.parameters, self.memory["reinforce"], row = step
        return {key: float(value) for key, value in row.items()} | {"reward": float(rewards.mean())}

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
        """The chosen graphs as one batch, of the same shape whatever the graphs, so that one compilation does."""
        examples = [self.examples[i] for i in chosen]
        nodes = self.config.batch_nodes
        longest = bucket(max(len(e.seen.nodes) for e in self.examples)) if self.config.model == "gas" else 1
        batch = make_batch(
            [e.seen for e in examples], nodes=nodes, edges=2 * nodes, graphs=MOST_GRAPHS + 1, sequence=longest
        )
        return batch, examples

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = flatten(self.parameters, "parameters") | flatten(self.memory, "memory")
        return arrays, {"config": asdict(self.config), "iterations": self.iterations}

    def restore(self, arrays: dict[str, np.ndarray], header: dict[str, Any], source: object) -> None:
        if header.get("config") != asdict(self.config):
            raise InputError(source, "config", f"{header.get('config')}, expected {asdict(self.config)}")
        self.parameters = unflatten(self.parameters, arrays, "parameters", source)
        self.memory = unflatten(self.memory, arrays, "memory", source)
        self.iterations = int(header["iterations"])
