"""Random search and local search over chromosomes, compiled, with the decoder BRKGA uses (REGAL,
Section 3.2)."""

from dataclasses import dataclass, replace

import numba
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.regal.rules.decode import (
    Workspace,
    device_of,
    encode,
    fitness_of,
    make_workspace,
)
from learned_mapping.regal.rules.instance import Arrays, Instance
from learned_mapping.regal.searches.brkga import MutantLaw, in_chunks, tables_of
from learned_mapping.regal.searches.list_schedule import list_scheduler
from learned_mapping.regal.searches.random_numbers import Tables, draw


@dataclass(frozen=True)
class LocalSearchParameters:
    """The way to draw neighbours. The paper says only that it "starts with a random solution and
    greedily improves"."""

    device_share: float = 0.3  # Probability of a move that sends one op to another device.
    cluster_share: float = 0.3
    """Probability of a move that sends an op and some of its neighbourhood to one device; the rest
    of the moves redraw the priority of one op or transfer."""
    # Most ops of a cluster move; the size is drawn log-uniformly from 2 to this.
    cluster_ops: int = 32

    def __post_init__(self):
        if not (
            self.device_share >= 0
            and self.cluster_share >= 0
            and self.device_share + self.cluster_share <= 1
        ):
            fault = "the shares of moves must be at least 0, at most 1 together"
            raise InputError("local-search", "device_share", fault)
        if self.cluster_ops < 2:
            raise InputError("local-search", "cluster_ops", f"at least 2, got {self.cluster_ops}")


TUNED_LOCAL_SEARCH = {
    "runtime": LocalSearchParameters(device_share=0.05, cluster_share=0.4, cluster_ops=128),
    "memory": LocalSearchParameters(device_share=0.3, cluster_share=0.2, cluster_ops=512),
}
"""Tuned parameters, as `brkga.TUNED_BRKGA`, for the mix of moves."""


@numba.njit(cache=True)
def _sample(a: Arrays, work: Workspace, rng, best, trial, fitness, tables: Tables, drawn, values):
    """Scores one chromosome drawn by the tables per entry of `values`, which receives the best so
    far; returns it.

    The laws of `tables` are taken in turn, `drawn` chromosomes having been drawn before.
    """
    for sample in range(len(values)):
        draw(trial, rng, tables, (drawn + sample) % len(tables.rows), tables.rows.shape[1])
        trial_fitness = fitness_of(a, trial, work)
        if trial_fitness < fitness:
            fitness = trial_fitness
            best[:] = trial
        values[sample] = fitness
    return fitness


@numba.njit(cache=True)
def _neighbour(a: Arrays, rng, op):
    """An op that shares a tensor with `op`, drawn at random: one producing its input or one using
    its output."""
    inputs = a.input_offsets[op + 1] - a.input_offsets[op]
    outputs = a.output_offsets[op + 1] - a.output_offsets[op]
    pick = int(rng.random() * (inputs + outputs))
    if pick < inputs:
        return a.tensor_producer[a.inputs[a.input_offsets[op] + pick]]
    if outputs > 0:
        tensor = a.outputs[a.output_offsets[op] + pick - inputs]
        users = a.consumer_offsets[tensor + 1] - a.consumer_offsets[tensor]
        if users > 0:
            return a.consumers[a.consumer_offsets[tensor] + int(rng.random() * users)]
    return op


@numba.njit(cache=True)
def _item(chromosome, a: Arrays, rng, op):
    """A random op or transfer; `op` instead of a transfer the placement has no need for, which
    would change nothing."""
    n, d, m = a.seconds.shape[0], a.devices, a.tensor_bytes.shape[0]
    tensor = int(rng.random() * (n + m)) - n
    if tensor < 0:
        return op
    target = int(rng.random() * d)
    if device_of(chromosome, a.tensor_producer[tensor], d) != target:
        for j in range(a.consumer_offsets[tensor], a.consumer_offsets[tensor + 1]):
            if device_of(chromosome, a.consumers[j], d) == target:
                return n + tensor * d + target
    return op


@numba.njit(cache=True)
def _climb(
    a: Arrays,
    work: Workspace,
    rng,
    chromosome,
    fitness,
    device_share,
    cluster_share,
    cluster_ops,
    values,
):
    """Tries one neighbour per entry of `values`, keeps those no worse; returns the fitness."""
    n, d = a.seconds.shape[0], a.devices
    changed, old = np.zeros(cluster_ops * d + 1, np.int64), np.zeros(cluster_ops * d + 1)
    for sample in range(len(values)):
        kind, count = rng.random(), 0
        op = int(rng.random() * n)
        if kind < device_share + cluster_share and d > 1:
            device = (device_of(chromosome, op, d) + 1 + int(rng.random() * (d - 1))) % d
            size = 1 if kind < device_share else int(2.0 * (cluster_ops / 2.0) ** rng.random())
            for _ in range(size):
                for k in range(d):  # noting what is overwritten
                    changed[count], old[count] = op * d + k, chromosome[op * d + k]
                    chromosome[op * d + k] = 1.0 if k == device else 0.0
                    count += 1
                if kind >= device_share:
                    op = _neighbour(a, rng, op)
        else:
            item = _item(chromosome, a, rng, op)
            changed[0], old[0], count = n * d + item, chromosome[n * d + item], 1
            chromosome[n * d + item] = rng.random()
        new_fitness = fitness_of(a, chromosome, work)
        if new_fitness <= fitness:
            fitness = new_fitness
        else:
            for i in range(count - 1, -1, -1):
                chromosome[changed[i]] = old[i]
        values[sample] = fitness
    return fitness


def random_search(
    instance: Instance, rng: np.random.Generator, budget: Budget, law: MutantLaw | None = None
) -> np.ndarray:
    """The best of random chromosomes; one sample of the budget is one of them. Returns [L] float64.

    Uniform ones, or drawn from `law`: instance-dependent random search (REGAL, Section 3.2,
      baseline 6).
    """
    a, work, tables = instance.arrays, make_workspace(instance), tables_of(law)
    best, trial = np.zeros((2, instance.chromosome_length))

    def sample(least: float, values: np.ndarray) -> None:
        _sample(a, work, rng, best, trial, least, tables, budget.samples, values)

    in_chunks(budget, np.inf, sample)
    return best


def local_search(
    instance: Instance,
    rng: np.random.Generator,
    budget: Budget,
    *,
    parameters: LocalSearchParameters = LocalSearchParameters(),
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Hill climbing that keeps every neighbour no worse; one sample of the budget is one neighbour
    tried.

    Args:
      parameters: how neighbours are drawn.
      start: [L] the first chromosome; random where None.

    Returns:
      [L] float64, the last chromosome, which is the best.
    """
    p, a, work = parameters, instance.arrays, make_workspace(instance)
    chromosome = (
        rng.random(instance.chromosome_length) if start is None else np.array(start, np.float64)
    )
    fitness = fitness_of(a, chromosome, work)
    budget.record(fitness, better=float.__lt__)

    def climb(least: float, values: np.ndarray) -> None:
        _climb(
            a, work, rng, chromosome, least, p.device_share, p.cluster_share, p.cluster_ops, values
        )

    in_chunks(budget, fitness, climb)
    return chromosome


def least_memory(instance: Instance) -> np.ndarray:
    """[L] float64, the chromosome of the list scheduler's schedule for memory."""
    memory = replace(instance, objective="memory")
    return encode(memory, list_scheduler(memory))
