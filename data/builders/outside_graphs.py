"""Graphs as other tools write them: their edges, costs drawn by a seed, read through the two
documented formats.

The twenty of `outside_graphs` chose nothing: no network, parameter or use of one was looked at on
  them before.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from learned_mapping.doors.costgraph import parse_costgraph
from learned_mapping.programs.formats import graph_from_json
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import Node

Edges = dict[int, list[int]]  # Op -> the ops it reads.


def side_by_side(*parts: Edges) -> Edges:
    edges: Edges = {}
    for part in parts:
        first = len(edges)
        edges |= {first + op: [first + source for source in read] for op, read in part.items()}
    return edges


def exported(
    edges: Edges, seed: int, *, weights: bool = False, style: str = "flop"
) -> ComputationGraph:
    """The graph of these edges with drawn sizes and costs, through the file format in one of three
    styles."""
    rng, n = np.random.default_rng(seed), len(edges)
    heavy = (n + 1) // 2 if weights else n
    uses: dict[int, list[int]] = {op: [] for op in edges}
    for op, read in edges.items():
        for source in read:
            uses[source].append(op)
    name: Callable[[int], Any] = (
        (lambda op: op) if style == "numbers" else lambda op: f"layer/{op}:0"
    )
    ops, tensors = [], []
    for op in edges:
        cost, weight = float(rng.lognormal(20, 1)), op >= heavy
        entry: dict[str, Any] = {"name": name(op)}
        if style == "flop":
            entry |= {"kind": "parameter" if weight else "Conv2D", "flop": 0 if weight else cost}
        else:
            entry |= {"seconds": 0.0 if weight else cost * 1e-12}
        ops.append(entry)
        size = float(int(rng.lognormal(12, 1)))
        tensors.append(
            {
                "name": f"t{op}",
                "producer": name(op),
                "bytes": size,
                "consumers": [name(v) for v in uses[op]],
            }
        )
    value = {
        "schema": "learned-mapping/graph/1",
        "name": f"foreign {seed}",
        "ops": ops,
        "tensors": tensors,
    }
    return graph_from_json(Node(value, "foreign"))


def cost_graph(edges: Edges, seed: int) -> ComputationGraph:
    """The same as the text of a TensorFlow cost graph."""
    rng = np.random.default_rng(seed)
    nodes = []
    for op, read in edges.items():
        inputs = "".join(
            f" input_info {{ preceding_node: {source} preceding_port: 0 }}" for source in read
        )
        sizes = (
            f"compute_cost: {int(rng.lognormal(5, 1))} output_info {{ size:"
            f" {int(rng.lognormal(12, 1))} }}"
        )
        nodes.append(f'node {{ name: "n{op}" id: {op} {sizes}{inputs} }}\n')
    return parse_costgraph("".join(nodes), name=f"foreign-{seed}")


def chained(block: list[tuple[int, ...]], times: int) -> Edges:
    """A block again and again: each op reads those so many places before it, 0 the op that the
    block begins after."""
    edges: Edges = {0: []}
    for _ in range(times):
        first = len(edges) - 1
        edges |= {
            first + 1 + i: sorted({first + source for source in read})
            for i, read in enumerate(block)
        }
    return edges


ATTENTION = [(0,), (0,), (0,), (1, 2), (4,), (3, 5), (6,), (0, 7), (8,), (9,), (8, 10)]
INCEPTION = [(0,), (0,), (2,), (0,), (4,), (5,), (0,), (7,), (1, 3, 6, 8)]
EXPERTS = [(0,), *[op for k in range(5) for op in ((0, 1), (2 + 2 * k,))], (1, 3, 5, 7, 9, 11)]
DENSE = [(0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 4), (5,)]
"""Blocks for `chained`."""


def recurrent(layers: int, steps: int) -> Edges:
    """A cell for each layer and step reads the cell below and the one before; an output for each
    step."""
    edges: Edges = {}
    for step in range(steps):
        for layer in range(layers):
            op = step * (layers + 1) + layer
            edges[op] = [op - 1] * (layer > 0) + [op - layers - 1] * (step > 0)
        edges[len(edges)] = [len(edges) - 1]
    return edges


def translation(words: int) -> Edges:
    """A chain that reads, and one that writes and looks back at all that was read."""
    edges: Edges = {i: [i - 1] * (i > 0) for i in range(words)}
    for i in range(words):
        op = words + 2 * i
        edges |= {op: [op - 1, *range(words - 1)], op + 1: [op]}
    return edges


def tree(leaves: int) -> Edges:
    edges: Edges = {i: [] for i in range(leaves)}
    level = list(edges)
    while len(level) > 1:
        level = [_join(edges, level[i : i + 2]) for i in range(0, len(level), 2)]
    return edges


def _join(edges: Edges, read: list[int]) -> int:
    edges[len(edges)] = read
    return len(edges) - 1


def butterfly(width: int, levels: int) -> Edges:
    edges: Edges = {i: [] for i in range(width)}
    for level in range(levels):
        first = level * width
        edges |= {
            first + width + i: [first + i, first + (i ^ (1 << level % (width.bit_length() - 1)))]
            for i in range(width)
        }
    return edges


def heads(trunk: int, count: int, length: int) -> Edges:
    """A chain and several that begin at its end."""
    edges: Edges = {i: [i - 1] * (i > 0) for i in range(trunk)}
    for _ in range(count):
        first = len(edges)
        edges |= {first + i: [first + i - 1 if i else trunk - 1] for i in range(length)}
    return edges


def backward(edges: Edges) -> Edges:
    """A training step: for each op, from the last to the first, its gradient, which reads the op
    and those after it."""
    n, uses = len(edges), {op: [v for v, read in edges.items() if op in read] for op in edges}
    return edges | {
        2 * n - 1 - op: [op, *(2 * n - 1 - v for v in uses[op])] for op in reversed(range(n))
    }


def pyramid(levels: int) -> Edges:
    """A chain down and one up again that reads it; an output for each level."""
    down: Edges = {i: [i - 1] * (i > 0) for i in range(2 * levels)}
    for level in reversed(range(levels)):
        up = _join(down, [2 * level + 1, *([len(down) - 2] if level < levels - 1 else [])])
        down[up + 1] = [up]
    return down


def drawn(n: int, seed: int, reach: int = 10) -> Edges:
    """Each op reads up to three of those shortly before it."""
    rng = np.random.default_rng(seed)
    return {
        i: (
            sorted({int(j) for j in rng.integers(max(i - reach, 0), i, rng.integers(1, 4))})
            if i
            else []
        )
        for i in range(n)
    }


def outside_graphs() -> Iterator[ComputationGraph]:
    """Twenty: of fourteen all ops hang together, six have parts; in turn in the JSON format and as
    a cost graph."""
    whole = [
        recurrent(3, 12),
        translation(14),
        chained(ATTENTION, 6),
        chained(INCEPTION, 8),
        chained(EXPERTS, 5),
        chained(DENSE, 9),
        tree(32),
        butterfly(8, 7),
        heads(8, 6, 9),
        backward(chained(ATTENTION, 3)),
        backward(heads(5, 4, 5)),
        pyramid(14),
        drawn(90, 11),
        backward(drawn(50, 12)),
    ]
    parts = [
        side_by_side(*[backward(heads(3, 2, 3))] * 4),
        side_by_side(chained(ATTENTION, 3), chained(ATTENTION, 3)),
        side_by_side(*[heads(4, 1, 4)] * 9),
        side_by_side(recurrent(2, 10), tree(16), *[tree(1)] * 6),
        side_by_side(chained(INCEPTION, 4), pyramid(6), butterfly(4, 4)),
        side_by_side(drawn(45, 13), drawn(30, 14)),
    ]
    for i, edges in enumerate(whole + parts):
        if i % 2:
            yield cost_graph(edges, 400 + i)
        else:
            yield exported(edges, 400 + i, style=("flop", "seconds", "numbers")[i // 2 % 3])
