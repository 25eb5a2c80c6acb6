"""Paper 2's tables and figures, as far as they need no learning: the rules, sampling without a solver, the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mcm.graphs import load_graph
from learned_mapping.companion.statistics import interquartile_mean, probability_of_improvement, summary_row
from learned_mapping.hardware.chip_package import MIB, ChipModel, ChipPackage
from learned_mapping.mcm.bounds.optimum import lower_bound
from learned_mapping.mcm.methods import Task, solve
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.rules.constraints import valid_count
from learned_mapping.mcm.rules.example import EXAMPLE_PACKAGE, EXAMPLE_PARTITIONS, example_graph
from learned_mapping.mcm.validate import validate
from learned_mapping.programs.graph import ComputationGraph

Record = dict[str, Any]

PAPER_CHIPS = 36
UNCONSTRAINED_SAMPLES = 20_000
"""Per graph and seed."""
UNCONSTRAINED_GRAPHS = {
    "quick": ("lenet_inference", "resnet50_inference"),
    "full": (
        "lenet_inference", "alexnet_inference", "squeezenet_inference", "resnet50_inference", "mobilenet_inference",
        "inception_inference", "densenet_small_inference", "unet_inference", "lstm_4_steps", "gru_4_steps",
        "bidirectional_tagger_6_steps", "bert_large_inference",
    ),
}  # fmt: skip
CNN = "resnet50_inference"
CNN_CHIPS = {"quick": (4, 8), "full": (4, 8, 12, 16)}
LEAST_ROOM = 2.0
"""A graph is posed on C chips only where an equal share of its time is at least this many times its longest op: with
less, that op decides the outcome and not the partition. ResNet-50 passes up to 24 chips, Inception at 2 only."""
SEARCHES = ("random", "sa")
RULES = ("greedy-naive", "greedy-careful", "optimum")
SEARCH_SAMPLES = {"quick": 200, "full": 5000}
SOLVER_CHIPS = {"quick": (), "full": (4, 8)}
SOLVER_SECONDS = 60.0
"""CP-SAT's limit; more chips than `SOLVER_CHIPS` are beyond it."""


def room(graph: ComputationGraph, chips: int) -> float:
    """An equal share of the graph's time on one chip, over the time of its longest op."""
    seconds = ChipModel(graph, ChipPackage(chips=chips)).op_seconds
    return float(seconds.sum() / chips / seconds.max())


@lru_cache(maxsize=1)
def _compile() -> None:
    """Has the kernels compiled before anything is timed."""
    for method in (*RULES, *SEARCHES):
        solve(example_graph(), method, package=EXAMPLE_PACKAGE, samples=2)


def _scale(table: dict[str, Any], profile: str) -> Any:
    """The entry of a profile; ``paper`` needs no more than ``full`` where nothing is learned."""
    return table.get(profile, table["full"])


def example_run(method: str, instance: str, config: dict[str, Any], seed: int) -> Record:
    """The validator's verdict over one of the example's partitions."""
    graph, chips = example_graph(), EXAMPLE_PACKAGE.chips
    verdict = validate(graph, make_partition(EXAMPLE_PARTITIONS[method], chips), EXAMPLE_PACKAGE, memory=True)
    return {"assignment": list(EXAMPLE_PARTITIONS[method]), **verdict.to_json()}


def unconstrained_run(method: str, instance: str, config: dict[str, Any], seed: int) -> Record:
    """Counts the valid among uniform random assignments."""
    graph, rng = load_graph(instance), np.random.default_rng(seed)
    samples, valid = int(config["samples"]), 0
    for start in range(0, samples, 500):
        count = min(500, samples - start)
        valid += valid_count(rng.integers(0, config["chips"], (count, graph.num_ops), dtype=np.int16), graph.op_edges)
    return {"samples": samples, "valid": int(valid), "ops": graph.num_ops}


def partition_run(method: str, instance: str, config: dict[str, Any], seed: int) -> Record:
    """One method on one graph: throughput as the validator finds it, and the bound no partition can beat."""
    graph, package = load_graph(instance), ChipPackage(chips=int(config["chips"]))
    _compile()
    budget = {"seconds": config["seconds"]} if "seconds" in config else {"samples": config.get("samples", 1)}
    result = solve(graph, method, package=package, seed=seed, **budget, cpu="seconds" not in config)
    verdict = validate(graph, result.solution, package)
    proved = {"proved": bool(result.metrics["optimal"])} if "optimal" in result.metrics else {}
    return {
        **proved,
        "valid": verdict.valid,
        "throughput": verdict.costs.get("throughput", 0.0),
        "chips_used": verdict.costs.get("chips_used", 0.0),
        "peak_bytes": verdict.costs.get("peak_bytes", 0.0),
        "samples": result.samples,
        "seconds": result.seconds,
        "curve": result.curve,
        "bound": 1.0 / lower_bound(Task(graph, package).model),
        "ops": graph.num_ops,
    }


def plan_fig2(profile: str, seeds: int) -> list[Run]:
    return [Run("mcm.example", name, "six-ops", {}, 0) for name in EXAMPLE_PARTITIONS]


def assemble_fig2(profile: str, records: Sequence[Record]) -> Record:
    rows = []
    for record in records:
        found = record["result"]["violations"]
        text = "; ".join(f"{v['rule']}: {v['detail']} ({', '.join(v['culprits'])})" for v in found) or "valid"
        key = {"instance": record["instance"], "method": record["method"], "n": 1}
        rows.append({**key, "metric": "verdict", "value": text, "assignment": record["result"]["assignment"]})
        rows.append({**key, "metric": "broken_rules", "value": len({v["rule"] for v in found})})
    # Four of the five are meant to be invalid; only the one that is not counts as a solution.
    solutions = [r for r in records if r["method"] == "valid"]
    invalid = sum(not r["result"]["valid"] for r in solutions)
    return {"rows": rows, "paper": [], "validated": len(solutions), "invalid": invalid}


