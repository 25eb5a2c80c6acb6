"""Ops that are fixed to a chip, and groups of ops that belong on one: what follows from them under
the chain rule.

Groups are contracted before a search and spread out after it. Chips never go down along a path (Eq.
2), so the ops between two of a group go with it: with edges both ways between the ops of each
group, those that lead to each other have to share a chip. One op in the place of each such class
takes the time of all of them and sends what they send to others, and no cycle is left. The
partitions of the smaller graph are those of the whole one that keep the groups, with the same
times, so that no method need know of groups.

Fixed ops are bounds. Difference constraints such as the chain rule's are solvable where no op's
lowest chip is above its highest, and Eq. 3, in a graph of one part, where a source can have chip 0.
Which parts of a graph of several fill the chips between fixed ops is bin covering, which is hard;
where all parts at their longest do not, CP-SAT finds a way, and `joined` keeps the parts near it.
Chips beyond the last fixed one decide nothing: min(f, last) is valid where f is.
"""

import dataclasses
import heapq
from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from learned_mapping.errors import InputError, shown
from learned_mapping.mcm.rules.constraints import group_pairs, uses_prefix
from learned_mapping.programs.graph import (
    MAX_CHIPS,
    ComputationGraph,
    Lists,
    frozen_array,
    longest_paths,
    make_graph,
)

JOIN_EFFORT = 60.0
"""Limit of the search for a partition of a graph of several parts, in CP-SAT's units of work, about
seconds."""


def classes_of(graph: ComputationGraph) -> np.ndarray | None:
    """[N] int32, the class of each op that has to share a chip with others, numbered by their first
    ops; None where every op is alone."""
    pairs = group_pairs(graph)
    if not pairs:
        return None
    ends = np.concatenate([graph.op_edges, pairs, np.array(pairs)[:, ::-1]])
    edges = coo_matrix((np.ones(len(ends)), ends.T), shape=(graph.num_ops,) * 2)
    _, components = connected_components(edges, directed=True, connection="strong")
    _, first, label = np.unique(components, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int32)[label]


def contracted(
    graph: ComputationGraph, label: np.ndarray, seconds: np.ndarray
) -> tuple[ComputationGraph, np.ndarray]:
    """(the graph with one op for each class of ops, [K] int32 the op of each class that gives it
    name and kind).

    Args:
      label: [N] of `classes_of`.
      seconds: [N] running time of each op, which those of K classes add up.

    Raises:
      InputError: ops that have to share a chip are fixed to different ones.
    """
    chip = np.full(graph.num_ops, -1) if graph.op_chip is None else graph.op_chip
    leader = np.full(int(label.max()) + 1, -1, np.int32)
    for op in np.lexsort((seconds, chip >= 0)).tolist():  # a fixed op last, of those the longest
        other, leader[label[op]] = leader[label[op]], op
        if other >= 0 and min(chip[other], chip[op]) >= 0 and chip[other] != chip[op]:
            raise _contradiction(
                graph, op, other, "groups and what lies between their ops put both on one chip"
            )
    away = label[graph.edge_producer] != label[graph.edge_consumer]

    def added(values: np.ndarray) -> np.ndarray:
        total = np.zeros(len(leader), values.dtype)
        np.add.at(total, label, values)
        return total

    small = make_graph(
        name=graph.name,
        op_names=[graph.op_names[op] for op in leader],
        op_kinds=[graph.op_kinds[op] for op in leader],
        op_flop=added(graph.op_flop),
        op_weight_bytes=added(graph.op_weight_bytes),
        op_seconds=added(seconds),
        op_chip=chip[leader],
        tensor_names=graph.tensor_names,
        tensor_producer=label[graph.tensor_producer],
        tensor_bytes=graph.tensor_bytes,
        tensor_is_output=graph.tensor_is_output,
        edge_tensor=graph.edge_tensor[away],
        edge_consumer=label[graph.edge_consumer[away]],
        metadata=graph.metadata,
        source=graph.name,
    )
    return small, leader


def chip_bounds(graph: ComputationGraph) -> tuple[np.ndarray, np.ndarray]:
    """([N] int32 the lowest, [N] int32 the highest chip of each op) under the chain rule, with any
    number of chips.

    Raises:
      InputError: no partition has every fixed op on its chip; or a graph with groups, which are to
        be contracted first.
    """
    if group_pairs(graph):
        raise InputError(
            graph.name, "group", "is for what contracts it first: lmap solve mcm, or mcm.Task"
        )
    lows, highs = np.zeros(graph.num_ops, np.int32), np.full(graph.num_ops, MAX_CHIPS, np.int32)
    if graph.op_chip is None:
        return lows, highs
    fixed = _fixed(graph)
    above = _spread(
        {op: -chip for op, chip in fixed.items()}, graph.op_consumers, graph.op_producers
    )
    below = _spread(fixed, graph.op_producers, graph.op_consumers)
    rule = (
        "along an edge the chip stays or goes up by one (the chain rule, which every method keeps)"
    )
    for op, (low, low_by) in above.items():
        high, high_by = below[op]
        if -low > high:
            raise _contradiction(graph, low_by, high_by, rule)
        lows[op], highs[op] = max(-low, 0), high
    sources = [op for op, before in enumerate(graph.op_producers) if not before]
    if lows[sources].min() > 0:
        by = above[sources[0]][1]
        fault = (
            f"{fixed[by]}, which leaves no op for chip 0, and no chip may be left out (Eq. 3);"
            f" {rule}"
        )
        raise InputError(graph.name, f"ops[{shown(graph.op_names[by])!r}].chip", fault)
    return lows, highs


