"""A ComputationGraph from any JAX function, without allocating its arrays."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import MAX_BYTES, ComputationGraph, make_graph, without_ops
from learned_mapping.programs.trace.dataflow import DEFAULT_UNROLL_LIMIT, flatten, largest
from learned_mapping.programs.trace.operations import Dataflow, Operation
from learned_mapping.programs.trace.primitive_costs import PARTIAL_READS

PARAMETER_CHAIN = frozenset(
    "convert_element_type reduce_precision reshape squeeze expand_dims broadcast_in_dim transpose"
    " rev slice copy copy_p stop_gradient split".split()
)
"""Primitives that only rearrange or convert: on parameters alone they fold into the op that uses
the result."""

FOLDED_KINDS = PARAMETER_CHAIN | frozenset(
    "iota add sub mul div max min neg eq ne lt le gt ge and or not select_n concatenate pad"
    " integer_pow exp log sqrt rsqrt tanh sin cos floor sign clamp".split()
)
"""Primitives that `fold_sources` may replicate into every consumer."""
FOLDED_FLOP = 1e-5  # Their arithmetic at most, as a share of the graph's.


def trace(
    function: Callable,
    *args: Any,
    name: str | None = None,
    parameters: int | Sequence[int] = (),
    unroll_limit: int = DEFAULT_UNROLL_LIMIT,
) -> ComputationGraph:
    """The computation graph of a JAX function of abstract arguments.

    One op per primitive, nested calls inlined, loops unrolled (`dataflow.flatten` says how). A
    parameter is no op and no tensor: it folds into the ops that use it as `op_weight_bytes`,
    through `PARAMETER_CHAIN`; an op that uses a shared parameter holds it whole, so the graph's sum
    can exceed the model's size. Other arguments that matter to a result become ops of kind
    ``input``. Arrays the function closes over count as parameters. `op_seconds` stays None: a
    hardware model derives it. A slice, a split and a lookup touch what they return, and an update
    in place of what nothing else reads touches what it writes, not the tensor around it
    (`op_untouched_bytes`).

    Args:
      function: any JAX-traceable function.
      *args: pytrees of `jax.ShapeDtypeStruct` (or arrays, of which only shape and type count).
      name: the graph's name, by default the function's.
      parameters: the position of the argument that is a parameter, or several.
      unroll_limit: operations that unrolling one loop may make.

    Raises:
      InputError: the function cannot be traced, a loop cannot be unrolled, nothing is computed, or
        no argument has the position of a parameter.
    """
    flow = flatten(function, *args, name=name, unroll_limit=unroll_limit)
    return fold_sources(graph_of_dataflow(flow, flow.arguments_at(parameters, "parameters")))


def graph_of_dataflow(flow: Dataflow, parameters: Sequence[int]) -> ComputationGraph:
    """The graph of a dataflow of which these values are parameters; see `trace`."""
    # value -> bytes of each parameter
    held = {v: {v: flow.values[v].bytes} for v in [*parameters, *flow.constants]}
    uses = Counter(v for operation in flow.operations for v in operation.inputs)
    outputs = {v for v in flow.outputs if v is not None}
    used = uses.keys() | outputs
    # name, kind, FLOP, bytes of weights, bytes not touched
    ops: list[tuple[str, str, float, int, int]] = []
    tensors: list[tuple[int, int]] = []  # value, producer
    keeps = {*flow.arguments, *flow.outputs, *held}  # what no update may overwrite
    tensor_of: dict[int, int] = {}
    edges: list[tuple[int, int]] = []
    arguments = [v for v in flow.arguments if v in used and v not in held]
    inputs = [Operation(flow.values[v].name, "input", 0.0, (), (), (v,)) for v in arguments]
    for operation in [*inputs, *flow.operations]:
        leaves = largest(pair for value in operation.inputs for pair in held.get(value, {}).items())
        if (
            operation.kind in PARAMETER_CHAIN
            and operation.inputs
            and all(v in held for v in operation.inputs)
        ):
            for value in operation.outputs:
                part = (
                    flow.values[value].bytes if operation.kind in ("slice", "split") else MAX_BYTES
                )
                held[value] = {leaf: min(size, part) for leaf, size in leaves.items()}
            continue
        edges += [(tensor_of[v], len(ops)) for v in operation.inputs if v in tensor_of]
        untouched = 0
        if operation.kind in PARTIAL_READS and operation.inputs:
            whole = held.get(operation.inputs[0])
            size = flow.values[operation.inputs[0]].bytes if whole is None else sum(whole.values())
            untouched = max(size - operation.read_bytes[0], 0)
        elif operation.in_place:
            target, written = operation.inputs[0], operation.outputs[0]
            if uses[target] == 1 and target not in keeps:
                untouched = max(flow.values[target].bytes - operation.update_bytes, 0)
                untouched += max(flow.values[written].bytes - operation.update_bytes, 0)
        for value in operation.outputs:
            if value in used:
                tensor_of[value] = len(tensors)
                tensors.append((value, len(ops)))
        ops.append(
            (operation.name, operation.kind, operation.flop, sum(leaves.values()), untouched)
        )
    if not ops:
        raise InputError(flow.name, "", "the function computes nothing, or nothing but parameters")
    distinct = used.intersection(parameters)
    names, kinds, flop, weights, untouched_bytes = zip(*ops)
    return make_graph(
        name=flow.name,
        op_names=names,
        op_kinds=kinds,
        op_flop=flop,
        op_weight_bytes=weights,
        op_untouched_bytes=untouched_bytes,
        tensor_names=[flow.values[v].name for v, _ in tensors],
        tensor_producer=[op for _, op in tensors],
        tensor_bytes=[flow.values[v].bytes for v, _ in tensors],
        tensor_is_output=[v in outputs for v, _ in tensors],
        edge_tensor=[t for t, _ in edges],
        edge_consumer=[c for _, c in edges],
        metadata={
            "generator": "trace",
            "jax": jax.__version__,
            "parameter_bytes": sum(flow.values[v].bytes for v in distinct),
            "parameters": sum(int(np.prod(flow.values[v].shape, dtype=np.int64)) for v in distinct),
            **flow.facts,
        },
        source=flow.name,
    )


def fold_sources(graph: ComputationGraph) -> ComputationGraph:
    """Folds cheap ops that depend on no input (constants, iotas, masks built from them) into every
    op that uses them.

    An op folds when its kind is in `FOLDED_KINDS`, every tensor it uses comes from a folded op,
    none of its tensors leaves the graph, and its arithmetic with all that is folded into it is at
    most `FOLDED_FLOP` of the graph's. Each consumer recomputes it: FLOPs, weights and running time
    are added there. What is folded costs no memory and no transfer.
    """
    limit, all_weights = FOLDED_FLOP * float(graph.op_flop.sum()), int(graph.op_weight_bytes.sum())
    kept_alive = set(graph.tensor_producer[graph.tensor_is_output].tolist())
    given = np.zeros(graph.num_ops) if graph.op_seconds is None else graph.op_seconds
    # In Python's numbers: what is shared counts once a path, and nothing holds more weights than
    # there are.
    flop, weights, seconds = (
        column.tolist() for column in (graph.op_flop, graph.op_weight_bytes, given)
    )
    folded = np.zeros(graph.num_ops, bool)
    for op in graph.topological_order.tolist():
        producers = graph.op_producers[op]
        for total in (flop, weights, seconds):
            total[op] += sum(total[p] for p in producers if folded[p])
        weights[op] = min(weights[op], all_weights)
        folded[op] = (
            graph.op_kinds[op] in FOLDED_KINDS
            and op not in kept_alive
            and flop[op] <= limit
            and all(folded[p] for p in producers)
        )
    if not folded.any() or folded.all():
        return graph
    columns = {
        "op_flop": np.array(flop),
        "op_weight_bytes": np.array(weights),
        "op_seconds": None if graph.op_seconds is None else np.array(seconds),
    }
    return without_ops(graph, folded, {"folded_sources": int(folded.sum())}, **columns)
