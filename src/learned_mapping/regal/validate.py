"""Is this schedule allowed, and what does it cost? Written from the paper alone; shares no code
with any method.

The rules of REGAL, Section 2.1, 3.1, Appendix A.1 and A.2. Costs come from another formulation than
the simulators use: time by letting every device work through its own queue, memory by adding up
live intervals at every position.
"""

import math
from collections import deque

from learned_mapping.errors import InputError, expect_type
from learned_mapping.hardware.device_pair import TOO_SLOW, DevicePair, check_pair
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.schedule import Schedule
from learned_mapping.verdict import LISTED, Verdict, Violation, Violations


def validate(
    graph: ComputationGraph,
    schedule: Schedule,
    pair: DevicePair | None = None,
    *,
    listed: int | None = LISTED,
) -> Verdict:
    """Judges a schedule of `graph` on `pair` (the defaults of `DevicePair` when None).

    Args:
      listed: violations listed of each rule; all where None.

    Returns:
      A verdict. Costs ``makespan_s`` (seconds) and ``peak_bytes`` (of the fuller device) unless a
      rule other than the memory limit is broken.

    Raises:
      InputError: what is given is none of these, or devices cannot be as they are said.
    """
    expect_type(graph, ComputationGraph, "graph")
    expect_type(schedule, Schedule, "schedule")
    pair = check_pair(DevicePair() if pair is None else pair)
    broken = Violations(listed)
    placement, steps = (
        schedule.placement.tolist(),
        [tuple(step) for step in schedule.order.tolist()],
    )
    if schedule.devices != pair.devices:
        detail = f"the schedule is for {schedule.devices} devices, there are {pair.devices}"
        return Verdict((Violation("devices", (), detail),))
    if len(placement) != graph.num_ops:
        return Verdict(
            (Violation("placement", (), f"{len(placement)} placements for {graph.num_ops} ops"),)
        )
    for op, device in enumerate(placement):
        if not 0 <= device < pair.devices:
            broken.add("placement", (graph.op_names[op],), f"there is no device {device}")
    for step, (what, target) in enumerate(steps):
        limit = graph.num_ops if target == -1 else graph.num_tensors
        if not 0 <= what < limit or not -1 <= target < pair.devices:
            broken.add(
                "order", (), f"step {step} is ({what}, {target}): no such op, tensor or device"
            )
    if broken:
        return Verdict(broken.all())

    producers = graph.tensor_producer.tolist()
    uses = list(zip(graph.edge_tensor.tolist(), graph.edge_consumer.tolist()))
    needed = {(tensor, placement[consumer]) for tensor, consumer in uses}
    ran: dict[int, int] = {}
    sent: dict[tuple[int, int], int] = {}
    for step, (what, target) in enumerate(steps):
        if target == -1:
            if what in ran:
                detail = f"op at step {ran[what]} and again at step {step}"
                broken.add("every op once", (graph.op_names[what],), detail)
            ran.setdefault(what, step)
            continue
        home = placement[producers[what]]
        name = graph.tensor_names[what]
        if target == home:
            broken.add(
                "transfer implied", (name,), f"step {step} sends it to device {home}, its home"
            )
        elif (what, target) not in needed:
            detail = f"step {step} sends it to device {target}, where no op uses it"
            broken.add("transfer implied", (name,), detail)
        if (what, target) in sent:
            detail = (
                f"transfer to device {target} at step {sent[what, target]} and again at step {step}"
            )
            broken.add("one transfer per tensor and device", (name,), detail)
        sent.setdefault((what, target), step)
    for op in range(graph.num_ops):
        if op not in ran:
            broken.add("every op once", (graph.op_names[op],), "op never runs")
    for (tensor, _target), step in sent.items():
        producer = producers[tensor]
        if producer in ran and ran[producer] > step:
            culprits = (graph.op_names[producer], graph.tensor_names[tensor])
            detail = f"step {step} sends a tensor produced at step {ran[producer]}"
            broken.add("dataflow", culprits, detail)
    for tensor, consumer in uses:
        producer, device = producers[tensor], placement[consumer]
        if consumer not in ran or producer not in ran:
            continue
        if device == placement[producer]:
            if ran[producer] < ran[consumer]:
                continue
            detail = (
                f"op runs at step {ran[consumer]}, its input is produced at step {ran[producer]}"
            )
        elif (tensor, device) not in sent:
            detail = f"the input is never sent to device {device}"
        elif sent[tensor, device] > ran[consumer]:
            detail = f"op runs at step {ran[consumer]}, its input is sent at {sent[tensor, device]}"
        else:
            continue
        broken.add("dataflow", (graph.op_names[consumer], graph.tensor_names[tensor]), detail)
    if broken:
        return Verdict(broken.all())

    ends = [
        {placement[what]} if target == -1 else {target, placement[producers[what]]}
        for what, target in steps
    ]
    queues = [
        [s for s, involved in zip(steps, ends) if device in involved]
        for device in range(pair.devices)
    ]
    makespan = _time(graph, placement, queues, pair)
    if not math.isfinite(makespan):
        raise InputError(graph.name, "", TOO_SLOW)
    peaks = [_peak(graph, placement, queues[device], device) for device in range(pair.devices)]
    for device, peak in enumerate(peaks):
        if peak > pair.memory_bytes:
            detail = f"device {device} holds {peak} bytes, it has {pair.memory_bytes:.0f}"
            broken.add("memory limit", (f"device {device}",), detail)
    return Verdict(broken.all(), {"makespan_s": makespan, "peak_bytes": float(max(peaks))})


