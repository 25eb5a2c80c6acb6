"""The least memory with which some schedule fits: proved by CP-SAT where it can, else what the
searches for the smallest peak get by with."""

from dataclasses import replace

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.fitting import ALL, DoesNotFitError, least_share
from learned_mapping.regal.bounds.cp_sat import SMALL_OPS, cp_sat
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule, exchanged
from learned_mapping.regal.searches.local_search import (
    TUNED_LOCAL_SEARCH,
    least_memory,
    local_search,
)

SAMPLES = 4000
"""Of a search for the smallest peak where no time is given."""


def roomiest(instance: Instance, seconds: float | None = None) -> tuple[Schedule, float]:
    """(a schedule of which the fullest device needs a small share of its memory, the share below
    which it is proved that none fits).

    Args:
      seconds: limit, half of it for CP-SAT; where None that of `SAMPLES` and of the solver's own.
    """
    limit = instance.arrays.memory_bytes
    rng = np.random.default_rng(0)
    half = None if seconds is None else seconds / 2
    budget = Budget(samples=SAMPLES) if half is None else Budget(seconds=half)
    memory, parameters = replace(instance, objective="memory"), TUNED_LOCAL_SEARCH["memory"]
    start = least_memory(instance)
    best = local_search(memory, rng, budget, parameters=parameters, start=start)
    found = decode(instance, best)
    least = least_share(instance.graph, limit)
    if instance.machine.devices == 2 and instance.graph.num_ops <= SMALL_OPS:
        result = cp_sat(memory, seconds=half, start=found)
        if result.schedule is not None:
            plans = (found, result.schedule, exchanged(result.schedule, instance))
            found = min(plans, key=lambda plan: share_of(instance, plan))
        least = max(least, result.bound / float(limit.max()))
    return found, min(least, share_of(instance, found))


def share_of(instance: Instance, schedule: Schedule) -> float:
    """The most that a device holds over what it has."""
    return instance.share(instance.simulate(schedule).peaks)


def room_needed(instance: Instance, seconds: float | None = None) -> tuple[float, bool]:
    """(the share of its memory with which every device has enough for some schedule, whether it is
    proved that nothing less does); `seconds` as of `roomiest`."""
    schedule, least = roomiest(instance, seconds)
    share = share_of(instance, schedule)
    return share, share <= least * (1 + 1e-9)


def does_not_fit(instance: Instance, schedule: Schedule, least: float) -> DoesNotFitError:
    """The error of a graph of which no schedule fits, by what `roomiest` proved."""
    share, limit = share_of(instance, schedule), instance.arrays.memory_bytes
    sharp = share <= least * (1 + 1e-9)
    return DoesNotFitError(instance.graph, limit, share, ALL, sharp=sharp, word="device")
