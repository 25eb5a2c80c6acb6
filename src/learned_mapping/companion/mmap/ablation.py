"""Paper 1's Figure 7: search alone, learning alone, and both, on two programs, for equal CPU seconds.

``search-only`` and ``learning-only`` take the one or the other from the paper's agent. All arms are long runs.
"""

from __future__ import annotations

from typing import Any

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap.runs import counted, plan_run
from learned_mapping.companion.mmap.table2 import grouped, mean_curve, seconds_for
from learned_mapping.companion.statistics import summary_row
from learned_mapping.mmap.methods import METHODS

WORKLOADS = ("wavenet_coherent_batch32", "AlphaTensor")
QUICK_WORKLOADS = ("rnn_0",)
FROM_TABLE2 = ("muzero", "edit-search")
ARMS = ("search-only", "learning-only")
"""What is run besides."""


def workloads(profile: str) -> tuple[str, ...]:
    """The programs of a profile, all of them in `mmap.table2`."""
    return QUICK_WORKLOADS if profile == "quick" else WORKLOADS


def plan_fig7(profile: str, seeds: int) -> list[Run]:
    """The arms that `mmap.table2` does not have, for its seconds."""
    return [
        plan_run(method, name, {"seconds": seconds_for(profile, name, "muzero")}, seed, profile=profile)
        for name in workloads(profile)
        for method in ARMS
        if method in METHODS and profile != "quick"
        for seed in range(seeds)
    ]


def assemble_fig7(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns with their curves over CPU seconds, all arms."""
    table = results.load("mmap.table2", profile)
    rows = [
        {key: value for key, value in row.items() if key != "games_curve"}
        for name in workloads(profile)
        for method in FROM_TABLE2
        for row in results.select(table, instance=name, method=method, metric="return")
    ]
    for (name, method), group in grouped(records).items():
        found = [record["result"] for record in group]
        values = [result["costs"].get("return", 0.0) for result in found]
        extra = {"program": group[0]["config"]["program"], "curve": mean_curve(found, "x", "s")}
        rows.append(summary_row(name, method, "return", values, **extra))
    return {"rows": rows, "paper": [], **counted(records)}
