"""Paper 3's tables and figures: REGAL and its baselines on traced and synthetic graphs.

`regal.test` is Table 1 again, on test sets on which nothing was ever chosen: all 98 topologies of
`traced`'s test split, of five families that no training graph has, each with noise; one in ten of
the 1,000 test graphs of `synthetic`. The sixteen graphs of each kind in `regal.table1` were looked
at while methods were developed.

`regal.limit` is running time where memory binds. The paper gives both devices 16 GiB, which no
graph here fills; here the limit of a graph lies between the least peak that a search for memory
finds and the peak of the fastest list schedule, a `LIMIT_SHARE` of the way up.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas

from learned_mapping.regal.agent.network import ROUNDS
from learned_mapping.regal.agent.policy import untrained
from learned_mapping.regal.methods import EVALUATIONS
from learned_mapping.regal.rules.instance import Instance
from learned_mapping_companion import results, statistics
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.regal import methods as regal_methods
from learned_mapping_companion.regal.graphs import (
    DATASETS,
    best_entries,
    family_of,
    graph_names,
    load_graph,
)
from learned_mapping_companion.regal.methods import (
    NETWORKS,
    brought,
    training_seeds,
    trainings_of,
    updates_rows,
)
from learned_mapping_companion.regal.runs import PARTS, RULES
from learned_mapping_companion.statistics import geometric_mean
from learned_mapping_companion.table import (
    Record,
    Row,
    assembled,
    from_part,
    gap_row,
    row,
    summary_row,
)

Costs = dict[str, dict[str, list[float]]]  # Method -> graph -> cost of each seed.

SEARCHES = ("brkga", "brkga-tuned", "local-search", "random")

QUICK_GRAPHS = {
    "traced": ("squeezenet", "tagger-6"),
    "synthetic": ("random-dag-40", "towers-70", "layered-100"),
}
LONG_EVALUATIONS = {"quick": 10_000, "full": 30_000, "paper": 1_000_000}
SOLVER_TIME = {"full": 3.0, "paper": 10_000.0}
"""CP-SAT's limit per graph in its own units of work; in ``quick`` it does not take part."""
EXACT_TIME = {"quick": 1.0, "full": 15.0, "paper": 10_000.0}
EXACT_SETS = {"quick": ("small",), "full": ("small", "twenty"), "paper": ("small", "twenty")}
TIME_OPS = {"quick": (50, 100, 200)} | dict.fromkeys(
    ("full", "paper"), (50, 100, 200, 500, 1000, 2000, 5000)
)

MEMORY = "traced-memory"  # The paper's dataset of both figures.
LIMIT_DATASETS = (MEMORY, "traced-runtime")  # Of the right one; the second is not in the paper.
COMPARED = ("regal-cloned", "regal-imitation", "spectral-law")  # With BRKGA, in the histogram.
LIMITS = {"quick": (1_000, 2_000, 5_000)} | dict.fromkeys(
    ("full", "paper"), (5_000, 10_000, 20_000, 50_000)
)
LIMIT_METHODS = ("brkga", "regal", "regal-cloned", "regal-imitation")
LIMIT_SEEDS = {"quick": 1, "full": 3, "paper": 5}
"""Runs of a method, at most: the last limit is ten times that of table 1. A learner takes its
networks in turn."""
LIMIT_OPS = {"quick": 100, "full": 10**6, "paper": 10**6}  # Largest graph taken.

