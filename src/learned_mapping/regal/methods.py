"""Every way to schedule a graph, by name, behind one call: `solve`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.device_pair import simulate
from learned_mapping.regal.bounds.cp_sat import cp_sat
from learned_mapping.regal.learned_methods import (
    LEARNED,
    best_constant_law,
    best_priority_law,
    best_spectral_law,
    fiedler_law,
    with_law,
)
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.searches.brkga import TUNED_BRKGA, brkga
from learned_mapping.regal.searches.list_schedule import gp_dfs, gp_list, list_scheduler
from learned_mapping.regal.searches.local_search import TUNED_LOCAL_SEARCH, local_search, random_search

EVALUATIONS = 5000
"""Cost-model evaluations every search gets unless told otherwise (REGAL, Section 3.2)."""
CP_SAT_DETERMINISTIC = 3.0
"""The solver's limit without one in seconds, in its own units of work: some ten seconds, the same result everywhere."""


@dataclass(frozen=True)
class Result:
    """A schedule and how it came about."""

    solution: Schedule
    metrics: dict[str, float]
    """``makespan_s`` and ``peak_bytes`` by the simulator; ``bound`` and ``optimal`` where the method proves any."""
    curve: dict[str, Any]
    """The best fitness over time and samples, as `Budget.curve` gives it."""
    samples: int
    """Cost-model evaluations."""
    seconds: float


Search = Callable[[Instance, np.random.Generator, Budget], tuple[Schedule, dict[str, float]]]
"""(instance, randomness, budget) -> the schedule and what more was found out, such as a bound."""


@dataclass(frozen=True)
class Method:
    """One way to schedule."""

    description: str
    run: Search = field(repr=False)
    search: bool = True
    """Whether more budget gives a better schedule; a rule needs one pass."""


def _brkga(instance: Instance, rng: np.random.Generator, budget: Budget):
    return decode(instance, brkga(instance, rng, budget)), {}


def _brkga_tuned(instance: Instance, rng: np.random.Generator, budget: Budget):
    return decode(instance, brkga(instance, rng, budget, parameters=TUNED_BRKGA[instance.objective])), {}


def _local_search(instance: Instance, rng: np.random.Generator, budget: Budget):
    parameters = TUNED_LOCAL_SEARCH[instance.objective]
    return decode(instance, local_search(instance, rng, budget, parameters=parameters)), {}


def _random(instance: Instance, rng: np.random.Generator, budget: Budget):
    return decode(instance, random_search(instance, rng, budget)), {}


def _rule(rule: Callable[[Instance, np.random.Generator], Schedule]) -> Search:
    def run(instance: Instance, rng: np.random.Generator, budget: Budget):
        schedule = rule(instance, rng)
        budget.record(schedule_fitness(instance, schedule), better=float.__lt__)
        return schedule, {}

    return run


