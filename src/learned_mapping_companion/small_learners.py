"""A learner for each problem in a few lines, for the exercises: a policy of independent choices,
moved by REINFORCE. What decides how far it gets is handed in."""

from collections.abc import Callable
from typing import Any

import numpy as np

from learned_mapping import mcm, mmap, regal
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.regal.rules.decode import fitness_of, make_workspace

LEAST = 1e-12


def standard(values: np.ndarray) -> np.ndarray:
    """Values with mean 0 and deviation 1."""
    return (values - values.mean()) / max(values.std(), LEAST)


def credited(answer: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An answer as an array; raises `ValueError` for another shape, and for what is no number."""
    array = np.asarray(answer, float)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"expected numbers of shape {shape}, not {array.shape}")
    return array


def learned_game(
    program: Any, credit: Callable[[np.ndarray], Any], seed: int, updates: int = 12, games: int = 8
) -> float:
    """The best return of so many games, with three preferences for each buffer."""
    rng, game, n, best = np.random.default_rng(seed), mmap.Game(program), program.num_buffers, 0.0
    preference = np.zeros((n, 3))
    for _ in range(updates):
        saved, taken, chance = (
            np.zeros((games, n)),
            np.zeros((games, n, 3)),
            np.zeros((games, n, 3)),
        )
        for g, coins in enumerate(rng.random((games, n))):
            game.restart()
            while not game.over:
                i, outcomes = game.cursor, game.outcomes
                weight = np.exp(preference[i] - preference[i].max()) * (outcomes["legal"] > 0)
                chance[g, i] = weight / weight.sum()
                move = min(int((np.cumsum(chance[g, i]) <= coins[i]).sum()), 2)
                taken[g, i, move], saved[g, i] = 1, outcomes["reward_s"][move]
                game.step(move)
            best = max(best, float(game.value))
        worth = standard(credited(credit(saved / program.possible_saving_s), (games, n)))
        preference += 2 * (worth[..., None] * (taken - chance)).mean(axis=0)
    return best


def learned_partition(
    graph: Any,
    chips: int,
    credit: Callable[..., Any],
    seed: int,
    updates: int = 60,
    samples: int = 32,
) -> float:
    """The best throughput of so many samples, each repaired by FIX, with a preference for each chip
    of each op. Beside the reward of the whole sample, an op is credited as it is told."""
    model, arrays = ChipModel(graph, mcm.ChipPackage(chips=chips)), repair_arrays(graph)
    rng, best, n = np.random.default_rng(seed), 0.0, graph.num_ops
    preference, ways = np.zeros((n, chips)), np.eye(chips)
    for _ in range(updates):
        chance = np.exp(preference - preference.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        drawn = (rng.random((samples, n, 1)) > chance.cumsum(axis=1)[:, :-1]).sum(axis=-1)
        partitions = repair_batch(arrays, chips, mode="fix", rng=rng, candidates=drawn)
        latencies = np.array([model.latencies(partition) for partition in partitions])
        rewards = -np.log(latencies.max(axis=1))
        worth = standard(rewards)[:, None, None] * ways[partitions]
        for sample, told in zip(worth, zip(partitions, latencies)):
            gains = credited(credit(model.op_seconds, *told), (2, n))
            gains = np.tanh(gains / max(np.sqrt((gains**2).mean()), LEAST))
            for step, gain in zip((-1, 1), gains):
                there = (told[0] + step >= 0) & (told[0] + step < chips)
                sample[there, told[0][there] + step] += gain[there]
        push = worth - chance * worth.sum(axis=-1, keepdims=True)
        preference += 0.5 * np.sqrt(samples) * push.mean(axis=0)
        best = max(best, float(np.exp(rewards.max())))
    return best


def learned_chromosome(
    graph: Any,
    advantage: Callable[[np.ndarray], Any],
    seed: int,
    updates: int = 100,
    samples: int = 50,
) -> float:
    """The least seconds of so many chromosomes, each entry drawn around a mean that moves."""
    instance = regal.Instance(graph)
    rng, work = np.random.default_rng(seed), make_workspace(instance)
    length, best = instance.chromosome_length, np.inf
    mean = np.full(length, 0.5)
    for _ in range(updates):
        noise = rng.normal(size=(samples, length))
        drawn = np.clip(mean + 0.3 * noise, 0, 1)
        costs = np.array([fitness_of(instance.arrays, one, work) for one in drawn])
        worth = credited(advantage(costs), (samples,))
        mean = np.clip(mean + 0.3 * (worth[:, None] * noise).mean(axis=0), 0, 1)
        best = min(best, float(costs.min()))
    return best
