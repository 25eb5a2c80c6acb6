"""The file of a graph: ``learned-mapping/graph/1``."""

from __future__ import annotations

import os
from typing import Any

from learned_mapping.programs.graph import (
    MAX_BYTES,
    MAX_FLOP,
    MAX_OPS,
    MAX_SECONDS,
    ComputationGraph,
    check_distinct,
    make_graph,
)
from learned_mapping.programs.json_io import Node, expect_schema, plain_number, read_json, write_json


def read_graph(path: str | os.PathLike) -> ComputationGraph:
    """Reads a graph file; raises `InputError` naming file and field."""
    return graph_from_json(read_json(path))


def write_graph(path: str | os.PathLike, graph: ComputationGraph) -> None:
    """Writes a graph file, whole or not at all."""
    write_json(path, graph_to_json(graph))


def graph_to_json(graph: ComputationGraph) -> dict[str, Any]:
    """The JSON object of a graph; `graph_from_json` turns it back into an equal one."""
    ops = []
    for i, (name, kind) in enumerate(zip(graph.op_names, graph.op_kinds)):
        op: dict[str, Any] = {"name": name, "kind": kind, "flop": plain_number(graph.op_flop[i])}
        if graph.op_weight_bytes[i]:
            op["weight_bytes"] = int(graph.op_weight_bytes[i])
        if graph.op_seconds is not None:
            op["seconds"] = plain_number(graph.op_seconds[i])
        ops.append(op)
    tensors = []
    for i, name in enumerate(graph.tensor_names):
        tensor: dict[str, Any] = {
            "name": name,
            "producer": graph.op_names[graph.tensor_producer[i]],
            "bytes": int(graph.tensor_bytes[i]),
            "consumers": [graph.op_names[c] for c in graph.consumers(i)],
        }
        if graph.tensor_is_output[i]:
            tensor["output"] = True
        tensors.append(tensor)
    result = {"schema": "learned-mapping/graph/1", "name": graph.name, "ops": ops, "tensors": tensors}
    if graph.metadata:
        result["metadata"] = dict(graph.metadata)
    return result


def graph_from_json(node: Node) -> ComputationGraph:
    """The graph a JSON value describes; raises `InputError` naming file and field."""
    expect_schema(node, "graph")
    top = node.object(required=("schema", "name", "ops", "tensors"), optional=("metadata",))
    ops = [op.object(("name", "kind", "flop"), ("weight_bytes", "seconds")) for op in top["ops"].array(MAX_OPS)]
    names = [op["name"].string() for op in ops]
    check_distinct(node.source, "ops", names)
    index = {name: i for i, name in enumerate(names)}
    timed = [i for i, op in enumerate(ops) if "seconds" in op]
    if timed and len(timed) < len(ops):
        missing = min(set(range(len(ops))) - set(timed))
        top["ops"].fail(f"ops[{missing}] has no 'seconds' while ops[{timed[0]}] has: give all or none")

    def op_index(ref: Node) -> int:
        name = ref.string()
        if name not in index:
            ref.fail(f"no op is named {name!r}")
        return index[name]

    tensor_names, producer, sizes, outputs, edge_tensor, edge_consumer = [], [], [], [], [], []
    for i, item in enumerate(top["tensors"].array(MAX_OPS * 8)):
        tensor = item.object(("name", "producer", "bytes", "consumers"), ("output",))
        tensor_names.append(tensor["name"].string())
        producer.append(op_index(tensor["producer"]))
        sizes.append(tensor["bytes"].integer(0, MAX_BYTES))
        outputs.append("output" in tensor and tensor["output"].boolean())
        consumers = set()
        for ref in tensor["consumers"].array(MAX_OPS):
            consumer = op_index(ref)
            if consumer in consumers:
                ref.fail(f"consumer {ref.value!r} is listed twice")
            consumers.add(consumer)
            edge_tensor.append(i)
            edge_consumer.append(consumer)
    return make_graph(
        name=top["name"].string(),
        op_names=names,
        op_kinds=[op["kind"].string() for op in ops],
        op_flop=[op["flop"].number(0, MAX_FLOP) for op in ops],
        op_weight_bytes=[op["weight_bytes"].integer(0, MAX_BYTES) if "weight_bytes" in op else 0 for op in ops],
        op_seconds=[op["seconds"].number(0, MAX_SECONDS) for op in ops] if timed else None,
        tensor_names=tensor_names,
        tensor_producer=producer,
        tensor_bytes=sizes,
        tensor_is_output=outputs,
        edge_tensor=edge_tensor,
        edge_consumer=edge_consumer,
        metadata=top["metadata"].metadata() if "metadata" in top else {},
        source=node.source,
    )
