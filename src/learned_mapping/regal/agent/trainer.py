"""REGAL's agent in training: the `learning.loop.Agent` of paper 3."""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import jax
import numpy as np
import optax

from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.network import Batch, make_batch
from learned_mapping.regal.agent.policy import BINS, policy, random_parameters, sample, value
from learned_mapping.regal.agent.reinforce import (
    ReinforceConfig,
    leave_one_out,
    policy_loss,
    rate_at,
    score_weights,
    seconds_of,
    stage_at,
)
from learned_mapping.regal.agent.rollouts import rollouts, uniform_cost
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.stream import stream

UNIFORM_RUNS = {180: 8, 5000: 2}
"""Evaluations -> runs with uniform mutants whose mean is H; 4 for any other. It scales a graph's rewards, no more."""

_adam = optax.scale_by_adam(b1=0.9, b2=0.98)
_clip = optax.clip_by_global_norm(1.0)


@jax.jit
def probabilities(parameters: Any, batch: Batch) -> jax.Array:
    """[N, d + 1, 2, bins]."""
    return jax.nn.softmax(policy.apply(parameters, batch))


@jax.jit
def _values(parameters: Any, batch: Batch) -> jax.Array:
    return value.apply(parameters, batch)


def _descend(gradient: Any, memory: Any, parameters: Any, rate: jax.Array) -> tuple[Any, Any]:
    clipped, _ = _clip.update(gradient, _clip.init(parameters))
    updates, memory = _adam.update(clipped, memory)
    return jax.tree.map(lambda p, u: p - rate * u, parameters, updates), memory


@functools.partial(jax.jit, static_argnames="entropy_weight")
def policy_step(parameters, memory, batch, weights, rate, entropy_weight):
    """Parameters and Adam's memory after one step of `policy_loss`, and the entropy."""

    def loss(p):
        return policy_loss(policy.apply(p, batch), batch, weights, entropy_weight)

    gradient, entropy = jax.grad(loss, has_aux=True)(parameters)
    return *_descend(gradient, memory, parameters, rate), entropy


@jax.jit
def value_step(parameters, memory, batch, targets, counts, rate):
    """The same for b(G): the squared error to [G] mean rewards over the graphs with a count of 1."""

    def loss(p):
        error = (value.apply(p, batch) - targets) * counts
        return (error**2).sum() / counts.sum()

    return _descend(jax.grad(loss)(parameters), memory, parameters, rate)