TEST_SEEDS = 2  # Of a search that asks no network; one with each network of a learner.
QUICK_TEST = {"graphs": 3, "methods": ("brkga", "spectral-law", "regal", "regal-imitation")}
BASELINES = (
    "brkga",
    "local-search",
    "spectral-law",
    "spectral-race",
    "priority-law",
    "regal",
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
QUICK_LIMITED_METHODS = ("list-scheduler", "brkga", "regal")


def _graphs(kind: str, profile: str) -> list[str]:
    return [name for name in graph_names(kind) if profile != "quick" or name in QUICK_GRAPHS[kind]]


def config_of(
    kind: str, objective: str, graphs: Iterable[str], evaluations: int, **more: Any
) -> dict[str, Any]:
    plain = {"kind": kind, "split": "test", "objective": objective, "transfers": "rendezvous"}
    return plain | {"graphs": list(graphs), "evaluations": evaluations} | more


def runs_of(
    task: str,
    methods: Iterable[str],
    instance: str,
    config: Record,
    seeds: int,
    networks: int | None = None,
    once: Collection[str] = (),
) -> list[Run]:
    """A run for each method, seed, and network of a method that asks one; at most `SEARCH_SEEDS`
    with each network.

    Of the networks only the first `networks`, where given; methods of `once` have one seed.
    """
    most = dict.fromkeys(NETWORKS, regal_methods.SEARCH_SEEDS) | dict.fromkeys(once, 1)
    return [
        Run(task, method, instance, config | more, seed)
        for method in methods
        for more in brought(method, instance)[:networks]
        for seed in range(min(seeds, most.get(method, seeds)))
    ]


def _per_graph(task: str, method: str, instance: str, config: dict[str, Any]) -> list[Run]:
    """One run per graph, so that the dear ones can be spread and resumed."""
    return [Run(task, method, instance, config | {"graphs": [g]}, 0) for g in config["graphs"]]


def outcomes(records: Iterable[Record]) -> pandas.DataFrame:
    """A line per run and graph: instance, method and graph, and what the run says of the graph."""
    return pandas.DataFrame([
        {"instance": record["instance"], "method": record["method"], "graph": graph, **outcome}
        for record in records
        for graph, outcome in record["result"]["graphs"].items()
    ])  # fmt: skip


def costs_of(table: pandas.DataFrame) -> Costs:
    """The costs among `outcomes`, in the order of the runs."""
    costs: Costs = {}
    for method, graph, cost in zip(table.method, table.graph, table.cost):
        costs.setdefault(method, {}).setdefault(graph, []).append(cost)
    return costs


def mean_costs(table: pandas.DataFrame) -> pandas.DataFrame:
    """Geometric means of the costs among `outcomes`: a line per graph, a column per method."""
    means = {
        method: {graph: float(geometric_mean(runs)) for graph, runs in known.items()}
        for method, known in costs_of(table).items()
    }
    return pandas.DataFrame(means)


def best_known(costs: Costs, stored: Mapping[str, Record] | None = None) -> dict[str, float]:
    """Graph -> the least cost of any method, and of the `stored` ones of `graphs.best_entries`."""
    known = {graph: entry["cost"] for graph, entry in (stored or {}).items()}
    return {
        graph: min(known.get(graph, np.inf), *(min(by_graph[graph]) for by_graph in costs.values()))
        for graph in next(iter(costs.values()))
    }


def plan_table1(profile: str, seeds: int) -> list[Run]:
    runs = []
    learners, networks = regal_methods.LEARNERS, None
    if profile == "quick":
        learners, networks = regal_methods.QUICK_LEARNERS, 1
    for dataset, (kind, objective) in DATASETS.items():
        config = config_of(kind, objective, _graphs(kind, profile), EVALUATIONS)
        runs += runs_of(
            "regal.schedule", (*SEARCHES, *RULES, *learners), dataset, config, seeds, networks
        )
        runs += _per_graph(
            "regal.long",
            "long-search",
            dataset,
            config | {"evaluations": LONG_EVALUATIONS[profile]},
        )
        if profile in SOLVER_TIME:
            runs += _per_graph(
                "regal.prove", "cp-sat", dataset, config | {"solver_time": SOLVER_TIME[profile]}
            )
    return runs


def assemble_table1(profile: str, records: list[Record]) -> Record:
    """Gaps to the best known cost: the least of any method, of the long searches, and of the
    schedules stored."""
    entries: list[Row] = []
    for dataset, here in _by_instance(records, DATASETS):
        costs, (kind, objective) = costs_of(here), DATASETS[dataset]
        logs = _logs(costs, best_known(costs, best_entries(kind, objective)))
        entries += _contrast_rows(dataset, logs, DEVELOPMENT_BASELINES)
        entries += _beats_rows(dataset, costs)
        entries += _seconds_rows(dataset, here) + _proof_rows(dataset, here)
        entries += _graph_rows(dataset, logs)
    return result_of(entries, records)


def _graph_rows(dataset: str, logs: Costs) -> Iterator[Row]:
    """``graph_gap_percent`` of each method on each graph, and ``by_training``, of each of its
    trainings alone, where it was trained before."""
    for method, graphs in logs.items():
        behind = trainings_of(method, dataset, len(next(iter(graphs.values()))))
        for graph, values in graphs.items():
            about = {"n": len(values), "dataset": dataset}
            if behind:
                means = np.reshape(values, (behind[-1] + 1, -1)).mean(axis=1)
                about["by_training"] = (100 * np.expm1(means)).tolist()
            gap = 100 * np.expm1(np.mean(values))
            yield row(f"{dataset}/{graph}", method, "graph_gap_percent", gap, **about)


def plan_test(profile: str, seeds: int) -> list[Run]:
    """A run for each method, network or seed, over all graphs of a dataset."""
    runs, methods, quick = [], (*SEARCHES, *RULES, *regal_methods.LEARNERS), profile == "quick"
    for dataset, (_, objective) in DATASETS.items():
        graphs = graph_names(dataset)[: QUICK_TEST["graphs"] if quick else None]
        config = config_of(dataset, objective, graphs, EVALUATIONS)
        shown, count = (QUICK_TEST["methods"], 1) if quick else (methods, min(seeds, TEST_SEEDS))
        runs += runs_of(
            "regal.schedule",
            shown,
            dataset,
            config,
            count,
            1 if quick else None,
            (*NETWORKS, *RULES),
        )
    return runs


def assemble_test(profile: str, records: list[Record]) -> Record:
    """Rows by dataset and method, with 95% intervals over graphs and runs drawn anew.

    ``gap_percent``, to the stored best schedule, so that a method that comes later moves no other's
    gap; ``gap_ratio``, that gap over a `BASELINES`' own; ``improvement_percent``, by how much the
    cost is below a `BASELINES`'; ``family_ratio``, the ratio to BRKGA's gap with an interval for
    which families of graphs are drawn anew too; ``training_percent``, the same of each training of
    `regal` alone, below BRKGA's; ``graph_gap_percent`` of each graph, over its runs.
    """
    by_dataset = outcomes(records).groupby("instance", sort=False)
    return result_of(
        [entry for dataset, here in by_dataset for entry in _test_rows(dataset, costs_of(here))],
        records,
    )


def _test_rows(dataset: str, costs: Costs) -> Iterator[Row]:
    best, stored = best_known(costs), best_entries(dataset, DATASETS[dataset][1])
    best |= {graph: stored[graph]["cost"] for graph in best if graph in stored}
    logs = _logs(costs, best)
    yield from _contrast_rows(dataset, logs, BASELINES)
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
            more = {"baseline": "brkga", **_ends(drawn / base), "n": ours.size, "graphs": len(best)}
            yield row(
                dataset,
                method,
                "family_ratio",
                np.expm1(ours.mean()) / np.expm1(brkga.mean()),
                **more,
            )
    yield from _graph_rows(dataset, logs)
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


def _logs(costs: Costs, best: Mapping[str, float]) -> Costs:
    """Logarithms of the costs over the best known, of the graphs that have one."""
    return {
        m: {g: np.log(np.array(known[g]) / best[g]).tolist() for g in best}
        for m, known in costs.items()
    }


def _drawn_trainings(method: str, dataset: str, runs: int) -> np.ndarray:
    """[`RESAMPLES`, runs] which of a method's runs, one of each training, are drawn."""
    count = runs if trainings_of(method, dataset, runs) else 1
    drawn = np.random.default_rng(3).integers(0, count, size=(statistics.RESAMPLES, runs))
    return drawn if count == runs else np.tile(np.arange(runs), (statistics.RESAMPLES, 1))


def _contrast_rows(dataset: str, logs: Costs, baselines: Iterable[str]) -> Iterator[Row]:
    """``gap_percent`` of each method; its ``gap_ratio`` and ``improvement_percent`` against each
    baseline. Trainings of a method that was trained, graphs and runs are all drawn anew; methods
    share the graphs."""
    graphs = len(next(iter(logs.values())))
    tasks = statistics.drawn_tasks(graphs)
    # The mean logarithm of a method's gaps, and the means of what is drawn anew.
    both = {}
    for method, log in logs.items():
        behind = trainings_of(method, dataset, len(next(iter(log.values()))))
        drawn = statistics.resampled_means(log, tasks, np.random.default_rng(1), behind)
        both[method] = float(np.mean(list(log.values()))), drawn
    for method, (mean, drawn) in both.items():
        about = {"n": sum(map(len, logs[method].values())), "graphs": graphs}
        gap, gaps = np.expm1(mean), np.expm1(drawn)
        yield row(dataset, method, "gap_percent", 100 * gap, **_ends(100 * gaps), **about)
        for other in [name for name in baselines if name in both and name != method]:
            (base, bases), more = both[other], {"baseline": other}
            if np.expm1(bases).min() > 0:
                ratio, ends = gap / np.expm1(base), _ends(gaps / np.expm1(bases))
                yield row(dataset, method, "gap_ratio", ratio, **more, **ends, **about)
            improved, ends = -np.expm1(mean - base), _ends(100 * -np.expm1(drawn - bases))
            yield row(
                dataset, method, "improvement_percent", 100 * improved, **more, **ends, **about
            )


def _ends(values: np.ndarray) -> dict[str, float]:
    return dict(zip(("low", "high"), statistics.percentiles(values)))


def plan_limit(profile: str, seeds: int) -> list[Run]:
    """Few methods, graphs, seeds and networks in ``quick``."""
    quick = profile == "quick"
    config = {
        "graphs": _graphs("synthetic", profile),
        "share": LIMIT_SHARE,
        "evaluations": EVALUATIONS,
    }
    methods, count = (
        (QUICK_LIMITED_METHODS, 1) if quick else (LIMITED_METHODS, min(seeds, LIMITED_SEEDS))
    )
    once = (*NETWORKS, *RULES)
    return runs_of(
        "regal.limit", methods, LIMITED_DATASET, config, count, 1 if quick else None, once
    )


def assemble_limit(profile: str, records: list[Record]) -> Record:
    """``feasible_percent``, of runs that keep the limit; ``gap_percent`` of those, to the best
    known of them."""
    table, entries = outcomes(records), list[Row]()
    kept = table[table.fits.astype(bool)]
    best, keeping = (
        kept.groupby("graph").cost.min().to_dict(),
        costs_of(kept.sort_values("graph", kind="stable")),
    )
    for method, runs in table.groupby("method", sort=False):
        more = {"graphs": runs.graph.nunique()}
        share = {
            graph: (100.0 * group.fits.astype(float)).tolist()
            for graph, group in runs.groupby("graph")
        }
        entries.append(
            summary_row(
                LIMITED_DATASET, method, "feasible_percent", share, statistic=np.mean, **more
            )
        )
        if method in keeping:
            entries += _gap_rows(LIMITED_DATASET, {method: keeping[method]}, best, **more)
    return result_of(entries, records)


def _drawn_means(method: str, dataset: str, values: np.ndarray) -> np.ndarray:
    """[b, limits] means of values [graphs, runs, limits], trainings, graphs and runs drawn anew."""
    behind = trainings_of(method, dataset, values.shape[1])
    tasks, generator = statistics.drawn_tasks(len(values)), np.random.default_rng(1)
    return statistics.drawn_anew(values, tasks, generator, behind).mean(axis=(1, 2))


def _by_instance(
    records: Iterable[Record], instances: Iterable[str]
) -> list[tuple[str, pandas.DataFrame]]:
    table = outcomes(records)
    return [(instance, table[table.instance == instance]) for instance in instances]


def plan_time(profile: str, seeds: int) -> list[Run]:
    config = {"ops": list(TIME_OPS[profile]), "evaluations": EVALUATIONS}
    runs = runs_of("regal.sizes", (*SEARCHES, *RULES), "layered", config, seeds)
    traced = config_of("traced", "runtime", _graphs("traced", profile), EVALUATIONS)
    methods = ("brkga", "local-search", "regal", "regal-imitation")
    runs += runs_of("regal.schedule", methods, "traced-runtime", traced, seeds, 1)
    first = brought("regal", "traced-runtime")[:1]
    return runs + [Run("regal.split", "regal", "split", traced | more, 0) for more in first]


def assemble_time(profile: str, records: list[Record]) -> Record:
    """CPU seconds per graph, compilation apart: per size, and the mean over traced test graphs;
    ``graph_seconds`` of each of them."""
    (_, sizes), (_, traced), (_, split) = _by_instance(
        records, ("layered", "traced-runtime", "split")
    )
    entries = [
        _spread_row(f"{ops} ops", method, "seconds_by_size", runs.seconds.tolist(), ops=int(ops))
        for (method, ops), runs in sizes.groupby(["method", "graph"], sort=False)
    ]
    entries += [
        _spread_row("traced graphs", p, "part_seconds", split[p].tolist())
        for p in PARTS
        if len(split)
    ]
    entries += [
        _spread_row(f"traced-runtime/{g}", m, "graph_seconds", runs.seconds.tolist())
        | {"dataset": "traced-runtime"}
        for (m, g), runs in traced.groupby(["method", "graph"], sort=False)
    ]
    return result_of(
        entries + _seconds_rows("traced-runtime", traced),
        [r for r in records if r["instance"] != "split"],
    )


def _exact_sets(profile: str) -> dict[str, tuple[str, str]]:
    return {
        f"{split}-{o}": (split, o)
        for split, o in itertools.product(EXACT_SETS[profile], ("runtime", "memory"))
    }


def plan_exact(profile: str, seeds: int) -> list[Run]:
    runs = []
    for instance, (split, objective) in _exact_sets(profile).items():
        graphs = graph_names("synthetic", split)[:: 3 if profile == "quick" else 1]
        config = config_of("synthetic", objective, graphs, EVALUATIONS, split=split)
        runs += runs_of("regal.schedule", (*SEARCHES, *RULES), instance, config, seeds)
        runs += _per_graph(
            "regal.prove", "cp-sat", instance, config | {"solver_time": EXACT_TIME[profile]}
        )
    return runs


def assemble_exact(profile: str, records: list[Record]) -> Record:
    """Gaps to CP-SAT's cost, which is the optimum where it says so; only such graphs count."""
    entries: list[Row] = []
    for instance, here in _by_instance(records, _exact_sets(profile)):
        solved = here[here.method == "cp-sat"].drop_duplicates("graph")
        optimal = solved[solved.optimal.astype(bool)]
        entries += _proof_rows(instance, here)
        if len(optimal):
            optimum = dict(zip(optimal.graph, optimal.cost))
            entries += _gap_rows(instance, costs_of(here[here.graph.isin(optimum)]), optimum)
        entries += _seconds_rows(instance, here)
    return result_of(entries, records)


def _gap_rows(
    instance: str, costs: Costs, reference: Mapping[str, float], **more: Any
) -> list[Row]:
    """Geometric means over graphs and seeds of cost over reference, as percent above it; intervals
    over the seeds."""
    ratios = {
        method: {
            graph: (np.array(values) / reference[graph]).tolist() for graph, values in known.items()
        }
        for method, known in costs.items()
    }
    return [
        gap_row(instance, method, "gap_percent", known, **more) for method, known in ratios.items()
    ]


def _beats_rows(instance: str, costs: Costs) -> Iterator[Row]:
    """The probability that a run of a method beats one of BRKGA's on the same graph."""
    for method in [method for method in costs if method not in ("brkga", "long-search")]:
        ours, theirs = (
            {g: [-cost for cost in v] for g, v in costs[m].items()} for m in (method, "brkga")
        )
        yield row(
            instance, method, "beats_brkga", statistics.probability_of_improvement(ours, theirs)
        )


def _seconds_rows(instance: str, table: pandas.DataFrame) -> list[Row]:
    """Mean CPU seconds per graph, one value per seed."""
    entries = []
    for method, runs in table.groupby("method", sort=False):
        turn = runs.groupby("graph").cumcount()
        whole = runs.groupby("graph").size().min()
        values = [
            float(np.mean(turn_runs.seconds.to_numpy()))
            for _, turn_runs in runs[turn < whole].groupby(turn)
        ]
        entries.append(_spread_row(instance, method, "seconds", values))
    return entries


def _spread_row(instance: str, method: str, metric: str, values: list[float], **more: Any) -> Row:
    ends = {"low": min(values), "high": max(values), "n": len(values)}
    return row(instance, method, metric, float(np.median(values)), **ends, **more)


def _proof_rows(instance: str, table: pandas.DataFrame) -> list[Row]:
    """Graphs on which CP-SAT proved the optimum, in percent, and how far its bound is below its
    cost on the others."""
    solved = table[table.method == "cp-sat"].drop_duplicates("graph")
    if solved.empty:
        return []
    optimal = solved.optimal.astype(bool)
    entries = [
        row(
            instance,
            "cp-sat",
            "proved_percent",
            100 * int(optimal.sum()) / len(solved),
            n=len(solved),
        )
    ]
    gaps = [
        100 * (1 - bound / cost)
        for bound, cost in zip(solved.bound[~optimal], solved.cost[~optimal])
    ]
    return entries + (
        [row(instance, "cp-sat", "open_bound_percent", np.mean(gaps), n=len(gaps))] if gaps else []
    )


def result_of(entries: list[Row], records: list[Record]) -> Record:
    """Rows of a method that asks a network say of how many trainings it was."""
    trained = training_seeds(records)
    entries = [
        entry
        | trained.get(
            (entry.get("dataset", entry["instance"].partition("/")[0]), entry["method"]), {}
        )
        for entry in entries
    ]
    return assembled(entries + updates_rows(records), valid=outcomes(records).valid)


def assemble_fig1(profile: str, records: list[Record]) -> Record:
    """One row per module of the policy, the same for every dataset: its weights."""
    policy = untrained(Instance(load_graph("synthetic", graph_names("synthetic")[0])))
    counts: dict[str, int] = {}
    for module, arrays in policy.parameters.items():
        name = module.split("/")[0]
        counts[name] = counts.get(name, 0) + sum(int(np.asarray(a).size) for a in arrays.values())
    entries = [row(name, "network", "parameters", count, n=1) for name, count in counts.items()]
    return assembled([*entries, row("rounds", "network", "rounds", ROUNDS, n=1)])


def assemble_fig2_left(profile: str, records: list[Record]) -> Record:
    """The percent of memory that each untouched graph needs less than with BRKGA; from the rows of
    `regal.test`."""
    table = results.load("regal.test", profile)
    entries = [
        r
        for r in results.select(table, instance=MEMORY, metric="updates")
        if r["method"] in COMPARED
    ]
    about = {entry["method"]: entry["training_seeds"] for entry in entries}
    rows = results.select(table, metric="graph_gap_percent", dataset=MEMORY)
    gaps = {(entry["method"], entry["instance"].partition("/")[2]): entry for entry in rows}
    for (method, graph), ours in gaps.items():
        if method in COMPARED:
            base = 1 + gaps["brkga", graph]["value"] / 100
            less = 100 * (1 - (1 + ours["value"] / 100) / base)
            more = {"training_seeds": about[method]} if method in about else {}
            if trained := ours.get("by_training"):
                more["by_training"] = [100 * (1 - (1 + gap / 100) / base) for gap in trained]
            entries.append(row(graph, method, "improvement_percent", less, n=ours["n"], **more))
    return from_part(table, entries)


def plan_fig2_right(profile: str, seeds: int) -> list[Run]:
    """One search per method and seed with the last limit; it has passed the others on its way."""
    limits, runs = LIMITS[profile], []
    names = [
        name
        for name in graph_names("traced")
        if load_graph("traced", name).num_ops <= LIMIT_OPS[profile]
    ]
    for dataset in LIMIT_DATASETS:
        config = config_of("traced", DATASETS[dataset][1], names, limits[-1], limits=list(limits))
        for method in LIMIT_METHODS:
            networks = brought(method, dataset)
            for seed in range(min(seeds, LIMIT_SEEDS[profile]) if networks else 0):
                more = networks[seed % len(networks)]
                runs.append(Run("regal.schedule", method, dataset, config | more, seed))
    return runs


def assemble_fig2_right(profile: str, records: list[Record]) -> Record:
    """By limit, which is the ``instance``: ``improvement_percent``, by how much a cost is below
    BRKGA's at the first limit; ``over_brkga_percent``, below BRKGA's at the last one;
    ``gain_percent``, below the method's own at the first. Geometric means; trainings, graphs and
    runs are all drawn anew. ``graph_cost`` of each graph, at the first ``limit`` and the last."""
    entries, trained, limits = [], training_seeds(records), LIMITS[profile]
    for dataset, here in _by_instance(records, LIMIT_DATASETS):
        groups = here.groupby("method", sort=False)
        # [graphs, runs, limits] logarithms of costs, and their means over what is drawn anew.
        logs = {
            m: np.log([list(costs) for _, costs in runs.groupby("graph").costs])
            for m, runs in groups
        }
        drawn = {method: _drawn_means(method, dataset, values) for method, values in logs.items()}
        for method, values in logs.items():
            mean, more = (
                values.mean(axis=(0, 1)),
                {"graphs": len(values), "dataset": dataset, "n": values[..., 0].size},
            )
            more |= trained.get((dataset, method), {})
            for k, limit in enumerate(limits):
                others = {"improvement_percent": ("brkga", 0), "over_brkga_percent": ("brkga", -1)}
                for metric, (other, j) in (others | {"gain_percent": (method, 0)}).items():
                    below = -np.expm1(mean[k] - logs[other].mean(axis=(0, 1))[j])
                    ends = _ends(100 * -np.expm1(drawn[method][:, k] - drawn[other][:, j]))
                    entries.append(row(str(limit), method, metric, 100 * below, **ends, **more))
        last = dict(zip(sorted(set(here.graph)), logs["brkga"][..., -1].mean(axis=1)))
        for method, values in logs.items():
            entries += _limit_graph_rows(dataset, method, values, last, limits)
        entries += [
            r | {"dataset": dataset}
            for r in updates_rows(r for r in records if r["instance"] == dataset)
        ]
    return assembled(entries, valid=outcomes(records).valid)


def _limit_graph_rows(
    dataset: str, method: str, logs: np.ndarray, last: Mapping[str, float], limits: Collection[int]
) -> Iterator[Row]:
    """``graph_cost`` of a method [graphs, runs, limits], over BRKGA's at the last limit."""
    behind = trainings_of(method, dataset, logs.shape[1])
    for k, limit in ((0, min(limits)), (-1, max(limits))):
        for (graph, base), runs in zip(last.items(), logs[..., k]):
            about = {"n": len(runs), "dataset": dataset, "limit": str(limit)}
            if behind:
                means = np.reshape(runs, (behind[-1] + 1, -1)).mean(axis=1)
                about["by_training"] = np.exp(means - base).tolist()
            cost = np.exp(runs.mean() - base)
            yield row(f"{dataset}/{graph}", method, "graph_cost", cost, **about)
