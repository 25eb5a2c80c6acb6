"""Paper 1's Figure 6 and Table 5: whether a larger return means fewer cycles, by the compiler's own
count.

As in the paper, ten games from all along one training of the agent, on the programs that gain most
by it and those that gain least: of those in `mmap.compiler`, by the compiler's cycles. The compiler
prices each game's mapping; the wait for late copies is added, as there. Early games are near random
and can make Pearson's correlation alone. Beside it stand Spearman's, and Pearson's of the games
near the best one.
"""

import itertools

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping_companion import results
from learned_mapping_companion.artifact import NOTHING, Artifact, Run, Runs
from learned_mapping_companion.mmap import runs
from learned_mapping_companion.mmap.compiler import price_run
from learned_mapping_companion.mmap.speedup import AGENT
from learned_mapping_companion.records import read_record
from learned_mapping_companion.statistics import pearson
from learned_mapping_companion.table import Record, Records, Rows, by, row, rows

ENDS = 3  # Programs that gain most, and as many that gain least.
GAMES = 10
NEAR = 0.05
"""The return by which a game may be behind the best one and still be near it."""


def groups() -> dict[str, str]:
    """Program -> ``best`` or ``worst``, by the agent's speedups in the result of `mmap.compiler`;
    none without it."""
    table = results.stored("mmap.compiler")
    speedups = results.select(table, method=AGENT, metric="speedup_stalled") if table else []
    ranked = sorted(
        (r for r in speedups if r["instance"] != "all"), key=lambda r: r["value"], reverse=True
    )
    names = [entry["instance"] for entry in ranked]
    return dict.fromkeys(names[:ENDS], "best") | dict.fromkeys(names[ENDS:][-ENDS:], "worst")


def training_run(instance: str) -> Run:
    """A training that keeps its games."""
    config = {"seconds": runs.seconds_of(instance), "games": GAMES}
    return runs.plan_run(AGENT, instance, config)


def plan_fig6(seeds: int) -> Runs:
    """A training on each program, then the prices of its games, which wait for the compiler."""
    for name in groups():
        yield training_run(name)
    for name, game in itertools.product(groups(), range(GAMES)):
        yield price_run(AGENT, name, {"seconds": runs.seconds_of(name), "game": game})


def games_of(instance: str) -> list[list]:
    """Number, return, latency in seconds and actions of the games that a training kept; raises
    `InputError` where it has not run."""
    record = read_record(results.runs_path("mmap.fig6", "full"), training_run(instance))
    if record is None:
        raise InputError(
            instance, AGENT, "is not yet run: `lmap make mmap.fig6 --profile full --long` trains it"
        )
    return record["result"]["games"]


def assemble_fig6(records: Records) -> Rows:
    """Return and cycles of each game, and how the two go together on each program."""
    found = {(r["instance"], r["config"].get("game")): r["result"] for r in records}
    for name, group in groups().items():
        prices = [found.get((name, game), {"failed": True}) for game in range(GAMES)]
        if any(price["failed"] for price in prices):
            continue
        trained, points = found[name, None], []
        for (number, value, *_), price in zip(trained["games"], prices):
            points.append((value, price["stalled_cycles"], price["cycles"]))
            cells = {"group": group, "game": number, "return": value}
            yield row(name, AGENT, "cycles", price["stalled_cycles"], n=1, **cells)
        yield from correlations(name, group, np.array(points))
        yield from runs.learning_rows(name, AGENT, [trained])


FIG6 = Artifact("mmap.fig6", assemble_fig6, plan_fig6, NOTHING)


def correlations(name: str, group: str, points: np.ndarray) -> Rows:
    """Correlations of points (return, cycles, cycles without the wait for late copies) [games, 3]:
    of the first two, also where the return is within `NEAR` of the largest, and of the first and
    the last."""
    from scipy.stats import rankdata

    value, cycles, unstalled = points.T
    near = value >= value.max() - NEAR
    numbers = {
        "correlation": pearson(value, cycles),
        "rank_correlation": pearson(rankdata(value), rankdata(cycles)),
        "unstalled_correlation": pearson(value, unstalled),
    }
    yield from rows(name, AGENT, numbers, n=len(points), group=group)
    both = pearson(value[near], cycles[near])
    yield row(name, AGENT, "near_correlation", both, n=int(near.sum()), group=group)


def assemble_table5(records: Records, figure: Record) -> Rows:
    """The correlations of `mmap.fig6` beside the agent's speedups in `mmap.compiler`."""
    table = results.stored("mmap.compiler")
    entries = [entry for entry in figure["rows"] if entry["metric"].endswith("correlation")]
    yield from entries + runs.learned(figure)
    for name in by(entries, "instance") if table else ():
        [speed] = results.select(table, instance=name, method=AGENT, metric="speedup_stalled")
        yield speed | {"metric": "speedup"}


TABLE5 = Artifact("mmap.table5", assemble_table5)
