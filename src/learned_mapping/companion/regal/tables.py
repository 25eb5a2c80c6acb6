"""Paper 3's tables: REGAL and its baselines on traced and synthetic graphs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.regal import methods as regal_methods
from learned_mapping.companion.regal.graphs import DATASETS, graph_names, load_graph
from learned_mapping.companion.regal.methods import NETWORKS, brought, networks_of, updates_rows
from learned_mapping.companion.statistics import bootstrap_interval, geometric_mean, probability_of_improvement
from learned_mapping.regal.methods import EVALUATIONS

Record = dict[str, Any]
Costs = dict[str, dict[str, list[float]]]
"""Method -> graph -> cost of each seed."""

SEARCHES = ("brkga", "brkga-tuned", "local-search", "random")
RULES = ("gp-dfs", "gp-list", "list-scheduler")

QUICK_GRAPHS = {"traced": ("squeezenet", "tagger-6"), "synthetic": ("random-dag-40", "towers-70", "layered-100")}
LONG_EVALUATIONS = {"quick": 10_000, "full": 30_000, "paper": 1_000_000}
SOLVER_TIME = {"full": 3.0, "paper": 10_000.0}
"""CP-SAT's limit per graph in its own units of work; in ``quick`` it does not take part."""
EXACT_TIME = {"quick": 1.0, "full": 15.0, "paper": 10_000.0}
EXACT_SETS = {"quick": ("small",), "full": ("small", "twenty"), "paper": ("small", "twenty")}
TIME_OPS = {"quick": (50, 100, 200)} | dict.fromkeys(("full", "paper"), (50, 100, 200, 500, 1000, 2000, 5000))

LARGE_OPS = 150
"""Graphs above this size have rows of their own in table 1."""

TABLE_1 = {
    "cp-sat": (1.00, 8.06, 0.00), "gp-dfs": (66.98, 14.77, 93.66), "local-search": (22.63, 7.24, 24.60),
    "brkga": (20.19, 7.98, 24.63), "brkga-tuned": (16.40, 7.11, 20.76), "gas": (15.24, 7.67, 23.48),
    "idrs": (28.60, 12.39, 39.72), "regal": (11.04, 4.44, 18.57),
}  # fmt: skip
"""The paper's table 1, percent, in the order of `DATASETS`."""


def _graphs(kind: str, profile: str, split: str = "test") -> list[str]:
    names = graph_names(kind, split)
    return [name for name in names if profile != "quick" or name in QUICK_GRAPHS[kind]]


def _config(kind: str, objective: str, graphs: Iterable[str], evaluations: int, **more: Any) -> dict[str, Any]:
    plain = {"kind": kind, "split": "test", "objective": objective, "transfers": "rendezvous"}
    return plain | {"graphs": list(graphs), "evaluations": evaluations} | more


def _runs(
    task: str, methods: Iterable[str], instance: str, config: Record, seeds: int, networks: int | None = None
) -> list[Run]:
    """A run for each method, seed, and network of a method that asks one; at most `SEARCH_SEEDS` with each network.

    Of the networks only the first `networks`, where given.
    """
    return [
        Run(task, method, instance, config | more, seed)
        for method in methods
        for more in brought(method, instance)[:networks]
        for seed in range(min(seeds, regal_methods.SEARCH_SEEDS) if method in NETWORKS else seeds)
    ]


def _per_graph(task: str, method: str, instance: str, config: dict[str, Any]) -> list[Run]:
    """One run per graph, so that the dear ones can be spread and resumed."""
    return [Run(task, method, instance, config | {"graphs": [g]}, 0) for g in config["graphs"]]


def plan_table1(profile: str, seeds: int) -> list[Run]:
    runs = []
    for dataset, (kind, objective) in DATASETS.items():
        config = _config(kind, objective, _graphs(kind, profile), EVALUATIONS)
        learners = regal_methods.QUICK_LEARNERS if profile == "quick" else regal_methods.LEARNERS
        networks = 1 if profile == "quick" else None
        runs += _runs("regal.schedule", (*SEARCHES, *RULES, *learners), dataset, config, seeds, networks)
        runs += _per_graph("regal.long", "long-search", dataset, config | {"evaluations": LONG_EVALUATIONS[profile]})
        if profile in SOLVER_TIME:
            runs += _per_graph("regal.prove", "cp-sat", dataset, config | {"solver_time": SOLVER_TIME[profile]})
    return runs


