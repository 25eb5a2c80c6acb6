"""The paper's policy: for every op a distribution over chips, repaired by the constraint solver
(Section 4).

GraphSAGE over the ops, a policy network of two layers, and a value (Section 4.1, Fig. 3):

    p(y^(t) | G) = Π_i p(y_i^(t) | h_G, y^(t-1)),    t = 1, ..., T                 (Eq. 7)

The paper does not say what y^(0) is; this network is told of none. `moves_policy` begins at one.

A sample is y^(1), ..., y^(T); the solver turns y^(T), or in SAMPLE mode P^(T), into y', whose
throughput is the reward.
"""

from functools import partial
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import numpy as np
from jax.typing import ArrayLike

from learned_mapping.errors import InputError
from learned_mapping.learning.networks import draw_parameters, layer_norm, mlp
from learned_mapping.mcm.agent.config import CANDIDATE, FIX, FLOW, AgentConfig
from learned_mapping.mcm.agent.credit import SIDES, flow_gains, spread
from learned_mapping.mcm.agent.features import EIGHT_OPS, GraphFeatures
from learned_mapping.mcm.env import PartitionEnv

ANCHORS = 36  # Positions along the package at which the network gives logits: the paper's 36 chips.
STATE = 10  # Numbers per op that tell of the assignment of the iteration before.
FURTHEST = 3.0  # Chips between an op and its neighbours, from here on the same.


def graph_sage(graph: GraphFeatures, config: AgentConfig) -> jax.Array:
    """[n, width] embeddings of the ops: h_G.

    Each layer joins an op with the means of its producers and of its consumers (Hamilton et al.
    2017, mean aggregator), and adds what it was; the sum lets eight layers learn.
    """
    n = graph.ops.shape[0]
    h = hk.Linear(config.width, name="encoder")(graph.ops)
    for layer in range(config.layers):
        x = layer_norm(h, name=f"sage_norm_{layer}")
        before = jraph.segment_mean(x[graph.producers], graph.consumers, n)
        behind = jraph.segment_mean(x[graph.consumers], graph.producers, n)
        joined = jnp.concatenate([x, before, behind], axis=-1)
        h = h + jax.nn.relu(hk.Linear(config.width, name=f"sage_{layer}")(joined))
    return layer_norm(h, name="sage_norm_out") * graph.mask[:, None]


def value(h: jax.Array, graph: GraphFeatures, config: AgentConfig) -> jax.Array:
    """[] the reward to expect of this graph, from the mean over the ops."""
    pooled = (h * graph.mask[:, None]).sum(0) / jnp.maximum(graph.mask.sum(), 1.0)
    return mlp(pooled, (config.width,), 1, name="value")[0]


def chip_state(previous: jax.Array, graph: GraphFeatures) -> jax.Array:
    """[n, STATE] what op i is told of y^(t-1) [n]: all 0 where there is none (entries below 0).

    Its chip's position, the means of its producers' and consumers' positions relative to it, how
    many chips lie between it and the nearest of either, the time of its chip against an even share,
    that of its chip and of the ones before and behind against the busiest, and 1.
    """
    n, known = previous.shape[0], (previous >= 0).astype(jnp.float32) * graph.mask
    chip = jnp.maximum(previous, 0)
    at, last = chip.astype(jnp.float32), jnp.maximum(graph.chips - 1.0, 1.0)
    step = at[graph.consumers] - at[graph.producers]
    before = jraph.segment_mean(-step, graph.consumers, n) / last
    behind = jraph.segment_mean(step, graph.producers, n) / last
    room = [
        jraph.segment_min(jnp.abs(step), ends, n) for ends in (graph.consumers, graph.producers)
    ]
    gaps = [jnp.clip(gap, 0.0, FURTHEST) / FURTHEST for gap in room]
    # over an even share, as `graph_features` has it
    seconds = (10.0 ** (4.0 * graph.ops[:, 0])) * graph.mask
    load = jax.ops.segment_sum(seconds, chip, num_segments=n)  # chips in use are fewer than ops
    busiest = jnp.maximum(load.max(), 1e-6)
    beside = [
        load[jnp.clip(chip + move, 0, graph.chips.astype(int) - 1)] / busiest for move in (-1, 0, 1)
    ]
    columns = [at / last, before, behind, *gaps, jnp.log1p(load[chip]), *beside, jnp.ones(n)]
    return jnp.stack(columns, axis=-1) * known[:, None]


