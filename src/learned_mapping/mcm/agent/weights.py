"""Our policy: it corrects the cost model and leaves the cutting to an algorithm.

A sample is a Gaussian vector of K global numbers and one of log-weights δ, one per op. They change what every op and
tensor is taken to cost,

    cost_i = exp(δ_i) · (exp(0.3 z_class(i)) t_i + (exp(z_o) - 1) overhead + (exp(z_w) - 1) weight bytes / bandwidth)
    cost of a tensor's transfer = exp(0.5 z_x) · the model's,

and how ops are ordered: softmax of five further numbers mixes the places of `cut.keys_of`. Then `cut` finds the best
partition for these costs. At zero the costs are the analytical model's. A correction shared by all ops of a class is
what few measurements can tell; the log-weights refine it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.learning.networks import draw_parameters
from learned_mapping.mcm.agent.config import EXACT, AgentConfig
from learned_mapping.mcm.agent.cut import NUM_KEYS, cut_one
from learned_mapping.mcm.agent.features import INPUT, NUM_FEATURES, GraphFeatures
from learned_mapping.mcm.agent.network import graph_sage, value, weight_means
from learned_mapping.mcm.agent.problem import Problem
from learned_mapping.mcm.repair.engine import repair_batch

CLASS_LATENTS = slice(NUM_KEYS, NUM_KEYS + INPUT)
OVERHEAD, WEIGHT_BYTES, TRANSFER = range(NUM_KEYS + INPUT, NUM_KEYS + INPUT + 3)
NUM_LATENTS = NUM_KEYS + INPUT + 3
"""K: the mix of the order, a factor per op class, the overhead of an op, of its weights, of transfers."""
CLASS_SCALE, TRANSFER_SCALE = 0.3, 0.5
LATENT_LIMIT = 4.0
"""Global numbers are cut off here before they become costs."""
LEAST_COST = 0.05
"""A corrected cost is at least this share of the model's."""
OP_SHARE = 0.5
"""Weight of the ops' choices against the global ones in what PPO averages."""


class WeightActions(NamedTuple):
    """B samples, in units of the initial standard deviations."""

    latent: Any
    """[B, K] float32."""
    ops: Any
    """[B, n] float32."""


def realise(problem: Problem, latent: np.ndarray, log_weights: np.ndarray, exact: bool = True) -> np.ndarray:
    """[N] int32 chips for global numbers [K] and log-weights [N]; valid where `exact`."""
    z = np.clip(np.asarray(latent, np.float64), -LATENT_LIMIT, LATENT_LIMIT)
    model = problem.model
    base = model.op_seconds
    factors = np.append(np.exp(CLASS_SCALE * z[CLASS_LATENTS]), 1.0)  # an input has no class to correct
    cost = base * factors[problem.classes]
    cost = cost + (np.exp(z[OVERHEAD]) - 1.0) * model.package.op_overhead_s * (base > 0)
    cost = cost + (np.exp(z[WEIGHT_BYTES]) - 1.0) * model.work.weight_bytes / model.package.weight_bytes_per_s
    cost = np.maximum(cost, LEAST_COST * base) * np.exp(np.asarray(log_weights, np.float64))
    mix = np.exp(z[:NUM_KEYS] - z[:NUM_KEYS].max())
    tensor_seconds = model.tensor_seconds * np.exp(TRANSFER_SCALE * z[TRANSFER])
    return cut_one(problem.cut, mix / mix.sum(), cost, tensor_seconds, problem.chips, exact)


class WeightPolicy:
    """A Gaussian over corrections of the cost model. `config` as in `AgentConfig`."""

    def __init__(self, config: AgentConfig):
        self.config = config
        self._network = hk.without_apply_rng(hk.transform(self._forward))
        self.act = jax.jit(self._act, static_argnames="count")

    def _forward(self, graph: GraphFeatures):
        h = graph_sage(graph, self.config)
        return *weight_means(h, graph, NUM_LATENTS, self.config), value(h, graph, self.config)

    def new_parameters(self, rng: np.random.Generator) -> Any:
        """Fresh parameters; means start at 0, the analytical model's own costs and an even mix of places."""
        graph = GraphFeatures(
            np.zeros((8, NUM_FEATURES), np.float32), np.zeros(8, np.int32), np.zeros(8, np.int32),
            np.ones(8, np.float32), np.float32(2),
        )  # fmt: skip
        shapes = jax.eval_shape(self._network.init, jax.random.PRNGKey(0), graph)
        return draw_parameters(shapes, rng, zero=("latent_out", "weight_out", "value_out"))

    def context(self, problem: Problem) -> GraphFeatures:
        return problem.features

    def _act(self, parameters: Any, graph: GraphFeatures, key: jax.Array, count: int) -> WeightActions:
        """`count` samples, the first of them the means."""
        latent, ops, latent_spread, op_spread, _ = self._network.apply(parameters, graph)
        first, second = jax.random.split(key)
        noise = jax.random.normal(first, (count, NUM_LATENTS)).at[0].set(0.0)
        op_noise = jax.random.normal(second, (count, len(ops))).at[0].set(0.0)
        return WeightActions(latent + jnp.exp(latent_spread) * noise, ops + jnp.exp(op_spread) * op_noise)

    def partitions(
        self, problem: Problem, actions: WeightActions, rng: np.random.Generator
    ) -> tuple[np.ndarray, WeightActions]:
        """([B, N] int32 valid partitions, the actions themselves)."""
        exact = self.config.cut == EXACT
        latents = np.asarray(actions.latent, np.float64) * self.config.latent_std
        weights = np.asarray(actions.ops, np.float64)[:, : problem.num_ops] * self.config.node_std
        found = np.stack([realise(problem, z, w, exact) for z, w in zip(latents, weights)])
        if not exact:
            found = repair_batch(problem.arrays, problem.chips, mode="fix", rng=rng, candidates=found)[0]
        return found, actions

    @partial(jax.jit, static_argnums=0)
    def log_probabilities(self, parameters: Any, graph: GraphFeatures, actions: WeightActions):
        """As `ChipPolicy.log_probabilities`; choices are the K global numbers, then the ops' weights."""
        latent, ops, latent_spread, op_spread, expected = self._network.apply(parameters, graph)
        logs = jnp.concatenate(
            [_normal(actions.latent, latent, latent_spread), _normal(actions.ops, ops, op_spread)], axis=1
        )
        shares = jnp.concatenate(
            [jnp.full(NUM_LATENTS, (1 - OP_SHARE) / NUM_LATENTS), OP_SHARE * graph.mask / graph.mask.sum()]
        )
        entropy = (1 - OP_SHARE) * latent_spread.mean() + OP_SHARE * op_spread
        return logs, shares, entropy, expected


def _normal(x: jax.Array, mean: jax.Array, log_std: jax.Array) -> jax.Array:
    """Log-density of a normal distribution, without its constant."""
    return -0.5 * jnp.square((x - mean) * jnp.exp(-log_std)) - log_std
