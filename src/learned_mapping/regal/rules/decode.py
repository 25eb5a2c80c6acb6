"""The decoder: from a chromosome to a schedule and its costs (REGAL, Appendix A.2), compiled.

A chromosome of o ops, t tensors and d devices has three parts, one after the other: o d affinities
(op-major), o op priorities, t d transfer priorities (tensor-major). An op goes to the device of its
largest affinity, the first of equals. A tensor is sent once to every other device that uses it. Ops
and transfers are then sorted topologically; among those ready the one of highest priority goes
first, ops before transfers and lower numbers first among equals.

Item i < o is op i; item o + tensor d + device is a transfer. With that numbering the priority of
item i stands at chromosome[o d + i].
"""

from typing import NamedTuple

import numba
import numpy as np
from numba.cpython.unsafe.numbers import leading_zeros

from learned_mapping.regal.rules.instance import INFEASIBLE, Arrays, Instance
from learned_mapping.regal.schedule import RUN_OP, Schedule


class Workspace(NamedTuple):
    """The arrays of a graph that `evaluate` reads, and its scratch, made once per search. I = N + M
    d items.

    After a call, `order[:steps]` holds the items. An item's edges are the uses it serves: of an
    op's outputs, or of the tensor that is sent. Indices are unsigned: compiled code need not ask
    whether they count from the end.
    """

    first: np.ndarray  # [I] uint32, the first edge of each item
    last: np.ndarray  # [I] uint32, the one after its last
    edge_op: np.ndarray  # [E] uint32, the op that uses the tensor
    edge_copy: np.ndarray  # [E] uint32, the tensor's transfer to device 0
    owner: np.ndarray  # [I] uint32, the op itself, or the producer of what is sent
    target: np.ndarray  # [I] uint32, the device a transfer goes to
    # [I d] float64, of an op by its device, of a transfer by where it comes from
    seconds: np.ndarray
    link: np.ndarray  # [d d] float64, until when each link is busy, in seconds
    # [I + 1] int32, what an item waits for: its inputs; for a transfer, the first use elsewhere
    arrivals: np.ndarray
    starts: np.ndarray  # [S] uint32, ops that wait for nothing
    placement: np.ndarray  # [N] uint32
    # [I + 1] int32, what each item waits for still; the last entry belongs to none
    waiting: np.ndarray
    uses: np.ndarray  # [M d] int32, reads to come of each copy of a tensor
    arrival: np.ndarray  # [M d] float64, when each copy is complete, in seconds
    ready: np.ndarray  # [64] uint64, a bit for every bucket that holds an item
    buckets: np.ndarray  # [BUCKETS] uint32, the first item in a bucket
    after: np.ndarray  # [I] uint32, the next item in the same bucket, or I
    bucket: np.ndarray  # [I] uint32, where each item goes when it is ready
    order: np.ndarray  # [I] uint32
    clock: np.ndarray  # [d] float64, seconds
    held: np.ndarray  # [d] int64, bytes
    peak: np.ndarray  # [d] int64, bytes


BUCKETS = 4096
"""Buckets of equal width over priorities from 0 to 1: as many as a search in two words of 64 bits
can tell apart."""


