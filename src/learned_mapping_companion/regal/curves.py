"""Paper 3's figures: the method, graph by graph, and with more evaluations."""

from collections.abc import Collection, Mapping

import numpy as np

from learned_mapping.regal.agent.network import ROUNDS
from learned_mapping.regal.agent.policy import untrained
from learned_mapping.regal.rules.instance import Instance
from learned_mapping_companion import results
from learned_mapping_companion.artifact import Artifact, Quick, Run, Runs
from learned_mapping_companion.regal.gaps import (
    by_instance,
    config_of,
    drawn_means,
    ends_of,
)
from learned_mapping_companion.regal.graphs import DATASETS, graph_names, load_graph
from learned_mapping_companion.regal.methods import (
    brought,
    training_seeds,
    trainings_of,
    updates_rows,
)
from learned_mapping_companion.table import Record, Records, Rows, row

MEMORY = "traced-memory"  # The paper's dataset of both figures.
LIMIT_DATASETS = (MEMORY, "traced-runtime")  # Of the right one; the second is not in the paper.
COMPARED = ("regal-cloned", "regal-imitation", *("spectral-law", "cut", "priority-law"))
LIMITS = (5_000, 10_000, 20_000, 50_000)
LIMIT_METHODS = ("brkga", "regal", "regal-cloned", "regal-imitation")
LIMIT_SEEDS = 3
"""Runs of a method, at most: the last limit is ten times that of table 1. A learner takes its
networks in turn."""


def assemble_fig1(records: Records) -> Rows:
    """One row per module of the policy, the same for every dataset: its weights."""
    policy = untrained(Instance(load_graph("synthetic", graph_names("synthetic")[0])))
    counts: dict[str, int] = {}
    for module, arrays in policy.parameters.items():
        name = module.split("/")[0]
        counts[name] = counts.get(name, 0) + sum(int(np.asarray(a).size) for a in arrays.values())
    for name, count in counts.items():
        yield row(name, "network", "parameters", count, n=1)
    yield row("rounds", "network", "rounds", ROUNDS, n=1)


FIG1 = Artifact("regal.fig1", assemble_fig1)


def assemble_fig2_left(records: Records, table: Record) -> Rows:
    """The percent of memory that each untouched graph needs less than with BRKGA; from the rows of
    `regal.test`."""
    updates = results.select(table, instance=MEMORY, metric="updates")
    updates = [entry for entry in updates if entry["method"] in COMPARED]
    yield from updates
    seeds_of = {entry["method"]: entry["training_seeds"] for entry in updates}
    rows = results.select(table, metric="graph_gap_percent", dataset=MEMORY)
    gaps = {(entry["method"], entry["instance"].partition("/")[2]): entry for entry in rows}
    for (method, graph), ours in gaps.items():
        if method in COMPARED:
            base = 1 + gaps["brkga", graph]["value"] / 100
            less = 100 * (1 - (1 + ours["value"] / 100) / base)
            cells = {"training_seeds": seeds_of[method]} if method in seeds_of else {}
            if trained := ours.get("by_training"):
                cells["by_training"] = [100 * (1 - (1 + gap / 100) / base) for gap in trained]
            yield row(graph, method, "improvement_percent", less, n=ours["n"], **cells)


FIG2_LEFT = Artifact("regal.fig2_left", assemble_fig2_left)


def plan_fig2_right(seeds: int) -> Runs:
    """One search per method and seed with the last limit; it has passed the others on its way."""
    names = graph_names("traced")
    for dataset in LIMIT_DATASETS:
        config = config_of("traced", DATASETS[dataset][1], names, LIMITS[-1], limits=list(LIMITS))
        for method in LIMIT_METHODS:
            networks = brought(method, dataset)
            for seed in range(min(seeds, LIMIT_SEEDS) if networks else 0):
                network = networks[seed % len(networks)]
                yield Run("regal.schedule", method, dataset, config | network, seed)


def assemble_fig2_right(records: Records) -> Rows:
    """By limit, which is the ``instance``: ``improvement_percent``, by how much a cost is below
    BRKGA's at the first limit; ``over_brkga_percent``, below BRKGA's at the last one;
    ``gain_percent``, below the method's own at the first. Geometric means; trainings, graphs and
    runs are all drawn anew. ``graph_cost`` of each graph, at the first ``limit`` and the last."""
    trained, limits = training_seeds(records), records[0]["config"]["limits"]
    for dataset, of_dataset in by_instance(records, LIMIT_DATASETS):
        groups = of_dataset.groupby("method", sort=False)
        # [graphs, runs, limits] logarithms of costs, and their means over what is drawn anew.
        logs = {
            m: np.log([list(costs) for _, costs in runs.groupby("graph").costs])
            for m, runs in groups
        }
        drawn = {method: drawn_means(method, dataset, values) for method, values in logs.items()}
        for method, values in logs.items():
            mean, cells = values.mean(axis=(0, 1)), trained.get((dataset, method), {})
            cells |= {"graphs": len(values), "dataset": dataset, "n": values[..., 0].size}
            for k, limit in enumerate(limits):
                others = {"improvement_percent": ("brkga", 0), "over_brkga_percent": ("brkga", -1)}
                for metric, (other, j) in (others | {"gain_percent": (method, 0)}).items():
                    below = -np.expm1(mean[k] - logs[other].mean(axis=(0, 1))[j])
                    ends = ends_of(100 * -np.expm1(drawn[method][:, k] - drawn[other][:, j]))
                    yield row(str(limit), method, metric, 100 * below, **ends, **cells)
        last = dict(zip(sorted(set(of_dataset.graph)), logs["brkga"][..., -1].mean(axis=1)))
        for method, values in logs.items():
            yield from _limit_graph_rows(dataset, method, values, last, limits)
        for entry in updates_rows(r for r in records if r["instance"] == dataset):
            yield entry | {"dataset": dataset}


FIG2_RIGHT = Artifact(
    "regal.fig2_right",
    assemble_fig2_right,
    plan_fig2_right,
    Quick(seeds=1, config={"graphs": ("squeezenet", "unet"), "limits": 2, "evaluations": 10_000}),
)


def _limit_graph_rows(
    dataset: str, method: str, logs: np.ndarray, last: Mapping[str, float], limits: Collection[int]
) -> Rows:
    """``graph_cost`` of a method [graphs, runs, limits], over BRKGA's at the last limit."""
    behind = trainings_of(method, dataset, logs.shape[1])
    for k, limit in ((0, min(limits)), (-1, max(limits))):
        for (graph, base), runs in zip(last.items(), logs[..., k]):
            cells = {"n": len(runs), "dataset": dataset, "limit": str(limit)}
            if behind:
                means = np.reshape(runs, (behind[-1] + 1, -1)).mean(axis=1)
                cells["by_training"] = np.exp(means - base).tolist()
            cost = np.exp(runs.mean() - base)
            yield row(f"{dataset}/{graph}", method, "graph_cost", cost, **cells)
