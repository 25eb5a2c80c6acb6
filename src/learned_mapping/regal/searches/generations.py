"""BRKGA generation by generation: the compiled steps of `brkga.brkga`, and what the population holds after each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.regal.rules.decode import decode, make_workspace
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.searches.brkga import BrkgaParameters, MutantLaw, _evolve, _start, tables_of

KEPT, DRAWN, CHILD = range(3)
"""Where a chromosome comes from: an elite of the generation before, the random laws, two parents."""
ORIGINS = ("kept", "drawn", "children")


@dataclass(frozen=True, eq=False)
class Generation:
    """A population of P chromosomes, E of them elites, for N ops."""

    number: int
    """From 0, the initial population."""
    evaluations: int
    """Chromosomes decoded so far."""
    fitness: np.ndarray
    """[P] float64, seconds or bytes."""
    origin: np.ndarray
    """[P] int8: `KEPT`, `DRAWN` or `CHILD`."""
    elite_devices: np.ndarray
    """[E, N] int8, device of each op in each elite, best first."""
    best: Schedule

    @property
    def best_fitness(self) -> float:
        return float(self.fitness.min())


def generations(
    instance: Instance,
    rng: np.random.Generator,
    count: int,
    *,
    parameters: BrkgaParameters | None = None,
    law: MutantLaw | None = None,
) -> list[Generation]:
    """The initial population and `count` generations; what `brkga` does with as many, from the same randomness.

    Args:
      instance: what to schedule.
      rng: the only source of randomness.
      count: generations after the initial population, at least 0.
      parameters, law: as in `brkga`.

    Raises:
      InputError: a negative count.
    """
    if count < 0:
        raise InputError("generations", "", f"at least 0, got {count}")
    parameters = BrkgaParameters() if parameters is None else parameters
    a, work, size = instance.arrays, make_workspace(instance), parameters.population
    tables = tables_of(law)
    lawful = round(parameters.mutants * law.mutant_share) if law is not None else 0
    shape = (parameters.elites, parameters.mutants, lawful)
    pool, fitness = np.zeros((2, size, instance.chromosome_length)), np.full((2, size), np.inf)
    ranks, now = np.zeros(size, np.int64), 0
    initial = tables.rows.shape[1] if law is not None and law.in_initial else 0
    _start(a, work, rng, pool, fitness, ranks, tables, initial, 0, size)
    origin = np.full(size, CHILD, np.int8)
    origin[: parameters.elites] = KEPT
    origin[parameters.elites : parameters.elites + parameters.mutants] = DRAWN
    found = []
    for number in range(count + 1):
        if number:
            now = _evolve(a, work, rng, pool, fitness, ranks, now, shape, parameters.bias, tables, np.zeros(1))
        elites = pool[now, ranks[: parameters.elites]]
        found.append(
            Generation(
                number=number,
                evaluations=size + number * (size - parameters.elites),
                fitness=fitness[now].copy(),
                origin=origin if number else np.full(size, DRAWN, np.int8),
                elite_devices=_devices(instance, elites),
                best=decode(instance, elites[0]),
            )
        )
    return found


def _devices(instance: Instance, chromosomes: np.ndarray) -> np.ndarray:
    """[E, N]: the device of the largest affinity, the first of equals."""
    n, d = instance.graph.num_ops, instance.pair.devices
    return chromosomes[:, : n * d].reshape(len(chromosomes), n, d).argmax(axis=2).astype(np.int8)