def rule_panels(result: Record) -> list[dict[str, Any]]:
    """The cases of a result of ``mcm.fig2`` as `figures.mcm.broken_rules` draws them."""
    rows = [row for row in result["rows"] if row["metric"] == "verdict"]
    rules = ["" if row["value"] == "valid" else row["value"].partition(":")[0] for row in rows]
    return [{"title": r["method"], "assignment": r["assignment"], "rule": rule} for r, rule in zip(rows, rules)]


def plan_unconstrained(profile: str, seeds: int) -> list[Run]:
    config = {"chips": PAPER_CHIPS, "samples": UNCONSTRAINED_SAMPLES}
    names = _scale(UNCONSTRAINED_GRAPHS, profile)
    return [Run("mcm.unconstrained", "unconstrained", n, config, s) for n in names for s in range(seeds)]


def assemble_unconstrained(profile: str, records: Sequence[Record]) -> Record:
    rows = []
    for instance in dict.fromkeys(record["instance"] for record in records):
        found = [record["result"] for record in records if record["instance"] == instance]
        key = {"instance": instance, "method": "unconstrained", "n": len(found)}
        rows.append({**key, "metric": "ops", "value": found[0]["ops"]})
        rows.append({**key, "metric": "samples", "value": sum(r["samples"] for r in found)})
        rows.append({**key, "metric": "valid", "value": sum(r["valid"] for r in found)})
    paper = [{"instance": "bert_large_inference", "method": "unconstrained", "metric": "valid", "value": 0}]
    return {"rows": rows, "paper": paper, "validated": 0, "invalid": 0}


def _optimum_cases(profile: str) -> list[tuple[str, int]]:
    cases = [(CNN, chips) for chips in _scale(CNN_CHIPS, profile)]
    return [*cases, ("bert_large_inference", PAPER_CHIPS)]


def plan_optimum(profile: str, seeds: int) -> list[Run]:
    runs = []
    for instance, chips in _optimum_cases(profile):
        runs += [Run("mcm.partition", method, instance, {"chips": chips}, 0) for method in RULES]
        config = {"chips": chips, "samples": _scale(SEARCH_SAMPLES, profile)}
        for method in SEARCHES:
            runs += [Run("mcm.partition", method, instance, config, seed) for seed in range(seeds)]
        if instance == CNN and chips in _scale(SOLVER_CHIPS, profile):
            config = {"chips": chips, "seconds": SOLVER_SECONDS}
            runs.append(Run("mcm.partition", "cp-sat", instance, config, 0))
    return runs


def assemble_optimum(profile: str, records: Sequence[Record]) -> Record:
    rows: list[Record] = []
    for instance, chips in _optimum_cases(profile):
        name = "bert" if instance.startswith("bert") else f"{instance.removesuffix('_inference')}-{chips}"
        here = [r for r in records if r["instance"] == instance and r["config"]["chips"] == chips]
        by_method = {m: [r["result"] for r in here if r["method"] == m] for m in (*RULES, "cp-sat", *SEARCHES)}
        by_method = {method: found for method, found in by_method.items() if found}
        single = {m: by_method[m][0]["throughput"] for m in RULES}
        extra = {"chips": chips, "ops": here[0]["result"]["ops"]}
        for method, results in by_method.items():
            values = np.array([r["throughput"] for r in results])
            curve = _mean_curve(results) if method in SEARCHES else {}
            rows.append(summary_row(name, method, "throughput", values, **extra, **curve))
            gap = (single["optimum"] / values - 1) * 100
            rows.append(summary_row(name, method, "gap_percent", gap, **extra))
            for rule in ("greedy-naive", "greedy-careful"):
                metric = f"over_{rule.replace('-', '_')}"
                rows.append(summary_row(name, method, metric, values / single[rule], **extra))
            rows.append(summary_row(name, method, "seconds", [r["seconds"] for r in results], **extra))
            rows.append(summary_row(name, method, "chips_used", [r["chips_used"] for r in results], **extra))
            peaks = [r["peak_bytes"] / MIB for r in results]
            rows.append(summary_row(name, method, "peak_mib", peaks, **extra))
            if "proved" in results[0]:
                key = {"instance": name, "method": method, "metric": "proved", "value": results[0]["proved"]}
                rows.append({**key, "n": 1, **extra})
        bound = here[0]["result"]["bound"]
        key = {"instance": name, "method": "bound", "metric": "throughput", "value": bound}
        rows.append({**key, "n": 1, **extra})
        scores = [{"here": [r["throughput"] for r in by_method[m]]} for m in SEARCHES]
        better = probability_of_improvement(*scores)
        key = {"instance": name, "method": "random", "metric": "probability_over_sa", "value": better}
        rows.append({**key, "n": len(scores[0]["here"]), **extra})
    invalid = sum(not r["result"]["valid"] for r in records)
    return {"rows": rows, "paper": [], "validated": len(records), "invalid": invalid}


def _mean_curve(results: Sequence[Record], points: int = 40) -> Record:
    """Interquartile mean over seeds of the best throughput after 1, ..., samples partitions."""
    end = results[0]["samples"]
    x = np.unique(np.round(np.geomspace(1, end, points)).astype(int))
    y = [np.asarray(r["curve"]["y"])[np.searchsorted(r["curve"]["samples"], x, side="right") - 1] for r in results]
    means = interquartile_mean(np.array(y), axis=0)
    return {"curve": {"x": x.tolist(), "y": means.tolist(), "x_unit": "samples"}}
