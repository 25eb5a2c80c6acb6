"""CP-SAT's model of running time, and what it shares with those of memory: the device of each op,
what is sent.

Every op is an interval on its device, and intervals of a device do not overlap; minimise the last
end. Rendezvous: every needed transfer is an interval on both its devices, of no length where links
are free. Otherwise a transfer delays those who need it, and where links have queues it is an
interval on its link.
"""

from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import RUN_OP, Schedule

RESOLUTION = 10_000_000
"""Durations are whole multiples of the total over this, rounded down, so that bounds stay valid."""


class Phase(NamedTuple):
    """One search of several: what proves some graphs in seconds proves others in no minute."""

    share: float  # Of the time; the shares of the phases that a graph goes through are scaled to 1.
    linearization_level: int  # 0: no linear relaxation.
    whole_life: bool = False
    """Memory: whether the devices together hold every tensor from producer to last use."""
    barriers: bool = False
    """Running time: whether every transfer has all ops on its two sides, and the first device never
    waits."""
    steps: bool = False
    """Memory: whether every step of the sequence has its own variables instead of intervals
    (`StepsModel`)."""
    one_way: bool = False
    """Whether, with `steps`, tensors go one way only between two ops; finds schedules, but its
    bound is none."""
    # Graphs with more ops skip the phase: its model grows with ops times tensors.
    most_ops: int | None = None


def reachability(graph: ComputationGraph) -> np.ndarray:
    """[N, N] bool: whether op i rests on op j, directly or not; every op rests on itself."""
    rank = np.argsort(graph.topological_order)
    rests = np.eye(graph.num_ops, dtype=bool)
    for producer, consumer in graph.op_edges[
        np.argsort(rank[graph.op_edges[:, 0]], kind="stable")
    ].tolist():
        rests[consumer] |= rests[producer]
    return rests


class Model:
    """The device of each op, and the tensors that are sent. Two devices.

    Args:
      pinned: whether the first op stays on the first device, as the devices are alike.
    """

    unit: float  # Seconds or bytes of one unit of the objective.
    moment: list[cp_model.IntVar]  # Of each op, a time or a place in the sequence.
    length: list[int]  # Of each op, in the same.
    sends: list[int]  # Of each tensor's transfer, in the same.
    transfer: dict[int, cp_model.IntVar]  # The moment at which each tensor is sent that may be.

    def __init__(self, instance: Instance, *, pinned: bool = True):
        self.instance, self.graph = instance, instance.graph
        self.model = model = cp_model.CpModel()
        graph = self.graph
        self.on_second = [model.new_bool_var(f"on_second.{name}") for name in graph.op_names]
        if pinned:
            model.add(self.on_second[0] == 0)
        self.apart: dict[tuple[int, int], cp_model.IntVar] = {}
        for producer, consumer in graph.op_edges.tolist():
            x, y = self.on_second[producer], self.on_second[consumer]
            apart = model.new_bool_var(f"apart.{producer}.{consumer}")
            for clause in ((x, y, ~apart), (~x, ~y, ~apart), (~x, y, apart), (x, ~y, apart)):
                model.add_bool_or(*clause)
            self.apart[producer, consumer] = apart
        self.sent: dict[int, cp_model.IntVar] = {}
        self.sends = [0] * graph.num_tensors
        self.producer: list[int] = graph.tensor_producer.tolist()
        self.consumers = [graph.consumers(tensor).tolist() for tensor in range(graph.num_tensors)]
        for tensor, consumers in enumerate(self.consumers):
            if consumers:
                self.sent[tensor] = sent = model.new_bool_var(f"sent.{tensor}")
                model.add_max_equality(
                    sent, [self.apart[self.producer[tensor], c] for c in consumers]
                )

    def _both(self, one: cp_model.LiteralT, other: cp_model.LiteralT) -> cp_model.IntVar:
        """Whether both hold."""
        both = self.model.new_bool_var("")
        self.model.add_bool_and(one, other).only_enforce_if(both)
        self.model.add_bool_or(~one, ~other, both)
        return both

    @property
    def rounding(self) -> float:
        """Seconds or bytes that a schedule may cost above its objective, as durations and sizes are
        rounded down; whole bytes are not."""
        if self.unit == 1.0:
            return 0.0
        return (self.graph.num_ops + self.graph.num_tensors + 1) * self.unit

    def _hint_devices(self, placement: list[int]) -> None:
        for op, x in enumerate(self.on_second):
            self.model.add_hint(x, placement[op])
        for (producer, consumer), apart in self.apart.items():
            self.model.add_hint(apart, placement[producer] != placement[consumer])
        for tensor, sent in self.sent.items():
            home = placement[self.producer[tensor]]
            self.model.add_hint(sent, any(placement[c] != home for c in self.consumers[tensor]))

    def schedule(self, solver: cp_model.CpSolver) -> Schedule:
        """The solver's schedule: of items that meet, those of no length come first, in topological
        order."""
        placement = [int(solver.value(x)) for x in self.on_second]
        rank = np.argsort(self.graph.topological_order).tolist()
        items = []
        for op, moment in enumerate(self.moment):
            items.append((solver.value(moment), self.length[op] > 0, rank[op], 0, op, RUN_OP))
        for tensor, sent in self.sent.items():
            if solver.value(sent):
                home = self.producer[tensor]
                at = solver.value(self.transfer[tensor])
                lasts = self.sends[tensor] > 0
                items.append((at, lasts, rank[home], 1, tensor, 1 - placement[home]))
        return self._schedule(placement, [item[-2:] for item in sorted(items)])

    def _schedule(self, placement, order) -> Schedule:
        return Schedule.of(placement, order, 2).on(self.graph, self.instance.machine)