def assemble_table1(profile: str, records: list[Record]) -> dict[str, Any]:
    """Gaps to the best known cost, which is the least of any method, the long searches included."""
    rows = []
    for dataset in DATASETS:
        costs, outcomes = _collect(records, dataset)
        best = _best_known(costs)
        rows += _gap_rows(dataset, costs, best)
        rows += _gap_rows(dataset, _large(dataset, costs), best, metric="large_gap_percent", compare=False)
        rows += _seconds_rows(dataset, outcomes)
        rows += _proof_rows(dataset, outcomes.get("cp-sat", {}))
        for method in costs:
            ratios = {graph: np.array(v) / best[graph] for graph, v in costs[method].items()}
            for graph, ratio in ratios.items():
                row = {"instance": f"{dataset}/{graph}", "method": method, "metric": "graph_gap_percent"}
                rows.append(row | {"value": 100 * (float(geometric_mean(ratio)) - 1), "n": len(ratio)})
    paper = [
        {"instance": dataset, "method": method, "metric": "gap_percent", "value": value}
        for method, values in TABLE_1.items()
        for dataset, value in zip(DATASETS, values)
    ]
    return _result(rows, paper, records)


def _large(dataset: str, costs: Costs) -> Costs:
    """The costs on graphs of more than `LARGE_OPS` ops."""
    kind = DATASETS[dataset][0]
    large = {graph for graph in graph_names(kind) if load_graph(kind, graph).num_ops > LARGE_OPS}
    kept = {method: {g: v for g, v in found.items() if g in large} for method, found in costs.items()}
    return {method: found for method, found in kept.items() if found}


ROOM_METHODS = ("brkga", "local-search", "gp-list", "list-scheduler")


def plan_room(profile: str, seeds: int) -> list[Run]:
    runs = []
    for instance, (kind, transfers) in _readings().items():
        config = _config(kind, "runtime", _graphs(kind, profile), EVALUATIONS, transfers=transfers)
        runs += _runs("regal.schedule", ROOM_METHODS, instance, config, seeds)
        runs += _per_graph("regal.long", "long-search", instance, config | {"evaluations": LONG_EVALUATIONS[profile]})
    return runs


def assemble_room(profile: str, records: list[Record]) -> dict[str, Any]:
    """Gaps to the best known, and to what no schedule can beat: half the work, or the longest path."""
    rows = []
    for instance in _readings():
        costs, outcomes = _collect(records, instance)
        rows += _gap_rows(instance, costs, _best_known(costs))
        floors = {graph: each[0]["floor"] for graph, each in outcomes["long-search"].items()}
        rows += _gap_rows(instance, costs, floors, metric="floor_gap_percent", compare=False)
    return _result(rows, [], records)


def _readings() -> dict[str, tuple[str, str]]:
    kinds, readings = ("synthetic", "traced"), ("rendezvous", "free")
    return {f"{kind}-{reading}": (kind, reading) for kind in kinds for reading in readings}


def plan_time(profile: str, seeds: int) -> list[Run]:
    config = {"ops": list(TIME_OPS[profile]), "evaluations": EVALUATIONS}
    runs = _runs("regal.sizes", (*SEARCHES, *RULES), "layered", config, seeds)
    traced = _config("traced", "runtime", _graphs("traced", profile), EVALUATIONS)
    methods = ("brkga", "local-search", "regal", "regal-imitation")
    return runs + _runs("regal.schedule", methods, "traced-runtime", traced, seeds, 1)


def assemble_time(profile: str, records: list[Record]) -> dict[str, Any]:
    """CPU seconds per graph, compilation apart: per size, and the mean over the traced test graphs."""
    rows = []
    _, outcomes = _collect(records, "layered")
    for method, graphs in outcomes.items():
        for ops, each in graphs.items():
            rows.append(
                _spread_row(f"{ops} ops", method, "seconds_by_size", [o["seconds"] for o in each], ops=int(ops))
            )
    _, outcomes = _collect(records, "traced-runtime")
    rows += _seconds_rows("traced-runtime", outcomes)
    paper = [
        {"instance": "traced-runtime", "method": method, "metric": "seconds", "value": value}
        for method, value in (("brkga", 0.87), ("regal", 1.01))
    ]
    return _result(rows, paper, records)


def plan_exact(profile: str, seeds: int) -> list[Run]:
    runs = []
    for split, objective in itertools.product(EXACT_SETS[profile], ("runtime", "memory")):
        graphs = graph_names("synthetic", split)
        graphs = graphs[::3] if profile == "quick" else graphs
        config = _config("synthetic", objective, graphs, EVALUATIONS, split=split)
        runs += _runs("regal.schedule", (*SEARCHES, *RULES), f"{split}-{objective}", config, seeds)
        runs += _per_graph(
            "regal.prove", "cp-sat", f"{split}-{objective}", config | {"solver_time": EXACT_TIME[profile]}
        )
    return runs


