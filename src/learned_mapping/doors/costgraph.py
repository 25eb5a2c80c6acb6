"""TensorFlow's CostGraphDef in text format, the files of REGAL's released dataset.

========================= ======================================================================
CostGraphDef              ComputationGraph
========================= ======================================================================
``node.name``             the op's name; its kind is ``op``, since the format has none
``node.compute_cost``     `op_seconds`, in microseconds: what TensorFlow's cost model fills in
``node.output_info.size`` a tensor ``NAME:PORT`` of that many bytes
``node.input_info``       an edge from output `preceding_port` of node `preceding_node`; where
                          that node states no such output, it orders and carries nothing: a
                          tensor ``NAME:PORT`` of 0 bytes, counted in the metadata as
                          ``ports_without_output``
``node.control_input``    an edge from a tensor ``^NAME`` of 0 bytes
``node.is_final``         all tensors of the node leave the graph
========================= ======================================================================

Absent numbers are 0, as in proto3. A size of -1, TensorFlow's *not known*, is 0 bytes and counted
in the metadata as ``sizes_not_known``. A run's metadata, which holds the graph as ``cost_graph``,
is read as that graph. Aliases (`alias_input_port`) are not modelled: each output
counts with its own size. Neither are temporary memory, devices and shapes; all are accepted and
ignored. REGAL's README gives no unit for ``compute_cost``; only ratios of running times matter
there.
"""

import functools
import os
import re
from pathlib import PurePath
from typing import Any, NoReturn

import numpy as np
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message_factory import GetMessages

from learned_mapping.errors import InputError, shown
from learned_mapping.programs.graph import (
    MAX_BYTES,
    MAX_OPS,
    MAX_SECONDS,
    ComputationGraph,
    make_graph,
)
from learned_mapping.programs.json_io import MAX_NAME, read_bytes, utf8_text

SECONDS_PER_UNIT = 1e-6  # Seconds of one unit of ``compute_cost``.

MAX_FIELDS = 500_000  # Most braces, colons and commas: the parser takes seconds for so many.
MAX_PIECES = 2_000_000  # Most line ends, quotes and escapes: each takes the parser memory.

SCHEMA = {
    "RunMetadata": "cost_graph:CostGraphDef",
    "CostGraphDef": "node:Node* cost:AggregatedCost*",
    "AggregatedCost": "cost:float dimension:string",
    "Node": (
        "name:string device:string id:int32 input_info:InputInfo* output_info:OutputInfo*"
        " temporary_memory_size:int64 persistent_memory_size:int64 host_temp_memory_size:int64"
        " device_temp_memory_size:int64 device_persistent_memory_size:int64 compute_cost:int64"
        " compute_time:int64 memory_time:int64 is_final:bool control_input:int32* inaccurate:bool"
    ),
    "InputInfo": "preceding_node:int32 preceding_port:int32",
    "OutputInfo": "size:int64 alias_input_port:int64 shape:TensorShapeProto dtype:DataType",
    "TensorShapeProto": "dim:Dim* unknown_rank:bool",
    "Dim": "size:int64 name:string",
}
"""Message -> its fields and their types (``cost_graph.proto`` of TensorFlow); a star marks a
repeated field."""
DATA_TYPES = (
    "INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32"
    " BFLOAT16 QINT16 QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64 FLOAT8_E5M2"
    " FLOAT8_E4M3FN FLOAT8_E4M3FNUZ FLOAT8_E4M3B11FNUZ FLOAT8_E5M2FNUZ INT4 UINT4 INT2 UINT2"
    " FLOAT4_E2M1FN"
)


@functools.cache
def _message_types() -> Any:
    """The class of CostGraphDef messages, whose fields have presence: one given twice is
    noticed."""
    file = FileDescriptorProto(name="cost_graph.proto", syntax="proto2")
    kinds = file.enum_type.add(name="DataType")
    for number, name in enumerate(DATA_TYPES.split()):
        kinds.value.add(name=f"DT_{name}", number=number)
        if number:
            kinds.value.add(name=f"DT_{name}_REF", number=number + 100)
    for message, fields in SCHEMA.items():
        entry = file.message_type.add(name=message)
        for number, field in enumerate(fields.split(), 1):
            name, kind = field.rstrip("*").split(":")
            label = (
                FieldDescriptorProto.LABEL_REPEATED
                if field.endswith("*")
                else FieldDescriptorProto.LABEL_OPTIONAL
            )
            added = entry.field.add(name=name, number=number, label=label)
            if kind[0].isupper():
                added.type_name = kind
            else:
                added.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    return GetMessages([file])


def read_costgraph(path: str | os.PathLike) -> ComputationGraph:
    """Reads a ``.pbtxt`` (or ``.pbtxt.gz``) file; raises `InputError` naming file, node and field,
    or line."""
    text = utf8_text(read_bytes(path), path)
    return parse_costgraph(text, name=PurePath(path).name.split(".")[0] or "graph", source=path)


