"""REGAL's training: imitation of good schedules, then REINFORCE on what BRKGA makes of a law.

The paper trains by the second alone (Section 2.3), on tens of thousands of graphs. Imitation gives the same network its
start in a minute: cross-entropy between what the law makes likely and what an elite has, of the ops' devices and of
which of two ready ops or transfers is next (`decisions`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.regal.agent.forward import logits as forward_logits
from learned_mapping.regal.agent.losses import Example, TrainConfig, imitation_loss, make_targets, reinforce_loss
from learned_mapping.regal.agent.network import ENTRIES, ROUNDS, Batch, bucket, initial_parameters, make_batch, network
from learned_mapping.regal.searches.brkga import brkga
from learned_mapping.regal.searches.proposals import BINS, law_of, sample_bins

MOST_GRAPHS = 31
"""In a batch."""


class TrainingStep(NamedTuple):
    """One kind of gradient step."""

    optimiser: optax.GradientTransformation
    apply: Callable
    """(parameters, optimiser's memory, batch, what the loss takes) -> parameters and memory after it, a log row."""


@functools.lru_cache(maxsize=4)
def training_steps(config: TrainConfig) -> dict[str, TrainingStep]:
    """``imitate`` and ``reinforce``, compiled once for a configuration."""
    steps = max(config.steps * config.imitation_iterations, 1)
    rates = {
        "imitate": optax.cosine_decay_schedule(config.learning_rate, steps, 0.1),
        "reinforce": config.reinforce_rate,
    }
    losses = {"imitate": imitation_loss, "reinforce": reinforce_loss}
    decays = {"imitate": config.weight_decay, "reinforce": 0.0}
    apply = network(config.model).apply
    found = {}
    for name, loss in losses.items():
        optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rates[name], weight_decay=decays[name]))

        def step(parameters, memory, batch, *rest, loss=loss, optimiser=optimiser):
            def of(p):
                return loss(apply(p, batch), batch, *rest, config)

            gradient, row = jax.grad(of, has_aux=True)(parameters)
            updates, memory = optimiser.update(gradient, memory, parameters)
            return optax.apply_updates(parameters, updates), memory, row

        found[name] = TrainingStep(optimiser, jax.jit(step))
    return found


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
        self._steps = training_steps(config)
        self.memory = {name: step.optimiser.init(self.parameters) for name, step in self._steps.items()}

    @property
    def done(self) -> bool:
        return self.iterations >= self._ends[-1]

    @property
    def _ends(self) -> tuple[int, ...]:
        """Iterations after which each phase ends: imitation, REINFORCE."""
        c = self.config
        return tuple(itertools.accumulate((c.imitation_iterations, c.reinforce_iterations)))

    def iterate(self, stop: Callable[[], bool]) -> dict[str, Any] | None:
        rng = np.random.default_rng([self.config.seed, 1, self.iterations])
        phases = (("imitation", self._imitation), ("reinforce", self._reinforcement))
        name, learn = next(phase for phase, end in zip(phases, self._ends) if self.iterations < end)
        row = learn(rng, stop)
        if row is None:
            return None
        self.iterations += 1
        row = {"iteration": self.iterations, "phase": name} | row
        last_of_phase = self.iterations in self._ends
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
            targets = make_targets(examples, batch, self.config, rng)
            step = self._steps["imitate"].apply(self.parameters, self.memory["imitate"], batch, targets)
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
        parameters = jax.tree_util.tree_map(np.asarray, self.parameters)
        for g, example in enumerate(examples):
            proposed = forward_logits(parameters, example.seen, c.model, ROUNDS)
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
        step = self._steps["reinforce"].apply(self.parameters, self.memory["reinforce"], batch, actions, advantages)
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
