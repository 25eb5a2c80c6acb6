"""Paper 1's Figure 6 and Table 5: whether a larger return means fewer cycles, by the compiler's own
count.

As in the paper, ten games from all along one training of the agent, on the programs that gain most
by it and those that gain least: of those in `mmap.compiler`, by the compiler's cycles. The compiler
prices each game's mapping; the wait for late copies is added, as there. Early games are near random
and can make Pearson's correlation alone. Beside it stand Spearman's, and Pearson's of the games
near the best one.
"""

from collections.abc import Sequence

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping_companion import results
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.mmap import runs
from learned_mapping_companion.mmap.compiler import price_run
from learned_mapping_companion.mmap.speedup import AGENT, AGENT_SECONDS
from learned_mapping_companion.records import read_record
from learned_mapping_companion.statistics import pearson
from learned_mapping_companion.table import Record, Row, assembled, by, from_part, row, rows

ENDS = 3  # Programs that gain most, and as many that gain least.
GAMES = 10
NEAR = 0.05
"""The return by which a game may be behind the best one and still be near it."""


def groups(profile: str) -> dict[str, str]:
    """Program -> ``best`` or ``worst``, by the agent's speedups in the result of `mmap.compiler`;
    none without it."""
    table = results.stored("mmap.compiler", profile)
    speedups = results.select(table, method=AGENT, metric="speedup_stalled") if table else []
    ranked = sorted(
        (r for r in speedups if r["instance"] != "all"), key=lambda r: r["value"], reverse=True
    )
    names = [entry["instance"] for entry in ranked]
    return dict.fromkeys(names[:ENDS], "best") | dict.fromkeys(names[ENDS:][-ENDS:], "worst")


def training_run(instance: str, seconds: float) -> Run:
    """A training that keeps its games."""
    return runs.plan_run(AGENT, instance, {"seconds": seconds, "games": GAMES})


def plan_fig6(profile: str, seeds: int) -> list[Run]:
    """A training on each program, then the prices of its games, which wait for the compiler."""
    seconds, names = AGENT_SECONDS.get(profile), list(groups(profile))
    if seconds is None:
        return []
    priced = [
        price_run(AGENT, name, {"seconds": seconds, "game": game})
        for name in names
        for game in range(GAMES)
    ]
    return [*(training_run(name, seconds) for name in names), *priced]


def games_of(instance: str, seconds: float) -> list[list]:
    """Number, return, latency in seconds and actions of the games that a training kept; raises
    `InputError` where it has not run."""
    record = read_record(results.runs_path("mmap.fig6", "full"), training_run(instance, seconds))
    if record is None:
        raise InputError(
            instance, AGENT, "is not yet run: `lmap make mmap.fig6 --profile full --long` trains it"
        )
    return record["result"]["games"]


def assemble_fig6(profile: str, records: Sequence[Record]) -> Record:
    """Return and cycles of each game, and how the two go together on each program."""
    trained = {
        record["instance"]: record["result"] for record in records if "game" not in record["config"]
    }
    priced = by(
        (r for r in records if "game" in r["config"] and not r["result"]["failed"]), "instance"
    )
    entries: list[Row] = []
    for name, group in groups(profile).items():
        prices = {r["config"]["game"]: r["result"] for r in priced.get(name, ())}
        if len(prices) < GAMES:
            continue
        games = {
            number: (value, prices[i]["stalled_cycles"], prices[i]["cycles"])
            for i, (number, value, *_) in enumerate(trained[name]["games"])
        }
        for number, (value, cycles, _) in games.items():
            entries.append(
                row(
                    name,
                    AGENT,
                    "cycles",
                    cycles,
                    n=1,
                    group=group,
                    game=number,
                    **{"return": value},
                )
            )
        points = np.array(list(games.values()))
        entries += correlations(name, group, points)
        entries += runs.learning_rows(name, AGENT, [trained[name]])
    return assembled(entries) | runs.counted(list(records))


def correlations(name: str, group: str, points: np.ndarray) -> list[Row]:
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
    entries, both = (
        rows(name, AGENT, numbers, n=len(points), group=group),
        pearson(value[near], cycles[near]),
    )
    return [*entries, row(name, AGENT, "near_correlation", both, n=int(near.sum()), group=group)]


def assemble_table5(profile: str, records: Sequence[Record]) -> Record:
    """The correlations of `mmap.fig6` beside the agent's speedups in `mmap.compiler`."""
    figure, table = results.load("mmap.fig6", profile), results.stored("mmap.compiler", profile)
    entries = [
        entry for entry in figure["rows"] if entry["metric"].endswith("correlation")
    ] + runs.learned(figure)
    for name in dict.fromkeys(entry["instance"] for entry in entries) if table else ():
        [speed] = results.select(table, instance=name, method=AGENT, metric="speedup_stalled")
        entries.append(speed | {"metric": "speedup"})
    return from_part(figure, entries)
