"""Trained policies as files: parameters, the configuration in the header, and the shipped one."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.folders import networks_folder
from learned_mapping.learning.checkpoint import (
    flatten,
    read_checkpoint,
    unflatten,
    write_checkpoint,
)
from learned_mapping.mcm.agent.config import AgentConfig, config_from_json
from learned_mapping.programs.json_io import file_sha256

PREFIX = "parameters"
AGENT = "mcm-ppo"


PRETRAININGS = 3  # Policies trained with different seeds; the first serves where nobody says which.


def checkpoint_path(pretraining: int = 0, policy: str = "chips") -> Path:
    """The shipped file of a training of one of `mcm.methods.POLICIES`."""
    return networks_folder() / "mcm" / f"{policy}-{pretraining}.npz"


def checkpoint_digest(pretraining: int = 0, policy: str = "chips") -> str:
    """16 hexadecimal digits of a shipped file; empty where there is none."""
    path = checkpoint_path(pretraining, policy)
    return file_sha256(path)[:16] if path.exists() else ""


def save_policy(
    path: str | os.PathLike, config: AgentConfig, parameters: Any, facts: dict[str, Any]
) -> None:
    """Writes parameters without the optimiser's memory; `facts` say how they were trained."""
    header = {"agent": AGENT, "config": dataclasses.asdict(config), "facts": facts}
    write_checkpoint(path, flatten(parameters, PREFIX), header)


def load_policy(path: str | os.PathLike) -> tuple[AgentConfig, Any]:
    """(configuration, parameters) that `save_policy` wrote.

    Raises:
      InputError: the file is missing, damaged, or of another agent.
    """
    from learned_mapping.mcm.agent.ppo import make_policy

    arrays, header = read_checkpoint(path)
    if header.get("agent") != AGENT or not isinstance(header.get("config"), dict):
        raise InputError(path, "agent", f"{header.get('agent')!r}, expected {AGENT!r}")
    config = config_from_json(header["config"], path)
    template = make_policy(config).new_parameters(np.random.default_rng(0))
    parameters = unflatten(template, arrays, PREFIX, path)
    if not all(np.isfinite(leaf).all() for leaf in flatten(parameters, PREFIX).values()):
        raise InputError(path, PREFIX, "holds numbers that are not finite")
    return config, parameters


def shipped(pretraining: int = 0, policy: str = "chips") -> tuple[AgentConfig, Any]:
    """The shipped policy of a training; raises `InputError` where its file is missing."""
    path = checkpoint_path(pretraining, policy)
    if not path.exists():
        command = (
            f"python -m builders.training.mcm_policy {policy} --seed {pretraining} --out {path}"
        )
        raise InputError(
            path, "", f"there is no trained policy; make it in the folder data with: {command}"
        )
    return load_policy(path)
