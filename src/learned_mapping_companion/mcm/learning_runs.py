"""Runs of paper 2's learning experiments: one method on one graph, judged by the independent
validator."""

from functools import lru_cache

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.hardware.silicon import silicon_package
from learned_mapping.mcm.agent.config import AgentConfig
from learned_mapping.mcm.methods import PROBLEM
from learned_mapping.mcm.searches.greedy import naive_greedy
from learned_mapping.mcm.silicon import PROBLEM as SILICON
from learned_mapping.mcm.task import Task
from learned_mapping.mcm.validate import validate, validate_on_silicon
from learned_mapping.problem import Method, warm_up
from learned_mapping_companion.mcm.graphs import chips, load_graph
from learned_mapping_companion.table import Record


@lru_cache(maxsize=2)
def _task(instance: str, pretraining: int = 0) -> Task:
    return Task(load_graph(instance), ChipPackage(chips=chips(instance)), pretraining=pretraining)


def _budget(config: Record) -> Budget:
    """The budget in samples, CPU time measured; with a limit in seconds, as a solver keeps it, in
    wall-clock time."""
    return (
        Budget(seconds=config["seconds"])
        if "seconds" in config
        else Budget(samples=config["samples"], cpu=True)
    )


def model_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """A method on a graph of a set of `graphs.SET_NAMES`, on its number of chips, judged by the
    analytical model."""
    task = _task(instance, config.get("pretraining", 0))
    return _judged(PROBLEM.method(method, config.get("network", "full")), task, config, seed)


def mode_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """A policy with the settings of ``config``: mode, credit."""
    settings = {
        name: value for name, value in config.items() if name in AgentConfig.__dataclass_fields__
    }
    task = Task(load_graph(instance), ChipPackage(chips=chips(instance)), **settings)
    return _judged(PROBLEM.method(method, config["network"]), task, config, seed)


def _judged(method: Method, task: Task, config: Record, seed: int) -> Record:
    warm_up(PROBLEM, task, method)
    budget = _budget(config)
    partition, _ = method.run(task, np.random.default_rng(seed), budget)
    verdict = validate(task.graph, partition, task.model.package)
    return {
        "valid": verdict.valid,
        "throughput": verdict.costs.get("throughput", 0.0),
        "seconds": budget.seconds,
        "samples": budget.samples,
        "curve": budget.curve(),
        "ops": task.graph.num_ops,
        "chips": task.model.package.chips,
    }


def silicon_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """A method on the silicon of 36 chips; throughput is that of its partition without noise, 0
    where it cannot run.

    ``ran`` counts the samples that ran, ``first_ran`` is the number of the first of them, None
    without one; the curve is of measurements.
    """
    pretraining = config.get("pretraining", 0)
    task = SILICON.task(load_graph(instance), package=silicon_package(), pretraining=pretraining)
    (task, rng), silicon = SILICON.begin(task, seed), task.silicon
    naive = silicon.throughput(naive_greedy(task.model, task.arrays))
    chosen = SILICON.method(method, config.get("network", "full"))
    warm_up(SILICON, task, chosen)
    budget = _budget(config)
    partition, _ = chosen.run(task, rng, budget)
    verdict, ran = validate_on_silicon(partition, silicon), task.model.ran
    return {
        "valid": not any("silicon" not in violation.rule for violation in verdict.violations),
        "fits": verdict.valid,
        "throughput": verdict.costs.get("silicon_throughput", 0.0),
        "naive": naive,
        "ran": sum(ran),
        "first_ran": ran.index(True) + 1 if any(ran) else None,
        "seconds": budget.seconds,
        "samples": budget.samples,
        "curve": budget.curve(),
        "ops": task.graph.num_ops,
    }
