"""A scheduled Program from a JAX function or a graph: fuse, order, alias, time.

The rules, in the order in which they apply, follow what XLA does to a program before it assigns
memory, simplified:

1. *Views.* Reshapes and copies make no instruction: their result is their operand.
2. *Recomputed.* Constants, iotas and broadcasts make no instruction: whoever reads them reads their
   operand instead.
3. *Fusion.* Going backwards through the program, an operation joins the instruction of its
   consumers when they are all in one instruction and it is element-wise (or a transpose, slice,
   pad, concatenation, conversion); a matrix product, convolution, reduction or other heavy
   operation joins when its consumer is element-wise on the same number of elements and the
   instruction holds no other heavy operation. So every instruction has at most one heavy operation.
4. *Aliases.* An update in place makes an alias group of its operand and its result: a slice update
   or scatter whose operand is not read later, and an instruction that reads a donated argument and
   writes the result that takes its place. All other readers of a donated argument come first.
5. *Order.* Program order, an instruction standing where its heavy operation stood; updates of
   donated arguments run as soon as they can.
6. *Latency.* The roofline of `program.instruction_latency_table` over the bytes each instruction
   touches.

Scalars (one element, or at most 8 bytes) live in registers and are no buffers. Sizes are rounded up
to `ALLOCATION_BYTES`. Arguments are in slow memory before the program starts, so all of them, data
as well as parameters, are `tensor_is_parameter`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np

from learned_mapping.errors import InputError, told
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.program import (
    NO_ALIAS,
    Program,
    Step,
    instruction_latency_table,
    program_of_steps,
    varied_buffers,
)
from learned_mapping.programs.trace.dataflow import DEFAULT_UNROLL_LIMIT, flatten
from learned_mapping.programs.trace.fusion import fuse, order_instructions
from learned_mapping.programs.trace.operations import Dataflow, Operation, Value
from learned_mapping.programs.trace.primitive_costs import IN_PLACE_UPDATES

ALLOCATION_BYTES = 512  # Granularity of buffer sizes.
RATES = ("cmem_bytes", "copy_bytes_per_s", "hbm_bytes_per_s", "cmem_bytes_per_s", "peak_flop_per_s")
"""Parameters of a machine that a program cannot do without."""


def schedule(
    function: Callable,
    *args: Any,
    machine: Any,
    name: str | None = None,
    donated: int | Sequence[int] = (),
    parameters: int | Sequence[int] = (),
    unroll_limit: int = DEFAULT_UNROLL_LIMIT,
) -> Program:
    """The scheduled program of a JAX function of abstract arguments.

    Args:
      function, args, name, parameters, unroll_limit: as in `graph.trace`.
      machine: where it runs: an object with ``cmem_bytes``, ``copy_bytes_per_s``,
        ``hbm_bytes_per_s``, ``cmem_bytes_per_s``, ``peak_flop_per_s`` and ``overhead_s``, such as
        `hardware.memory_hierarchy.MemoryHierarchy`.
      donated: positions of arguments that results may overwrite, as in
        ``jax.jit(donate_argnums=...)``; where none is named, what the function's own outermost
        calls of ``jax.jit`` donate, whatever they are wrapped in.

    Raises:
      InputError: the function cannot be traced or a loop cannot be unrolled, or no buffer is left.
    """
    flow = flatten(function, *args, name=name, unroll_limit=unroll_limit)
    flow.arguments_at(parameters, "parameters")  # complains of what names nothing
    leaves = flow.arguments_at(donated, "donated")
    calls = [(leaves, flow.outputs)] if leaves else flow.donations
    return schedule_dataflow(
        flow, machine, pairs=[pair for call in calls for pair in _donation_pairs(flow, *call)]
    )


def schedule_graph(graph: ComputationGraph, machine: Any) -> Program:
    """The scheduled program of a graph: as `schedule`, each op's weights becoming one parameter
    tensor.

    A graph does not say which of its inputs may be overwritten, so alias groups are of updates of
    what it makes itself; nor does it say what is a scalar, so a tensor of at most 8 bytes counts as
    one. Where it has running times, they stand for the time of the arithmetic.

    Raises:
      InputError: no buffer is left.
    """
    seconds = graph.op_seconds
    flop = graph.op_flop if seconds is None else seconds * machine.peak_flop_per_s
    hint = (
        "; an op without inputs is a constant unless its kind is input, and a result has output:"
        " true"
    )
    return schedule_dataflow(dataflow_of_graph(graph, flop), machine, hint=hint)


def dataflow_of_graph(graph: ComputationGraph, flop: np.ndarray) -> Dataflow:
    """The dataflow of a graph whose ops have this arithmetic, [N] FLOP; an op's weights are an
    argument of the name ``OP/weights``."""
    tensors = zip(graph.tensor_names, graph.tensor_bytes.tolist())
    values = [Value(name, () if size <= 8 else (size,), "uint8", size) for name, size in tensors]
    inputs, outputs = [list(tensors) for tensors in graph.op_inputs], graph.op_outputs
    arguments: list[int] = []
    operations = []
    for op in graph.topological_order.tolist():
        if graph.op_kinds[op] == "input" and not inputs[op]:
            arguments += outputs[op]
            continue
        weight = int(graph.op_weight_bytes[op])
        if weight:
            arguments.append(len(values))
            inputs[op].append(len(values))
            values.append(Value(f"{graph.op_names[op]}/weights", (weight,), "uint8", weight))
        read, changed = [values[v].bytes for v in inputs[op]], 0
        if graph.op_untouched_bytes is not None and read:
            largest, untouched = int(np.argmax(read)), int(graph.op_untouched_bytes[op])
            written = [values[v].bytes for v in outputs[op]]
            if graph.op_kinds[op] in IN_PLACE_UPDATES and untouched > read[largest] == sum(written):
                changed = read[largest] - untouched // 2
                inputs[op].insert(0, inputs[op].pop(largest))
                read.insert(0, read.pop(largest))
            else:
                read[largest] = max(read[largest] - untouched, 0)
        elif graph.op_kinds[op] in ("gather", "slice", "dynamic_slice") and read:
            read[0] = min(read[0], sum(values[v].bytes for v in outputs[op]))
        operations.append(
            Operation(
                graph.op_names[op],
                graph.op_kinds[op],
                float(flop[op]),
                tuple(inputs[op]),
                tuple(read),
                outputs[op],
                in_place=changed > 0,
                update_bytes=changed,
            )
        )
    return Dataflow(
        name=graph.name,
        values=values,
        operations=operations,
        arguments=arguments,
        argument_leaves=[arguments],
        constants=[],
        outputs=[*np.flatnonzero(graph.tensor_is_output).tolist()],
    )


def _donation_pairs(
    flow: Dataflow, leaves: Sequence[int], results: Sequence[int | None]
) -> list[tuple[int, int]]:
    """(argument value, result value) pairs, as JAX makes them: each result in turn takes the first
    donated argument of its shape and type that is left; an argument that nothing uses is not there.

    Not all of them are updates in place. A result that is itself an argument, or comes twice, takes
    what it takes and is no pair: nothing writes it. Neither is an argument that is a result too:
    what replaced it would be a copy's work. XLA goes further where memory merely has the same size.
    """
    used = {v for operation in flow.operations for v in operation.inputs} | set(flow.outputs)
    waiting = [leaf for leaf in leaves if leaf in used]
    pairs: dict[int, int] = {}
    for out in results:
        if out is None:
            continue
        kind = flow.values[out][1:3]
        leaf = next((leaf for leaf in waiting if flow.values[leaf][1:3] == kind), None)
        if leaf is None:
            continue
        waiting.remove(leaf)
        if out not in flow.arguments and leaf not in flow.outputs:
            pairs.setdefault(out, leaf)
    return [(leaf, out) for out, leaf in pairs.items()]


def schedule_dataflow(
    flow: Dataflow, machine: Any, pairs: Sequence[tuple[int, int]] = (), hint: str = ""
) -> Program:
    """The program of a dataflow; `pairs` (argument, result) of values may share memory; `hint` ends
    a complaint."""
    for field in RATES:
        value = None
        with suppress(Exception):  # of another's object
            value = getattr(machine, field, None)
        # The type of all real numbers knows no order.
        if not isinstance(value, Real) or not 0 < value < np.inf:  # type: ignore[operator]
            raise InputError("machine", field, f"must be above 0 and finite, got {told(value)}")
    instructions, same_as = fuse(flow)
    paired = {same_as(argument): same_as(result) for argument, result in pairs}
    instructions, updates = order_instructions(instructions, paired)
    argument_of = {result: argument for argument, result in updates}
    last_read = {v: t for t, instruction in enumerate(instructions) for v in instruction.reads}
    results = {same_as(v) for v in flow.outputs if v is not None}
    held = {same_as(v) for v in [*flow.arguments, *flow.constants]}
    tensor_of: dict[int, int] = {}
    steps: list[Step] = []
    num_groups = 0
    for instruction in instructions:
        reads = {v: b for v, b in instruction.reads.items() if not is_scalar(flow.values[v])}
        writes = {
            v: flow.values[v].bytes for v in instruction.writes if not is_scalar(flow.values[v])
        }
        if not reads and not writes:
            continue
        pair = next(((argument_of[v], v) for v in writes if argument_of.get(v) in reads), None)
        if pair is None and instruction.in_place is not None:
            target, written = instruction.in_place[0], next(iter(writes), None)
            lasts = (
                target in results or target in held or last_read.get(target) != instruction.position
            )
            if target in reads and written is not None and not lasts:
                if flow.values[target].bytes == flow.values[written].bytes:
                    pair = (target, written)
        if (
            pair is not None
            and instruction.in_place is not None
            and pair[0] == instruction.in_place[0]
        ):
            reads[pair[0]] = writes[pair[1]] = instruction.in_place[1]
        buffers = []
        for value, is_output in [*((v, False) for v in reads), *((v, True) for v in writes)]:
            group = num_groups if pair is not None and value == pair[is_output] else NO_ALIAS
            buffers.append((tensor_of.setdefault(value, len(tensor_of)), is_output, group))
        num_groups += pair is not None
        touched = [*reads.values(), *writes.values()]
        table = instruction_latency_table(instruction.flop, touched, machine)
        steps.append(
            Step(instruction.name, instruction.kind, buffers, varied_buffers(touched), table)
        )
    if not steps:
        raise InputError(
            flow.name,
            "",
            "no instruction has buffers: only scalars and constants are computed, or"
            f" nothing{hint}",
        )
    tensors = list(tensor_of)
    return program_of_steps(
        steps,
        name=flow.name,
        fast_bytes=int(machine.cmem_bytes),
        copy_bytes_per_s=float(machine.copy_bytes_per_s),
        tensor_names=[flow.values[v].name for v in tensors],
        tensor_bytes=[
            -(-flow.values[v].bytes // ALLOCATION_BYTES) * ALLOCATION_BYTES for v in tensors
        ],
        tensor_is_parameter=[v in held for v in tensors],
        tensor_is_output=[v in results and v not in held for v in tensors],
        metadata={"generator": "schedule", "operations": len(flow.operations), **flow.facts},
        source=flow.name,
    )


def is_scalar(value: Value) -> bool:
    """Whether a value lives in registers."""
    return value.bytes <= 8 or all(d == 1 for d in value.shape)
