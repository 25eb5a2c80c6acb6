"""REINFORCE on single schedules: which priorities make one placement of the ops cheaper than other priorities do.

The paper's reward is what a whole run of BRKGA finds (Section 2.3): thousands of evaluations for one number, to which
every bin of every op contributes. Here a rollout is one schedule. Rollouts come in groups that share a placement, and
are compared within their group, so that the placement, which decides most of the cost, does not drown the order. The
probability that rewards act on is that of the priorities themselves, bins summed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np

from learned_mapping.regal.decode import fitness_of, make_workspace
from learned_mapping.regal.laws import BINS, softmax
from learned_mapping.regal.losses import Example, TrainConfig, graph_of, log_density
from learned_mapping.regal.network import Batch


@numba.njit(cache=True)
def _bin(rng, cumulative):
    """A bin drawn from cumulative probabilities."""
    draw, k = rng.random(), 0
    while k < cumulative.shape[0] - 1 and draw > cumulative[k]:
        k += 1
    return k


@numba.njit(cache=True)
def _schedules(a, work, rng, placements, cumulative, bins, chromosome, priorities, costs):
    """Fills priorities [K R, N] and costs [K R]: R schedules for each of placements [K, N], bins drawn for each op."""
    groups, n = placements.shape
    each = costs.shape[0] // groups
    for row in range(costs.shape[0]):
        for op in range(n):
            device = placements[row // each, op]
            chromosome[2 * op], chromosome[2 * op + 1] = 1.0 - device, 1.0 * device
            alpha, beta = bins[_bin(rng, cumulative[op, 0])], bins[_bin(rng, cumulative[op, 1])]
            priorities[row, op] = rng.beta(alpha, beta)
            chromosome[2 * n + op] = priorities[row, op]
        for i in range(3 * n, chromosome.shape[0]):
            chromosome[i] = rng.random()
        costs[row] = fitness_of(a, chromosome, work)


def draw_schedules(
    example: Example, logits: np.ndarray, rng: np.random.Generator, config: TrainConfig
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Schedules of one graph whose priorities follow the network: half of the placements are elites', half random.

    Args:
      example: a graph of N ops on two devices.
      logits: [N, 3, 2, bins].
      rng: the only source of randomness.
      config: `order_groups` placements, `order_draws` schedules of each.

    Returns:
      Priorities [S, N], advantages [S] (z-scores of -log cost within each placement), costs [S].
    """
    n, groups = len(logits), config.order_groups
    known = example.elites.devices[rng.integers(len(example.elites.devices), size=groups // 2)]
    placements = np.concatenate([known, rng.integers(0, 2, (groups - groups // 2, n))]).astype(np.float64)
    priorities, costs = np.zeros((groups * config.order_draws, n)), np.zeros(groups * config.order_draws)
    cumulative = np.cumsum(softmax(logits[:, -1].astype(float)), axis=-1)
    chromosome = np.zeros(example.instance.chromosome_length)
    work = make_workspace(example.instance)
    _schedules(
        example.instance.arrays, work, rng, placements, cumulative, np.asarray(BINS), chromosome, priorities, costs
    )
    rewards = -np.log(costs).reshape(groups, -1)
    spread = rewards.std(axis=1, keepdims=True)
    centred = (rewards - rewards.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-9)
    return priorities, np.where(spread > 1e-9, centred, 0.0).ravel(), costs


def order_loss(
    logits: jax.Array, batch: Batch, priorities: jax.Array, advantages: jax.Array, config: TrainConfig
) -> tuple[jax.Array, Any]:
    """-mean over schedules of advantage times the log-density of the priorities, plus the laws' distance from uniform
    less the entropy of the priorities' bins.

    Args:
      logits: [N, d + 1, 2, bins].
      batch: G graphs.
      priorities: [N, S] of S schedules of each graph.
      advantages: [G, S], 0 for padding.
      config: `order_strength` weighs the mean of alpha - 1 and beta - 1, `order_entropy` the priorities' entropy.
    """
    p = jax.nn.softmax(logits)
    of, count = graph_of(batch), batch.graphs.n_node.shape[0]
    sizes = jnp.maximum(batch.graphs.n_node, 1)
    real = (jnp.abs(advantages).sum(axis=1) > 0).astype(jnp.float32)
    total = jnp.maximum(real.sum(), 1)
    gains = jax.ops.segment_sum((log_density(p[:, -1], priorities) * advantages[of]).sum(axis=1), of, count)
    gain = (gains / advantages.shape[1] / jnp.sqrt(sizes) * real).sum() / total
    above = jnp.einsum("neab,b->n", p, jnp.asarray(BINS, jnp.float32)) / 2 - p.shape[1]
    strength = (jax.ops.segment_sum(above, of, count) / sizes * real).sum() / total
    entropies = -(p[:, -1] * jnp.log(p[:, -1] + 1e-9)).sum(axis=-1).mean(axis=-1)
    entropy = (jax.ops.segment_sum(entropies, of, count) / sizes * real).sum() / total
    loss = -gain + config.order_strength * strength - config.order_entropy * entropy
    return loss, {"loss": loss, "gain": gain, "strength": strength, "entropy": entropy}


def order_batch(
    examples: Sequence[Example],
    batch: Batch,
    proposed: Sequence[np.ndarray],
    rng: np.random.Generator,
    config: TrainConfig,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Priorities [N, S] and advantages [G, S] for a batch, padded like it, and the mean of cost over BRKGA's.

    Args:
      examples: the batch's graphs.
      batch: for its sizes.
      proposed: the network's logits of each graph.
      rng, config: as in `draw_schedules`.
    """  # fmt: skip
    nodes, graphs = batch.graphs.nodes.shape[0], batch.graphs.n_node.shape[0]
    size = config.order_groups * config.order_draws
    priorities, advantages = np.full((nodes, size), 0.5, np.float32), np.zeros((graphs, size), np.float32)
    offset, ratios = 0, []
    for row, (example, logits) in enumerate(zip(examples, proposed)):
        drawn, advantages[row], costs = draw_schedules(example, logits, rng, config)
        priorities[offset : offset + len(logits)] = drawn.T
        offset += len(logits)
        ratios.append(float((costs / example.brkga).mean()))
    return priorities, advantages, float(np.mean(ratios))
