"""Monte Carlo tree search in the learned model, batched over games: PUCT as in the paper, or Gumbel.

PUCT is `mctx.muzero_policy`: Dirichlet noise and the mask of illegal actions at the root, Q normalised by its least and
greatest value among parent and siblings. Below the root nothing is masked: the model has to know.

Gumbel is `mctx.gumbel_muzero_policy` (Danihelka et al. 2022), but Q is not rescaled to [0, 1]: with three actions of
nearly equal value, rescaling blows their noise up to the size of the prior.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mctx
import numpy as np

from learned_mapping.mmap.muzero.config import GUMBEL, NO_SEARCH, MuZeroConfig, only
from learned_mapping.mmap.muzero.network import LOWEST_LOGIT, Parameters, make_networks
from learned_mapping.mmap.muzero.representation import Observation

COLD = 1e-3
"""A temperature that leaves the favourite only."""


class Decisions(NamedTuple):
    """What the search recommends for a batch of B states."""

    action: jax.Array
    """[B] int32, sampled at the temperature."""
    policy: jax.Array
    """[B, 3] the policy target: visit shares, or Gumbel's improved policy; 0 where illegal."""
    value: jax.Array
    """[B] the root's value after the search, in the units of `NetworkConfig.value_scale`."""
    network_value: jax.Array
    """[B] the same before the search."""


Decide = Callable[[Parameters, Observation, jax.Array, jax.Array, jax.Array], Decisions]


def make_decide(config: MuZeroConfig) -> Decide:
    """The compiled function (parameters, observations, legal [B, 3] bool, key, temperature [B, 1]) -> `Decisions`.

    A row without a legal action, such as that of a game that is over, gets a meaningless answer.
    """
    return _make_decide(
        only(
            config, "representation", "network", "search", "simulations", "discount", "noise_fraction", "noise_alpha",
            "gumbel_value_scale",
        )
    )  # fmt: skip


@functools.lru_cache(maxsize=16)
def _make_decide(config: MuZeroConfig) -> Decide:
    networks = make_networks(config.representation, config.network)

    def recurrent(parameters, key, action, state):
        state, reward = networks.dynamics(parameters, state, action)
        prediction = networks.predict(parameters, state)
        reward = networks.atoms.decode(reward)
        output = mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.full_like(reward, config.discount),
            prior_logits=prediction.policy,
            value=networks.atoms.decode(prediction.value),
        )
        return output, state

    def decide(parameters, observation, legal, key, temperature) -> Decisions:
        state = networks.represent(parameters, observation)
        prediction = networks.predict(parameters, state)
        value = networks.atoms.decode(prediction.value)
        logits = jnp.where(legal, prediction.policy, LOWEST_LOGIT)
        if config.search == NO_SEARCH:
            action = jax.random.categorical(key, logits / temperature)
            return Decisions(action, jax.nn.softmax(logits), value, value)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        if config.search == GUMBEL:
            found = mctx.gumbel_muzero_policy(
                parameters, key, root, recurrent, config.simulations, invalid_actions=~legal,
                qtransform=functools.partial(
                    mctx.qtransform_completed_by_mix_value,
                    value_scale=config.gumbel_value_scale, rescale_values=False,
                ),
                max_num_considered_actions=legal.shape[-1], gumbel_scale=temperature,
            )  # fmt: skip
        else:
            found = mctx.muzero_policy(
                parameters, key, root, recurrent, config.simulations, invalid_actions=~legal,
                dirichlet_fraction=config.noise_fraction, dirichlet_alpha=config.noise_alpha, temperature=temperature,
            )  # fmt: skip
        searched = found.search_tree.node_values[:, found.search_tree.ROOT_INDEX]
        policy = jnp.where(legal, found.action_weights, 0.0)
        return Decisions(found.action.astype(jnp.int32), policy, searched, value)

    return jax.jit(decide)


def make_infer(config: MuZeroConfig) -> Callable[[Parameters, Observation, jax.Array], Decisions]:
    """The compiled network alone: (parameters, observations, legal) -> its best legal action, policy and value."""
    return _make_infer(only(config, "representation", "network"))


@functools.lru_cache(maxsize=16)
def _make_infer(config: MuZeroConfig) -> Callable[[Parameters, Observation, jax.Array], Decisions]:
    networks = make_networks(config.representation, config.network)

    def infer(parameters, observation, legal) -> Decisions:
        prediction = networks.predict(parameters, networks.represent(parameters, observation))
        logits = jnp.where(legal, prediction.policy, LOWEST_LOGIT)
        value = networks.atoms.decode(prediction.value)
        return Decisions(jnp.argmax(logits, axis=-1), jax.nn.softmax(logits), value, value)

    return jax.jit(infer)


def temperatures(config: MuZeroConfig, training_step: int) -> np.ndarray:
    """[G, 1] float32: the temperature of each parallel game; the first `exploiting_games` are almost at 0."""
    column = np.full((config.parallel_games, 1), temperature_at(config, training_step), np.float32)
    column[: config.exploiting_games] = COLD
    return column


def temperature_at(config: MuZeroConfig, training_step: int) -> float:
    """The temperature after so many training steps (Table 6), linear between its ends."""
    share = min(training_step / max(config.temperature_decay_steps, 1), 1.0)
    return config.init_temperature + share * (config.final_temperature - config.init_temperature)
