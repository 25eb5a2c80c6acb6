"""Evolution strategies on the MMapGame, after Salimans et al., "Evolution strategies as a scalable
alternative to reinforcement learning", 2017: the paper's second baseline (Table 2), in three
parametrisations.

A generation perturbs the parameters by antithetic Gaussian noise, plays one game each, ranks the
returns, and follows the estimated gradient with Adam. What counts at the end is the best game of
all.
"""

from collections.abc import Callable

import numpy as np

from learned_mapping.mmap.searches.greedy import ThresholdRule
from learned_mapping.mmap.searches.search import Search

PAIRS = 4
"""Antithetic pairs per generation: the population is twice that. This and what follows was chosen
on synthetic programs and on programs that stand in no table."""
MANY_PAIRS = 32  # Of a population of 64.


def evolve(
    evaluate: Callable[[np.ndarray], float],
    start: np.ndarray,
    search: Search,
    rng: np.random.Generator,
    *,
    sigma: float,
    learning_rate: float,
    pairs: int = PAIRS,
) -> None:
    """Runs evolution until the budget is spent.

    Args:
      evaluate: plays a game with parameters of the shape of `start` and returns its return.
      start: mean of the first generation.
      search: where the games are counted; its budget ends the search.
      sigma: standard deviation of the noise.
      learning_rate: of Adam, in units of sigma.
      pairs: antithetic pairs per generation.
    """
    mean = start.copy()
    moment, scale = np.zeros_like(mean), np.zeros_like(mean)
    generation = 0
    while not search.budget.spent():
        generation += 1
        noise = rng.standard_normal((pairs, *mean.shape))
        values = np.full((pairs, 2), -np.inf)
        for i in range(pairs):
            for j, sign in enumerate((1.0, -1.0)):
                values[i, j] = evaluate(mean + sign * sigma * noise[i])
                if search.budget.spent():
                    return
        shaped = centred_ranks(values)
        gradient = np.tensordot(shaped[:, 0] - shaped[:, 1], noise, axes=1) / pairs
        moment = 0.9 * moment + 0.1 * gradient
        scale = 0.999 * scale + 0.001 * gradient**2
        step = moment / (1 - 0.9**generation) / (np.sqrt(scale / (1 - 0.999**generation)) + 1e-8)
        mean = mean + learning_rate * sigma * step


def centred_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks of all entries scaled to [-0.5, 0.5], equal values sharing their mean rank; the shape
    of `values`."""
    from scipy.stats import rankdata

    return ((rankdata(values) - 1.0) / (values.size - 1) - 0.5).reshape(values.shape)


def evolution_logits(search: Search, rng: np.random.Generator, pairs: int = PAIRS) -> None:
    """Evolution over one preference per buffer and action, from nothing."""
    start = np.zeros((search.program.num_buffers, 3))
    evolve(
        search.play_preferences,
        start,
        search,
        rng,
        sigma=1.0,
        learning_rate=0.15,
        pairs=pairs,
    )


def evolution_policy(search: Search, rng: np.random.Generator) -> None:
    """Evolution over the weights of a linear policy on the game's features, from the untuned
    threshold rule."""
    evolve(
        search.play_linear_policy,
        ThresholdRule().weights(),
        search,
        rng,
        sigma=0.3,
        learning_rate=0.1,
    )
