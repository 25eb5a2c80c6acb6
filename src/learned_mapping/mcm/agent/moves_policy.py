"""The policy about a partition y(0): for every op a distribution over y_i(0) - 1, y_i(0) and y_i(0)
+ 1.

The same GraphSAGE, PPO and solver as `network`; what differs is ours. Logits are read relative to
y(0), so that the network, which all ops and chips share, says "one further" without knowing where
an op is. An op that moves is a push (`searches.moves`): it takes along those ops that the chain
rule forces. The network is told the chips' latencies under y(0) and what each push would be worth
alone, as the model has them.

The prior has about m ops moved at first by pushes of one op, and as many by pushes of several. Row
r of a batch has m / 2^(r mod 4), m = `AgentConfig.moved`: at first many moves at once are worth
most, near a good partition few are.
"""

from functools import partial
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.learning.networks import draw_parameters
from learned_mapping.mcm.agent.config import AgentConfig
from learned_mapping.mcm.agent.credit import SHARP, SIDES, spread
from learned_mapping.mcm.agent.features import EIGHT_OPS, GraphFeatures
from learned_mapping.mcm.agent.network import MASKED, Credits, graph_sage
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.searches.even_cut import Places
from learned_mapping.mcm.searches.moves import pushed, pushes

OP_FEATURES = 17
"""Numbers per op that tell of y(0)."""
RATES = 4
"""Kinds of rows, each of half as many moves as the one before."""
MOST_MOVED = 0.5
"""The prior has at most this share of the moves made."""


class StartState(NamedTuple):
    """B partitions that samples begin at, of n padded ops."""

    partition: np.ndarray  # [B, N] int32, y(0).
    features: np.ndarray  # [B, n, OP_FEATURES] float32.
    # [B, n, 3] float32, added to the logits: the prior's logarithm, or `MASKED` where no move is.
    prior: np.ndarray


class Moved(NamedTuple):
    """B samples."""

    start: StartState
    side: Any  # [B, n] int32, 0 to 2: a chip lower, the same, a chip higher.
    logs: Any  # [B, n, 3] log-probabilities of the three.
    turn: Any  # [B, n] float32: moves are made from low to high.


