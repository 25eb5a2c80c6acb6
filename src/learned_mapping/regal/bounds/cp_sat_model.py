"""What CP-SAT's models of two devices share: which device each op is on, which tensors are sent (`regal.cp_sat`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import RUN_OP, Schedule


class Phase(NamedTuple):
    """One search after another: what proves some graphs in seconds does not prove others in a minute."""

    share: float
    """Of the time; the shares of the phases that a graph goes through are scaled to 1."""
    linearization_level: int
    """0: no linear relaxation."""
    whole_life: bool = False
    """Memory: whether both devices together must hold every tensor from its producer to its last use."""
    barriers: bool = False
    """Running time: whether every transfer has all ops on its two sides, and the first device never waits."""
    steps: bool = False
    """Memory: whether every step of the sequence has its own variables instead of intervals (`cp_sat_steps`)."""
    one_way: bool = False
    """With `steps`: whether between two ops tensors go one way only; finds schedules, but its bound is none."""
    most_ops: int | None = None
    """Graphs with more ops skip the phase: its model grows with ops times tensors."""


def reachability(graph: ComputationGraph) -> np.ndarray:
    """[N, N] bool: whether op i rests on op j, directly or not; every op rests on itself."""
    rank = np.empty(graph.num_ops, np.int64)
    rank[graph.topological_order] = np.arange(graph.num_ops)
    rests = np.eye(graph.num_ops, dtype=bool)
    for producer, consumer in graph.op_edges[np.argsort(rank[graph.op_edges[:, 0]], kind="stable")].tolist():
        rests[consumer] |= rests[producer]
    return rests


class Model:
    """Which device each op is on, and which tensors are sent. Two devices.

    Args:
      instance: what to schedule.
      pinned: whether the first op stays on the first device, as the devices are alike.
    """

    unit: float
    """Seconds or bytes of one unit of the objective."""

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

    @property
    def rounding(self) -> float:
        """Seconds or bytes that a schedule may cost above its objective, as durations and sizes are rounded down."""
        return (self.graph.num_ops + self.graph.num_tensors + 1) * self.unit

    def _hint_devices(self, placement: list[int]) -> None:
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
