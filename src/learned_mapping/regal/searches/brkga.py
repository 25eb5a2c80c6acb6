"""A biased random-key genetic algorithm with its own Beta law for every entry of a mutant (REGAL,
Section 2.2, A.2).

A generation: the best `elites` chromosomes stay; `mutants` new ones are drawn; the rest are
children of one elite and one other chromosome, each entry taken from the elite with probability
`bias`. All is compiled, decoder included.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.regal.rules.decode import Workspace, fitness_of, make_workspace
from learned_mapping.regal.rules.instance import Arrays, Instance
from learned_mapping.regal.searches.random_numbers import Tables, cross, draw, tabulate, uniform


@dataclass(frozen=True)
class BrkgaParameters:
    """The paper prints none of these (Appendix A.2 calls its use standard); the defaults are a
    common choice."""

    population: int = 100  # Chromosomes in a generation.
    elite_fraction: float = 0.2  # Best share, which lives on.
    mutant_fraction: float = 0.15  # Share drawn anew.
    bias: float = 0.7  # Probability that a child takes an entry from its elite parent.

    def __post_init__(self):
        if self.population < 3:
            raise InputError("brkga", "population", f"at least 3, got {self.population}")
        for name in ("elite_fraction", "mutant_fraction", "bias"):
            if not 0 < getattr(self, name) < 1:
                raise InputError("brkga", name, f"{getattr(self, name)} is outside (0, 1)")
        if self.elites + self.mutants >= self.population:
            raise InputError(
                "brkga", "mutant_fraction", "elites and mutants leave no room for children"
            )

    @property
    def elites(self) -> int:
        return max(1, round(self.population * self.elite_fraction))

    @property
    def mutants(self) -> int:
        return max(1, round(self.population * self.mutant_fraction))


TUNED_BRKGA = {
    "runtime": BrkgaParameters(population=100, elite_fraction=0.2, mutant_fraction=0.05, bias=0.7),
    "memory": BrkgaParameters(population=100, elite_fraction=0.2, mutant_fraction=0.02, bias=0.6),
}
"""Parameters by objective, chosen on training graphs alone; `data/regal/tuning.json` is the
record."""


@dataclass(frozen=True)
class MutantLaw:
    """Beta(alpha_i, beta_i) for entry i of the chromosomes drawn at random, and which of them it
    feeds.

    The paper learns laws for affinities and op priorities and feeds them to the mutants; transfer
    priorities stay uniform (Section 2.2, Appendix A.2).
    """

    alpha: np.ndarray
    """[L] float64 above 0; the first L entries of a chromosome follow the law, the others are
    uniform."""
    beta: np.ndarray  # [L] float64 above 0.
    in_initial: bool = True  # Whether the initial population is drawn from the law too.
    mutant_share: float = 1.0  # Share of the mutants drawn from the law; the others are uniform.
    turns: tuple[float, ...] = (1.0,)
    """Factors on how far alpha and beta are from 1, which the chromosomes drawn take in turn: a law
    that is now weak and now strong serves graphs it suits little and much."""

    def __post_init__(self):
        for name in ("alpha", "beta"):
            values = np.asarray(getattr(self, name))
            if values.ndim != 1 or not np.all(np.isfinite(values) & (values > 0)):
                raise InputError("law", name, "expected a vector of finite numbers above 0")
        if len(self.alpha) != len(self.beta):
            raise InputError(
                "law", "beta", f"{len(self.beta)} entries, alpha has {len(self.alpha)}"
            )
        if not 0 <= self.mutant_share <= 1:
            raise InputError("law", "mutant_share", f"{self.mutant_share} is outside [0, 1]")
        if not self.turns or not all(np.isfinite(turn) and turn >= 0 for turn in self.turns):
            raise InputError(
                "law", "turns", f"expected finite factors of at least 0, got {self.turns}"
            )
        if not (self.by_turn("alpha") > 0).all() or not (self.by_turn("beta") > 0).all():
            raise InputError("law", "turns", f"{self.turns} take alpha or beta to 0 or below")

    def by_turn(self, name: str) -> np.ndarray:
        """[K, L] ``alpha`` or ``beta`` as each of the K turns has it."""
        values = np.asarray(getattr(self, name), np.float64)
        return np.array([values if turn == 1 else 1 + turn * (values - 1) for turn in self.turns])


def tables_of(law: MutantLaw | None) -> Tables:
    """The tables to draw chromosomes by; nothing but uniform numbers where there is no law."""
    if law is None:
        return tabulate(np.zeros((1, 0)), np.zeros((1, 0)))
    return tabulate(law.by_turn("alpha"), law.by_turn("beta"))


class Population(NamedTuple):
    """P chromosomes of L entries in two buffers taken in turn, for compiled code."""

    chromosomes: np.ndarray  # [2, P, L] float64
    fitness: np.ndarray  # [2, P] float64, seconds or bytes
    # [P] int64: sorts the present buffer, best first and the earlier first among equals
    ranks: np.ndarray
    present: int  # The buffer of this generation

    def ranked(self, count: int) -> np.ndarray:
        """[count, L], a copy of the best chromosomes."""
        return self.chromosomes[self.present, self.ranks[:count]]


class Shares(NamedTuple):
    """The make-up of a generation."""

    elites: int
    mutants: int
    lawful: int  # Mutants drawn from the law
    bias: float


@numba.njit(cache=True)
def draw_and_score(a: Arrays, work: Workspace, rng, chromosomes, fitness, tables: Tables, entries):
    """Draws chromosomes [M, L], `entries` of each by the tables in turn, and scores them."""
    for row in range(len(chromosomes)):
        draw(chromosomes[row], rng, tables, row % len(tables.rows), entries)
        fitness[row] = fitness_of(a, chromosomes[row], work)


@numba.njit(cache=True)
def begin_on_one_device(a: Arrays, work: Workspace, chromosomes, fitness):
    """Where links cost, the first chromosome [0] of a population gets all its ops on the fastest
    device: no other placement is known to be worth its transfers."""
    if not a.costly_links:
        return
    fastest, least = 0, np.inf
    for device in range(a.devices):
        total = a.device_seconds[:, device].sum()
        if total < least:
            fastest, least = device, total
    for op in range(a.seconds.shape[0]):
        for device in range(a.devices):
            chromosomes[0, op * a.devices + device] = 1.0 if device == fastest else 0.0
    fitness[0] = fitness_of(a, chromosomes[0], work)


@numba.njit(cache=True)
def _evolve(
    a: Arrays, work: Workspace, rng, population: Population, shares: Shares, tables: Tables, best
):
    """Runs one generation per entry of `best`, which receives the best fitness; returns the buffer
    of the last one.

    The laws of `tables` are taken in turn in every generation.
    """
    fitness, ranks, now, elites = (
        population.fitness,
        population.ranks,
        population.present,
        shares.elites,
    )
    size = population.chromosomes.shape[1]
    for generation in range(len(best)):
        old, new = population.chromosomes[now], population.chromosomes[1 - now]
        for row in range(size):
            if row < elites:
                new[row] = old[ranks[row]]
                fitness[1 - now, row] = fitness[now, ranks[row]]
                continue
            child = new[row]
            if row < elites + shares.mutants:
                entries = tables.rows.shape[1] if row < elites + shares.lawful else 0
                draw(child, rng, tables, (row - elites) % len(tables.rows), entries)
            else:
                elite = old[ranks[int(uniform(rng) * elites)]]
                other = old[ranks[elites + int(uniform(rng) * (size - elites))]]
                cross(child, elite, other, rng, shares.bias)
            fitness[1 - now, row] = fitness_of(a, child, work)
        now = 1 - now
        ranks[:] = np.argsort(fitness[now], kind="mergesort")
        best[generation] = fitness[now, ranks[0]]
    return now


def populations(
    instance: Instance,
    rng: np.random.Generator,
    parameters: BrkgaParameters,
    law: MutantLaw | None = None,
    scored: int | None = None,
) -> Generator[tuple[Population, np.ndarray], int, None]:
    """The initial population, then one after as many generations as are sent each time.

    Args:
      instance, rng, parameters, law: as in `brkga`.
      scored: only so many of the initial population are drawn and scored; all where None.

    Yields:
      The population, whose arrays the next one overwrites, and [G] the best fitness of each
      generation since the last.
    """
    a, work, length, size = (
        instance.arrays,
        make_workspace(instance),
        instance.chromosome_length,
        parameters.population,
    )
    tables = tables_of(law)
    entries = tables.rows.shape[1]
    if entries > length:
        raise InputError("law", "alpha", f"{entries} entries, a chromosome has {length}")
    lawful = round(parameters.mutants * law.mutant_share) if law is not None else 0
    shares = Shares(parameters.elites, parameters.mutants, lawful, parameters.bias)
    now = Population(
        np.zeros((2, size, length)), np.full((2, size), np.inf), np.zeros(size, np.int64), 0
    )
    initial = entries if law is not None and law.in_initial else 0
    draw_and_score(
        a, work, rng, now.chromosomes[0, :scored], now.fitness[0, :scored], tables, initial
    )
    begin_on_one_device(a, work, now.chromosomes[0], now.fitness[0])
    now.ranks[:] = np.argsort(now.fitness[0], kind="mergesort")
    best = now.fitness[0, now.ranks[:1]]
    while True:
        best = np.zeros((yield now, best))
        now = now._replace(present=_evolve(a, work, rng, now, shares, tables, best))


def brkga(
    instance: Instance,
    rng: np.random.Generator,
    budget: Budget,
    *,
    parameters: BrkgaParameters = BrkgaParameters(),
    law: MutantLaw | None = None,
) -> np.ndarray:
    """The best chromosome found; one sample of the budget is one decoded and simulated chromosome.

    Args:
      budget: when to stop; in samples, whole generations that fit are run. Records the fitness of
        every generation.
      law: Beta laws of the random chromosomes; uniform where None.

    Returns:
      [L] float64, the best chromosome.
    """
    size, fresh = parameters.population, parameters.population - parameters.elites
    scored = (
        size if budget.remaining_samples is None else max(1, min(size, budget.remaining_samples))
    )
    evolution = populations(instance, rng, parameters, law, scored)
    now, best = next(evolution)
    budget.record(best[0], scored, better=float.__lt__)

    def evolve(least: float, values: np.ndarray) -> None:
        nonlocal now
        now, values[:] = evolution.send(len(values))

    in_chunks(budget, best[0], evolve, samples=fresh, sizes=(1, 1000))
    return now.ranked(1)[0]


def in_chunks(
    budget: Budget,
    least: float,
    run: Callable[[float, np.ndarray], object],
    *,
    samples: int = 1,
    sizes: tuple[int, int] = (10, 100_000),
) -> None:
    """Calls ``run(least, values)``, which fills in the least fitness after each of so many steps,
    until the budget is spent; a step is so many `samples`. Chunks last about a twentieth of a
    second: short against any limit in seconds, long against a call."""
    chunk = sizes[0]
    while not budget.spent():
        left, before = budget.remaining_samples, budget.seconds
        values = np.zeros(chunk if left is None else min(chunk, left // samples))
        if not len(values):
            break
        run(least, values)
        least = values[-1]
        for value in values:
            budget.record(value, samples, better=float.__lt__)
        chunk = max(
            sizes[0], min(sizes[1], int(len(values) * 0.05 / max(budget.seconds - before, 1e-6)))
        )
