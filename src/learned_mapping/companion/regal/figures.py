"""Paper 3's figures: the method, what learned laws change graph by graph, and what more evaluations bring."""

from __future__ import annotations

from typing import Any

import numpy as np

from learned_mapping.companion import results
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.regal.graphs import DATASETS, graph_names, load_graph
from learned_mapping.companion.regal.methods import brought, networks_of, updates_rows
from learned_mapping.companion.statistics import bootstrap_interval, geometric_mean

MEMORY = "traced-memory"
"""The paper's dataset of both figures."""
LIMIT_DATASETS = (MEMORY, "traced-runtime")
"""Of the right one; the second is not in the paper."""
COMPARED = ("regal", "regal-imitation", "regal-imitation-as-printed", "spectral-law")
"""With BRKGA, in the histogram."""
LIMITS = {
    "quick": (1_000, 2_000, 5_000),
    "full": (5_000, 10_000, 20_000, 50_000),
    "paper": (5_000, 10_000, 20_000, 50_000),
}
LIMIT_METHODS = {
    "quick": ("brkga", "regal", "regal-imitation"),
} | dict.fromkeys(
    ("full", "paper"),
    (
        "brkga",
        "regal",
        "regal-imitation",
        "regal-imitation-as-printed",
        "regal-imitation-mean",
        "regal-imitation-initial",
    ),
)
"""The paper's learner; of imitation the use that validation graphs chose, the paper's use, the mean of its laws,
and the first population drawn too."""
LIMIT_SEEDS = {"quick": 1, "full": 3, "paper": 5}
"""Runs of a method, at most: the last limit is ten times that of table 1. A learner takes its networks in turn."""
LIMIT_OPS = {"quick": 100, "full": 10**6, "paper": 10**6}
"""Largest graph taken."""


def assemble_fig1(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """One row per module of the policy, the same for every dataset: its weights."""
    from learned_mapping.regal.agent.network import ROUNDS
    from learned_mapping.regal.agent.policy import untrained
    from learned_mapping.regal.rules.instance import Instance

    policy = untrained(Instance(load_graph("synthetic", graph_names("synthetic")[0])))
    counts: dict[str, int] = {}
    for module, arrays in policy.parameters.items():
        name = module.split("/")[0]
        counts[name] = counts.get(name, 0) + sum(int(np.asarray(a).size) for a in arrays.values())
    rows = [_row(name, "network", "parameters", count, 1) for name, count in counts.items()]
    return {"rows": [*rows, _row("rounds", "network", "rounds", ROUNDS, 1)], "paper": [], "validated": 0, "invalid": 0}


def assemble_fig2_left(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """By how much less memory each test graph needs than with BRKGA, in percent; from table 1's rows."""
    table = results.load("regal.table1", profile)
    ratios = {
        (row["instance"], row["method"]): (1 + row["value"] / 100, row["n"])
        for row in results.select(table, metric="graph_gap_percent")
    }
    trained = {row["method"]: row.get("training_seeds") for row in results.select(table, instance=MEMORY)}
    rows = results.select(table, instance=MEMORY, metric="updates")
    for method in COMPARED:
        values, more = [], {"training_seeds": trained[method]} if trained.get(method) else {}
        for graph in graph_names("traced"):
            ours, base = (ratios.get((f"{MEMORY}/{graph}", m)) for m in (method, "brkga"))
            if ours is not None and base is not None:
                values.append(100 * (1 - ours[0] / base[0]))
                rows.append(_row(graph, method, "improvement_percent", values[-1], ours[1]) | more)
        if values:
            rows.append(_row("all", method, "improved_share", float(np.mean(np.array(values) > 0)), len(values)) | more)
    paper = [
        {"instance": name, "method": "regal", "metric": "improvement_percent", "value": value}
        for name, value in (("best graph", 54.3), ("worst graph", -17.9))
    ]
    return {"rows": rows, "paper": paper, "validated": table["validated"], "invalid": table["invalid"]}


def limit_graphs(profile: str) -> list[str]:
    """The traced test graphs of at most `LIMIT_OPS` ops."""
    return [name for name in graph_names("traced") if load_graph("traced", name).num_ops <= LIMIT_OPS[profile]]


def plan_fig2_right(profile: str, seeds: int) -> list[Run]:
    """One search per method and seed with the last limit; it has passed the others on its way."""
    limits, runs = LIMITS[profile], []
    for dataset in LIMIT_DATASETS:
        config = {
            "kind": "traced", "split": "test", "objective": DATASETS[dataset][1], "transfers": "rendezvous",
            "graphs": limit_graphs(profile), "evaluations": limits[-1], "limits": list(limits),
        }  # fmt: skip
        for method in LIMIT_METHODS[profile]:
            networks = brought(method, dataset)
            for seed in range(min(seeds, LIMIT_SEEDS[profile]) if networks else 0):
                more = networks[seed % len(networks)]
                runs.append(Run("regal.schedule", method, dataset, config | more, seed))
    return runs


def assemble_fig2_right(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Improvement over BRKGA's geometric-mean cost at the first limit, percent; ``instance`` is the limit."""
    rows = []
    for dataset in LIMIT_DATASETS:
        mine = [each for each in records if each["instance"] == dataset]
        rows += _limit_rows(LIMITS[profile], dataset, mine)
        rows += [row | {"dataset": dataset} for row in updates_rows(mine)]
    valid = [outcome["valid"] for record in records for outcome in record["result"]["graphs"].values()]
    return {"rows": rows, "paper": [], "validated": len(valid), "invalid": valid.count(False)}


def _limit_rows(limits: tuple[int, ...], dataset: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    costs: dict[str, dict[str, list[list[float]]]] = {}
    networks = networks_of(records)
    for record in records:
        for graph, outcome in record["result"]["graphs"].items():
            costs.setdefault(record["method"], {}).setdefault(graph, []).append(outcome["costs"])
    rows = []
    base = {graph: float(geometric_mean(np.array([c[0] for c in each]))) for graph, each in costs["brkga"].items()}
    for method, graphs in costs.items():
        for k, limit in enumerate(limits):
            ratios = {graph: [c[k] / base[graph] for c in each] for graph, each in graphs.items()}
            value = float(geometric_mean(np.concatenate([*map(np.asarray, ratios.values())])))
            low, high = bootstrap_interval(ratios, geometric_mean)
            row = _row(str(limit), method, "improvement_percent", 100 * (1 - value), sum(map(len, ratios.values())))
            interval = {"low": 100 * (1 - high), "high": 100 * (1 - low)}
            more = {"graphs": len(ratios), "dataset": dataset}
            if (dataset, method) in networks:
                more["training_seeds"] = len(networks[dataset, method])
            rows.append(row | interval | more)
    return rows


def _row(instance: str, method: str, metric: str, value: float, n: int) -> dict[str, Any]:
    return {"instance": instance, "method": method, "metric": metric, "value": value, "n": n}
