"""Dataflow: a JAX function as one flat list of primitive operations. Graphs and programs are both
made from it."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from learned_mapping.errors import InputError, is_whole, told
from learned_mapping.programs.trace.loops import in_blocks, trip_count
from learned_mapping.programs.trace.operations import Dataflow, Operation, Value
from learned_mapping.programs.trace.primitive_costs import (
    IN_PLACE_UPDATES,
    MARKS,
    bytes_read,
    nbytes,
)
from learned_mapping.programs.trace.spelled import SPELLED
from learned_mapping.programs.trace.work import called, work_of

DEFAULT_UNROLL_LIMIT = 20_000  # Operations that unrolling one loop may make.
MAX_OPERATIONS = 1_000_000  # Of all loops together, one within another.

WIDE = {"float64", "int64", "uint64", "complex128"}
"""Element types that JAX would halve unless it is asked to keep them."""
SCOPES = frozenset(
    "ReadEffect WriteEffect AccumEffect InternalMutableArrayEffect NamedAxisEffect".split()
)
"""Effects that keep nothing: what is written into a reference is kept where it is read."""


class Cell(NamedTuple):
    """A mutable reference: its place in the builder's `cells`, where its value of the moment is."""

    place: int


Atom = int | Cell | jex.Literal
"""The operand of an equation: a value, a reference, or a scalar that stands in the program's
text."""


def flatten(
    function: Callable,
    *args: Any,
    name: str | None = None,
    unroll_limit: int = DEFAULT_UNROLL_LIMIT,
) -> Dataflow:
    """Traces a function of abstract arguments and lays out everything it does as primitives;
    allocates nothing.

    Nested calls are inlined: whatever holds one function of its own operands and results (jit,
    custom derivatives, rematerialisation, composites, maps over shards, of which all shards count).
    A `scan` (and a `fori_loop` with Python
    bounds, which is one) is unrolled: each iteration slices its inputs, and stacked results are
    concatenated at the end; so is a `while` whose condition counts to a number in the program's
    text, whatever else may end it earlier. Both branches of a `cond` are laid out, followed by a
    selection, as under `vmap`: the cost is that of both. A `pallas_call`, and any other primitive
    that holds functions and has no rule, stays one operation of all the FLOP in them, the kernel's
    once for every point of its grid. A reference (`jax.new_ref`) is the value last written. Marks
    are their operands. Operations that neither a result nor an effect depends on are dropped.

    Arguments as in `graph.trace`.

    Raises:
      InputError: the function cannot be traced, a loop is too long to unroll, or its trip count
        depends on data.
    """
    if name is None:
        with suppress(Exception):  # of another's object
            name = function.__name__
    name = "function" if name is None else name
    closed = closed_jaxpr(function, *args, name=name)
    if not is_whole(unroll_limit):
        raise InputError(name, "unroll_limit", f"expected a whole number, got {told(unroll_limit)}")
    builder = _Builder(name, unroll_limit)
    invars, argument_leaves = iter(closed.jaxpr.invars), []
    static = static_positions(function, args, name)
    for position, arg in enumerate(args):
        arg = () if position in static else arg
        paths = [
            f"arg{position}{jax.tree_util.keystr(path)}"
            for path, _ in jax.tree_util.tree_leaves_with_path(arg)
        ]
        argument_leaves.append([builder.value(next(invars).aval, path) for path in paths])
    arguments = [leaf for leaves in argument_leaves for leaf in leaves]
    constants = [
        builder.constant(var.aval, f"constant.{i}") for i, var in enumerate(closed.jaxpr.constvars)
    ]
    before = list(builder.cells)  # references that the function closes over
    results = builder.walk(closed.jaxpr, constants, arguments, "")
    for index, value in enumerate(before):
        if builder.cells[index] != value and not isinstance(value, jex.Literal):
            aval = builder.cell_avals[index]
            builder.emit("freeze", "", [builder.cells[index]], [aval], [], {}, effect=True)
    return builder.dataflow(arguments, argument_leaves, results)


