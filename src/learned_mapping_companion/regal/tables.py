"""Paper 3's tables: REGAL and its baselines on traced and synthetic graphs.

`regal.test` is Table 1 again, on graphs that were opened once, after the networks got their skip:
all 98 topologies of `traced`'s test split, of five families that no training graph has, each with
noise; one in ten of the 1,000 test graphs of `synthetic`. `regal.earlier` is the same with other
noise and other graphs, which methods were judged on until then. The sixteen graphs of each kind in
`regal.table1` were looked at while methods were developed.

`regal.limit` is running time where memory binds. The paper gives both devices 16 GiB, which no
graph here fills; here the limit of a graph lies between the least peak that a search for memory
finds and the peak of the fastest list schedule, a `LIMIT_SHARE` of the way up.
"""

import functools
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas

from learned_mapping.regal.methods import EVALUATIONS
from learned_mapping_companion import statistics
from learned_mapping_companion.artifact import Artifact, Quick, Run, Runs
from learned_mapping_companion.regal import methods as regal_methods
from learned_mapping_companion.regal.gaps import (
    SPLIT,
    Costs,
    best_known,
    by_instance,
    config_of,
    contrast_rows,
    costs_of,
    ends_of,
    graph_rows,
    logs_over,
    outcomes,
    runs_of,
    with_trainings,
)
from learned_mapping_companion.regal.graphs import (
    DATASETS,
    best_entries,
    family_of,
    graph_names,
)
from learned_mapping_companion.regal.methods import NETWORKS, brought, trainings_of
from learned_mapping_companion.regal.runs import PARTS, RULES
from learned_mapping_companion.table import Record, Records, Row, Rows, by, gap_row, mean_row, row

SEARCHES = ("brkga", "brkga-tuned", "local-search", "random")
METHODS = (*SEARCHES, *RULES, *regal_methods.LEARNERS)

QUICK_METHODS = ("brkga", "spectral-law", "regal", "regal-imitation")
QUICK_GRAPHS = ("squeezenet", "tagger-6", "random-dag-40", "towers-70", "layered-100")
LONG_EVALUATIONS = 30_000
SOLVER_TIME, EXACT_TIME = 3.0, 15.0
"""CP-SAT's limit per graph in its own units of work, and on graphs that it is to prove."""
EXACT_SETS = ("small", "twenty")
EXACT_LEARNERS = {
    "runtime": ("regal", "synthetic-runtime"),
    "memory": ("regal-cloned", "traced-memory"),
}
"""Objective -> the learner and the data set whose networks it asks."""
TIME_OPS = (50, 100, 200, 500, 1000, 2000, 5000)

PROVEN = 1e-9  # Of a logarithm: a graph on which BRKGA leaves so little leaves no room.
TEST_SEEDS = 2  # Of a search that asks no network; one with each network of a learner.
BASELINES = (
    "brkga",
    "local-search",
    "cut",
    "spectral-law",
    "spectral-race",
    "priority-law",
    "regal",
    "regal-no-skip",
    "regal-average",
    "regal-untrained",
    "regal-cloned",
    "regal-cloned-average",
    "regal-clone",
)
"""Methods that every other is set against, graph by graph, on the test sets."""

DEVELOPMENT_BASELINES = ("brkga", "spectral-law", "regal", "regal-cloned")
"""The same on the graphs that methods were developed on."""

LIMIT_SHARE, LIMITED_SEEDS, LIMITED_DATASET = 0.25, 3, "synthetic-runtime"
LIMITED_METHODS = (
    *RULES,
    "random",
    "local-search",
    "brkga",
    "brkga-tuned",
    "spectral-law",
    "priority-law",
    "regal-untrained",
    "regal",
    "regal-imitation",
)


def _per_graph(task: str, method: str, instance: str, config: Record) -> list[Run]:
    """One run per graph, so that the dear ones can be spread and resumed."""
    return [Run(task, method, instance, config | {"graphs": [g]}, 0) for g in config["graphs"]]


def plan_table1(seeds: int) -> Runs:
    for dataset, (kind, objective) in DATASETS.items():
        config = config_of(kind, objective, graph_names(kind), EVALUATIONS)
        yield from runs_of("regal.schedule", METHODS, dataset, config, seeds)
        longer = {"evaluations": LONG_EVALUATIONS}
        yield from _per_graph("regal.long", "long-search", dataset, config | longer)
        solver = {"solver_time": SOLVER_TIME}
        yield from _per_graph("regal.prove", "cp-sat", dataset, config | solver)


