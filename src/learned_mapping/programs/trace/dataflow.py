"""Dataflow: a JAX function as one flat list of primitive operations. Graphs and programs are both made from it."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
from jax.extend import core as jex

from learned_mapping.errors import InputError
from learned_mapping.programs.trace.primitive_costs import IN_PLACE_UPDATES, bytes_read, nbytes, primitive_flop

DEFAULT_UNROLL_LIMIT = 20_000
"""Operations that unrolling one loop may make."""

WIDE = {"float64", "int64", "uint64", "complex128"}
"""Element types that JAX would halve unless it is asked to keep them."""
INLINED = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "custom_lin": "jaxpr",
}
"""Primitives that only call another function, and the parameter that holds it."""


class Value(NamedTuple):
    """What one operation makes and others use."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int


class Operation(NamedTuple):
    """One primitive."""

    name: str
    """Distinct; the scope it was traced in and the primitive."""
    kind: str
    """The primitive's name."""
    flop: float
    inputs: tuple[int, ...]
    """Values read, distinct; literals left out."""
    read_bytes: tuple[int, ...]
    """Bytes read of each input."""
    outputs: tuple[int, ...]
    in_place: bool = False
    """Whether the first output may overwrite the first input (`dynamic_update_slice`, `scatter`)."""
    update_bytes: int = 0
    """Bytes of the update, when it does."""


@dataclass(frozen=True)
class Dataflow:
    """Operations in an order in which they can run; values are named by their index in `values`."""

    name: str
    values: list[Value]
    operations: list[Operation]
    arguments: list[int]
    """One value per leaf of the function's arguments."""
    argument_leaves: list[list[int]]
    """The leaves of each positional argument."""
    constants: list[int]
    """Arrays the function closes over."""
    outputs: list[int | None]
    """One value per leaf of the result, None for a literal."""

    def arguments_at(self, positions: int | Sequence[int], field: str) -> list[int]:
        """The leaves of the arguments at one position or several; raises `InputError` where there is no such one."""
        wanted = positions if isinstance(positions, Sequence) else [positions]
        for p in wanted:
            if isinstance(p, bool) or not isinstance(p, int) or not 0 <= p < len(self.argument_leaves):
                fault = f"no argument has position {p}: the function takes {len(self.argument_leaves)}"
                raise InputError(self.name, field, fault)
        return [leaf for p in sorted(set(wanted)) for leaf in self.argument_leaves[p]]


def flatten(
    function: Callable, *args: Any, name: str | None = None, unroll_limit: int = DEFAULT_UNROLL_LIMIT
) -> Dataflow:
    """Traces a function of abstract arguments and lays out everything it does as primitives; allocates nothing.

    Nested calls (jit, custom derivatives, rematerialisation) are inlined. A `scan` (and a `fori_loop` with Python
    bounds, which is one) is unrolled: each iteration slices its inputs, and stacked results are concatenated at the
    end. Both branches of a `cond` are laid out, followed by a selection, as under `vmap`: the cost is that of both.
    Any other primitive that holds a function (a sort's comparison, a custom kernel) stays one operation. Operations
    no result depends on are dropped.

    Arguments as in `graph.trace`.

    Raises:
      InputError: the function cannot be traced, a loop is too long to unroll, or its trip count depends on data.
    """
    name = name or getattr(function, "__name__", "function")
    types = {str(leaf.dtype) for leaf in jax.tree_util.tree_leaves(args) if isinstance(leaf, jax.ShapeDtypeStruct)}
    try:
        with jax.enable_x64(True) if types & WIDE else nullcontext():
            closed = jax.make_jaxpr(function)(*args)
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a user's function may even end the interpreter
        text = str(error).strip().split("\n")[0][:300]
        raise InputError(name, "", f"cannot be traced ({type(error).__name__}: {text})") from error
    builder = _Builder(name, unroll_limit)
    invars, argument_leaves = iter(closed.jaxpr.invars), []
    for position, arg in enumerate(args):
        paths = [f"arg{position}{jax.tree_util.keystr(path)}" for path, _ in jax.tree_util.tree_leaves_with_path(arg)]
        argument_leaves.append([builder.value(next(invars).aval, path) for path in paths])
    arguments = [leaf for leaves in argument_leaves for leaf in leaves]
    constants = [
        builder.value(var.aval, f"constant.{i}") if nbytes(var.aval) > 8 else None
        for i, var in enumerate(closed.jaxpr.constvars)
    ]
    outputs = builder.walk(closed.jaxpr, constants, arguments, "")
    flow = Dataflow(
        name=name,
        values=builder.values,
        operations=builder.operations,
        arguments=arguments,
        argument_leaves=argument_leaves,
        constants=[c for c in constants if c is not None] + builder.constants,
        outputs=outputs,
    )
    return without_dead_operations(flow)


