"""Paper 1's tables and figures: what is run for each, and how the records become rows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.experiments import mmap_data, mmap_heuristic, mmap_steps, results
from learned_mapping.experiments.artifact import Artifact, Run
from learned_mapping.experiments.statistics import (
    improvement_interval,
    interquartile_mean,
    probability_of_improvement,
    summary_row,
)
from learned_mapping.mmap.bound import upper_bound
from learned_mapping.mmap.integer_bound import integer_bound
from learned_mapping.mmap.methods import METHODS, solve
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.program import Program
from learned_mapping.programs.program_format import read_program

WORKLOADS = (
    "alexnet_train_batch_32", "wavenet_coherent_batch32", "AlphaTensor", "tensor2tensor_transformer_bf16",
)  # fmt: skip
"""The four programs of the paper's Table 2, by its names; ours are traced from models of our own."""
QUICK_WORKLOADS = ("alexnet_train_batch_32", "resnet50_inference")
SECONDS = {"quick": 0.5, "full": 12.0, "paper": 3600.0}
"""CPU seconds of each search, one core."""
SECONDS_SMALL = {"quick": 0.5, "full": 6.0, "paper": 3600.0}
"""For programs below `SMALL` buffers."""
SMALL = 5000
FIG1_GAMES = {"quick": 1500, "full": 30_000, "paper": 300_000}
CURVE_POINTS = 40
BOUND_SECONDS = {"quick": 20.0, "full": 240.0, "paper": 3600.0}
"""Wall-clock limit of branch and bound, per program."""

PAPER_TABLE2 = {
    "alexnet_train_batch_32": (300, 0.5834, 0.5426, 0.4100),
    "wavenet_coherent_batch32": (3020, 0.7099, 0.7004, 0.4804),
    "AlphaTensor": (9084, 0.7680, 0.5357, 0.2481),
    "tensor2tensor_transformer_bf16": (9888, 0.7002, 0.6263, 0.3227),
}
"""Table 2: buffers, MMap-MuZero, evolutionary search, random. The normaliser of its rewards is not stated."""
PACKAGES = ("learned_mapping.mmap.methods", "learned_mapping.mmap.validate", "learned_mapping.mmap.bound")
BOUND_PACKAGES = ("learned_mapping.mmap.bound", "learned_mapping.mmap.integer_bound")


@functools.lru_cache(maxsize=8)
def workload(name: str) -> Program:
    """A program of ``data/programs`` by name; raises `InputError` where there is none."""
    return read_program(results.data_folder() / "programs" / f"{name}.json.gz")


def of_other_programs(result: dict[str, Any]) -> list[str]:
    """Workloads whose file has changed since a result was made: its numbers are of another program."""
    made_for = {row["instance"]: row["program"] for row in result["rows"] if "program" in row}
    return [name for name, digest in made_for.items() if workload(name).digest[:16] != digest]