@with_trainings
def assemble_table1(records: Records) -> Rows:
    """Gaps to the best known cost: the least of any method, of the long searches, and of the
    schedules stored."""
    for dataset, of_dataset in by_instance(records, DATASETS):
        costs, (kind, objective) = costs_of(of_dataset), DATASETS[dataset]
        logs = logs_over(costs, best_known(costs, best_entries(kind, objective)))
        yield from contrast_rows(dataset, logs, DEVELOPMENT_BASELINES)
        yield from _beats_rows(dataset, costs)
        yield from _seconds_rows(dataset, of_dataset)
        yield from _proof_rows(dataset, of_dataset)
        yield from graph_rows(dataset, logs)


TABLE1 = Artifact(
    "regal.table1",
    assemble_table1,
    plan_table1,
    Quick(
        (*SEARCHES, *RULES, *QUICK_METHODS, "long-search"),
        networks=1,
        config={"graphs": QUICK_GRAPHS, "evaluations": 10_000},
    ),
    {"solver_time": 3_333},
)
EARLIER_METHODS = (*SEARCHES, *RULES, *regal_methods.LAWS, "regal-no-skip", "regal-imitation")
"""Methods that the earlier test graphs judged, and that are as they were."""


def plan_test(seeds: int, split: str = "fresh", methods: Iterable[str] = METHODS) -> Runs:
    """A run for each method, network or seed, over all graphs of a dataset."""
    for dataset, (_, objective) in DATASETS.items():
        graphs = graph_names(dataset, split)
        config = config_of(dataset, objective, graphs, EVALUATIONS, split=split)
        count = min(seeds, TEST_SEEDS)
        yield from runs_of("regal.schedule", methods, dataset, config, count, (*NETWORKS, *RULES))


@with_trainings
def assemble_test(records: Records) -> Rows:
    """Rows by dataset and method, with 95% intervals over graphs and runs drawn anew.

    ``gap_percent``, to the stored best schedule, so that a method that comes later moves no other's
    gap; ``room_gap_percent``, the same on graphs where BRKGA leaves any; ``gap_ratio``, that gap
    over a `BASELINES`' own; ``improvement_percent``, by how much the cost is below a `BASELINES`';
    ``family_ratio``, the ratio to BRKGA's gap with an interval for which families of graphs are
    drawn anew too; ``training_percent``, the same of each training of `regal` alone, below BRKGA's;
    ``graph_gap_percent`` of each graph, over its runs.
    """
    (split,) = {record["config"]["split"] for record in records}
    for dataset, ran in outcomes(records).groupby("instance", sort=False):
        stored = best_entries(dataset, DATASETS[dataset][1], split)
        yield from _test_rows(dataset, costs_of(ran), stored)


QUICK_TEST = Quick(QUICK_METHODS, seeds=1, networks=1, config={"graphs": 3})
TEST = Artifact("regal.test", assemble_test, plan_test, QUICK_TEST)
plan_earlier = functools.partial(plan_test, split="test", methods=EARLIER_METHODS)
EARLIER = Artifact("regal.earlier", assemble_test, plan_earlier, QUICK_TEST)


def _test_rows(dataset: str, costs: Costs, stored: Mapping[str, Record]) -> Rows:
    best = best_known(costs)
    best |= {graph: stored[graph]["cost"] for graph in best if graph in stored}
    logs = logs_over(costs, best)
    yield from contrast_rows(dataset, logs, BASELINES)
    roomy = [graph for graph, runs in logs.get("brkga", {}).items() if np.mean(runs) > PROVEN]
    if 0 < len(roomy) < len(best):
        there = {method: {graph: of[graph] for graph in roomy} for method, of in logs.items()}
        for entry in contrast_rows(dataset, there, ()):
            yield entry | {"metric": "room_gap_percent"}
    families = statistics.drawn_families([family_of(dataset, graph) for graph in best])
    brkga = np.array(list(logs.get("brkga", {}).values()))
    for method in [method for method in NETWORKS if method in logs and len(brkga)]:
        ours = np.array(list(logs[method].values()))
        weights = (families / families.sum(axis=1, keepdims=True))[:, :, None]
        chosen = _drawn_trainings(method, dataset, ours.shape[1])
        base = np.expm1(families @ brkga.mean(axis=1) / families.sum(axis=1))
        drawn = np.expm1(
            (weights * ours[None]).sum(axis=1)[np.arange(len(chosen))[:, None], chosen].mean(axis=1)
        )
        if base.min() > 0:
            ratio, ends = np.expm1(ours.mean()) / np.expm1(brkga.mean()), ends_of(drawn / base)
            cells = {"baseline": "brkga", **ends, "n": ours.size, "graphs": len(best)}
            yield row(dataset, method, "family_ratio", ratio, **cells)
    yield from graph_rows(dataset, logs)
    for training, runs in enumerate(zip(*logs.get("regal", {}).values())):
        saved = -np.expm1(np.mean(runs) - brkga.mean())
        yield row(
            f"training {training}",
            "regal",
            "training_percent",
            100 * saved,
            n=len(runs),
            dataset=dataset,
        )


