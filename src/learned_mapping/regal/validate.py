"""Is this schedule allowed, and what does it cost? Written from the paper alone; shares no code
with any method.

The rules of REGAL, Section 2.1, 3.1, Appendix A.1 and A.2. Costs come from another formulation than
the simulators use: time by letting every device work through its own queue, memory by adding up
live intervals at every position.
"""

import math
from collections import deque
from typing import Any

from learned_mapping.errors import InputError, expect_type
from learned_mapping.hardware.devices import TOO_SLOW, Devices
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.schedule import Schedule
from learned_mapping.verdict import LISTED, Verdict, Violation, Violations


def validate(
    graph: ComputationGraph,
    schedule: Schedule,
    machine: Devices | None = None,
    *,
    listed: int | None = LISTED,
) -> Verdict:
    """Judges a schedule of `graph` on `machine` (the defaults of `Devices` when None).

    Args:
      listed: violations listed of each rule; all where None.

    Returns:
      A verdict. Costs ``makespan_s`` (seconds) and ``peak_bytes`` (of the fullest device) unless a
      rule other than the memory limit is broken.

    Raises:
      InputError: what is given is none of these, or devices cannot be as they are said.
    """
    expect_type(graph, ComputationGraph, "graph")
    expect_type(schedule, Schedule, "schedule")
    machine = Devices() if machine is None else machine
    expect_type(machine, Devices, "machine")
    if schedule.devices != machine.devices:
        detail = f"the schedule is for {schedule.devices} devices, there are {machine.devices}"
        return Verdict((Violation("devices", (), detail),))
    if len(schedule.placement) != graph.num_ops:
        detail = f"{len(schedule.placement)} placements for {graph.num_ops} ops"
        return Verdict((Violation("placement", (), detail),))
    judge = _Judge(graph, schedule, machine, Violations(listed))
    judge.check_names()
    if not judge.broken:
        judge.check_steps()
        judge.check_dataflow()
    if judge.broken:
        return Verdict(judge.broken.all())
    makespan = judge.makespan()
    if not math.isfinite(makespan):
        raise InputError(graph.name, "", TOO_SLOW)
    peaks = [judge.peak(device) for device in range(machine.devices)]
    judge.check_memory(peaks)
    costs = {"makespan_s": makespan, "peak_bytes": float(max(peaks))}
    return Verdict(judge.broken.all(), costs)


Step = tuple[int, int]  # (op, -1), or (tensor, device it goes to).
Link = tuple[int, int]  # From one device to another.


