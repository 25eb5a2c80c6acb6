"""Why the static optimum loses on silicon: partitions that the model cannot tell from it, and searches cut short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.contrasts import ratio_rows
from learned_mapping.companion.mcm.graphs import load_graph
from learned_mapping.companion.mcm.silicon import CHIPS, GRAPH, NEAR_OPTIMUM_SPREAD, SEED_OFFSET
from learned_mapping.companion.statistics import summary_row
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.hardware.silicon import Silicon, silicon_package
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.repair.engine import repair_arrays
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches.even_cut import near_balanced

Record = dict[str, Any]

PARTITIONS = {"quick": 200, "full": 500}
BUDGETS = {"quick": (10, 20), "full": (10, 20, 50)}
SEARCHES = ("random-balanced", "class-search")
TIED = 1.0001
"""A partition within so much of the optimum's predicted run time is one the model cannot tell from it."""
RATIOS = {"worst": np.min, "median": np.median, "best": np.max}


def ties_run(method: str, instance: str, config: dict[str, Any], seed: int) -> Record:
    """Draws almost balanced partitions; those tied with the optimum: throughput on silicon, without noise, over its."""
    graph, package = load_graph(instance), silicon_package(int(config["chips"]))
    silicon, model = Silicon(graph, package), ChipModel(graph, package)
    rng, best = np.random.default_rng(seed + SEED_OFFSET), optimum(model)
    rows = near_balanced(model, repair_arrays(graph), rng, int(config["partitions"]), NEAR_OPTIMUM_SPREAD)
    limit = TIED * model.runtime(best)
    tied = np.unique([best, *(row for row in rows if model.runtime(row) <= limit)], axis=0)
    ratios = np.array([silicon.throughput(row) for row in tied]) / silicon.throughput(best)
    return {
        "over_optimum": np.sort(ratios).round(6).tolist(),
        "optimum_throughput": silicon.throughput(best),
        "broken": sum(not is_valid(row, graph.op_edges) for row in tied),
    }


def plan_ties(profile: str, seeds: int) -> list[Run]:
    """The ties by seed, and the searches with budgets far below that of ``mcm.fig7``."""
    config = {"chips": CHIPS, "partitions": PARTITIONS.get(profile, PARTITIONS["full"])}
    runs = [Run("silicon.ties", "tied-with-optimum", GRAPH, config, seed) for seed in range(seeds)]
    for samples in BUDGETS.get(profile, BUDGETS["full"]):
        config = {"chips": CHIPS, "samples": samples}
        runs += [Run("silicon.measure", m, GRAPH, config, s) for m in SEARCHES for s in range(seeds)]
    return runs


def assemble_ties(profile: str, records: Sequence[Record]) -> Record:
    """Ratios are over the partition the exact method returns."""
    ties = [r["result"] for r in records if r["method"] == "tied-with-optimum"]
    rows = [
        summary_row("bert", "tied-with-optimum", f"{name}_over_optimum", [float(of(r["over_optimum"])) for r in ties])
        for name, of in RATIOS.items()
    ]
    rows.append(summary_row("bert", "tied-with-optimum", "partitions", [len(r["over_optimum"]) for r in ties]))
    searched = [r for r in records if r["method"] != "tied-with-optimum"]
    for samples in dict.fromkeys(r["config"]["samples"] for r in searched):
        found: dict[str, list[float]] = {}
        for r in searched:
            if r["config"]["samples"] == samples:
                found.setdefault(r["method"], []).append(r["result"]["throughput"] / ties[0]["optimum_throughput"])
        rows += [summary_row("bert", method, "over_optimum", v, samples=samples) for method, v in found.items()]
        scores = {method: {GRAPH: ratios} for method, ratios in found.items()}
        rows += ratio_rows("bert", scores, [("class-search", "random-balanced")], samples=samples)
    invalid = sum(not r["result"]["valid"] for r in searched) + sum(r["broken"] for r in ties)
    return {"rows": rows, "paper": [], "validated": len(searched), "invalid": invalid}
