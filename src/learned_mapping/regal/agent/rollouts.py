"""Many short runs of BRKGA that differ in their mutants' law alone: what a learner of laws is
rewarded by.

The runs of a group start from one uniform population, scored once, and go on with the same random
numbers, so that a difference between two rewards comes from the laws; the children of the first
generation are the same in all runs and scored once too. Each run is `brkga` with a law for its
mutants alone, compiled for a cheaper source of random numbers and chromosomes in float32.
"""

import copy
import functools

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.regal.rules.decode import make_workspace
from learned_mapping.regal.rules.instance import Arrays
from learned_mapping.regal.searches.brkga import (
    BrkgaParameters,
    Population,
    Shares,
    _evolve,
    begin_on_one_device,
    draw_and_score,
)
from learned_mapping.regal.searches.random_numbers import Tables, stream, tabulate


@functools.lru_cache(maxsize=8)
def pair_tables(bins: tuple[float, ...]) -> Tables:
    """The quantiles of every pair of B bins: entry (0, i B + j) is Beta(bins[i], bins[j])."""
    alpha, beta = (grid.ravel()[None] for grid in np.meshgrid(bins, bins, indexing="ij"))
    return tabulate(np.ascontiguousarray(alpha, np.float64), np.ascontiguousarray(beta, np.float64))


def law_rows(choices: np.ndarray, bins: tuple[float, ...]) -> np.ndarray:
    """[K, N (d + 1)] int32, the row of `pair_tables` for every entry of K laws, in a chromosome's
    order.

    Args:
      choices: [K, N, d + 1, 2] bins of alpha and of beta; the last of the d + 1 entries is the
        priority.
      bins: the values to choose from.
    """
    chosen = np.asarray(choices, np.int64)
    rows = pair_tables(bins).rows[0][chosen[..., 0] * len(bins) + chosen[..., 1]]
    return np.concatenate([rows[:, :, :-1].reshape(len(rows), -1), rows[:, :, -1]], axis=1)


def generations_in(evaluations: int, parameters: BrkgaParameters) -> int:
    """Whole generations after the initial population that so many evaluations allow."""
    return (evaluations - parameters.population) // (parameters.population - parameters.elites)


def rollouts(
    arrays: Arrays,
    choices: np.ndarray,
    bins: tuple[float, ...],
    rng: np.ndarray | np.random.Generator,
    evaluations: int,
    dtype: type = np.float32,
) -> np.ndarray:
    """[K] float64, the cost that each of K runs of BRKGA ends with.

    Args:
      arrays: of the instance, N ops.
      choices: [K, N, d + 1, 2] as in `law_rows`.
      bins: the values to choose from.
      rng: a `stream`, which is fast; or a generator: then, and with float64, a run is `brkga`'s to
        the last bit.
      evaluations: chromosomes scored in each run, the shared population counted in each.
      dtype: of chromosomes.

    Raises:
      InputError: fewer evaluations than one generation after the initial population needs.
    """
    parameters = BrkgaParameters()
    generations = generations_in(evaluations, parameters)
    if generations < 1:
        raise InputError(
            "rollouts", "evaluations", f"{evaluations} do not reach a generation after the first"
        )
    size, d = parameters.population, arrays.devices
    length = len(arrays.seconds) * (d + 1) + len(arrays.tensor_bytes) * d
    # The population that all laws begin with.
    population = Population(
        np.zeros((2, size, length), dtype), np.full((2, size), np.inf), np.zeros(size, np.int64), 0
    )
    pool, fitness = population.chromosomes, population.fitness
    work, tables, rows = make_workspace(arrays), pair_tables(bins), law_rows(choices, bins)
    draw_and_score(arrays, work, rng, pool[0], fitness[0], tables, 0)
    begin_on_one_device(arrays, work, pool[0], fitness[0])
    population.ranks[:] = np.argsort(fitness[0], kind="mergesort")
    laws = [Tables(tables.alpha, tables.beta, row[None], tables.knots) for row in rows]
    shares = Shares(parameters.elites, parameters.mutants, parameters.mutants, parameters.bias)
    # One generation by the first law; of the others only the mutants differ.
    before, costs, best = copy.deepcopy(rng), np.zeros(len(laws)), np.zeros(generations - 1)
    _evolve(arrays, work, rng, population, shares, laws[0], np.zeros(1))
    first, second = (pool[1].copy(), fitness[1].copy()), population._replace(present=1)
    drawn = slice(parameters.elites, parameters.elites + parameters.mutants)
    # Each law goes on from there with the same random numbers.
    for number, law in enumerate(laws):
        if generations > 1:
            pool[1] = first[0]
        fitness[1] = first[1]
        draw_and_score(
            arrays,
            work,
            copy.deepcopy(before),
            pool[1, drawn],
            fitness[1, drawn],
            law,
            law.rows.shape[1],
        )
        if generations > 1:
            population.ranks[:] = np.argsort(fitness[1], kind="mergesort")
            _evolve(arrays, work, copy.deepcopy(rng), second, shares, law, best)
        costs[number] = best[-1] if generations > 1 else fitness[1].min()
    return costs


def uniform_cost(arrays: Arrays, seed: tuple[int, ...], evaluations: int, runs: int) -> float:
    """H(G, U): the mean cost of `runs` runs whose mutants are uniform, each with a population of
    its own; 1 for a cost of 0, so that it can be divided by."""
    choices = np.zeros((1, len(arrays.seconds), arrays.devices + 1, 2), np.int8)
    costs = [
        rollouts(arrays, choices, (1.0,), stream(*seed, r), evaluations)[0] for r in range(runs)
    ]
    return float(np.mean(costs)) or 1.0
