"""From a chromosome to a schedule and its costs (REGAL, Appendix A.2), compiled.

A chromosome of o ops, t tensors and d devices has three parts, one after the other: o d affinities (op-major), o op
priorities, t d transfer priorities (tensor-major). An op goes to the device of its largest affinity, the first of
equals. A tensor is sent once to every other device that uses it. Ops and transfers are then sorted topologically; among
those ready the one of highest priority goes first, ops before transfers and lower numbers first among equals.

Item i < o is op i; item o + tensor d + device is a transfer. With that numbering the priority of item i stands at
chromosome[o d + i].
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.regal.rules.instance import INFEASIBLE, Arrays, Instance
from learned_mapping.regal.schedule import RUN_OP, Schedule


class Workspace(NamedTuple):
    """Scratch arrays of `evaluate`, allocated once per search. After a call, `order[:steps]` holds the items."""

    placement: np.ndarray  # [N] int32
    waiting: np.ndarray  # [N] int32, inputs of each op not yet at its device
    uses: np.ndarray  # [M d] int32, reads to come of each copy of a tensor
    arrival: np.ndarray  # [M d] float64, when each copy is complete, in seconds
    keys: np.ndarray  # [N + M d] float64, the heap's priorities
    items: np.ndarray  # [N + M d] int32, the heap's items
    order: np.ndarray  # [N + M d] int32
    clock: np.ndarray  # [d] float64, seconds
    held: np.ndarray  # [d] int64, bytes
    peak: np.ndarray  # [d] int64, bytes


def make_workspace(instance: Instance) -> Workspace:
    n, m, d = instance.graph.num_ops, instance.graph.num_tensors, instance.pair.devices
    items = n + m * d
    return Workspace(
        placement=np.zeros(n, np.int32), waiting=np.zeros(n, np.int32), uses=np.zeros(m * d, np.int32),
        arrival=np.zeros(m * d), keys=np.zeros(items), items=np.zeros(items, np.int32),
        order=np.zeros(items, np.int32), clock=np.zeros(d), held=np.zeros(d, np.int64), peak=np.zeros(d, np.int64),
    )  # fmt: skip


@numba.njit(cache=True, inline="never")
def _push(keys, items, size, key, item):
    position = size
    while position > 0:
        parent = (position - 1) >> 1
        if keys[parent] > key or (keys[parent] == key and items[parent] < item):
            break
        keys[position], items[position] = keys[parent], items[parent]
        position = parent
    keys[position], items[position] = key, item
    return size + 1


@numba.njit(cache=True, inline="never")
def _pop(keys, items, size):
    """Removes the first item; returns it. The caller lowers `size` by one."""
    top = items[0]
    size -= 1
    key, item = keys[size], items[size]
    position = 0
    while True:
        child = 2 * position + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (keys[right] > keys[child] or (keys[right] == keys[child] and items[right] < items[child])):
            child = right
        if key > keys[child] or (key == keys[child] and item < items[child]):
            break
        keys[position], items[position] = keys[child], items[child]
        position = child
    keys[position], items[position] = key, item
    return top


@numba.njit(cache=True)
def device_of(chromosome, op, d):
    """The device of an op's largest affinity, the first of equals."""
    best = 0
    for device in range(1, d):
        if chromosome[op * d + device] > chromosome[op * d + best]:
            best = device
    return best


@numba.njit(cache=True)
def _arrived(a: Arrays, chromosome, work: Workspace, tensor, device, size):
    """A tensor is complete on a device: its ops that waited for nothing else are ready. Returns the heap's new size."""
    for k in range(a.consumer_offsets[tensor], a.consumer_offsets[tensor + 1]):
        op = a.consumers[k]
        if work.placement[op] == device:
            work.waiting[op] -= 1
            if work.waiting[op] == 0:
                size = _push(work.keys, work.items, size, chromosome[len(a.seconds) * a.devices + op], op)
    return size


