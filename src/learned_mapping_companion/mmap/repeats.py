"""The gain by deciding alike where a program repeats itself: edit-search with and without it, sixty
programs."""

from learned_mapping_companion import table
from learned_mapping_companion.artifact import Artifact, Quick, Runs
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.mmap.runs import plan_run, return_of
from learned_mapping_companion.mmap.speedup import AHEAD, QUICK_PROGRAMS
from learned_mapping_companion.statistics import mean_difference
from learned_mapping_companion.table import Records, Rows

PLAIN, REPEATS = "edit-search", "edit-search-repeats"
SECONDS = 10.0  # CPU seconds of one core, for each method on each program.


def plan_repeats(seeds: int) -> Runs:
    """One run of both on every program."""
    config = {"seconds": SECONDS}
    return [
        plan_run(method, name, config) for name in compiled.names() for method in (PLAIN, REPEATS)
    ]


def assemble_repeats(records: Records) -> Rows:
    """Returns per program and over all; over all ``difference``, its interval over programs, and on
    how many programs the one is ``ahead`` of the other or ``behind`` it, by more than `AHEAD`."""
    returns: dict[str, dict[str, list[float]]] = {}
    for (name, method), (record,) in table.grouped(records).items():
        value = return_of(record)
        returns.setdefault(method, {})[name] = [value]
        yield table.row(name, method, "return", value, program=record["config"]["program"], n=1)
    for method, scores in returns.items():
        yield table.mean_row("all", method, "return", [value for (value,) in scores.values()])
    plain, repeats = (returns[method] for method in (PLAIN, REPEATS))
    gains = [repeats[name][0] - plain[name][0] for name in plain]
    ends = mean_difference(repeats, plain, over_tasks=True)
    yield table.interval_row("all", REPEATS, "difference", ends, n=len(gains), baseline=PLAIN)
    ahead = {
        "ahead": sum(gain > AHEAD for gain in gains),
        "behind": sum(gain < -AHEAD for gain in gains),
    }
    yield from table.rows("all", REPEATS, ahead, n=len(gains), baseline=PLAIN)


BY_REPEATS = Artifact(
    "mmap.repeats",
    assemble_repeats,
    plan_repeats,
    Quick(instances=QUICK_PROGRAMS, config={"seconds": 1.0}),
)
