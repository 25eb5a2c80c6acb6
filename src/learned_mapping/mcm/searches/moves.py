"""Single moves: what each op would be worth one chip lower or higher, all others staying; and the
rule that makes them.

Throughput is 1 / max_d t_d, which most moves leave as it is. Its smooth surrogate is the p-norm of
the chips' latencies over an even share of all work,

    V(y) = -log (Σ_d (t_d / share)^p) / p,

and Q_i(c') = V(y with op i on c') - V(y), for c' in {y_i - 1, y_i, y_i + 1} where the chain rule
allows it. A move changes the ops' time of two chips and the traffic of one link, so each costs no
more than the op has neighbours.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.mcm.rules.constraints import uses_prefix
from learned_mapping.mcm.rules.pins import chip_bounds
from learned_mapping.mcm.searches.even_cut import near_balanced
from learned_mapping.programs.graph import Lists

POWER = 8.0
"""p: large enough that the busiest chips decide, small enough that the others are heard."""
LEAST_GAIN = 1e-9
"""The least gain in V; a smaller one is rounding."""


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
    lists = (graph.op_producers, graph.op_consumers, graph.op_inputs, graph.op_outputs)
    pairs = [array for table in lists for array in _offsets_and_entries(table)]
    uses = (graph.tensor_producer, graph.consumer_offsets, graph.edge_consumer)
    return MoveArrays(
        np.asarray(model.op_seconds, np.float64),
        *pairs,
        *(np.asarray(table, np.int64) for table in uses),
        np.asarray(model.tensor_seconds, np.float64),
        lows == highs,
    )


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
            here = max(latencies[chip] - arrays.seconds[op] + change, 0.0) / share
            there = max(latencies[to] + arrays.seconds[op] + change, 0.0) / share
            after = total - terms[chip] - terms[to] + here**power + there**power
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


def climb(
    model: ChipModel, arrays: RepairArrays, rng: np.random.Generator, budget: Budget
) -> np.ndarray:
    """[N] int32, the fastest partition of climbs by the best single move, each from a near-balanced
    partition.

    Every partition on the way is judged and is a sample: the rule that knows as much as a credit
      for each op tells.
    """
    moves, best = move_arrays(model), np.zeros(model.graph.num_ops, np.int32)
    while not budget.spent():
        partition = near_balanced(model, arrays, rng, 1)[0]
        while not budget.spent():
            throughput, latencies = model.judged(partition)
            # a move may leave chip 0 empty
            if budget.record(throughput if uses_prefix(partition) else 0.0):
                best = partition.copy()
            if not latencies.any():  # it cannot run, and tells nothing
                break
            gains, allowed = single_moves(moves, partition, latencies)
            op, side = np.unravel_index(np.argmax(np.where(allowed, gains, -np.inf)), gains.shape)
            if gains[op, side] <= LEAST_GAIN:
                break
            partition[op] += side - 1
    return best
