"""The files of graphs and programs: ``learned-mapping/graph/1`` and ``learned-mapping/program/1``.

Solutions have their files beside the rules they obey: `mmap.mapping`, `mcm.partition`,
  `regal.schedule`.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from learned_mapping.errors import InputError, expect_type, shown
from learned_mapping.programs.graph import (
    MAX_BYTES,
    MAX_CHIPS,
    MAX_FLOP,
    MAX_OPS,
    MAX_SECONDS,
    MAX_TOTAL_BYTES,
    ComputationGraph,
    check_distinct,
    make_graph,
)
from learned_mapping.programs.json_io import (
    Node,
    expect_schema,
    plain_number,
    read_json,
    write_json,
)
from learned_mapping.programs.program import (
    MAX_BUFFERS,
    MAX_INSTRUCTIONS,
    MAX_VARIED,
    NO_ALIAS,
    Program,
    Step,
    program_of_steps,
)


def read_graph(path: str | os.PathLike) -> ComputationGraph:
    """Reads a graph file; raises `InputError` naming file and field."""
    return graph_from_json(read_json(path))


def write_graph(path: str | os.PathLike, graph: ComputationGraph) -> None:
    """Writes a graph file, whole or not at all."""
    expect_type(graph, ComputationGraph, "graph")
    write_json(path, graph_to_json(graph))


def read_program(path: str | os.PathLike) -> Program:
    """Reads a program file; raises `InputError` naming file and field."""
    return program_from_json(read_json(path))


def write_program(path: str | os.PathLike, program: Program) -> None:
    """Writes a program file, whole or not at all."""
    expect_type(program, Program, "program")
    write_json(path, program_to_json(program))


def graph_to_json(graph: ComputationGraph) -> dict[str, Any]:
    """The JSON object of a graph; `graph_from_json` turns it back into an equal one."""
    ops = []
    for i, (name, kind) in enumerate(zip(graph.op_names, graph.op_kinds)):
        op: dict[str, Any] = {"name": name, "kind": kind, "flop": plain_number(graph.op_flop[i])}
        if graph.op_weight_bytes[i]:
            op["weight_bytes"] = int(graph.op_weight_bytes[i])
        if graph.op_untouched_bytes is not None and graph.op_untouched_bytes[i]:
            op["untouched_bytes"] = int(graph.op_untouched_bytes[i])
        if graph.op_seconds is not None:
            op["seconds"] = plain_number(graph.op_seconds[i])
        if graph.op_chip is not None and graph.op_chip[i] >= 0:
            op["chip"] = int(graph.op_chip[i])
        if graph.op_group is not None and graph.op_group[i]:
            op["group"] = graph.op_group[i]
        ops.append(op)
    tensors = []
    for i, name in enumerate(graph.tensor_names):
        producer, consumers = (
            graph.op_names[graph.tensor_producer[i]],
            [graph.op_names[c] for c in graph.consumers(i)],
        )
        tensor = {
            "name": name,
            "producer": producer,
            "bytes": int(graph.tensor_bytes[i]),
            "consumers": consumers,
        }
        tensors.append(tensor | ({"output": True} if graph.tensor_is_output[i] else {}))
    result = {
        "schema": "learned-mapping/graph/1",
        "name": graph.name,
        "ops": ops,
        "tensors": tensors,
    }
    return result | ({"metadata": dict(graph.metadata)} if graph.metadata else {})


def program_to_json(program: Program) -> dict[str, Any]:
    """The JSON object of a program; `program_from_json` turns it back into an equal one."""
    tensors = []
    for i, name in enumerate(program.tensor_names):
        tensor: dict[str, Any] = {"name": name, "bytes": int(program.tensor_bytes[i])}
        if program.tensor_is_parameter[i]:
            tensor["parameter"] = True
        if program.tensor_is_output[i]:
            tensor["output"] = True
        tensors.append(tensor)
    instructions = []
    for t, (name, kind) in enumerate(zip(program.instruction_names, program.instruction_kinds)):
        buffers, varied = [], {}
        for j, b in enumerate(range(program.buffer_offsets[t], program.buffer_offsets[t + 1])):
            role = "output" if program.buffer_is_output[b] else "input"
            buffer: dict[str, Any] = {
                "tensor": program.tensor_names[program.buffer_tensor[b]],
                "role": role,
            }
            if program.buffer_alias[b] != NO_ALIAS:
                buffer["alias"] = int(program.buffer_alias[b])
            if program.buffer_bit[b] >= 0:
                varied[int(program.buffer_bit[b])] = j
            buffers.append(buffer)
        table = program.latency_s[program.latency_offsets[t] : program.latency_offsets[t + 1]]
        tables = {
            "varied": [varied[bit] for bit in range(len(varied))],
            "latency_s": [plain_number(v) for v in table],
        }
        instructions.append({"name": name, "kind": kind, "buffers": buffers, **tables})
    memory = {"fast_bytes": program.fast_bytes, "copy_bytes_per_s": program.copy_bytes_per_s}
    result = {
        "schema": "learned-mapping/program/1",
        "name": program.name,
        "memory": memory,
        "tensors": tensors,
        "instructions": instructions,
    }
    return result | ({"metadata": dict(program.metadata)} if program.metadata else {})


def graph_from_json(node: Node) -> ComputationGraph:
    """The graph a JSON value describes; raises `InputError` naming file and field."""
    expect_schema(node, "graph")
    top = node.object(required=("schema", "name", "ops", "tensors"), optional=("metadata",))
    # Ops.
    names: list[str] = []
    kinds, flop, weights, seconds, untouched, chips, groups = [], [], [], [], [], [], []
    for item in top["ops"].elements(MAX_OPS):
        op = item.object(
            ("name",),
            ("kind", "flop", "weight_bytes", "seconds", "untouched_bytes", "chip", "group"),
        )
        if "seconds" in op:
            seconds.append(op["seconds"].number(0, MAX_SECONDS))
        if len(seconds) not in (0, len(names) + 1):
            fault = (
                f"ops[{len(names)}] has {'' if 'seconds' in op else 'no '}'seconds', others do not"
                " agree"
            )
            top["ops"].fail(f"{fault}: give all or none")
        for field in ("kind", "flop"):
            if field not in op and not seconds:
                item.fail(f"missing field {field!r}, which ops without 'seconds' need")
        names.append(op["name"].name())
        kinds.append(op["kind"].string() if "kind" in op else "op")
        flop.append(op["flop"].number(0, MAX_FLOP) if "flop" in op else 0.0)
        weights.append(op["weight_bytes"].integer(0, MAX_BYTES) if "weight_bytes" in op else 0)
        untouched.append(
            op["untouched_bytes"].integer(0, MAX_TOTAL_BYTES) if "untouched_bytes" in op else 0
        )
        chips.append(op["chip"].integer(0, MAX_CHIPS - 1) if "chip" in op else -1)
        groups.append(op["group"].name() if "group" in op else "")
    check_distinct(node.source, "ops", names)
    index = {name: i for i, name in enumerate(names)}

    # Tensors.
    tensor_names, producer, sizes, outputs, edge_tensor, edge_consumer = [], [], [], [], [], []
    for i, item in enumerate(top["tensors"].elements(MAX_OPS * 8)):
        tensor = item.object(("name", "producer", "bytes", "consumers"), ("output",))
        tensor_names.append(tensor["name"].name())
        producer.append(index_of(tensor["producer"], "op", index))
        sizes.append(tensor["bytes"].integer(0, MAX_BYTES))
        outputs.append("output" in tensor and tensor["output"].boolean())
        consumers = set()
        for ref in tensor["consumers"].elements(MAX_OPS):
            consumer = index_of(ref, "op", index)
            if consumer in consumers:
                ref.fail(f"consumer {shown(ref.value)!r} is listed twice")
            consumers.add(consumer)
            edge_tensor.append(i)
            edge_consumer.append(consumer)
    return make_graph(
        name=top["name"].name(),
        op_names=names,
        op_kinds=kinds,
        op_flop=flop,
        op_weight_bytes=weights,
        op_untouched_bytes=untouched,
        op_seconds=seconds or None,
        op_chip=chips,
        op_group=groups,
        tensor_names=tensor_names,
        tensor_producer=producer,
        tensor_bytes=sizes,
        tensor_is_output=outputs,
        edge_tensor=edge_tensor,
        edge_consumer=edge_consumer,
        metadata=top["metadata"].metadata() if "metadata" in top else {},
        source=node.source,
    )


def program_from_json(node: Node) -> Program:
    """The program a JSON value describes; raises `InputError` naming file and field."""
    expect_schema(node, "program")
    top = node.object(("schema", "name", "memory", "tensors", "instructions"), ("metadata",))
    memory = top["memory"].object(("fast_bytes", "copy_bytes_per_s"))
    names, sizes, parameter, output = [], [], [], []
    for item in top["tensors"].elements(MAX_BUFFERS):
        tensor = item.object(("name", "bytes"), ("parameter", "output"))
        names.append(tensor["name"].name())
        sizes.append(tensor["bytes"].integer(0, MAX_BYTES))
        parameter.append("parameter" in tensor and tensor["parameter"].boolean())
        output.append("output" in tensor and tensor["output"].boolean())
    check_distinct(node.source, "tensors", names)
    index = {name: i for i, name in enumerate(names)}
    steps = []
    groups: dict[int, int] = {}
    for item in top["instructions"].elements(MAX_INSTRUCTIONS):
        instruction = item.object(("name", "kind", "buffers", "latency_s"), ("varied",))
        name, kind = instruction["name"].name(), instruction["kind"].string()
        entries, buffers = instruction["buffers"].elements(10_000), []
        varied = _varied(instruction, len(entries))
        for entry in entries:
            buffer = entry.object(("tensor", "role"), ("alias",))
            place = index_of(buffer["tensor"], "tensor", index)
            is_output = buffer["role"].choice("input", "output") == "output"
            group = buffer["alias"].integer(0, 2**31) if "alias" in buffer else None
            buffers.append(
                (
                    place,
                    is_output,
                    NO_ALIAS if group is None else groups.setdefault(group, len(groups)),
                )
            )
        table = [
            v.number(0, MAX_SECONDS) for v in instruction["latency_s"].elements(1 << MAX_VARIED)
        ]
        if len(table) != 1 << len(varied):
            fault = (
                f"{len(table)} entries for {len(varied)} varied buffers, expected"
                f" {1 << len(varied)}"
            )
            instruction["latency_s"].fail(fault)
        steps.append(Step(name, kind, *_merged(buffers, varied, table)))
    return program_of_steps(
        steps,
        name=top["name"].name(),
        fast_bytes=memory["fast_bytes"].integer(0, MAX_BYTES),
        copy_bytes_per_s=memory["copy_bytes_per_s"].number(1e-9, 1e18),
        tensor_names=names,
        tensor_bytes=sizes,
        tensor_is_parameter=parameter,
        tensor_is_output=output,
        metadata=top["metadata"].metadata() if "metadata" in top else {},
        source=node.source,
    )


def placed_ops(
    top: Mapping[str, Node], graph: ComputationGraph, field: str, limit: int
) -> np.ndarray:
    """[N] the number below `limit` that the file of a solution of `graph` gives each op, by name,
    in `field`.

    Raises:
      InputError: the file is of another graph, or an op is unknown or missing.
    """
    name, digest = top["graph"].name(), top["digest"]
    if digest.string() != graph.digest:
        fault = f"made for graph {name!r} with another digest than that of {graph.name!r}"
        raise InputError(digest.source, "instance", fault)
    index = {op: i for i, op in enumerate(graph.op_names)}
    placed = np.full(graph.num_ops, -1)
    for op, number in top[field].mapping(MAX_OPS).items():
        if op not in index:
            number.fail("the graph has no such op")
        placed[index[op]] = number.integer(0, limit - 1)
    missing = np.flatnonzero(placed < 0)
    if len(missing):
        top[field].fail(f"op {graph.op_names[missing[0]]!r} is missing")
    return placed


def index_of(node: Node, kind: str, index: dict[str, int]) -> int:
    name = node.name()
    if name not in index:
        node.fail(f"no {kind} is named {shown(name)!r}")
    return index[name]


def _merged(
    buffers: list[tuple[int, bool, int]], varied: list[int], table: list[float]
) -> tuple[list[tuple[int, bool, int]], list[int], list[float]]:
    """An instruction that reads a tensor more than once reads it once: both uses are in fast
    memory, or neither is."""
    first: dict[tuple[int, bool, int], int] = {}
    kept = [i for i, buffer in enumerate(buffers) if buffer[1] or first.setdefault(buffer, i) == i]
    if len(kept) == len(buffers):
        return buffers, varied, table
    place = {position: i for i, position in enumerate(kept)}
    position_of = [place[i if buffer[1] else first[buffer]] for i, buffer in enumerate(buffers)]
    left = list(dict.fromkeys(position_of[position] for position in varied))
    bits = [left.index(position_of[position]) for position in varied]
    entries = [
        sum(1 << k for k, bit in enumerate(bits) if subset >> bit & 1)
        for subset in range(1 << len(left))
    ]
    return [buffers[i] for i in kept], left, [table[entry] for entry in entries]


def _varied(instruction: dict[str, Node], num_buffers: int) -> list[int]:
    """Positions in the instruction, bit by bit; all, in order, without a ``varied`` field."""
    if "varied" not in instruction:
        if num_buffers > MAX_VARIED:
            fault = f"{num_buffers} buffers need a 'varied' field of at most {MAX_VARIED} positions"
            instruction["buffers"].fail(fault)
        return list(range(num_buffers))
    varied: list[int] = []
    for item in instruction["varied"].elements(MAX_VARIED):
        if not num_buffers:
            item.fail("the instruction has no buffers")
        position = item.integer(0, num_buffers - 1)
        if position in varied:
            item.fail(f"position {position} is listed twice")
        varied.append(position)
    return varied