def parse_costgraph(
    text: str, *, name: str = "graph", source: object = "costgraph"
) -> ComputationGraph:
    """The graph that CostGraphDef text describes.

    Raises:
      InputError: the text is malformed, an id is repeated or dangles, a port is negative, a size or
        a cost is negative, or the nodes form a cycle.
    """
    fields = sum(text.count(character) for character in "{<:,")
    pieces = sum(text.count(character) for character in "\n\"'\\")
    for count, most, what in (
        (fields, MAX_FIELDS, "fields"),
        (pieces, MAX_PIECES, "lines, quotes and escapes"),
    ):
        if count > most:
            fault = (
                f"up to {count} {what}, at most {most} are supported: larger graphs come as"
                " learned-mapping/graph/1"
            )
            raise InputError(source, "", fault)
    # What TensorFlow writes of a run holds the graph among other things.
    of_run = re.match(r"\s*(cost_graph|step_stats|partition_graphs|function_graphs)\b", text)
    message = _message_types()["RunMetadata" if of_run else "CostGraphDef"]()
    whole = message.cost_graph if of_run else message
    try:
        text_format.Parse(text, message, allow_unknown_field=bool(of_run))
    except (text_format.ParseError, UnicodeError) as error:
        line = getattr(error, "GetLine", lambda: None)() or text.count("\n") + 1
        place = f"node[{len(whole.node) - 1}]" if whole.node else "CostGraphDef"
        fault = re.sub(r"^\d+:\d+ : ", "", str(error))[-200:]  # what was expected comes last
        raise InputError(source, f"line {line}, {place}", fault) from None
    # Ops.
    nodes = whole.node

    def fail(op: int, field: str, fault: str) -> NoReturn:
        raise InputError(source, f"node[{op}].{field}", f"{fault} (node {shown(nodes[op].name)!r})")

    if not nodes:
        raise InputError(source, "node", "the graph has no nodes")
    if len(nodes) > MAX_OPS:
        raise InputError(source, "node", f"{len(nodes)} nodes, at most {MAX_OPS} are supported")
    op_of_id: dict[int, int] = {}
    op_of_name: dict[str, int] = {}
    for op, node in enumerate(nodes):
        if not node.name or not node.name.isprintable() or len(node.name) > MAX_NAME - 6:
            # A tensor is named after its op and its port.
            fail(
                op,
                "name",
                f"expected 1 to {MAX_NAME - 6} printable characters, got {shown(node.name)!r}",
            )
        for known, key, field in ((op_of_id, node.id, "id"), (op_of_name, node.name, "name")):
            if key in known:
                fail(op, field, f"{shown(key)!r} is also node[{known[key]}]'s")
            known[key] = op
        if not 0 <= node.compute_cost * SECONDS_PER_UNIT <= MAX_SECONDS:
            fault = f"{node.compute_cost} is outside [0, {MAX_SECONDS / SECONDS_PER_UNIT:g}]"
            fail(op, "compute_cost", fault)
    # Tensors: outputs that are stated, and those that someone reads.
    tensors: list[tuple[str, int, int, bool]] = []  # name, producer, bytes, is output
    tensor_of: dict[tuple[int, int | str], int] = {}
    """Tensors by producer and port, or the control edges of a producer."""

    def tensor(op: int, port: int | str, size: int = 0, final: bool = False) -> int:
        if (op, port) not in tensor_of:
            tensor_of[op, port] = len(tensors)
            name = f"^{nodes[op].name}" if port == "control" else f"{nodes[op].name}:{port}"
            tensors.append((name, op, size, final))
        return tensor_of[op, port]

    def op_of(op: int, field: str, identity: int) -> int:
        if identity not in op_of_id:
            fail(op, field, f"no node has id {identity}")
        return op_of_id[identity]

    unknown = 0
    for op, node in enumerate(nodes):
        for port, output in enumerate(node.output_info):
            if not -1 <= output.size <= MAX_BYTES:
                fail(op, f"output_info[{port}].size", f"{output.size} is outside [-1, {MAX_BYTES}]")
            unknown += output.size == -1
            tensor(op, port, max(output.size, 0), node.is_final)
    edges: list[tuple[int, int]] = []
    for op, node in enumerate(nodes):
        for i, item in enumerate(node.input_info):
            maker = op_of(op, f"input_info[{i}].preceding_node", item.preceding_node)
            if item.preceding_port < 0:
                fail(op, f"input_info[{i}].preceding_port", f"{item.preceding_port} is below 0")
            edges.append((tensor(maker, item.preceding_port), op))
        for i, identity in enumerate(node.control_input):
            edges.append((tensor(op_of(op, f"control_input[{i}]", identity), "control"), op))
    names, producer, sizes, outputs = zip(*tensors) if tensors else ((),) * 4
    controls = sum(port == "control" for _, port in tensor_of)
    unstated = len(tensors) - controls - sum(len(node.output_info) for node in nodes)
    counted = {"ports_without_output": unstated, "sizes_not_known": unknown}
    return make_graph(
        name=name,
        op_names=[node.name for node in nodes],
        op_kinds=["op"] * len(nodes),
        op_flop=np.zeros(len(nodes)),
        op_seconds=[node.compute_cost * SECONDS_PER_UNIT for node in nodes],
        tensor_names=names,
        tensor_producer=producer,
        tensor_bytes=sizes,
        tensor_is_output=outputs,
        edge_tensor=[t for t, _ in edges],
        edge_consumer=[c for _, c in edges],
        metadata={"format": "CostGraphDef"} | {name: n for name, n in counted.items() if n},
        source=source,
    )
