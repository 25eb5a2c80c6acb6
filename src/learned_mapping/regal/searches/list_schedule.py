"""Schedules by rule, one pass and no search: depth first after graph partitioning, and list
scheduling."""

import heapq

import numpy as np

from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import INFEASIBLE, Instance
from learned_mapping.regal.rules.levels import upward_rank
from learned_mapping.regal.schedule import RUN_OP, Schedule
from learned_mapping.regal.searches.partition import Adjacency, partition


def gp_dfs(instance: Instance, rng: np.random.Generator) -> Schedule:
    """Graph partitioning for the devices, depth first for the order (REGAL, Section 3.2, baseline
    1).

    Parts are balanced by what the objective counts, seconds or bytes, at the smallest cut found; a
    cut edge weighs its bytes, and one unit of its own because every transfer costs a rendezvous.
    """
    return depth_first(instance, _partition(instance, rng))


def gp_list(instance: Instance, rng: np.random.Generator) -> Schedule:
    """Graph partitioning for the devices, then critical-path order; a tensor is sent as soon as its
    rank allows.

    The counterpart of `gp_dfs` for running time: the paper has no such baseline.
    """
    graph, d = instance.graph, instance.machine.devices
    side = _partition(instance, rng)
    rank = upward_rank(instance)
    chromosome = np.zeros(instance.chromosome_length)
    chromosome[np.arange(graph.num_ops) * d + side] = 1.0
    priority = chromosome[graph.num_ops * d :]
    priority[: graph.num_ops] = rank
    transfers = priority[graph.num_ops :].reshape(graph.num_tensors, d)
    np.maximum.at(
        transfers, (graph.edge_tensor, side[graph.edge_consumer]), rank[graph.edge_consumer]
    )
    return decode(instance, chromosome)


def _partition(instance: Instance, rng: np.random.Generator) -> np.ndarray:
    graph, seconds = instance.graph, instance.arrays.seconds
    weight = (
        seconds
        if instance.objective == "runtime"
        else graph.op_output_bytes + graph.op_weight_bytes
    )
    adjacency: Adjacency = [{} for _ in range(graph.num_ops)]
    mean = (float(graph.tensor_bytes.mean()) if graph.num_tensors else 0.0) or 1.0
    for tensor, consumer in zip(graph.edge_tensor.tolist(), graph.edge_consumer.tolist()):
        producer = int(graph.tensor_producer[tensor])
        tie = 1.0 + float(graph.tensor_bytes[tensor]) / mean
        for u, v in ((producer, consumer), (consumer, producer)):
            adjacency[u][v] = adjacency[u].get(v, 0.0) + tie
    return partition(adjacency, weight, instance.machine.devices, rng)


class _Steps:
    """A schedule in the making: each op with the transfers it needs right before it."""

    def __init__(self, instance: Instance, placement: np.ndarray):
        self.instance, self.placement = instance, placement
        graph = instance.graph
        self.inputs = [list(tensors) for tensors in graph.op_inputs]
        self.waiting = [len(tensors) for tensors in self.inputs]
        self.order: list[tuple[int, int]] = []
        self.sent: set[tuple[int, int]] = set()

    def append(self, op: int) -> list[int]:
        """Adds `op`; returns the ops that it was the last to hold up."""
        graph, device = self.instance.graph, int(self.placement[op])
        for tensor in self.inputs[op]:
            if (
                self.placement[graph.tensor_producer[tensor]] != device
                and (tensor, device) not in self.sent
            ):
                self.sent.add((tensor, device))
                self.order.append((tensor, device))
        self.order.append((op, RUN_OP))
        released = []
        for tensor in graph.op_outputs[op]:
            for consumer in graph.consumers(tensor).tolist():
                self.waiting[consumer] -= 1
                if self.waiting[consumer] == 0:
                    released.append(consumer)
        return released

    def ready(self) -> list[int]:
        """The ops that wait for none."""
        return [op for op, count in enumerate(self.waiting) if count == 0]

    def schedule(self) -> Schedule:
        machine = self.instance.machine
        return Schedule.of(self.placement, self.order, machine.devices).on(
            self.instance.graph, machine
        )


def depth_first(instance: Instance, placement: np.ndarray) -> Schedule:
    """Post-order from the sinks: all an op needs, then the op, so that tensors live briefly.

    Inputs are visited heaviest ancestry first, as memory-minimising compilers do. A transfer comes
    right before the first op that needs it.
    """
    graph, steps = instance.graph, _Steps(instance, placement)
    ancestry, inputs = graph.op_output_bytes.astype(float).tolist(), steps.inputs
    for op in graph.topological_order.tolist():
        producers = {int(graph.tensor_producer[t]) for t in inputs[op]}
        # once a path: Python's floats end at infinity, in silence
        ancestry[op] += sum(ancestry[p] for p in producers)
    for tensors in inputs:
        tensors.sort(key=lambda t: (-ancestry[graph.tensor_producer[t]], t))
    opened, done = np.zeros((2, graph.num_ops), bool)
    for root in (op for op, users in enumerate(graph.op_consumers) if not users):
        stack = [root]
        while stack:
            op = stack[-1]
            if not opened[op]:
                opened[op] = True
                stack.extend(int(graph.tensor_producer[t]) for t in reversed(inputs[op]))
                continue
            stack.pop()
            if not done[op]:
                done[op] = True
                steps.append(op)
    return steps.schedule()


