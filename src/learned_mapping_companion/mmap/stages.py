"""Paper 1's Figure 6 and Table 5: whether a larger return means fewer cycles, by the compiler's own
count.

As in the paper, ten games from all along a training of the agent, on the programs that gain most by
it and those that gain least: of those in `mmap.compiler`, by the compiler's cycles. The compiler
prices each game's mapping; the wait for late copies is added, as there. Early games are near random
and can make Pearson's correlation alone. Beside it stand Spearman's, and Pearson's of the games
near the best one. The paper trains once; here a correlation is the mean over trainings.
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
from learned_mapping_companion.table import Record, Records, Rows, by, mean_row, row

ENDS = 3  # Programs that gain most, and as many that gain least.
GAMES = 10
TRAININGS = 3  # Of each program, at most.
NEAR = 0.05
"""The return by which a game may be behind the best one and still be near it."""
Correlations = dict[str, float | None]


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


def training_run(instance: str, seed: int) -> Run:
    """A training that keeps its games."""
    config = {"seconds": runs.seconds_of(instance), "games": GAMES}
    return runs.plan_run(AGENT, instance, config, seed)


def plan_fig6(seeds: int) -> Runs:
    """The trainings on each program, then the prices of their games, which wait for the
    compiler."""
    trainings = [*itertools.product(groups(), range(min(seeds, TRAININGS)))]
    for name, seed in trainings:
        yield training_run(name, seed)
    for (name, seed), game in itertools.product(trainings, range(GAMES)):
        yield price_run(AGENT, name, {"seconds": runs.seconds_of(name), "game": game}, seed)


def games_of(instance: str, seed: int) -> list[list]:
    """Number, return, latency in seconds and actions of the games that a training kept; raises
    `InputError` where it has not run."""
    record = read_record(results.runs_path("mmap.fig6", "full"), training_run(instance, seed))
    if record is None:
        raise InputError(
            instance, AGENT, "is not yet run: `lmap make mmap.fig6 --profile full --long` trains it"
        )
    return record["result"]["games"]


def assemble_fig6(records: Records) -> Rows:
    """Return and cycles of each game, and how the two go together on each program. A training
    counts once all its games have prices."""
    found = {(r["instance"], r["seed"], r["config"].get("game")): r["result"] for r in records}
    for name, group in groups().items():
        trainings, together = list[Record](), list[Correlations]()
        for seed in sorted({seed for instance, seed, _ in found if instance == name}):
            prices = [found.get((name, seed, game), {"failed": True}) for game in range(GAMES)]
            if any(price["failed"] for price in prices):
                continue
            trained, points = found[name, seed, None], []
            for (number, value, *_), price in zip(trained["games"], prices):
                points.append((value, price["stalled_cycles"], price["cycles"]))
                cells = {"group": group, "training": seed, "game": number, "return": value}
                yield row(name, AGENT, "cycles", price["stalled_cycles"], n=1, **cells)
            trainings.append(trained)
            together.append(correlations(np.array(points)))
        if not together:
            continue
        for metric in together[0]:
            known = [entry[metric] for entry in together if entry[metric] is not None]
            if known:
                yield mean_row(name, AGENT, metric, known, group=group)
            else:
                yield row(name, AGENT, metric, None, n=0, group=group)
        yield from runs.learning_rows(name, AGENT, trainings)


FIG6 = Artifact("mmap.fig6", assemble_fig6, plan_fig6, NOTHING)


def correlations(points: np.ndarray) -> Correlations:
    """Correlations of points (return, cycles, cycles without the wait for late copies) [games, 3]:
    of the first two, also where the return is within `NEAR` of the largest, and of the first and
    the last; None where too few or equal points have none."""
    from scipy.stats import rankdata

    value, cycles, unstalled = points.T
    near = value >= value.max() - NEAR
    return {
        "correlation": pearson(value, cycles),
        "rank_correlation": pearson(rankdata(value), rankdata(cycles)),
        "unstalled_correlation": pearson(value, unstalled),
        "near_correlation": pearson(value[near], cycles[near]),
    }


def assemble_table5(records: Records, figure: Record) -> Rows:
    """The correlations of `mmap.fig6` beside the agent's speedups in `mmap.compiler`."""
    table = results.stored("mmap.compiler")
    entries = [entry for entry in figure["rows"] if entry["metric"].endswith("correlation")]
    yield from entries + runs.learned(figure)
    for name in by(entries, "instance") if table else ():
        [speed] = results.select(table, instance=name, method=AGENT, metric="speedup_stalled")
        yield speed | {"metric": "speedup"}


TABLE5 = Artifact("mmap.table5", assemble_table5)