def _fixed(graph: ComputationGraph) -> dict[int, int]:
    """Op -> the chip it is fixed to."""
    return {
        op: chip
        for op, chip in enumerate([] if graph.op_chip is None else graph.op_chip.tolist())
        if chip >= 0
    }


def _spread(fixed: dict[int, int], same: Lists, onward: Lists) -> dict[int, tuple[int, int]]:
    """Op -> (bound, the fixed op it comes from), for all that some bound reaches: the same along
    `same`, one more along `onward`; the smallest first, as Dijkstra has it."""
    waiting = [(bound, op, op) for op, bound in fixed.items()]
    heapq.heapify(waiting)
    reached: dict[int, tuple[int, int]] = {}
    while waiting:
        bound, op, by = heapq.heappop(waiting)
        if op not in reached:
            reached[op] = bound, by
            for others, value in ((same[op], bound), (onward[op], bound + 1)):
                for other in others:
                    if other not in reached:
                        heapq.heappush(waiting, (value, other, by))
    return reached


def _contradiction(graph: ComputationGraph, op: int, other: int, why: str) -> InputError:
    assert graph.op_chip is not None
    names = [shown(graph.op_names[member]) for member in (op, other)]
    fault = f"{graph.op_chip[op]} cannot be with {names[1]!r} on chip {graph.op_chip[other]}: {why}"
    return InputError(graph.name, f"ops[{names[0]!r}].chip", fault)


def parts_of(graph: ComputationGraph) -> np.ndarray:
    """[N] int32, the part of each op, numbered from 0: no edge joins two parts."""
    edges = coo_matrix(
        (np.ones(len(graph.op_edges)), tuple(graph.op_edges.T)), shape=(graph.num_ops,) * 2
    )
    return connected_components(edges, directed=False)[1]


def joined(graph: ComputationGraph) -> ComputationGraph:
    """A graph with fixed ops, the parts that have some and the deepest in one; all parts, where
    these cannot be alone.

    Tensors of 0 bytes join parts as some valid partition has them. Partitions under the chain rule
    in which parts left over use no chip that the joined ones do not are valid for the graph itself,
    and there is one.

    Raises:
      InputError: CP-SAT finds no valid partition of a graph of several parts, or the graph is too
        large for it.
    """
    part = parts_of(graph)
    if graph.op_chip is None or not part.any():
        return graph
    fixed, top, (lows, _) = _fixed(graph), int(graph.op_chip.max()), chip_bounds(graph)
    depth, order = (
        longest_paths(graph.op_consumers, graph.topological_order[::-1]),
        graph.topological_order,
    )
    # Every part from the lowest chip it can have, at its deepest op there, as far up as it then
    # goes.
    first_ops = {int(part[op]): op for op in np.lexsort((depth, -lows)).tolist()}
    lowest = _spread(
        {op: int(lows[op]) for op in first_ops.values()} | fixed,
        graph.op_producers,
        graph.op_consumers,
    )
    f = np.array([min(lowest[op][0], top) for op in range(graph.num_ops)])
    own_part = np.isin(part, part[[*fixed, int(depth.argmax())]])
    if not uses_prefix(f[own_part]):
        f, own_part = _by_cp_sat(graph, top + 1), np.ones(graph.num_ops, bool)
    order = order[np.argsort(f[order], kind="stable")]
    order = order[own_part[order]]
    _, first = np.unique(part[order], return_index=True)
    # of each part an op as early as any of it, parts that begin early first
    opening = order[np.sort(first)]
    on_chip: dict[int, int] = {}
    links = []
    for op in opening.tolist():
        if on_chip:
            links.append((on_chip.get(int(f[op]), on_chip.get(int(f[op]) - 1, op)), op))
        for other in order[part[order] == part[op]].tolist():
            on_chip.setdefault(int(f[other]), other)
    return with_links(graph, links)


def _by_cp_sat(graph: ComputationGraph, chips: int) -> np.ndarray:
    """[N] int32, a valid partition; raises `InputError` where CP-SAT finds none."""
    from learned_mapping.mcm.rules.cp_sat import Rules

    assignment = Rules(graph, chips, "chain").solve(JOIN_EFFORT, None, 0).assignment
    if assignment is None:
        fault = (
            "constraint programming finds no partition with every fixed op on its chip that leaves"
            " out no chip (Eq. 3)"
        )
        raise InputError(graph.name, "ops", fault)
    return assignment


def with_links(graph: ComputationGraph, links: Sequence[tuple[int, int]]) -> ComputationGraph:
    """The graph with a tensor of 0 bytes from op to op for each link, named by its number."""
    count, tensors, producers = len(links), graph.num_tensors, [op for op, _ in links]
    return dataclasses.replace(
        graph,
        tensor_names=(*graph.tensor_names, *(f"{graph.name} link {i}" for i in range(count))),
        tensor_producer=frozen_array(np.concatenate([graph.tensor_producer, producers]), np.int32),
        tensor_bytes=frozen_array(np.concatenate([graph.tensor_bytes, [0] * count]), np.int64),
        tensor_is_output=frozen_array(
            np.concatenate([graph.tensor_is_output, [False] * count]), bool
        ),
        edge_tensor=frozen_array(
            np.concatenate([graph.edge_tensor, tensors + np.arange(count)]), np.int32
        ),
        edge_consumer=frozen_array(
            np.concatenate([graph.edge_consumer, [op for _, op in links]]), np.int32
        ),
    )
