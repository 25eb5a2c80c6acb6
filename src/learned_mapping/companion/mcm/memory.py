"""BERT on silicon with less memory than the static optimum needs: who finds a partition that runs?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mcm.learning import checkpoint_of
from learned_mapping.companion.mcm.learning_bert import GRAPH, INSTANCE
from learned_mapping.companion.statistics import summary_row

Record = dict[str, Any]

MEMORIES_MIB = {"quick": (64.0,), "full": (63.0, 64.0, 65.0, 66.0)}
"""Around what the static optimum needs, 65.5 MiB."""
RULES = ("greedy-careful", "even-cut", "optimum")
SEARCHES = ("random-balanced", "class-search", "costs-random", "costs-cem")
SAMPLES = {"quick": 20, "full": 400}


def plan_memory(profile: str, seeds: int) -> list[Run]:
    """Rules once for each memory, searches by seed."""
    runs = []
    for memory in MEMORIES_MIB.get(profile, MEMORIES_MIB["full"]):
        runs += [Run("silicon.solve", rule, GRAPH, {"samples": 1, "sram_mib": memory}) for rule in RULES]
        for method in SEARCHES:
            config = {"samples": SAMPLES.get(profile, SAMPLES["full"]), "sram_mib": memory, **checkpoint_of(method)}
            config |= {"network": profile} if profile == "quick" else {}
            runs += [Run("silicon.solve", method, GRAPH, config, seed) for seed in range(seeds)]
    return runs


def assemble_memory(profile: str, records: Sequence[Record]) -> Record:
    """By memory and method: seeds that end with a partition that runs, samples that ran, the first of them, throughput.

    Throughput is without noise and 0 where nothing ran. ``first_ran`` counts one more than the budget where none did.
    """
    rows: list[Record] = []
    for memory, method in dict.fromkeys((r["config"]["sram_mib"], r["method"]) for r in records):
        found = [r["result"] for r in records if (r["config"]["sram_mib"], r["method"]) == (memory, method)]
        columns = {
            "samples_that_run_percent": [100.0 * r["ran"] / r["samples"] for r in found],
            "throughput": [r["throughput"] for r in found],
        }
        if method not in RULES:
            columns["first_ran"] = [r["samples"] + 1 if r["first_ran"] is None else r["first_ran"] for r in found]
        # A mean: an interquartile mean would hide one seed in five that ends without a partition.
        fits = 100.0 * float(np.mean([r["fits"] for r in found]))
        key = {"instance": INSTANCE, "method": method, "n": len(found), "sram_mib": memory}
        rows.append({**key, "metric": "fits_percent", "value": fits})
        rows += [
            summary_row(INSTANCE, method, metric, np.array(values, float), sram_mib=memory)
            for metric, values in columns.items()
        ]
    invalid = sum(not r["result"]["valid"] for r in records)
    return {"rows": rows, "paper": [], "validated": len(records), "invalid": invalid}
