"""Wide graphs on 36 chips, which no exact method proves: every method beside a proven bound, and
methods that learn the chips where nobody knows the times of the ops.

A part of the runs is of the analytical model, a part of silicon whose ops differ (`mcm.chips`). The
twelve test graphs were opened once, by this table.
"""

from functools import lru_cache, partial

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.methods import PROBLEM
from learned_mapping.mcm.rules.cp_sat import fastest_partition
from learned_mapping.mcm.searches.greedy import careful_greedy
from learned_mapping.mcm.silicon import EXTRA_METHODS
from learned_mapping.mcm.task import Task
from learned_mapping.mcm.validate import validate
from learned_mapping.problem import warm_up
from learned_mapping_companion.artifact import Artifact, Quick, Runs
from learned_mapping_companion.mcm import graphs
from learned_mapping_companion.mcm.learning import learning_rows, sweep_of
from learned_mapping_companion.mcm.levels import end_row
from learned_mapping_companion.statistics import geometric_mean
from learned_mapping_companion.table import (
    Record,
    Records,
    Rows,
    by,
    column,
    ratio_rows,
    row,
    summary_row,
    sweep,
)

INSTANCE = "all"
RULES = ("greedy-naive", "greedy-careful")
SOLVER, EFFORT = "cp-sat", 5.0
SEARCHES = (
    "random",
    "random-balanced",
    "sa-balanced",
    "climb",
    "rl-sample-credit",
    "rl",
    "finetune",
    "rl-balanced-frozen",
    "rl-balanced",
    "finetune-balanced",
)
SAMPLES = 500
SPREAD, WORLD = 0.5, 100
"""Of the silicon, as in `mcm.chips`."""
MEASURED = {"learned-times": 10, "rl-balanced": 430, "random-balanced": 430}
"""Method on silicon -> its measurements."""
CONTRASTS = (
    ("climb", "sa-balanced"),
    ("climb", "random-balanced"),
    ("rl", "random"),
    ("rl", "rl-sample-credit"),
    ("finetune", "rl"),
    ("finetune-balanced", "rl-balanced"),
    ("finetune-balanced", "climb"),
    ("rl", "sa-balanced"),
    ("rl", "climb"),
    ("rl-balanced", "rl-balanced-frozen"),
    ("rl-balanced", "climb"),
    ("rl-balanced", "sa-balanced"),
    ("rl-balanced", "random-balanced"),
    ("rl-balanced", "rl"),
)
ON_SILICON = (("learned-times", "rl-balanced"), ("learned-times", "random-balanced"))


@lru_cache(maxsize=2)
def _task(instance: str, pretraining: int = 0) -> Task:
    package = ChipPackage(chips=graphs.chips(instance))
    return Task(graphs.load_graph(instance), package, pretraining=pretraining)


def _judged(task: Task, assignment: np.ndarray) -> Record:
    verdict = validate(task.graph, task.partition(assignment), task.model.package)
    return {"valid": verdict.valid, "throughput": verdict.costs.get("throughput", 0.0)}


def wide_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """A method on a graph by the analytical model, those of silicon that cut evenly among them."""
    task = _task(instance, config.get("pretraining", 0))
    chosen = EXTRA_METHODS.get(method) or PROBLEM.method(method, config["network"])
    warm_up(PROBLEM, task, chosen)
    budget = Budget(samples=config["samples"], cpu=True)
    partition, _ = chosen.run(task, np.random.default_rng(seed), budget)
    return _judged(task, partition.assignment) | {"seconds": budget.seconds}


def solver_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """CP-SAT from the careful greedy's partition, within its own units of work; with its bound, in
    results per second."""
    task, budget = _task(instance), Budget(samples=1, cpu=True)
    start = careful_greedy(task.model)
    outcome = fastest_partition(task.model, effort=config["effort"], seed=seed, start=start)
    found = start if outcome.assignment is None else outcome.assignment
    most = 1.0 / outcome.bound if outcome.bound > 0.0 else None
    return _judged(task, found) | {"seconds": budget.seconds, "most": most}


def plan_wide(seeds: int, of: str = graphs.WIDE) -> Runs:
    """Rules and the solver once, searches by seed with equal samples; on silicon few measurements
    against many."""
    network = {"network": "full"}
    for name in graphs.names("test", of):
        yield from sweep("mcm.wide", RULES, [name], {"samples": 1, **network})
        yield from sweep("mcm.wide_solver", [SOLVER], [name], {"effort": EFFORT})
        for method in SEARCHES:
            yield from sweep_of("mcm.wide", method, name, {"samples": SAMPLES, **network}, seeds)
        for method, samples in MEASURED.items():
            config = {"spread": SPREAD, "world": WORLD, "samples": samples, **network}
            yield from sweep("silicon.chips", [method], [name], config, seeds)


def bound_of(name: str) -> float:
    """Results per second that no partition of a graph is above, from the graph's facts."""
    facts = graphs.facts(name)
    return 1.0 / facts.get("chain_bound_s", facts["bound_s"])


def assemble_wide(records: Records) -> Rows:
    """By graph, and as geometric means over all: throughput as a share of the bound; CPU seconds;
    what CP-SAT's own bound is of ours; ratios, intervals over graphs and seeds. Rows of silicon
    have its ``spread``."""
    model = [record for record in records if "spread" not in record["config"]]
    measured = [record for record in records if "spread" in record["config"]]
    names = list(dict.fromkeys(record["instance"] for record in records))
    bound = {name: bound_of(name) for name in names}
    scores = {}
    for method, group in by(model, "method").items():
        groups = by(group, "instance")
        shares = {name: _throughputs(groups[name], bound[name]) for name in names}
        scores[method] = {name: _throughputs(groups[name]) for name in names}
        for name in names:
            yield summary_row(name, method, "of_bound", shares[name])
        logs = np.log(np.array([shares[name] for name in names]))[:, :, None]
        given = {"samples": group[0]["config"].get("samples", 1)}  # what a search uses up
        yield end_row(INSTANCE, method, "of_bound", logs) | given
        spent = [record | {"result": record["result"] | given} for record in group]
        yield from learning_rows(INSTANCE, method, spent)
        seconds = column(group, "seconds")
        yield summary_row(INSTANCE, method, "seconds", seconds, graphs=len(names))
    found = [record for record in model if record["result"].get("most")]
    ratios = [record["result"]["most"] / bound[record["instance"]] for record in found]
    if ratios:
        over = geometric_mean(ratios)
        yield row(INSTANCE, SOLVER, "its_bound", over, graphs=len(ratios), n=1)
    cells = {"graphs": len(names), "over_tasks": True}
    yield from ratio_rows(INSTANCE, scores, CONTRASTS, **cells)
    told = {
        method: {name: _throughputs(runs) for name, runs in by(group, "instance").items()}
        for method, group in by(measured, "method").items()
    }
    cells |= {"spread": SPREAD, "samples": min(MEASURED.values())}
    for entry in ratio_rows(INSTANCE, told, ON_SILICON, **cells):
        yield entry | {"metric": "ratio_on_silicon"}


WIDE = Artifact(
    "mcm.wide",
    assemble_wide,
    plan_wide,
    Quick(
        instances=("gru_writer_1x6",),
        config={"effort": 1.0, "samples": 20, "network": "quick"},
        plan=partial(plan_wide, of=graphs.PLAIN),
    ),
    {"network": "paper"},
)
"""``quick`` opens no test set."""


def _throughputs(records: Records, unit: float = 1.0) -> list[float]:
    return [throughput / unit for throughput in column(records, "throughput")]