def make_workspace(instance: Instance | Arrays) -> Workspace:
    a = instance.arrays if isinstance(instance, Instance) else instance
    n, m, d = len(a.seconds), len(a.tensor_bytes), a.devices
    items = n + m * d
    # Uses in the order of producers, so that an op's are neighbours whichever output they are of.
    counts = np.diff(a.consumer_offsets)[a.outputs]
    ends = np.cumsum(counts)
    place = np.empty(m, np.int64)
    place[a.outputs] = ends - counts
    tensor = np.repeat(a.outputs, counts)
    within = np.arange(len(a.consumers)) - np.repeat(ends - counts, counts)
    bounds = np.concatenate([[0], ends])[a.output_offsets]
    inputs = np.diff(a.input_offsets)
    # [M, target, source]
    sent = a.link_latency_s.T + a.tensor_bytes[:, None, None] / a.link_bytes_per_s.T

    def of_items(ops: np.ndarray, sent: np.ndarray, dtype: type = np.uint32) -> np.ndarray:
        return np.concatenate([ops, np.repeat(sent, d)]).astype(dtype)

    return Workspace(
        first=of_items(bounds[:-1], place),
        last=of_items(bounds[1:], place + np.diff(a.consumer_offsets)),
        edge_op=a.consumers[a.consumer_offsets[tensor] + within].astype(np.uint32),
        edge_copy=(n + tensor * d).astype(np.uint32),
        owner=of_items(np.arange(n), a.tensor_producer),
        target=np.concatenate([np.zeros(n), np.tile(np.arange(d), m)]).astype(np.uint32),
        seconds=np.concatenate([a.device_seconds.ravel(), sent.ravel()]),
        link=np.zeros(d * d),
        arrivals=np.append(of_items(inputs, np.ones(m)), 2**31 - 1).astype(np.int32),
        starts=np.flatnonzero(inputs == 0).astype(np.uint32),
        placement=np.zeros(n, np.uint32),
        waiting=np.zeros(items + 1, np.int32),
        uses=np.zeros(m * d, np.int32),
        arrival=np.zeros(m * d),
        ready=np.zeros(BUCKETS // 64, np.uint64),
        buckets=np.zeros(BUCKETS, np.uint32),
        after=np.zeros(items, np.uint32),
        bucket=np.zeros(items, np.uint32),
        order=np.zeros(items, np.uint32),
        clock=np.zeros(d),
        held=np.zeros(d, np.int64),
        peak=np.zeros(d, np.int64),
    )


_ONE, _BITS = np.uint64(1), np.uint64(63)


@numba.njit(cache=True, forceinline=True)
def _push(work, priority, words, item):
    """Adds an item, a uint64; returns `words` with the bit of its word, of those that have one,
    set.

    The items of a bucket are a list in the order in which they go; few buckets hold more than one.
    """
    buckets, after, bucket = work.buckets, work.after, np.uint64(work.bucket[item])
    word, bit = bucket >> np.uint64(6), _ONE << (bucket & _BITS)
    end = np.uint64(len(after))
    if work.ready[word] & bit:
        key = priority[item]
        before, behind = end, np.uint64(buckets[bucket])
        while behind < end and (
            priority[behind] > key or (priority[behind] == key and behind < item)
        ):
            before, behind = behind, np.uint64(after[behind])
        after[item] = behind
        if before < end:
            after[before] = item
        else:
            buckets[bucket] = item
    else:
        work.ready[word] |= bit
        buckets[bucket], after[item] = item, end
    return words | (_ONE << word)


@numba.njit(cache=True)
def device_of(chromosome, op, d):
    """The device of an op's largest affinity, the first of equals."""
    best = 0
    for device in range(1, d):
        if chromosome[op * d + device] > chromosome[op * d + best]:
            best = device
    return best


def _kernel(with_memory: bool):
    """The decoder, compiled with or without the account of memory; what it does with time is the
    same code."""

    @numba.njit(cache=True)
    def run(a: Arrays, chromosome, work: Workspace):
        ops, d = a.seconds.shape[0], a.devices
        n, end = np.uint64(ops), np.uint64(len(work.after))
        placement, waiting, clock, arrival = work.placement, work.waiting, work.clock, work.arrival
        uses, held, peak = work.uses, work.held, work.peak
        wide, priority = np.uint64(d), chromosome[ops * d :]
        # Devices: an op is where its affinity is highest.
        for device in range(d):
            clock[device], held[device] = 0.0, 0
        if a.queued:
            work.link[:] = 0.0
        for op in range(ops):
            best, most_affine = 0, chromosome[op * d]
            for device in range(1, d):
                affinity = chromosome[op * d + device]
                best = device if affinity > most_affine else best
                most_affine = affinity if affinity > most_affine else most_affine
            placement[op] = best
            if with_memory:
                held[best] += a.weight_bytes[op]
        for device in range(d):
            peak[device] = held[device]
        # The queue: ops and transfers in buckets of priority, ready ones as bits.
        for item in range(len(priority)):
            work.bucket[item] = int(min(max(priority[item], 0.0), 1.0) * (BUCKETS - 1.0))
            waiting[item] = work.arrivals[item]
        waiting[end] = work.arrivals[end]
        words, steps = np.uint64(0), 0
        for op in work.starts:
            words = _push(work, priority, words, np.uint64(op))
        while words:
            # The highest word with a bit, its highest bit, the first item of that bucket.
            high = _BITS - np.uint64(leading_zeros(words))  # type: ignore[call-arg]  # compiled
            word = work.ready[high]
            low = _BITS - np.uint64(leading_zeros(word))
            bucket = (high << np.uint64(6)) | low
            item = np.uint64(work.buckets[bucket])
            behind = work.after[item]
            if behind < end:
                work.buckets[bucket] = behind
            else:
                word ^= _ONE << low
                work.ready[high] = word
                words &= ~(np.uint64(word == 0) << high)
            work.order[np.uint64(steps)] = item
            steps += 1
            # The clock.
            is_op = item < n
            source = np.uint64(placement[work.owner[item]])
            device = source if is_op else np.uint64(work.target[item])
            lasts = work.seconds[item * wide + source]
            if a.overlapped:
                if is_op:
                    begin = clock[device]
                    for j in range(a.input_offsets[item], a.input_offsets[item + _ONE]):
                        begin = max(begin, arrival[a.inputs[j] * d + device])
                    clock[device] = begin + lasts
                    for j in range(a.output_offsets[item], a.output_offsets[item + _ONE]):
                        arrival[a.outputs[j] * d + device] = clock[device]
                else:
                    begin = arrival[item - n - device + source]
                    if a.queued:
                        begin = max(begin, work.link[source * wide + device])
                        work.link[source * wide + device] = begin + lasts
                    arrival[item - n] = begin + lasts
            else:  # An op is on its device alone.
                both = max(clock[source], clock[device]) + lasts
                clock[source], clock[device] = both, both
            if with_memory:
                if is_op:
                    for j in range(a.output_offsets[item], a.output_offsets[item + _ONE]):
                        tensor = np.uint64(a.outputs[j])
                        held[device] += a.tensor_bytes[tensor]
                        for other in range(d):
                            uses[tensor * d + other] = 0
                    peak[device] = max(peak[device], held[device])
                    for j in range(a.input_offsets[item], a.input_offsets[item + _ONE]):
                        tensor = a.inputs[j]
                        uses[tensor * d + device] -= 1
                        kept = (
                            a.tensor_is_output[tensor]
                            and placement[a.tensor_producer[tensor]] == device
                        )
                        if uses[tensor * d + device] == 0 and not kept:
                            held[device] -= a.tensor_bytes[tensor]
                else:
                    tensor = (item - n) // d
                    held[device] += a.tensor_bytes[tensor]
                    peak[device] = max(peak[device], held[device])
                    uses[tensor * d + source] -= 1
                    if uses[tensor * d + source] == 0 and not a.tensor_is_output[tensor]:
                        held[source] -= a.tensor_bytes[tensor]
            # What waits for it.
            for edge in range(np.uint64(work.first[item]), np.uint64(work.last[item])):
                op, copy = np.uint64(work.edge_op[edge]), np.uint64(work.edge_copy[edge])
                place = np.uint64(placement[op])
                # A use elsewhere is one of the transfer there; of what has been sent, none.
                served = op if place == device else copy + place if is_op else end
                left = waiting[served] - 1
                waiting[served] = left
                if with_memory and is_op:
                    uses[copy - n + place] += 1
                    uses[copy - n + device] += (left == 0) & (served >= n)
                if left == 0:
                    words = _push(work, priority, words, served)
            if with_memory and is_op:
                for j in range(a.output_offsets[item], a.output_offsets[item + _ONE]):
                    tensor = a.outputs[j]
                    if uses[tensor * d + device] == 0 and not a.tensor_is_output[tensor]:
                        held[device] -= a.tensor_bytes[tensor]
        makespan, most = 0.0, 0
        for device in range(d):
            makespan, most = max(makespan, clock[device]), max(most, peak[device])
        return makespan, most, steps

    return run


evaluate = _kernel(True)
"""(arrays, chromosome [L], workspace) -> (makespan in seconds, peak in bytes, steps): decodes and
simulates."""
_time_alone = _kernel(False)
"""The same with a peak of 0, for running time where no schedule can pass the limit."""


@numba.njit(cache=True)
def fitness_of(a: Arrays, chromosome, work: Workspace):
    """The number that a search minimises; as `Instance.fitness`. The hot loop of every search."""
    if not a.counts_memory:
        return _time_alone(a, chromosome, work)[0]
    makespan, peak, _ = evaluate(a, chromosome, work)
    fullest = 0.0
    for device in range(a.devices):
        fullest = max(fullest, work.peak[device] / a.memory_bytes[device])
    if fullest > 1.0:
        return INFEASIBLE * fullest
    if a.minimise_memory:
        return float(peak)
    return makespan


def decode(instance: Instance, chromosome: np.ndarray) -> Schedule:
    """The schedule of a chromosome, by the compiled decoder."""
    work = make_workspace(instance)
    _, _, steps = evaluate(instance.arrays, np.ascontiguousarray(chromosome, np.float64), work)
    n, d = instance.graph.num_ops, instance.machine.devices
    items = work.order[:steps].astype(np.int64)
    is_op = items < n
    order = np.stack(
        [np.where(is_op, items, (items - n) // d), np.where(is_op, RUN_OP, (items - n) % d)], axis=1
    )
    return Schedule.of(work.placement, order, d).on(instance.graph, instance.machine)


def encode(instance: Instance, schedule: Schedule) -> np.ndarray:
    """A chromosome that decodes to `schedule`: affinity 1 for the device chosen, priorities falling
    along the order."""
    n, d = instance.graph.num_ops, instance.machine.devices
    chromosome = np.zeros(instance.chromosome_length)
    chromosome[np.arange(n) * d + schedule.placement] = 1.0
    what, target = schedule.order[:, 0].astype(np.int64), schedule.order[:, 1]
    items = np.where(target == RUN_OP, what, n + what * d + target)
    chromosome[n * d + items] = 1.0 - (np.arange(len(items)) + 0.5) / len(items)
    return chromosome
