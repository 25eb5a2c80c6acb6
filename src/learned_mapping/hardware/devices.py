"""Devices joined by links: running time and peak memory of a placed schedule.

REGAL (Section 3.1 and Appendix A.1) charges a schedule for two things: the time until the last
device is done, and the most memory any device holds. Its devices are alike and transfers cost no
time of their own: the defaults here. With a bandwidth and a latency a transfer takes
latency + bytes / bandwidth, and devices may differ in speed and memory.
`simulate` is the plain simulator, one Python loop, that also returns the traces the figures draw;
`regal.rules.decode` holds the compiled one the searches use.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from learned_mapping.errors import (
    InputError,
    expect_choice,
    expect_sequence,
    expect_whole,
    is_traced,
    real,
)
from learned_mapping.programs.graph import MAX_TOTAL_BYTES, ComputationGraph

GIB = 2**30
# Readings of "synchronous, zero cost", and the queues of real links; see `Devices.transfers`.
TRANSFERS = ("rendezvous", "free", "queued")
SPEEDS = ("flop_per_s", "bytes_per_s", "op_overhead_s")
MAX_DEVICES = 8
Each = float | tuple[float, ...]
"""One number for all devices, or one for each."""
Every = float | tuple[tuple[float, ...], ...]
"""One number for all links, or [d][d] by source and target."""
TOO_SLOW = "takes longer on these devices than a number can say: their rates are too low"


@dataclass(frozen=True)
class Devices:
    """Devices and their links. The defaults are one TPU v3 core each, and links that are free.

    Half of a TPU v3 chip: 123 TFLOP/s in bfloat16, 32 GiB and 900 GB/s shared by two cores (Jouppi
    et al., "A domain-specific supercomputer for training deep neural networks", Communications of
    the ACM 63(7), 2020). Its 16 GiB are also what the paper gives each device (Section 3.1).
    """

    memory_bytes: Each = 16.0 * GIB  # Memory of each device, bytes (paper: 16 GiB).
    flop_per_s: Each = 61.5e12
    """Peak arithmetic of each device, FLOP/s. Used only where a graph brings no times of its
    own."""
    bytes_per_s: Each = 450e9
    """Memory bandwidth of each device, bytes/s. Used only where a graph brings no times of its
    own."""
    devices: int = field(default=2, metadata={"static": True})  # Number of devices d (paper: 2).
    transfers: str = field(default="rendezvous", metadata={"static": True})
    """``rendezvous``: a transfer waits until both devices reach it, then both go on. ``free``: it
    never makes the sender wait, and the receiver waits only where it needs the tensor. ``queued``:
    as ``free``, but what goes from one device to another goes one after the other, in the
    schedule's order."""
    # Bandwidth from one device to another, bytes/s (paper: infinite).
    link_bytes_per_s: Every = float("inf")
    # From the start of a transfer to its first byte, seconds (paper: 0).
    link_latency_s: Every = 0.0
    op_overhead_s: Each = 0.0
    """Fixed time of every op but program inputs, seconds (paper: none). Used only where a graph
    brings no times of its own."""

    def __post_init__(self) -> None:
        """All parameters in Python's numbers; raises `InputError` for one that cannot be."""
        for name, value in _usable(self).items():
            object.__setattr__(self, name, value)

    def each(self, name: str) -> np.ndarray:
        """[d] float64, a field that is one number for all devices or one for each."""
        return np.broadcast_to(np.asarray(getattr(self, name), float), (self.devices,))

    @property
    def links(self) -> tuple[np.ndarray, np.ndarray]:
        """[d, d] bytes/s and [d, d] seconds of latency, by source and target; a device reaches
        itself at once."""
        shape, own = (self.devices, self.devices), np.eye(self.devices, dtype=bool)
        speed = np.broadcast_to(np.asarray(self.link_bytes_per_s, float), shape)
        latency = np.broadcast_to(np.asarray(self.link_latency_s, float), shape)
        return np.where(own, np.inf, speed), np.where(own, 0.0, latency)

    @property
    def free_links(self) -> bool:
        """Whether no transfer takes time, as in the paper."""
        speed, latency = self.links
        return bool(np.isinf(speed).all() and not latency.any())

    @property
    def alike(self) -> bool:
        """Whether all devices compute at one speed."""
        return all(np.ptp(self.each(name)) == 0 for name in SPEEDS)


