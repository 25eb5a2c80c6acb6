"""Evolution strategies on the MMapGame, after Salimans et al., "Evolution strategies as a scalable alternative to
reinforcement learning", 2017: the paper's second baseline (Table 2), in three parametrisations.

A generation perturbs the parameters by antithetic Gaussian noise, plays one game each, ranks the returns, and follows
the estimated gradient with Adam. What counts at the end is the best game of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from learned_mapping.mmap.searches.greedy import ThresholdRule, greedy_tuned
from learned_mapping.mmap.searches.search import Search


@dataclass(frozen=True)
class EvolutionParameters:
    """Hyperparameters; chosen on synthetic programs and on programs that stand in no table."""

    pairs: int
    """Antithetic pairs per generation: the population is twice that."""
    sigma: float
    """Standard deviation of the noise."""
    learning_rate: float
    """Of Adam, in units of sigma."""
    decay: float = 0.0
    """Share of the parameters' distance from their start that a generation takes back."""


LOGITS = EvolutionParameters(pairs=4, sigma=1.0, learning_rate=0.15)
POLICY = EvolutionParameters(pairs=4, sigma=0.3, learning_rate=0.1)
WARM = EvolutionParameters(pairs=4, sigma=0.3, learning_rate=0.1)


def evolve(
    evaluate: Callable[[np.ndarray], float],
    start: np.ndarray,
    parameters: EvolutionParameters,
    search: Search,
    rng: np.random.Generator,
    share: float = 1.0,
) -> np.ndarray:
    """Runs evolution until a share of the budget is spent; returns the last mean of the parameters.

    Args:
      evaluate: plays a game with parameters of the shape of `start` and returns its return.
      start: mean of the first generation.
      parameters: hyperparameters.
      search: where the games are counted; its budget ends the search.
      rng: the noise.
      share: of the budget, counted from its start.
    """
    mean = start.copy()
    moment, scale = np.zeros_like(mean), np.zeros_like(mean)
    generation = 0
    while not search.spent(share):
        generation += 1
        noise = rng.standard_normal((parameters.pairs, *mean.shape))
        values = np.full((parameters.pairs, 2), -np.inf)
        for i in range(parameters.pairs):
            for j, sign in enumerate((1.0, -1.0)):
                values[i, j] = evaluate(mean + sign * parameters.sigma * noise[i])
                if search.spent(share):
                    return mean
        shaped = centred_ranks(values)
        gradient = np.tensordot(shaped[:, 0] - shaped[:, 1], noise, axes=1) / parameters.pairs
        moment = 0.9 * moment + 0.1 * gradient
        scale = 0.999 * scale + 0.001 * gradient**2
        step = moment / (1 - 0.9**generation) / (np.sqrt(scale / (1 - 0.999**generation)) + 1e-8)
        mean = mean + parameters.learning_rate * parameters.sigma * step
        mean = mean + parameters.decay * (start - mean)
    return mean


def centred_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks of all entries scaled to [-0.5, 0.5], equal values sharing their mean rank; the shape of `values`."""
    flat = values.ravel()
    if len(flat) < 2:
        return np.zeros_like(values)
    _, group, counts = np.unique(flat, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    ranks = last - (counts - 1) / 2
    return (ranks[group] / (len(flat) - 1) - 0.5).reshape(values.shape)


def evolution_logits(search: Search, rng: np.random.Generator, parameters: EvolutionParameters = LOGITS) -> None:
    """Evolution over one preference per buffer and action, from nothing."""
    evolve(search.play_preferences, np.zeros((search.program.num_buffers, 3)), parameters, search, rng)


def evolution_policy(
    search: Search, rng: np.random.Generator, parameters: EvolutionParameters = POLICY, share: float = 1.0
) -> None:
    """Evolution over the weights of a linear policy on the game's features, from the untuned threshold rule."""
    evolve(search.play_linear_policy, ThresholdRule().weights(), parameters, search, rng, share)


def evolution_warm(search: Search, rng: np.random.Generator, parameters: EvolutionParameters = WARM) -> None:
    """Evolution over preferences that start at the decisions of the tuned threshold rule."""
    greedy_tuned(search, share=0.3)
    start = np.zeros((search.program.num_buffers, 3))
    start[np.arange(search.program.num_buffers), search.best.action] = 1.0
    evolve(search.play_preferences, start, parameters, search, rng)
