"""Chooses the parameters of `brkga-tuned` and `local-search` by grid search, on training graphs alone.

``python -m learned_mapping.companion.training.regal_tuning`` writes ``data/regal/tuning.json``. The winners are
copied by hand to `regal.methods`; a test compares.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.companion.regal.graphs import graph_names, load_graph
from learned_mapping.folders import data_folder
from learned_mapping.programs.json_io import write_json
from learned_mapping.regal.methods import EVALUATIONS
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance
from learned_mapping.regal.searches.brkga import BrkgaParameters, brkga
from learned_mapping.regal.searches.local_search import LocalSearchParameters, local_search

SEEDS = 2
BRKGA_GRID = [
    BrkgaParameters(population=population, elite_fraction=elite, mutant_fraction=mutant, bias=bias)
    for population, elite, mutant, bias in itertools.product((50, 100, 200), (0.1, 0.2), (0.02, 0.05, 0.15), (0.6, 0.7))
]
LOCAL_SEARCH_GRID = [
    LocalSearchParameters(device_share=device, cluster_share=cluster, cluster_ops=ops)
    for device, cluster, ops in [
        *itertools.product((0.05, 0.1, 0.3), (0.2, 0.4), (32, 128, 512)),
        (0.1, 0.0, 2), (0.3, 0.0, 2),
    ]
]  # fmt: skip


def training_instances(objective: str) -> list[Instance]:
    """Every training graph of both kinds."""
    kinds = ("traced", "synthetic")
    return [
        Instance(load_graph(kind, name, "train"), objective=objective)
        for kind in kinds
        for name in graph_names(kind, "train")
    ]


def grid_search(search: Any, grid: list[Any], objective: str) -> list[dict[str, Any]]:
    """One row per point of the grid: its parameters, and the geometric-mean gap to the best over the grid, in percent.

    Every point gets `EVALUATIONS` on every training graph with each of `SEEDS` seeds.
    """
    instances = training_instances(objective)
    costs = np.zeros((len(grid), len(instances), SEEDS))
    for point, parameters in enumerate(grid):
        for i, instance in enumerate(instances):
            for seed in range(SEEDS):
                budget = Budget(samples=EVALUATIONS)
                search(instance, np.random.default_rng(seed), budget, parameters=parameters)
                costs[point, i, seed] = budget.best
    best = costs.min(axis=(0, 2))[None, :, None]
    gaps = 100 * (np.exp(np.log(costs / best).mean(axis=(1, 2))) - 1)
    return [dataclasses.asdict(p) | {"gap_percent": round(float(gap), 3)} for p, gap in zip(grid, gaps)]


def main() -> None:
    record: dict[str, Any] = {"schema": "learned-mapping/tuning/1", "evaluations": EVALUATIONS, "seeds": SEEDS}
    record["graphs"] = {kind: list(graph_names(kind, "train")) for kind in ("traced", "synthetic")}
    for method, search, grid in (("brkga", brkga, BRKGA_GRID), ("local-search", local_search, LOCAL_SEARCH_GRID)):
        for objective in OBJECTIVES:
            start = time.process_time()
            rows = grid_search(search, grid, objective)
            best = min(rows, key=lambda row: row["gap_percent"])
            record[f"{method} {objective}"] = {"best": best, "grid": rows}
            print(method, objective, best, f"{time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
    write_json(data_folder() / "regal" / "tuning.json", record, indent=1)


if __name__ == "__main__":
    main()
