"""Moves: what each op would be worth one chip lower or higher, alone or with the ops that it pushes
along; and the rule that makes them.

Throughput is 1 / max_d t_d, which most moves leave as it is. Its smooth surrogate is the p-norm of
the chips' latencies over an even share of all work,

    V(y) = -log (Σ_d (t_d / share)^p) / p,

and Q_i(c') = V(y with op i on c') - V(y), for c' in {y_i - 1, y_i, y_i + 1} where the chain rule
allows it. A move changes the ops' time of two chips and the traffic of one link, so each costs no
more than the op has neighbours.

A *push* moves an op and exactly the ops that the chain rule then forces to move with it, one chip
the same way: the least set that holds the op and, going up, of each member u every consumer v with
f(v) = f(u) and every producer p with f(p) = f(u) - 1 (going down, f(v) = f(u) + 1 and f(p) = f(u)).
A single move that the rule allows is a push of one op. Both times and links change on no more chips
than the set is on and two beside them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.mcm.rules.pins import chip_bounds
from learned_mapping.mcm.searches.even_cut import starts
from learned_mapping.programs.graph import Lists

POWER = 8.0
"""p: large enough that the busiest chips decide, small enough that the others are heard."""
LEAST_GAIN = 1e-9
"""The least gain in V; a smaller one is rounding."""
TRIED = 256
"""Pushes whose memory is computed at each step, at most."""
WORK = 4_000_000
"""Ops pushed, times ops, between two looks at the clock."""


class MoveArrays(NamedTuple):
    """A graph on a package, as the kernels read it; entries of a list are those between two
    offsets."""

    seconds: np.ndarray  # [N] float64 of each op.
    producer_offsets: np.ndarray  # [N + 1] int64.
    producers: np.ndarray  # int64, ops whose tensors an op reads.
    consumer_offsets: np.ndarray  # [N + 1] int64.
    consumers: np.ndarray  # int64, ops that read an op's tensors.
    input_offsets: np.ndarray  # [N + 1] int64.
    inputs: np.ndarray  # int64, tensors an op reads.
    output_offsets: np.ndarray  # [N + 1] int64.
    outputs: np.ndarray  # int64, tensors an op makes.
    tensor_producer: np.ndarray  # [M] int64.
    use_offsets: np.ndarray  # [M + 1] int64.
    users: np.ndarray  # [E] int64.
    tensor_seconds: np.ndarray  # [M] float64 that a tensor keeps a link busy.
    fixed: np.ndarray  # [N] bool, whether an op can have one chip only.


def move_arrays(model: ChipModel) -> MoveArrays:
    """The arrays of the model's graph."""
    graph = model.graph
    lows, highs = chip_bounds(graph)
    columns = [np.asarray(model.op_seconds, np.float64)]
    for lists in (graph.op_producers, graph.op_consumers, graph.op_inputs, graph.op_outputs):
        columns += _offsets_and_entries(lists)
    for uses in (graph.tensor_producer, graph.consumer_offsets, graph.edge_consumer):
        columns.append(np.asarray(uses, np.int64))
    columns += [np.asarray(model.tensor_seconds, np.float64), lows == highs]
    return MoveArrays(*columns)


def _offsets_and_entries(lists: Lists) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum([len(entries) for entries in lists])]).astype(np.int64)
    return offsets, np.array([entry for entries in lists for entry in entries], np.int64)


@njit(cache=True)
def _change_of_link(arrays, y, op, side):
    """The time by which the one link that a move crosses is busy longer: behind op's chip (side 1),
    before it (-1)."""
    link, change = y[op] if side == 1 else y[op] - 1, 0.0
    for k in range(arrays.output_offsets[op], arrays.output_offsets[op + 1]):
        tensor, last = arrays.outputs[k], -1
        for j in range(arrays.use_offsets[tensor], arrays.use_offsets[tensor + 1]):
            last = max(last, y[arrays.users[j]])
        if last > link:
            change -= side * arrays.tensor_seconds[tensor]
    for k in range(arrays.input_offsets[op], arrays.input_offsets[op + 1]):
        tensor = arrays.inputs[k]
        last = y[arrays.tensor_producer[tensor]]
        for j in range(arrays.use_offsets[tensor], arrays.use_offsets[tensor + 1]):
            if arrays.users[j] != op:
                last = max(last, y[arrays.users[j]])
        if last <= link:
            change += side * arrays.tensor_seconds[tensor]
    return change


@njit(cache=True)
def _moves(arrays, y, latencies, power, gains, allowed):
    chips = len(latencies)
    share = arrays.seconds.sum() / chips
    terms = (latencies / share) ** power
    total = terms.sum()
    for op in range(len(y)):
        chip = y[op]
        low, high = 0, chips - 1
        for k in range(arrays.producer_offsets[op], arrays.producer_offsets[op + 1]):
            other = y[arrays.producers[k]]
            low, high = max(low, other), min(high, other + 1)
        for k in range(arrays.consumer_offsets[op], arrays.consumer_offsets[op + 1]):
            other = y[arrays.consumers[k]]
            low, high = max(low, other - 1), min(high, other)
        gains[op, :], allowed[op, :] = 0.0, False
        allowed[op, 1] = True
        if arrays.fixed[op]:
            continue
        for side in (-1, 1):
            to = chip + side
            if not low <= to <= high:
                continue
            change = _change_of_link(arrays, y, op, side)
            left = max(latencies[chip] - arrays.seconds[op] + change, 0.0) / share
            there = max(latencies[to] + arrays.seconds[op] + change, 0.0) / share
            after = total - terms[chip] - terms[to] + left**power + there**power
            allowed[op, side + 1] = True
            gains[op, side + 1] = (np.log(total) - np.log(max(after, 1e-300))) / power


