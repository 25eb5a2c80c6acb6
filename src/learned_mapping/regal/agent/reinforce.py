"""REINFORCE on what BRKGA makes of a law: estimator, loss, stages (REGAL, Section 2.3 and Appendix A.3).

The reward of a run is -M / H: its cost over that of uniform mutants at as many evaluations. Per graph and step K laws
are drawn and tried from one initial population with the same random numbers; the advantage of a law is its reward less
the mean of the others', which keeps the gradient's expectation and takes most of its variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import jraph
import numpy as np

from learned_mapping.regal.agent.network import Batch


@dataclass(frozen=True)
class Stage:
    """A part of a training. Short runs tell laws apart for the least time; the last stage is the paper's length."""

    share: float
    """Of the training's seconds."""
    evaluations: int
    rollouts: int
    """K, laws tried per graph and step."""
    graphs: int
    """The first so many training graphs of at most `ops` ops."""
    ops: int


@dataclass(frozen=True)
class ReinforceConfig:
    """Everything a training depends on besides its graphs."""

    stages: tuple[Stage, ...]
    seconds: float
    """Length of the training, in seconds of `seconds_of`: a count, so that the result does not depend on a clock."""
    seed: int = 0
    batch_graphs: int = 16
    batch_ops: int = 1024
    """A step takes graphs in random order up to either."""
    rate: float = 2e-3
    """Of Adam, in the first stage; then 3/4 of it, falling to `last_rate` by a cosine."""
    last_rate: float = 3e-4
    value_rate: float = 1e-3
    """Of b(G)'s Adam."""
    entropy: float = 4e-3
    """Weight of the entropy, a mean over heads and ops."""
    baseline: str = "group"
    """``group``, the mean of the graph's other rollouts; or ``network``, b(G)."""


STAGES = {
    "synthetic-runtime": (
        Stage(0.18, 180, 256, 64, 50), Stage(0.12, 500, 32, 400, 120), Stage(0.13, 1060, 32, 400, 120),
        Stage(0.22, 2020, 16, 400, 120), Stage(0.35, 5000, 16, 400, 120),
    ),
    "traced-runtime": (
        Stage(0.20, 180, 256, 64, 160), Stage(0.15, 500, 32, 240, 300), Stage(0.13, 1060, 32, 240, 300),
        Stage(0.20, 2020, 16, 240, 300), Stage(0.32, 5000, 16, 240, 300),
    ),
    "traced-memory": (
        Stage(0.35, 820, 64, 160, 240), Stage(0.30, 1060, 32, 240, 300), Stage(0.15, 2020, 32, 240, 300),
        Stage(0.20, 5000, 16, 240, 300),
    ),
}  # fmt: skip
"""Dataset -> stages. Peak memory starts with longer runs: after 180 evaluations the best is the population's still."""


def seconds_of(ops: np.ndarray, stage: Stage) -> float:
    """About the CPU seconds of a step on graphs of these sizes, on one core of 2026."""
    evaluations = 165 + stage.rollouts * (stage.evaluations - 165)
    return 0.1 + 3e-5 * stage.rollouts * len(ops) + 65e-9 * evaluations * float(np.sum(ops))


def stage_at(config: ReinforceConfig, spent: float) -> int:
    """The number of the stage after `spent` seconds."""
    ends = np.cumsum([stage.share for stage in config.stages]) * config.seconds
    return int(min(np.searchsorted(ends, spent, side="right"), len(ends) - 1))


def rate_at(config: ReinforceConfig, spent: float) -> float:
    """Adam's rate after `spent` seconds."""
    first = config.stages[0].share * config.seconds
    if spent < first:
        return config.rate
    left = 0.5 * (1 + np.cos(np.pi * min((spent - first) / max(config.seconds - first, 1e-9), 1.0)))
    return config.last_rate + (0.75 * config.rate - config.last_rate) * left


def leave_one_out(rewards: np.ndarray) -> np.ndarray:
    """[G, K] rewards less the mean of the graph's K - 1 others: R_k - mean_{j != k} R_j."""
    k = rewards.shape[1]
    return (rewards - rewards.mean(axis=1, keepdims=True)) * (k / (k - 1))


def score_weights(choices: list[np.ndarray], advantages: np.ndarray, nodes: int, bins: int) -> np.ndarray:
    """[nodes, d + 1, 2, bins] float32 W such that sum(W log pi) has REINFORCE's gradient.

    An entry sums the advantages of the laws that took its bin. Graphs count alike but for their ops: the score of a
    graph has a standard deviation that grows with the root of its ops, by which it is divided.

    Args:
      choices: of G graphs, [K, N_g, d + 1, 2].
      advantages: [G, K].
      nodes: of the padded batch.
      bins: of a head.
    """
    entries, pair = choices[0].shape[2:]
    weights = np.zeros((nodes, entries, pair, bins), np.float32)
    first = 0
    for chosen, advantage in zip(choices, advantages):
        k, n = chosen.shape[:2]
        scale = advantage.astype(np.float32) / (len(choices) * k * np.sqrt(n) * 10)
        for b in range(bins):
            weights[first : first + n, ..., b] = np.tensordot(scale, (chosen == b).astype(np.float32), axes=1)
        first += n
    return weights


def policy_loss(
    logits: jax.Array, batch: Batch, weights: jax.Array, entropy_weight: float
) -> tuple[jax.Array, jax.Array]:
    """(-sum(W log pi) less the entropy bonus, mean entropy of a head in nats).

    Args:
      logits: [N, d + 1, 2, bins].
      batch: says which nodes are padding.
      weights: of `score_weights`.
      entropy_weight: of the bonus.
    """
    log_p = jax.nn.log_softmax(logits)
    present = jraph.get_node_padding_mask(batch.graphs)[:, None, None]
    entropy = -(jnp.exp(log_p) * log_p).sum(axis=-1)
    entropy = (entropy * present).sum() / (present.sum() * entropy.shape[1] * entropy.shape[2])
    return -(weights * log_p).sum() - entropy_weight * entropy, entropy
