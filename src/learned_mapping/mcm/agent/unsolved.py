"""The paper's policy without the constraint solver: what it draws is what is judged (Section 5.1).

Rewards come in two kinds. ``sparse`` is the paper's: throughput, 0 where a constraint is broken. ``penalty`` tells the
policy how far off it is: the share of edges that neither run backwards nor skip a chip, and 1 more than the throughput
over the naive greedy's for a valid partition, so that valid always beats invalid. No reward is negative: the value
learns log(1 + reward).
"""

from typing import Any

import numpy as np

from learned_mapping.mcm.agent.config import AgentConfig
from learned_mapping.mcm.agent.ppo import learn, make_policy, new_key, new_learned
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.rules.constraints import is_valid

SPARSE, PENALTY = "sparse", "penalty"
REWARDS = (SPARSE, PENALTY)


def reward_of(assignment: np.ndarray, env: PartitionEnv, kind: str) -> tuple[float, bool]:
    """(reward in units of the naive greedy's throughput, whether the assignment is valid)."""
    edges = env.graph.op_edges
    if is_valid(assignment, edges):
        return float(kind == PENALTY) + env.model.throughput(assignment) / env.unit, True
    if kind == SPARSE:
        return 0.0, False
    step = assignment[edges[:, 1]] - assignment[edges[:, 0]]
    return float(np.mean((step >= 0) & (step <= 1))), False


def learn_unsolved(
    env: PartitionEnv, config: AgentConfig, rng: np.random.Generator, *, samples: int, reward: str
) -> dict[str, Any]:
    """Trains by PPO without a solver.

    Args:
      env: a graph on a package.
      config: of the policy; `rollouts` samples make a batch.
      samples: assignments to draw, rounded up to whole batches.
      reward: of `REWARDS`.

    Returns:
      ``samples``, ``valid``, ``first_valid`` (the number of the first, or None), ``best`` throughput, and the share of
      edges that break the chain rule in the first and in the last batch.
    """
    policy = make_policy(config)
    learned, context, edges = new_learned(policy, rng), policy.context(env), env.graph.op_edges
    drawn, valid, first, best, broken = 0, 0, None, 0.0, []
    while drawn < samples:
        actions, _ = policy.act(learned.parameters, context, new_key(rng), count=config.rollouts)
        found = np.asarray(actions.chosen)[:, -1, : env.num_ops]
        rewards = np.zeros(len(found))
        for i, assignment in enumerate(found):
            rewards[i], fine = reward_of(assignment, env, reward)
            if fine:
                valid, first = valid + 1, drawn + i + 1 if first is None else first
                best = max(best, env.model.throughput(assignment))
        drawn += len(found)
        step = found[:, edges[:, 1]] - found[:, edges[:, 0]]
        broken.append(float(np.mean((step < 0) | (step > 1))))
        learned, _ = learn(policy, learned, context, actions, rewards, rng)
    ends = {"broken_first": broken[0], "broken_last": broken[-1]}
    return {"samples": drawn, "valid": valid, "first_valid": first, "best": best, **ends}
