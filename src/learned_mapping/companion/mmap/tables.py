"""Paper 1's tables and figures: what is run for each, and how the records become rows."""

from __future__ import annotations

from typing import Any

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap.runs import counted, load, plan_run, program_digest
from learned_mapping.companion.mmap.table2 import workloads
from learned_mapping.mmap.bounds.upper import integer_bound, upper_bound
from learned_mapping.programs.program import Program

FIG1_GAMES = {"quick": 1500, "full": 30_000, "paper": 300_000}
BOUND_SECONDS = {"quick": 20.0, "full": 120.0, "paper": 3600.0}
"""Wall-clock limit of branch and bound, per program."""


def workload(name: str) -> Program:
    """A compiled program by name; raises `InputError` for an unknown one."""
    return load(name)[0]


def run_bound(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """A proven upper bound on a program's return: ``bound-lp`` by linear, ``bound`` by integer programming."""
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


def plan_bound(profile: str, seeds: int) -> list[Run]:
    """Two bounds per program; the methods' returns are those of `mmap.table2`."""
    config = {"bound-lp": {}, "bound": {"seconds": BOUND_SECONDS[profile]}}
    return [
        Run("mmap.bound", method, name, config[method] | {"program": program_digest(name)})
        for name in workloads(profile)
        for method in config
    ]


def assemble_bound(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """The bounds, and how many percent of the tighter one every method of `mmap.table2` stays below it."""
    table = results.load("mmap.table2", profile)
    rows = []
    for record in records:
        instance, result = record["instance"], record["result"]
        extra = {name: result[name] for name in ("exact", "variables", "constraints")}
        extra["program"] = record["config"]["program"]
        rows.append({**_row(instance, record["method"], "return", result["return"]), **extra})
        rows.append(_row(instance, record["method"], "seconds", result["seconds"]))
    bounds = {record["instance"]: record["result"]["return"] for record in records if record["method"] == "bound"}
    for row in results.select(table, metric="return"):
        if bounds.get(row["instance"], 0.0) > 0 and row["method"] != "xla":  # which does not follow the game's rules
            gap = {end: 100.0 * (1.0 - row[end] / bounds[row["instance"]]) for end in ("value", "low", "high")}
            new = _row(row["instance"], row["method"], "gap_percent", gap["value"])
            rows.append({**new, "low": gap["high"], "high": gap["low"], "n": row["n"]})
    return {"rows": rows, "paper": [], "validated": table["validated"], "invalid": table["invalid"]}


def plan_fig1(profile: str, seeds: int) -> list[Run]:
    """One long search, counted in games so that it can be repeated exactly."""
    config = {"samples": FIG1_GAMES[profile], "keep": True}
    return [plan_run("edit-search", "alexnet_train_batch_32", config)]


def assemble_fig1(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """One row that carries the mapping itself."""
    (record,) = records
    result = record["result"]
    row = _row(record["instance"], record["method"], "return", result["costs"].get("return", 0.0))
    row["program"] = record["config"]["program"]
    return {"rows": [{**row, "mapping": result["mapping"]}], "paper": [], **counted(records)}


def _row(instance: str, method: str, metric: str, value: float) -> dict[str, Any]:
    return {"instance": instance, "method": method, "metric": metric, "value": value, "n": 1}