class _Judge:
    """A schedule in plain lists, what each check has found of it, and every rule broken."""

    def __init__(
        self, graph: ComputationGraph, schedule: Schedule, machine: Devices, broken: Violations
    ):
        self.graph, self.machine, self.broken = graph, machine, broken
        self.placement: list[int] = schedule.placement.tolist()
        self.steps: list[Step] = [(int(what), int(target)) for what, target in schedule.order]
        self.producers: list[int] = graph.tensor_producer.tolist()
        self.uses = list(zip(graph.edge_tensor.tolist(), graph.edge_consumer.tolist()))
        self.ran: dict[int, int] = {}  # Op -> its first step.
        self.sent: dict[Step, int] = {}  # (tensor, device) -> its first step.

    def home(self, tensor: int) -> int:
        return self.placement[self.producers[tensor]]

    def check_names(self) -> None:
        """Checks that every device, op and tensor exists."""
        graph, devices = self.graph, self.machine.devices
        for op, device in enumerate(self.placement):
            if not 0 <= device < devices:
                detail = f"there is no device {device}"
                self.broken.add("placement", (graph.op_names[op],), detail)
        for step, (what, target) in enumerate(self.steps):
            limit = graph.num_ops if target == -1 else graph.num_tensors
            if not 0 <= what < limit or not -1 <= target < devices:
                detail = f"step {step} is ({what}, {target}): no such op, tensor or device"
                self.broken.add("order", (), detail)

    def check_steps(self) -> None:
        """Checks that every op runs once, and that what is sent is needed there and sent once."""
        names = self.graph.op_names
        needed = {(tensor, self.placement[consumer]) for tensor, consumer in self.uses}
        for step, (what, target) in enumerate(self.steps):
            if target != -1:
                self._check_transfer(step, what, target, needed)
            elif what in self.ran:
                detail = f"op at step {self.ran[what]} and again at step {step}"
                self.broken.add("every op once", (names[what],), detail)
            else:
                self.ran[what] = step
        for op in range(self.graph.num_ops):
            if op not in self.ran:
                self.broken.add("every op once", (names[op],), "op never runs")

    def _check_transfer(self, step: int, tensor: int, target: int, needed: set[Step]) -> None:
        home, name = self.home(tensor), self.graph.tensor_names[tensor]
        if target == home:
            detail = f"step {step} sends it to device {home}, its home"
            self.broken.add("transfer implied", (name,), detail)
        elif (tensor, target) not in needed:
            detail = f"step {step} sends it to device {target}, where no op uses it"
            self.broken.add("transfer implied", (name,), detail)
        first = self.sent.setdefault((tensor, target), step)
        if first != step:
            detail = f"transfer to device {target} at step {first} and again at step {step}"
            self.broken.add("one transfer per tensor and device", (name,), detail)

    def check_dataflow(self) -> None:
        """Checks that nothing is sent or used before it is there."""
        ops, tensors, ran = self.graph.op_names, self.graph.tensor_names, self.ran
        for (tensor, _), step in self.sent.items():
            producer = self.producers[tensor]
            if producer in ran and ran[producer] > step:
                detail = f"step {step} sends a tensor produced at step {ran[producer]}"
                self.broken.add("dataflow", (ops[producer], tensors[tensor]), detail)
        for tensor, consumer in self.uses:
            if consumer in ran and self.producers[tensor] in ran:
                if detail := self._missing(tensor, consumer):
                    self.broken.add("dataflow", (ops[consumer], tensors[tensor]), detail)

    def _missing(self, tensor: int, consumer: int) -> str:
        """A line that says why the tensor is not there where an op uses it; empty where it is."""
        device, step = self.placement[consumer], self.ran[consumer]
        if device == self.home(tensor):
            produced = self.ran[self.producers[tensor]]
            if produced < step:
                return ""
            return f"op runs at step {step}, its input is produced at step {produced}"
        if (tensor, device) not in self.sent:
            return f"the input is never sent to device {device}"
        sent = self.sent[tensor, device]
        return f"op runs at step {step}, its input is sent at {sent}" if sent > step else ""

    def check_memory(self, peaks: list[int]) -> None:
        """Checks that no device holds more than it has."""
        for device, peak in enumerate(peaks):
            limit = _at(self.machine.memory_bytes, device)
            if peak > limit:
                detail = f"device {device} holds {peak} bytes, it has {limit:.0f}"
                self.broken.add("memory limit", (f"device {device}",), detail)

    def seconds(self, op: int) -> float:
        """Seconds of an op where it is: the graph's estimate, else the longer of arithmetic and
        traffic, and the overhead."""
        graph, device = self.graph, self.placement[op]
        if graph.op_seconds is not None:
            return float(graph.op_seconds[op])
        if graph.op_kinds[op] == "input":
            return 0.0
        tensors = (*graph.op_inputs[op], *graph.op_outputs[op])
        touched = int(graph.op_weight_bytes[op]) + sum(int(graph.tensor_bytes[t]) for t in tensors)
        if graph.op_untouched_bytes is not None:
            touched = max(touched - int(graph.op_untouched_bytes[op]), 0)
        computing = float(graph.op_flop[op]) / _at(self.machine.flop_per_s, device)
        moving = touched / _at(self.machine.bytes_per_s, device)
        return max(computing, moving) + _at(self.machine.op_overhead_s, device)

    def lasts(self, tensor: int, target: int) -> float:
        """Seconds that a transfer takes."""
        link = self.home(tensor), target
        size, machine = int(self.graph.tensor_bytes[tensor]), self.machine
        return _at(machine.link_latency_s, *link) + size / _at(machine.link_bytes_per_s, *link)

    def queue(self, device: int) -> list[Step]:
        """The steps that a device takes part in, in order."""
        return [
            (what, target)
            for what, target in self.steps
            if device == (self.placement[what] if target == -1 else target)
            or (target != -1 and device == self.home(what))
        ]

    def makespan(self) -> float:
        """Seconds until all queues, of devices and of links, are empty."""
        return _Queues(self).run()

    def peak(self, device: int) -> int:
        """Most bytes held on a device: at each position of its queue every tensor live there, and
        its ops' weights."""
        graph, queue = self.graph, self.queue(device)
        born: dict[int, int] = {}
        last: dict[int, int] = {}
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
            if graph.tensor_is_output[tensor] and self.home(tensor) == device:
                last[tensor] = len(queue)
        change = [0] * (len(queue) + 2)
        for tensor, position in born.items():
            change[position] += int(graph.tensor_bytes[tensor])
            change[last[tensor] + 1] -= int(graph.tensor_bytes[tensor])
        peak = held = 0
        for position in range(len(queue)):
            held += change[position]
            peak = max(peak, held)
        on_device = [op for op, place in enumerate(self.placement) if place == device]
        return peak + sum(int(graph.op_weight_bytes[op]) for op in on_device)


