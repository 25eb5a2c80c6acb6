"""Searches with Beta laws: REGAL and its variants, the baselines that use its networks, and laws without a network.

The shipped networks are in ``data/checkpoints/regal``; `NETWORKS` says which one serves an objective. Another one is
asked for by name: ``regal:synthetic-runtime-1``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.learner import PAPER, Learner, Variant, read_learner, variant_from
from learned_mapping.regal.rules.decode import decode, evaluate, make_workspace
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.searches.brkga import BrkgaParameters, MutantLaw, brkga
from learned_mapping.regal.searches.local_search import (
    TUNED_LOCAL_SEARCH,
    LocalSearchParameters,
    local_search,
    random_search,
)
from learned_mapping.regal.searches.proposals import constant_law, ordered_law, priority_law, spectral_law

NETWORKS = {"runtime": "traced-runtime-0", "memory": "traced-memory-0"}
"""Objective -> the network that serves it unless another is named."""

Run = Callable[[Instance, np.random.Generator, Budget], tuple[Schedule, dict[str, float]]]
"""As `methods.Search`."""


def checkpoint_folder() -> Path:
    return data_folder() / "checkpoints" / "regal"


def learner_for(instance: Instance, network: str | None = None, prefix: str = "") -> Learner:
    """The network of this name, or the one that serves the objective.

    Args:
      instance: whose objective counts.
      network: such as ``traced-runtime-1``.
      prefix: what stands before the name of another model's file, such as ``gas-``.

    Raises:
      InputError: there is no such network, or it was trained for the other objective.
    """
    name = network or NETWORKS[instance.objective]
    path = checkpoint_folder() / f"{prefix}{name}.npz"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in checkpoint_folder().glob("*.npz")))
        raise InputError("network", "", f"no network is named {prefix + name!r}, there are: {known}")
    learner = read_learner(path)
    if learner.objective != instance.objective:
        raise InputError("network", name, f"was trained for {learner.objective}, not for {instance.objective}")
    return learner


@functools.cache
def chosen() -> dict:
    """The record of what validation and training graphs chose: ``data/checkpoints/regal/chosen.json``."""
    path = checkpoint_folder() / "chosen.json"
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(path, "", f"cannot be read ({error})") from None


def chosen_variant(learner: Learner) -> Variant:
    """The variant that validation graphs of the network's dataset chose for its model."""
    return variant_from(chosen()["variants"][f"{learner.model} {learner.dataset}"]["chosen"])


def with_network(
    network: str | None = None,
    *,
    prefix: str = "",
    variant: Variant | None = None,
    climb: dict[str, LocalSearchParameters] | None = None,
    parameters: BrkgaParameters | None = None,
) -> Run:
    """A search that asks a network for the law of its graph.

    Args:
      network, prefix: as in `learner_for`.
      variant: how the law is used; the chosen one where None.
      climb: local search parameters by objective: the second half of the budget is a climb from BRKGA's best.
      parameters: BRKGA's.
    """

    def run(instance: Instance, rng: np.random.Generator, budget: Budget):
        learner = learner_for(instance, network, prefix)
        law = learner.law(instance, rng, variant or chosen_variant(learner))
        if climb is None:
            return decode(instance, brkga(instance, rng, budget, law=law, parameters=parameters)), {}
        best = _half(budget, lambda half: brkga(instance, rng, half, law=law, parameters=parameters))
        if not budget.spent():
            best = local_search(instance, rng, budget, parameters=climb[instance.objective], start=best)
        return decode(instance, best), {}

    return run


