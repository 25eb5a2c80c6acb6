"""Paper 1's Figure 4 and Table 6: the network's modules as Haiku builds them, and every profile's hyperparameters."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.mmap.muzero.config import PROFILES, config_to_json

SHOWN = ("paper", "full")
"""Profiles of `mmap.muzero.config` in both; Figure 4 in ``quick`` has the small one, ``quick``, alone."""
PAPER_TABLE6 = {
    "discount": 0.9999, "simulations": 400, "init_temperature": 1.0, "temperature_decay_steps": 400_000,
    "final_temperature": 0.2, "noise_fraction": 0.25, "noise_alpha": 0.03, "training_steps": 1_000_000,
    "batch_size": 512, "learning_rate": 0.0002, "weight_decay": 0.0001, "replay_size": 20_000,
    "reanalyse_fraction": 0.5,
}  # fmt: skip
"""By our names, in the paper's order; besides, its optimiser is Adam."""


def plan_table6(profile: str, seeds: int) -> list[Run]:
    """Nothing: the numbers are those of `mmap.muzero.config`."""
    return []


def assemble_table6(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """A row per hyperparameter and profile: those of the paper's table first, then the others, sizes included."""
    rows = []
    for name in SHOWN:
        numbers = flat(config_to_json(PROFILES[name]))
        for parameter in (*PAPER_TABLE6, *(other for other in numbers if other not in PAPER_TABLE6)):
            row = {"instance": parameter, "method": name, "metric": "hyperparameter", "value": numbers[parameter]}
            rows.append({**row, "n": 1, "in_paper": parameter in PAPER_TABLE6})
    paper = [
        {"instance": parameter, "method": "paper", "metric": "hyperparameter", "value": value}
        for parameter, value in PAPER_TABLE6.items()
    ]
    return {"rows": rows, "paper": paper, "validated": 0, "invalid": 0}


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """Nested settings by dotted names; lists as text."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": each for inner, each in flat(value).items()}
        else:
            found[name] = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return found


def run_network(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """The shapes of all parameters of the networks of a profile (`instance`), part by part, module by module."""
    from learned_mapping.mmap.muzero.network import make_networks

    chosen = PROFILES[instance]
    parameters = make_networks(chosen.representation, chosen.network).init(np.random.default_rng(seed))
    shapes = {
        part: {
            module: {name: list(array.shape) for name, array in arrays.items()} for module, arrays in modules.items()
        }
        for part, modules in parameters.items()
    }
    return {
        "shapes": shapes,
        "representation": dataclasses.asdict(chosen.representation),
        "block": chosen.network.block,
    }


def plan_fig4(profile: str, seeds: int) -> list[Run]:
    """A run per profile of the network."""
    names = ("quick",) if profile == "quick" else SHOWN
    return [Run("mmap.network", "muzero", name) for name in names]


def assemble_fig4(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """A row per module: how many parameters it has, and their shapes; a row per profile for the whole."""
    rows: list[dict[str, Any]] = []
    for record in records:
        found, method = record["result"], record["method"]
        seen = {"representation": found["representation"], "block": found["block"]}
        total = 0
        for part, modules in found["shapes"].items():
            for module, shapes in modules.items():
                count = sum(int(np.prod(shape)) for shape in shapes.values())
                total += count
                row = {"instance": record["instance"], "method": method, "metric": "parameters", "value": count}
                rows.append({**row, "part": part, "module": module, "shapes": shapes})
        row = {"instance": record["instance"], "method": method, "metric": "parameters_total", "value": total}
        rows.append({**row, **seen})
    return {"rows": rows, "paper": [], "validated": 0, "invalid": 0}
