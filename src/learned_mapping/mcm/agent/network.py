"""The paper's policy: for every op a distribution over chips, repaired by the constraint solver (Section 4).

GraphSAGE over the ops, a policy network of two layers, and a value (Section 4.1, Fig. 3):

    p(y^(t) | G) = Π_i p(y_i^(t) | h_G, y^(t-1)),    t = 1, ..., T                                    (Eq. 7)

The paper does not say what y^(0) is. Where an environment has a start it is drawn from there, and the logits of y^(t)
also fall with the distance from y^(t-1): a network of zeros stays near it. Else the network is told of none.

A sample is y^(1), ..., y^(T); the solver turns y^(T), or in SAMPLE mode P^(T), into y', whose throughput is the reward.
"""

from functools import partial
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.learning.networks import draw_parameters, layer_norm, mlp
from learned_mapping.mcm.agent.config import FIX, REPAIRED, AgentConfig
from learned_mapping.mcm.agent.features import NUM_FEATURES, GraphFeatures
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.searches.even_cut import pull_of

ANCHORS = 36  # Positions along the package at which the network gives logits: the paper's 36 chips.
STATE = 10  # Numbers per op that tell of the assignment of the iteration before.
FURTHEST = 3.0  # Chips between an op and its neighbours, from here on the same.


def graph_sage(graph: GraphFeatures, config: AgentConfig) -> jax.Array:
    """[n, width] embeddings of the ops: h_G.

    Each layer joins an op with the means of its producers and of its consumers (Hamilton et al. 2017, mean aggregator),
    and adds what it was; the sum lets eight layers learn.
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

    Its chip's position, the means of its producers' and consumers' positions relative to it, how many chips lie between
    it and the nearest of either, the time of its chip against an even share, that of its chip and of the ones before
    and behind against the busiest, and 1.
    """
    n, known = previous.shape[0], (previous >= 0).astype(jnp.float32) * graph.mask
    chip = jnp.maximum(previous, 0)
    at, last = chip.astype(jnp.float32), jnp.maximum(graph.chips - 1.0, 1.0)
    step = at[graph.consumers] - at[graph.producers]
    before = jraph.segment_mean(-step, graph.consumers, n) / last
    behind = jraph.segment_mean(step, graph.producers, n) / last
    room = [jraph.segment_min(jnp.abs(step), ends, n) for ends in (graph.consumers, graph.producers)]
    gaps = [jnp.clip(gap, 0.0, FURTHEST) / FURTHEST for gap in room]
    seconds = (10.0 ** (4.0 * graph.ops[:, 0])) * graph.mask  # over an even share, as `graph_features` has it
    load = jax.ops.segment_sum(seconds, chip, num_segments=n)  # chips in use are fewer than ops
    busiest = jnp.maximum(load.max(), 1e-6)
    beside = [load[jnp.clip(chip + move, 0, graph.chips.astype(int) - 1)] / busiest for move in (-1, 0, 1)]
    told = [at / last, before, behind, *gaps, jnp.log1p(load[chip]), *beside, jnp.ones(n)]
    return jnp.stack(told, axis=-1) * known[:, None]


def chip_logits(
    h: jax.Array, previous: jax.Array, graph: GraphFeatures, reading: jax.Array, config: AgentConfig
) -> jax.Array:
    """[B, n, P] logits of the chips of every op, Eq. 7, given the assignments before.

    Args:
      h: [n, width] from `graph_sage`.
      previous: [B, n] int32, y^(t-1); -1 in the first iteration.
      reading: [ANCHORS, P], how chips read the network's positions, from `reading_of`; the caller masks the columns of
        no chip.
    """
    x = jnp.broadcast_to(hk.Linear(config.width, name="policy_0")(h), (*previous.shape, config.width))
    if config.iterations > 1 or config.begun:
        states = jax.vmap(chip_state, (0, None))(previous, graph)
        x = x + hk.Linear(config.width, False, name="policy_state")(states)
    x = jax.nn.relu(x)
    x = jax.nn.relu(hk.Linear(config.width, name="policy_1")(x))
    return hk.Linear(ANCHORS, name="policy_out")(x) @ reading


MASKED = -1e9
MAX_ENTRIES = 2**25  # Ops times chips of the largest graph this policy takes: its logits are held for every rollout.


class ChipContext(NamedTuple):
    """What the compiled functions know of a graph on a package. A pytree."""

    graph: GraphFeatures
    reading: np.ndarray
    """[ANCHORS, P] float32: chips read the network's positions linearly. The identity for the paper's 36 chips."""
    allowed: np.ndarray  # [P] float32, 1 for a chip there is.
    pull: np.ndarray  # [] float32, λ of `searches.even_cut`: what a chip further from y^(t-1) costs; 0 without a start.


