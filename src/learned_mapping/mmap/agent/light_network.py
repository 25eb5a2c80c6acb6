"""The networks of the light agent: representation, dynamics and prediction as perceptrons, with ids
embedded.

The buffer has one more embedding, which is added to the latent state and tells alike positions
apart.
"""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.learning.networks import embedding, layer_norm
from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.rules.actions import NUM_ACTIONS

NAMES = ("buffer", "tensor", "group")
"""Names of the ids."""


def represent(
    config: AgentConfig, counts: tuple[int, int, int], vector: jax.Array, ids: jax.Array
) -> jax.Array:
    """[N, latent] from what is looked at [N, width of `Networks`] and ids [N, 3]."""
    named = zip(NAMES, counts, ids.T) if config.ids else ()
    embedded = [
        embedding(index, count, config.id_width, name=f"{name}_id") for name, count, index in named
    ]
    x = jnp.concatenate([vector, *embedded], axis=-1)
    x = jax.nn.relu(layer_norm(hk.Linear(config.width, name="first")(x), name="first_norm"))
    x = hk.Linear(config.latent, name="second")(x)
    if config.ids:
        x += embedding(ids[:, 0], counts[0], config.latent, name="place")
    return layer_norm(x, name="latent_norm")


def dynamics(config: AgentConfig, start: np.ndarray, state: jax.Array, action: jax.Array):
    """The next latent [N, latent] and reward logits [N, atoms] after actions [N]; logits begin at
    start [atoms]."""
    x = jnp.concatenate([state, jax.nn.one_hot(action, NUM_ACTIONS)], axis=-1)
    x = jax.nn.relu(layer_norm(hk.Linear(config.width, name="first")(x), name="first_norm"))
    state = layer_norm(state + hk.Linear(config.latent, name="second")(x), name="latent_norm")
    return state, hk.Linear(len(start), name="reward_out")(x) + start


def predict(
    config: AgentConfig, start: np.ndarray, state: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Logits of the policy [N, 3] and of the value [N, atoms] of latents [N, latent]."""
    x = jax.nn.relu(layer_norm(hk.Linear(config.width, name="first")(state), name="first_norm"))
    value = hk.Linear(len(start), name="value_out")(x) + start
    return hk.Linear(NUM_ACTIONS, name="policy_out")(x), value
