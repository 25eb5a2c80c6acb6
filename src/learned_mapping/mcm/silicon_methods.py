"""Every way to partition, on silicon: all methods of the model, and those that cut evenly, judged by measurements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.silicon import Silicon, SiliconModel, silicon_package
from learned_mapping.mcm.learned_methods import all_methods
from learned_mapping.mcm.methods import SAMPLES, Method, Result, Task
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.searches.annealing import annealing_from_balance
from learned_mapping.mcm.searches.costs import class_search
from learned_mapping.mcm.searches.even_cut import balanced_search
from learned_mapping.mcm.silicon_check import validate_on_silicon
from learned_mapping.programs.graph import ComputationGraph

OWN_METHODS: dict[str, Method] = {
    "random-balanced": Method(
        "even cuts of random orders by perturbed costs",
        lambda task, rng, budget: (balanced_search(task.model, task.arrays, rng, budget), {}),
    ),
    "sa-balanced": Method(
        "simulated annealing that begins at the even cut of the model's costs",
        lambda task, rng, budget: (annealing_from_balance(task.model, task.arrays, rng, budget), {}),
    ),
    "class-search": Method(
        "cross-entropy search over a cost factor per class of ops, cut evenly",
        lambda task, rng, budget: (class_search(task.model, task.arrays, rng, budget), {}),
    ),
}
"""By name, what is for silicon alone."""


def silicon_methods(profile: str = "full") -> dict[str, Method]:
    """Every method by name; the profile is the size of a network that starts from scratch."""
    return {**all_methods(profile), **OWN_METHODS}


def solve_on_silicon(
    graph: ComputationGraph,
    method: str,
    *,
    chips: int = 36,
    seed: int = 0,
    seconds: float | None = None,
    samples: int | None = None,
    cpu: bool = False,
    progress: Callable[[int, float, float | None], None] | None = None,
    profile: str = "full",
) -> Result:
    """Partitions `graph` for the silicon; arguments and errors as in `learned_methods.solve`; samples are measured.

    The metrics are ``throughput``, without noise and 0 where the partition cannot run, ``chips_used``, and what the
    method adds. The curve is of measurements.
    """
    known = silicon_methods(profile)
    if method not in known:
        raise InputError("method", "", f"no method is named {method!r}, known are {', '.join(known)}")
    if seconds is None and samples is None:
        samples = SAMPLES
    task = Task(graph, silicon_package(chips))
    silicon = Silicon(graph, task.model.package)
    plan_seed, noise_seed = np.random.SeedSequence(seed).spawn(2)
    task.model = SiliconModel(silicon, np.random.default_rng(noise_seed))
    budget = Budget(seconds=seconds, samples=samples, cpu=cpu, progress=progress)
    assignment, found = known[method].run(task, np.random.default_rng(plan_seed), budget)
    partition = make_partition(assignment, chips)
    costs = validate_on_silicon(partition, silicon).costs
    metrics = {"throughput": costs.get("silicon_throughput", 0.0), "chips_used": float(partition.chips_used)}
    return Result(partition, metrics | found, budget.curve(), budget.samples, budget.seconds)
