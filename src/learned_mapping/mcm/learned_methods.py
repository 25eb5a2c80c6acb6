"""The methods that learn, by name, their like without a network, and one call for all methods of paper 2.

They stand apart from `mcm.methods` so that what rests on the methods that do not learn does not change with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipPackage, check_package
from learned_mapping.mcm import methods
from learned_mapping.mcm.methods import METHODS, SAMPLES, Method, Result, Task
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches.greedy import careful_greedy
from learned_mapping.programs.graph import ComputationGraph

SCRATCH, ZERO_SHOT, FINE_TUNED, RANDOM, CROSS_ENTROPY = "scratch", "zeroshot", "finetune", "random", "cem"


@dataclass(frozen=True)
class LearnedMethod:
    """One way to learn to partition, or to search over corrected costs."""

    description: str
    kind: str
    balanced: bool = False
    """Whether the policy over chips begins about the even cut (`searches.even_cut`) instead of uniformly."""


LEARNED_METHODS: dict[str, LearnedMethod] = {
    "rl": LearnedMethod("the paper's policy over chips, PPO from scratch", SCRATCH),
    "rl-balanced": LearnedMethod("the same, begun about the even cut of the model's costs", SCRATCH, True),
    "zeroshot-chips": LearnedMethod("the paper's policy, trained on other graphs, sampled as it is", ZERO_SHOT),
    "finetune-chips": LearnedMethod("the same, trained on other graphs, PPO goes on", FINE_TUNED),
    "random-weights": LearnedMethod("random corrections of the cost model", RANDOM),
    "cem-weights": LearnedMethod("cross-entropy search over corrections of the cost model", CROSS_ENTROPY),
}
"""By name, in the order of the tables."""
ALIASES = {"rl-chips": "rl"}
STARTS = ("greedy-careful",)


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
    start: str | None = None,
    profile: str = "full",
) -> Result:
    """Partitions `graph` by any method; arguments as in `methods.solve`.

    Args:
      start: ``greedy-careful`` gives any search that partition as its first sample; None nothing.
      profile: the size of a network that starts from scratch: quick, full or paper.

    Raises:
      InputError: an unknown method, start or profile, a budget or package that is unusable, no trained policy.
      TooManyIdealsError: as `methods.solve`.
    """
    limits = {"seed": seed, "seconds": seconds, "samples": samples, "cpu": cpu, "progress": progress}
    if start is not None and start not in STARTS:
        raise InputError("start", "", f"{start!r} is none of {', '.join(STARTS)}")
    known = all_methods(profile)
    if method not in known:
        raise InputError("method", "", f"no method is named {method!r}, known are {', '.join(known)}")
    if method in METHODS and (start is None or not METHODS[method].search):
        return methods.solve(graph, method, chips=chips, package=package, **limits)
    package = ChipPackage(chips=chips) if package is None else package
    check_package(package)
    if seconds is None and samples is None:
        samples = SAMPLES
    task, rng = Task(graph, package), np.random.default_rng(seed)
    budget = Budget(seconds=seconds, samples=samples, cpu=cpu, progress=progress)
    first = None
    if start is not None:
        first = careful_greedy(task.model)
        budget.record(task.model.throughput(first))
    assignment, found = known[method].run(task, rng, budget)
    if first is not None and task.model.throughput(assignment) < task.model.throughput(first):
        assignment = first
    partition = make_partition(assignment, package.chips)
    metrics = {"chips_used": float(partition.chips_used), "throughput": 0.0}
    if is_valid(partition.assignment, graph.op_edges):
        runtime = task.model.runtime(partition.assignment)
        metrics |= {"runtime_s": runtime, "throughput": 1.0 / runtime if runtime > 0 else 0.0}
    return Result(partition, metrics | found, budget.curve(), budget.samples, budget.seconds)


def all_methods(profile: str = "full") -> dict[str, Method]:
    """Every method by every name, those of `methods.METHODS` first, to run on any task.

    A task's model is both what a method knows and what judges its partitions; where `throughput` is measured, as that
    of `hardware.silicon.SiliconModel` is, a learner learns from measurements.
    """
    named = {name: LEARNED_METHODS[ALIASES.get(name, name)] for name in (*LEARNED_METHODS, *ALIASES)}
    return {**METHODS, **{name: Method(m.description, partial(_search, m, profile)) for name, m in named.items()}}


def _search(
    method: LearnedMethod, profile: str, task: Task, rng: np.random.Generator, budget: Budget
) -> tuple[np.ndarray, dict[str, float]]:
    """As `methods.Search`. What takes long to import is imported here."""
    from learned_mapping.mcm.agent.checkpoints import shipped
    from learned_mapping.mcm.agent.config import agent_config
    from learned_mapping.mcm.agent.ppo import fresh_optimiser, make_policy, new_learned
    from learned_mapping.mcm.agent.ppo import run as learn
    from learned_mapping.mcm.env import PartitionEnv
    from learned_mapping.mcm.searches.costs import cross_entropy, random_costs
    from learned_mapping.mcm.searches.even_cut import balanced_start

    if method.kind == RANDOM:
        return random_costs(task.model, rng, budget), {}
    if method.kind == CROSS_ENTROPY:
        return cross_entropy(task.model, rng, budget), {}
    env = PartitionEnv(task.model, task.arrays, balanced_start(task.model, task.arrays) if method.balanced else None)
    if method.kind == SCRATCH:
        policy = make_policy(agent_config(profile))
        learned = new_learned(policy, rng)
    else:
        config, parameters = shipped()
        policy, learned = make_policy(config), fresh_optimiser(config, parameters)
    return learn(policy, learned, env, rng, budget, learning=method.kind != ZERO_SHOT)[0], {}