class RuntimeModel(Model):
    """Seconds of the last end. With ``phase.barriers`` it also says what a rendezvous implies.

    A transfer stops both devices, so every op is over before it or starts after it, wherever the op
    runs. And at a transfer the two devices may change their roles: whatever is needed later can be
    sent to the other side at that moment, free of charge. So some best schedule has, between any
    two transfers, the more work on the first device; there the first device never waits, its work
    is the running time, and a transfer's moment is the work it did before.
    """

    def __init__(self, instance: Instance, phase: Phase):
        super().__init__(instance, pinned=not phase.barriers)
        model, graph, seconds = self.model, self.graph, instance.arrays.seconds
        total = float(seconds.sum())
        self.unit = total / RESOLUTION or 1.0  # where nothing takes time, or next to none
        self.length = np.floor(seconds / self.unit).astype(np.int64).tolist()
        self.horizon = horizon = int(sum(self.length))
        speed, latency = (float(numbers[0, 1]) for numbers in instance.machine.links)
        sends = np.floor((latency + graph.tensor_bytes / speed) / self.unit)
        self.sends = np.minimum(sends, horizon + 1).astype(np.int64).tolist()
        self.transfers, self.barriers = instance.machine.transfers, phase.barriers
        self.moment = [model.new_int_var(0, horizon - length, "") for length in self.length]
        self.transfer = {tensor: model.new_int_var(0, horizon, "") for tensor in self.sent}
        self.makespan = model.new_int_var(0, horizon, "makespan")
        # Two devices, the link from the first to the second, and the link back.
        resources: tuple[list, ...] = ([], [], [], [])
        for op, x in enumerate(self.on_second):
            for literal, intervals in zip((~x, x), resources):
                at = (self.moment[op], self.length[op])
                intervals.append(model.new_optional_fixed_size_interval_var(*at, literal, ""))
            model.add(self.makespan >= self.moment[op] + self.length[op])
        for tensor, sent in self.sent.items():
            producer, moment = self.producer[tensor], self.transfer[tensor]
            over = moment + self.sends[tensor]
            if self.sends[tensor] > horizon:  # longer than everything on one device
                model.add(sent == 0)
            self._occupy(resources, tensor)
            ready = self.moment[producer] + self.length[producer]
            model.add(moment >= ready)
            for consumer in self.consumers[tensor]:
                model.add(self.moment[consumer] >= ready)
                apart = self.apart[producer, consumer]
                model.add(self.moment[consumer] >= over).only_enforce_if(apart)
        for intervals in resources:
            model.add_no_overlap(intervals)
        self._add_work()
        load = cp_model.LinearExpr.weighted_sum(self.on_second, self.length)
        model.add(self.makespan >= (horizon + 1) // 2)
        model.add(self.makespan >= load)
        model.add(self.makespan >= horizon - load)
        if phase.barriers:
            model.add(self.makespan == horizon - load)
            for tensor in self.sent:
                self._add_barrier(tensor)
        model.minimize(self.makespan)

    def _occupy(self, resources: tuple[list, ...], tensor: int) -> None:
        """Adds the transfer of a tensor to the devices or to the link that it keeps busy."""
        at, sent = (self.transfer[tensor], self.sends[tensor]), self.sent[tensor]
        if self.transfers == "rendezvous":
            interval = self.model.new_optional_fixed_size_interval_var(*at, sent, "")
            resources[0].append(interval)
            resources[1].append(interval)
        elif self.transfers == "queued":
            x = self.on_second[self.producer[tensor]]
            for side, intervals in zip((~x, x), resources[2:]):
                goes = self._both(sent, side)
                interval = self.model.new_optional_fixed_size_interval_var(*at, goes, "")
                intervals.append(interval)

    def _add_work(self) -> None:
        """Adds what follows from the devices, but binds before they are chosen: two at a time, and
        a transfer that takes time stops both."""
        model, spans, demands = self.model, [], []
        for span in zip(self.moment, self.length):
            spans.append(model.new_fixed_size_interval_var(*span, ""))
            demands.append(1)
        stopped = []
        for tensor, sent in self.sent.items():
            if self.transfers == "rendezvous" and 0 < self.sends[tensor] <= self.horizon:
                at = (self.transfer[tensor], self.sends[tensor])
                spans.append(model.new_optional_fixed_size_interval_var(*at, sent, ""))
                demands.append(2)
                stopped.append(2 * self.sends[tensor] * sent)
        model.add_cumulative(spans, demands, 2)
        if stopped:
            model.add(2 * self.makespan >= self.horizon + sum(stopped))

    def _add_barrier(self, tensor: int) -> None:
        """Adds that each op is before the sending of the tensor or after it; what came before takes
        no longer."""
        model, sent, moment = self.model, self.sent[tensor], self.transfer[tensor]
        sides: tuple[list, list] = ([], [])
        for op, x in enumerate(self.on_second):
            before = model.new_bool_var("")
            model.add(self.moment[op] + self.length[op] <= moment).only_enforce_if(before)
            model.add(self.moment[op] >= moment).only_enforce_if(~before, sent)
            for literal, side in zip((~x, x), sides):
                side.append(self._both(before, literal))
        first, second = (cp_model.LinearExpr.weighted_sum(side, self.length) for side in sides)
        model.add(first == moment).only_enforce_if(sent)
        model.add(second <= moment).only_enforce_if(sent)

    def _barred(self, start: Schedule) -> list[int]:
        """Its devices, exchanged between two transfers wherever the second has the more work."""
        placement, part = start.placement.tolist(), []
        for what, target in [*start.order.tolist(), (0, 0)]:
            if target == RUN_OP:
                part.append(what)
                continue
            if sum(self.length[op] if placement[op] else -self.length[op] for op in part) > 0:
                for op in part:
                    placement[op] ^= 1
            part = []
        return placement

    def hint(self, start: Schedule) -> None:
        """Gives `start` to the solver, and its end as a limit."""
        placement = (
            self._barred(start)
            if self.barriers
            else (start.placement ^ start.placement[0]).tolist()
        )
        self._hint_devices(placement)
        clock, over, busy = [0, 0], [0] * self.graph.num_tensors, [0, 0]
        for what, target in start.order.tolist():
            if target == RUN_OP:
                device = placement[what]
                inputs = self.graph.op_inputs[what]
                begin = max(
                    [clock[device], *(over[t] for t in inputs if self._away(t, placement, device))]
                )
                self.model.add_hint(self.moment[what], begin)
                clock[device] = begin + self.length[what]
                for tensor in self.graph.op_outputs[what]:
                    over[tensor] = clock[device]
                continue
            home = placement[self.producer[what]]
            begin = max(clock) if self.transfers == "rendezvous" else over[what]
            if self.transfers == "queued":
                begin = max(begin, busy[home])
            self.model.add_hint(self.transfer[what], begin)
            over[what] = busy[home] = begin + self.sends[what]
            if self.transfers == "rendezvous":
                clock = [over[what], over[what]]
        self.model.add_hint(self.makespan, max(clock))
        self.model.add(self.makespan <= max(clock))

    def _away(self, tensor: int, placement: list[int], device: int) -> bool:
        return placement[self.producer[tensor]] != device
