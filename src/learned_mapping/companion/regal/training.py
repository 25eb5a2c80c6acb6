"""How the paper's REGAL learned: the records of its trainings, and what validation graphs say of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from learned_mapping.companion.regal.graphs import DATASETS
from learned_mapping.companion.statistics import bootstrap_interval, geometric_mean
from learned_mapping.folders import data_folder
from learned_mapping.programs.json_io import read_json

CONTRASTS = (("regal", "brkga"), ("regal", "regal-average"), ("regal", "regal-untrained"))
"""Against uniform mutants; against its own average law, which knows no graph; against random weights."""


def training_records() -> list[dict[str, Any]]:
    """The records of ``data/training/regal``, by ``dataset`` and ``seed``; none where nothing was trained."""
    folder, found = data_folder() / "training" / "regal", []
    for dataset in DATASETS:
        for path in sorted(folder.glob(f"reinforce-{dataset}-*.json")):
            seed = int(path.stem.rpartition("-")[2])
            found.append(read_json(path, "regal-training").value | {"dataset": dataset, "seed": seed})
    return found


def validation_rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`CONTRASTS` on validation graphs after the training, by dataset: ``improvement_percent``.

    By how much the cost is lower; geometric means over the trainings of a dataset, then over its graphs, with an
    interval over the graphs.
    """
    rows = []
    for dataset in DATASETS:
        mine = [record["validation"]["log_ratio_to_brkga"] for record in records if record["dataset"] == dataset]
        for one, other in CONTRASTS if mine else ():
            ratios = np.exp(np.mean([np.subtract(each[one], each[other]) for each in mine], axis=0))
            low, high = bootstrap_interval(ratios, geometric_mean)
            value, most, least = (100 * (1 - float(ratio)) for ratio in (geometric_mean(ratios), low, high))
            rows.append({
                "instance": dataset, "method": one, "against": other, "metric": "improvement_percent",
                "value": value, "low": least, "high": most, "n": len(ratios), "training_seeds": len(mine),
            })  # fmt: skip
    return rows
