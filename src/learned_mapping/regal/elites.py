"""Good schedules to imitate: what BRKGA makes of the laws of smooth vectors.

An elite of a law stays near the vector it started from. Long searches and climbs find better schedules, but two of
them agree on devices hardly better than chance, and nothing can be learned from that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.regal.brkga import MutantLaw, brkga
from learned_mapping.regal.decode import decode
from learned_mapping.regal.features import Features
from learned_mapping.regal.instance import Instance
from learned_mapping.regal.laws import spectral_law
from learned_mapping.regal.schedule import RUN_OP

ORIGINS = ("balanced_16_1", "balanced_4_1", "balanced_16_2", "eigenvector_2")
"""Vectors whose spectral laws make an elite each."""
STRENGTH = 3.0


class Elites(NamedTuple):
    """K good schedules of an instance of N ops, best first."""

    devices: np.ndarray
    """[K, N] int8, 0 or 1; device 1 is where the vector is positive, so that all elites name devices alike."""
    priorities: np.ndarray
    """[K, N] float32 in (0, 1), falling along each schedule."""
    costs: np.ndarray
    """[K] float64, seconds or bytes."""


def find_elites(
    instance: Instance,
    seen: Features,
    rng: np.random.Generator,
    *,
    evaluations: int,
    laws: tuple[MutantLaw, ...] | None = None,
) -> Elites:
    """One elite for each law.

    Args:
      instance: what to schedule, on two devices.
      seen: its features.
      rng: the only source of randomness.
      evaluations: of each elite.
      laws: those of `ORIGINS` where None.
    """
    if laws is None:
        laws = tuple(spectral_law(instance, seen, origin, STRENGTH) for origin in ORIGINS)
    found = []
    for law in laws:
        budget = Budget(samples=evaluations)
        schedule = decode(instance, brkga(instance, rng, budget, law=law))
        where = np.flatnonzero(schedule.order[:, 1] == RUN_OP)
        priority = np.empty(instance.graph.num_ops)
        priority[schedule.order[where, 0]] = 1 - (where + 0.5) / len(schedule.order)
        found.append((budget.best, schedule.placement, priority))
    found.sort(key=lambda each: each[0])
    return Elites(
        np.array([each[1] for each in found], np.int8),
        np.array([each[2] for each in found], np.float32),
        np.array([each[0] for each in found]),
    )