@dataclass(frozen=True)
class Simulation:
    """The costs of running a schedule, and its course. S steps, d devices."""

    makespan_s: float  # Seconds until the last device is done.
    peaks: tuple[int, ...]  # The most bytes each device holds at any time.
    start_s: np.ndarray  # [S] float64, when each step starts, in seconds.
    finish_s: np.ndarray  # [S] float64, when each step ends, in seconds.
    memory: tuple[tuple[tuple[float, float, int], ...], ...]
    """Per device: (start seconds, end seconds, bytes) of each step in its sequence, sampled at the
    step's peak."""

    @property
    def peak_bytes(self) -> int:
        """The most bytes any device holds at any time."""
        return max(self.peaks)


def _usable(machine: Devices) -> dict[str, Any]:
    """The parameters in Python's numbers; raises `InputError` for one that cannot be."""
    d = expect_whole(machine.devices, "devices", "devices", 1, MAX_DEVICES)
    expect_choice(machine.transfers, TRANSFERS, "devices", "transfers")

    def number(value: object, field: str) -> float:
        """A number as its field has it: above 0 or, of a time, at least 0; of a link's bandwidth
        infinite too."""
        found, name = real(value, "devices", field), field.partition("[")[0]
        if is_traced(found):
            return found
        least = "0 or more" if name in ("op_overhead_s", "link_latency_s") else "above 0"
        ending = "" if name == "link_bytes_per_s" else " and finite"
        if not (found > 0 or (found == 0 and least != "above 0")) or (ending and found == np.inf):
            raise InputError("devices", field, f"must be {least}{ending}, got {found}")
        if name == "memory_bytes" and found < 1:
            raise InputError("devices", field, f"must be a byte or more, got {found}")
        return found

    def row(value: Any, field: str, check: Callable[[object, str], Any]) -> Any:
        if not _is_many(value):
            return check(value, field)
        if len(value) != d:
            fault = f"expected a number or {d}, one a device, got {len(value)}"
            raise InputError("devices", field, fault)
        return tuple(check(entry, f"{field}[{i}]") for i, entry in enumerate(value))

    def of_source(value: object, field: str) -> Any:
        expect_sequence(value, "devices", field)
        return row(value, field, number)

    numbers: dict[str, Any] = {"devices": d}
    for name in ("memory_bytes", *SPEEDS):
        numbers[name] = row(getattr(machine, name), name, number)
    for name in ("link_bytes_per_s", "link_latency_s"):
        value = getattr(machine, name)
        numbers[name] = row(value, name, of_source if _is_many(value) else number)
    return numbers


def _is_many(value: object) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)


def op_seconds(graph: ComputationGraph, machine: Devices) -> np.ndarray:
    """[N] float64, seconds of each op where it runs fastest; see `device_seconds`."""
    return device_seconds(graph, machine).min(axis=1)


def device_seconds(graph: ComputationGraph, machine: Devices) -> np.ndarray:
    """[N, d] float64, seconds of each op on each device: the graph's own estimates, the same on
    all, else a roofline.

    The roofline: the larger of FLOP over peak arithmetic and bytes touched of inputs, outputs and
    weights over bandwidth, and the overhead; an op of kind ``input`` takes no time.
    """
    if graph.op_seconds is not None:
        return np.repeat(graph.op_seconds[:, None], machine.devices, axis=1)
    touched = (graph.op_tensor_traffic + graph.op_weight_traffic)[:, None]
    with np.errstate(over="ignore"):
        computing = graph.op_flop[:, None] / machine.each("flop_per_s")
        seconds = np.maximum(computing, touched / machine.each("bytes_per_s"))
        seconds += machine.each("op_overhead_s")
        if not np.isfinite(seconds.sum()):
            raise InputError(graph.name, "", TOO_SLOW)
    return np.where((np.array(graph.op_kinds) == "input")[:, None], 0.0, seconds)