def _drawn_trainings(method: str, dataset: str, runs: int) -> np.ndarray:
    """[`RESAMPLES`, runs] which of a method's runs, one of each training, are drawn."""
    count = runs if trainings_of(method, dataset, runs) else 1
    drawn = np.random.default_rng(3).integers(0, count, size=(statistics.RESAMPLES, runs))
    return drawn if count == runs else np.tile(np.arange(runs), (statistics.RESAMPLES, 1))


def plan_limit(seeds: int) -> Runs:
    config = {
        "graphs": list(graph_names("synthetic")),
        "share": LIMIT_SHARE,
        "evaluations": EVALUATIONS,
    }
    count, once = min(seeds, LIMITED_SEEDS), (*NETWORKS, *RULES)
    return runs_of("regal.limit", LIMITED_METHODS, LIMITED_DATASET, config, count, once)


@with_trainings
def assemble_limit(records: Records) -> Rows:
    """``feasible_percent``, of runs that keep the limit; ``gap_percent`` of those, to the best
    known of them."""
    table = outcomes(records)
    kept = table[table.fits.astype(bool)]
    best, keeping = (
        kept.groupby("graph").cost.min().to_dict(),
        costs_of(kept.sort_values("graph", kind="stable")),
    )
    for method, runs in table.groupby("method", sort=False):
        cells = {"graphs": runs.graph.nunique()}
        share = {
            graph: (100.0 * group.fits.astype(float)).tolist()
            for graph, group in runs.groupby("graph")
        }
        yield mean_row(LIMITED_DATASET, method, "feasible_percent", share, **cells)
        if method in keeping:
            yield from _gap_rows(LIMITED_DATASET, {method: keeping[method]}, best, **cells)


LIMIT = Artifact(
    "regal.limit",
    assemble_limit,
    plan_limit,
    Quick(
        ("list-scheduler", "brkga", "regal"),
        seeds=1,
        networks=1,
        config={"graphs": QUICK_GRAPHS},
    ),
)


def plan_time(seeds: int) -> Runs:
    config = {"ops": list(TIME_OPS), "evaluations": EVALUATIONS}
    runs = runs_of("regal.sizes", (*SEARCHES, *RULES), "layered", config, seeds)
    traced = config_of("traced", "runtime", graph_names("traced"), EVALUATIONS)
    methods = ("brkga", "local-search", "regal", "regal-imitation")
    runs += runs_of("regal.schedule", methods, "traced-runtime", traced, seeds, networks=1)
    first = brought("regal", "traced-runtime")[:1]
    return runs + [Run("regal.split", "regal", SPLIT, traced | network, 0) for network in first]


@with_trainings
def assemble_time(records: Records) -> Rows:
    """CPU seconds per graph, compilation apart: per size, and the mean over traced test graphs;
    ``graph_seconds`` of each of them."""
    (_, sizes), (_, traced), (_, split) = by_instance(records, ("layered", "traced-runtime", SPLIT))
    for (method, ops), runs in sizes.groupby(["method", "graph"], sort=False):
        yield _spread_row(f"{ops} ops", method, "seconds_by_size", runs.seconds, ops=int(ops))
    for part in PARTS if len(split) else ():
        yield _spread_row("traced graphs", part, "part_seconds", split[part])
    for (method, graph), runs in traced.groupby(["method", "graph"], sort=False):
        name, cells = f"traced-runtime/{graph}", {"dataset": "traced-runtime"}
        yield _spread_row(name, method, "graph_seconds", runs.seconds, **cells)
    yield from _seconds_rows("traced-runtime", traced)