def chip_logits(
    h: jax.Array, previous: jax.Array, graph: GraphFeatures, reading: ArrayLike, config: AgentConfig
) -> jax.Array:
    """[B, n, P] logits of the chips of every op, Eq. 7, given the assignments before.

    Args:
      h: [n, width] from `graph_sage`.
      previous: [B, n] int32, y^(t-1); -1 in the first iteration.
      reading: [ANCHORS, P], how chips read the network's positions, from `reading_of`; the caller
        masks the columns of no chip.
    """
    x = jnp.broadcast_to(
        hk.Linear(config.width, name="policy_0")(h), (*previous.shape, config.width)
    )
    if config.iterations > 1:
        states = jax.vmap(chip_state, (0, None))(previous, graph)
        x = x + hk.Linear(config.width, False, name="policy_state")(states)
    x = jax.nn.relu(x)
    x = jax.nn.relu(hk.Linear(config.width, name="policy_1")(x))
    return hk.Linear(ANCHORS, name="policy_out")(x) @ reading


MASKED = -1e9
# Ops times chips of the largest graph this policy takes: its logits are held for every rollout.
MAX_ENTRIES = 2**25


class ChipContext(NamedTuple):
    """The graph on a package, as the compiled functions take it. A pytree."""

    graph: GraphFeatures
    reading: np.ndarray
    """[ANCHORS, P] float32: chips read the network's positions linearly. The identity for the
    paper's 36 chips."""
    allowed: np.ndarray  # [P] float32, 1 for a chip there is.


class Sampled(NamedTuple):
    """B samples of T assignments of n ops."""

    previous: Any  # [B, T, n] int32, y^(t-1); -1 for t = 1.
    chosen: Any  # [B, T, n] int32, y^(t).
    logs: Any  # [B, n, P] log-probabilities of the last assignment.


class Credits(NamedTuple):
    """The lessons of PPO from B samples: for A choices each (ops, of T assignments), K
    alternatives. A pytree."""

    state: Any  # What the policy's `log_probabilities` read, [B, ...].
    alternatives: Any  # [B, A, K] int32, indices of what might have been chosen.
    advantage: Any  # [B, A, K] float32.
    weight: Any  # [B, A, K] float32; 0 where there is nothing to learn.


def reading_of(chips: int) -> tuple[np.ndarray, np.ndarray]:
    """([ANCHORS, P] how C chips read the positions, [P] which columns are chips); P is ANCHORS or a
    power of 2."""
    width = ANCHORS if chips <= ANCHORS else 1 << (chips - 1).bit_length()
    place = np.arange(chips) * (ANCHORS - 1) / max(chips - 1, 1)
    low = np.minimum(np.floor(place).astype(int), ANCHORS - 2)
    reading = np.zeros((ANCHORS, width), np.float32)
    reading[low, np.arange(chips)] = 1.0 - (place - low)
    reading[low + 1, np.arange(chips)] += place - low
    return reading, (np.arange(width) < chips).astype(np.float32)


