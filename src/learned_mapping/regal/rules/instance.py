"""One scheduling problem: a graph, the devices, the objective; and its arrays as the compiled
kernels take them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from learned_mapping.errors import InputError, expect_choice, expect_type
from learned_mapping.hardware.devices import (
    Devices,
    Simulation,
    check_sizes,
    device_seconds,
    simulate,
)
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.schedule import Schedule

OBJECTIVES = ("runtime", "memory")
INFEASIBLE = 1e30
"""Fitness of a schedule over the memory limit starts here, above anything a feasible one can cost
(Appendix A.2)."""


class Arrays(NamedTuple):
    """An `Instance` for compiled code. N ops, M tensors, E uses, d devices. Offsets index the array
    that follows."""

    seconds: np.ndarray  # [N] float64, of each op where it runs fastest
    device_seconds: np.ndarray  # [N, d] float64
    weight_bytes: np.ndarray  # [N] int64
    tensor_bytes: np.ndarray  # [M] int64
    tensor_producer: np.ndarray  # [M] int32
    tensor_is_output: np.ndarray  # [M] bool
    consumer_offsets: np.ndarray  # [M + 1] int32
    consumers: np.ndarray  # [E] int32, ops that use each tensor
    input_offsets: np.ndarray  # [N + 1] int32
    inputs: np.ndarray  # [E] int32, tensors each op uses
    output_offsets: np.ndarray  # [N + 1] int32
    outputs: np.ndarray  # [M] int32, tensors each op produces
    devices: int
    link_bytes_per_s: np.ndarray  # [d, d] float64, by source and target
    link_latency_s: np.ndarray  # [d, d] float64
    costly_links: bool  # Whether the objective is running time, and some transfer takes time.
    overlapped: bool  # Whether a transfer leaves its devices alone.
    queued: bool
    minimise_memory: bool
    memory_bytes: np.ndarray  # [d] float64
    counts_memory: bool
    """False where the objective is running time and even all tensors and weights on one device keep
    the limit."""


@dataclass(frozen=True, eq=False)
class Instance:
    """The graph to be scheduled, the devices, and the objective.

    Raises:
      InputError: unknown objective, unusable devices, tensors too large to sum in 64 bits, ops with
        a chip or a group.
    """

    graph: ComputationGraph
    machine: Devices = field(default_factory=Devices)
    # ``runtime`` (seconds) or ``memory`` (peak bytes of the fuller device).
    objective: str = "runtime"

    def __post_init__(self):
        expect_type(self.graph, ComputationGraph, "graph")
        expect_choice(self.objective, OBJECTIVES, "objective")
        expect_type(self.machine, Devices, "machine")
        check_sizes(self.graph, self.graph.name)
        if self.graph.op_is_tied.any():
            op = int(self.graph.op_is_tied.argmax())
            fault = "has a chip or a group, which are for `lmap solve mcm` alone"
            raise InputError(self.graph.name, f"ops[{op}]", fault)

    @property
    def chromosome_length(self) -> int:
        """o d affinities, o priorities, t d transfer priorities (Appendix A.2)."""
        return (
            self.graph.num_ops * (self.machine.devices + 1)
            + self.graph.num_tensors * self.machine.devices
        )

    @property
    def cost_name(self) -> str:
        return "makespan_s" if self.objective == "runtime" else "peak_bytes"

    @cached_property
    def arrays(self) -> Arrays:
        graph, machine = self.graph, self.machine
        by_consumer = np.argsort(graph.edge_consumer, kind="stable")
        by_producer = np.argsort(graph.tensor_producer, kind="stable")
        ops = np.arange(graph.num_ops + 1)
        total = int(graph.op_weight_bytes.sum()) + int(graph.tensor_bytes.sum())
        seconds, (speed, latency) = device_seconds(graph, machine), machine.links
        memory = np.array(machine.each("memory_bytes"))
        return Arrays(
            seconds=seconds.min(axis=1),
            device_seconds=np.array(seconds, np.float64),
            weight_bytes=np.array(graph.op_weight_bytes, np.int64),
            tensor_bytes=np.array(graph.tensor_bytes, np.int64),
            tensor_producer=np.array(graph.tensor_producer, np.int32),
            tensor_is_output=np.array(graph.tensor_is_output, bool),
            consumer_offsets=np.array(graph.consumer_offsets, np.int32),
            consumers=np.array(graph.edge_consumer, np.int32),
            input_offsets=np.searchsorted(graph.edge_consumer[by_consumer], ops).astype(np.int32),
            inputs=graph.edge_tensor[by_consumer].astype(np.int32),
            output_offsets=np.searchsorted(graph.tensor_producer[by_producer], ops).astype(
                np.int32
            ),
            outputs=by_producer.astype(np.int32),
            devices=int(machine.devices),
            link_bytes_per_s=speed,
            link_latency_s=latency,
            costly_links=self.objective == "runtime" and not machine.free_links,
            overlapped=machine.transfers != "rendezvous",
            queued=machine.transfers == "queued",
            minimise_memory=self.objective == "memory",
            memory_bytes=memory,
            counts_memory=bool(self.objective == "memory" or total > memory.min()),
        )

    def simulate(self, schedule: Schedule) -> Simulation:
        """The course of a schedule."""
        return simulate(self.graph, schedule.placement, schedule.order.tolist(), self.machine)

    def cost(self, schedule: Schedule) -> float:
        """The objective of a schedule, seconds or bytes, by the simulator."""
        return float(getattr(self.simulate(schedule), self.cost_name))

    def share(self, peaks: Sequence[int]) -> float:
        """The most that a device holds over what it has; `peaks` in bytes, of each device."""
        return float(np.max(np.asarray(peaks) / self.arrays.memory_bytes))

    def fitness(self, makespan_s: float, peaks: Sequence[int]) -> float:
        """The number that searches minimise: the objective, or `INFEASIBLE` and more past the
        limit; `peaks` in bytes, of each device."""
        if (fullest := self.share(peaks)) > 1.0:
            return INFEASIBLE * fullest
        return float(makespan_s if self.objective == "runtime" else max(peaks))
