"""The gain by deciding alike where a program repeats itself: edit-search with and without it, sixty
programs."""

from learned_mapping_companion import table
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.mmap.runs import counted, plan_run
from learned_mapping_companion.mmap.speedup import AHEAD, programs
from learned_mapping_companion.statistics import mean_difference
from learned_mapping_companion.table import Record, Row

PLAIN, REPEATS = "edit-search", "edit-search-repeats"
SECONDS = {"quick": 1.0, "full": 10.0}
"""CPU seconds of one core, for each method on each program."""


def plan_repeats(profile: str, seeds: int) -> list[Run]:
    """One run of both on every program."""
    config = {"seconds": table.of_profile(SECONDS, profile)}
    return [
        plan_run(method, name, config) for name in programs(profile) for method in (PLAIN, REPEATS)
    ]


def assemble_repeats(profile: str, records: list[Record]) -> Record:
    """Returns per program and over all; over all ``difference``, its interval over programs, and on
    how many programs the one is ``ahead`` of the other or ``behind`` it, by more than `AHEAD`."""
    entries: list[Row] = []
    returns: dict[str, dict[str, list[float]]] = {}
    for (name, method), (record,) in table.grouped(records).items():
        value = record["result"]["costs"]["return"]
        returns.setdefault(method, {})[name] = [value]
        entries.append(
            table.row(name, method, "return", value, program=record["config"]["program"], n=1)
        )
    for method, scores in returns.items():
        entries.append(
            table.mean_row("all", method, "return", [value for (value,) in scores.values()])
        )
    plain, repeats = (returns[method] for method in (PLAIN, REPEATS))
    gains = [repeats[name][0] - plain[name][0] for name in plain]
    ends = mean_difference(repeats, plain, over_tasks=True)
    entries.append(
        table.interval_row("all", REPEATS, "difference", ends, n=len(gains), baseline=PLAIN)
    )
    ahead = {
        "ahead": sum(gain > AHEAD for gain in gains),
        "behind": sum(gain < -AHEAD for gain in gains),
    }
    return table.assembled(
        entries + table.rows("all", REPEATS, ahead, n=len(gains), baseline=PLAIN)
    ) | counted(records)
