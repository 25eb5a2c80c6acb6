"""Paper 1's Figure 4 and Table 6: the agent's networks as Haiku builds them, and its settings beside the paper's.

The agent is the light one. The paper's size, Figure 4's ResNet with 400 simulations, is not there yet.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from learned_mapping.companion.mmap.runs import load

PROGRAM = "alexnet_train_batch_32"
"""Whose network Figure 4 shows: the tables of ids grow with the program, nothing else does."""
PAPER_TABLE6 = {
    "discount": (0.9999, "discount"),
    "simulations": (400, "simulations"),
    "initial temperature": (1.0, None),
    "steps over which it falls": (400_000, None),
    "final temperature": (0.2, None),
    "share of root noise": (0.25, None),
    "alpha of root noise": (0.03, None),
    "training steps": (1_000_000, None),
    "batch size": (512, "batch"),
    "learning rate": (0.0002, "learning_rate"),
    "weight decay": (0.0001, "weight_decay"),
    "replay size": (20_000, "replay"),
    "share reanalysed": (0.5, "reanalyse"),
}
"""The paper's settings in its order, and which of `AgentConfig` is the same; besides, its optimiser is Adam."""


def assemble_table6(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """A row per setting of both configurations of the agent: the paper's first, no value for those it does not have."""
    from learned_mapping.mmap.agent.config import WHOLE, WINDOWS

    rows = []
    known = {ours for _, ours in PAPER_TABLE6.values()}
    for method, config in (("whole games", WHOLE), ("windows", WINDOWS)):
        numbers = dataclasses.asdict(config)
        shown = {name: (ours, True) for name, (_, ours) in PAPER_TABLE6.items()}
        shown |= {name.replace("_", " "): (name, False) for name in numbers if name not in known}
        for name, (ours, in_paper) in shown.items():
            row = {"instance": name, "method": method, "metric": "hyperparameter", "value": numbers.get(ours)}
            rows.append({**row, "n": 1, "in_paper": in_paper})
    paper = [
        {"instance": name, "method": "paper", "metric": "hyperparameter", "value": value}
        for name, (value, _) in PAPER_TABLE6.items()
    ]
    return {"rows": rows, "paper": paper, "validated": 0, "invalid": 0}


def assemble_fig4(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """A row per module: how many parameters it has, and their shapes; a row for the whole, with what the agent sees."""
    from learned_mapping.mmap.agent.config import config_for
    from learned_mapping.mmap.agent.network import Networks
    from learned_mapping.mmap.agent.observation import PARTS

    program, _ = load(PROGRAM)
    counts = (program.num_buffers, program.num_tensors, program.num_alias_groups + 1)
    parameters = Networks(config_for(program.num_buffers), counts).init(np.random.default_rng(0))
    rows: list[dict[str, Any]] = []
    for part, modules in parameters.items():
        for module, arrays in modules.items():
            shapes = {name: list(array.shape) for name, array in arrays.items()}
            count = sum(int(np.prod(shape)) for shape in shapes.values())
            rows.append({**_row("parameters", count), "part": part, "module": module, "shapes": shapes})
    total = _row("parameters_total", sum(row["value"] for row in rows))
    return {"rows": [*rows, {**total, "sees": dict(PARTS)}], "paper": [], "validated": 0, "invalid": 0}


def _row(metric: str, value: int) -> dict[str, Any]:
    return {"instance": PROGRAM, "method": "network", "metric": metric, "value": value, "n": 1}
