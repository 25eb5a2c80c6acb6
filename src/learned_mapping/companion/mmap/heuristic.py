"""Paper 1's production baseline on the compiled programs: the compiler's mapping, its heuristic as told here, greedy.

Latencies are under the game's copy rule and under a relaxed one. `mmap.heuristic` holds one row per program, method and
metric: the numbers a learner is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.datasets import compiled
from learned_mapping.companion.datasets.compiled import CHECKS, read_checks
from learned_mapping.companion.datasets.registry import SETS
from learned_mapping.companion.mmap.runs import load, program_digest
from learned_mapping.companion.statistics import bootstrap_interval, geometric_mean, interquartile_mean
from learned_mapping.hardware.copy_engines import all_slow_latency, shared_copy_latency
from learned_mapping.hardware.memory_hierarchy import placed_latency_s, program_latency
from learned_mapping.mmap.compiler import changes, legalise, placement_agreement, replay
from learned_mapping.mmap.mapping import Mapping, claimed_share
from learned_mapping.mmap.methods import solve
from learned_mapping.mmap.searches.heuristic import Settings, heuristic
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.program import Program
from learned_mapping.tpu.latency_tables import CLOCK_HZ

QUICK_PROGRAMS = ("alexnet_train_batch_32", "inference_lstm", "inference_resnet")
METHODS = ("xla", "xla-kept", "xla-replayed", "heuristic", "heuristic-tables", "greedy", "greedy-tuned")
"""``xla`` is the compiler's mapping as it stands, under its own rules; ``xla-kept`` changes it no more than the game's
rules demand; ``xla-replayed`` makes its decisions in order, at the offsets the game gives. ``heuristic`` orders
by bytes as the compiler does, ``heuristic-tables`` by what the latency tables say."""
TUNING_GAMES = {"quick": 60, "full": 400, "paper": 400}
LATENCIES = {"latency_s": None, "latency_relaxed_s": 0.0, "latency_contended_s": 0.5}
"""Metrics: one copy at a time; several copies, which yield to the instructions (`yields` of 0); several copies, which
take half of what bandwidth is short."""


def latencies(program: Program, mapping: Mapping) -> dict[str, float]:
    """The metrics of `LATENCIES`, in seconds; the mapping need not be valid."""
    found = {"latency_s": program_latency(program, mapping).total_s}
    for metric, yields in LATENCIES.items():
        if yields is not None:
            found[metric] = shared_copy_latency(program, mapping, yields=yields).total_s
    return found


def run_method(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Maps a compiled program by one of `METHODS`: a validated mapping, but for the compiler's own."""
    program, own = load(instance)
    extra: dict[str, Any] = {}
    if method == "xla":
        mapping = own
    elif method == "xla-replayed":
        replayed = replay(program, own)
        mapping = replayed.mapping
        extra = {"kept": replayed.kept, "changed": replayed.changed, "resets": replayed.resets}
    elif method == "xla-kept":
        mapping = legalise(program, own)
        extra = {"kept": float((mapping.action == own.action).mean()), "changed": changes(own, mapping)}
    elif method.startswith("heuristic"):
        mapping = heuristic(program, Settings(benefits="tables" if method == "heuristic-tables" else "bytes"))
    else:
        mapping = solve(program, method, seed=seed, samples=config["samples"]).solution
    verdict = validate(program, mapping)
    share = claimed_share(program, mapping)
    judged = method != "xla"
    return {
        "judged": judged,
        "valid": verdict.valid,
        "violations": [str(violation) for violation in verdict.violations[:5]] if judged else [],
        "return": verdict.costs["return"] if verdict.valid else share,
        "saving_s": float(program.slow_s.sum() - placed_latency_s(program, mapping.placed).sum()),
        "possible_s": program.possible_saving_s,
        **latencies(program, mapping),
        "slow_s": all_slow_latency(program),
        "placed": int(mapping.placed.sum()),
        "buffers": program.num_buffers,
        **placement_agreement(program, mapping, own),
        **extra,
    }