def _seconds(graph: ComputationGraph, pair: DevicePair) -> list[float]:
    """Seconds of each op: the graph's estimates, else the longer of arithmetic and traffic."""
    if graph.op_seconds is not None:
        return [float(s) for s in graph.op_seconds]
    seconds = []
    for op, (reads, writes) in enumerate(zip(graph.op_inputs, graph.op_outputs)):
        touched = int(graph.op_weight_bytes[op]) + sum(
            int(graph.tensor_bytes[t]) for t in reads + writes
        )
        if graph.op_untouched_bytes is not None:
            touched = max(touched - int(graph.op_untouched_bytes[op]), 0)
        busy = max(float(graph.op_flop[op]) / pair.flop_per_s, touched / pair.bytes_per_s)
        seconds.append(0.0 if graph.op_kinds[op] == "input" else busy)
    return seconds


def _time(
    graph: ComputationGraph,
    placement: list[int],
    queues: list[list[tuple[int, int]]],
    pair: DevicePair,
) -> float:
    """Seconds until all queues are empty; a rendezvous waits at the head of both."""
    now, waiting = [0.0] * pair.devices, [deque(queue) for queue in queues]
    produced: dict[int, float] = {}
    seconds = _seconds(graph, pair)
    moved = True
    while moved:
        moved = False
        for device, queue in enumerate(waiting):
            while queue:
                what, target = queue[0]
                if target == -1:
                    origins = [int(graph.tensor_producer[t]) for t in graph.op_inputs[what]]
                    if any(origin not in produced for origin in origins):
                        break
                    begin = now[device]
                    if pair.transfers == "free":
                        begin = max([begin, *(produced[origin] for origin in origins)])
                    now[device] = produced[what] = begin + seconds[what]
                elif pair.transfers == "rendezvous":
                    home = placement[graph.tensor_producer[what]]
                    other = waiting[home if device == target else target]
                    if not other or other[0] != (what, target):
                        break
                    now[home] = now[target] = max(now[home], now[target])
                    other.popleft()
                queue.popleft()
                moved = True
    assert not any(waiting), "queues wait for each other"
    return max(now)


def _peak(
    graph: ComputationGraph, placement: list[int], queue: list[tuple[int, int]], device: int
) -> int:
    """Most bytes held on `device`: at each position of its queue, every tensor live there, and its
    ops' weights."""
    born, last = {}, {}
    for position, (what, target) in enumerate(queue):
        if target == -1:
            for tensor in graph.op_inputs[what]:
                last[tensor] = position
            for tensor in graph.op_outputs[what]:
                born[tensor] = last[tensor] = position
        elif target == device:
            born[what] = last[what] = position
        else:
            last[what] = position
    for tensor in born:
        if graph.tensor_is_output[tensor] and placement[graph.tensor_producer[tensor]] == device:
            last[tensor] = len(queue)
    weights = sum(
        int(graph.op_weight_bytes[op]) for op in range(graph.num_ops) if placement[op] == device
    )
    change = [0] * (len(queue) + 2)
    for tensor, position in born.items():
        change[position] += int(graph.tensor_bytes[tensor])
        change[last[tensor] + 1] -= int(graph.tensor_bytes[tensor])
    peak = held = 0
    for position in range(len(queue)):
        held += change[position]
        peak = max(peak, held)
    return weights + peak