def list_scheduler(instance: Instance) -> Schedule:
    """Critical-path list scheduling for running time; the least growth of the peak, greedily, for
    memory, and where the other does not fit."""
    if instance.objective == "memory":
        return _least_memory(instance)
    fast = _critical_path(instance)
    if not instance.arrays.counts_memory or _fitness(instance, fast) < INFEASIBLE:
        return fast
    return min(fast, _least_memory(instance), key=lambda schedule: _fitness(instance, schedule))


def _fitness(instance: Instance, schedule: Schedule) -> float:
    simulation = instance.simulate(schedule)
    return instance.fitness(simulation.makespan_s, simulation.peaks)


def _critical_path(instance: Instance) -> Schedule:
    """The ready op with the longest path to the end goes to the device where it finishes first.

    Upward ranks as in HEFT (Topcuoglu et al. 2002). Equal finishes go where fewer inputs have to be
    sent. Of a link that serves one transfer at a time it sees the time of each, not the queue.
    """
    graph, a, d = instance.graph, instance.arrays, instance.machine.devices
    rank, placement = upward_rank(instance), np.full(graph.num_ops, -1)
    steps = _Steps(instance, placement)
    ready = [(-rank[op], op) for op in steps.ready()]
    heapq.heapify(ready)
    clock, finish = np.zeros(d), np.zeros(graph.num_ops)
    (speed, latency), blocking = instance.machine.links, not a.overlapped
    while ready:
        _, op = heapq.heappop(ready)
        options = []
        for device in range(d):
            after = clock.copy()
            missing = 0
            for tensor in steps.inputs[op]:
                producer = graph.tensor_producer[tensor]
                link = placement[producer], device
                lasts = latency[link] + graph.tensor_bytes[tensor] / speed[link]
                if not blocking:
                    after[device] = max(after[device], finish[producer] + lasts)
                if link[0] != device and (tensor, device) not in steps.sent:
                    missing += 1
                    if blocking:
                        after[link[0]] = after[device] = max(after[list(link)]) + lasts
            after[device] += a.device_seconds[op, device]
            options.append((after[device], missing, after.sum(), device, after))
        finish[op], _, _, placement[op], clock = min(options, key=lambda option: option[:4])
        for successor in steps.append(op):
            heapq.heappush(ready, (-rank[successor], successor))
    return steps.schedule()


def one_device(instance: Instance) -> Schedule:
    """Everything on the device that takes the least time for all of it, of those that have room
    where memory counts; nothing is sent."""
    seconds, n = instance.arrays.device_seconds.sum(axis=0), instance.graph.num_ops
    best = depth_first(instance, np.full(n, seconds.argmin()))
    if not instance.arrays.counts_memory or instance.objective == "memory":
        return best
    others = (depth_first(instance, np.full(n, d)) for d in np.argsort(seconds, kind="stable")[1:])
    return min((best, *others), key=lambda schedule: _fitness(instance, schedule))


def _least_memory(instance: Instance) -> Schedule:
    """The choice, among all ready ops and devices, that raises the peak least, then leaves the
    least memory held.

    Tensors count as freed once all their users have run; copies on the other device, from their
    transfer on.
    """
    graph, d = instance.graph, instance.machine.devices
    size, weights = graph.tensor_bytes, graph.op_weight_bytes
    placement = np.full(graph.num_ops, -1)
    steps = _Steps(instance, placement)
    inputs, ready = steps.inputs, set(steps.ready())
    to_come = np.diff(graph.consumer_offsets).astype(np.int64)
    held, peak = np.zeros((2, d), np.int64)
    copies: dict[int, set[int]] = {}
    depth = {
        op: i
        for i, op in enumerate(
            depth_first(instance, np.zeros(graph.num_ops, int)).order[:, 0].tolist()
        )
    }
    while ready:
        options = []
        # The first few in depth-first order: trying every ready op is quadratic and hardly better.
        for op in sorted(ready, key=depth.__getitem__)[:16]:
            for device in range(d):
                fetched = sum(int(size[t]) for t in inputs[op] if device not in copies[t])
                during = held[device] + fetched + int(graph.op_output_bytes[op]) + int(weights[op])
                freed = sum(
                    int(size[t])
                    for t in inputs[op]
                    if to_come[t] == 1 and not graph.tensor_is_output[t]
                )
                raised = max(int(during) - int(max(peak)), 0)
                left = int(during) - freed - int(held[device])
                options.append((raised, left, int(during), depth[op], device, op))
        _, _, during, _, device, op = min(options)
        ready.discard(op)
        placement[op] = device
        peak += weights[op] * (np.arange(d) == device)
        held[device] = during
        peak[device] = max(peak[device], during)
        for tensor in inputs[op]:
            copies[tensor].add(device)
            to_come[tensor] -= 1
            if to_come[tensor] == 0:
                home = int(placement[graph.tensor_producer[tensor]])
                for holder in copies[tensor]:
                    if not (graph.tensor_is_output[tensor] and holder == home):
                        held[holder] -= size[tensor]
        for tensor in graph.op_outputs[op]:
            copies[tensor] = {device}
            if to_come[tensor] == 0 and not graph.tensor_is_output[tensor]:
                held[device] -= size[tensor]
        ready.update(steps.append(op))
    return steps.schedule()
