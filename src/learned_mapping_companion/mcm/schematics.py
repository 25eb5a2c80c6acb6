"""Paper 2's Figures 1, 3 and 4: the numbers of the method, of its network and of its pre-training,
from the code.

A row's instance is a profile. `full` is drawn; `paper` has the paper's own sizes,
whose numbers the paper's rows hold beside.
"""

import dataclasses

import numpy as np

from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.agent.config import agent_config
from learned_mapping.mcm.agent.features import NUM_FEATURES
from learned_mapping.mcm.agent.network import ANCHORS, STATE, ChipPolicy
from learned_mapping_companion.artifact import Artifact
from learned_mapping_companion.datasets.registry import builder
from learned_mapping_companion.mcm.graphs import names
from learned_mapping_companion.table import Records, Rows, row, rows

METHOD = "network"  # The rows tell of the policy itself, and of no result of a method that uses it.
SHOWN = ("full", "paper")
"""Profiles whose numbers are in the rows."""


def assemble_fig1(records: Records) -> Rows:
    """The package's chips, and every field of the learner's configuration."""
    for name in SHOWN:
        numbers = {
            "chips": ChipPackage().chips,
            "policy": "chips",
            **dataclasses.asdict(agent_config(name)),
        }
        yield from rows(name, METHOD, numbers)


def assemble_fig3(records: Records) -> Rows:
    """Sizes of the network, and a row per module as Haiku builds it: its parameters, with their
    shapes."""
    for name in SHOWN:
        config = agent_config(name)
        modules = ChipPolicy(config).new_parameters(np.random.default_rng(0))
        total = 0
        for module, arrays in modules.items():
            shapes = {part: list(array.shape) for part, array in arrays.items()}
            count = sum(int(np.prod(shape)) for shape in shapes.values())
            yield row(name, METHOD, "parameters", count, module=module, shapes=shapes)
            total += count
        sizes = {
            "layers": config.layers,
            "width": config.width,
            "iterations": config.iterations,
            "policy_layers": sum(m.removeprefix("policy_").isdigit() for m in modules),
            "features": NUM_FEATURES,
            "state": STATE,
            "positions": ANCHORS,
            "parameters_total": total,
        }
        yield from rows(name, METHOD, sizes)


def assemble_fig4(records: Records) -> Rows:
    """Samples, iterations and copies of the training worker; what the validation worker does with
    the copies."""
    pretrain = builder("training.pretrain")
    graphs = {f"graphs_{split}": len(names(split)) for split in ("train", "validation", "test")}
    for name in SHOWN:
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
        yield from rows(name, METHOD, {**numbers, **graphs})


FIG1 = Artifact("mcm.fig1", assemble_fig1)
FIG3 = Artifact("mcm.fig3", assemble_fig3)
FIG4 = Artifact("mcm.fig4", assemble_fig4)