class ChipPolicy:
    """A distribution over chips per op. `config` as in `AgentConfig`."""

    def __init__(self, config: AgentConfig):
        self.config = config
        self._network = hk.without_apply_rng(hk.transform(self._forward))
        self.act = jax.jit(self._act)

    def _forward(self, context: ChipContext, previous: jax.Array) -> tuple[jax.Array, jax.Array]:
        """([B, n, P] log-probabilities, [] value)."""
        h = graph_sage(context.graph, self.config)
        logits = chip_logits(h, previous, context.graph, context.reading, self.config)
        logits = jnp.where(context.allowed > 0, logits, MASKED)
        return jax.nn.log_softmax(logits), value(h, context.graph, self.config)

    def new_parameters(self, rng: np.random.Generator) -> Any:
        """Fresh parameters; the last layer starts at 0, so that the first distribution is
        uniform."""
        context = ChipContext(EIGHT_OPS, *reading_of(2))
        shapes = jax.eval_shape(
            self._network.init, jax.random.PRNGKey(0), context, jnp.zeros((1, 8), jnp.int32)
        )
        return draw_parameters(shapes, rng, zero=("policy_out", "value_out"))

    def context(self, env: PartitionEnv) -> ChipContext:
        """Raises `InputError` where ops times chips are too many."""
        reading, allowed = reading_of(env.chips)
        rows, columns = len(env.features.ops), reading.shape[1]
        if rows * columns > MAX_ENTRIES:
            fault = f"{env.num_ops} ops on {env.chips} chips are too many for a policy over chips"
            raise InputError("method", "", f"{fault}; the searches over costs have no such limit")
        return ChipContext(env.features, reading, allowed)

    def begin(self, env: PartitionEnv, rng: np.random.Generator, places: Any = None) -> np.ndarray:
        """[B, n] int32, y^(0) of a batch: -1, there is none."""
        return np.full((self.config.rollouts, len(env.features.ops)), -1, np.int32)

    def _act(
        self, parameters: Any, context: ChipContext, previous: jax.Array, key: jax.Array
    ) -> Sampled:
        """A sample for each y^(0) [B, n] of `begin`."""
        before, chosen = [], []
        for step in range(self.config.iterations):
            logs, _ = self._network.apply(parameters, context, previous)
            drawn = jax.random.categorical(jax.random.fold_in(key, step), logs).astype(jnp.int32)
            before.append(previous)
            chosen.append(drawn)
            previous = drawn
        return Sampled(jnp.stack(before, 1), jnp.stack(chosen, 1), logs)

    def choice(self, env: PartitionEnv, sampled: Sampled) -> np.ndarray:
        """The samples of `act` as the environment takes them: [B, N] candidates, or [B, N, C]
        distributions."""
        if self.config.mode == FIX:
            return np.asarray(sampled.chosen)[:, -1, : env.num_ops]
        return np.exp(np.asarray(sampled.logs, np.float64)[:, : env.num_ops, : env.chips])

    def credits(
        self,
        env: PartitionEnv,
        sampled: Sampled,
        partitions: np.ndarray,
        latencies: np.ndarray,
        advantage: np.ndarray,
    ) -> Credits:
        """The credits learned from samples that were repaired to partitions.

        Args:
          partitions: [B, N] int, y'.
          latencies: [B, C] seconds of each chip under them.
          advantage: [B] of each sample.
        """
        chosen = np.array(sampled.chosen)
        batch, steps, n = chosen.shape
        if self.config.credit != CANDIDATE:
            chosen[:, -1, : env.num_ops] = partitions
        shares = np.tile(env.features.mask / (env.features.mask.sum() * steps), steps)
        weight = np.broadcast_to(shares, (batch, steps * n)).astype(np.float32)
        whole = np.broadcast_to(advantage[:, None], weight.shape)
        parts: list[tuple[np.ndarray, ...]] = [
            (chosen.reshape(batch, -1, 1), whole[..., None], weight[..., None])
        ]
        if self.config.credit == FLOW:
            parts.append(self._flow(env, sampled, partitions, latencies, steps * n))
        return Credits(
            np.array(sampled.previous),
            *(np.concatenate(columns, axis=-1) for columns in zip(*parts)),
        )

    def _flow(self, env, sampled, partitions, latencies, count: int) -> tuple[np.ndarray, ...]:
        """Alternatives, advantages and weights of the flow credit, of the last assignment; [B,
        count, 3] each."""
        gains, possible = flow_gains(env.model.op_seconds, partitions, latencies)
        beside = np.clip(partitions[..., None] + SIDES, 0, env.chips - 1)
        logs = np.asarray(sampled.logs, np.float64)[:, : env.num_ops]
        probabilities = np.exp(np.take_along_axis(logs, beside, axis=2))
        parts = (
            beside.astype(np.int32),
            *spread(gains, possible, probabilities, self.config.op_weight),
        )
        first = count - len(env.features.ops)
        room = [(0, 0), (first, count - first - env.num_ops), (0, 0)]
        return tuple(np.pad(part, room) for part in parts)

    @partial(jax.jit, static_argnums=0)
    def log_probabilities(self, parameters: Any, context: ChipContext, previous: jax.Array):
        """([B, A, P] log-probabilities given y^(t-1) [B, T, n], A = T n; [] mean entropy of a
        choice, [] value)."""
        batch, steps, n = previous.shape
        logs, expected = self._network.apply(
            parameters, context, previous.reshape(batch * steps, n)
        )
        entropy = -(jnp.exp(logs) * jnp.maximum(logs, MASKED)).sum(-1)
        shares = context.graph.mask / context.graph.mask.sum()
        return logs.reshape(batch, steps * n, -1), (entropy * shares).sum(-1).mean(), expected
