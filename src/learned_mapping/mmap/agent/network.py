"""The networks of the light agent: representation, dynamics and prediction as perceptrons, with ids embedded.

The program is fixed, so buffers, tensors and alias groups have embeddings of their own (Fig. 4's "embedding layers").
The buffer has one more, which is added to the latent state and tells alike positions apart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.learning.networks import draw_parameters, layer_norm
from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.observation import WIDTH
from learned_mapping.mmap.rules.actions import NUM_ACTIONS

Parameters = dict[str, Any]
FAINT = 14.0
"""How far below the middle the logits of values lie at the ends before training: all values start near 0."""


class Atoms(NamedTuple):
    """Evenly spaced atoms from -limit to limit, of x itself or of h(x) = sign(x) ln(1 + |x|)."""

    limit: float
    count: int
    log: bool

    @property
    def positions(self) -> np.ndarray:
        """[count] values of x or h(x)."""
        end = np.log1p(self.limit) if self.log else self.limit
        return np.linspace(-end, end, self.count, dtype=np.float32)

    def encode(self, x: jax.Array) -> jax.Array:
        """[..., count] probabilities on the two atoms next to x [...], with mean x (or h(x)); cut off at the ends."""
        y = jnp.sign(x) * jnp.log1p(jnp.abs(x)) if self.log else x
        positions = self.positions
        step = positions[1] - positions[0]
        return jnp.maximum(1.0 - jnp.abs(jnp.clip(y, positions[0], positions[-1])[..., None] - positions) / step, 0.0)

    def decode(self, logits: jax.Array) -> jax.Array:
        """[...] the mean under softmax(logits [..., count]), transformed back."""
        y = jnp.sum(jax.nn.softmax(logits) * self.positions, axis=-1)
        return jnp.sign(y) * jnp.expm1(jnp.abs(y)) if self.log else y

    def start(self) -> np.ndarray:
        """[count] logits to start from."""
        positions = self.positions
        return -np.minimum(3.0 * np.abs(positions) / (positions[-1] / 8.0), FAINT)


class Prediction(NamedTuple):
    """What the network says of latent states."""

    policy: jax.Array  # [N, 3] logits.
    value: jax.Array  # [N, atoms] logits.


class Networks:
    """Pure functions of parameters.

    Args:
      config: sizes.
      counts: buffers, tensors and alias groups + 1 of the program.
    """

    def __init__(self, config: AgentConfig, counts: tuple[int, int, int]):
        self.config, self.counts = config, counts
        self.atoms = Atoms(config.limit, config.atoms, config.log_values)
        self._represent, self._dynamics, self._predict = (
            hk.without_apply_rng(hk.transform(function))
            for function in (self._represent_parts, self._dynamics_parts, self._predict_parts)
        )

    def init(self, rng: np.random.Generator) -> Parameters:
        """Random parameters; the heads start at 0."""

        def shapes(key):
            latent, one = jnp.zeros((1, self.config.latent)), jnp.zeros(1, jnp.int32)
            return {
                "representation": self._represent.init(key, jnp.zeros((1, WIDTH)), jnp.zeros((1, 3), jnp.int32)),
                "dynamics": self._dynamics.init(key, latent, one),
                "prediction": self._predict.init(key, latent),
            }

        heads = ("policy_out", "value_out", "reward_out")
        return draw_parameters(jax.eval_shape(shapes, jax.random.key(0)), rng, heads)

    def represent(self, parameters: Parameters, vector: jax.Array, ids: jax.Array) -> jax.Array:
        """[N, latent] from observations [N, WIDTH] and ids [N, 3]."""
        return self._represent.apply(parameters["representation"], vector, ids)

    def dynamics(self, parameters: Parameters, state: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The next latent [N, latent] and reward logits [N, atoms] after actions [N]."""
        return self._dynamics.apply(parameters["dynamics"], state, action)

    def predict(self, parameters: Parameters, state: jax.Array) -> Prediction:
        """Policy and value of latents [N, latent]."""
        return self._predict.apply(parameters["prediction"], state)

    def _represent_parts(self, vector: jax.Array, ids: jax.Array) -> jax.Array:
        config = self.config
        named = zip(("buffer", "tensor", "group"), self.counts, ids.T) if config.ids else ()
        embedded = [_embed(count, config.id_width, f"{name}_id", index) for name, count, index in named]
        x = jnp.concatenate([vector, *embedded], axis=-1)
        x = jax.nn.relu(layer_norm(hk.Linear(config.width, name="first")(x), name="first_norm"))
        x = hk.Linear(config.latent, name="second")(x)
        if config.ids:
            x += _embed(self.counts[0], config.latent, "place", ids[:, 0])
        return layer_norm(x, name="latent_norm")

    def _dynamics_parts(self, state: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        config = self.config
        x = jnp.concatenate([state, jax.nn.one_hot(action, NUM_ACTIONS)], axis=-1)
        x = jax.nn.relu(layer_norm(hk.Linear(config.width, name="first")(x), name="first_norm"))
        state = layer_norm(state + hk.Linear(config.latent, name="second")(x), name="latent_norm")
        return state, hk.Linear(config.atoms, name="reward_out")(x) + self.atoms.start()

    def _predict_parts(self, state: jax.Array) -> Prediction:
        x = jax.nn.relu(layer_norm(hk.Linear(self.config.width, name="first")(state), name="first_norm"))
        value = hk.Linear(self.config.atoms, name="value_out")(x) + self.atoms.start()
        return Prediction(hk.Linear(NUM_ACTIONS, name="policy_out")(x), value)


def _embed(count: int, width: int, name: str, index: jax.Array) -> jax.Array:
    table = hk.get_parameter(f"{name}_table", (count, width), init=jnp.zeros)
    return table[index]
