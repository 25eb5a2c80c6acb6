"""What paper 3's tables share: runs by graph, costs among their outcomes, gaps and how methods
compare."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pandas

from learned_mapping_companion import statistics
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.regal import methods as regal_methods
from learned_mapping_companion.regal.methods import (
    NETWORKS,
    brought,
    training_seeds,
    trainings_of,
    updates_rows,
)
from learned_mapping_companion.statistics import geometric_mean
from learned_mapping_companion.table import Record, Records, Rows, row

SPLIT = "split"  # The instance of runs that are timed in parts, and schedule nothing.
Costs = dict[str, dict[str, list[float]]]  # Method -> graph -> cost of each seed.


def config_of(
    kind: str, objective: str, graphs: Iterable[str], evaluations: int, **settings: Any
) -> Record:
    plain = {"kind": kind, "split": "test", "objective": objective, "transfers": "rendezvous"}
    return plain | {"graphs": list(graphs), "evaluations": evaluations} | settings


def runs_of(
    task: str,
    methods: Iterable[str],
    instance: str,
    config: Record,
    seeds: int,
    once: Collection[str] = (),
    networks: int | None = None,
) -> list[Run]:
    """A run for each method, seed, and network of a method that asks one; at most `SEARCH_SEEDS`
    with each network. Methods of `once` have one seed; of the networks only the first `networks`,
    where given."""
    most = dict.fromkeys(NETWORKS, regal_methods.SEARCH_SEEDS) | dict.fromkeys(once, 1)
    return [
        Run(task, method, instance, config | network, seed)
        for method in methods
        for network in brought(method, instance)[:networks]
        for seed in range(min(seeds, most.get(method, seeds)))
    ]


def outcomes(records: Records) -> pandas.DataFrame:
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


def by_instance(records: Records, instances: Iterable[str]) -> list[tuple[str, pandas.DataFrame]]:
    table = outcomes(records)
    return [(instance, table[table.instance == instance]) for instance in instances]


def logs_over(costs: Costs, best: Mapping[str, float]) -> Costs:
    """Logarithms of the costs over the best known, of the graphs that have one."""
    return {
        m: {g: np.log(np.array(known[g]) / best[g]).tolist() for g in best}
        for m, known in costs.items()
    }


def contrast_rows(dataset: str, logs: Costs, baselines: Iterable[str]) -> Rows:
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
        cells = {"n": sum(map(len, logs[method].values())), "graphs": graphs}
        gap, gaps = np.expm1(mean), np.expm1(drawn)
        yield row(dataset, method, "gap_percent", 100 * gap, **ends_of(100 * gaps), **cells)
        for other in [name for name in baselines if name in both and name != method]:
            (base, bases), against = both[other], {"baseline": other}
            if np.expm1(bases).min() > 0:
                ratio, ends = gap / np.expm1(base), ends_of(gaps / np.expm1(bases))
                yield row(dataset, method, "gap_ratio", ratio, **against, **ends, **cells)
            improved, ends = -np.expm1(mean - base), ends_of(100 * -np.expm1(drawn - bases))
            against |= ends | cells
            yield row(dataset, method, "improvement_percent", 100 * improved, **against)


def ends_of(values: np.ndarray) -> dict[str, float]:
    return dict(zip(("low", "high"), statistics.percentiles(values)))


def graph_rows(dataset: str, logs: Costs) -> Rows:
    """``graph_gap_percent`` of each method on each graph, and ``by_training``, of each of its
    trainings alone, where it was trained before."""
    for method, graphs in logs.items():
        behind = trainings_of(method, dataset, len(next(iter(graphs.values()))))
        for graph, values in graphs.items():
            cells = {"n": len(values), "dataset": dataset}
            if behind:
                means = np.reshape(values, (behind[-1] + 1, -1)).mean(axis=1)
                cells["by_training"] = (100 * np.expm1(means)).tolist()
            gap = 100 * np.expm1(np.mean(values))
            yield row(f"{dataset}/{graph}", method, "graph_gap_percent", gap, **cells)


def drawn_means(method: str, dataset: str, values: np.ndarray) -> np.ndarray:
    """[b, limits] means of values [graphs, runs, limits], trainings, graphs and runs drawn anew."""
    behind = trainings_of(method, dataset, values.shape[1])
    tasks, generator = statistics.drawn_tasks(len(values)), np.random.default_rng(1)
    return statistics.drawn_anew(values, tasks, generator, behind).mean(axis=(1, 2))


def with_trainings(assemble: Callable[[Records], Rows]) -> Callable[[Records], Rows]:
    """An assemble function whose rows of a method that asks a network say of how many trainings
    they are, followed by `updates_rows`."""

    def assembled(records: Records) -> Rows:
        scheduled = [r for r in records if r["instance"] != SPLIT]
        trained = training_seeds(scheduled)
        for entry in assemble(records):
            dataset = entry.get("dataset", entry["instance"].partition("/")[0])
            yield entry | trained.get((dataset, entry["method"]), {})
        yield from updates_rows(scheduled)

    return assembled
