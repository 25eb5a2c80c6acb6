"""Running time of two devices for CP-SAT (`regal.cp_sat`): ops are intervals of time, transfers moments.

Rendezvous: every op is an interval on its device, every needed transfer an interval of no length on both its devices,
intervals of a device do not overlap; minimise the last end.
"""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.regal.bounds.cp_sat_model import Model, Phase
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import RUN_OP, Schedule

RESOLUTION = 10_000_000
"""Durations are whole multiples of the total over this, rounded down, so that bounds stay valid."""


class RuntimeModel(Model):
    """Seconds of the last end. With ``phase.barriers`` it also says what a rendezvous implies.

    A transfer stops both devices, so every op is over before it or starts after it, wherever the op runs. And at a
    transfer the two devices may change their roles: whatever is needed later can be sent to the other side at that
    moment, free of charge. So some best schedule has, between any two transfers, the more work on the first device;
    there the first device never waits, its work is the running time, and a transfer's moment is the work it did before.
    """

    def __init__(self, instance: Instance, phase: Phase):
        super().__init__(instance, pinned=not phase.barriers)
        model, graph, seconds = self.model, self.graph, instance.arrays.seconds
        total = float(seconds.sum())
        self.unit = total / RESOLUTION if total > 0 else 1.0
        self.length = np.floor(seconds / self.unit).astype(np.int64).tolist()
        self.horizon = horizon = int(sum(self.length))
        self.barriers = phase.barriers
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
        if phase.barriers:
            model.add(self.makespan == horizon - load)
            for tensor in self.sent:
                self._add_barrier(tensor)
        model.minimize(self.makespan)

    def _add_barrier(self, tensor: int) -> None:
        """Where the tensor is sent, each op is before or after; what each device did before takes no longer."""
        model, sent, moment = self.model, self.sent[tensor], self.transfer[tensor]
        sides: tuple[list, list] = ([], [])
        for op, x in enumerate(self.on_second):
            before = model.new_bool_var("")
            model.add(self.start[op] + self.length[op] <= moment).only_enforce_if(before)
            model.add(self.start[op] >= moment).only_enforce_if(~before, sent)
            for literal, side in zip((~x, x), sides):
                here = model.new_bool_var("")
                model.add_bool_and(before, literal).only_enforce_if(here)
                model.add_bool_or(~before, ~literal, here)
                side.append(here)
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
            work = [sum(self.length[op] for op in part if placement[op] == device) for device in (0, 1)]
            if work[1] > work[0]:
                for op in part:
                    placement[op] ^= 1
            part = []
        return placement

    def hint(self, start: Schedule) -> None:
        """Gives `start` to the solver, and its end as a limit."""
        placement = self._barred(start) if self.barriers else (start.placement ^ start.placement[0]).tolist()
        self._hint_devices(placement)
        clock = [0, 0]
        for what, target in start.order.tolist():
            if target == RUN_OP:
                self.model.add_hint(self.start[what], clock[placement[what]])
                clock[placement[what]] += self.length[what]
            else:
                clock = [max(clock)] * 2
                self.model.add_hint(self.transfer[what], clock[0])
        self.model.add_hint(self.makespan, max(clock))
        self.model.add(self.makespan <= max(clock))

    def schedule(self, solver: cp_model.CpSolver) -> Schedule:
        """What the solver found."""
        return self._assemble(solver, self.start, self.length, self.transfer)
