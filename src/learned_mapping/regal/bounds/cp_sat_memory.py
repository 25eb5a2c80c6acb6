"""Peak memory of two devices for CP-SAT (`regal.cp_sat`), with intervals.

Time has no place in it, so every op and every transfer takes one position of an abstract sequence, every copy of a
tensor is an interval of positions that asks for its bytes, and the capacity of the fuller device is minimised.
"""

from __future__ import annotations

from ortools.sat.python import cp_model

from learned_mapping.hardware.device_pair import simulate
from learned_mapping.regal.bounds.cp_sat_model import Model, Phase, reachability
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import RUN_OP, Schedule


class MemoryModel(Model):
    """Bytes of the fuller device at its fullest."""

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
        rests = reachability(graph)
        before, after = rests.sum(axis=1) - 1, rests.sum(axis=0) - 1
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
        """Gives `start` to the solver, and its peak as a limit."""
        self._hint_devices((start.placement ^ start.placement[0]).tolist())
        peak = simulate(self.graph, start.placement, start.order.tolist(), self.instance.pair).peak_bytes
        # The model's bytes are rounded down one by one, so their sum is no more.
        self.model.add(self.peak <= int(peak // self.unit))
        for position, (what, target) in enumerate(start.order.tolist()):
            self.model.add_hint(self.position[what] if target == RUN_OP else self.transfer[what], position)

    def schedule(self, solver: cp_model.CpSolver) -> Schedule:
        """What the solver found."""
        return self._assemble(solver, self.position, [1] * self.graph.num_ops, self.transfer)