def run_method(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Maps a workload under a budget of CPU seconds or games; the validator judges and prices the mapping."""
    program = workload(instance)
    limit = {name: config[name] for name in ("seconds", "samples") if name in config}
    result = solve(program, method, seed=seed, cpu=True, **limit)
    verdict = validate(program, result.solution, exact=METHODS[method].plays)
    record = {
        "valid": verdict.valid,
        "violations": [str(violation) for violation in verdict.violations[:5]],
        "costs": dict(verdict.costs),
        "speedup": float(program.slow_s.sum()) / verdict.costs["latency_s"] if verdict.valid else None,
        "resets": result.metrics["resets"],
        "samples": result.samples,
        "seconds": result.seconds,
        "curve": result.curve,
    }
    if config.get("keep"):
        names = ("action", "offset", "start", "end")
        record["mapping"] = {name: getattr(result.solution, name).tolist() for name in names}
    return record


def run_bound(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """A proven upper bound on a workload's return: ``bound-lp`` by linear, ``bound`` by integer programming."""
    program = workload(instance)
    bound = upper_bound(program) if method == "bound-lp" else integer_bound(program, seconds=config["seconds"])
    return {
        "return": bound.value,
        "saving_s": bound.saving_s,
        "exact": bound.exact,
        "variables": bound.variables,
        "constraints": bound.constraints,
        "seconds": bound.seconds,
    }


def _run(function: str, method: str, instance: str, config: dict[str, Any], seed: int) -> Run:
    """The program's digest is part of the key, so that another file under the same name is another run."""
    digest = workload(instance).digest[:16]
    return Run(f"learned_mapping.experiments.mmap:{function}", method, instance, {**config, "program": digest}, seed)


def _workloads(profile: str) -> tuple[str, ...]:
    return QUICK_WORKLOADS if profile == "quick" else WORKLOADS


def _seconds(profile: str, instance: str) -> float:
    return (SECONDS_SMALL if workload(instance).num_buffers < SMALL else SECONDS)[profile]


def plan_table2(profile: str, seeds: int) -> list[Run]:
    """Every method on every workload, for equal CPU seconds; those without randomness once."""
    return [
        _run("run_method", method, instance, {"seconds": _seconds(profile, instance)}, seed)
        for instance in _workloads(profile)
        for method in METHODS
        for seed in range(seeds if METHODS[method].random else 1)
    ]


def assemble_table2(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns, latencies and games per workload and method; over all workloads; and against `greedy-tuned`."""
    rows, per_method = [], {}
    for (instance, method), group in _grouped(records).items():
        found = [record["result"] for record in group]
        returns = [result["costs"].get("return", 0.0) for result in found]
        per_method.setdefault(method, {})[instance] = returns
        made_for = {"program": group[0]["config"]["program"]}
        rows.append(summary_row(instance, method, "return", returns, curve=_mean_curve(found), **made_for))
        rows.append(summary_row(instance, method, "speedup", [result["speedup"] or 0.0 for result in found]))
        rows.append(summary_row(instance, method, "latency_s", [r["costs"].get("latency_s", 0.0) for r in found]))
        rows.append(summary_row(instance, method, "samples", [float(result["samples"]) for result in found]))
        rows.append(summary_row(instance, method, "seconds", [result["seconds"] for result in found]))
    for method, scores in per_method.items():
        rows.append(summary_row("all", method, "return", scores))
        baseline = per_method["greedy-tuned"]
        low, high = improvement_interval(scores, baseline)
        value = probability_of_improvement(scores, baseline)
        row = {"instance": "all", "method": method, "metric": "improvement", "value": value, "low": low, "high": high}
        rows.append({**row, "n": sum(map(len, scores.values())), "baseline": "greedy-tuned"})
    paper = []
    for instance, (buffers, *values) in PAPER_TABLE2.items():
        for method, value in zip(("muzero-paper", "evolution-logits", "random"), values):
            row = {"instance": instance, "method": method, "metric": "return", "value": value}
            paper.append({**row, "buffers": buffers})
    return {"rows": rows, "paper": paper, **_counted(records)}


def plan_bound(profile: str, seeds: int) -> list[Run]:
    """Two bounds per workload; the methods' returns are those of `mmap.table2`."""
    config = {"bound-lp": {}, "bound": {"seconds": BOUND_SECONDS[profile]}}
    return [
        _run("run_bound", method, instance, config[method], 0) for instance in _workloads(profile) for method in config
    ]


def assemble_bound(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """The bounds, and how many percent of the tighter one every method of `mmap.table2` stays below it."""
    table = results.load("mmap.table2", profile)
    rows = []
    for record in records:
        instance, result = record["instance"], record["result"]
        extra = {name: result[name] for name in ("exact", "variables", "constraints")}
        rows.append({**_row(instance, record["method"], "return", result["return"]), **extra})
        rows.append(_row(instance, record["method"], "seconds", result["seconds"]))
    bounds = {record["instance"]: record["result"]["return"] for record in records if record["method"] == "bound"}
    for row in results.select(table, metric="return"):
        if row["instance"] in bounds:
            gap = {end: 100.0 * (1.0 - row[end] / bounds[row["instance"]]) for end in ("value", "low", "high")}
            new = _row(row["instance"], row["method"], "gap_percent", gap["value"])
            rows.append({**new, "low": gap["high"], "high": gap["low"], "n": row["n"]})
    return {"rows": rows, "paper": [], "validated": table["validated"], "invalid": table["invalid"]}


def plan_fig5(profile: str, seeds: int) -> list[Run]:
    """Nothing of its own: the curves are those of the runs of `mmap.table2`."""
    return []


def assemble_fig5(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """The best return so far over CPU seconds, per workload and method."""
    table = results.load("mmap.table2", profile)
    rows = [row for row in results.select(table, metric="return") if "curve" in row]
    return {"rows": rows, "paper": [], "validated": table["validated"], "invalid": table["invalid"]}


def plan_fig1(profile: str, seeds: int) -> list[Run]:
    """One long search, counted in games so that it can be repeated exactly."""
    config = {"samples": FIG1_GAMES[profile], "keep": True}
    return [_run("run_method", "segment-search", "alexnet_train_batch_32", config, 0)]


def assemble_fig1(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """One row that carries the mapping itself."""
    (record,) = records
    result = record["result"]
    row = _row(record["instance"], record["method"], "return", result["costs"].get("return", 0.0))
    row["program"] = record["config"]["program"]
    return {
        "rows": [{**row, "mapping": result["mapping"], "speedup": result["speedup"]}],
        "paper": [],
        **_counted(records),
    }


def _row(instance: str, method: str, metric: str, value: float) -> dict[str, Any]:
    return {"instance": instance, "method": method, "metric": metric, "value": value, "n": 1}


def _grouped(records: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault((record["instance"], record["method"]), []).append(record)
    return groups


def _counted(records: Sequence[dict[str, Any]]) -> dict[str, int]:
    judged = [record["result"]["valid"] for record in records]
    return {"validated": len(judged), "invalid": judged.count(False)}


def _mean_curve(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best return so far over CPU seconds: interquartile mean, least and most over the seeds."""
    curves = [result["curve"] for result in found]
    first = max(curve["x"][0] for curve in curves)
    last = max(max(curve["x"][-1] for curve in curves), first * 1.01)
    x = np.geomspace(first, last, CURVE_POINTS)
    x[-1] = last
    y = np.array([np.array(c["y"])[np.maximum(np.searchsorted(c["x"], x, side="right") - 1, 0)] for c in curves])
    return {
        "x": [round(float(v), 5) for v in x],
        "y": [round(float(v), 6) for v in interquartile_mean(y, axis=0)],
        "low": [round(float(v), 6) for v in y.min(axis=0)],
        "high": [round(float(v), 6) for v in y.max(axis=0)],
        "x_unit": "s",
    }


ARTIFACTS: tuple[Artifact, ...] = (
    Artifact("mmap.fig1", 1, "Memory layout of an AlexNet training step", plan_fig1, assemble_fig1, PACKAGES),
    Artifact("mmap.table2", 1, "Final reward of the methods that do not learn", plan_table2, assemble_table2, PACKAGES),
    Artifact(
        "mmap.fig5",
        1,
        "Reward over time of the methods that do not learn",
        plan_fig5,
        assemble_fig5,
        parts=("mmap.table2",),
    ),
    Artifact(
        "mmap.bound",
        1,
        "Gap of every method to a proven bound",
        plan_bound,
        assemble_bound,
        BOUND_PACKAGES,
        parts=("mmap.table2",),
    ),
    *mmap_data.ARTIFACTS,
    *mmap_steps.ARTIFACTS,
    *mmap_heuristic.ARTIFACTS,
)
