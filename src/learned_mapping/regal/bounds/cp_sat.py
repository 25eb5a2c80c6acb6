"""Exact optima and proven bounds by constraint programming (REGAL, Section 3.2, baseline 7):
OR-tools CP-SAT.

Every phase is a model of its own, and a search for part of the time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.cp_sat import limit, never, run
from learned_mapping.errors import InputError
from learned_mapping.regal.bounds.cp_sat_memory import MemoryModel, PeakModel, StepsModel
from learned_mapping.regal.bounds.cp_sat_model import Phase, RuntimeModel
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule

PATIENCE_S = 60.0  # Beyond what the solver's own units of work take, where no limit is given.
SMALL_OPS = 24
"""Most ops of a graph whose ops and tensors are paired one by one, in `Phase.barriers` and
`Phase.steps`.

The largest of the sets for exact optima."""
PHASES = {
    "runtime": (Phase(2.0, 0, barriers=True, most_ops=SMALL_OPS), Phase(0.7, 0), Phase(0.3, 1)),
    "memory": (
        # A bound and a schedule, in seconds where intervals take a minute; those are for where the
        # two do not meet.
        Phase(1.5, 0, steps=True, most_ops=SMALL_OPS),
        Phase(0.5, 0, steps=True, one_way=True, most_ops=SMALL_OPS),
        Phase(0.5, 1),
        Phase(0.5, 1, whole_life=True),
    ),
}
"""The phases by objective."""


@dataclass(frozen=True)
class CpSatResult:
    """The schedule and the bound of the solver."""

    schedule: Schedule | None  # The best it knows, `start` included, or None where it found none.
    cost: float  # Of it, by the simulator: seconds or bytes; infinite where there is none.
    # No schedule costs less than this, in seconds or bytes (up to the rounding of durations,
    # downwards).
    bound: float
    # Whether the schedule costs no more than the bound, which the solver proved, apart from
    # rounding.
    optimal: bool


def is_modelled(instance: Instance) -> bool:
    """Whether the model knows the devices: two, for running time of one speed, with one link both
    ways."""
    machine = instance.machine
    if machine.devices != 2 or instance.objective == "memory":
        return machine.devices == 2
    return machine.alike and all(numbers[0, 1] == numbers[1, 0] for numbers in machine.links)


def expect_modelled(instance: Instance) -> None:
    """Raises `InputError` for devices that no model here is of."""
    if not is_modelled(instance):
        fault = (
            "modelled are two devices, for running time of one speed and with one link both ways"
        )
        raise InputError("cp-sat", "devices", fault)


def cp_sat(
    instance: Instance,
    *,
    deterministic_time: float = 10.0,
    seconds: float | None = None,
    seed: int = 0,
    start: Schedule | None = None,
    stop: Callable[[], bool] = never,
) -> CpSatResult:
    """Solves with one worker.

    Args:
      instance: what to schedule, on two devices; for running time they must be alike.
      deterministic_time: limit in CP-SAT's own units, near seconds, the same on every machine.
      seconds: limit in wall-clock seconds, the making of the models included; where None, one
        that a busy machine does not reach.
      seed: the solver's.
      start: a schedule given as a hint.
      stop: true once the search is to end with what it has.
    """
    expect_modelled(instance)
    result, best = CpSatResult(None, np.inf, 0.0, False), start
    whole = 4 * deterministic_time + PATIENCE_S if seconds is None else seconds
    end = time.perf_counter()
    for phase in _phases(instance):
        end += phase.share * whole
        if time.perf_counter() >= end:
            continue
        # Built anew for each phase: what is known to be possible narrows every domain.
        kind = (
            RuntimeModel
            if instance.objective == "runtime"
            else StepsModel
            if phase.steps
            else MemoryModel
        )
        model = kind(instance, phase)
        if best is not None:
            model.hint(best)
        if phase.one_way and isinstance(model, PeakModel):
            # No schedule has a smaller peak: the search may stop there.
            model.model.add(model.peak >= round(result.bound / model.unit))
        left = end - time.perf_counter()
        if left <= 0.0:  # the model took it all
            continue
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.linearization_level = phase.linearization_level
        solver.parameters.max_deterministic_time = phase.share * deterministic_time
        limit(solver, left)
        status = run(solver, model.model, stop)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            schedule = model.schedule(solver)
            bound = 0.0 if phase.one_way else max(solver.best_objective_bound, 0.0) * model.unit
            # The steps of memory may leave a dearer schedule than they were given.
            for plan in (schedule, start):
                if plan is not None:
                    result = _better(
                        result,
                        CpSatResult(plan, instance.cost(plan), bound, status == cp_model.OPTIMAL),
                    )
        if phase.steps:
            result = replace(result, optimal=result.cost <= result.bound + model.rounding)
        best = best if result.schedule is None else result.schedule
        if result.optimal or stop():
            break
    return result


def _phases(instance: Instance) -> list[Phase]:
    """The phases that a graph of this size goes through, their shares scaled to 1."""
    ops = instance.graph.num_ops
    machine = instance.machine
    # With links that cost, devices change their roles for nothing no longer.
    barriers = machine.transfers == "rendezvous" and machine.free_links
    phases = [
        phase
        for phase in PHASES[instance.objective]
        if (phase.most_ops is None or ops <= phase.most_ops) and (barriers or not phase.barriers)
    ]
    total = sum(phase.share for phase in phases)
    return [phase._replace(share=phase.share / total) for phase in phases]


def _better(one: CpSatResult, other: CpSatResult) -> CpSatResult:
    """The cheaper schedule, of equals the second; the higher bound."""
    best = min((other, one), key=lambda result: result.cost)
    return replace(best, bound=max(one.bound, other.bound), optimal=one.optimal or other.optimal)
