"""BRKGA generation by generation, as the step-through shows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.searches.brkga import BrkgaParameters, MutantLaw, populations

KEPT, DRAWN, CHILD = range(3)
"""Where a chromosome comes from: an elite of the generation before, the random laws, two parents."""
ORIGINS = ("kept", "drawn", "children")


@dataclass(frozen=True, eq=False)
class Generation:
    """What a population of P chromosomes, E of them elites, holds for N ops."""

    number: int
    """From 0, the initial population."""
    evaluations: int
    """Chromosomes decoded so far."""
    fitness: np.ndarray
    """[P] float64, seconds or bytes."""
    origin: np.ndarray
    """[P] int8: `KEPT`, `DRAWN` or `CHILD`."""
    elite_devices: np.ndarray
    """[E, N] int64, device of each op in each elite, best first."""
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
      instance, rng, parameters, law: as in `brkga`.
      count: generations after the initial population, at least 0.

    Raises:
      InputError: a negative count.
    """
    if count < 0:
        raise InputError("generations", "", f"at least 0, got {count}")
    parameters = BrkgaParameters() if parameters is None else parameters
    n, d, size, elites = instance.graph.num_ops, instance.pair.devices, parameters.population, parameters.elites
    origin = np.repeat(np.int8([KEPT, DRAWN, CHILD]), [elites, parameters.mutants, size - elites - parameters.mutants])
    evolution, found = populations(instance, rng, parameters, law), []
    for number in range(count + 1):
        now, _ = evolution.send(1) if number else next(evolution)
        ranked = now.ranked(elites)
        devices = ranked[:, : n * d].reshape(elites, n, d).argmax(axis=2)
        made = origin if number else np.full(size, DRAWN, np.int8)
        evaluations = size + number * (size - elites)
        fitness = now.fitness[now.present].copy()
        found.append(Generation(number, evaluations, fitness, made, devices, decode(instance, ranked[0])))
    return found
