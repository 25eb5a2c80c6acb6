"""Seeded generators of graphs: for property tests, scaling studies and paper 3's synthetic set."""

from collections.abc import Callable

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph, make_graph

MEDIAN_SECONDS = 1e-4  # Median running time of an op.
MEDIAN_BYTES = 2**20  # Median size of a tensor.


def random_graph(
    rng: np.random.Generator, family: str, num_ops: int, *, name: str | None = None
) -> ComputationGraph:
    """A graph of exactly `num_ops` ops, with running times and tensor sizes.

    Times are lognormal around `MEDIAN_SECONDS`, sizes around `MEDIAN_BYTES`; one op in twenty
    produces two tensors, its consumers spread over them.

    Args:
      family: one of `GRAPH_FAMILIES`.
      num_ops: N, at least 1.
      name: the graph's name; by default family and size.

    Raises:
      InputError: unknown family, or no ops.
    """
    if family not in GRAPH_FAMILIES:
        raise InputError(
            "family",
            "",
            f"unknown graph family {family!r}, expected one of {', '.join(GRAPH_FAMILIES)}",
        )
    if num_ops < 1:
        raise InputError("num_ops", "", f"{num_ops}: a graph has at least one op")
    predecessors = GRAPH_FAMILIES[family](rng, num_ops)
    tensor_producer: list[int] = []
    tensor_names, edge_tensor, edge_consumer = [], [], []
    tensors_of: list[list[int]] = []
    for op in range(num_ops):
        count = 2 if rng.random() < 0.05 else 1
        tensors_of.append(list(range(len(tensor_producer), len(tensor_producer) + count)))
        tensor_producer += [op] * count
        tensor_names += [f"op.{op}:{port}" for port in range(count)]
        for source in sorted(predecessors[op]):
            edge_tensor.append(int(rng.choice(tensors_of[source])))
            edge_consumer.append(op)
    used = set(edge_tensor)
    seconds = MEDIAN_SECONDS * np.exp(rng.standard_normal(num_ops))
    sizes = np.maximum(4, MEDIAN_BYTES * np.exp(rng.standard_normal(len(tensor_producer)))).astype(
        np.int64
    )
    return make_graph(
        name=name or f"{family}-{num_ops}",
        op_names=[f"op.{i}" for i in range(num_ops)],
        op_kinds=["input" if not p else "merge" if len(p) > 1 else "map" for p in predecessors],
        op_flop=np.round(seconds * 1e12),
        op_weight_bytes=np.where(rng.random(num_ops) < 0.3, rng.integers(1, 2**20, num_ops), 0),
        op_seconds=seconds,
        tensor_names=tensor_names,
        tensor_producer=tensor_producer,
        tensor_bytes=sizes,
        tensor_is_output=[i not in used for i in range(len(tensor_producer))],
        edge_tensor=edge_tensor,
        edge_consumer=edge_consumer,
        metadata={"generator": "random_graph", "family": family},
    )


Predecessors = list[set[int]]  # For each op the ops it depends on, all with lower indices.


def _layered(rng: np.random.Generator, n: int) -> Predecessors:
    """Layers of varying width; an op depends on one to three of the layer before, now and then on
    an older one."""
    layers: list[list[int]] = []
    result: Predecessors = []
    while len(result) < n:
        width = min(int(rng.integers(1, 2 + round(n**0.5))), n - len(result))
        layer = list(range(len(result), len(result) + width))
        for _ in layer:
            sources: set[int] = set()
            if layers:
                count = min(int(rng.integers(1, 4)), len(layers[-1]))
                sources = {int(i) for i in rng.choice(layers[-1], count, replace=False)}
                if rng.random() < 0.1:
                    sources.add(int(rng.integers(layers[-1][-1] + 1)))
            result.append(sources)
        layers.append(layer)
    return result


def _series_parallel(rng: np.random.Generator, n: int) -> Predecessors:
    """Nested sequences and fork-joins."""
    result: Predecessors = []

    def block(size: int, entry: set[int]) -> int:
        """Appends `size` ops that start from `entry`; returns the one op they end in."""
        if size >= 4 and rng.random() < 0.5:
            result.append(set(entry))
            fork, inner = len(result) - 1, size - 2
            branches = int(rng.integers(2, min(5, inner) + 1))
            cuts = np.sort(rng.choice(np.arange(1, inner), branches - 1, replace=False)).tolist()
            ends = {block(high - low, {fork}) for low, high in zip([0, *cuts], [*cuts, inner])}
            result.append(ends)
        elif size >= 2:
            first = int(rng.integers(1, size))
            block(size - first, {block(first, entry)})
        else:
            result.append(set(entry))
        return len(result) - 1

    block(n, set())
    return result


def _towers(rng: np.random.Generator, n: int) -> Predecessors:
    """One input, two to six long parallel chains with few cross links, one merge."""
    if n < 5:
        return [set() if i == 0 else {i - 1} for i in range(n)]
    result: Predecessors = [set()]
    towers = int(rng.integers(2, min(6, n - 2) + 1))
    cuts = np.sort(rng.choice(np.arange(1, n - 2), towers - 1, replace=False)).tolist()
    ends = set()
    for low, high in zip([0, *cuts], [*cuts, n - 2]):
        last = 0
        for _ in range(high - low):
            sources = {last}
            if rng.random() < 0.05:
                sources.add(int(rng.integers(len(result))))
            result.append(sources)
            last = len(result) - 1
        ends.add(last)
    result.append(ends)
    return result


ATTENTION_BLOCK = (
    (-1,),
    (-1,),
    (-1,),
    (0, 1),
    (3,),
    (4, 2),
    (5,),
    (6, -1),
    (7,),
    (8,),
    (9,),
    (10,),
    (11, 8),
)
"""One Transformer layer: query, key, value, scores, softmax, context, projection, add, norm, two
dense layers with an activation between them, add. Numbers are positions in the block, -1 is the
layer's input."""


def _attention(rng: np.random.Generator, n: int) -> Predecessors:
    """Transformer layers one after another, some with a second attention over a shared memory; a
    chain fills up."""
    result: Predecessors = [set()]
    memory = 0
    while len(result) + len(ATTENTION_BLOCK) <= n:
        start, entry = len(result), len(result) - 1
        cross = rng.random() < 0.3
        for position, sources in enumerate(ATTENTION_BLOCK):
            attended = {entry if s == -1 else start + s for s in sources}
            result.append({memory} if cross and position in (1, 2) else attended)
        if rng.random() < 0.2:
            memory = len(result) - 1
    while len(result) < n:
        result.append({len(result) - 1})
    return result


def _random_dag(rng: np.random.Generator, n: int) -> Predecessors:
    """Each op depends on up to three earlier ones, mostly near."""
    result: Predecessors = []
    for i in range(n):
        count = min(i, int(rng.integers(0, 4)))
        result.append({max(0, i - 1 - int(rng.exponential(8.0))) for _ in range(count)})
    return result


GRAPH_FAMILIES: dict[str, Callable[[np.random.Generator, int], Predecessors]] = {
    "layered": _layered,
    "series-parallel": _series_parallel,
    "towers": _towers,
    "attention": _attention,
    "random-dag": _random_dag,
}
"""Generators of op-level dependencies by family name."""
