"""Exact optima and proven bounds by constraint programming (REGAL, Section 3.2, baseline 7): OR-tools CP-SAT.

Running time: `cp_sat_runtime`. Memory: `cp_sat_memory` with intervals, `cp_sat_steps` with a variable for each step.
Every phase is a model of its own, and a search for part of the time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.errors import InputError
from learned_mapping.hardware.device_pair import simulate
from learned_mapping.regal.bounds.cp_sat_memory import MemoryModel
from learned_mapping.regal.bounds.cp_sat_model import Model, Phase
from learned_mapping.regal.bounds.cp_sat_runtime import RuntimeModel
from learned_mapping.regal.bounds.cp_sat_steps import StepsModel
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule

SMALL_OPS = 24
"""Most ops of a graph whose ops and tensors are paired one by one, in `Phase.barriers` and `Phase.steps`.

The largest of the sets for exact optima."""
PHASES = {
    "runtime": (Phase(2.0, 0, barriers=True, most_ops=SMALL_OPS), Phase(0.7, 0), Phase(0.3, 1)),
    "memory": (
        # A bound and a schedule, in seconds where intervals take a minute; those are for where the two do not meet.
        Phase(1.5, 0, steps=True, most_ops=SMALL_OPS),
        Phase(0.5, 0, steps=True, one_way=True, most_ops=SMALL_OPS),
        Phase(0.5, 1),
        Phase(0.5, 1, whole_life=True),
    ),
}
"""By objective."""


@dataclass(frozen=True)
class CpSatResult:
    """What the solver found and proved."""

    schedule: Schedule | None
    """The best it knows, `start` included, or None where it found none."""
    cost: float
    """Of that schedule, by the simulator: seconds or bytes; infinite where there is none."""
    bound: float
    """No schedule costs less than this, in seconds or bytes (up to the rounding of durations, downwards)."""
    optimal: bool
    """Whether the schedule costs no more than the bound, which the solver proved, apart from rounding."""
    seconds: float
    """Wall-clock seconds of the solver."""


def cp_sat(
    instance: Instance,
    *,
    deterministic_time: float = 10.0,
    seconds: float | None = None,
    seed: int = 0,
    start: Schedule | None = None,
) -> CpSatResult:
    """Solves with one worker.

    Args:
      instance: what to schedule; for running time its transfers must be ``rendezvous``.
      deterministic_time: limit in CP-SAT's own units, near seconds, the same on every machine.
      seconds: limit in wall-clock seconds; four times `deterministic_time` where None.
      seed: the solver's.
      start: a schedule given as a hint.
    """
    if instance.pair.devices != 2:
        raise InputError("cp-sat", "devices", f"two devices are modelled, got {instance.pair.devices}")
    if instance.objective == "runtime" and instance.pair.transfers != "rendezvous":
        raise InputError("cp-sat", "transfers", "running time is modelled for rendezvous transfers only")
    found, best = CpSatResult(None, np.inf, 0.0, False, 0.0), start
    for phase in _phases(instance):
        # Built anew for each phase: what is known to be possible narrows every domain before the search.
        model = _build(instance, phase)
        if best is not None:
            model.hint(best)
        if phase.one_way:
            model.at_least(found.bound)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.linearization_level = phase.linearization_level
        solver.parameters.max_deterministic_time = phase.share * deterministic_time
        solver.parameters.max_time_in_seconds = phase.share * (4 * deterministic_time if seconds is None else seconds)
        read = _read(model, solver, solver.solve(model.model))
        if read.schedule is not None and start is not None:
            # The steps of memory may leave a dearer schedule than they were given.
            read = _better(read, replace(read, schedule=start, cost=_cost(instance, start), seconds=0.0))
        if phase.one_way:
            read = replace(read, bound=0.0)
        found = _better(found, read)
        if phase.steps:
            found = replace(found, optimal=found.cost <= found.bound + model.rounding)
        best = best if found.schedule is None else found.schedule
        if found.optimal:
            break
    return found


def _phases(instance: Instance) -> list[Phase]:
    """Those that a graph of this size goes through, their shares scaled to 1."""
    ops = instance.graph.num_ops
    phases = [phase for phase in PHASES[instance.objective] if phase.most_ops is None or ops <= phase.most_ops]
    total = sum(phase.share for phase in phases)
    return [phase._replace(share=phase.share / total) for phase in phases]


def _build(instance: Instance, phase: Phase) -> Model:
    if instance.objective == "runtime":
        return RuntimeModel(instance, phase)
    return StepsModel(instance, phase) if phase.steps else MemoryModel(instance, phase)


def _read(model: Model, solver: cp_model.CpSolver, status: int) -> CpSatResult:
    """What one call of the solver found, priced by the simulator."""
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return CpSatResult(None, np.inf, 0.0, False, solver.wall_time)
    schedule = model.schedule(solver)
    bound = max(solver.best_objective_bound, 0.0) * model.unit
    return CpSatResult(schedule, _cost(model.instance, schedule), bound, status == cp_model.OPTIMAL, solver.wall_time)


def _cost(instance: Instance, schedule: Schedule) -> float:
    """Seconds or bytes, by the simulator."""
    simulation = simulate(instance.graph, schedule.placement, schedule.order.tolist(), instance.pair)
    return simulation.makespan_s if instance.objective == "runtime" else float(simulation.peak_bytes)


def _better(one: CpSatResult, other: CpSatResult) -> CpSatResult:
    """The cheaper schedule, the higher bound, the seconds of both."""
    best = min((other, one), key=lambda each: each.cost)
    bound, optimal = max(one.bound, other.bound), one.optimal or other.optimal
    return CpSatResult(best.schedule, best.cost, bound, optimal, one.seconds + other.seconds)
