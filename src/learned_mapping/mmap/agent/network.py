"""The agent's three functions, representation, dynamics and prediction, in the size that the
configuration names.

The program is fixed, so buffers, tensors and alias groups have embeddings of their own (Fig. 4's
"embedding layers"). The layers are in `light_network` and `paper_network`; a state is an array that
nobody else looks into. Behind the latent numbers it keeps the prior, the last numbers of the
observation, which are 0 without prices: the policy is the network's correction to it. No action
that is only imagined has a prior.
"""

import functools
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from learned_mapping.learning.networks import draw_parameters
from learned_mapping.mmap.agent import light_network, paper_network
from learned_mapping.mmap.agent.config import PAPER_SIZE, AgentConfig
from learned_mapping.mmap.observation import SEEN, WIDTH
from learned_mapping.mmap.rules.actions import DROP, NUM_ACTIONS

Parameters = dict[str, Any]
FAINT = 14.0
"""The depth below the middle of the logits of values at the ends before training: all values start
near 0."""


def squeezed(x: ArrayLike) -> jax.Array:
    """h(x) = sign(x) ln(1 + |x|)."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


class Atoms(NamedTuple):
    """Evenly spaced atoms from -limit to limit, of x itself or of h(x), see `squeezed`."""

    limit: float
    number: int
    log: bool

    @property
    def positions(self) -> np.ndarray:
        """[number] values of x or h(x)."""
        end = np.log1p(self.limit) if self.log else self.limit
        return np.linspace(-end, end, self.number, dtype=np.float32)

    def encode(self, x: ArrayLike) -> jax.Array:
        """[..., number] probabilities on the two atoms next to x [...], with mean x (or h(x)); cut
        off at the ends."""
        y = squeezed(x) if self.log else x
        positions = self.positions
        step = positions[1] - positions[0]
        return jnp.maximum(
            1.0 - jnp.abs(jnp.clip(y, positions[0], positions[-1])[..., None] - positions) / step,
            0.0,
        )

    def decode(self, logits: jax.Array) -> jax.Array:
        """[...] the mean under softmax(logits [..., number]), transformed back."""
        y = jnp.sum(jax.nn.softmax(logits) * self.positions, axis=-1)
        return jnp.sign(y) * jnp.expm1(jnp.abs(y)) if self.log else y

    def start(self) -> np.ndarray:
        """[number] logits to start from."""
        positions = self.positions
        return -np.minimum(3.0 * np.abs(positions) / (positions[-1] / 8.0), FAINT)


ATOMS, LOG_ATOMS = 81, 101
"""Of the distributions that values and rewards are; the second with `log_values`."""


class Prediction(NamedTuple):
    """The network's answer on latent states."""

    policy: jax.Array  # [N, 3] logits.
    value: jax.Array  # [N, atoms] logits.


class Networks:
    """Pure functions of parameters, for a program with these counts of buffers, tensors and alias
    groups + 1."""

    def __init__(self, config: AgentConfig, counts: tuple[int, int, int]):
        self.config, self.counts = config, counts
        self.width = SEEN if config.priced else WIDTH
        """Numbers of the observation that are looked at."""
        number = LOG_ATOMS if config.log_values else ATOMS
        self.atoms = Atoms(config.limit, number, config.log_values)
        size, start = (
            paper_network if config.network == PAPER_SIZE else light_network,
            self.atoms.start(),
        )
        self._represent, self._dynamics, self._predict = (
            hk.without_apply_rng(hk.transform(function))
            for function in (
                functools.partial(size.represent, config, counts),
                functools.partial(size.dynamics, config, start),
                functools.partial(size.predict, config, start),
            )
        )

    def init(self, rng: np.random.Generator, drop_start: float = 0.0) -> Parameters:
        """Random parameters; the heads start at 0, but for what Drop has ahead in the policy,
        `drop_start`."""

        def shapes(key):
            latent, one = jnp.zeros((1, self.config.latent)), jnp.zeros(1, jnp.int32)
            return {
                "representation": self._represent.init(
                    key, jnp.zeros((1, self.width)), jnp.zeros((1, 3), jnp.int32)
                ),
                "dynamics": self._dynamics.init(key, latent, one),
                "prediction": self._predict.init(key, latent),
            }

        heads = ("policy_out", "value_out", "reward_out")
        parameters = draw_parameters(jax.eval_shape(shapes, jax.random.key(0)), rng, heads)
        parameters["prediction"]["policy_out"]["b"][DROP] = drop_start
        return parameters

    def represent(
        self, parameters: Parameters, vector: jax.Array | np.ndarray, ids: ArrayLike
    ) -> jax.Array:
        """The states of observations [N, SEEN] and ids [N, 3]."""
        seen = vector[:, : self.width]
        latent = self._represent.apply(parameters["representation"], seen, ids)
        return jnp.concatenate([latent, vector[:, -NUM_ACTIONS:]], axis=-1)

    def dynamics(
        self, parameters: Parameters, state: jax.Array, action: ArrayLike
    ) -> tuple[jax.Array, jax.Array]:
        """The next states and reward logits [N, atoms] after actions [N]."""
        latent = state[:, :-NUM_ACTIONS]
        latent, reward = self._dynamics.apply(parameters["dynamics"], latent, action)
        return jnp.pad(latent, ((0, 0), (0, NUM_ACTIONS))), reward

    def predict(self, parameters: Parameters, state: jax.Array) -> Prediction:
        """Policy and value of states."""
        latent, prior = state[:, :-NUM_ACTIONS], state[:, -NUM_ACTIONS:]
        policy, value = self._predict.apply(parameters["prediction"], latent)
        return Prediction(policy + prior, value)
