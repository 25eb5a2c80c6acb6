"""A trained network in use: read from its checkpoint, asked for the law of one graph."""

import functools
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.regal.agent.forward import (
    Parameters,
    instance_logits,
    read_network,
    write_network,
)
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import MutantLaw
from learned_mapping.regal.searches.proposals import BINS, mean_law, ordered_law, sampled_law


@dataclass(frozen=True)
class Variant:
    """The way from the logits to a law, and the chromosomes it feeds."""

    # Whether bins are drawn once for each run, as in the paper, or their mean is taken.
    sampled: bool = False
    # How far alpha and beta go from 1; see `mean_law`. Of no effect where bins are drawn.
    strength: float = 1.0
    # Whether the initial population follows the law; in the paper mutants alone do.
    in_initial: bool = True
    mutant_share: float = 1.0  # Share of the mutants that follow it.
    priorities: bool = False  # Whether the priorities follow the learner too, as in the paper.
    turns: tuple[float, ...] = (1.0,)  # As in `MutantLaw`.
    height: float = 0.0
    """Strength of the rule that orders ops by their longest remaining path, in place of the
    learner's priorities; see `ordered_law`. 0: no rule."""
    transfers: float = 0.0
    """The factor by which transfers go before ops; see `ordered_law`. 0: priorities stay uniform,
    as in the paper."""


PAPER = Variant(sampled=True, in_initial=False, priorities=True)
"""Section 2.3: bins sampled once for each run, for affinities and priorities, fed to the
mutants."""


@dataclass(frozen=True, eq=False)
class Learner:
    """A network and what it was trained for."""

    parameters: Parameters
    rounds: int  # Of message passing.
    objective: str  # ``runtime`` or ``memory``.
    dataset: str
    seed: int

    def logits(self, instance: Instance) -> np.ndarray:
        """[N, d + 1, 2, bins]; raises `InputError` for more than two devices."""
        return instance_logits(self.parameters, instance, self.rounds)

    def law(self, instance: Instance, rng: np.random.Generator, variant: Variant) -> MutantLaw:
        """The law of an instance."""
        options = {
            name: getattr(variant, name)
            for name in ("in_initial", "mutant_share", "priorities", "turns")
        }
        logits = self.logits(instance)
        if variant.sampled:
            law = sampled_law(logits, rng, **options)
        else:
            law = mean_law(logits, strength=variant.strength, **options)
        if not variant.height and not variant.transfers:
            return law
        return ordered_law(instance, law, variant.height, variant.transfers)


def write_learner(path: str | os.PathLike, learner: Learner) -> None:
    """Writes the network's weights and what `Learner` says of it."""
    write_network(path, learner, BINS)


@functools.lru_cache(maxsize=32)
def read_learner(path: str | Path) -> Learner:
    """A network from its checkpoint; raises `InputError` as `read_network`."""
    return read_network(path, Learner, BINS)[0]


def variant_from(entry: dict) -> Variant:
    """A `Variant` from its JSON object; raises `InputError` for unknown fields."""
    try:
        return Variant(**entry | {"turns": tuple(entry.get("turns", Variant.turns))})
    except TypeError as error:
        raise InputError("variant", "", str(error)) from None


def variant_to(variant: Variant) -> dict:
    """The JSON object of a variant; turns, height and transfers where they are not the default."""
    settings = asdict(variant) | {"turns": list(variant.turns)}
    for name in ("turns", "height", "transfers"):
        if getattr(variant, name) == getattr(Variant, name):
            del settings[name]
    return settings
