"""Peak memory of two devices for CP-SAT (`regal.cp_sat`), with variables for every step instead of intervals.

The ops of both devices form one sequence of N steps, transfers lie between two steps. Boolean variables say which ops
are done by each step and which copies are held during it, so that a device's memory is one sum per step; a clause
learned from one prefix of the sequence holds for every other way of filling it. Two rules leave fewer sequences, and at
least one of the best: neighbouring ops of different devices with no transfer between stand in order of their indices
(neither device notices), and a tensor that stays at home anyway is sent no earlier than just before an op reads it
elsewhere.
"""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.hardware.device_pair import simulate
from learned_mapping.regal.bounds.cp_sat_model import Model, Phase, reachability
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import RUN_OP, Schedule

Literals = list[cp_model.IntVar]


class StepsModel(Model):
    """Bytes of the fuller device at its fullest, during an op.

    Left out: what the devices hold between two transfers of opposite directions that lie between the same two ops. So
    the objective bounds every schedule from below, and the one found may cost more. With ``phase.one_way`` there are no
    such transfers: what is found costs what the objective says, but a schedule that needs them may cost less.
    """

    def __init__(self, instance: Instance, phase: Phase):
        super().__init__(instance)
        graph, model = self.graph, self.model
        total = int(graph.tensor_bytes.sum() + graph.op_weight_bytes.sum())
        self.unit = float(max(1, total >> 24))
        self.size = (graph.tensor_bytes // int(self.unit)).tolist()
        self.weights = (graph.op_weight_bytes // int(self.unit)).tolist()
        self.steps = range(graph.num_ops)
        self.rests = reachability(graph)
        self.peak = model.new_int_var(0, 2 * (sum(self.size) + sum(self.weights)) + 1, "peak")
        self._add_ops()
        self.sent_now: dict[int, Literals] = {}
        self.held: tuple[list[Literals], list[Literals]] = ([], [])
        copies: list[Literals] = []
        for tensor in range(graph.num_tensors):
            copies += self._add_tensor(tensor)
        self._add_memory(copies)
        self._add_order()
        if phase.one_way:
            self._add_one_way()
        model.minimize(self.peak)

    def _literals(self) -> Literals:
        return [self.model.new_bool_var("") for _ in self.steps]

    def _done(self, op: int, step: int) -> cp_model.IntVar:
        """Whether `op` ran at `step` or before."""
        return self.none if step < 0 else self.done[op][step]

    def _add_ops(self) -> None:
        """One op each step, after all it rests on."""
        model = self.model
        self.none, every = model.new_constant(0), model.new_constant(1)
        before, after = self.rests.sum(axis=1) - 1, self.rests.sum(axis=0) - 1
        self.done, self.run = [], []
        for op in self.steps:
            last = len(self.steps) - 1 - int(after[op])
            free = [before[op] <= step <= last for step in self.steps]
            self.run.append([model.new_bool_var("") if each else self.none for each in free])
            self.done.append(
                [every if s >= last else model.new_bool_var("") if free[s] else self.none for s in self.steps]
            )
            model.add_exactly_one(self.run[op])
            for step in self.steps:
                now, was, runs = self._done(op, step), self._done(op, step - 1), self.run[op][step]
                model.add_implication(was, now)
                model.add_implication(runs, now)
                model.add_implication(runs, ~was)
                model.add_bool_or(~now, was, runs)
        for step in self.steps:
            model.add_exactly_one([self.run[op][step] for op in self.steps])
            for producer, consumer in self.apart:
                model.add_implication(self._done(consumer, step), self._done(producer, step - 1))

    def _add_tensor(self, tensor: int) -> list[Literals]:
        """Whether its copies are held during each step; returns those literals, at home and elsewhere."""
        model, graph = self.model, self.graph
        producer = int(graph.tensor_producer[tensor])
        second = self.on_second[producer]
        home, copies = self._literals(), []
        for step in self.steps:
            born = self._done(producer, step)
            model.add_implication(self.run[producer][step], home[step])
            model.add_implication(home[step], born)
            if graph.tensor_is_output[tensor]:
                model.add_implication(born, home[step])
            if step:
                model.add_bool_or(~home[step], home[step - 1], self.run[producer][step])
        copies.append(home)
        if tensor in self.sent:
            copies.append(self._add_transfer(tensor, home))
        for device, here in enumerate((~second, second)):
            held = self._literals()
            self.held[device].append(held)
            for copy, literal in zip(copies, (here, ~here)):
                for step in self.steps:
                    model.add_bool_or(~copy[step], ~literal, held[step])
        return copies

    def _add_transfer(self, tensor: int, home: Literals) -> Literals:
        """When it is sent, and who has to keep it until when; returns whether it is held elsewhere."""
        model, sent = self.model, self.sent[tensor]
        producer, consumers = int(self.graph.tensor_producer[tensor]), self._consumers(tensor)
        away, by, now = self._literals(), self._literals(), self._literals()
        self.sent_now[tensor] = now
        model.add(by[0] == 0)
        model.add(now[0] == 0)
        model.add(by[-1] == sent)
        for step in self.steps:
            born = self._done(producer, step)
            model.add_implication(by[step], self._done(producer, step - 1))
            model.add_implication(away[step], by[step])
            model.add_bool_or(~born, ~sent, by[step], home[step])
            for consumer in consumers:
                apart, used = self.apart[producer, consumer], self._done(consumer, step - 1)
                model.add_bool_or(~self._done(consumer, step), ~apart, by[step])
                model.add_bool_or(~born, used, apart, home[step])
                model.add_bool_or(~by[step], used, ~apart, away[step])
                # Follows, but binds before the devices are chosen.
                model.add_bool_or(~born, used, home[step], away[step])
            if not step:
                continue
            model.add_implication(by[step - 1], by[step])
            model.add_implication(now[step], by[step])
            model.add_implication(now[step], ~by[step - 1])
            model.add_bool_or(~by[step], by[step - 1], now[step])
            model.add_implication(now[step], home[step - 1])
            model.add_implication(now[step], away[step])
            model.add_bool_or(~away[step], away[step - 1], now[step])
            # No earlier than needed where it stays at home too.
            model.add_bool_or(~now[step], ~home[step], *(self.run[consumer][step] for consumer in consumers))
        return away

    def _consumers(self, tensor: int) -> list[int]:
        return sorted(set(self.graph.consumers(tensor).tolist()))

    def _add_memory(self, copies: list[Literals]) -> None:
        """No device holds more than the peak at any step, nor both together more than twice that."""
        weighted = cp_model.LinearExpr.weighted_sum
        owner = np.repeat(np.arange(len(self.size)), [1 + (t in self.sent) for t in range(len(self.size))])
        sizes = [self.size[tensor] for tensor in owner.tolist()]
        for step in self.steps:
            for held, literals in zip(self.held, ([~x for x in self.on_second], self.on_second)):
                bytes_held = weighted([each[step] for each in held], self.size)
                self.model.add(bytes_held + weighted(literals, self.weights) <= self.peak)
            self.model.add(weighted([each[step] for each in copies], sizes) + sum(self.weights) <= 2 * self.peak)

    def _add_order(self) -> None:
        """Neighbours on different devices, with no transfer between, stand in order of their indices."""
        model = self.model
        pairs = [(i, j) for i in self.steps for j in range(i) if not (self.rests[i, j] or self.rests[j, i])]
        for step in self.steps[1:]:
            gap = model.new_bool_var("")
            model.add_bool_or(*(now[step] for now in self.sent_now.values()), ~gap)
            for now in self.sent_now.values():
                model.add_implication(now[step], gap)
            for late, early in pairs:
                x, y = self.on_second[late], self.on_second[early]
                for ends in ((x, ~y), (~x, y)):
                    model.add_bool_or(~self.run[late][step - 1], ~self.run[early][step], *ends, gap)

    def _add_one_way(self) -> None:
        """Of the transfers between two ops, all go to the same device."""
        for step in self.steps[1:]:
            to_second = self.model.new_bool_var("")
            for tensor, now in self.sent_now.items():
                home = self.on_second[int(self.graph.tensor_producer[tensor])]
                self.model.add_bool_or(~now[step], home, to_second)
                self.model.add_bool_or(~now[step], ~home, ~to_second)

    def at_least(self, bound: float) -> None:
        """No schedule has a smaller peak, bytes: the search may stop there."""
        self.model.add(self.peak >= round(bound / self.unit))

    def hint(self, start: Schedule) -> None:
        """Gives the peak of `start` as a limit; its order may break the rules above."""
        peak = simulate(self.graph, start.placement, start.order.tolist(), self.instance.pair).peak_bytes
        # The model's bytes are rounded down one by one, so their sum is no more.
        self.model.add(self.peak <= int(peak // self.unit))

    def schedule(self, solver: cp_model.CpSolver) -> Schedule:
        """What the solver found; of transfers between the same two ops those to one device come first."""
        placement = np.array([int(solver.value(x)) for x in self.on_second])
        order: list[tuple[int, int]] = []
        rest = []
        for step in self.steps:
            sent = [t for t, now in self.sent_now.items() if step and solver.value(now[step])]
            rest.append([(t, 1 - int(placement[self.graph.tensor_producer[t]])) for t in sent])
            rest.append([next((op, RUN_OP) for op in self.steps if solver.value(self.run[op][step]))])
        for i, part in enumerate(rest):
            after = [item for each in rest[i + 1 :] for item in each]
            ways = [sorted(part, key=lambda item: item[1]), sorted(part, key=lambda item: -item[1])]
            order += min(ways, key=lambda way: self._peak(placement, [*order, *way, *after])) if len(part) > 1 else part
        return Schedule.of(placement, order, 2)

    def _peak(self, placement: np.ndarray, order: list[tuple[int, int]]) -> int:
        return simulate(self.graph, placement, order, self.instance.pair).peak_bytes
