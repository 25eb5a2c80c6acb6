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
from learned_mapping.companion.mmap.runs import counted, load, program_digest
from learned_mapping.companion.statistics import Statistic, geometric_mean, interquartile_mean
from learned_mapping.companion.table import Record, Row, assembled, row, rows, summary_row
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
    runs = []
    for name in QUICK_PROGRAMS if profile == "quick" else compiled.names():
        for method in METHODS:
            games = {"samples": TUNING_GAMES[profile]} if method.startswith("greedy") else {}
            runs.append(Run("mmap.plan", method, name, {"program": program_digest(name), **games}))
    return runs


def assemble_heuristic(profile: str, records: list[Record]) -> Record:
    """Returns, latencies and speedups per program and method; agreement with the compiler; means over the programs.

    A program that fast memory cannot speed up by the tables returns 0 under any mapping; the mean leaves it out.
    """
    made: list[Row] = []
    xla = {record["instance"]: record["result"] for record in records if record["method"] == "xla"}
    for record in records:
        key, result = (record["instance"], record["method"]), record["result"]
        if result["possible_s"] > 0:
            about = {"program": record["config"]["program"], "buffers": result["buffers"]}
            made.append(row(*key, "return", result["return"], n=1, placed=result["placed"], **about))
        found = {"possible_share": result["possible_s"] / result["slow_s"]} if record["method"] == "xla" else {}
        for metric in LATENCIES:
            found[metric] = result[metric]
            found[f"speedup{_kind(metric)}"] = result["slow_s"] / result[metric]
            found[f"speedup_over_xla{_kind(metric)}"] = xla[record["instance"]][metric] / result[metric]
        if record["method"].startswith(("xla-", "heuristic")):
            found |= {name: result[name] for name in ("agreement", "agreement_bytes", "agreement_benefit", "kappa")}
        made += rows(*key, found, n=1)
        if "kept" in result:
            more = {name: result[name] for name in ("changed", "resets") if name in result}
            made.append(row(*key, "kept", result["kept"], n=1, **more))
    over: dict[tuple[str, str], list[float]] = {}
    for each in made:
        over.setdefault((each["method"], each["metric"]), []).append(each["value"])
    made += [summary_row("all", *key, values, statistic=_statistic(key[1])) for key, values in over.items()]
    made += cycle_rows([record for record in records if record["method"] == "xla"])
    return assembled(made) | counted(records)


def _kind(metric: str) -> str:
    """What tells a metric of `LATENCIES` from the first."""
    return metric.removeprefix("latency").removesuffix("_s")


def _statistic(metric: str) -> Statistic:
    """Over the programs: the geometric mean of times and their ratios, the interquartile mean of returns (a share of
    next to nothing can be anything), else the mean."""
    if metric.startswith(("speedup", "latency")):
        return geometric_mean
    return interquartile_mean if metric == "return" else np.mean


def cycle_rows(records: Sequence[Record]) -> list[Row]:
    """Our times against full compilations, where ``checks.json`` has them: ours, in cycles, over the compiler's.

    ``cycles_ratio_slow`` is of everything in HBM, ``cycles_ratio`` and its kin of the compiler's own mapping under
    each latency model, ``cycles_ratio_tables`` of its instructions alone.

    Args:
      records: of method ``xla``.
    """
    checks, made = read_checks(SETS["compiled"].path / CHECKS), []
    for record in records:
        check, result = checks.get(record["instance"], {}), record["result"]
        full, slow = check.get("compiled_cycles"), check.get("compiled_slow_cycles")
        if full and slow:
            ratios = {
                "cycles_ratio_slow": result["slow_s"] * CLOCK_HZ / slow,
                "cycles_ratio_tables": (result["slow_s"] - result["saving_s"]) * CLOCK_HZ / full,
                **{f"cycles_ratio{_kind(metric)}": result[metric] * CLOCK_HZ / full for metric in LATENCIES},
            }
            made += rows(record["instance"], "xla", ratios, n=1)
    return made
