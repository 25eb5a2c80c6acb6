"""The training step: the unrolled loss of MuZero, Adam with weight decay (Table 6).

    loss = 1/N sum_n sum_k w_k ( CE(pi_k, p_k) + CE(r_k, r'_k) + c CE(z_k, v_k) ),  w_0 = 1, w_k = 1/K for k = 1 ... K

The model is unrolled K steps from the observation; gradients are halved where they enter each dynamics step
(Schrittwieser et al. 2020, Appendix G). Past the end of a game value and reward are 0 and the policy is not trained.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from learned_mapping.learning.networks import scale_gradient
from learned_mapping.mmap.muzero.config import MuZeroConfig, only
from learned_mapping.mmap.muzero.network import Parameters, make_networks
from learned_mapping.mmap.muzero.representation import Observation


class Batch(NamedTuple):
    """N samples, unrolled K steps."""

    observation: Observation
    """[N, ...] of the first position."""
    action: np.ndarray
    """[N, K] int32: taken at positions 0 to K - 1."""
    policy: np.ndarray
    """[N, K + 1, 3] float32: targets."""
    policy_weight: np.ndarray
    """[N, K + 1] float32: 0 past the end of the game."""
    value: np.ndarray
    """[N, K + 1] float32: targets."""
    reward: np.ndarray
    """[N, K] float32: what followed each action."""


class LearnerState(NamedTuple):
    """What training changes."""

    parameters: Parameters
    optimiser: Any


def make_optimiser(config: MuZeroConfig) -> optax.GradientTransformation:
    """Adam with decoupled weight decay (the paper does not say which kind), after clipping if there is any."""
    adam = optax.adamw(config.learning_rate, weight_decay=config.weight_decay)
    if config.max_gradient_norm > 0:
        return optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), adam)
    return adam


def make_loss(config: MuZeroConfig) -> Callable[[Parameters, Batch], tuple[jax.Array, dict[str, jax.Array]]]:
    """The loss of a batch and its parts, per sample and step."""
    networks = make_networks(config.representation, config.network)
    steps = config.unroll_steps

    def cross_entropy(target, logits):
        return -jnp.sum(target * jax.nn.log_softmax(logits), axis=-1)

    def loss(parameters: Parameters, batch: Batch):
        weights = jnp.where(jnp.arange(steps + 1) == 0, 1.0, 1.0 / steps)

        def step(state, target):
            prediction = networks.predict(parameters, state)
            policy_loss = jnp.mean(target["policy_weight"] * cross_entropy(target["policy"], prediction.policy))
            value_loss = jnp.mean(cross_entropy(target["value"], prediction.value))
            state, reward = networks.dynamics(parameters, scale_gradient(state, 0.5), target["action"])
            reward_loss = jnp.mean(cross_entropy(target["reward"], reward))
            return state, (policy_loss, value_loss, reward_loss)

        def padded(column):  # the last step's action leads nowhere, and its reward loss is dropped
            return jnp.concatenate([column, column[:, -1:]], axis=1)

        targets = {
            "policy": batch.policy,
            "policy_weight": batch.policy_weight,
            "value": networks.atoms.encode(batch.value),
            "reward": padded(networks.atoms.encode(batch.reward)),
            "action": padded(batch.action),
        }
        targets = {name: jnp.swapaxes(column, 0, 1) for name, column in targets.items()}
        state = networks.represent(parameters, batch.observation)
        _, (policy_loss, value_loss, reward_loss) = jax.lax.scan(step, state, targets)
        reward_loss = reward_loss[:-1]
        total = jnp.sum(weights * (policy_loss + config.value_loss_weight * value_loss)) + jnp.mean(reward_loss)
        parts = {"policy_loss": policy_loss, "value_loss": value_loss, "reward_loss": reward_loss}
        return total, {"loss": total, **{name: jnp.mean(part) for name, part in parts.items()}}

    return loss


def make_learner(config: MuZeroConfig) -> tuple[Callable, Callable]:
    """``init(rng) -> LearnerState`` and the compiled ``update(state, batch) -> (LearnerState, metrics)``."""
    return _make_learner(
        only(
            config, "representation", "network", "learning_rate", "weight_decay", "unroll_steps", "value_loss_weight",
            "max_gradient_norm",
        )
    )  # fmt: skip


@functools.lru_cache(maxsize=16)
def _make_learner(config: MuZeroConfig) -> tuple[Callable, Callable]:
    networks = make_networks(config.representation, config.network)
    optimiser, loss = make_optimiser(config), make_loss(config)

    def init(rng: np.random.Generator) -> LearnerState:
        parameters = networks.init(rng)
        memory = jax.eval_shape(optimiser.init, parameters)  # Adam's starts at 0
        return LearnerState(parameters, jax.tree_util.tree_map(lambda x: np.zeros(x.shape, x.dtype), memory))

    def update(state: LearnerState, batch: Batch):
        gradients, metrics = jax.grad(loss, has_aux=True)(state.parameters, batch)
        updates, memory = optimiser.update(gradients, state.optimiser, state.parameters)
        metrics["gradient_norm"] = optax.global_norm(gradients)
        return LearnerState(optax.apply_updates(state.parameters, updates), memory), metrics

    return init, jax.jit(update)
