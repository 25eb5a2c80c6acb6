"""Identical devices joined by synchronous transfers: running time and peak memory of a placed
schedule.

REGAL (Section 3.1 and Appendix A.1) charges a schedule for two things: the time until the last
device is done, and the most memory any device holds. Transfers cost no time of their own.
`simulate` is the plain simulator, one Python loop, that also returns the traces the figures draw;
`regal.rules.decode` holds the compiled one the searches use.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from learned_mapping.errors import InputError, expect_choice, expect_type, expect_whole, real
from learned_mapping.programs.graph import MAX_TOTAL_BYTES, ComputationGraph

GIB = 2**30
# The two readings of "synchronous, zero cost"; see `DevicePair.transfers`.
TRANSFERS = ("rendezvous", "free")
MAX_DEVICES = 8
TOO_SLOW = "takes longer on these devices than a number can say: their rates are too low"


@dataclass(frozen=True)
class DevicePair:
    """Homogeneous devices. The defaults are one TPU v3 core each.

    Half of a TPU v3 chip: 123 TFLOP/s in bfloat16, 32 GiB and 900 GB/s shared by two cores (Jouppi
    et al., "A domain-specific supercomputer for training deep neural networks", Communications of
    the ACM 63(7), 2020). Its 16 GiB are also what the paper gives each device (Section 3.1).
    """

    memory_bytes: float = 16.0 * GIB  # Memory of each device, bytes (paper: 16 GiB).
    flop_per_s: float = 61.5e12
    """Peak arithmetic of each device, FLOP/s. Used only where a graph brings no times of its
    own."""
    bytes_per_s: float = 450e9
    """Memory bandwidth of each device, bytes/s. Used only where a graph brings no times of its
    own."""
    devices: int = field(default=2, metadata={"static": True})  # Number of devices d (paper: 2).
    transfers: str = field(default="rendezvous", metadata={"static": True})
    """``rendezvous``: a transfer waits until both devices reach it, then both go on. ``free``: it
    never makes the sender wait, and the receiver waits only where it needs the tensor."""


@dataclass(frozen=True)
class Simulation:
    """The costs of running a schedule, and its course. S steps, d devices."""

    makespan_s: float  # Seconds until the last device is done.
    peak_bytes: int  # The most bytes any device holds at any time.
    start_s: np.ndarray  # [S] float64, when each step starts, in seconds.
    finish_s: np.ndarray  # [S] float64, when each step ends, in seconds.
    memory: tuple[tuple[tuple[float, float, int], ...], ...]
    """Per device: (start seconds, end seconds, bytes) of each step in its sequence, sampled at the
    step's peak."""


def check_pair(pair: DevicePair) -> DevicePair:
    """The devices in Python's numbers; raises `InputError` unless they are some and every parameter
    usable."""
    expect_type(pair, DevicePair, "pair")
    devices = expect_whole(pair.devices, "devices", "devices", 1, MAX_DEVICES)
    expect_choice(pair.transfers, TRANSFERS, "devices", "transfers")
    numbers = {}
    for name in ("memory_bytes", "flop_per_s", "bytes_per_s"):
        numbers[name] = value = real(getattr(pair, name), "devices", name)
        if not 0 < value < float("inf"):
            raise InputError("devices", name, f"must be above 0 and finite, got {value}")
    return replace(pair, devices=devices, **numbers)


def op_seconds(graph: ComputationGraph, pair: DevicePair) -> np.ndarray:
    """[N] float64, seconds of each op: the graph's own estimates, else a roofline.

    The roofline: the larger of FLOP over peak arithmetic and bytes touched of inputs, outputs and
    weights over bandwidth; an op of kind ``input`` takes no time.
    """
    if graph.op_seconds is not None:
        return graph.op_seconds
    touched = graph.op_tensor_traffic + graph.op_weight_traffic
    with np.errstate(over="ignore"):
        seconds = np.maximum(
            graph.op_flop / float(pair.flop_per_s), touched / float(pair.bytes_per_s)
        )
        if not np.isfinite(seconds.sum()):
            raise InputError(graph.name, "", TOO_SLOW)
    return np.where(np.array(graph.op_kinds) == "input", 0.0, seconds)


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
    pair: DevicePair,
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
    seconds = op_seconds(graph, pair)
    inputs, outputs = graph.op_inputs, graph.op_outputs
    # (tensor, device) -> how often that copy is read there: by ops of the device, and by transfers
    # out of it.
    uses = Counter(
        zip(graph.edge_tensor.tolist(), np.asarray(placement)[graph.edge_consumer].tolist())
    )
    uses.update(
        (what, int(placement[graph.tensor_producer[what]])) for what, target in order if target >= 0
    )
    clock = [0.0] * pair.devices
    arrival: dict[tuple[int, int], float] = {}
    held = [0] * pair.devices
    for op in range(graph.num_ops):
        held[placement[op]] += int(graph.op_weight_bytes[op])
    peak = list(held)
    memory: list[list[tuple[float, float, int]]] = [[] for _ in range(pair.devices)]
    start_s, finish_s = np.zeros(len(order)), np.zeros(len(order))

    def use_once(tensor: int, device: int) -> None:
        uses[tensor, device] -= 1
        kept = graph.tensor_is_output[tensor] and placement[graph.tensor_producer[tensor]] == device
        if uses[tensor, device] == 0 and not kept:
            held[device] -= int(graph.tensor_bytes[tensor])

    for step, (what, target) in enumerate(order):
        if target < 0:
            device = int(placement[what])
            start = max([clock[device], *(arrival[tensor, device] for tensor in inputs[what])])
            finish = start + float(seconds[what])
            clock[device] = finish
            for tensor in outputs[what]:
                arrival[tensor, device] = finish
                held[device] += int(graph.tensor_bytes[tensor])
            involved = (device,)
        else:
            source = int(placement[graph.tensor_producer[what]])
            if pair.transfers == "rendezvous":
                start = finish = max(clock[source], clock[target])
                clock[source] = clock[target] = finish
            else:
                start = finish = arrival[what, source]
            arrival[what, target] = finish
            held[target] += int(graph.tensor_bytes[what])
            involved = (source, target)
        start_s[step], finish_s[step] = start, finish
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
    return Simulation(max(clock), max(peak), start_s, finish_s, tuple(map(tuple, memory)))