def plan_heuristic(profile: str, seeds: int) -> list[Run]:
    """Every method once: none of them draws."""
    names = QUICK_PROGRAMS if profile == "quick" else compiled.names()
    return [
        Run(
            "mmap.plan",
            method,
            name,
            {"program": program_digest(name)}
            | ({"samples": TUNING_GAMES[profile]} if method.startswith("greedy") else {}),
        )
        for name in names
        for method in METHODS
    ]


def assemble_heuristic(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns, latencies and speedups per program and method; agreement with the compiler; means over the programs.

    A program that fast memory cannot speed up by the tables returns 0 under any mapping; the mean leaves it out.
    """
    rows: list[dict[str, Any]] = []
    over: dict[tuple[str, str], list[float]] = {}

    def add(instance: str, method: str, metric: str, value: float, **extra: Any) -> None:
        rows.append({"instance": instance, "method": method, "metric": metric, "value": value, "n": 1, **extra})
        over.setdefault((method, metric), []).append(value)

    xla = {record["instance"]: record["result"] for record in records if record["method"] == "xla"}
    for record in records:
        instance, method, result = record["instance"], record["method"], record["result"]
        made_for = {"program": record["config"]["program"], "buffers": result["buffers"]}
        if result["possible_s"] > 0:
            add(instance, method, "return", result["return"], placed=result["placed"], **made_for)
        if method == "xla":
            add(instance, method, "possible_share", result["possible_s"] / result["slow_s"])
        for metric in LATENCIES:
            add(instance, method, metric, result[metric])
            kind = metric.removeprefix("latency").removesuffix("_s")
            add(instance, method, f"speedup{kind}", result["slow_s"] / result[metric])
            add(instance, method, f"speedup_over_xla{kind}", xla[instance][metric] / result[metric])
        for metric in ("agreement", "agreement_bytes", "agreement_benefit", "kappa"):
            if method.startswith(("xla-", "heuristic")):
                add(instance, method, metric, result[metric])
        if "kept" in result:
            more = {key: result[key] for key in ("changed", "resets") if key in result}
            add(instance, method, "kept", result["kept"], **more)
    rows += [_over_all(method, metric, values) for (method, metric), values in over.items()]
    rows += cycle_rows([record for record in records if record["method"] == "xla"])
    judged = [record["result"]["valid"] for record in records if record["result"]["judged"]]
    return {"rows": rows, "paper": [], "validated": len(judged), "invalid": judged.count(False)}


def _over_all(method: str, metric: str, values: Sequence[float]) -> dict[str, Any]:
    """Over the programs: the geometric mean of times and their ratios, the interquartile mean of returns (a share of
    next to nothing can be anything), else the mean; bootstrap interval."""
    if metric.startswith(("speedup", "latency")):
        statistic = geometric_mean
    else:
        statistic = interquartile_mean if metric == "return" else _mean
    low, high = bootstrap_interval(values, statistic)
    row = {"instance": "all", "method": method, "metric": metric, "value": float(statistic(values))}
    return {**row, "low": low, "high": high, "n": len(values)}


def _mean(values: Any, axis: int = -1) -> Any:
    return np.asarray(values, float).mean(axis=axis)


def cycle_rows(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Our times against full compilations, where ``checks.json`` has them: ours, in cycles, over the compiler's.

    ``cycles_ratio_slow`` is of everything in HBM, ``cycles_ratio`` and its kin of the compiler's own mapping under
    each latency model, ``cycles_ratio_tables`` of its instructions alone.

    Args:
      records: of method ``xla``.
    """
    checks = read_checks(SETS["compiled"].path / CHECKS)
    rows = []
    for record in records:
        check, result = checks.get(record["instance"], {}), record["result"]
        full, slow = check.get("compiled_cycles"), check.get("compiled_slow_cycles")
        if not full or not slow:
            continue
        ratios = {
            "cycles_ratio_slow": result["slow_s"] * CLOCK_HZ / slow,
            "cycles_ratio_tables": (result["slow_s"] - result["saving_s"]) * CLOCK_HZ / full,
        }
        for metric in LATENCIES:
            kind = metric.removeprefix("latency").removesuffix("_s")
            ratios[f"cycles_ratio{kind}"] = result[metric] * CLOCK_HZ / full
        for metric, value in ratios.items():
            rows.append({"instance": record["instance"], "method": "xla", "metric": metric, "value": value, "n": 1})
    return rows