class ReinforceAgent:
    """The policy, b(G) and what they learn from.

    Args:
      instances: training graphs with two devices and one objective.
      config: everything else.
    """

    def __init__(self, instances: Sequence[Instance], config: ReinforceConfig):
        if not instances:
            raise InputError("training", "graphs", "there are none")
        self.instances, self.config = list(instances), config
        self.seen = [features(instance) for instance in self.instances]
        self.sizes = np.array([instance.graph.num_ops for instance in self.instances])
        self.data_digest = hashlib.sha256("".join(i.graph.digest for i in self.instances).encode()).hexdigest()[:16]
        self.iterations = self.rollouts = 0
        self.spent = self.cpu_s = 0.0
        batch = self._batch([int(np.argmin(self.sizes))])
        drawn = random_parameters(batch, np.random.default_rng([config.seed, 0]))
        self.parameters, self.value_parameters = drawn
        self.memory, self.value_memory = (_adam.init(each) for each in drawn)
        self._uniform: dict[tuple[int, int], float] = {}

    @property
    def done(self) -> bool:
        return self.spent >= self.config.seconds

    def iterate(self, stop: Callable[[], bool]) -> dict[str, Any]:
        """One step: graphs, laws, runs, gradient. Never cut short: it takes seconds."""
        started, c = time.process_time(), self.config
        number = stage_at(c, self.spent)
        stage = c.stages[number]
        rng = np.random.default_rng([c.seed, 1, self.iterations])
        chosen = self._choose(rng.permutation(np.flatnonzero(self.sizes <= stage.ops)[: stage.graphs]))
        batch = self._batch(chosen)
        p = np.asarray(probabilities(self.parameters, batch))
        choices, rewards, first = [], np.zeros((len(chosen), stage.rollouts)), 0
        for row, g in enumerate(chosen):
            bins = sample(p[first : first + self.sizes[g]], stage.rollouts, rng)
            first += self.sizes[g]
            source = stream(c.seed, 2, self.iterations, row)
            costs = rollouts(self.instances[g].arrays, bins, BINS, source, stage.evaluations)
            rewards[row] = -costs / self._uniform_cost(g, stage.evaluations)
            choices.append(bins)
        rate, means = rate_at(c, self.spent), rewards.mean(axis=1)
        guessed = np.asarray(_values(self.value_parameters, batch))[: len(chosen)]
        if c.baseline == "group":
            advantages = leave_one_out(rewards)
            advantages = advantages / max(float(rewards.std(axis=1).mean()), 1e-9)
        else:
            advantages = rewards - guessed[:, None]
            advantages = advantages / max(float(np.sqrt((advantages**2).mean())), 1e-9)
        weights = score_weights(choices, advantages, batch.graphs.nodes.shape[0], len(BINS))
        self.parameters, self.memory, entropy = policy_step(
            self.parameters, self.memory, batch, weights, rate, entropy_weight=c.entropy
        )
        targets, counts = np.zeros((2, batch.graphs.n_node.shape[0]), np.float32)
        targets[: len(chosen)], counts[: len(chosen)] = means, 1.0
        self.value_parameters, self.value_memory = value_step(
            self.value_parameters, self.value_memory, batch, targets, counts, c.value_rate
        )
        self.iterations += 1
        self.rollouts += rewards.size
        self.spent += seconds_of(self.sizes[chosen], stage)
        self.cpu_s += time.process_time() - started
        return {
            "iteration": self.iterations, "seconds": round(self.spent, 2), "cpu_s": round(self.cpu_s, 2),
            "stage": number, "evaluations": stage.evaluations, "rollouts": self.rollouts,
            "reward": float(rewards.mean()), "spread": float(rewards.std(axis=1).mean()), "entropy": float(entropy),
            "value_error": float(((guessed - means) ** 2).mean()), "reward_variance": float(means.var()),
        }  # fmt: skip

    def _choose(self, order: np.ndarray) -> list[int]:
        """The first graphs of `order` that fill a batch."""
        chosen, total = [], 1
        for g in order.tolist():
            if len(chosen) == self.config.batch_graphs or (chosen and total + self.sizes[g] > self.config.batch_ops):
                break
            chosen.append(g)
            total += self.sizes[g]
        return chosen

    def _batch(self, chosen: list[int]) -> Batch:
        c = self.config
        seen = [self.seen[g] for g in chosen]
        return make_batch(seen, nodes=c.batch_ops, edges=2 * c.batch_ops, graphs=c.batch_graphs + 1, sequence=1)

    def _uniform_cost(self, g: int, evaluations: int) -> float:
        """H of a training graph; the same whenever it is asked for."""
        key = g, evaluations
        if key not in self._uniform:
            runs = UNIFORM_RUNS.get(evaluations, 4)
            seed = self.config.seed, 3, g, evaluations
            self._uniform[key] = uniform_cost(self.instances[g].arrays, seed, evaluations, runs)
        return self._uniform[key]

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = flatten(self._tree(), "agent")
        counted = {name: getattr(self, name) for name in ("iterations", "rollouts", "spent", "cpu_s")}
        return arrays, counted | {"config": _plain(self.config), "data_digest": self.data_digest}

    def restore(self, arrays: dict[str, np.ndarray], header: dict[str, Any], source: object) -> None:
        for name, own in (("config", _plain(self.config)), ("data_digest", self.data_digest)):
            if header.get(name) != own:
                raise InputError(source, name, f"{header.get(name)}, expected {own}")
        tree = unflatten(self._tree(), arrays, "agent", source)
        self.parameters, self.value_parameters, self.memory, self.value_memory = tree
        for name in ("iterations", "rollouts", "spent", "cpu_s"):
            setattr(self, name, header[name])

    def _tree(self) -> tuple[Any, ...]:
        return self.parameters, self.value_parameters, self.memory, self.value_memory


def _plain(config: ReinforceConfig) -> dict[str, Any]:
    """A configuration as JSON has it."""
    return json.loads(json.dumps(asdict(config)))