def single_moves(
    arrays: MoveArrays, partition: np.ndarray, latencies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """([N, 3] float64 Q_i of y_i - 1, y_i, y_i + 1, [N, 3] bool whether the chain rule allows
    each).

    Args:
      partition: [N] a valid partition y.
      latencies: [C] seconds of each chip, of the model or as measured; not all 0.
    """
    gains, allowed = np.empty((len(partition), 3)), np.empty((len(partition), 3), bool)
    _moves(
        arrays,
        np.asarray(partition, np.int64),
        np.asarray(latencies, np.float64),
        POWER,
        gains,
        allowed,
    )
    return gains, allowed


@njit(cache=True)
def _forced(arrays, y, op, side, chips, most, ops, stamps, stamp):
    """How many ops a push of `op` moves, written to `ops` and stamped; 0 where one of them cannot,
    or where they are more than `most`."""
    ops[0], stamps[op] = op, stamp
    count, done = 1, 0
    tight = 0 if side == 1 else 1  # steps along an edge from and to an op that leave no room
    while done < count:
        u = ops[done]
        done += 1
        if count > most or arrays.fixed[u] or not 0 <= y[u] + side < chips:
            return 0
        for k in range(arrays.consumer_offsets[u], arrays.consumer_offsets[u + 1]):
            v = arrays.consumers[k]
            if stamps[v] != stamp and y[v] - y[u] == tight:
                ops[count], stamps[v] = v, stamp
                count += 1
        for k in range(arrays.producer_offsets[u], arrays.producer_offsets[u + 1]):
            v = arrays.producers[k]
            if stamps[v] != stamp and y[u] - y[v] == 1 - tight:
                ops[count], stamps[v] = v, stamp
                count += 1
    return count if count <= most else 0


@njit(cache=True)
def _change_of_links(arrays, y, ops, stamps, stamp, side, seen, change):
    """Adds to `change` [C] what each chip's links are busy longer when `ops` move; `seen` stamps
    their tensors."""
    for u in ops:
        for outputs in (True, False):
            offsets = arrays.output_offsets if outputs else arrays.input_offsets
            for k in range(offsets[u], offsets[u + 1]):
                tensor = arrays.outputs[k] if outputs else arrays.inputs[k]
                if seen[tensor] == stamp:
                    continue
                seen[tensor] = stamp
                maker = arrays.tensor_producer[tensor]
                last, then = -1, -1
                for j in range(arrays.use_offsets[tensor], arrays.use_offsets[tensor + 1]):
                    user = arrays.users[j]
                    last = max(last, y[user])
                    then = max(then, y[user] + side * (stamps[user] == stamp))
                for link in range(y[maker], last):
                    change[link] -= arrays.tensor_seconds[tensor]
                    change[link + 1] -= arrays.tensor_seconds[tensor]
                for link in range(y[maker] + side * (stamps[maker] == stamp), then):
                    change[link] += arrays.tensor_seconds[tensor]
                    change[link + 1] += arrays.tensor_seconds[tensor]


@njit(cache=True)
def _pushes(arrays, y, latencies, power, tried, most, gains, sizes):
    n, chips, tensors = len(y), len(latencies), len(arrays.tensor_producer)
    unit = latencies.max()  # which cancels in a gain
    terms = (latencies / unit) ** power
    total = terms.sum()
    used = np.bincount(y, minlength=chips + 1)
    room, stamps, seen = np.empty(n, np.int64), np.full(n, -1), np.full(tensors, -1)
    change, joined = np.zeros(chips + 1), np.zeros(chips + 1, np.int64)
    stamp = 0
    for row, op in enumerate(tried):
        for way in (0, 1):
            side, stamp = 2 * way - 1, stamp + 1
            count = _forced(arrays, y, op, side, chips, most, room, stamps, stamp)
            ops, first, last = room[:count], chips, 0
            for u in ops:
                first, last = min(first, y[u] - 2), max(last, y[u] + 3)
            first, last = max(first, 0), min(last, chips)
            change[first : last + 1], joined[first : last + 1] = 0.0, 0
            for u in ops:
                change[y[u]] -= arrays.seconds[u]
                change[y[u] + side] += arrays.seconds[u]
                joined[y[u]] -= 1
                joined[y[u] + side] += 1
            _change_of_links(arrays, y, ops, stamps, stamp, side, seen, change)
            after, gap = total, False
            for d in range(first, last):
                after += (max(latencies[d] + change[d], 0.0) / unit) ** power - terms[d]
                gap |= used[d] + joined[d] == 0 and used[d + 1] + joined[d + 1] > 0
            possible = count > 0 and not gap
            sizes[row, way] = count if possible else 0
            gains[row, way] = 0.0
            if possible:
                gains[row, way] = (np.log(total) - np.log(max(after, 1e-300))) / power


def pushes(
    arrays: MoveArrays, partition: np.ndarray, latencies: np.ndarray, ops: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """([K, 2] float64 gains in V of pushing each of `ops` [K] a chip lower and a chip higher,
    [K, 2] int64 how many ops then move: 0 where they are more than `most`, or where a fixed op, the
    end of the row or Eq. 3 forbids it).

    Other arguments as of `single_moves`.
    """
    gains, sizes = np.empty((len(ops), 2)), np.empty((len(ops), 2), np.int64)
    y, seconds = np.asarray(partition, np.int64), np.asarray(latencies, np.float64)
    ops = np.ascontiguousarray(ops, np.int64)
    _pushes(arrays, y, seconds, POWER, ops, most, gains, sizes)
    return gains, sizes


def pushed(
    arrays: MoveArrays, partition: np.ndarray, op: int, side: int, chips: int, most: int
) -> np.ndarray:
    """[N] int32, the partition after a push of `op` by `side`, -1 or 1; the same where more than
    `most` ops would move."""
    y, room = np.asarray(partition, np.int64), np.empty(len(partition), np.int64)
    count = _forced(arrays, y, op, side, chips, most, room, np.full(len(y), -1), 0)
    after = np.array(partition, np.int32)
    after[room[:count]] += side
    return after


def best_push(
    arrays: MoveArrays,
    partition: np.ndarray,
    latencies: np.ndarray,
    ops: np.ndarray,
    fits: Callable[[np.ndarray], bool] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> np.ndarray | None:
    """[N] int32, the partition after the best move of one of `ops` alone or, where none gains, the
    best push of several; None where none gains either, or stopped before all were looked at.

    Args:
      fits: of a partition, whether it may be the one; all may where None.
      stop: whether to, asked every now and then.
    """
    for most in (1, len(partition)):
        size = len(ops) if most == 1 else max(1, WORK // len(partition))
        parts = []
        for first in range(0, len(ops), size):
            if first and stop():
                return None
            parts.append(pushes(arrays, partition, latencies, ops[first : first + size], most))
        gains, sizes = (np.concatenate(column) for column in zip(*parts))
        gains = np.where(sizes, gains, -np.inf)
        places = [gains.argmax()]
        if fits is not None:
            places = np.argsort(-gains, axis=None, kind="stable")[:TRIED].tolist()
        for place in places:
            row, way = np.unravel_index(place, gains.shape)
            if gains[row, way] <= LEAST_GAIN:
                break
            side = 2 * int(way) - 1
            after = pushed(arrays, partition, int(ops[row]), side, len(latencies), most)
            if fits is None or fits(after):
                return after
    return None


def roomier(model: ChipModel, arrays: MoveArrays, partition: np.ndarray) -> np.ndarray | None:
    """[N] int32, the partition after the push of an op on the fullest chip or beside it that leaves
    the p-norm of the chips' shares of their memory smallest; None where none lowers it."""
    assert model.limit is not None
    chips, limit = model.package.chips, model.limit

    def full(y: np.ndarray) -> np.ndarray:
        return model.memory(y) / limit

    fullness = full(partition)
    near = np.flatnonzero(np.abs(partition - fullness.argmax()) <= 1)
    near = near[:: 1 + 2 * len(near) // TRIED]
    best, least = None, float((fullness**POWER).sum()) * (1 - LEAST_GAIN)
    _, sizes = pushes(arrays, partition, model.latencies(partition), near, len(partition))
    for row, way in np.argwhere(sizes > 0):
        op, side = int(near[row]), 2 * int(way) - 1
        after = pushed(arrays, partition, op, side, chips, len(partition))
        norm = float((full(after) ** POWER).sum())
        if norm < least:
            best, least = after, norm
    return best


def climb(
    model: ChipModel, arrays: RepairArrays, rng: np.random.Generator, budget: Budget
) -> np.ndarray:
    """[N] int32, the fastest partition of climbs by `best_push`, each from one of `starts`.

    Every partition on the way is judged and is a sample: the rule that knows as much as a credit
    for each op tells. Where memory counts a climb is first one by `roomier`, until it fits, and
    stays with what fits.
    """
    moves, ops = move_arrays(model), np.arange(model.graph.num_ops)
    best = np.zeros(len(ops), np.int32)
    fits = None if model.limit is None else lambda y: model.excess(y) <= 1.0
    for start in starts(model, arrays, rng):
        partition: np.ndarray | None = start
        while partition is not None and not budget.spent():
            throughput, latencies = model.judged(partition)
            if budget.record(throughput):
                best = partition
            if fits is not None and not fits(partition):
                partition = roomier(model, moves, partition)
            elif latencies.any():
                partition = best_push(moves, partition, latencies, ops, fits, budget.spent)
            else:  # what cannot run tells nothing
                partition = None
        if budget.spent():
            break
    return best