def check_sizes(graph: ComputationGraph, source: object = "graph") -> None:
    """Raises `InputError` where all tensors and weights together pass `MAX_TOTAL_BYTES`."""
    # Every device may hold a copy of a tensor, hence the factor.
    total = MAX_DEVICES * float(graph.tensor_bytes.sum(dtype=float)) + float(
        graph.op_weight_bytes.sum(dtype=float)
    )
    if total > MAX_TOTAL_BYTES:
        raise InputError(
            source,
            "tensors",
            f"{total:.3g} bytes in all devices, at most {MAX_TOTAL_BYTES} supported",
        )


def simulate(
    graph: ComputationGraph,
    placement: np.ndarray,
    order: Sequence[tuple[int, int]],
    machine: Devices,
) -> Simulation:
    """Runs a schedule that is known to obey the rules (`regal.validate` judges those that may not).

    Each device goes through its own part of `order`. Memory, per device: an op allocates its
    outputs, then the device holds its most, then each input whose last local use this was is freed,
    and so is an output nobody uses. A transfer allocates at the target, then is sampled on both
    devices, then frees the tensor at the source if it was the last use there. The graph's outputs
    stay where they were produced. The weights of an op stay on its device throughout.

    Args:
      placement: [N] ints, device of each op.
      order: S steps: ``(op, -1)`` runs an op, ``(tensor, target)`` sends a tensor from its
        producer's device.
    """
    seconds, (speed, latency) = device_seconds(graph, machine), machine.links
    inputs, outputs = graph.op_inputs, graph.op_outputs
    # (tensor, device) -> how often that copy is read there: by ops of the device, and by transfers
    # out of it.
    uses = Counter(
        zip(graph.edge_tensor.tolist(), np.asarray(placement)[graph.edge_consumer].tolist())
    )
    uses.update(
        (what, int(placement[graph.tensor_producer[what]])) for what, target in order if target >= 0
    )
    # Clocks and memory: weights are there from the start.
    clock = [0.0] * machine.devices
    busy = np.zeros((machine.devices, machine.devices))  # until when, of each link
    arrival: dict[tuple[int, int], float] = {}
    held = [0] * machine.devices
    for op in range(graph.num_ops):
        held[placement[op]] += int(graph.op_weight_bytes[op])
    peak = list(held)
    memory: list[list[tuple[float, float, int]]] = [[] for _ in range(machine.devices)]
    start_s, finish_s = np.zeros(len(order)), np.zeros(len(order))

    def use_once(tensor: int, device: int) -> None:
        uses[tensor, device] -= 1
        kept = graph.tensor_is_output[tensor] and placement[graph.tensor_producer[tensor]] == device
        if uses[tensor, device] == 0 and not kept:
            held[device] -= int(graph.tensor_bytes[tensor])

    for step, (what, target) in enumerate(order):
        # An op waits for its device and for its inputs.
        if target < 0:
            device = int(placement[what])
            start = max([clock[device], *(arrival[tensor, device] for tensor in inputs[what])])
            finish = start + float(seconds[what, device])
            clock[device] = finish
            for tensor in outputs[what]:
                arrival[tensor, device] = finish
                held[device] += int(graph.tensor_bytes[tensor])
            involved = [device]
        else:
            # A transfer waits for both devices, or for its tensor and its link.
            source = int(placement[graph.tensor_producer[what]])
            link = source, target
            lasts = float(latency[link] + graph.tensor_bytes[what] / speed[link])
            if machine.transfers == "rendezvous":
                start = max(clock[source], clock[target])
                finish = clock[source] = clock[target] = start + lasts
            else:
                start = arrival[what, source]
                if machine.transfers == "queued":
                    start = max(start, float(busy[link]))
                finish = start + lasts
                busy[link] = finish
            arrival[what, target] = finish
            held[target] += int(graph.tensor_bytes[what])
            involved = [source, target]
        start_s[step], finish_s[step] = start, finish
        # What was read for the last time is freed after the sample.
        for device in involved:
            peak[device] = max(peak[device], held[device])
            memory[device].append((start, finish, held[device]))
        if target < 0:
            for tensor in inputs[what]:
                use_once(tensor, device)
            for tensor in outputs[what]:
                if uses[tensor, device] == 0 and not graph.tensor_is_output[tensor]:
                    held[device] -= int(graph.tensor_bytes[tensor])
        else:
            use_once(what, source)
    return Simulation(max(clock), tuple(peak), start_s, finish_s, tuple(map(tuple, memory)))
