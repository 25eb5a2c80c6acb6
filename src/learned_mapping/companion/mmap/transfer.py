"""What a network trained on other programs is worth: the agent with it, the agent with a new one, and chance.

``muzero-scratch`` is ``muzero`` with the weights of a network that has seen no program: what it learns, it learns on
the program at hand. ``segment-search`` draws its edits without a network. Programs and seconds are those of
`mmap.table2`; so are the runs of ``muzero`` and ``segment-search``, which are read from its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Artifact, Run
from learned_mapping.companion.contrasts import mean_difference
from learned_mapping.companion.mmap.runs import code_of, counted, plan_run
from learned_mapping.companion.mmap.table2 import grouped, mean_curve, plan_table2, seconds_for, workloads
from learned_mapping.companion.runs import read_record
from learned_mapping.companion.statistics import summary_row
from learned_mapping.errors import InputError

SCRATCH = "muzero-scratch"
FROM_TABLE2 = ("muzero", "segment-search")
METHODS = ("muzero", SCRATCH, "segment-search")
CONTRASTS = (("muzero", SCRATCH), ("muzero", "segment-search"), (SCRATCH, "segment-search"))
"""Pairs whose mean returns are compared, the first minus the second, where both have the same seconds."""
SHARES = {"": 1.0, "_quarter": 0.25, "_tenth": 0.1}
"""End of a metric's name -> share of the seconds at which the return is read off the curve."""


def plan_transfer(profile: str, seeds: int) -> list[Run]:
    """`SCRATCH` on the programs of `mmap.table2`, with the seconds of its ``muzero``; in ``quick`` once."""
    return [
        plan_run(SCRATCH, name, {"seconds": seconds_for(profile, name, "muzero")}, seed, profile=profile)
        for name in workloads(profile)
        for seed in range(1 if profile == "quick" else seeds)
    ]


def records_of_table2(profile: str) -> list[dict[str, Any]]:
    """The records of `FROM_TABLE2` that the stored `mmap.table2` was made from.

    Raises:
      InputError: the result or one of its records is not there.
    """
    seeds, store = results.load("mmap.table2", profile)["seeds"], results.runs_folder("mmap.table2", profile)
    runs = [run for run in plan_table2(profile, seeds) if run.method in FROM_TABLE2]
    found = [read_record(store, run) for run in runs]
    for run, record in zip(runs, found):
        if record is None:
            raise InputError(store, f"{run.digest}.json", f"no record of {run.method} on {run.instance}")
    return found


def return_at(record: dict[str, Any], share: float) -> float:
    """The best return of a run by a share of its seconds: 0 before its first game, at the end its result."""
    result = record["result"]
    if share >= 1:
        return float(result["costs"].get("return", 0.0))
    done = int(np.searchsorted(result["curve"]["x"], share * record["config"]["seconds"], side="right"))
    return float(result["curve"]["y"][done - 1]) if done else 0.0


def assemble_transfer(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns at the shares of the seconds, with curves, and the differences of their means with 95% intervals."""
    every = [*records_of_table2(profile), *records]
    groups = grouped(every)
    rows: list[dict[str, Any]] = []
    for end, share in SHARES.items():
        scores: dict[str, dict[str, list[float]]] = {method: {} for method in METHODS}
        for name in workloads(profile):
            for method in METHODS:
                group = groups[name, method]
                config = group[0]["config"]
                extra: dict[str, Any] = {"program": config["program"], "seconds": share * config["seconds"]}
                if share == 1:
                    extra["curve"] = mean_curve([record["result"] for record in group], "x", "s")
                scores[method][name] = [return_at(record, share) for record in group]
                rows.append(summary_row(name, method, f"return{end}", scores[method][name], **extra))
        rows += [summary_row("all", method, f"return{end}", scores[method]) for method in METHODS]
        for ours, theirs in CONTRASTS:
            # In `quick` Table 2 gives a method that learns more seconds: nothing to compare.
            names = [name for name in scores[ours] if len({_seconds(groups[name, m]) for m in (ours, theirs)}) == 1]
            if names:
                rows += differences(f"difference{end}", scores, ours, theirs, names)
    return {"rows": rows, "paper": [], **counted(every)}


def _seconds(group: Sequence[dict[str, Any]]) -> float:
    return group[0]["config"]["seconds"]


def differences(
    metric: str, scores: dict[str, dict[str, list[float]]], ours: str, theirs: str, names: Sequence[str]
) -> list[dict[str, Any]]:
    """The mean of one method minus that of another: a row per program, and one over all of them.

    Args:
      metric: the rows' name.
      scores: method -> program -> return of each run.
      ours, theirs: the methods.
      names: the programs.
    """
    rows = []
    for instance, chosen in [*((name, [name]) for name in names), ("all", names)]:
        pair = [{name: scores[method][name] for name in chosen} for method in (ours, theirs)]
        interval = dict(zip(("value", "low", "high"), mean_difference(*pair)))
        row = {"instance": instance, "method": ours, "metric": metric, **interval}
        rows.append({**row, "n": sum(map(len, pair[0].values())), "baseline": theirs})
    return rows


ARTIFACTS: tuple[Artifact, ...] = (
    Artifact(
        "mmap.transfer",
        1,
        "What training on other programs brings",
        plan_transfer,
        assemble_transfer,
        code_of,
        parts=("mmap.table2",),
    ),
)
