"""Good schedules to imitate: what BRKGA makes of the laws of smooth vectors, and what a network's
own laws lead to.

An elite of a law stays near the vector it started from. Long searches from random schedules find
better ones, but two of them agree on devices hardly better than chance, and nothing can be learned
from that. A search that starts from the laws of a network that has learned a little finds better
schedules that still agree with it: learning goes on from those (the aggregation of data sets of
Ross, Gordon and Bagnell 2011).

Of an elite's order, pairs are learned: of two things that could be next, which one was. Where an op
stands says little, most of it follows from what came before. Transfers have no law of their own:
against them an op's priority is compared with a uniform one, which decides whether tensors are sent
early or late.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.regal.agent.features import Features
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import RUN_OP
from learned_mapping.regal.searches.brkga import MutantLaw, brkga
from learned_mapping.regal.searches.local_search import LocalSearchParameters, local_search
from learned_mapping.regal.searches.proposals import FREED_LATE, priority_law, spectral_law

ORIGINS = ("balanced_16_1", "balanced_4_1", "balanced_16_2", "eigenvector_2")
"""Vectors whose spectral laws make an elite each."""
STRENGTH = 3.0
ORDER_STRENGTH = 8.0
"""For peak memory their priorities follow the rule `proposals.FREED_LATE`."""


class Elites(NamedTuple):
    """K good schedules of an instance of N ops, best first."""

    devices: np.ndarray
    """[K, N] int8, 0 or 1; device 1 is where the vector is positive, so that all elites name
    devices alike."""
    orders: np.ndarray
    """[K, N + M d] int32, ops and transfers in the order they run, numbered as in `decode`; -1 past
    the end."""
    costs: np.ndarray  # [K] float64, seconds or bytes.


def find_elites(
    instance: Instance, laws: Sequence[MutantLaw], rng: np.random.Generator, *, evaluations: int
) -> Elites:
    """One elite for each law, such as those of `origin_laws`, on two devices; each gets so many
    evaluations."""
    samples = []
    for law in laws:
        budget = Budget(samples=evaluations)
        chromosome = brkga(instance, rng, budget, law=law)
        samples.append((budget.best, chromosome))
    return _elites(instance, samples)


def origin_laws(instance: Instance, seen: Features) -> list[MutantLaw]:
    """The law of each vector of `ORIGINS`, `seen` being the instance's features; for peak memory
    with an order too."""
    laws = [spectral_law(instance, seen, origin, STRENGTH) for origin in ORIGINS]
    if instance.objective != "memory":
        return laws
    return [priority_law(instance, FREED_LATE, ORDER_STRENGTH, law) for law in laws]


def own_elite(
    instance: Instance,
    law: MutantLaw,
    rng: np.random.Generator,
    *,
    evaluations: int,
    climb: LocalSearchParameters,
) -> Elites:
    """One elite of a network's own law, on two devices: BRKGA with it, then a climb from there with
    as many evaluations; devices named as the law prefers."""
    start = brkga(instance, rng, Budget(samples=evaluations), law=law)
    budget = Budget(samples=evaluations)
    chromosome = local_search(instance, rng, budget, parameters=climb, start=start)
    elite = _elites(instance, [(budget.best, chromosome)])
    n = instance.graph.num_ops
    mean = (law.alpha[: 2 * n] / (law.alpha[: 2 * n] + law.beta[: 2 * n])).reshape(n, 2)
    agreement = ((mean[:, 1] - mean[:, 0]) * (2.0 * elite.devices[0] - 1)).sum()
    return elite if agreement >= 0 else _renamed(instance, elite)


def _renamed(instance: Instance, elites: Elites) -> Elites:
    """The same schedules with both devices exchanged."""
    n = instance.graph.num_ops
    # A transfer's number is n + 2 tensor + target.
    orders = np.where(elites.orders >= n, n + ((elites.orders - n) ^ 1), elites.orders)
    return elites._replace(devices=1 - elites.devices, orders=orders)


def joined(one: Elites, other: Elites) -> Elites:
    """The elites of both, best first."""
    order = np.argsort(np.concatenate([one.costs, other.costs]), kind="stable")
    return Elites(*(np.concatenate(pair)[order] for pair in zip(one, other)))


def _elites(instance: Instance, samples: list[tuple[float, np.ndarray]]) -> Elites:
    """The schedules of chromosomes and their costs, best first."""
    rows = []
    n, d = instance.graph.num_ops, instance.machine.devices
    for cost, chromosome in samples:
        schedule = decode(instance, chromosome)
        what, target = schedule.order[:, 0].astype(np.int64), schedule.order[:, 1]
        order = np.full(n + instance.graph.num_tensors * d, -1)
        order[: len(what)] = np.where(target == RUN_OP, what, n + what * d + target)
        rows.append((cost, schedule.placement, order))
    rows.sort(key=lambda row: row[0])
    return Elites(
        np.array([row[1] for row in rows], np.int8),
        np.array([row[2] for row in rows], np.int32),
        np.array([row[0] for row in rows]),
    )


OTHERS = 4  # Ready ops and transfers that each is compared with, at most.
TRANSFER = -1  # Stands for any transfer in a pair.


@numba.njit(cache=True)
def _draw_pairs(a, rng, order, placement, waiting, first, second):
    """Fills first and second with pairs of items, those of two transfers left out; returns how
    many."""
    n, d, count, size = a.seconds.shape[0], a.devices, 0, 0
    items = n + a.tensor_bytes.shape[0] * d
    ready, where, known = (
        np.zeros(items, np.int64),
        np.zeros(items, np.int64),
        np.zeros(items, np.bool_),
    )
    for op in range(n):
        if waiting[op] == 0:
            ready[size], where[op] = op, size
            size += 1
    for item in order:
        size -= 1
        last = ready[size]
        ready[where[item]], where[last] = last, where[item]
        for _ in range(min(OTHERS, size)):
            other = ready[int(rng.random() * size)]
            if item < n or other < n:
                first[count] = item if item < n else TRANSFER
                second[count] = other if other < n else TRANSFER
                count += 1
        if item < n:
            begin, end, device = a.output_offsets[item], a.output_offsets[item + 1], placement[item]
        else:
            begin, end, device = 0, 1, (item - n) % d
        for j in range(begin, end):
            tensor = a.outputs[j] if item < n else (item - n) // d
            for k in range(a.consumer_offsets[tensor], a.consumer_offsets[tensor + 1]):
                op = a.consumers[k]
                if placement[op] == device:
                    waiting[op] -= 1
                    if waiting[op] == 0:
                        ready[size], where[op] = op, size
                        size += 1
                elif item < n:
                    transfer = n + tensor * d + placement[op]
                    if not known[transfer]:
                        ready[size], where[transfer], known[transfer] = transfer, size, True
                        size += 1
    return count


def draw_pairs(
    instance: Instance, placement: np.ndarray, order: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Pairs of items of a schedule that were ready at the same time, the one that was next in
    front.

    Args:
      placement, order: [N] of its ops; [S] items as `decode` numbers them, in the order they ran.
      rng: draws `OTHERS` ready items for each, or as many as there are.

    Returns:
      [P, 2] int64, ops or `TRANSFER`.
    """
    waiting = np.diff(instance.arrays.input_offsets).astype(np.int64)
    first, second = np.zeros(OTHERS * len(order), np.int64), np.zeros(OTHERS * len(order), np.int64)
    count = _draw_pairs(
        instance.arrays, rng, order.astype(np.int64), placement, waiting, first, second
    )
    return np.stack([first[:count], second[:count]], axis=1)