def _cp_sat(instance: Instance, rng: np.random.Generator, budget: Budget):
    """Searches take the samples, and a quarter of the seconds; the solver starts from their best."""
    seconds = None if budget.limit_s is None else budget.limit_s / 8
    starts = []
    for search in (_brkga, _local_search):
        share = Budget(seconds=seconds, samples=max(1, (budget.limit_samples or EVALUATIONS) // 2))
        starts.append(search(instance, rng, share)[0])
        budget.record(schedule_fitness(instance, starts[-1]), share.samples, better=float.__lt__)
    for rule in (gp_dfs, gp_list):
        starts.append(rule(instance, rng))
        budget.record(schedule_fitness(instance, starts[-1]), better=float.__lt__)
    best = min(starts, key=lambda schedule: schedule_fitness(instance, schedule))
    left = None if budget.limit_s is None else max(budget.limit_s - budget.seconds, 0.1)
    deterministic = CP_SAT_DETERMINISTIC if left is None else 1e9
    seed = int(rng.integers(2**31))
    found = cp_sat(instance, seconds=left, deterministic_time=deterministic, seed=seed, start=best)
    if found.schedule is not None and budget.record(schedule_fitness(instance, found.schedule), better=float.__lt__):
        best = found.schedule
    # The model knows no memory limit: where it forbids the optimum, the bound stays and the proof does not.
    proven = found.optimal and schedule_fitness(instance, best) <= found.cost * (1 + 1e-9)
    return best, {"bound": found.bound, "optimal": float(proven)}


METHODS: dict[str, Method] = {
    "brkga": Method("biased random-key genetic algorithm, uniform mutants (BRKGA 5k)", _brkga),
    "brkga-tuned": Method("the same with parameters from a grid search on training graphs", _brkga_tuned),
    "local-search": Method("hill climbing from a random solution over devices and priorities", _local_search),
    "random": Method("the best of random chromosomes", _random),
    "gp-dfs": Method("graph partitioning, then depth-first order", _rule(gp_dfs), search=False),
    "gp-list": Method("graph partitioning, then critical-path order", _rule(gp_list), search=False),
    "list-scheduler": Method(
        "critical-path list scheduling; for memory, least growth",
        _rule(lambda instance, rng: list_scheduler(instance)),
        search=False,
    ),
    "cp-sat": Method("constraint programming, started from the best of the others", _cp_sat),
    "constant-law": Method(
        "BRKGA with one Beta law for all graphs, the best on training graphs", with_law(best_constant_law)
    ),
    "fiedler-law": Method("BRKGA biased to halves along the Fiedler vector", with_law(fiedler_law)),
    "spectral-law": Method(
        "BRKGA biased to halves of the best smooth vector on training graphs", with_law(best_spectral_law)
    ),
    "priority-law": Method(
        "BRKGA whose priorities follow the best rule on training graphs: bytes freed, or longest path",
        with_law(best_priority_law),
    ),
} | {name: Method(description, make()) for name, (description, make) in LEARNED.items()}
"""By name, in the order of the tables. Those of `LEARNED` exist for one network too: ``regal:NETWORK``."""


def find_method(name: str) -> Method:
    """A method of `METHODS`, or one of `LEARNED` with the network named after a colon.

    Raises:
      InputError: there is none; the message lists those there are.
    """
    if name in METHODS:
        return METHODS[name]
    base, colon, network = name.partition(":")
    if colon and base in LEARNED:
        description, make = LEARNED[base]
        return Method(f"{description}; network {network}", make(network))
    raise InputError("method", "", f"no method is named {name!r}, known are {', '.join(METHODS)}")


def solve(
    instance: Instance,
    method: str,
    *,
    seed: int = 0,
    seconds: float | None = None,
    samples: int | None = None,
    cpu: bool = False,
    progress: Callable[[int, float, float | None], None] | None = None,
) -> Result:
    """Schedules `instance`.

    Args:
      instance: graph, devices and objective.
      method: as in `find_method`.
      seed: decides every random choice.
      seconds, samples: the budget; `EVALUATIONS` samples where both are None.
      cpu, progress: as in `Budget`.

    Raises:
      InputError: an unknown method (the message lists those there are), or a bad budget.
    """
    chosen = find_method(method)
    if seconds is None and samples is None:
        samples = EVALUATIONS
    budget = Budget(seconds=seconds, samples=samples, cpu=cpu, progress=progress)
    schedule, found = chosen.run(instance, np.random.default_rng(seed), budget)
    metrics = schedule_costs(instance, schedule) | found
    return Result(schedule, metrics, budget.curve(), budget.samples, budget.seconds)


def schedule_costs(instance: Instance, schedule: Schedule) -> dict[str, float]:
    """``makespan_s`` (seconds) and ``peak_bytes`` of a schedule, by the simulator."""
    simulation = simulate(instance.graph, schedule.placement, schedule.order.tolist(), instance.pair)
    return {"makespan_s": simulation.makespan_s, "peak_bytes": float(simulation.peak_bytes)}


def schedule_fitness(instance: Instance, schedule: Schedule) -> float:
    """What the searches minimise, as `Instance.fitness`, of a schedule."""
    costs = schedule_costs(instance, schedule)
    return instance.fitness(costs["makespan_s"], costs["peak_bytes"])
