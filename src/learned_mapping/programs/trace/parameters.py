"""The arguments of a model that look like parameters, where nobody says which are."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.trace.graph import PARAMETER_CHAIN, fold_sources, graph_of_dataflow
from learned_mapping.programs.trace.operations import Dataflow, Operation
from learned_mapping.programs.trace.primitive_costs import ELEMENT_WISE

PRODUCTS = frozenset(
    "dot_general ragged_dot_general conv_general_dilated scaled_dot scaled_matmul".split()
)
TABLES = frozenset("gather dynamic_slice".split())
WEIGHING = PRODUCTS | TABLES
DIMENSIONS = 4  # Of what a product reads as it is: keys and values of attention, not weights.
MANY = 10**6  # More than other ops that follow each other.


def graph_with_parameters(
    flow: Dataflow, parameters: Sequence[int] | None, weights: Sequence[int] = ()
) -> ComputationGraph:
    """The graph of a dataflow that holds the values `weights` and whose arguments at the positions
    `parameters` are weights too. Where nobody says which, and it holds none, they are guessed, and
    the graph's metadata say so."""
    facts: dict[str, Any] = {}
    chosen = [] if parameters is None else flow.arguments_at(parameters, "--parameters")
    if parameters is None and not weights:
        chosen = [flow.arguments[place] for place in guessed(flow)]
        size = sum(flow.values[v].bytes for v in chosen)
        facts = {"guessed_parameters": {"arguments": len(chosen), "bytes": size}} if chosen else {}
    graph = fold_sources(graph_of_dataflow(flow, [*weights, *chosen]))
    return replace(graph, metadata={**graph.metadata, **facts})


def guessed(flow: Dataflow) -> list[int]:
    """Positions of the arguments that look like parameters.

    An argument does that holds no whole numbers and that only products (of fewer than `DIMENSIONS`
    dimensions, where they are no convolutions), lookups (as the table) and element-wise ops read
    whose result is larger than it, such as biases; or of its own shape where
    it is a vector, as of normalisations, or where a result of the module has that shape too, as
    what an optimiser updates. Before it may be converted, reshaped or sliced. Data come in where
    the most products and lookups follow each other, then other ops: whole numbers there, or else
    the argument that is the first operand. Without a product or a lookup there are none.
    """
    readers: dict[int, list[Operation]] = defaultdict(list)
    for operation in flow.operations:
        for value in operation.inputs:
            readers[value].append(operation)
    made = {flow.values[v].shape for v in flow.outputs if v is not None}
    ends = {v: list(_ends(v, readers)) for v in flow.arguments}
    found = [
        v
        for v in flow.arguments
        if _is_float(flow, v) and ends[v] and all(_is_read(flow, v, made, *end) for end in ends[v])
    ]
    weighing = {o.kind for v in found for _, o in ends[v]} & WEIGHING
    depth = _depths(flow)
    most = max((depth[v] for v in flow.arguments), default=0)
    first = [v for v in flow.arguments if depth[v] == most]
    if first and all(v in found for v in first):
        data = max(first, key=lambda v: _leads(ends[v]))
        found.remove(data)
    places = {value: place for place, value in enumerate(flow.arguments)}
    return [places[v] for v in found] if weighing else []


def _leads(ends: Sequence[tuple[int, Operation]]) -> tuple[bool, bool]:
    """Whether a value is the first operand of a product or a lookup, and of any op."""
    leading = [o.kind in WEIGHING for held, o in ends if o.inputs[0] == held]
    return any(leading), bool(leading)


def _is_float(flow: Dataflow, value: int) -> bool:
    return flow.values[value].dtype.startswith(("float", "bfloat", "complex"))


def _depths(flow: Dataflow) -> dict[int, int]:
    """Value -> the products and lookups, times `MANY`, and the other ops that compute, one after
    the other, which depend on it."""
    depth: dict[int, int] = defaultdict(int)
    for operation in reversed(flow.operations):
        below = max((depth[v] for v in operation.outputs), default=0)
        below += operation.kind not in PARAMETER_CHAIN
        below += MANY * (operation.kind in WEIGHING)
        for value in operation.inputs:
            depth[value] = max(depth[value], below)
    return depth


def _ends(value: int, readers: dict[int, list[Operation]]) -> Iterator[tuple[int, Operation]]:
    """What of a value, rearranged or converted or as it is, which operation reads."""
    waiting = [value]
    while waiting:
        held = waiting.pop()
        for operation in readers[held]:
            if operation.kind in PARAMETER_CHAIN:
                waiting += operation.outputs
            else:
                yield held, operation


def _is_read(
    flow: Dataflow, value: int, made: set[tuple[int, ...]], held: int, operation: Operation
) -> bool:
    """Whether an operation reads an argument, as `held`, as a parameter is read."""
    if operation.kind in PRODUCTS:
        convolved = operation.kind == "conv_general_dilated"
        return convolved or len(flow.values[held].shape) < DIMENSIONS
    if operation.kind in TABLES:
        return operation.inputs[0] == held
    if operation.kind in ELEMENT_WISE:
        own = flow.values[value]
        larger = any(flow.values[v].bytes > own.bytes for v in operation.outputs)
        vector = sum(size > 1 for size in own.shape) <= 1
        return larger or vector or own.shape in made
    return False
