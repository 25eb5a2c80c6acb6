"""The least memory with which some partition fits: proved over all ideals or by CP-SAT where
either can, else what a rule gets by with."""

import time

import numpy as np

from learned_mapping.errors import LearnedMappingError
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.bounds.optimum import ideals_of, least_memory
from learned_mapping.mcm.rules.cp_sat import is_small_enough, roomiest_partition
from learned_mapping.mcm.searches.greedy import careful_greedy

MAX_IDEALS = 20_000
"""Up to here all ideals are gone through, some seconds for the most."""
EFFORT = 5.0
"""Of CP-SAT, see `rules.cp_sat`."""


def room_needed(model: ChipModel, seconds: float | None = None) -> tuple[float, bool]:
    """(the share of its memory with which every chip has enough for some partition, whether
    nothing less does under the chain rule).

    Args:
      model: with memory.
      seconds: limit, half of it for the ideals; where None that of `MAX_IDEALS` and `EFFORT`.
    """
    assert model.limit is not None
    half = time.perf_counter() + (np.inf if seconds is None else seconds / 2)

    def stop() -> bool:
        return time.perf_counter() > half

    try:
        return least_memory(model, ideals_of(model, MAX_IDEALS, stop), stop)
    except LearnedMappingError:  # too many, or with fixed ops
        start = careful_greedy(model)
    share = model.excess(start)
    if len(np.unique(model.limit)) > 1 or not is_small_enough(model.graph, model.package.chips):
        return share, False
    left = None if seconds is None else max(seconds / 2 + half - time.perf_counter(), 0.1)
    outcome = roomiest_partition(model, effort=EFFORT, seconds=left, start=start)
    if outcome.assignment is not None:
        share = min(share, model.excess(outcome.assignment))
    return share, outcome.bound >= share * model.limit[0] - 0.5
