"""TensorFlow's CostGraphDef in text format, the files of REGAL's released dataset, read and written.

======================================= ===============================================================================
CostGraphDef                            ComputationGraph
======================================= ===============================================================================
``node.name``                           the op's name; its kind is ``op``, since the format has none
``node.compute_cost``                   `op_seconds`, in units of a microsecond: what TensorFlow's cost model fills in
``node.output_info.size``               a tensor ``NAME:PORT`` of that many bytes
``node.input_info``                     an edge from output `preceding_port` of node `preceding_node`
``node.control_input``                  an edge from a tensor ``^NAME`` of 0 bytes
``node.is_final``                       all tensors of the node leave the graph
======================================= ===============================================================================

Absent numbers are 0, as in proto3. Aliases (`alias_input_port`) are not modelled: each output counts with its own size.
Neither are temporary memory, devices and shapes; all are accepted and ignored. REGAL's README gives no unit for
``compute_cost``; only ratios of running times matter there.
"""

from __future__ import annotations

import os
from pathlib import PurePath

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import MAX_BYTES, MAX_OPS, MAX_SECONDS, ComputationGraph, make_graph
from learned_mapping.programs.json_io import read_bytes, write_bytes
from learned_mapping.programs.text_proto import Message, fail, parse_text_proto

SECONDS_PER_UNIT = 1e-6
"""Seconds of one unit of ``compute_cost``."""

SCHEMA = {
    "CostGraphDef": {"node": "Node*", "cost": "AggregatedCost*"},
    "AggregatedCost": {"cost": "float", "dimension": "string"},
    "Node": {
        "name": "string",
        "device": "string",
        "id": "int32",
        "input_info": "InputInfo*",
        "output_info": "OutputInfo*",
        "temporary_memory_size": "int64",
        "persistent_memory_size": "int64",
        "host_temp_memory_size": "int64",
        "device_temp_memory_size": "int64",
        "device_persistent_memory_size": "int64",
        "compute_cost": "int64",
        "compute_time": "int64",
        "memory_time": "int64",
        "is_final": "bool",
        "control_input": "int32*",
        "inaccurate": "bool",
    },
    "InputInfo": {"preceding_node": "int32", "preceding_port": "int32"},
    "OutputInfo": {"size": "int64", "alias_input_port": "int64", "shape": "TensorShapeProto", "dtype": "enum"},
    "TensorShapeProto": {"dim": "Dim*", "unknown_rank": "bool"},
    "Dim": {"size": "int64", "name": "string"},
}


