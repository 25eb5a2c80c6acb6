"""Paper 1's Figure 7: search alone, learning alone, and both, on two programs, for equal CPU seconds.

``search-only`` and ``learning-only`` take the one or the other from the paper's agent; ``segment-search`` is ``muzero``
without its network. What stands in `mmap.table2` already is read from there.
"""

from __future__ import annotations

from typing import Any

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Artifact, Run
from learned_mapping.companion.mmap.runs import code_of, counted, plan_run
from learned_mapping.companion.mmap.table2 import grouped, mean_curve, seconds_for
from learned_mapping.companion.statistics import summary_row
from learned_mapping.mmap import learned_methods

WORKLOADS = ("wavenet_coherent_batch32", "AlphaTensor")
QUICK_WORKLOADS = ("rnn_0",)
FROM_TABLE2 = ("muzero", "muzero-paper", "segment-search")
ARMS = (
    *(m for m in getattr(learned_methods, "ABLATIONS", ()) if m != "muzero-scratch"),
    *(m for m in ("gumbel",) if m in learned_methods.LEARNED_METHODS),
)
"""What is run besides: every name that `learned_methods.solve` takes, but for the arm of `mmap.transfer`."""


def workloads(profile: str) -> tuple[str, ...]:
    """The programs of a profile, all of them in `mmap.table2`."""
    return QUICK_WORKLOADS if profile == "quick" else WORKLOADS


def plan_fig7(profile: str, seeds: int) -> list[Run]:
    """The arms that `mmap.table2` does not have, for its seconds; in ``quick`` once."""
    return [
        plan_run(method, name, {"seconds": seconds_for(profile, name, "muzero")}, seed, profile=profile)
        for name in workloads(profile)
        for method in ARMS
        for seed in range(1 if profile == "quick" else seeds)
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


ARTIFACTS: tuple[Artifact, ...] = (
    Artifact(
        "mmap.fig7",
        1,
        "Search alone, learning alone, and both",
        plan_fig7,
        assemble_fig7,
        code_of,
        parts=("mmap.table2",),
    ),
)
