"""Proximal policy optimisation (Schulman et al. 2017) over whole partitions.

Every single choice a_k of a sample (the chip of an op, a log-weight) has its own ratio, the sample's advantage is
shared:

    r_k = π(a_k) / π_old(a_k),    J = Σ_k w_k mean min(r_k A, clip(r_k, 1 - ε, 1 + ε) A) + entropy - value error

The ratio of the whole sample would be a product over hundreds of choices and leave the clip at once.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from learned_mapping.mcm.agent.chips import ChipPolicy
from learned_mapping.mcm.agent.config import CHIPS, AgentConfig
from learned_mapping.mcm.agent.weights import WeightPolicy

SPREAD = 1e-6
"""Rewards that differ by less than this share count as equal."""
GRADIENT_NORM = 1.0
"""A longer gradient is shortened to this."""
LIMIT = 2.5
"""Advantages are cut off at so many standard deviations."""


class Learned(NamedTuple):
    """What learning changes. A pytree."""

    parameters: Any
    optimiser: Any


@lru_cache(maxsize=16)
def make_policy(config: AgentConfig) -> ChipPolicy | WeightPolicy:
    """The policy a configuration names; one per configuration, so that compiled code is shared."""
    return ChipPolicy(config) if config.policy == CHIPS else WeightPolicy(config)


def optimiser_of(config: AgentConfig) -> optax.GradientTransformation:
    """Adam behind a limit on the gradient's norm."""
    return optax.chain(optax.clip_by_global_norm(GRADIENT_NORM), optax.adam(config.learning_rate))


def new_learned(policy: ChipPolicy | WeightPolicy, rng: np.random.Generator) -> Learned:
    """Fresh parameters."""
    parameters = policy.new_parameters(rng)
    return Learned(parameters, optimiser_of(policy.config).init(parameters))


def advantages(rewards: np.ndarray) -> np.ndarray:
    """[B] float32 rewards, brought to mean 0 and deviation 1 and cut off; all 0 where they are equal."""
    rewards = np.asarray(rewards, np.float64)
    centred = rewards - rewards.mean()
    deviation = centred.std()
    if deviation < SPREAD * max(abs(rewards.mean()), SPREAD):
        return np.zeros(len(centred), np.float32)
    return np.clip(centred / deviation, -LIMIT, LIMIT).astype(np.float32)


@partial(jax.jit, static_argnums=0)
def update(
    policy: ChipPolicy | WeightPolicy,
    learned: Learned,
    context: Any,
    actions: Any,
    advantage: jax.Array,
    target: jax.Array,
    key: jax.Array,
) -> tuple[Learned, dict[str, jax.Array]]:
    """`epochs` passes over a batch of samples of one graph, in mini-batches.

    Args:
      policy: compared by identity.
      learned: parameters and optimiser.
      context: of the graph, from ``policy.context``.
      actions: pytree of [B, ...] arrays.
      advantage, target: [B] float32, the latter of the value.
      key: of the mini-batches.
    """
    config = policy.config
    count = len(advantage)
    before, *_ = policy.log_probabilities(learned.parameters, context, actions)
    transform = optimiser_of(config)

    def objective(parameters, rows):
        chosen = jax.tree_util.tree_map(lambda x: x[rows], actions)
        logs, shares, entropy, expected = policy.log_probabilities(parameters, context, chosen)
        ratio = jnp.exp(jnp.clip(logs - before[rows], -10.0, 10.0))
        gain = advantage[rows][:, None]
        least = jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - config.clip, 1 + config.clip) * gain)
        error = jnp.square(target[rows] - expected).mean()
        aim = (least * shares).sum(-1).mean() + config.entropy * entropy - config.value_weight * error
        return -aim, {"entropy": entropy, "value_error": error}

    def step(learned, rows):
        gradient, measured = jax.grad(objective, has_aux=True)(learned.parameters, rows)
        change, optimiser = transform.update(gradient, learned.optimiser, learned.parameters)
        return Learned(optax.apply_updates(learned.parameters, change), optimiser), measured

    keys = jax.random.split(key, config.epochs)
    rows = jax.vmap(lambda k: jax.random.permutation(k, count))(keys)
    size = max(count // config.minibatches, 1)
    rows = rows[:, : size * (count // size)].reshape(-1, size)
    learned, measured = jax.lax.scan(step, learned, rows)
    return learned, jax.tree_util.tree_map(lambda x: x[-1], measured)