class _Queues:
    """Devices and links that work through queues of their own; one waits where another has to come
    first."""

    def __init__(self, judge: _Judge):
        self.judge, self.transfers = judge, judge.machine.transfers
        self.waiting = [deque(judge.queue(device)) for device in range(judge.machine.devices)]
        self.now = [0.0] * judge.machine.devices
        self.produced: dict[int, float] = {}  # Op -> when it was over.
        self.arrived: dict[Step, float] = {}  # (tensor, device) -> when it was there.
        self.lines: dict[Link, deque[Step]] = {}  # What goes over each link, in order.
        self.idle: dict[Link, float] = {}  # From when on each link is.
        if self.transfers != "rendezvous":
            for tensor, target in judge.steps:
                if target != -1:
                    link = judge.home(tensor), target
                    self.lines.setdefault(link, deque()).append((tensor, target))

    def run(self) -> float:
        """Seconds until the last device is done."""
        moved = True
        while moved:
            moved = any([self.carry(link) for link in self.lines])
            moved |= any([self.work(device) for device in range(len(self.waiting))])
        assert not any(self.waiting), "queues wait for each other"
        return max(self.now)

    def carry(self, link: Link) -> bool:
        """Sends what has been produced, in order; whether anything was sent."""
        line, before = self.lines[link], len(self.lines[link])
        while line and self.judge.producers[line[0][0]] in self.produced:
            tensor, target = line.popleft()
            start = self.produced[self.judge.producers[tensor]]
            if self.transfers == "queued":
                start = max(start, self.idle.get(link, 0.0))
            self.idle[link] = self.arrived[tensor, target] = start + self.judge.lasts(
                tensor, target
            )
        return len(line) < before

    def work(self, device: int) -> bool:
        """Takes steps of a device until it waits; whether it took any."""
        queue, before = self.waiting[device], len(self.waiting[device])
        while queue:
            what, target = queue[0]
            if target == -1:
                begin = self.begin(what, device)
                if begin is None:
                    break
                self.now[device] = self.produced[what] = begin + self.judge.seconds(what)
            elif self.transfers == "rendezvous":
                home = self.judge.home(what)
                other = home if device == target else target
                if not self.waiting[other] or self.waiting[other][0] != (what, target):
                    break
                both = max(self.now[home], self.now[target]) + self.judge.lasts(what, target)
                self.now[home] = self.now[target] = self.arrived[what, target] = both
                self.waiting[other].popleft()
            queue.popleft()
        return len(queue) < before

    def begin(self, op: int, device: int) -> float | None:
        """When an op can start on its device; None while an input is missing."""
        begin = self.now[device]
        for tensor in self.judge.graph.op_inputs[op]:
            if self.judge.home(tensor) == device:
                there = self.produced.get(self.judge.producers[tensor])
            else:
                there = self.arrived.get((tensor, device))
            if there is None:
                return None
            begin = max(begin, there)
        return begin


def _at(value: Any, *place: int) -> float:
    """A number of the devices: the same everywhere, or the one of this place."""
    for index in place:
        value = value[index] if isinstance(value, tuple) else value
    return float(value)
