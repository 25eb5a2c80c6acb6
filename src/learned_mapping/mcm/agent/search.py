"""One run on one problem: sample, repair, judge, and learn where that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mcm.agent.chips import ChipPolicy
from learned_mapping.mcm.agent.ppo import Learned, advantages, update
from learned_mapping.mcm.agent.problem import Problem
from learned_mapping.mcm.agent.weights import WeightPolicy

Policy = ChipPolicy | WeightPolicy


def new_key(rng: np.random.Generator) -> jax.Array:
    """A JAX key derived from a generator."""
    return jax.random.PRNGKey(int(rng.integers(2**31)))


def rollouts(
    policy: Policy, parameters: Any, context: Any, problem: Problem, rng: np.random.Generator
) -> tuple[np.ndarray, Any]:
    """([B, N] int32 valid partitions, the actions to credit)."""
    sampled = policy.act(parameters, context, new_key(rng), count=policy.config.rollouts)
    return policy.partitions(problem, sampled, rng)


def learn(
    policy: Policy,
    learned: Learned,
    context: Any,
    actions: Any,
    rewards: np.ndarray,
    rng: np.random.Generator,
) -> tuple[Learned, dict[str, float]]:
    """PPO on one batch; rewards [B] in units of the naive greedy. The value learns log(1 + reward).

    With one graph per batch the normalisation of `advantages` takes any baseline out again, so the value is a second
    task for the embeddings rather than a help against variance.
    """
    target = jnp.log1p(jnp.asarray(rewards, jnp.float32))
    learned, measured = update(policy, learned, context, actions, advantages(rewards), target, new_key(rng))
    return learned, {name: float(number) for name, number in measured.items()}


def run(
    policy: Policy,
    learned: Learned,
    problem: Problem,
    rng: np.random.Generator,
    budget: Budget,
    *,
    learning: bool,
    report: Callable[[dict[str, float]], None] | None = None,
) -> tuple[np.ndarray, Learned]:
    """([N] int32 the fastest partition sampled, what was learned) within a budget of samples or time.

    Args:
      policy, learned: where to start from.
      problem: the graph and its judge.
      rng: of samples, repairs and mini-batches.
      budget: a sample is one partition judged.
      learning: whether PPO follows every full batch; without it the policy stays as it is.
      report: called with measurements after every update.
    """
    context = policy.context(problem)
    best = np.zeros(problem.num_ops, np.int32)
    while not budget.spent():
        found, actions = rollouts(policy, learned.parameters, context, problem, rng)
        rewards = np.zeros(len(found))
        for i, assignment in enumerate(found):
            if budget.spent():
                return best, learned
            throughput = problem.judge.throughput(assignment)
            rewards[i] = throughput / problem.unit
            if budget.record(throughput):
                best = assignment.copy()
        if learning and not budget.spent():
            learned, measured = learn(policy, learned, context, actions, rewards, rng)
            if report is not None:
                report({"samples": budget.samples, "mean_reward": float(rewards.mean()), **measured})
    return best, learned
