"""The networks in the paper's size: Figure 4's representation encoder, and residual perceptrons
behind it.

The memory is an image and goes through a convolutional ResNet: rows are the steps `AHEAD`, columns
the `CELLS` of the memory; a channel is the share of a cell that is taken, and more hold the finer
profile at target_time. Ids are embedded and the other parts of the observation go through a linear
layer each. All is joined and passes residual blocks.

The paper prints the arrangement and no widths: those of `config.PAPER` are ours. Its image is
binary and has 128 x 128 cells, its profile the full resolution; ours have what `observation` has
for both sizes of the agent.
"""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.learning.networks import embedding, layer_norm, mlp
from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.light_network import NAMES
from learned_mapping.mmap.observation import AHEAD, CELLS, PARTS, PROFILE
from learned_mapping.mmap.rules.actions import NUM_ACTIONS

IMAGE = ("map", "profile")
"""The parts of the observation that the image shows."""
STAGES, CHANNELS, IMAGE_BLOCKS = 2, 32, 2
"""Stages of the ResNet, channels of the first, and residual blocks of each; a stage after the first
has half as many rows and columns and twice as many channels."""
BLOCKS = 3
"""Residual blocks in each of representation, dynamics and prediction."""


def represent(
    config: AgentConfig, counts: tuple[int, int, int], vector: jax.Array, ids: jax.Array
) -> jax.Array:
    """[N, latent] from what is looked at [N, width of `Networks`] and ids [N, 3]."""
    names = [*PARTS, "prices"] if config.priced else [*PARTS]
    parts = dict(
        zip(names, jnp.split(vector, np.cumsum([*PARTS.values()])[: len(names) - 1], axis=-1))
    )
    features = [_picture(config, memory_image(parts["map"], parts["profile"]))]
    features += [
        hk.Linear(config.id_width, name=name)(parts[name]) for name in parts if name not in IMAGE
    ]
    named = zip(NAMES, counts, ids.T) if config.ids else ()
    features += [
        embedding(index, count, config.id_width, name=f"{name}_id") for name, count, index in named
    ]
    x = hk.Linear(config.latent, name="join")(jax.nn.relu(jnp.concatenate(features, axis=-1)))
    x = _residual(config, x)
    if config.ids:
        x += embedding(ids[:, 0], counts[0], config.latent, name="place")
    return layer_norm(x, name="latent_norm")


def dynamics(config: AgentConfig, start: np.ndarray, state: jax.Array, action: jax.Array):
    """The next latent [N, latent] and reward logits [N, atoms] after actions [N]; logits begin at
    start [atoms]."""
    chosen = jax.nn.one_hot(action, NUM_ACTIONS, dtype=state.dtype)
    x = state + hk.Linear(config.latent, name="join")(jnp.concatenate([state, chosen], axis=-1))
    state = layer_norm(_residual(config, x), name="latent_norm")
    return state, mlp(state, [config.width], len(start), name="reward") + start


def predict(
    config: AgentConfig, start: np.ndarray, state: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Logits of the policy [N, 3] and of the value [N, atoms] of latents [N, latent]."""
    x = layer_norm(_residual(config, state), name="norm")
    policy = mlp(x, [config.width], NUM_ACTIONS, name="policy")
    return policy, mlp(x, [config.width], len(start), name="value") + start


def memory_image(cells: jax.Array, profile: jax.Array) -> jax.Array:
    """[N, steps, CELLS, 1 + PROFILE / CELLS] from the parts `map` and `profile`, which is the same
    in all rows."""
    rows = cells.reshape(-1, len(AHEAD), CELLS, 1)
    fine = profile.reshape(-1, 1, CELLS, PROFILE // CELLS)
    return jnp.concatenate(
        [rows, jnp.broadcast_to(fine, (len(rows), len(AHEAD), *fine.shape[2:]))], axis=-1
    )


def _picture(config: AgentConfig, x: jax.Array) -> jax.Array:
    """[N, latent] of images [N, steps, CELLS, channels]: a ResNet whose blocks normalise before
    they convolve."""
    for stage in range(STAGES):
        channels, stride = CHANNELS << stage, 1 if stage == 0 else 2
        x = hk.Conv2D(channels, 3, stride=stride, name=f"stage_{stage}")(x)
        for block in range(IMAGE_BLOCKS):
            y = x
            for half in range(2):
                name = f"stage_{stage}_block_{block}_{half}"
                y = jax.nn.relu(layer_norm(y, name=f"{name}_norm"))
                y = hk.Conv2D(channels, 3, name=name)(y)
            x = x + y
    x = jax.nn.relu(layer_norm(x, name="image_norm"))
    return hk.Linear(config.latent, name="image")(x.reshape(len(x), -1))


def _residual(config: AgentConfig, x: jax.Array) -> jax.Array:
    """x [N, latent] through residual blocks with one hidden layer each."""
    for block in range(BLOCKS):
        y = hk.Linear(config.width, name=f"block_{block}_0")(
            layer_norm(x, name=f"block_{block}_norm")
        )
        x = x + hk.Linear(config.latent, name=f"block_{block}_1")(jax.nn.relu(y))
    return x