def largest(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Value -> the largest of its bytes, of (value, bytes) pairs, in the order of their values."""
    most: dict[int, int] = {}
    for value, amount in pairs:
        most[value] = max(most.get(value, 0), amount)
    return most


def widths(args: Sequence[Any]) -> AbstractContextManager:
    """A context in which JAX keeps 64-bit elements where the arguments have some."""
    types = {
        str(leaf.dtype)
        for leaf in jax.tree_util.tree_leaves(args)
        if isinstance(leaf, jax.ShapeDtypeStruct)
    }
    return jax.enable_x64(True) if types & WIDE else nullcontext()


def closed_jaxpr(function: Callable, *args: Any, name: str) -> Any:
    """A function as JAX traces it; raises `InputError` with JAX's reason, or the function's own,
    where it cannot."""
    with as_input_error(name, "cannot be traced"), widths(args):
        return jax.make_jaxpr(function, static_argnums=static_positions(function, args, name))(
            *args
        )


def static_positions(function: Callable, args: Sequence[Any], name: str) -> tuple[int, ...]:
    """Positions of the arguments that a function of `jax.jit` takes as they are, and is traced anew
    for.

    Raises:
      InputError: an abstract array is there.
    """
    numbers = getattr(getattr(function, "_jit_info", None), "static_argnums", ())
    static = tuple(sorted({n % len(args) for n in numbers if -len(args) <= n < len(args)}))
    for position in static:
        if any(
            isinstance(leaf, jax.ShapeDtypeStruct)
            for leaf in jax.tree_util.tree_leaves(args[position])
        ):
            fault = (
                f"argument {position} is static in jax.jit, so it needs a value: bind one with"
                " functools.partial"
            )
            raise InputError(name, "", fault)
    return static


@contextmanager
def as_input_error(source: str, fault: str, field: str = "") -> Iterator[None]:
    """A context that turns what fails within into an `InputError` with the first line of its
    reason."""
    try:
        yield
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a user's function may even end the interpreter
        kind, text = type(error).__name__, str(error).strip().split("\n")[0][:300]
        raise InputError(
            source, field, f"{fault} ({f'{kind}: {text}' if text else kind})"
        ) from error


class _Builder:
    """Collects values and operations while walking nested jaxprs."""

    def __init__(self, name: str, unroll_limit: int):
        self.name = name
        self.unroll_limit = unroll_limit
        self.values: list[Value] = []
        self.operations: list[Operation] = []
        self.constants: list[int] = []
        self.names: dict[str, int] = {}
        self.cells: list[Atom | None] = []
        self.cell_avals: list[Any] = []
        self.donations: list[tuple[tuple[int, ...], tuple[int | None, ...]]] = []
        self.unknown: dict[str, tuple[str, ...]] = {}
        self.texts: dict[int, Any] = {}  # value -> the number in the program's text that it is
        self.counters: set[int] = set()  # of loops, a device's own number, and what is made of them
        self.arrays: dict[int, Atom | None] = {}  # an array that is closed over -> its value
        self.most_rounds = 0  # of a loop that may end earlier
        self.shards = 1  # of the maps that are being walked
        self.in_jit = False

    def dataflow(
        self, arguments: list[int], argument_leaves: list[list[int]], results: Sequence[Atom | None]
    ) -> Dataflow:
        """The dataflow as laid out, as far as some result or effect depends on it."""
        outputs = [v if isinstance(v, int) and v not in self.counters else None for v in results]
        needed, kept = {v for v in outputs if v is not None}, []
        for operation in reversed(self.operations):
            if operation.effect or needed.intersection(operation.outputs):
                needed.update(operation.inputs)
                kept.append(operation)
        unknown = Counter(kind for member in kept for kind in self.unknown.get(member.name, ()))
        return Dataflow(
            self.name, self.values, kept[::-1], arguments, argument_leaves, self.constants, outputs,
            donations=tuple(self.donations), unknown=dict(sorted(unknown.items())),
            rounds=self.most_rounds,
        )  # fmt: skip

    def distinct(self, name: str) -> str:
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return name if count == 0 else self.distinct(f"{name}.{count}")

    def value(self, aval: Any, name: str) -> int:
        shape = tuple(int(d) for d in getattr(aval, "shape", ()))
        size = nbytes(aval) * self.shards
        self.values.append(Value(name, shape, str(getattr(aval, "dtype", "token")), size))
        return len(self.values) - 1

    def array(self, array: Any, aval: Any) -> Atom | None:
        """The value of an array that functions close over, the same however often they are
        called."""
        if id(array) not in self.arrays:
            self.arrays[id(array)] = self.constant(aval, self.distinct("constant"))
        return self.arrays[id(array)]

    def constant(self, aval: Any, name: str) -> Atom | None:
        """A value for an array that the function closes over, a cell for a reference; nothing for a
        scalar."""
        if hasattr(aval, "inner_aval"):
            return self.cell(self.constant(aval.inner_aval, name), aval.inner_aval)
        if nbytes(aval) <= 8:
            return None
        self.constants.append(self.value(aval, name))
        return self.constants[-1]

    def counter(self, aval: Any) -> int:
        """The number of a round or of a device: no operation makes it, and index arithmetic with it
        is none either."""
        self.expect_room("")
        self.counters.add(self.value(aval, "counter"))
        return len(self.values) - 1

    def expect_room(self, scope: str) -> None:
        """Raises `InputError` where loops within loops have no end in sight."""
        if len(self.operations) + len(self.counters) >= MAX_OPERATIONS:
            raise InputError(
                self.name, scope, f"its loops make more than {MAX_OPERATIONS:,} operations"
            )

    def cell(self, value: Atom | None, aval: Any) -> Cell:
        self.cells.append(value)
        self.cell_avals.append(aval)
        return Cell(len(self.cells) - 1)

    def emit(
        self,
        kind: str,
        scope: str,
        inputs: Sequence[Atom | None],
        in_avals: Sequence[Any],
        out_avals: Sequence[Any],
        params: Mapping[str, Any],
        effect: bool = False,
        flop: float | None = None,
    ) -> list[int]:
        """Appends one operation, of this many FLOP where they are counted elsewhere; returns its
        outputs."""
        read_of = {atom for atom in inputs if isinstance(atom, int | Cell)}
        indices = read_of & self.counters
        if kind == "axis_index" or (indices and indices == read_of and not effect):
            if len(out_avals) == 1 and not out_avals[0].shape:
                return [self.counter(out_avals[0])]
        inputs = [None if isinstance(atom, int) and atom in indices else atom for atom in inputs]
        if kind in SPELLED:
            written = SPELLED[kind](
                partial(self.write, scope), inputs, list(in_avals), list(out_avals), params
            )
            if written:
                return written
        self.expect_room(scope)
        name = self.distinct(f"{scope}/{kind}" if scope else kind)
        outputs = [
            self.value(a, name if len(out_avals) == 1 else f"{name}:{i}")
            for i, a in enumerate(out_avals)
        ]
        read: dict[int, int] = {}
        for atom, amount in zip(inputs, bytes_read(kind, in_avals, out_avals)):
            value = self.cells[atom.place] if isinstance(atom, Cell) else atom
            if isinstance(value, int):
                read[value] = max(
                    read.get(value, 0), min(amount * self.shards, self.values[value].bytes)
                )
        in_place = kind in IN_PLACE_UPDATES and isinstance(inputs[0], int)
        flop, unknown = work_of(kind, in_avals, out_avals, params) if flop is None else (flop, ())
        if unknown:
            self.unknown[name] = unknown
        self.operations.append(
            Operation(
                name=name,
                kind=kind,
                flop=flop * self.shards,
                inputs=tuple(read),
                read_bytes=tuple(read.values()),
                outputs=tuple(outputs),
                in_place=in_place,
                update_bytes=(
                    nbytes(in_avals[IN_PLACE_UPDATES[kind]]) * self.shards if in_place else 0
                ),
                effect=effect,
            )
        )
        return outputs

    def write(self, scope: str, kind: str, inputs: Any, in_avals: Any, out_avals: Any) -> list[int]:
        """One operation without parameters."""
        return self.emit(kind, scope, inputs, in_avals, out_avals, {})

    def walk(
        self,
        jaxpr: Any,
        constants: Sequence[Atom | None],
        arguments: Sequence[Atom | None],
        scope: str,
    ) -> list[Atom | None]:
        """Lays out a jaxpr; returns the values of its results, literals as they are."""
        known: dict[Any, Atom | None] = dict(zip(jaxpr.constvars, constants))
        known.update(zip(jaxpr.invars, arguments))

        def read(atom: Any) -> Atom | None:
            if not isinstance(atom, jex.Literal):
                return known[atom]
            if nbytes(atom.aval) <= 8:
                return atom
            return self.array(atom.val, atom.aval)

        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            stack = str(equation.source_info.name_stack)
            inner = "/".join(part for part in (scope, stack) if part)
            known.update(zip(equation.outvars, self.equation(equation, inputs, inner)))
        return [read(atom) for atom in jaxpr.outvars]

    def equation(self, equation: Any, inputs: list[Atom | None], scope: str) -> list[Atom | None]:
        kind, params = equation.primitive.name, equation.params
        if kind in MARKS:
            return inputs[: len(equation.outvars)]
        if kind in REFERENCES:
            return self.reference(equation, inputs, scope)
        if kind in ("scan", "while", "cond", "custom_linear_solve", "qr"):
            return getattr(self, kind.removeprefix("custom_").replace("while", "loop"))(
                equation, inputs, scope
            )
        function = called(equation)
        if function is not None:
            return self.enter(equation, function, inputs, scope)
        in_avals = [getattr(v.aval, "inner_aval", v.aval) for v in equation.invars]
        out_avals = [v.aval for v in equation.outvars]
        effect = any(type(e).__name__ not in SCOPES for e in equation.effects)
        cells = [atom.place for atom in inputs if isinstance(atom, Cell)]  # read or written
        every = [*out_avals, *(self.cell_avals[cell] for cell in cells)]
        outputs = self.emit(kind, scope, inputs, in_avals, every, params, effect=effect)
        for cell, value in zip(cells, outputs[len(out_avals) :]):
            self.cells[cell] = value
        if kind == "convert_element_type" and self.number(inputs[0]) is not None:
            self.texts[outputs[0]] = self.number(inputs[0])
        return list(outputs[: len(out_avals)])

    def number(self, atom: Atom | None) -> Any:
        """The scalar of the program's text that an atom is, or None."""
        value: Any = self.texts.get(atom) if isinstance(atom, int) else None
        if isinstance(atom, jex.Literal):
            value = atom.val
        shape = getattr(value, "shape", ())
        return None if shape else value

    def enter(
        self, equation: Any, function: Any, inputs: list[Atom | None], scope: str
    ) -> list[Atom | None]:
        """Inlines what an equation calls; a map over shards counts for all of them."""
        outermost, shards = not self.in_jit, self.shards
        self.in_jit |= equation.primitive.name in ("jit", "pjit")
        if equation.primitive.name == "shard_map":
            axes = equation.params.get("manual_axes", equation.params.get("newly_manual_axes"))
            mesh = dict(equation.params["mesh"].shape)
            self.shards *= math.prod(
                size for axis, size in mesh.items() if axes is None or axis in axes
            )
        results = self.call(function, inputs, scope)
        self.in_jit, self.shards = not outermost, shards
        donated = [
            v
            for v, is_donated in zip(inputs, equation.params.get("donated_invars", ()))
            if is_donated
        ]
        if outermost and donated:
            values = tuple(v for v in donated if isinstance(v, int))
            self.donations.append(
                (values, tuple(v if isinstance(v, int) else None for v in results))
            )
        return results

    def call(self, function: Any, inputs: Sequence[Atom | None], scope: str) -> list[Atom | None]:
        """Inlines a jaxpr, closed or open."""
        jaxpr = function.jaxpr if isinstance(function, jex.ClosedJaxpr) else function
        arrays = function.consts if isinstance(function, jex.ClosedJaxpr) else jaxpr.constvars
        constants = [self.array(array, var.aval) for array, var in zip(arrays, jaxpr.constvars)]
        return self.walk(jaxpr, constants, inputs, scope)

    def reference(self, equation: Any, inputs: list[Atom | None], scope: str) -> list[Atom | None]:
        """The step on a mutable reference: reading or writing all of it changes hands, a part is an
        operation."""
        kind, params, avals = (
            equation.primitive.name,
            equation.params,
            [v.aval for v in equation.invars],
        )
        if kind == "new_ref":
            return [self.cell(inputs[0], avals[0])]
        if kind in ("empty_ref", "free_ref"):
            return [self.cell(None, v.aval.inner_aval) for v in equation.outvars]
        reference = inputs[0]
        assert isinstance(reference, Cell)
        index = reference.place
        before, whole = self.cells[index], self.cell_avals[index]
        if kind == "freeze":
            return [before]
        touched = equation.outvars[0].aval if kind == "get" else avals[1]
        if math.prod(touched.shape) == math.prod(whole.shape):
            if kind == "swap":
                self.cells[index] = inputs[1]
            elif kind != "get":
                self.cells[index] = self.emit(
                    "add_any", scope, [before, inputs[1]], [whole, whole], [whole], {}
                )[0]
            return [before] if equation.outvars else []
        parts = [before, *inputs[1:]], [whole, *avals[1:]]
        old = [] if kind == "addupdate" else self.emit("get", scope, *parts, [touched], params)
        if kind != "get":
            self.cells[index] = self.emit(kind, scope, *parts, [whole], params)[0]
        return list(old)

    def scan(self, equation: Any, inputs: list[Atom | None], scope: str) -> list[Atom | None]:
        params, where = equation.params, f"{scope}/scan" if scope else "scan"
        unrolled = params["unroll"] != 1 and params["length"]
        if unrolled and not any(isinstance(atom, Cell) for atom in inputs):
            avals = [v.aval for v in equation.invars]
            return self.call(jax.make_jaxpr(in_blocks(params))(*avals), inputs, scope)
        body, length, carried = params["jaxpr"], int(params["length"]), params["num_carry"]
        first, second = params["num_consts"], params["num_consts"] + carried
        fixed, carry, sequences = inputs[:first], inputs[first:second], inputs[second:]
        stacked: list[list[Atom | None]] = [[] for _ in equation.outvars[carried:]]
        for turn in self.rounds(where, length):
            inside = f"{where}.{length - 1 - turn if params['reverse'] else turn}"
            elements = [
                (
                    self.emit("slice", inside, [xs], [whole.aval], [part.aval], {})[0]
                    if isinstance(xs, int)
                    else None
                )
                for xs, whole, part in zip(
                    sequences, equation.invars[second:], body.jaxpr.invars[second:]
                )
            ]
            results = self.call(body, [*fixed, *carry, *elements], inside)
            carry = results[:carried]
            for row, result in zip(stacked, results[carried:]):
                row.append(result)
        for row, y, ys in zip(stacked, body.jaxpr.outvars[carried:], equation.outvars[carried:]):
            ordered = row[::-1] if params["reverse"] else row
            carry += self.emit("concatenate", where, ordered, [y.aval] * length, [ys.aval], {})
        return carry

    def loop(self, equation: Any, inputs: list[Atom | None], scope: str) -> list[Atom | None]:
        """A `while` that counts to a number: as many iterations as it can have, the condition
        before each."""
        params, where = equation.params, f"{scope}/while" if scope else "while"
        first = params["cond_nconsts"]
        second = first + params["body_nconsts"]
        tested, fixed, carry = inputs[:first], inputs[first:second], inputs[second:]
        count, place = trip_count(equation, [self.number(atom) for atom in inputs])
        if count is None:
            raise InputError(
                self.name,
                where,
                "a loop whose trip count depends on data cannot be laid out as a graph: use"
                " jax.lax.scan, or jax.lax.fori_loop with Python integers as bounds",
            )
        if any(e.primitive.name == "and" for e in params["cond_jaxpr"].jaxpr.eqns):
            self.most_rounds = max(self.most_rounds, count)
        counter = equation.outvars[place].aval
        for step in self.rounds(where, count):
            carry[place] = self.counter(counter)
            self.call(params["cond_jaxpr"], [*tested, *carry], f"{where}.{step}/condition")
            carry = self.call(params["body_jaxpr"], [*fixed, *carry], f"{where}.{step}")
        return carry

    def rounds(self, where: str, length: int) -> Iterator[int]:
        """Counts the iterations of a loop; raises `InputError` after the first where all would make
        too many operations."""
        before = len(self.operations)
        for step in range(length):
            yield step
            size = max(len(self.operations) - before, 1)
            if step == 0 and length * size > self.unroll_limit:
                raise InputError(
                    self.name,
                    where,
                    f"unrolling {length} iterations of {size} operations makes {length * size},"
                    f" above the limit of {self.unroll_limit}: shorten the loop or raise the limit"
                    " (unroll_limit, --unroll-limit)",
                )

    def cond(self, equation: Any, inputs: list[Atom | None], scope: str) -> list[Atom | None]:
        index, operands = inputs[0], inputs[1:]
        branches, where = equation.params["branches"], f"{scope}/cond" if scope else "cond"
        platforms = equation.params.get("branches_platforms")
        # what is not a choice of data: the branch for any platform
        if platforms is not None and None in platforms:
            return self.call(branches[platforms.index(None)], operands, scope)
        before, results, written = list(self.cells), [], []
        for i, branch in enumerate(branches):
            self.cells[: len(before)] = before
            results.append(self.call(branch, operands, f"{where}.branch{i}"))
            written.append(self.cells[: len(before)])

        def chosen(options: Sequence[Atom | None], aval: Any) -> Atom | None:
            if (
                len({("text", o.val, o.aval) if isinstance(o, jex.Literal) else o for o in options})
                == 1
            ):
                return options[0]
            avals = [equation.invars[0].aval] + [aval] * len(options)
            return self.emit("select_n", where, [index, *options], avals, [aval], {})[0]

        self.cells[: len(before)] = [chosen(*pair) for pair in zip(zip(*written), self.cell_avals)]
        return [chosen(options, var.aval) for options, var in zip(zip(*results), equation.outvars)]

    def qr(self, equation: Any, inputs: list[Atom | None], scope: str) -> list[Atom | None]:
        """Reflectors and triangle, then the orthogonal factor made of them."""
        matrix = equation.invars[0].aval
        q, r, *pivots = (v.aval for v in equation.outvars)
        *batch, m, n = matrix.shape
        scales = jax.ShapeDtypeStruct((*batch, min(m, n)), matrix.dtype)
        kind = "geqp3" if pivots else "geqrf"
        made = self.emit(kind, scope, inputs, [matrix], [matrix, *pivots, scales], {})
        triangle, *order, last = made
        used = jax.ShapeDtypeStruct((*batch, m, min(m, n)), matrix.dtype)
        columns = triangle
        if m < n:
            columns = self.emit("slice", scope, [triangle], [matrix], [used], {})[0]
        if q.shape != used.shape:
            columns = self.emit("pad", scope, [columns], [used], [q], {})[0]
        if r.shape != matrix.shape:
            triangle = self.emit("slice", scope, [triangle], [matrix], [r], {})[0]
        whole = self.emit("householder_product", scope, [columns, last], [q, scales], [q], {})
        upper = self.call(jax.make_jaxpr(jnp.triu)(r), [triangle], scope)
        return [*whole, *upper, *order]

    def linear_solve(
        self, equation: Any, inputs: list[Atom | None], scope: str
    ) -> list[Atom | None]:
        """The solver it was given; what it is differentiated with costs nothing."""
        lengths, jaxprs = equation.params["const_lengths"], equation.params["jaxprs"]
        start = lengths.matvec + lengths.vecmat
        return self.call(
            jaxprs.solve, [*inputs[start : start + lengths.solve], *inputs[sum(lengths) :]], scope
        )


REFERENCES = frozenset(
    "new_ref empty_ref free_ref freeze get swap addupdate accum_grad_in_ref".split()
)
"""Primitives that make, read and write mutable references."""
