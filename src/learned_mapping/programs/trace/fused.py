"""A graph of instructions from a graph of operations, so that papers 2 and 3 cost what paper 1
costs.

A compiler fuses operations before it runs them: what an instruction keeps to itself never reaches
memory. A graph of unfused operations pays for all of it. The rules are those of `schedule`.
"""

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph, make_graph
from learned_mapping.programs.trace.fusion import fuse
from learned_mapping.programs.trace.schedule import dataflow_of_graph, is_scalar


def fused_graph(graph: ComputationGraph) -> ComputationGraph:
    """The graph whose ops are the instructions that `schedule_graph` makes of this one.

    Inputs stay. Weights stay with the instruction that reads them; where several read them, or
    none, they stay with an op of kind ``input`` that hands them on. An instruction touches what it
    reads of each tensor, and no scalar: these live in registers, and one that computes with nothing
    else takes no time, as an ``input``. All FLOP are kept but those of constants, which their
    readers compute again at no cost.

    Raises:
      InputError: the ops state seconds of their own, which are of what ran; are fixed to chips or
        in groups; or compute nothing.
    """
    _expect_free(graph)
    flow = dataflow_of_graph(graph, graph.op_flop)
    instructions, same_as = fuse(flow)
    results = {same_as(value) for value in flow.outputs if value is not None}
    readers: dict[int, int] = {}
    for instruction in instructions:
        for value in instruction.reads:
            readers[value] = readers.get(value, 0) + 1

    rows: list[tuple[str, str, float, int, int]] = []  # name, kind, FLOP, weights, untouched bytes
    tensors: dict[int, int] = {}  # value -> its producer
    held: set[int] = set()  # weights of one instruction

    def add(
        name: str, kind: str, flop: float, weights: int, untouched: int, writes: list[int]
    ) -> None:
        tensors.update(dict.fromkeys(writes, len(rows)))
        rows.append((name, kind, flop, weights, untouched))

    for op, kind in enumerate(graph.op_kinds):
        if kind == "input" and not graph.op_inputs[op]:
            own = float(graph.op_flop[op]), int(graph.op_weight_bytes[op])
            add(graph.op_names[op], kind, *own, 0, list(graph.op_outputs[op]))
    for value in range(graph.num_tensors, len(flow.values)):  # of weights
        name, _, _, size = flow.values[value]
        if readers.get(value) == 1 and value not in results:
            held.add(value)
        else:
            add(name.removesuffix("/weights"), "input", 0.0, size, 0, [value])
    edges: list[tuple[int, int]] = []
    for instruction in instructions:
        reads, writes = dict(instruction.reads), instruction.writes
        kept = 0  # bytes of what is written that an update in place leaves
        if instruction.in_place is not None and instruction.in_place[0] in reads:
            target, changed = instruction.in_place
            kept, reads[target] = reads[target] - changed, changed
        scalars = [value for value in (*reads, *writes) if is_scalar(flow.values[value])]
        partly = {v: size for v, size in reads.items() if v not in scalars}
        untouched = kept + sum(flow.values[v].bytes - size for v, size in partly.items())
        untouched += sum(flow.values[value].bytes for value in scalars)
        kind = "input" if len(scalars) == len(reads) + len(writes) else instruction.kind
        weights = sum(flow.values[value].bytes for value in reads if value in held)
        edges += [(value, len(rows)) for value in reads if value not in held]
        add(instruction.name, kind, instruction.flop, weights, untouched, writes)
    index = {value: place for place, value in enumerate(tensors)}
    names, kinds, flop, held_bytes, untouched_bytes = zip(*rows)
    return make_graph(
        name=graph.name,
        op_names=names,
        op_kinds=kinds,
        op_flop=flop,
        op_weight_bytes=held_bytes,
        op_untouched_bytes=untouched_bytes,
        tensor_names=[flow.values[value].name for value in tensors],
        tensor_producer=list(tensors.values()),
        tensor_bytes=[flow.values[value].bytes for value in tensors],
        tensor_is_output=[value in results for value in tensors],
        edge_tensor=[index[value] for value, _ in edges],
        edge_consumer=[consumer for _, consumer in edges],
        metadata={**graph.metadata, "fused_ops": graph.num_ops},
        source=graph.name,
    )


def _expect_free(graph: ComputationGraph) -> None:
    """Raises `InputError` where something is said of an op that fusing would lose."""
    said = {
        "seconds": [] if graph.op_seconds is None else [True],
        "chip": [] if graph.op_chip is None else graph.op_chip >= 0,
        "group": [bool(group) for group in graph.op_group or ()],
    }
    for field, stated in said.items():
        if np.any(stated):
            fault = "is said of an op as it stands in the file: nothing is fused"
            raise InputError(graph.name, f"ops[{int(np.argmax(stated))}].{field}", fault)