class ChipActions(NamedTuple):
    """B samples of T assignments of n ops."""

    previous: Any  # [B, T, n] int32, y^(t-1); -1 for t = 1.
    chosen: Any  # [B, T, n] int32, y^(t), the last replaced by y' where that gets the credit.


def reading_of(chips: int) -> tuple[np.ndarray, np.ndarray]:
    """([ANCHORS, P] how C chips read the positions, [P] which columns are chips); P is ANCHORS or a power of 2."""
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
        away = jnp.abs(jnp.arange(logits.shape[-1]) - previous[..., None]) * (previous >= 0)[..., None]
        logits = jnp.where(context.allowed > 0, logits - context.pull * away, MASKED)
        return jax.nn.log_softmax(logits), value(h, context.graph, self.config)

    def new_parameters(self, rng: np.random.Generator) -> Any:
        """Fresh parameters; the last layer starts at 0, so that the first distribution is uniform."""
        graph = GraphFeatures(
            np.zeros((8, NUM_FEATURES), np.float32), np.zeros(8, np.int32), np.zeros(8, np.int32),
            np.ones(8, np.float32), np.float32(2),
        )  # fmt: skip
        context = ChipContext(graph, *reading_of(2), np.float32(0))
        shapes = jax.eval_shape(self._network.init, jax.random.PRNGKey(0), context, jnp.zeros((1, 8), jnp.int32))
        return draw_parameters(shapes, rng, zero=("policy_out", "value_out"))

    def context(self, env: PartitionEnv) -> ChipContext:
        """Raises `InputError` where ops times chips are too many."""
        reading, allowed = reading_of(env.chips)
        rows, columns = len(env.features.ops), reading.shape[1]
        if rows * columns > MAX_ENTRIES:
            fault = f"{env.num_ops} ops on {env.chips} chips are too many for a policy over chips"
            raise InputError("method", "", f"{fault}; the searches over costs have no such limit")
        pull = 0.0 if env.start is None else pull_of(env.num_ops, env.start.moved)
        return ChipContext(env.features, reading, allowed, np.float32(pull))

    def begin(self, env: PartitionEnv, rng: np.random.Generator, best: np.ndarray | None = None) -> np.ndarray:
        """[B, n] int32, y^(0) of a batch: the environment's start, or -1 where it has none."""
        found = np.full((self.config.rollouts, len(env.features.ops)), -1, np.int32)
        if env.start is not None:
            found[:, : env.num_ops] = env.start.draw(rng, len(found), best)
        return found

    def _act(self, parameters: Any, context: ChipContext, previous: jax.Array, key: jax.Array):
        """A sample for each y^(0) [B, n] of `begin`: (ChipActions, [B, n, P] last iteration's log-probabilities)."""
        before, chosen = [], []
        for step in range(self.config.iterations):
            logs, _ = self._network.apply(parameters, context, previous)
            drawn = jax.random.categorical(jax.random.fold_in(key, step), logs).astype(jnp.int32)
            before.append(previous)
            chosen.append(drawn)
            previous = drawn
        return ChipActions(jnp.stack(before, 1), jnp.stack(chosen, 1)), logs

    def choice(self, env: PartitionEnv, sampled: tuple[ChipActions, jax.Array]) -> np.ndarray:
        """What `act` sampled as the environment takes it: [B, N] candidates, or [B, N, C] distributions."""
        actions, logs = sampled
        if self.config.mode == FIX:
            return np.asarray(actions.chosen)[:, -1, : env.num_ops]
        return np.exp(np.asarray(logs, np.float64)[:, : env.num_ops, : env.chips])

    def credited(self, actions: ChipActions, repaired: np.ndarray) -> ChipActions:
        """The actions a reward is credited to, of samples whose repaired partitions [B, N] earned it."""
        if self.config.credit != REPAIRED:
            return actions
        chosen = np.array(actions.chosen)
        chosen[:, -1, : repaired.shape[1]] = repaired
        return ChipActions(actions.previous, chosen)

    @partial(jax.jit, static_argnums=0)
    def log_probabilities(self, parameters: Any, context: ChipContext, actions: ChipActions):
        """([B, A] log-probabilities of single choices, [A] weights that sum to 1, [] mean entropy, [] value)."""
        batch, steps, n = actions.chosen.shape
        logs, expected = self._network.apply(parameters, context, actions.previous.reshape(batch * steps, n))
        taken = jnp.take_along_axis(logs, actions.chosen.reshape(batch * steps, n, 1), axis=2)[..., 0]
        entropy = -(jnp.exp(logs) * jnp.maximum(logs, MASKED)).sum(-1)
        shares = context.graph.mask / context.graph.mask.sum()
        every = jnp.tile(shares / steps, steps)
        return taken.reshape(batch, steps * n), every, (entropy * shares).sum(-1).mean(), expected
