"""The search in the learned model: Gumbel MuZero (Danihelka et al. 2022) by mctx, batched over
games.

Q is completed by the mixed value but not rescaled to [0, 1]: with three actions of nearly equal
value rescaling blows their noise up to the size of the prior. Its scale, logits per unit, decides
between learning and collapse.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mctx
import numpy as np

from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.network import Networks, Parameters
from learned_mapping.mmap.rules.actions import NUM_ACTIONS

LOWEST_LOGIT = -1e9
"""The logit of an illegal action."""
ADVANTAGE = 1.0
"""Nats by which one update of the policy without a search can move an action, Muesli's clip."""
VISITS = 50.0
"""mctx multiplies Q by this plus the visits of the most visited action."""


class Decisions(NamedTuple):
    """The agent's decisions at N positions; a row without a legal action gets a meaningless
    answer."""

    # [N] int32, drawn at the temperature asked for, from `policy` or else from the head.
    action: np.ndarray
    # [N, 3]: the improved policy; that of the policy head where there is neither search nor model.
    policy: np.ndarray
    # [N] the root's value after the search, in units, relative to the return to go expected there.
    value: np.ndarray
    network_value: np.ndarray  # [N] the same before the search.


def model(networks: Networks, config: AgentConfig):
    """The learned model as mctx asks for it."""

    def recurrent(parameters: Parameters, key: jax.Array, action: jax.Array, state: jax.Array):
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

    return recurrent


def masked(logits: jax.Array, legal: jax.Array) -> jax.Array:
    """Logits [N, 3] without what is not legal."""
    return jnp.where(legal, logits, LOWEST_LOGIT)


def make_tree_search(config: AgentConfig, recurrent):
    """(parameters, key, logits [N, 3] without what is not legal, value [N], embedding of the root,
    legal [N, 3]) -> mctx's output, with `recurrent`, its function of a step."""
    transform = functools.partial(
        mctx.qtransform_completed_by_mix_value,
        value_scale=config.value_scale / VISITS,
        rescale_values=False,
    )

    def search(parameters, key, logits, value, state, legal):
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        return mctx.gumbel_muzero_policy(
            parameters,
            key,
            root,
            recurrent,
            config.search_simulations,
            invalid_actions=~legal,
            qtransform=transform,
            max_num_considered_actions=NUM_ACTIONS,
        )

    return search


def one_step(config: AgentConfig, recurrent):
    """(parameters, logits [N, 3] without what is not legal, value [N], embedding of the root) ->
    the policy [N, 3] improved without a search: the head's, times exp of each action's advantage by
    one step of the learned model, cut off at `ADVANTAGE` (CMPO, Hessel et al. 2021, equation 9)."""

    def improve(parameters, logits, value, state):
        def worth(action: int) -> jax.Array:
            output, _ = recurrent(parameters, None, jnp.full(len(value), action), state)
            return output.reward + output.discount * output.value

        advantages = (
            jnp.stack([worth(action) for action in range(NUM_ACTIONS)], axis=1) - value[:, None]
        )
        return jax.nn.softmax(
            logits + jnp.clip(config.value_scale * advantages, -ADVANTAGE, ADVANTAGE)
        )

    return improve


def make_policy(networks: Networks, config: AgentConfig, recurrent):
    """(parameters, prediction at the root, embedding of the root, legal [N, 3], seed, count,
    temperature [N]) -> `Decisions`: the search with `recurrent`, mctx's function of a step, the
    policy head improved by `one_step` of it, or the head alone."""
    search, improve = make_tree_search(config, recurrent), one_step(config, recurrent)

    def decide(parameters, prediction, state, legal, seed, count, temperature):
        search_key, draw_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), count))
        value = searched = networks.atoms.decode(prediction.value)
        logits = masked(prediction.policy, legal)
        policy = played = jax.nn.softmax(logits)
        if config.improves_alone:
            policy = improve(parameters, logits, value, state)
        elif config.search_simulations > 0:
            output = search(parameters, search_key, logits, value, state, legal)
            policy = played = jnp.where(legal, output.action_weights, 0.0)
            searched = output.search_tree.node_values[:, output.search_tree.ROOT_INDEX]
        hot = masked(jnp.log(played + 1e-20) / temperature[:, None], legal)
        return Decisions(jax.random.categorical(draw_key, hot), policy, searched, value)

    return decide


def make_decide(networks: Networks, config: AgentConfig):
    """(parameters, vector [N, SEEN], ids [N, 3], legal [N, 3], seed, count, temperature [N]) ->
    `Decisions`; compiled, and a function of its arguments alone."""
    policy = make_policy(networks, config, model(networks, config))

    def decide(parameters, vector, ids, legal, seed, count, temperature):
        state = networks.represent(parameters, vector, ids)
        return policy(
            parameters, networks.predict(parameters, state), state, legal, seed, count, temperature
        )

    return jax.jit(decide)


def make_search(networks: Networks, config: AgentConfig):
    """(parameters, vector [N, SEEN], ids [N, 3], legal [N, 3], key) -> mctx's output with the
    tree, and the policy head's logits [N, 3]; compiled, for a look inside."""
    search = make_tree_search(config, model(networks, config))

    def look(parameters, vector, ids, legal, key):
        state = networks.represent(parameters, vector, ids)
        prediction = networks.predict(parameters, state)
        logits = masked(prediction.policy, legal)
        return search(
            parameters, key, logits, networks.atoms.decode(prediction.value), state, legal
        ), logits

    return jax.jit(look)
