"""Paper 2's Figures 1, 3 and 4: the numbers of the method, of its network and of its pre-training,
from the code.

A row's instance is a profile. In `full` the figures are drawn; `paper` has the paper's own sizes,
whose numbers the paper's rows hold beside.
"""

import dataclasses

import numpy as np

from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.agent.config import agent_config
from learned_mapping.mcm.agent.features import NUM_FEATURES
from learned_mapping.mcm.agent.network import ANCHORS, STATE, ChipPolicy
from learned_mapping_companion.datasets.registry import builder
from learned_mapping_companion.mcm.graphs import names
from learned_mapping_companion.table import Record, assembled, rows

METHOD = "network"  # The rows tell of the policy itself, and of no result of a method that uses it.
SHOWN = {"quick": ("quick",), "full": ("full", "paper"), "paper": ("full", "paper")}
"""Profiles whose numbers are in the rows."""


def assemble_fig1(profile: str, records: list[Record]) -> Record:
    """The package's chips, and every field of the learner's configuration."""
    table_rows = []
    for name in SHOWN[profile]:
        numbers = {
            "chips": ChipPackage().chips,
            "policy": "chips",
            **dataclasses.asdict(agent_config(name)),
        }
        table_rows += rows(name, METHOD, numbers)
    return assembled(table_rows)


def assemble_fig3(profile: str, records: list[Record]) -> Record:
    """Sizes of the network, and a row per module as Haiku builds it: its parameters, with their
    shapes."""
    result = []
    for name in SHOWN[profile]:
        config = agent_config(name)
        modules = ChipPolicy(config).new_parameters(np.random.default_rng(0))
        for module, arrays in modules.items():
            shapes = {part: list(array.shape) for part, array in arrays.items()}
            count = sum(int(np.prod(shape)) for shape in shapes.values())
            result += [
                {**row, "module": module, "shapes": shapes}
                for row in rows(name, METHOD, {"parameters": count})
            ]
        hidden = [
            m for m in modules if m.startswith("policy_") and m.removeprefix("policy_").isdigit()
        ]
        sizes = {"layers": config.layers, "width": config.width, "iterations": config.iterations}
        sizes |= {
            "policy_layers": len(hidden),
            "features": NUM_FEATURES,
            "state": STATE,
            "positions": ANCHORS,
        }
        total = sum(
            row["value"]
            for row in result
            if row["instance"] == name and row["metric"] == "parameters"
        )
        result += rows(name, METHOD, {**sizes, "parameters_total": total})
    return assembled(result)


def assemble_fig4(profile: str, records: list[Record]) -> Record:
    """Samples, iterations and copies of the training worker; what the validation worker does with
    the copies."""
    pretrain = builder("training.pretrain")
    graphs = {f"graphs_{split}": len(names(split)) for split in ("train", "validation", "test")}
    table_rows = []
    for name in SHOWN[profile]:
        config = agent_config(name, **pretrain.SETTINGS)
        numbers = {
            "samples": pretrain.SAMPLES[name],
            "rollouts": config.rollouts,
            "iterations": pretrain.SAMPLES[name] // config.rollouts,
            "minibatches": config.minibatches,
            "epochs": config.epochs,
            "snapshots": pretrain.SNAPSHOTS[name],
            "finalists": pretrain.FINALISTS[name],
            "zero_shot_samples": pretrain.ZERO_SHOT_SAMPLES,
            "fine_tune_samples": pretrain.FINE_TUNE_SAMPLES,
            "learning_rate": config.learning_rate,
            "entropy": config.entropy,
        }
        table_rows += rows(name, METHOD, {**numbers, **graphs})
    return assembled(table_rows)
