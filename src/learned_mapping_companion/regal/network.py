"""What the network reads: six networks, trained alike for minutes, on graphs they have not seen.

Three kinds: the graph network (``gnn-``), the same without messages, which sees each op by itself
(``mlp-``), and the sequence model, which reads the ops in order (``gas-``). All have the skip. Each
sees all of our attributes (``-all``), or those alone that the paper names (``-printed``). Every run
is a training of its own, of as many updates for all, on the graphs of `live`.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas

from learned_mapping.budget import Budget
from learned_mapping.hardware.devices import Devices
from learned_mapping.regal.methods import EVALUATIONS
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import brkga
from learned_mapping_companion.artifact import Artifact, Quick, Run
from learned_mapping_companion.regal.gaps import (
    Costs,
    contrast_rows,
    graph_rows,
    logs_over,
    outcomes,
)
from learned_mapping_companion.regal.graphs import DATASETS, best_entries, graph_names, load_graph
from learned_mapping_companion.regal.live import trained_live
from learned_mapping_companion.regal.methods import SHORT_TRAININGS
from learned_mapping_companion.regal.runs import outcome
from learned_mapping_companion.table import Record, Row, Rows

SECONDS = 120.0
"""Length of a training, in the seconds that `reinforce.seconds_of` counts."""
SEEDS, EVERY = 3, 2  # Trainings of a network; one fresh graph in so many.
SPLIT = "fresh"


def plan_network(seeds: int) -> list[Run]:
    graphs = [
        f"{dataset}/{name}"
        for dataset in DATASETS
        if dataset.endswith("runtime")
        for name in graph_names(dataset, SPLIT)[::EVERY]
    ]
    config = {"graphs": graphs, "evaluations": EVALUATIONS}
    trained = config | {"seconds": SECONDS}
    return [
        Run("regal.network", method, "runtime", config if method == "brkga" else trained, seed)
        for method in ("brkga", *SHORT_TRAININGS)
        for seed in range(min(seeds, SEEDS))
    ]


def run_network(method: str, instance: str, config: Record, seed: int) -> Record:
    """Trains the network of ``config["seconds"]``, if any, and lets it lead BRKGA on each graph, on
    each of the ``machines`` where there are some.

    Returns:
      Graph name, and behind an @ that of the machine -> what `runs.outcome` says.
    """
    policy = None
    if "seconds" in config:
        model, _, seen = method.partition("-")
        policy = trained_live(config["seconds"], seed, model=model, attributes=seen)
    by_graph = {}
    machines = config.get("machines", {"": {}})
    for name, called in itertools.product(config["graphs"], machines):
        dataset, _, member = name.partition("/")
        problem = Instance(load_graph(dataset, member, SPLIT), Devices(**machines[called]))
        budget, law = Budget(samples=config["evaluations"]), None
        if policy is not None:
            law = policy.law(problem, np.random.default_rng([seed, 1]))
        found = brkga(problem, np.random.default_rng(seed), budget, law=law)
        by_graph[f"{name}@{called}".rstrip("@")] = outcome(problem, decode(problem, found), 0.0)
    return {"graphs": by_graph}


def assemble_network(records: list[Record]) -> Rows:
    """Rows by dataset and network as in `regal.test`."""
    table, entries = outcomes(records), list[Row]()
    for dataset in dict.fromkeys(name.partition("/")[0] for name in table.graph):
        entries += _rows(dataset, table[table.graph.str.startswith(f"{dataset}/")])
    return entries


def _rows(dataset: str, runs: pandas.DataFrame) -> Iterator[Row]:
    stored = best_entries(dataset, DATASETS[dataset][1], SPLIT)
    costs: Costs = {}
    for method, graph, cost in zip(runs.method, runs.graph, runs.cost):
        member = graph.partition("/")[2]
        costs.setdefault(method, {}).setdefault(member, []).append(cost)
    best = {graph: stored[graph]["cost"] for graph in costs["brkga"]}
    logs = logs_over(costs, best)
    yield from contrast_rows(dataset, logs, tuple(costs))
    yield from graph_rows(dataset, logs)


QUICK_GRAPHS = ("traced-runtime/densenet-blocks-2-inference", "synthetic-runtime/7")
NETWORK = Artifact(
    "regal.network",
    assemble_network,
    plan_network,
    Quick(
        ("brkga", "gnn-all", "mlp-printed"),
        seeds=1,
        config={"graphs": QUICK_GRAPHS, "seconds": 2.0},
    ),
    {"seconds": 10},
)
