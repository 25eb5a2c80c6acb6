"""One training step: the unrolled loss of MuZero (section 3) and AdamW."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.learning.networks import scale_gradient
from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.network import Networks, Parameters
from learned_mapping.mmap.agent.replay import Batch

CLIP = 5.0
"""Global norm that a gradient is cut to."""


def cross_entropy(probabilities: ArrayLike, logits: jax.Array) -> jax.Array:
    """[...] -sum p log softmax(logits) over the last axis; 0 where all p are 0."""
    return -jnp.sum(probabilities * jax.nn.log_softmax(logits), axis=-1)


def unrolled_loss(
    networks: Networks, parameters: Parameters, batch: Batch
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The mean over samples of sum_k w_k (policy_k + value_k + reward_k), cross-entropies in nats,
    k = 0..K.

    w_0 = 1 and w_k = 1 / K; positions and rewards that the chunk does not reach count nothing. The
    gradient into the dynamics is halved at every step.
    """
    atoms, steps = networks.atoms, batch.action.shape[1] - 1
    inside = batch.inside.astype(jnp.float32)
    state = networks.represent(parameters, batch.vector.astype(jnp.float32), batch.ids)
    policy_loss = value_loss = reward_loss = jnp.zeros((), jnp.float32)
    for k in range(steps + 1):
        weight = inside[:, k] / (steps if k else 1)
        prediction = networks.predict(parameters, state)
        policy_loss += jnp.mean(weight * cross_entropy(batch.policy[:, k], prediction.policy))
        value_loss += jnp.mean(
            weight * cross_entropy(atoms.encode(batch.target[:, k]), prediction.value)
        )
        if k < steps:
            state, reward = networks.dynamics(
                parameters, state, batch.action[:, k].astype(jnp.int32)
            )
            state = scale_gradient(state, 0.5)
            weight = inside[:, k] / steps
            reward_loss += jnp.mean(
                weight * cross_entropy(atoms.encode(batch.reward[:, k]), reward)
            )
    parts = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "reward_loss": reward_loss,
    }
    return policy_loss + value_loss + reward_loss, parts


def make_update(networks: Networks, config: AgentConfig):
    """The optimiser, and the compiled (parameters, its state, batch) -> the first two after an
    update, and the parts of the loss for the batch."""
    optimiser = optax.chain(
        optax.clip_by_global_norm(CLIP),
        optax.adamw(config.learning_rate, weight_decay=config.weight_decay),
    )

    def update(parameters, optimiser_state, batch):
        loss = functools.partial(unrolled_loss, networks)
        (_, parts), gradient = jax.value_and_grad(loss, has_aux=True)(parameters, batch)
        change, optimiser_state = optimiser.update(gradient, optimiser_state, parameters)
        return optax.apply_updates(parameters, change), optimiser_state, parts

    return optimiser, jax.jit(update)


class Learner:
    """Parameters, and the state of the optimiser; that and its update are from `make_update`."""

    def __init__(
        self,
        networks: Networks,
        optimiser: optax.GradientTransformation,
        update,
        rng: np.random.Generator,
        drop_start: float = 0.0,
    ):
        self.parameters = networks.init(rng, drop_start)
        self.optimiser_state: Any = optimiser.init(self.parameters)
        self.updates = 0
        self._update = update

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a checkpoint."""
        return {
            name: leaf
            for prefix, tree in self._trees().items()
            for name, leaf in flatten(tree, prefix).items()
        }

    def restore(self, arrays: dict[str, np.ndarray], updates: int, source: object) -> None:
        """Back to what `arrays` returned after so many updates; raises `InputError` where it does
        not fit."""
        trees = (unflatten(tree, arrays, prefix, source) for prefix, tree in self._trees().items())
        self.parameters, self.optimiser_state = trees
        self.updates = updates

    def _trees(self) -> dict[str, Any]:
        return {"parameters": self.parameters, "optimiser": self.optimiser_state}

    def compile(self, batch: Batch) -> None:
        """Compiles for batches of this shape, without learning from it."""
        jax.block_until_ready(self._update(self.parameters, self.optimiser_state, batch))

    def step(self, batch: Batch) -> dict[str, jax.Array]:
        """One update; returns the parts of the loss."""
        self.parameters, self.optimiser_state, parts = self._update(
            self.parameters, self.optimiser_state, batch
        )
        self.updates += 1
        return parts
