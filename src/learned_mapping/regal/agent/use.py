"""REGAL as printed, in use: bins drawn once for each run, for mutants alone (Section 2.3); and its controls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError, MissingNetworkError
from learned_mapping.folders import data_folder
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.network import make_batch
from learned_mapping.regal.agent.policy import Policy, random_parameters, read_policy
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.searches.brkga import brkga

SERVES = {"runtime": "traced-runtime-0", "memory": "traced-memory-0"}
"""Objective -> the network that serves it unless another is named."""
INSTEAD = {"runtime": "synthetic-runtime-0"}
"""Objective -> the network that serves it as long as that one is not trained."""


@functools.lru_cache(maxsize=32)
def _read(path: Path) -> Policy:
    return read_policy(path)[0]


def policy_for(instance: Instance, network: str | None = None) -> Policy:
    """The trained network of this name, or the one that serves the objective.

    Raises:
      InputError: there is no such network, or it was trained for the other objective.
    """
    folder = data_folder() / "checkpoints" / "regal"
    path = folder / f"reinforce-{network or SERVES[instance.objective]}.npz"
    if network is None and not path.exists() and instance.objective in INSTEAD:
        path = folder / f"reinforce-{INSTEAD[instance.objective]}.npz"
    if not path.exists():
        known = sorted(p.stem.removeprefix("reinforce-") for p in folder.glob("reinforce-*.npz"))
        raise MissingNetworkError(
            "network", "", f"no network is named {path.stem!r}, there are: {', '.join(known) or 'none'}"
        )
    found = _read(path)
    if found.objective != instance.objective:
        raise InputError("network", path.stem, f"was trained for {found.objective}, not for {instance.objective}")
    return found


def untrained(instance: Instance, seed: int = 0) -> Policy:
    """The network as a training of this seed finds it: random weights."""
    batch = make_batch([features(instance)], sequence=1)
    parameters, _ = random_parameters(batch, np.random.default_rng([seed, 0]))
    return Policy(jax.tree.map(np.asarray, parameters), instance.objective, "none", seed)


def with_policy(network: str | None = None, *, average: bool = False, trained: bool = True):
    """A search as in the paper: `methods.Search`.

    Args:
      network: such as ``synthetic-runtime-1``; of an untrained one, its seed.
      average: whether every op has the network's average law, the control that sees no graph.
      trained: whether the weights are trained ones or random.
    """

    def run(instance: Instance, rng: np.random.Generator, budget: Budget) -> tuple[Schedule, dict[str, float]]:
        own = policy_for(instance, network) if trained else untrained(instance, int(network or 0))
        law = own.law(instance, rng, average=average)
        return decode(instance, brkga(instance, rng, budget, law=law)), {}

    return run


REINFORCED: dict[str, tuple[str, Callable]] = {
    "regal": ("BRKGA with laws learned by REINFORCE from random weights, drawn once, for mutants alone", with_policy),
    "regal-average": (
        "the same network's average law for every op: what it has learned but of no graph",
        functools.partial(with_policy, average=True),
    ),
    "regal-untrained": ("the same network with random weights", functools.partial(with_policy, trained=False)),
}
"""Name -> description, and a function from a network's name to the search; entries as in `learned_methods.LEARNED`."""