def assemble_exact(profile: str, records: list[Record]) -> dict[str, Any]:
    """Gaps to CP-SAT's cost, which is the optimum where it says so; only such graphs count."""
    rows = []
    for split, objective in itertools.product(EXACT_SETS[profile], ("runtime", "memory")):
        instance = f"{split}-{objective}"
        costs, outcomes = _collect(records, instance)
        proofs = outcomes["cp-sat"]
        rows += _proof_rows(instance, proofs)
        optimum = {graph: each[0]["cost"] for graph, each in proofs.items() if each[0]["optimal"]}
        if optimum:
            proven = {m: {g: v for g, v in graphs.items() if g in optimum} for m, graphs in costs.items()}
            rows += _gap_rows(instance, proven, optimum, compare=False)
        rows += _seconds_rows(instance, outcomes)
        for graph, each in proofs.items():
            proven = each[0]["optimal"]
            rows.append(
                {"instance": f"{instance}/{graph}", "method": "cp-sat", "metric": "proved", "value": bool(proven)}
            )
    return _result(rows, [], records)


def _collect(records: list[Record], instance: str) -> tuple[Costs, dict[str, dict[str, list[dict[str, Any]]]]]:
    """Costs and whole outcomes of one instance: method -> graph -> one entry per seed."""
    costs: Costs = {}
    outcomes: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for record in records:
        if record["instance"] == instance:
            for graph, outcome in record["result"]["graphs"].items():
                costs.setdefault(record["method"], {}).setdefault(graph, []).append(outcome["cost"])
                outcomes.setdefault(record["method"], {}).setdefault(graph, []).append(outcome)
    return costs, outcomes


def _best_known(costs: Costs) -> dict[str, float]:
    graphs = next(iter(costs.values()))
    return {graph: min(min(by_graph[graph]) for by_graph in costs.values()) for graph in graphs}


def _gap_rows(
    instance: str, costs: Costs, reference: Mapping[str, float], *, metric: str = "gap_percent", compare: bool = True
) -> list[dict[str, Any]]:
    """Geometric means over graphs and seeds of cost over reference, as percent above it; intervals over the seeds.

    With `compare`, also the probability that a run beats one of BRKGA on the same graph.
    """
    rows = []
    for method, graphs in costs.items():
        ratios = {graph: (np.array(v) / reference[graph]).tolist() for graph, v in graphs.items()}
        low, high = bootstrap_interval(ratios, geometric_mean)
        value = float(geometric_mean(np.concatenate([*map(np.asarray, ratios.values())])))
        rows.append(
            {
                "instance": instance,
                "method": method,
                "metric": metric,
                "value": 100 * (value - 1),
                "low": 100 * (low - 1),
                "high": 100 * (high - 1),
                "n": sum(map(len, ratios.values())),
            }
        )
        if compare and method != "brkga" and method != "long-search":
            better = probability_of_improvement(_negated(graphs), _negated(costs["brkga"]))
            rows.append({"instance": instance, "method": method, "metric": "beats_brkga", "value": better})
    return rows


def _negated(graphs: Mapping[str, list[float]]) -> dict[str, list[float]]:
    return {graph: [-cost for cost in costs] for graph, costs in graphs.items()}


def _seconds_rows(instance: str, outcomes: Mapping[str, Mapping[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Mean CPU seconds per graph, one value per seed."""
    rows = []
    for method, graphs in outcomes.items():
        seeds = min(len(each) for each in graphs.values())
        values = [float(np.mean([each[s]["seconds"] for each in graphs.values()])) for s in range(seeds)]
        rows.append(_spread_row(instance, method, "seconds", values))
    return rows


def _spread_row(instance: str, method: str, metric: str, values: list[float], **more: Any) -> dict[str, Any]:
    row = {"instance": instance, "method": method, "metric": metric, "value": float(np.median(values))}
    return row | {"low": min(values), "high": max(values), "n": len(values)} | more


def _proof_rows(instance: str, proofs: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """For CP-SAT: on how many graphs it proved the optimum, and how far its bound is below its cost on the others."""
    if not proofs:
        return []
    each = [outcomes[0] for outcomes in proofs.values()]
    proved = 100 * sum(outcome["optimal"] for outcome in each) / len(each)
    rows = [{"instance": instance, "method": "cp-sat", "metric": "proved_percent", "value": proved, "n": len(each)}]
    open_gaps = [100 * (1 - outcome["bound"] / outcome["cost"]) for outcome in each if not outcome["optimal"]]
    if open_gaps:
        value = float(np.mean(open_gaps))
        row = {"instance": instance, "method": "cp-sat", "metric": "open_bound_percent", "value": value}
        rows.append(row | {"n": len(open_gaps)})
    return rows


def _result(rows: list[dict[str, Any]], paper: list[dict[str, Any]], records: list[Record]) -> dict[str, Any]:
    """Rows of a method that asks a network say of how many trainings it was."""
    trained = {key: {"training_seeds": len(networks)} for key, networks in networks_of(records).items()}
    rows = [row | trained.get((row["instance"].partition("/")[0], row["method"]), {}) for row in rows]
    rows += updates_rows(records)
    valid = [outcome["valid"] for record in records for outcome in record["result"]["graphs"].values()]
    return {"rows": rows, "paper": paper, "validated": len(valid), "invalid": valid.count(False)}