def _half(budget: Budget, search: Callable[[Budget], np.ndarray]) -> np.ndarray:
    """Spends half of what a budget allows."""
    samples = None if budget.limit_samples is None else max(1, budget.limit_samples // 2)
    half = Budget(seconds=None if budget.limit_s is None else budget.limit_s / 2, samples=samples)
    found = search(half)
    budget.record(half.best, half.samples, better=float.__lt__)
    return found


def instance_dependent_random_search(network: str | None = None) -> Run:
    """The best of chromosomes drawn from the network's law (REGAL, Section 3.2, baseline 6)."""

    def run(instance: Instance, rng: np.random.Generator, budget: Budget):
        law = learner_for(instance, network).law(instance, rng, Variant(sampled=True, priorities=True))
        return decode(instance, random_search(instance, rng, budget, law)), {}

    return run


def without_search(network: str | None = None) -> Run:
    """One schedule: every entry at the mean of its law. What the network knows before any search."""

    def run(instance: Instance, rng: np.random.Generator, budget: Budget):
        law = learner_for(instance, network).law(instance, rng, Variant(priorities=True))
        chromosome = np.full(instance.chromosome_length, 0.5)
        chromosome[: len(law.alpha)] = law.alpha / (law.alpha + law.beta)
        makespan, peak, _ = evaluate(instance.arrays, chromosome, make_workspace(instance))
        budget.record(instance.fitness(makespan, peak), better=float.__lt__)
        return decode(instance, chromosome), {}

    return run


def with_law(make: Callable[[Instance], MutantLaw]) -> Run:
    """BRKGA with a law that no network makes."""

    def run(instance: Instance, rng: np.random.Generator, budget: Budget):
        return decode(instance, brkga(instance, rng, budget, law=make(instance))), {}

    return run


def best_constant_law(instance: Instance) -> MutantLaw:
    """The constant law that training graphs chose for the objective."""
    entry = chosen()["constant-law"][instance.objective]["chosen"]
    law = constant_law(instance, tuple(entry["affinity"]), tuple(entry["priority"]))
    return _ordered(instance, law, entry)


def best_spectral_law(instance: Instance) -> MutantLaw:
    """The spectral law that training graphs chose for the objective."""
    entry = chosen()["spectral-law"][instance.objective]["chosen"]
    law = spectral_law(instance, features(instance), entry["vector"], entry["strength"])
    return _ordered(instance, law, entry)


def best_priority_law(instance: Instance) -> MutantLaw:
    """The rule for priorities that training graphs chose for the objective."""
    entry = chosen()["priority-law"][instance.objective]["chosen"]
    return _ordered(instance, priority_law(instance, entry["rule"], entry["strength"]), entry)


def _ordered(instance: Instance, law: MutantLaw, entry: dict) -> MutantLaw:
    """The law with the order that its entry names, if any."""
    if "transfers" not in entry:
        return law
    return ordered_law(instance, law, entry.get("height", 0.0), entry["transfers"])


def fiedler_law(instance: Instance) -> MutantLaw:
    """A bias towards the halves of equal cost along the Fiedler vector."""
    return spectral_law(instance, features(instance), "eigenvector_2", 3.0)


LEARNED: dict[str, tuple[str, Callable[..., Run]]] = {
    "regal": ("BRKGA with a graph network's laws, used as validation graphs chose", with_network),
    "regal-paper": (
        "the same as in the paper: laws sampled once, for mutants alone",
        functools.partial(with_network, variant=PAPER),
    ),
    "regal-mean": (
        "the mean of the laws, for mutants alone",
        functools.partial(with_network, variant=Variant(in_initial=False)),
    ),
    "regal-initial": (
        "laws sampled once, for mutants and the initial population",
        functools.partial(with_network, variant=Variant(sampled=True, priorities=True)),
    ),
    "regal-local-search": (
        "REGAL with half of the evaluations, then local search from its best",
        functools.partial(with_network, climb=TUNED_LOCAL_SEARCH),
    ),
    "gas": (
        "BRKGA with the laws of a recurrent network that reads the ops in order and sees no edges",
        functools.partial(with_network, prefix="gas-"),
    ),
    "idrs": ("random search from the graph network's laws", instance_dependent_random_search),
    "gnn": ("the graph network's mean, no search", without_search),
}
"""Name -> description, and a function from a network's name (None: by objective) to the search."""
