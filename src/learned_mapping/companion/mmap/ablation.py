"""Paper 1's Figure 7: the agent, the same without a search or a learned model, and the same without learning.

All arms have the long clock of `mmap.table2`, which the agent's own rows are taken from; all are long runs.
"""

from __future__ import annotations

from typing import Any

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap.runs import counted, learning_rows, plan_run
from learned_mapping.companion.mmap.table2 import grouped, return_row, seconds_for

WORKLOADS = ("wavenet_coherent_batch32", "AlphaTensor")
"""Of `mmap.table2`."""
AGENT = "muzero"
ARMS = ("learning-only", "muzero-frozen")
"""What is run besides; in ``quick`` nothing."""


def plan_fig7(profile: str, seeds: int) -> list[Run]:
    """The arms that `mmap.table2` does not have, for its seconds."""
    return [
        plan_run(method, name, {"seconds": seconds_for(profile, name)[1]}, seed)
        for name in WORKLOADS
        for method in ARMS
        for seed in range(0 if profile == "quick" else seeds)
    ]


def assemble_fig7(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns with their curves over CPU seconds, games and updates, of all arms."""
    table = results.load("mmap.table2", profile)
    rows = [
        row
        for name in WORKLOADS
        for metric in ("return", "games", "updates")
        for row in results.select(table, instance=name, method=AGENT, metric=metric)
    ]
    for (name, method), group in grouped(records).items():
        rows += [return_row(name, method, group), *learning_rows(name, method, [record["result"] for record in group])]
    return {"rows": rows, "paper": [], **counted(records)}