class MovesPolicy:
    """`config` as in `AgentConfig`, with `begun`."""

    def __init__(self, config: AgentConfig):
        self.config = config
        self._network = hk.without_apply_rng(hk.transform(self._forward))
        self.act = jax.jit(self._act)

    def _forward(self, graph: GraphFeatures, state: jax.Array) -> jax.Array:
        """[B, n, 3] logits."""
        h, width = graph_sage(graph, self.config), self.config.width
        x = hk.Linear(width, name="policy_0")(h) + hk.Linear(width, False, name="policy_state")(
            state
        )
        x = jax.nn.relu(hk.Linear(width, name="policy_1")(jax.nn.relu(x)))
        return hk.Linear(3, name="policy_out")(x)

    def new_parameters(self, rng: np.random.Generator) -> Any:
        """Fresh parameters; the last layer starts at 0, so that the first distribution is the
        prior."""
        shapes = jax.eval_shape(
            self._network.init, jax.random.PRNGKey(0), EIGHT_OPS, jnp.zeros((1, 8, OP_FEATURES))
        )
        return draw_parameters(shapes, rng, zero=("policy_out",))

    def context(self, env: PartitionEnv) -> GraphFeatures:
        """The graph on a package, as the compiled functions take it."""
        return env.features

    def begin(
        self, env: PartitionEnv, rng: np.random.Generator, places: Places | None = None
    ) -> StartState:
        """The partitions of `places`, fresh ones of the environment's start where None, and what
        the policy is told of them."""
        if places is None:
            assert env.start is not None
            places = env.start.draw(rng, self.config.rollouts)
        partitions = places.partitions
        size = len(env.features.ops)
        state = np.zeros((len(partitions), size, OP_FEATURES), np.float32)
        prior = np.full((len(partitions), size, 3), MASKED, np.float32)
        prior[..., 1] = 0.0
        for row, y in enumerate(partitions):
            latencies = env.model.latencies(y)
            gains, sizes = self._moves(env, y, latencies)
            known, taken = sizes > 0, np.maximum(sizes, 1)
            state[row, : env.num_ops] = _op_features(env, y, latencies, known / taken, gains)
            moved = self.config.moved / 2 ** (row % RATES)
            for kind in (sizes == 1, sizes > 1):
                rate = min(moved / max(kind.sum(), 1), MOST_MOVED)
                pull = np.log(rate / taken)
                prior[row, : env.num_ops, ::2][kind] = pull[kind]
        return StartState(partitions, state, prior)

    def _act(
        self, parameters: Any, context: GraphFeatures, start: StartState, key: jax.Array
    ) -> Moved:
        """A sample for each of the partitions of `begin`."""
        logs = jax.nn.log_softmax(
            self._network.apply(parameters, context, start.features) + start.prior
        )
        draw, turns = jax.random.split(key)
        side = jax.random.categorical(draw, logs).astype(jnp.int32)
        return Moved(start, side, logs, jax.random.uniform(turns, side.shape))

    def choice(self, env: PartitionEnv, sampled: Moved) -> np.ndarray:
        """[B, N] int32 candidates: one push after another, but of an op that another took along."""
        partitions = np.array(sampled.start.partition, np.int32)
        sides, turns = (np.asarray(x)[:, : env.num_ops] for x in (sampled.side, sampled.turn))
        for y, side, turn in zip(partitions, SIDES[sides], turns):
            start = y.copy()
            for op in np.argsort(turn):
                if side[op] and y[op] == start[op]:
                    y[:] = pushed(env.moves, y, op, side[op], env.chips, len(y))
        return partitions

    def _moves(
        self, env: PartitionEnv, y: np.ndarray, latencies: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return pushes(env.moves, y, latencies, np.arange(env.num_ops), len(y))

    def credits(
        self,
        env: PartitionEnv,
        sampled: Moved,
        partitions: np.ndarray,
        latencies: np.ndarray,
        advantage: np.ndarray,
    ) -> Credits:
        """The credits learned from samples that were repaired to partitions; arguments as in
        `ChipPolicy.credits`.

        The gains of moves from y' count for the chips that y(0) has beside it; the sample's
        advantage does not.
        """
        batch, size = len(partitions), len(env.features.ops)
        gains, possible = np.zeros((batch, env.num_ops, 3)), np.zeros((batch, env.num_ops, 3), bool)
        for row in np.flatnonzero(latencies.any(axis=1)):
            gain, sizes = self._moves(env, partitions[row], latencies[row])
            gain = np.insert(gain, 1, 0.0, axis=1)  # of an op that stays
            allowed = np.insert(sizes > 0, 1, True, axis=1)
            apart = partitions[row] - np.asarray(sampled.start.partition[row])
            for side in range(3):
                place = apart + side  # relative to y(0)
                ops = np.flatnonzero((place >= 0) & (place <= 2) & allowed[:, side])
                gains[row, ops, place[ops]] = np.tanh(gain[ops, side] / SHARP)
                possible[row, ops, place[ops]] = True
        probabilities = np.exp(np.asarray(sampled.logs, np.float64))[:, : env.num_ops]
        parts = spread(gains, possible, probabilities, 1.0)
        room = [(0, 0), (0, size - env.num_ops), (0, 0)]
        alternatives = np.broadcast_to(np.arange(3, dtype=np.int32), (batch, size, 3))
        state = np.asarray(sampled.start.features), np.asarray(sampled.start.prior)
        return Credits(state, alternatives, *(np.pad(part, room) for part in parts))

    @partial(jax.jit, static_argnums=0)
    def log_probabilities(
        self, parameters: Any, context: GraphFeatures, state: tuple[jax.Array, jax.Array]
    ):
        """([B, n, 3] log-probabilities given the features of y(0) and the prior, [] mean entropy of
        an op, [] 0)."""
        features, prior = state
        logs = jax.nn.log_softmax(self._network.apply(parameters, context, features) + prior)
        entropy = -(jnp.exp(logs) * jnp.maximum(logs, MASKED)).sum(-1)
        return logs, (entropy * context.mask / context.mask.sum()).sum(-1).mean(), jnp.zeros(())


def _op_features(
    env: PartitionEnv,
    y: np.ndarray,
    latencies: np.ndarray,
    alone: np.ndarray,
    gains: np.ndarray,
) -> np.ndarray:
    """[N, OP_FEATURES] of each op: its chip's place; the mean step to its producers and to its
    consumers; 1 over the ops that move when it is pushed a chip lower, higher, or 0; what either
    push gains; over the busiest chip's latency its own time, its chip's, the next lower one's and
    the next higher one's; how far its chip is above both without it; the excess of work before its
    chip and up to it, in even shares; an even share over the busiest; 1."""
    n, edges, chips = len(y), env.graph.op_edges, env.chips
    step = (y[edges[:, 1]] - y[edges[:, 0]]).astype(float)
    means = [
        np.bincount(edges[:, end], step, n) / np.maximum(np.bincount(edges[:, end], minlength=n), 1)
        for end in (1, 0)
    ]
    share = max(env.model.op_seconds.sum() / chips, 1e-300)
    busiest = max(float(latencies.max()), 1e-300)
    around = np.concatenate([[0.0], latencies, [0.0]]) / busiest
    op_share, below, at_chip, above = (
        env.model.op_seconds / busiest,
        around[y],
        around[y + 1],
        around[y + 2],
    )
    excess = np.concatenate([[0.0], np.cumsum((latencies - latencies.mean()) / share)])
    columns = [
        y / max(chips - 1, 1),
        *means,
        *alone.T,
        *np.tanh(gains / SHARP).T,
        op_share,
        at_chip,
        below,
        above,
        4.0 * np.tanh(2.0 * (at_chip - below - op_share)),
        4.0 * np.tanh(2.0 * (at_chip - above - op_share)),
        np.tanh(excess[y]),
        np.tanh(excess[y + 1]),
        np.full(n, share / busiest),
        np.ones(n),
    ]
    return np.stack(columns, axis=1)
