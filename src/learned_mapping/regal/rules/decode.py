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


def make_workspace(instance: Instance | Arrays) -> Workspace:
    arrays = instance.arrays if isinstance(instance, Instance) else instance
    n, m, d = len(arrays.seconds), len(arrays.tensor_bytes), arrays.devices
    items = n + m * d
    return Workspace(
        placement=np.zeros(n, np.int32), waiting=np.zeros(n, np.int32), uses=np.zeros(m * d, np.int32),
        arrival=np.zeros(m * d), keys=np.zeros(items), items=np.zeros(items, np.int32),
        order=np.zeros(items, np.int32), clock=np.zeros(d), held=np.zeros(d, np.int64), peak=np.zeros(d, np.int64),
    )  # fmt: skip


@numba.njit(cache=True, forceinline=True)
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


@numba.njit(cache=True, forceinline=True)
def _pop(keys, items, size):
    """Removes the first item; returns it. The caller lowers `size` by one.

    The gap at the top goes down to a leaf along the better children, which takes no branch that depends on keys; the
    last item then goes in there and, rarely, up again.
    """
    top = items[0]
    size -= 1
    position, child = 0, 1
    while child + 1 < size:
        one, other = keys[child], keys[child + 1]
        child += int((other > one) | ((other == one) & (items[child + 1] < items[child])))
        keys[position], items[position] = keys[child], items[child]
        position = child
        child = 2 * position + 1
    if child < size:
        keys[position], items[position] = keys[child], items[child]
        position = child
    _push(keys, items, position, keys[size], items[size])
    return top


@numba.njit(cache=True)
def device_of(chromosome, op, d):
    """The device of an op's largest affinity, the first of equals."""
    best = 0
    for device in range(1, d):
        if chromosome[op * d + device] > chromosome[op * d + best]:
            best = device
    return best


def _kernel(with_memory: bool):
    """The decoder, compiled with or without the account of memory; what it does with time is the same code."""

    @numba.njit(cache=True)
    def run(a: Arrays, chromosome, work: Workspace):
        n, d = a.seconds.shape[0], a.devices
        seconds, inputs, outputs, consumers = a.seconds, a.inputs, a.outputs, a.consumers
        input_offsets, output_offsets, consumer_offsets = a.input_offsets, a.output_offsets, a.consumer_offsets
        tensor_bytes, tensor_producer, tensor_is_output = a.tensor_bytes, a.tensor_producer, a.tensor_is_output
        placement, waiting, uses, arrival = work.placement, work.waiting, work.uses, work.arrival
        keys, items, order, clock, held, peak = work.keys, work.items, work.order, work.clock, work.held, work.peak
        free, priority = a.free_transfers, chromosome[n * d :]
        for device in range(d):
            clock[device], held[device] = 0.0, 0
        size, steps = 0, 0
        for op in range(n):
            best, most_affine = 0, chromosome[op * d]
            for device in range(1, d):
                affinity = chromosome[op * d + device]
                best = device if affinity > most_affine else best
                most_affine = affinity if affinity > most_affine else most_affine
            placement[op] = best
            if with_memory:
                held[best] += a.weight_bytes[op]
        for op in range(n):
            waiting[op] = input_offsets[op + 1] - input_offsets[op]
            if waiting[op] == 0:
                size = _push(keys, items, size, priority[op], op)
        for device in range(d):
            peak[device] = held[device]
        while size > 0:
            item = _pop(keys, items, size)
            size -= 1
            order[steps] = item
            steps += 1
            if item < n:
                device = placement[item]
                begin = clock[device]
                if free:
                    for j in range(input_offsets[item], input_offsets[item + 1]):
                        begin = max(begin, arrival[inputs[j] * d + device])
                clock[device] = begin + seconds[item]
                if with_memory:
                    for j in range(output_offsets[item], output_offsets[item + 1]):
                        held[device] += tensor_bytes[outputs[j]]
                    peak[device] = max(peak[device], held[device])
                    for j in range(input_offsets[item], input_offsets[item + 1]):
                        tensor = inputs[j]
                        copy = tensor * d + device
                        uses[copy] -= 1
                        if uses[copy] == 0 and not (
                            tensor_is_output[tensor] and placement[tensor_producer[tensor]] == device
                        ):
                            held[device] -= tensor_bytes[tensor]
                for j in range(output_offsets[item], output_offsets[item + 1]):
                    tensor = outputs[j]
                    base = tensor * d
                    if free:
                        arrival[base + device] = clock[device]
                    for target in range(d):
                        uses[base + target] = 0
                    for k in range(consumer_offsets[tensor], consumer_offsets[tensor + 1]):
                        op = consumers[k]
                        uses[base + placement[op]] += 1
                        here = placement[op] == device
                        waiting[op] -= here
                        if here & (waiting[op] == 0):
                            size = _push(keys, items, size, priority[op], op)
                    for target in range(d):
                        if target != device and uses[base + target] > 0:
                            uses[base + device] += 1
                            transfer = n + base + target
                            size = _push(keys, items, size, priority[transfer], transfer)
                    if with_memory and uses[base + device] == 0 and not tensor_is_output[tensor]:
                        held[device] -= tensor_bytes[tensor]
            else:
                tensor = (item - n) // d
                base, target = tensor * d, (item - n) - tensor * d
                source = placement[tensor_producer[tensor]]
                if free:
                    arrival[base + target] = arrival[base + source]
                else:
                    both = max(clock[source], clock[target])
                    clock[source], clock[target] = both, both
                if with_memory:
                    held[target] += tensor_bytes[tensor]
                    peak[target] = max(peak[target], held[target])
                    uses[base + source] -= 1
                    if uses[base + source] == 0 and not tensor_is_output[tensor]:
                        held[source] -= tensor_bytes[tensor]
                for k in range(consumer_offsets[tensor], consumer_offsets[tensor + 1]):
                    op = consumers[k]
                    here = placement[op] == target
                    waiting[op] -= here
                    if here & (waiting[op] == 0):
                        size = _push(keys, items, size, priority[op], op)
        makespan, most = 0.0, 0
        for device in range(d):
            makespan, most = max(makespan, clock[device]), max(most, peak[device])
        return makespan, most, steps

    return run


evaluate = _kernel(True)
"""(arrays, chromosome [L], workspace) -> (makespan in seconds, peak in bytes, steps): decodes and simulates."""
_time_alone = _kernel(False)
"""The same with a peak of 0: for a search on running time where no schedule can pass the memory limit."""


@numba.njit(cache=True)
def fitness_of(a: Arrays, chromosome, work: Workspace):
    """What a search minimises; as `Instance.fitness`. The hot loop of every search."""
    if not a.counts_memory:
        return _time_alone(a, chromosome, work)[0]
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
