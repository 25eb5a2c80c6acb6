"""The search with the game itself in place of the learned model: for ablations, on the JAX
environment.

With an untrained network, whose heads say nothing, it is the paper's arm without learning: "pure
MCTS using the true dynamics" (section 5.3). With one that learns it tells what the learned model
costs.
"""

import functools

import jax
import jax.numpy as jnp
import mctx

from learned_mapping.mmap import env
from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.network import Networks, Prediction
from learned_mapping.mmap.agent.search import Decisions, make_policy, masked
from learned_mapping.mmap.rules.actions import NUM_ACTIONS


def make_true_decide(networks: Networks, config: AgentConfig):
    """(parameters, program, tables, states of N games, to_go [B + 1], unit, possible_s, seed,
    count, temperature [N]) -> `Decisions`; compiled. The first arguments are those of `EnvGames`,
    ``to_go`` and ``unit`` of `SelfPlay`."""
    untrained = config.frozen and not config.clone

    def look(parameters, program, tables, states) -> Prediction:
        if untrained:  # Its heads say nothing, so that no observation is needed.
            count = len(states.resets)
            return Prediction(
                jnp.zeros((count, NUM_ACTIONS)),
                jnp.zeros((count, config.atoms)) + networks.atoms.start(),
            )
        vector, ids = jax.vmap(env.observe, in_axes=(None, None, 0))(program, tables, states)
        return networks.predict(parameters, networks.represent(parameters, vector, ids))

    def decide(
        parameters, program, tables, states, to_go, unit, possible_s, seed, count, temperature
    ):
        def potential(states: env.EnvState) -> jax.Array:
            return unit * (states.position.saved_s / possible_s + to_go[states.position.cursor])

        def recurrent(parameters, key, action, states):
            after = jax.vmap(env.decide, in_axes=(None, 0, 0))(program, states, action)
            going, prediction = ~after.over, look(parameters, program, tables, after)
            output = mctx.RecurrentFnOutput(
                reward=(potential(after) - potential(states)).astype(jnp.float32),
                discount=jnp.where(going, config.discount, 0.0).astype(jnp.float32),
                prior_logits=masked(prediction.policy, after.position.legal),
                value=jnp.where(going, networks.atoms.decode(prediction.value), 0.0),
            )
            return output, after

        prediction = look(parameters, program, tables, states)
        policy = make_policy(networks, config, recurrent)
        return policy(
            parameters, prediction, states, states.position.legal, seed, count, temperature
        )

    return functools.partial(_in_float64, jax.jit(decide))


def _in_float64(decide, *arguments) -> Decisions:
    with env.exact():
        return decide(*arguments)
