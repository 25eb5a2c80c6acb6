"""Chooses simulated annealing's parameters on synthetic graphs, none of which is in any table."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from learned_mapping.folders import data_folder
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.methods import Budget, Task
from learned_mapping.mcm.searches.annealing import AnnealingParameters, annealing
from learned_mapping.programs.json_io import write_json
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph

GRID = {
    "redrawn": (0.01, 0.05, 0.2, 0.5),
    "concentration": (0.1, 0.5, 1.0),
    "start_temperature": (0.02, 0.2),
}
SIZES = (60, 200)
CHIPS = 8
SAMPLES = 500
SEEDS = 2


def tune() -> dict[str, Any]:
    """Every point of the grid: the geometric mean of the throughput, over that of the uniform distribution."""
    tasks = []
    for i, (family, size) in enumerate(itertools.product(GRAPH_FAMILIES, SIZES)):
        graph = random_graph(np.random.default_rng(1000 + i), family, size)
        tasks.append(Task(graph, ChipPackage(chips=CHIPS)))
    grid = []
    for values in itertools.product(*GRID.values()):
        point = dict(zip(GRID, values))
        logs = []
        for task, seed in itertools.product(tasks, range(SEEDS)):
            budget = Budget(samples=SAMPLES, cpu=True)
            parameters = AnnealingParameters(**point)
            annealing(task.model, task.arrays, np.random.default_rng(seed), budget, parameters=parameters)
            logs.append(np.log(budget.best * task.model.op_seconds.sum() / CHIPS))
        grid.append({**point, "balance": float(np.exp(np.mean(logs)))})
    best = max(grid, key=lambda row: row["balance"])
    return {"chips": CHIPS, "samples": SAMPLES, "seeds": SEEDS, "sizes": list(SIZES), "best": best, "grid": grid}


if __name__ == "__main__":
    record = tune()
    write_json(data_folder() / "mcm" / "annealing.json", {"schema": "learned-mapping/tuning/1", **record}, indent=1)
    print(record["best"])