def without_dead_operations(flow: Dataflow) -> Dataflow:
    """The same dataflow with only the operations that some result depends on."""
    needed = {v for v in flow.outputs if v is not None}
    kept = []
    for operation in reversed(flow.operations):
        if needed.intersection(operation.outputs):
            needed.update(operation.inputs)
            kept.append(operation)
    return replace(flow, operations=kept[::-1])


class _Builder:
    """Collects values and operations while walking nested jaxprs."""

    def __init__(self, name: str, unroll_limit: int):
        self.name = name
        self.unroll_limit = unroll_limit
        self.values: list[Value] = []
        self.operations: list[Operation] = []
        self.constants: list[int] = []
        self.names: dict[str, int] = {}

    def distinct(self, name: str) -> str:
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return name if count == 0 else self.distinct(f"{name}.{count}")

    def value(self, aval: Any, name: str) -> int:
        shape = tuple(int(d) for d in getattr(aval, "shape", ()))
        self.values.append(Value(name, shape, str(getattr(aval, "dtype", "token")), nbytes(aval)))
        return len(self.values) - 1

    def emit(
        self, kind: str, scope: str, inputs: Sequence[int | None], in_avals: Sequence[Any], out_avals: Sequence[Any],
        params: dict[str, Any],
    ) -> list[int]:  # fmt: skip
        """Appends one operation; returns its outputs."""
        name = self.distinct(f"{scope}/{kind}" if scope else kind)
        outputs = [self.value(a, name if len(out_avals) == 1 else f"{name}:{i}") for i, a in enumerate(out_avals)]
        read: dict[int, int] = {}
        for value, amount in zip(inputs, bytes_read(kind, in_avals, out_avals)):
            if value is not None:
                read[value] = max(read.get(value, 0), amount)
        in_place = kind in IN_PLACE_UPDATES and inputs[0] is not None
        self.operations.append(
            Operation(
                name=name,
                kind=kind,
                flop=primitive_flop(kind, in_avals, out_avals, params),
                inputs=tuple(read),
                read_bytes=tuple(read.values()),
                outputs=tuple(outputs),
                in_place=in_place,
                update_bytes=nbytes(in_avals[IN_PLACE_UPDATES[kind]]) if in_place else 0,
            )
        )
        return outputs

    def walk(
        self, jaxpr: Any, constants: Sequence[int | None], arguments: Sequence[int | None], scope: str
    ) -> list[int | None]:
        """Lays out a jaxpr; returns the values of its results, None for literals."""
        known: dict[Any, int | None] = dict(zip(jaxpr.constvars, constants))
        known.update(zip(jaxpr.invars, arguments))

        def read(atom: Any) -> int | None:
            return None if isinstance(atom, jex.Literal) else known[atom]

        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            stack = str(equation.source_info.name_stack)
            inner = "/".join(part for part in (scope, stack) if part)
            known.update(zip(equation.outvars, self.equation(equation, inputs, inner)))
        return [read(atom) for atom in jaxpr.outvars]

    def equation(self, equation: Any, inputs: list[int | None], scope: str) -> list[int | None]:
        kind, params = equation.primitive.name, equation.params
        if kind in INLINED and INLINED[kind] in params:
            return self.call(params[INLINED[kind]], inputs, scope)
        if kind == "scan":
            return self.scan(equation, inputs, scope)
        if kind == "cond":
            return self.cond(equation, inputs, scope)
        if kind == "while":
            raise InputError(
                self.name,
                f"{scope}/while" if scope else "while",
                "a loop whose trip count depends on data cannot be laid out as a graph: use jax.lax.scan, or "
                "jax.lax.fori_loop with Python integers as bounds",
            )
        in_avals, out_avals = [v.aval for v in equation.invars], [v.aval for v in equation.outvars]
        return list(self.emit(kind, scope, inputs, in_avals, out_avals, params))

    def call(self, function: Any, inputs: Sequence[int | None], scope: str) -> list[int | None]:
        """Inlines a jaxpr, closed or open."""
        if not isinstance(function, jex.ClosedJaxpr):
            return self.walk(function, [], inputs, scope)
        constants: list[int | None] = []
        for var in function.jaxpr.constvars:
            constants.append(self.value(var.aval, self.distinct("constant")) if nbytes(var.aval) > 8 else None)
        self.constants += [c for c in constants if c is not None]
        return self.walk(function.jaxpr, constants, inputs, scope)

    def scan(self, equation: Any, inputs: list[int | None], scope: str) -> list[int | None]:
        params, where = equation.params, f"{scope}/scan" if scope else "scan"
        body, length = params["jaxpr"], int(params["length"])
        size = count_operations(body.jaxpr)
        if length * size > self.unroll_limit:
            raise InputError(
                self.name, where,
                f"unrolling {length} iterations of {size} operations makes {length * size}, above the limit of "
                f"{self.unroll_limit}: shorten the loop or raise the limit (unroll_limit, --unroll-limit)",
            )  # fmt: skip
        first, second = params["num_consts"], params["num_consts"] + params["num_carry"]
        fixed, carry, sequences = inputs[:first], inputs[first:second], inputs[second:]
        sequence_avals = [v.aval for v in equation.invars[second:]]
        element_avals = [v.aval for v in body.jaxpr.invars[second:]]
        result_avals = [v.aval for v in equation.outvars[params["num_carry"] :]]
        stacked: list[list[int | None]] = [[None] * length for _ in result_avals]
        stacked_avals = [v.aval for v in body.jaxpr.outvars[params["num_carry"] :]]
        for step in reversed(range(length)) if params["reverse"] else range(length):
            inside = f"{where}.{step}"
            elements = [
                None if xs is None else self.emit("slice", inside, [xs], [whole], [part], {})[0]
                for xs, whole, part in zip(sequences, sequence_avals, element_avals)
            ]
            results = self.call(body, [*fixed, *carry, *elements], inside)
            carry = results[: params["num_carry"]]
            for row, result in zip(stacked, results[params["num_carry"] :]):
                row[step] = result
        wholes = [
            self.emit("concatenate", where, row, [part] * length, [whole], {})[0]
            for row, part, whole in zip(stacked, stacked_avals, result_avals)
        ]
        return [*carry, *wholes]

    def cond(self, equation: Any, inputs: list[int | None], scope: str) -> list[int | None]:
        index, operands = inputs[0], inputs[1:]
        branches = equation.params["branches"]
        where = f"{scope}/cond" if scope else "cond"
        results = [self.call(b, operands, f"{where}.branch{i}") for i, b in enumerate(branches)]
        chosen: list[int | None] = []
        for options, var in zip(zip(*results), equation.outvars):
            if len(set(options)) == 1:
                chosen.append(options[0])
                continue
            avals = [equation.invars[0].aval] + [var.aval] * len(options)
            chosen += self.emit("select_n", where, [index, *options], avals, [var.aval], {})
        return chosen


def count_operations(jaxpr: Any) -> int:
    """How many operations laying out `jaxpr` makes, nested calls and loops included (an upper bound)."""
    total = 0
    for equation in jaxpr.eqns:
        kind, params = equation.primitive.name, equation.params
        if kind in INLINED and INLINED[kind] in params:
            inner = params[INLINED[kind]]
            total += count_operations(inner.jaxpr if isinstance(inner, jex.ClosedJaxpr) else inner)
        elif kind == "scan":
            sequences = len(equation.invars) - params["num_consts"] - params["num_carry"]
            total += int(params["length"]) * (count_operations(params["jaxpr"].jaxpr) + sequences)
        elif kind == "cond":
            total += sum(count_operations(branch.jaxpr) for branch in params["branches"]) + len(equation.outvars)
        else:
            total += 1
    return total
