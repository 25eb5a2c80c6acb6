"""Graphs that are not of the project's making: what is shipped against BRKGA with as many evaluations.

A user brings a graph of another tool, of whose kind no network has seen any. `outside_graphs` of ``data/builders``
makes twenty, in both documented formats, on which nothing was chosen.
"""

from __future__ import annotations

from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.datasets.registry import builder
from learned_mapping.companion.regal.runs import outcome
from learned_mapping.companion.regal.tables import costs_of, outcomes
from learned_mapping.companion.statistics import geometric_mean
from learned_mapping.companion.table import Record, assembled, gap_row, row
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.methods import EVALUATIONS, solve
from learned_mapping.regal.rules.instance import Instance

METHODS = {"runtime": ("brkga", "regal", "regal-imitation"), "memory": ("brkga", "regal-imitation")}
"""Objective -> what is run, each with the network that serves it."""


def plan_outside(profile: str, seeds: int) -> list[Run]:
    evaluations = 500 if profile == "quick" else EVALUATIONS
    return [
        Run("regal.outside", method, objective, {"evaluations": evaluations}, seed)
        for objective, methods in METHODS.items()
        for method in methods
        for seed in range(1 if profile == "quick" else seeds)
    ]


def schedule_outside(method: str, instance: str, config: Record, seed: int) -> Record:
    """Runs `method`, as it is, on the twenty graphs, whose objective is `instance`.

    Returns:
      Graph name -> what `runs.outcome` says, and whether the graph is connected.
    """
    found = {}
    for graph in builder("outside_graphs").outside_graphs():
        problem = Instance(graph, objective=instance)
        result = solve(problem, method, seed=seed, samples=config["evaluations"])
        found[graph.name] = outcome(problem, result.solution, 0.0) | {"connected": connected(graph)}
    return {"graphs": found}


def connected(graph: ComputationGraph) -> bool:
    """Whether all ops hang together."""
    first, second = graph.op_edges.T
    links = coo_array(([True] * len(first), (first, second)), shape=(graph.num_ops, graph.num_ops))
    return connected_components(links, directed=False)[0] == 1


def assemble_outside(profile: str, records: list[Record]) -> Record:
    """``improvement_percent`` of cost over BRKGA's, geometric means over graphs and seeds, with intervals over graphs:
    of all graphs, of connected ones and of those in parts; and graph by graph ``graph_improvement_percent``."""
    table, found = outcomes(records), []
    for objective, here in table.groupby("instance", sort=False):
        costs = costs_of(here)
        whole = here.drop_duplicates("graph").set_index("graph").connected
        plain = {graph: geometric_mean(runs) for graph, runs in costs.pop("brkga").items()}
        for method, known in costs.items():
            ratios = {graph: float(geometric_mean(runs) / plain[graph]) for graph, runs in known.items()}
            parts = {"all": list(ratios), "connected": list(whole[whole].index), "parts": list(whole[~whole].index)}
            for name, graphs in parts.items():
                chosen = [ratios[graph] for graph in graphs]
                about = {"below": True, "graphs": len(graphs), "seeds": len(next(iter(known.values())))}
                found.append(gap_row(f"{objective}/{name}", method, "improvement_percent", chosen, **about))
            for graph, ratio in ratios.items():
                found.append(row(f"{objective}/{graph}", method, "graph_improvement_percent", 100 * (1 - ratio)))
    return assembled(found, valid=table.valid)
