"""Searches in the same numbers as policy ``weights``, without a network: they show what learning adds to the numbers.

Both draw, realise and judge exactly as the policy does, and both begin with its first sample, the costs as they are.
"""

from __future__ import annotations

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mcm.agent.config import AgentConfig
from learned_mapping.mcm.agent.problem import Problem
from learned_mapping.mcm.agent.weights import NUM_LATENTS, WeightActions, WeightPolicy

ELITE = 5
"""Of every batch of `rollouts` the best so many draw the distribution to themselves."""
STEP = 0.5
"""How far the distribution moves to the elite's in one batch."""
LEAST_STD = 0.1
"""Deviations do not shrink below this share of their start."""


def random_weights(config: AgentConfig, problem: Problem, rng: np.random.Generator, budget: Budget) -> np.ndarray:
    """[N] int32, the best partition of the distribution policy ``weights`` starts from."""
    return cross_entropy(config, problem, rng, budget, step=0.0)


def cross_entropy(
    config: AgentConfig, problem: Problem, rng: np.random.Generator, budget: Budget, *, step: float = STEP
) -> np.ndarray:
    """[N] int32, the best partition of a search by the cross-entropy method (Rubinstein 1999).

    A diagonal Gaussian over the K global numbers and N log-weights; after every batch its mean and deviations move by
    `step` to those of the elite.
    """
    policy, count = WeightPolicy(config), config.rollouts
    mean = np.zeros(NUM_LATENTS + problem.num_ops)
    deviation = np.ones_like(mean)
    best = np.zeros(problem.num_ops, np.int32)
    while not budget.spent():
        noise = rng.standard_normal((count, len(mean)))
        noise[0] = 0.0
        drawn = mean + deviation * noise
        found, _ = policy.partitions(problem, WeightActions(drawn[:, :NUM_LATENTS], drawn[:, NUM_LATENTS:]), rng)
        rewards = np.zeros(count)
        for i, assignment in enumerate(found):
            if budget.spent():
                return best
            rewards[i] = problem.judge.throughput(assignment)
            if budget.record(rewards[i]):
                best = assignment.copy()
        if step > 0:
            elite = drawn[np.argsort(-rewards, kind="stable")[: min(ELITE, count)]]
            mean += step * (elite.mean(0) - mean)
            deviation += step * (elite.std(0) - deviation)
            deviation = np.maximum(deviation, LEAST_STD)
    return best
