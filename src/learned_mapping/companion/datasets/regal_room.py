"""Which generated graphs leave a search room for improvement: the filter of paper 3's released synthetic set.

The notes of that release (deepmind-research/regal) keep a graph where BRKGA with few evaluations breaks the hardware's
limits and BRKGA with many does not, or where many make the running time 20% better than few. They print neither the two
numbers of evaluations nor the limits; those here are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.device_pair import DevicePair, simulate
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.rules.instance import INFEASIBLE, Instance
from learned_mapping.regal.searches.brkga import BrkgaParameters, brkga

LOW_EVALUATIONS = 500
"""Evaluations of the short search: the first generation and five more."""
HIGH_EVALUATIONS = 5000
"""Evaluations of the long search, as in the paper's experiments (Section 3.2)."""
RUNTIME_RATIO = 0.8
"""The long search's running time over the short one's, at most: 20% better."""
MEMORY_SHARE = 0.25
"""Where a device's memory lies between what the largest op needs and what running all on one device needs."""
PARAMETERS = BrkgaParameters(population=100, elite_fraction=0.2, mutant_fraction=0.15, bias=0.7)

FITS, FASTER, TOO_LARGE, NO_ROOM = "fits", "faster", "too large", "no room"
"""Verdicts: the long search alone fits the memory; both fit and it is faster by 20%; neither fits; both fit and it is
not faster by 20%. The first two are the conditions that keep a graph."""
KEPT = (FITS, FASTER)


@dataclass(frozen=True)
class Room:
    """What the two searches found."""

    verdict: str
    low: float
    """Fitness after `LOW_EVALUATIONS`: seconds, or at least `INFEASIBLE` where the memory limit is broken."""
    high: float
    """The same after `HIGH_EVALUATIONS`."""


def memory_limit(graph: ComputationGraph) -> int:
    """Bytes of memory of each device for which a graph is judged.

    limit = floor + `MEMORY_SHARE` (one - floor): ``floor`` is the largest sum of an op's inputs and outputs, which some
    device must hold at once; ``one`` is the peak of one device that runs all ops in the graph's topological order.
    """
    floor = int((graph.op_input_bytes + graph.op_output_bytes).max())
    order = [(op, -1) for op in graph.topological_order.tolist()]
    one = simulate(graph, np.zeros(graph.num_ops, np.int64), order, DevicePair()).peak_bytes
    return floor + int(MEMORY_SHARE * (one - floor))


def room(graph: ComputationGraph, rng: np.random.Generator) -> Room:
    """Searches for the shortest running time within `memory_limit` and judges.

    The short search is the beginning of the long one: with the same seed BRKGA's first generations are the same.

    Args:
      graph: the candidate.
      rng: the search's only source of randomness.
    """
    budget = Budget(samples=HIGH_EVALUATIONS)
    pair = DevicePair(memory_bytes=float(memory_limit(graph)))
    brkga(Instance(graph, pair, "runtime"), rng, budget, parameters=PARAMETERS)
    high = budget.curve_best[-1]
    low = [best for samples, best in zip(budget.curve_samples, budget.curve_best) if samples <= LOW_EVALUATIONS][-1]
    if high >= INFEASIBLE:
        return Room(TOO_LARGE, low, high)
    if low >= INFEASIBLE:
        return Room(FITS, low, high)
    return Room(FASTER if high <= RUNTIME_RATIO * low else NO_ROOM, low, high)
