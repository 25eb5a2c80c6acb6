"""Peak memory of two devices for CP-SAT, by intervals (`MemoryModel`) or with variables for every
step (`StepsModel`).

Time has no place in it. With intervals, every op and every transfer takes one position of an
abstract sequence, every copy of a tensor is an interval of positions that asks for its bytes, and
the capacity of the fuller device is minimised.

With steps, the ops of both devices form one sequence of N steps, transfers lie between two steps.
Boolean variables say which ops are done by each step and which copies are held during it, so that a
device's memory is one sum per step; a clause learned from one prefix of the sequence holds for
every other way of filling it. Two rules leave fewer sequences, and at least one of the best:
neighbouring ops of different devices with no transfer between stand in order of their indices
(neither device notices), and a tensor that stays at home anyway is sent no earlier than just before
an op reads it elsewhere.
"""

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.regal.bounds.cp_sat_model import Model, Phase, reachability
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import RUN_OP, Schedule

Literals = list[cp_model.IntVar]
weighted = cp_model.LinearExpr.weighted_sum


class PeakModel(Model):
    """Bytes of the fuller device at its fullest, rounded down one by one to whole units."""

    peak: cp_model.IntVar

    def __init__(self, instance: Instance):
        super().__init__(instance)
        graph = self.graph
        self.unit = float(max(1, int(graph.tensor_bytes.sum() + graph.op_weight_bytes.sum()) >> 24))
        self.size = (graph.tensor_bytes // int(self.unit)).tolist()
        self.weights = (graph.op_weight_bytes // int(self.unit)).tolist()
        rests = self.rests = reachability(graph)
        self.before, self.after = (rests.sum(axis=1) - 1).tolist(), (rests.sum(axis=0) - 1).tolist()

    def _bytes(self, name: str) -> cp_model.IntVar:
        return self.model.new_int_var(0, 2 * (sum(self.size) + sum(self.weights)) + 1, name)

    def hint(self, start: Schedule) -> None:
        """Gives the peak of `start` as a limit; the model's is no more, as bytes are rounded
        down."""
        self.model.add(self.peak <= int(self.instance.simulate(start).peak_bytes // self.unit))


class MemoryModel(PeakModel):
    """The model of peak memory with intervals."""

    def __init__(self, instance: Instance, phase: Phase):
        super().__init__(instance)
        model, graph = self.model, self.graph
        self.horizon = horizon = graph.num_ops + len(self.sent)
        self.moment = [model.new_int_var(0, horizon - 1, "") for _ in range(graph.num_ops)]
        self.length = [1] * graph.num_ops
        self.transfer = {tensor: model.new_int_var(0, horizon - 1, "") for tensor in self.sent}
        self.peak = self._bytes("peak")
        steps: tuple[list, list] = ([], [])
        held: tuple[list, list] = ([], [])
        for op, x in enumerate(self.on_second):
            for literal, intervals in zip((~x, x), steps):
                intervals.append(
                    model.new_optional_fixed_size_interval_var(self.moment[op], 1, literal, "")
                )
        for tensor in range(graph.num_tensors):
            self._add_tensor(tensor, steps, held)
        for k, literals in enumerate(([~x for x in self.on_second], self.on_second)):
            model.add_no_overlap(steps[k])
            capacity = self._bytes("")
            model.add(capacity + weighted(literals, self.weights) <= self.peak)
            model.add_cumulative(
                [interval for interval, _ in held[k]], [size for _, size in held[k]], capacity
            )
        if phase.whole_life:
            self._add_whole_life()
        self._add_bounds()
        model.minimize(self.peak)

    def _add_whole_life(self) -> None:
        """Somewhere a tensor is held from its producer to its last use: binds before the devices
        are chosen."""
        model, graph, horizon = self.model, self.graph, self.horizon
        intervals = []
        for tensor in range(graph.num_tensors):
            born = self.moment[self.producer[tensor]]
            end, length = model.new_int_var(1, horizon, ""), model.new_int_var(1, horizon, "")
            model.add(end >= born + 1)
            for consumer in self.consumers[tensor]:
                model.add(end >= self.moment[consumer] + 1)
            if graph.tensor_is_output[tensor]:
                model.add(end == horizon)
            intervals.append(model.new_interval_var(born, length, end, ""))
        model.add_cumulative(intervals, self.size, 2 * self.peak - sum(self.weights))

    def _add_bounds(self) -> None:
        """Adds what every schedule obeys anyway, so that the solver need not find it out.

        An op runs after all it rests on and before all that rests on it; its device then holds what
        it reads, what it makes, and the weights there; at the end each device holds its weights and
        the graph's outputs made there.
        """
        model = self.model
        for op, position in enumerate(self.moment):
            model.add(position >= self.before[op])
            model.add(position <= self.horizon - 1 - self.after[op])
        last, used = list(self.weights), list(self.weights)
        for tensor, size in enumerate(self.size):
            producer = self.producer[tensor]
            used[producer] += size
            if self.graph.tensor_is_output[tensor]:
                last[producer] += size
            for consumer in set(self.consumers[tensor]):
                used[consumer] += size
        model.add(self.peak >= max(used))
        model.add(self.peak >= weighted(self.on_second, last))
        model.add(self.peak >= sum(last) - weighted(self.on_second, last))

    def _add_tensor(self, tensor: int, steps: tuple[list, list], held: tuple[list, list]) -> None:
        """The intervals of a tensor's copies: at home from its producer on, elsewhere from its
        transfer on."""
        model, graph, horizon = self.model, self.graph, self.horizon
        producer, size = self.producer[tensor], self.size[tensor]
        home, born = self.on_second[producer], self.moment[producer]
        end = model.new_int_var(1, horizon, "")
        model.add(end >= born + 1)
        if graph.tensor_is_output[tensor]:
            model.add(end == horizon)
        for literal, intervals in zip((~home, home), held):
            length = model.new_int_var(1, horizon, "")
            intervals.append(
                (model.new_optional_interval_var(born, length, end, literal, ""), size)
            )
        if tensor not in self.sent:
            return
        sent, moment = self.sent[tensor], self.transfer[tensor]
        for intervals in steps:
            intervals.append(model.new_optional_fixed_size_interval_var(moment, 1, sent, ""))
        model.add(moment >= born + 1)
        model.add(end >= moment + 1).only_enforce_if(sent)
        away_end = model.new_int_var(1, horizon, "")
        for consumer in self.consumers[tensor]:
            apart = self.apart[producer, consumer]
            model.add(self.moment[consumer] >= born + 1)
            model.add(self.moment[consumer] >= moment + 1).only_enforce_if(apart)
            model.add(end >= self.moment[consumer] + 1).only_enforce_if(~apart)
            model.add(away_end >= self.moment[consumer] + 1).only_enforce_if(apart)
        for literal, intervals in zip((home, ~home), held):
            arrives = self._both(sent, literal)
            length = model.new_int_var(1, horizon, "")
            intervals.append(
                (model.new_optional_interval_var(moment, length, away_end, arrives, ""), size)
            )

    def hint(self, start: Schedule) -> None:
        """Gives `start` to the solver, and its peak as a limit."""
        self._hint_devices((start.placement ^ start.placement[0]).tolist())
        super().hint(start)
        for position, (what, target) in enumerate(start.order.tolist()):
            self.model.add_hint(
                self.moment[what] if target == RUN_OP else self.transfer[what], position
            )


class StepsModel(PeakModel):
    """The model of peak memory with steps: bytes during an op.

    Left out: what the devices hold between two transfers of opposite directions that lie between
    the same two ops. So the objective bounds every schedule from below, and the one found may cost
    more. With ``phase.one_way`` there are no
    such transfers: what is found costs what the objective says, but a schedule that needs them may
      cost less.
    Of a schedule to start from the peak alone is hinted: its order may break the rules above.
    """

    def __init__(self, instance: Instance, phase: Phase):
        super().__init__(instance)
        self.steps = range(self.graph.num_ops)
        self.peak = self._bytes("peak")
        self._add_ops()
        self.sent_now: dict[int, Literals] = {}
        self.held: tuple[list[Literals], list[Literals]] = ([], [])
        copies: list[Literals] = []
        for tensor in range(self.graph.num_tensors):
            copies += self._add_tensor(tensor)
        self._add_memory(copies)
        self._add_order()
        if phase.one_way:
            self._add_one_way()
        self.model.minimize(self.peak)

    def _literals(self) -> Literals:
        return [self.model.new_bool_var("") for _ in self.steps]

    def _done(self, op: int, step: int) -> cp_model.IntVar:
        """Whether `op` ran at `step` or before."""
        return self.none if step < 0 else self.done[op][step]

    def _add_change(
        self, was: cp_model.IntVar, now: cp_model.IntVar, change: cp_model.IntVar
    ) -> None:
        """Adds that what was so stays so, and becomes so by the change alone."""
        self.model.add_implication(was, now)
        self.model.add_implication(change, now)
        self.model.add_implication(change, ~was)
        self.model.add_bool_or(~now, was, change)

    def _add_ops(self) -> None:
        """One op each step, after all it rests on."""
        model = self.model
        self.none, every = model.new_constant(0), model.new_constant(1)
        self.done, self.run = [], []
        for op in self.steps:
            last = len(self.steps) - 1 - self.after[op]
            free = [self.before[op] <= step <= last for step in self.steps]
            self.run.append([model.new_bool_var("") if is_free else self.none for is_free in free])
            done = [
                every if s >= last else model.new_bool_var("") if free[s] else self.none
                for s in self.steps
            ]
            self.done.append(done)
            model.add_exactly_one(self.run[op])
            for step in self.steps:
                self._add_change(self._done(op, step - 1), self._done(op, step), self.run[op][step])
        for step in self.steps:
            model.add_exactly_one([self.run[op][step] for op in self.steps])
            for producer, consumer in self.apart:
                model.add_implication(self._done(consumer, step), self._done(producer, step - 1))

    def _add_tensor(self, tensor: int) -> list[Literals]:
        """Returns whether its copies are held during each step, at home and elsewhere."""
        model, graph = self.model, self.graph
        producer = self.producer[tensor]
        second = self.on_second[producer]
        home = self._literals()
        for step in self.steps:
            born = self._done(producer, step)
            model.add_implication(self.run[producer][step], home[step])
            model.add_implication(home[step], born)
            if graph.tensor_is_output[tensor]:
                model.add_implication(born, home[step])
            if step:
                model.add_bool_or(~home[step], home[step - 1], self.run[producer][step])
        copies = [home, self._add_transfer(tensor, home)] if tensor in self.sent else [home]
        for device, at_home in enumerate((~second, second)):
            held = self._literals()
            self.held[device].append(held)
            for copy, literal in zip(copies, (at_home, ~at_home)):
                for step in self.steps:
                    model.add_bool_or(~copy[step], ~literal, held[step])
        return copies

    def _add_transfer(self, tensor: int, home: Literals) -> Literals:
        """The steps at which a tensor is sent, who keeps it until when; returns whether it is held
        elsewhere."""
        model, sent = self.model, self.sent[tensor]
        producer, consumers = self.producer[tensor], sorted(set(self.consumers[tensor]))
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
            self._add_change(by[step - 1], by[step], now[step])
            model.add_implication(now[step], home[step - 1])
            model.add_implication(now[step], away[step])
            model.add_bool_or(~away[step], away[step - 1], now[step])
            # No earlier than needed where it stays at home too.
            model.add_bool_or(
                ~now[step], ~home[step], *(self.run[consumer][step] for consumer in consumers)
            )
        return away

    def _add_memory(self, copies: list[Literals]) -> None:
        """No device ever holds more than the peak, nor both together more than twice that."""
        sizes = np.repeat(
            self.size, [1 + (tensor in self.sent) for tensor in range(len(self.size))]
        ).tolist()
        for step in self.steps:
            for held, literals in zip(self.held, ([~x for x in self.on_second], self.on_second)):
                bytes_held = weighted([row[step] for row in held], self.size)
                self.model.add(bytes_held + weighted(literals, self.weights) <= self.peak)
            self.model.add(
                weighted([row[step] for row in copies], sizes) + sum(self.weights) <= 2 * self.peak
            )

    def _add_order(self) -> None:
        """Neighbours on different devices without a transfer between stand in order of index."""
        model = self.model
        pairs = [
            (i, j)
            for i in self.steps
            for j in range(i)
            if not (self.rests[i, j] or self.rests[j, i])
        ]
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
        """The rule that all transfers between two ops go to the same device."""
        for step in self.steps[1:]:
            to_second = self.model.new_bool_var("")
            for tensor, now in self.sent_now.items():
                home = self.on_second[self.producer[tensor]]
                self.model.add_bool_or(~now[step], home, to_second)
                self.model.add_bool_or(~now[step], ~home, ~to_second)

    def schedule(self, solver: cp_model.CpSolver) -> Schedule:
        """The solver's schedule; of transfers between two ops those to one device come first."""
        placement = np.array([int(solver.value(x)) for x in self.on_second])
        order: list[tuple[int, int]] = []
        rest: list[list[tuple[int, int]]] = []
        for step in self.steps:
            sent = [t for t, now in self.sent_now.items() if step and solver.value(now[step])]
            rest.append([(t, 1 - int(placement[self.producer[t]])) for t in sent])
            rest.append(
                [next((op, RUN_OP) for op in self.steps if solver.value(self.run[op][step]))]
            )
        for i, part in enumerate(rest):
            after = [item for group in rest[i + 1 :] for item in group]
            ways = [sorted(part, key=lambda item: item[1]), sorted(part, key=lambda item: -item[1])]
            whole = [self._schedule(placement, [*order, *way, *after]) for way in ways]
            peaks = (
                [self.instance.simulate(group).peak_bytes for group in whole]
                if len(part) > 1
                else [0]
            )
            order += ways[int(np.argmin(peaks))] if len(part) > 1 else part
        return self._schedule(placement, order)
