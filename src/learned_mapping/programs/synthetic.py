"""Seeded generators of programs and graphs: for property tests, scaling studies and paper 3's synthetic set."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph, make_graph
from learned_mapping.programs.program import (
    NO_ALIAS,
    Program,
    Step,
    instruction_latency_table,
    program_of_steps,
    varied_buffers,
)

MEDIAN_SECONDS = 1e-4
"""Median running time of an op."""
MEDIAN_BYTES = 2**20
"""Median size of a tensor."""

Drawn = tuple[list[int], list[int], int]
"""Operands, results, and the alias group of the first operand and the first result."""


class SyntheticMachine(NamedTuple):
    """Constants of the roofline that times synthetic instructions; round numbers of the order of one TPUv4i."""

    peak_flop_per_s: float = 1e14
    hbm_bytes_per_s: float = 6e11
    cmem_bytes_per_s: float = 2.4e12
    overhead_s: float = 5e-7


def random_program(
    rng: np.random.Generator,
    num_buffers: int,
    *,
    parameter_fraction: float = 0.25,
    alias_fraction: float = 0.1,
    alias_chain: float = 0.3,
    max_inputs: int = 4,
    locality: float = 6.0,
    compute_bound: float = 0.2,
    fast_fraction: float = 0.3,
    copy_ratio: float = 1.0,
) -> Program:
    """A valid program of exactly `num_buffers` buffers.

    Instructions read 1 to `max_inputs` tensors and write one, sometimes two. A tensor updated in place is not read
    again. Latencies follow the roofline of `SyntheticMachine`.

    Args:
      num_buffers: B, at least 2.
      parameter_fraction: probability that an operand is a parameter.
      alias_fraction: probability that an instruction updates its first operand in place, which makes an alias group.
      alias_chain: probability that an in-place update of an in-place result joins its group: long groups are what
        dead ends come from.
      max_inputs: operands of an instruction at most; above 8 minus the outputs some buffers are not varied.
      locality: mean distance, in tensors, between a use and the tensor's birth; larger is harder (longer live ranges).
      compute_bound: probability that an instruction gains little or nothing from fast memory.
      fast_fraction: capacity of the fast memory over the peak of live bytes, parameters included, which are alive from
        the start: with the default a greedy rule comes close to the optimum, at 0.1 it does not.
      copy_ratio: seconds to copy every operand once over the seconds the program takes with all in fast memory;
        above 1 the copy engine is scarce.

    Raises:
      InputError: fewer than 2 buffers.
    """
    if num_buffers < 2:
        raise InputError("num_buffers", "", f"{num_buffers}: a program has at least 2 buffers, an operand and a result")
    sizes: list[int] = []
    is_parameter: list[bool] = []
    group_of: list[int] = []  # the alias group of the buffer that wrote the tensor
    alive: list[int] = []  # tensors that may still be read, oldest first
    parameters: list[int] = []
    instructions: list[Drawn] = []

    def new_tensor(parameter: bool, size: int | None = None, group: int = NO_ALIAS) -> int:
        if size is None:
            size = max(512, int(MEDIAN_BYTES * np.exp(rng.standard_normal())) // 512 * 512)
        sizes.append(size)
        is_parameter.append(parameter)
        group_of.append(group)
        (parameters if parameter else alive).append(len(sizes) - 1)
        return len(sizes) - 1

    num_groups, remaining = 0, num_buffers
    while remaining:
        num_outputs = 2 if rng.random() < 0.1 and remaining >= 5 else 1
        num_inputs = min(int(rng.integers(1, max_inputs + 1)), remaining - num_outputs)
        if remaining - num_outputs - num_inputs == 1:  # one buffer cannot be an instruction
            num_inputs += 1
        operands: list[int] = []
        while len(operands) < num_inputs:
            operands.append(_pick_operand(rng, alive, parameters, operands, parameter_fraction, locality, new_tensor))
        group = NO_ALIAS
        if rng.random() < alias_fraction:
            group = group_of[operands[0]]
            if group == NO_ALIAS or rng.random() > alias_chain:
                group, num_groups = num_groups, num_groups + 1
            (parameters if is_parameter[operands[0]] else alive).remove(operands[0])
        results = [new_tensor(False, sizes[operands[0]] if group != NO_ALIAS else None, group)]
        results += [new_tensor(False) for _ in range(num_outputs - 1)]
        instructions.append((operands, results, group))
        remaining -= num_inputs + num_outputs
    return _assemble(rng, sizes, is_parameter, instructions, compute_bound, fast_fraction, copy_ratio)


def _pick_operand(
    rng: np.random.Generator,
    alive: list[int],
    parameters: list[int],
    taken: list[int],
    parameter_fraction: float,
    locality: float,
    new_tensor: Callable[[bool], int],
) -> int:
    """A tensor that is not `taken`: a parameter, old or new, or a recent result."""
    if alive and rng.random() >= parameter_fraction:
        back = min(int(rng.exponential(locality)), len(alive) - 1)
        choice = alive[-1 - back]
        if choice not in taken:
            return choice
    if parameters and rng.random() < 0.3:
        choice = parameters[int(rng.integers(len(parameters)))]
        if choice not in taken:
            return choice
    return new_tensor(True)


def _assemble(
    rng: np.random.Generator,
    sizes: list[int],
    is_parameter: list[bool],
    instructions: list[Drawn],
    compute_bound: float,
    fast_fraction: float,
    copy_ratio: float,
) -> Program:
    machine = SyntheticMachine()
    steps: list[Step] = []
    for t, (operands, results, group) in enumerate(instructions):
        used = operands + results
        touched = [sizes[i] for i in used]
        # Above 1 the arithmetic hides the memory; below the ratio of the bandwidths, 1/4, all bytes count.
        intensity = rng.uniform(0.7, 3.0) if rng.random() < compute_bound else rng.uniform(0.0, 0.4)
        flop = intensity * sum(touched) / machine.hbm_bytes_per_s * machine.peak_flop_per_s
        alias = [group if j in (0, len(operands)) else NO_ALIAS for j in range(len(used))]
        buffers = [(tensor, j >= len(operands), alias[j]) for j, tensor in enumerate(used)]
        table = instruction_latency_table(flop, touched, machine)
        kind = "update" if group != NO_ALIAS else "fusion"
        steps.append(Step(f"instruction.{t}", kind, buffers, varied_buffers(touched), table))
    read = {tensor for operands, _, _ in instructions for tensor in operands}
    leaves = [tensor not in read and not parameter for tensor, parameter in enumerate(is_parameter)]
    supply = sum(float(step.latency_s[-1]) for step in steps)
    operand_bytes = sum(sizes[i] for operands, _, _ in instructions for i in operands)
    program = program_of_steps(
        steps,
        name="synthetic",
        fast_bytes=2**50,
        copy_bytes_per_s=operand_bytes / (copy_ratio * supply),
        tensor_names=[f"{'parameter' if p else 'tensor'}.{i}" for i, p in enumerate(is_parameter)],
        tensor_bytes=sizes,
        tensor_is_parameter=is_parameter,
        tensor_is_output=leaves,
        metadata={"generator": "random_program", "num_buffers": sum(len(step.buffers) for step in steps)},
    )
    return program.with_memory(fast_bytes=max(512, int(fast_fraction * peak_live_bytes(program)) // 512 * 512))


def peak_live_bytes(program: Program) -> int:
    """The largest sum of bytes of tensors alive at one logical time, the fast memory that would hold everything."""
    change = np.zeros(program.num_instructions + 1, np.int64)
    np.add.at(change, program.tensor_live[:, 0], program.tensor_bytes)
    np.add.at(change, program.tensor_live[:, 1] + 1, -program.tensor_bytes)
    return int(np.cumsum(change).max())


def random_graph(rng: np.random.Generator, family: str, num_ops: int, *, name: str | None = None) -> ComputationGraph:
    """A graph of exactly `num_ops` ops, with running times and tensor sizes.

    Times are lognormal around `MEDIAN_SECONDS`, sizes around `MEDIAN_BYTES`; one op in twenty produces two tensors, its
    consumers spread over them.

    Args:
      family: one of `GRAPH_FAMILIES`.
      num_ops: N, at least 1.
      name: the graph's name; by default family and size.

    Raises:
      InputError: unknown family, or no ops.
    """
    if family not in GRAPH_FAMILIES:
        raise InputError("family", "", f"unknown graph family {family!r}, expected one of {', '.join(GRAPH_FAMILIES)}")
    if num_ops < 1:
        raise InputError("num_ops", "", f"{num_ops}: a graph has at least one op")
    predecessors = GRAPH_FAMILIES[family](rng, num_ops)
    tensor_producer, tensor_names, edge_tensor, edge_consumer = [], [], [], []
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
    sizes = np.maximum(4, MEDIAN_BYTES * np.exp(rng.standard_normal(len(tensor_producer)))).astype(np.int64)
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


Predecessors = list[set[int]]
"""For each op the ops it depends on, all with lower indices."""


def _layered(rng: np.random.Generator, n: int) -> Predecessors:
    """Layers of varying width; an op depends on one to three of the layer before, now and then on an older one."""
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


ATTENTION_BLOCK = ((-1,), (-1,), (-1,), (0, 1), (3,), (4, 2), (5,), (6, -1), (7,), (8,), (9,), (10,), (11, 8))
"""One Transformer layer: query, key, value, scores, softmax, context, projection, add, norm, two dense layers with an
activation between them, add. Numbers are positions in the block, -1 is the layer's input."""


def _attention(rng: np.random.Generator, n: int) -> Predecessors:
    """Transformer layers one after another, some with a second attention over a shared memory; a chain fills up."""
    result: Predecessors = [set()]
    memory = 0
    while len(result) + len(ATTENTION_BLOCK) <= n:
        start, entry = len(result), len(result) - 1
        cross = rng.random() < 0.3
        for position, sources in enumerate(ATTENTION_BLOCK):
            own = {entry if s == -1 else start + s for s in sources}
            result.append({memory} if cross and position in (1, 2) else own)
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