TIME = Artifact(
    "regal.time", assemble_time, plan_time, Quick(config={"ops": 3, "graphs": QUICK_GRAPHS})
)


def plan_exact(seeds: int) -> Runs:
    for split, objective in itertools.product(EXACT_SETS, EXACT_LEARNERS):
        instance, graphs = f"{split}-{objective}", graph_names("synthetic", split)
        config = config_of("synthetic", objective, graphs, EVALUATIONS, split=split)
        yield from runs_of("regal.schedule", (*SEARCHES, *RULES), instance, config, seeds)
        method, dataset = EXACT_LEARNERS[objective]
        for network in brought(method, dataset):
            yield Run("regal.schedule", method, instance, config | network)
        solver = {"solver_time": EXACT_TIME}
        yield from _per_graph("regal.prove", "cp-sat", instance, config | solver)


@with_trainings
def assemble_exact(records: Records) -> Rows:
    """Gaps to CP-SAT's cost, which is the optimum where it says so; only such graphs count."""
    for instance, of_instance in by_instance(records, by(records, "instance")):
        solved = of_instance[of_instance.method == "cp-sat"].drop_duplicates("graph")
        optimal = solved[solved.optimal.astype(bool)]
        yield from _proof_rows(instance, of_instance)
        if len(optimal):
            optimum = dict(zip(optimal.graph, optimal.cost))
            yield from _gap_rows(
                instance, costs_of(of_instance[of_instance.graph.isin(optimum)]), optimum
            )
        yield from _seconds_rows(instance, of_instance)


EXACT = Artifact(
    "regal.exact",
    assemble_exact,
    plan_exact,
    Quick(
        instances=("small-runtime", "small-memory"),
        networks=1,
        config={"graphs": ("attention-8", "series-parallel-14", "layered-20"), "solver_time": 1.0},
    ),
    {"solver_time": 667},
)


def _gap_rows(instance: str, costs: Costs, reference: Mapping[str, float], **cells: Any) -> Rows:
    """Geometric means over graphs and seeds of cost over reference, as percent above it; intervals
    over the seeds."""
    ratios = {
        method: {
            graph: (np.array(values) / reference[graph]).tolist() for graph, values in known.items()
        }
        for method, known in costs.items()
    }
    return [
        gap_row(instance, method, "gap_percent", known, **cells) for method, known in ratios.items()
    ]


def _beats_rows(instance: str, costs: Costs) -> Rows:
    """The probability that a run of a method beats one of BRKGA's on the same graph."""
    for method in [method for method in costs if method not in ("brkga", "long-search")]:
        ours, theirs = (
            {g: [-cost for cost in v] for g, v in costs[m].items()} for m in (method, "brkga")
        )
        yield row(
            instance, method, "beats_brkga", statistics.probability_of_improvement(ours, theirs)
        )


def _seconds_rows(instance: str, table: pandas.DataFrame) -> Rows:
    """Mean CPU seconds per graph, one value per seed."""
    for method, runs in table.groupby("method", sort=False):
        turn = runs.groupby("graph").cumcount()
        whole = runs.groupby("graph").size().min()
        values = [
            float(np.mean(turn_runs.seconds.to_numpy()))
            for _, turn_runs in runs[turn < whole].groupby(turn)
        ]
        yield _spread_row(instance, method, "seconds", values)


def _spread_row(instance: str, method: str, metric: str, values: Any, **cells: Any) -> Row:
    ends = {"low": min(values), "high": max(values), "n": len(values)}
    return row(instance, method, metric, float(np.median(values)), **ends, **cells)


def _proof_rows(instance: str, table: pandas.DataFrame) -> Rows:
    """Graphs on which CP-SAT proved the optimum, in percent, and how far its bound is below its
    cost on the others."""
    solved = table[table.method == "cp-sat"].drop_duplicates("graph")
    if solved.empty:
        return
    optimal = solved.optimal.astype(bool)
    proved = 100 * int(optimal.sum()) / len(solved)
    yield row(instance, "cp-sat", "proved_percent", proved, n=len(solved))
    if gaps := [
        100 * (1 - bound / cost)
        for bound, cost in zip(solved.bound[~optimal], solved.cost[~optimal])
    ]:
        yield row(instance, "cp-sat", "open_bound_percent", np.mean(gaps), n=len(gaps))
