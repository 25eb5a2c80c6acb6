"""Exact optima and proven bounds by constraint programming (REGAL, Section 3.2, baseline 7): OR-tools CP-SAT.

Running time (rendezvous): every op is an interval on its device, every needed transfer an interval of no length on
both its devices, intervals of a device do not overlap; minimise the last end. Memory: time has no place in it, so every
op and every transfer takes one position of an abstract sequence, every copy of a tensor is an interval of positions
that asks for its bytes, and the capacity of the fuller device is minimised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.errors import InputError
from learned_mapping.hardware.device_pair import simulate
from learned_mapping.regal.instance import Instance
from learned_mapping.regal.schedule import RUN_OP, Schedule

RESOLUTION = 10_000_000
"""Durations are whole multiples of the total over this, rounded down, so that bounds stay valid."""


class Phase(NamedTuple):
    """One search after another: what proves some graphs in seconds does not prove others in a minute."""

    share: float
    """Of the time."""
    linearization_level: int
    """0: no linear relaxation."""
    whole_life: bool = False
    """Memory: whether both devices together must hold every tensor from its producer to its last use."""


PHASES = {
    "runtime": (Phase(0.7, 0), Phase(0.3, 1)),
    "memory": (Phase(0.5, 1), Phase(0.5, 1, whole_life=True)),
}
"""By objective."""


@dataclass(frozen=True)
class CpSatResult:
    """What the solver found and proved."""

    schedule: Schedule | None
    """Its best schedule, or None where it found none."""
    cost: float
    """Of that schedule, by the simulator: seconds or bytes; infinite where there is none."""
    bound: float
    """No schedule costs less than this, in seconds or bytes (up to the rounding of durations, downwards)."""
    optimal: bool
    """Whether the solver closed its search."""
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
    build = _RuntimeModel if instance.objective == "runtime" else _MemoryModel
    found = CpSatResult(None, np.inf, 0.0, False, 0.0)
    for phase in PHASES[instance.objective]:
        # Built anew for each phase: what is known to be possible narrows every domain before the search.
        model = build(instance, phase)
        known = start if found.schedule is None else found.schedule
        if known is not None:
            model.hint(known)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.linearization_level = phase.linearization_level
        solver.parameters.max_deterministic_time = phase.share * deterministic_time
        solver.parameters.max_time_in_seconds = phase.share * (4 * deterministic_time if seconds is None else seconds)
        found = _better(found, _read(model, solver, solver.solve(model.model)))
        if found.optimal:
            break
    return found


def _read(model: _Model, solver: cp_model.CpSolver, status: int) -> CpSatResult:
    """What one call of the solver found, priced by the simulator."""
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return CpSatResult(None, np.inf, 0.0, False, solver.wall_time)
    instance, schedule = model.instance, model.schedule(solver)
    simulation = simulate(instance.graph, schedule.placement, schedule.order.tolist(), instance.pair)
    cost = simulation.makespan_s if instance.objective == "runtime" else float(simulation.peak_bytes)
    bound = max(solver.best_objective_bound, 0.0) * model.unit
    return CpSatResult(schedule, cost, bound, status == cp_model.OPTIMAL, solver.wall_time)


def _better(one: CpSatResult, other: CpSatResult) -> CpSatResult:
    """The cheaper schedule, the higher bound, the seconds of both."""
    best = min((other, one), key=lambda each: each.cost)
    bound, optimal = max(one.bound, other.bound), one.optimal or other.optimal
    return CpSatResult(best.schedule, best.cost, bound, optimal, one.seconds + other.seconds)


class _Model:
    """What both objectives share: which device each op is on, and which tensors are sent. Two devices."""

    unit: float
    """Seconds or bytes of one unit of the objective."""

    def __init__(self, instance: Instance):
        self.instance, self.graph = instance, instance.graph
        self.model = model = cp_model.CpModel()
        graph = self.graph
        self.on_second = [model.new_bool_var(f"on_second.{name}") for name in graph.op_names]
        # The devices are alike: one op may as well be on the first.
        model.add(self.on_second[0] == 0)
        self.apart: dict[tuple[int, int], cp_model.IntVar] = {}
        for producer, consumer in graph.op_edges.tolist():
            x, y = self.on_second[producer], self.on_second[consumer]
            apart = model.new_bool_var(f"apart.{producer}.{consumer}")
            model.add_bool_or(x, y, ~apart)
            model.add_bool_or(~x, ~y, ~apart)
            model.add_bool_or(~x, y, apart)
            model.add_bool_or(x, ~y, apart)
            self.apart[producer, consumer] = apart
        self.sent: dict[int, cp_model.IntVar] = {}
        for tensor in range(graph.num_tensors):
            if len(graph.consumers(tensor)):
                apart = [self.apart[int(graph.tensor_producer[tensor]), c] for c in graph.consumers(tensor).tolist()]
                self.sent[tensor] = sent = model.new_bool_var(f"sent.{tensor}")
                model.add_max_equality(sent, apart)
        topological = np.empty(graph.num_ops, np.int64)
        topological[graph.topological_order] = np.arange(graph.num_ops)
        self.topological = topological.tolist()

    def _hint_devices(self, start: Schedule) -> None:
        placement = (start.placement ^ start.placement[0]).tolist()
        for op, x in enumerate(self.on_second):
            self.model.add_hint(x, placement[op])
        for (producer, consumer), apart in self.apart.items():
            self.model.add_hint(apart, placement[producer] != placement[consumer])
        for tensor, sent in self.sent.items():
            home = placement[self.graph.tensor_producer[tensor]]
            self.model.add_hint(sent, any(placement[c] != home for c in self.graph.consumers(tensor).tolist()))

    def _assemble(self, solver, op_time, op_length, transfer_time) -> Schedule:
        """A schedule from times: of items that meet, those of no length come first, in topological order."""
        placement = [int(solver.value(x)) for x in self.on_second]
        items = []
        for op in range(self.graph.num_ops):
            items.append((solver.value(op_time[op]), op_length[op] > 0, self.topological[op], 0, op, RUN_OP))
        for tensor, sent in self.sent.items():
            if solver.value(sent):
                home = int(self.graph.tensor_producer[tensor])
                rank = (solver.value(transfer_time[tensor]), False, self.topological[home], 1)
                items.append((*rank, tensor, 1 - placement[home]))
        return Schedule.of(placement, [item[-2:] for item in sorted(items)], 2)


class _RuntimeModel(_Model):
    def __init__(self, instance: Instance, phase: Phase):
        super().__init__(instance)
        model, graph, seconds = self.model, self.graph, instance.arrays.seconds
        total = float(seconds.sum())
        self.unit = total / RESOLUTION if total > 0 else 1.0
        self.length = np.floor(seconds / self.unit).astype(np.int64).tolist()
        self.horizon = horizon = int(sum(self.length))
        self.start = [model.new_int_var(0, horizon - length, "") for length in self.length]
        self.transfer = {tensor: model.new_int_var(0, horizon, "") for tensor in self.sent}
        self.makespan = model.new_int_var(0, horizon, "makespan")
        devices: tuple[list, list] = ([], [])
        for op, x in enumerate(self.on_second):
            for literal, intervals in zip((~x, x), devices):
                interval = model.new_optional_fixed_size_interval_var(self.start[op], self.length[op], literal, "")
                intervals.append(interval)
            model.add(self.makespan >= self.start[op] + self.length[op])
        for tensor, sent in self.sent.items():
            producer, moment = int(graph.tensor_producer[tensor]), self.transfer[tensor]
            interval = model.new_optional_fixed_size_interval_var(moment, 0, sent, "")
            for intervals in devices:
                intervals.append(interval)
            ready = self.start[producer] + self.length[producer]
            model.add(moment >= ready)
            for consumer in graph.consumers(tensor).tolist():
                model.add(self.start[consumer] >= ready)
                apart = self.apart[producer, consumer]
                model.add(self.start[consumer] >= moment).only_enforce_if(apart)
        for intervals in devices:
            model.add_no_overlap(intervals)
        # Follows from the devices, but binds before they are chosen.
        every = [model.new_fixed_size_interval_var(*each, "") for each in zip(self.start, self.length)]
        model.add_cumulative(every, [1] * graph.num_ops, 2)
        load = cp_model.LinearExpr.weighted_sum(self.on_second, self.length)
        model.add(self.makespan >= (horizon + 1) // 2)
        model.add(self.makespan >= load)
        model.add(self.makespan >= horizon - load)
        model.minimize(self.makespan)

    def hint(self, start: Schedule) -> None:
        self._hint_devices(start)
        clock, end = [0, 0], 0
        for what, target in start.order.tolist():
            if target == RUN_OP:
                device = int(start.placement[what])
                self.model.add_hint(self.start[what], clock[device])
                clock[device] += self.length[what]
                end = max(end, clock[device])
            else:
                clock = [max(clock)] * 2
                self.model.add_hint(self.transfer[what], clock[0])
        self.model.add_hint(self.makespan, end)
        self.model.add(self.makespan <= end)

    def schedule(self, solver) -> Schedule:
        return self._assemble(solver, self.start, self.length, self.transfer)


class _MemoryModel(_Model):
    def __init__(self, instance: Instance, phase: Phase):
        super().__init__(instance)
        model, graph = self.model, self.graph
        total = int(graph.tensor_bytes.sum() + graph.op_weight_bytes.sum())
        self.unit = float(max(1, total >> 24))
        size = (graph.tensor_bytes // int(self.unit)).tolist()
        weights = (graph.op_weight_bytes // int(self.unit)).tolist()
        self.horizon = horizon = graph.num_ops + len(self.sent)
        self.position = [model.new_int_var(0, horizon - 1, "") for _ in range(graph.num_ops)]
        self.transfer = {tensor: model.new_int_var(0, horizon - 1, "") for tensor in self.sent}
        self.peak = model.new_int_var(0, 2 * (sum(size) + sum(weights)) + 1, "peak")
        steps: tuple[list, list] = ([], [])
        held: tuple[list, list] = ([], [])
        for op, x in enumerate(self.on_second):
            for literal, intervals in zip((~x, x), steps):
                intervals.append(model.new_optional_fixed_size_interval_var(self.position[op], 1, literal, ""))
        for tensor in range(graph.num_tensors):
            self._add_tensor(tensor, size[tensor], steps, held)
        for k, literals in enumerate(([~x for x in self.on_second], self.on_second)):
            model.add_no_overlap(steps[k])
            capacity = model.new_int_var(0, 2 * (sum(size) + sum(weights)) + 1, "")
            model.add(capacity + cp_model.LinearExpr.weighted_sum(literals, weights) <= self.peak)
            model.add_cumulative([interval for interval, _ in held[k]], [s for _, s in held[k]], capacity)
        if phase.whole_life:
            self._add_whole_life(size, sum(weights))
        self._add_bounds(size, weights)
        model.minimize(self.peak)

    def _add_whole_life(self, size: list[int], weights: int) -> None:
        """Somewhere a tensor is held from its producer to its last use: binds before the devices are chosen."""
        model, graph, horizon = self.model, self.graph, self.horizon
        intervals = []
        for tensor in range(graph.num_tensors):
            born = self.position[int(graph.tensor_producer[tensor])]
            end, length = model.new_int_var(1, horizon, ""), model.new_int_var(1, horizon, "")
            model.add(end >= born + 1)
            for consumer in graph.consumers(tensor).tolist():
                model.add(end >= self.position[consumer] + 1)
            if graph.tensor_is_output[tensor]:
                model.add(end == horizon)
            intervals.append(model.new_interval_var(born, length, end, ""))
        model.add_cumulative(intervals, size, 2 * self.peak - weights)

    def _add_bounds(self, size: list[int], weights: list[int]) -> None:
        """What every schedule obeys anyway, said so that the solver need not find it out.

        An op runs after all it rests on and before all that rests on it; its device then holds what it reads, what it
        makes, and the weights there; at the end each device holds its weights and the graph's outputs made there.
        """
        model, graph, n = self.model, self.graph, self.graph.num_ops
        needs = np.eye(n, dtype=bool)
        edges = graph.op_edges[np.argsort(np.asarray(self.topological)[graph.op_edges[:, 0]], kind="stable")]
        for producer, consumer in edges.tolist():
            needs[consumer] |= needs[producer]
        before, after = needs.sum(axis=1) - 1, needs.sum(axis=0) - 1
        for op in range(n):
            model.add(self.position[op] >= int(before[op]))
            model.add(self.position[op] <= self.horizon - 1 - int(after[op]))
        last = list(weights)
        used = [weights[op] for op in range(n)]
        for tensor in range(graph.num_tensors):
            producer = int(graph.tensor_producer[tensor])
            used[producer] += size[tensor]
            if graph.tensor_is_output[tensor]:
                last[producer] += size[tensor]
            for consumer in set(graph.consumers(tensor).tolist()):
                used[consumer] += size[tensor]
        model.add(self.peak >= max(used))
        total = sum(last)
        model.add(self.peak >= cp_model.LinearExpr.weighted_sum(self.on_second, last))
        model.add(self.peak >= total - cp_model.LinearExpr.weighted_sum(self.on_second, last))

    def _add_tensor(self, tensor, size, steps, held) -> None:
        """The intervals of a tensor's copies: at home from its producer on, elsewhere from its transfer on."""
        model, graph, horizon = self.model, self.graph, self.horizon
        producer = int(graph.tensor_producer[tensor])
        home, born = self.on_second[producer], self.position[producer]
        end = model.new_int_var(1, horizon, "")
        model.add(end >= born + 1)
        if graph.tensor_is_output[tensor]:
            model.add(end == horizon)
        for literal, intervals in zip((~home, home), held):
            length = model.new_int_var(1, horizon, "")
            intervals.append((model.new_optional_interval_var(born, length, end, literal, ""), size))
        if tensor not in self.sent:
            return
        sent, moment = self.sent[tensor], self.transfer[tensor]
        for intervals in steps:
            intervals.append(model.new_optional_fixed_size_interval_var(moment, 1, sent, ""))
        model.add(moment >= born + 1)
        model.add(end >= moment + 1).only_enforce_if(sent)
        away_end = model.new_int_var(1, horizon, "")
        for consumer in graph.consumers(tensor).tolist():
            apart = self.apart[producer, consumer]
            model.add(self.position[consumer] >= born + 1)
            model.add(self.position[consumer] >= moment + 1).only_enforce_if(apart)
            model.add(end >= self.position[consumer] + 1).only_enforce_if(~apart)
            model.add(away_end >= self.position[consumer] + 1).only_enforce_if(apart)
        for literal, intervals in zip((home, ~home), held):
            here = model.new_bool_var("")
            model.add_bool_and(sent, literal).only_enforce_if(here)
            model.add_bool_or(~sent, ~literal, here)
            length = model.new_int_var(1, horizon, "")
            intervals.append((model.new_optional_interval_var(moment, length, away_end, here, ""), size))

    def hint(self, start: Schedule) -> None:
        self._hint_devices(start)
        peak = simulate(self.graph, start.placement, start.order.tolist(), self.instance.pair).peak_bytes
        # The model's bytes are rounded down one by one, so their sum is no more.
        self.model.add(self.peak <= int(peak // self.unit))
        for position, (what, target) in enumerate(start.order.tolist()):
            self.model.add_hint(self.position[what] if target == RUN_OP else self.transfer[what], position)

    def schedule(self, solver) -> Schedule:
        return self._assemble(solver, self.position, [1] * self.graph.num_ops, self.transfer)