def read_costgraph(path: str | os.PathLike) -> ComputationGraph:
    """Reads a ``.pbtxt`` (or ``.pbtxt.gz``) file; raises `InputError` naming file, line and field."""
    data = read_bytes(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(path, f"byte {error.start}", "not UTF-8 text") from None
    return parse_costgraph(text, name=PurePath(path).name.split(".")[0] or "graph", source=path)


def write_costgraph(path: str | os.PathLike, graph: ComputationGraph) -> None:
    """Writes a graph with running times as text, whole or not at all; see `format_costgraph`."""
    write_bytes(path, format_costgraph(graph).encode("utf-8"))


def parse_costgraph(text: str, *, name: str = "graph", source: object = "costgraph") -> ComputationGraph:
    """The graph that CostGraphDef text describes.

    Raises:
      InputError: the text is malformed, an id is repeated or dangles, a port does not exist, a size or a cost is
        negative, or the nodes form a cycle.
    """
    nodes = parse_text_proto(text, SCHEMA, "CostGraphDef", source).all("node")
    if not nodes:
        raise InputError(source, "node", "the graph has no nodes")
    if len(nodes) > MAX_OPS:
        raise InputError(source, "node", f"{len(nodes)} nodes, at most {MAX_OPS} are supported")
    messages: list[Message] = [node.value for node in nodes]
    op_of_id: dict[int, int] = {}
    op_of_name: dict[str, int] = {}
    names = []
    for op, node in enumerate(messages):
        identity, label = node.one("id", 0), node.one("name", "")
        if not label or not label.isprintable() or len(label) > 1000:
            fail(source, node.line_of("name"), f"{node.path}.name", f"expected a printable name, got {label[:40]!r}")
        for known, key, field in ((op_of_id, identity, "id"), (op_of_name, label, "name")):
            if key in known:
                fail(source, node.line_of(field), f"{node.path}.{field}", f"{key!r} is also node[{known[key]}]'s")
            known[key] = op
        names.append(label)
    tensor_names, producer, sizes, outputs, first_tensor = [], [], [], [], []
    for op, node in enumerate(messages):
        first_tensor.append(len(tensor_names))
        for port, output in enumerate(node.all("output_info")):
            size = output.value.one("size", 0)
            if not 0 <= size <= MAX_BYTES:
                field = f"{output.value.path}.size"
                fail(source, output.value.line_of("size"), field, f"{size} is outside [0, {MAX_BYTES}]")
            tensor_names.append(f"{names[op]}:{port}")
            producer.append(op)
            sizes.append(size)
            outputs.append(node.one("is_final", False))
    control_tensor: dict[int, int] = {}
    edges: list[tuple[int, int]] = []
    for op, node in enumerate(messages):
        for item in node.all("input_info"):
            where, identity = item.value, item.value.one("preceding_node", 0)
            source_op = op_of_id.get(identity)
            if source_op is None:
                field = f"{where.path}.preceding_node"
                fail(source, where.line_of("preceding_node"), field, f"no node has id {identity}")
            ports, port = len(messages[source_op].all("output_info")), where.one("preceding_port", 0)
            if not 0 <= port < ports:
                fail(
                    source, where.line_of("preceding_port"), f"{where.path}.preceding_port",
                    f"node {names[source_op]!r} has {ports} output(s), no port {port}",
                )  # fmt: skip
            edges.append((first_tensor[source_op] + port, op))
        for i, control in enumerate(node.all("control_input")):
            source_op = op_of_id.get(control.value)
            if source_op is None:
                fail(source, control.line, f"{node.path}.control_input[{i}]", f"no node has id {control.value}")
            if source_op not in control_tensor:
                control_tensor[source_op] = len(tensor_names)
                tensor_names.append(f"^{names[source_op]}")
                producer.append(source_op)
                sizes.append(0)
                outputs.append(False)
            edges.append((control_tensor[source_op], op))
    return make_graph(
        name=name,
        op_names=names,
        op_kinds=["op"] * len(names),
        op_flop=np.zeros(len(names)),
        op_seconds=[_seconds(node, source) for node in messages],
        tensor_names=tensor_names,
        tensor_producer=producer,
        tensor_bytes=sizes,
        tensor_is_output=outputs,
        edge_tensor=[t for t, _ in edges],
        edge_consumer=[c for _, c in edges],
        metadata={"format": "CostGraphDef"},
        source=source,
    )


def _seconds(node: Message, source: object) -> float:
    cost = node.one("compute_cost", 0)
    if not 0 <= cost * SECONDS_PER_UNIT <= MAX_SECONDS:
        field = f"{node.path}.compute_cost"
        fail(source, node.line_of("compute_cost"), field, f"{cost} is outside [0, {MAX_SECONDS / SECONDS_PER_UNIT:g}]")
    return cost * SECONDS_PER_UNIT


def format_costgraph(graph: ComputationGraph) -> str:
    """CostGraphDef text of a graph; ids are positions. `parse_costgraph` turns it back into a graph with the same ops,
    edges and sizes.

    Running times are rounded to whole microseconds; kinds, FLOPs and weights have no place in the format. A node is
    final when one of its tensors leaves the graph.

    Raises:
      InputError: the graph has no running times.
    """
    if graph.op_seconds is None:
        raise InputError(
            graph.name, "op_seconds", "CostGraphDef needs running times; derive them with a hardware model"
        )
    tensors_of: list[list[int]] = [[] for _ in range(graph.num_ops)]
    port_of: dict[int, int] = {}
    for tensor, producer in enumerate(graph.tensor_producer.tolist()):
        if _is_control(graph, tensor):
            continue
        port_of[tensor] = len(tensors_of[producer])
        tensors_of[producer].append(tensor)
    used_by: list[list[int]] = [[] for _ in range(graph.num_ops)]
    for tensor, consumer in zip(graph.edge_tensor.tolist(), graph.edge_consumer.tolist()):
        used_by[consumer].append(tensor)
    lines = []
    for op, name in enumerate(graph.op_names):
        lines += ["node {", f"  name: {_quoted(name)}", f"  id: {op}"]
        for tensor in used_by[op]:
            if tensor in port_of:
                source = int(graph.tensor_producer[tensor])
                lines += [
                    "  input_info {",
                    f"    preceding_node: {source}",
                    f"    preceding_port: {port_of[tensor]}",
                    "  }",
                ]
        for tensor in tensors_of[op]:
            lines += ["  output_info {", f"    size: {graph.tensor_bytes[tensor]}", "    alias_input_port: -1", "  }"]
        lines.append(f"  compute_cost: {round(float(graph.op_seconds[op]) / SECONDS_PER_UNIT)}")
        if any(graph.tensor_is_output[tensor] for tensor in tensors_of[op]):
            lines.append("  is_final: true")
        lines += [f"  control_input: {graph.tensor_producer[t]}" for t in used_by[op] if t not in port_of]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _is_control(graph: ComputationGraph, tensor: int) -> bool:
    """Whether a tensor is the 0 bytes that stand for control edges."""
    producer = graph.op_names[graph.tensor_producer[tensor]]
    return graph.tensor_bytes[tensor] == 0 and graph.tensor_names[tensor] == f"^{producer}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
