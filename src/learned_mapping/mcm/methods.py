"""Every way to partition a graph, by name, behind one call: `solve`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage, check_package
from learned_mapping.mcm.bounds.cp_sat import fastest_partition
from learned_mapping.mcm.bounds.optimum import lower_bound, optimum
from learned_mapping.mcm.partition import Partition, make_partition
from learned_mapping.mcm.repair.engine import repair_arrays
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches.annealing import annealing
from learned_mapping.mcm.searches.greedy import careful_greedy, naive_greedy
from learned_mapping.mcm.searches.random_search import random_search, unconstrained_search
from learned_mapping.programs.graph import ComputationGraph

SAMPLES = 1000
"""Partitions every search may evaluate unless told otherwise."""


@dataclass(frozen=True)
class Result:
    """A partition and how it came about."""

    solution: Partition
    metrics: dict[str, float]
    """``throughput`` (results per second; 0 where invalid), ``runtime_s``, ``chips_used``, and what the method adds."""
    curve: dict[str, Any]
    """The best throughput over time and samples, as `Budget.curve` gives it."""
    samples: int
    """Partitions evaluated."""
    seconds: float


class Task:
    """A graph on a package, with what the methods share."""

    def __init__(self, graph: ComputationGraph, package: ChipPackage):
        self.graph, self.model = graph, ChipModel(graph, package)

    @cached_property
    def arrays(self) -> RepairArrays:
        return repair_arrays(self.graph)


Search = Callable[[Task, np.random.Generator, Budget], tuple[np.ndarray, dict[str, float]]]
"""(task, randomness, budget) -> [N] chips, and what more was found out, such as a bound in seconds."""


@dataclass(frozen=True)
class Method:
    """One way to partition."""

    description: str
    run: Search = field(repr=False)
    search: bool = True
    """Whether more budget gives a better partition; a rule needs one pass."""


def _rule(rule: Callable[[Task], np.ndarray]) -> Search:
    def run(task: Task, rng: np.random.Generator, budget: Budget):
        assignment = rule(task)
        budget.record(task.model.throughput(assignment))
        return assignment, {}

    return run


def _optimum(task: Task, rng: np.random.Generator, budget: Budget):
    assignment = optimum(task.model)
    budget.record(task.model.throughput(assignment))
    return assignment, {"bound_s": lower_bound(task.model)}


def _cp_sat(task: Task, rng: np.random.Generator, budget: Budget):
    start = careful_greedy(task.model)
    budget.record(task.model.throughput(start))
    left = None if budget.limit_s is None else max(budget.limit_s - budget.seconds, 0.1)
    found = fastest_partition(task.model, seconds=left, seed=int(rng.integers(2**31)), start=start)
    extra = {"bound_s": max(found.bound, 0.0), "optimal": float(found.optimal)}
    if found.assignment is not None and budget.record(task.model.throughput(found.assignment)):
        return found.assignment, extra
    return start, extra


def _unconstrained(task: Task, rng: np.random.Generator, budget: Budget):
    assignment, valid = unconstrained_search(task.model, rng, budget)
    return assignment, {"valid": float(valid)}


METHODS: dict[str, Method] = {
    "greedy-naive": Method(
        "fills chip after chip up to an equal share; the rest goes to the last",
        _rule(lambda task: naive_greedy(task.model, task.arrays)),
        search=False,
    ),
    "greedy-careful": Method(
        "the smallest cap, by bisection, under which filling in as-late-as-possible order succeeds",
        _rule(lambda task: careful_greedy(task.model)),
        search=False,
    ),
    "optimum": Method("exact under the chain rule: dynamic programming over ideals", _optimum, search=False),
    "cp-sat": Method("constraint programming under the chain rule, started from the careful greedy", _cp_sat),
    "random": Method(
        "uniform distributions, repaired by SAMPLE",
        lambda task, rng, budget: (random_search(task.model, task.arrays, rng, budget), {}),
    ),
    "sa": Method(
        "simulated annealing over the distributions, repaired by SAMPLE",
        lambda task, rng, budget: (annealing(task.model, task.arrays, rng, budget), {}),
    ),
    "unconstrained": Method("uniform random chips without a solver; invalid ones are worth nothing", _unconstrained),
}
"""By name, in the order of the tables."""


def solve(
    graph: ComputationGraph,
    method: str,
    *,
    chips: int = 36,
    package: ChipPackage | None = None,
    seed: int = 0,
    seconds: float | None = None,
    samples: int | None = None,
    cpu: bool = False,
    progress: Callable[[int, float, float | None], None] | None = None,
) -> Result:
    """Partitions `graph` as it is; `fold.fold_cheap_sources` first, where cheap tensors are used everywhere.

    Args:
      graph: what to partition.
      method: a key of `METHODS`.
      chips: C, on the default package.
      package: the chips; overrides `chips`.
      seed: decides every random choice.
      seconds, samples: the budget; `SAMPLES` samples where both are None.
      cpu, progress: as in `Budget`.

    Raises:
      InputError: an unknown method (the message lists those there are), a bad budget or package.
      TooManyIdealsError: method ``optimum`` on a graph too wide for it.
    """
    if method not in METHODS:
        raise InputError("method", "", f"no method is named {method!r}, known are {', '.join(METHODS)}")
    package = ChipPackage(chips=chips) if package is None else package
    check_package(package)
    if seconds is None and samples is None:
        samples = SAMPLES
    budget = Budget(seconds=seconds, samples=samples, cpu=cpu, progress=progress)
    task = Task(graph, package)
    assignment, found = METHODS[method].run(task, np.random.default_rng(seed), budget)
    partition = make_partition(assignment, package.chips)
    metrics = {"chips_used": float(partition.chips_used), "throughput": 0.0}
    if is_valid(partition.assignment, graph.op_edges):
        runtime = task.model.runtime(partition.assignment)
        metrics |= {"runtime_s": runtime, "throughput": 1.0 / runtime if runtime > 0 else 0.0}
    return Result(partition, metrics | found, budget.curve(), budget.samples, budget.seconds)