@numba.njit(cache=True)
def evaluate(a: Arrays, chromosome, work: Workspace):
    """Decodes and simulates; returns (makespan in seconds, peak in bytes, steps). The hot loop of every search."""
    n, d = a.seconds.shape[0], a.devices
    placement, waiting, uses, arrival = work.placement, work.waiting, work.uses, work.arrival
    clock, held, peak = work.clock, work.held, work.peak
    for device in range(d):
        clock[device], held[device] = 0.0, 0
    for op in range(n):
        placement[op] = device_of(chromosome, op, d)
        held[placement[op]] += a.weight_bytes[op]
        waiting[op] = a.input_offsets[op + 1] - a.input_offsets[op]
    for device in range(d):
        peak[device] = held[device]
    for tensor in range(a.tensor_bytes.shape[0]):
        base, home = tensor * d, placement[a.tensor_producer[tensor]]
        for device in range(d):
            uses[base + device] = 0
        for j in range(a.consumer_offsets[tensor], a.consumer_offsets[tensor + 1]):
            uses[base + placement[a.consumers[j]]] += 1
        transfers = 0
        for device in range(d):
            if device != home and uses[base + device] > 0:
                transfers += 1
        uses[base + home] += transfers

    size, steps = 0, 0
    for op in range(n):
        if waiting[op] == 0:
            size = _push(work.keys, work.items, size, chromosome[n * d + op], op)
    while size > 0:
        item = _pop(work.keys, work.items, size)
        size -= 1
        work.order[steps] = item
        steps += 1
        if item < n:
            device = placement[item]
            start = clock[device]
            if a.free_transfers:
                for j in range(a.input_offsets[item], a.input_offsets[item + 1]):
                    start = max(start, arrival[a.inputs[j] * d + device])
            clock[device] = start + a.seconds[item]
            for j in range(a.output_offsets[item], a.output_offsets[item + 1]):
                held[device] += a.tensor_bytes[a.outputs[j]]
            peak[device] = max(peak[device], held[device])
            for j in range(a.input_offsets[item], a.input_offsets[item + 1]):
                tensor = a.inputs[j]
                copy = tensor * d + device
                uses[copy] -= 1
                if uses[copy] == 0 and not (
                    a.tensor_is_output[tensor] and placement[a.tensor_producer[tensor]] == device
                ):
                    held[device] -= a.tensor_bytes[tensor]
            for j in range(a.output_offsets[item], a.output_offsets[item + 1]):
                tensor = a.outputs[j]
                arrival[tensor * d + device] = clock[device]
                if uses[tensor * d + device] == 0:
                    if not a.tensor_is_output[tensor]:
                        held[device] -= a.tensor_bytes[tensor]
                    continue
                size = _arrived(a, chromosome, work, tensor, device, size)
                for target in range(d):
                    if target != device and uses[tensor * d + target] > 0:
                        transfer = n + tensor * d + target
                        size = _push(work.keys, work.items, size, chromosome[n * d + transfer], transfer)
        else:
            tensor, target = (item - n) // d, (item - n) % d
            source = placement[a.tensor_producer[tensor]]
            if a.free_transfers:
                arrival[tensor * d + target] = arrival[tensor * d + source]
            else:
                both = max(clock[source], clock[target])
                clock[source], clock[target] = both, both
            held[target] += a.tensor_bytes[tensor]
            peak[target] = max(peak[target], held[target])
            uses[tensor * d + source] -= 1
            if uses[tensor * d + source] == 0 and not a.tensor_is_output[tensor]:
                held[source] -= a.tensor_bytes[tensor]
            size = _arrived(a, chromosome, work, tensor, target, size)
    makespan, most = 0.0, 0
    for device in range(d):
        makespan, most = max(makespan, clock[device]), max(most, peak[device])
    return makespan, most, steps


@numba.njit(cache=True)
def fitness_of(a: Arrays, chromosome, work: Workspace):
    """What a search minimises; as `Instance.fitness`."""
    makespan, peak, _ = evaluate(a, chromosome, work)
    if peak > a.memory_bytes:
        return INFEASIBLE * (peak / a.memory_bytes)
    if a.minimise_memory:
        return float(peak)
    return makespan


def decode(instance: Instance, chromosome: np.ndarray) -> Schedule:
    """The schedule of a chromosome, by the compiled decoder."""
    work = make_workspace(instance)
    _, _, steps = evaluate(instance.arrays, np.ascontiguousarray(chromosome, np.float64), work)
    n, d = instance.graph.num_ops, instance.pair.devices
    items = work.order[:steps].astype(np.int64)
    is_op = items < n
    order = np.stack([np.where(is_op, items, (items - n) // d), np.where(is_op, RUN_OP, (items - n) % d)], axis=1)
    return Schedule.of(work.placement, order, d).on(instance.graph, instance.pair)


def encode(instance: Instance, schedule: Schedule) -> np.ndarray:
    """A chromosome that decodes to `schedule`: affinity 1 for the device chosen, priorities falling along the order."""
    n, d = instance.graph.num_ops, instance.pair.devices
    chromosome = np.zeros(instance.chromosome_length)
    chromosome[np.arange(n) * d + schedule.placement] = 1.0
    what, target = schedule.order[:, 0].astype(np.int64), schedule.order[:, 1]
    items = np.where(target == RUN_OP, what, n + what * d + target)
    chromosome[n * d + items] = 1.0 - (np.arange(len(items)) + 0.5) / len(items)
    return chromosome
