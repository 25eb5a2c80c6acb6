"""A module of StableHLO, laid out flat as the primitives that its operations stand for.

What a writer laid out is put together again where the file says so: a composite is the primitive of
its name, and operations that lie together at one place which names a primitive, as JAX's exports
do, are that primitive. Loops that count to a number in the file are their body, as often.
"""

import math
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from learned_mapping.doors.layouts import (
    GIVEN,
    RUN,
    eliminated,
    laid_out_series,
    steps,
)
from learned_mapping.doors.stablehlo_costs import Costs
from learned_mapping.doors.stablehlo_loops import Loops
from learned_mapping.doors.stablehlo_ops import (
    bordered,
    is_call_of,
    is_splat,
    laid_out,
    maker_of,
    number_in,
    user_of,
)
from learned_mapping.errors import InputError, shown
from learned_mapping.programs.trace.dataflow import _Builder
from learned_mapping.programs.trace.names import (
    LAID_OUT,
    MARKED_CALLS,
    OPERATIONS,
    called_primitive,
    laid_out_function,
)
from learned_mapping.programs.trace.primitive_costs import (
    ELEMENT_WISE,
    RULES,
)

MAX_OPERATIONS = 200_000
MAX_CALLS = 100  # Functions within one another.
DIALECTS = ("stablehlo", "chlo", "func", "mhlo", "sdy")
FLOATS = {"f32": "float32", "f64": "float64", "bf16": "bfloat16", "f16": "float16"}
GROUPED = [
    SimpleNamespace(
        dot_dimension_numbers=(((axis,), (axis,)), ((), ())), lhs_ragged_dimensions=(0,)
    )
    for axis in (1, 0)
]
"""A product of rows in groups, each with a matrix of its own, and one whose groups divide what is
contracted."""


class Scope(NamedTuple):
    """The names around an operation, and how many functions it lies in."""

    path: str
    depth: int


class Reader(Loops, Costs):
    """The reading of one module.

    Args:
      name: of the file, for errors.
      ir, dialect: the binding's modules.
      unroll_limit: operations that one loop may make.
    """

    def __init__(self, name: str, ir: Any, dialect: Any, unroll_limit: int):
        super().__init__(name, ir, dialect)
        self.builder = _Builder(name, unroll_limit)
        self.wholes: dict[Any, dict[int, tuple[str, int]]] = {}  # Of a block's first operation.

    def read(self, module: Any) -> Any:
        """The `Dataflow` of the function ``main``, or of the only public one."""
        functions = [op for op in module.body.operations if op.operation.name == "func.func"]
        if not functions:
            self.fail("holds no function")
        self.functions = {op.attributes["sym_name"].value: op for op in functions}
        self.meshes = {
            op.attributes["sym_name"].value: str(op.attributes["mesh"])
            for op in module.body.operations
            if op.operation.name == "sdy.mesh"
        }
        partitions = module.operation.attributes.get("mhlo.num_partitions")
        self.partitions = getattr(partitions, "value", 1)
        hidden = '"private"'
        public = [op for op in functions if str(op.attributes.get("sym_visibility")) != hidden]
        public = public or functions
        if len(public) != 1 and "main" not in self.functions:
            self.fail(f"no function is named main, and {len(public)} may be meant, expected one")
        main = self.functions.get("main", public[0])
        if not main.regions[0].blocks:
            self.fail("its function has no body")
        block = main.regions[0].blocks[0]
        arguments = [
            self.builder.value(self.aval(a), f"arg{i}") for i, a in enumerate(block.arguments)
        ]
        known = dict(zip(block.arguments, arguments))
        outputs = self.walk(block, known, Scope("", 0))
        return self.builder.dataflow(arguments, [[v] for v in arguments], outputs)

    def walk(self, block: Any, known: dict[Any, int | None], scope: Scope) -> list[int | None]:
        """Lays out a block; returns the values it ends with."""
        if scope.depth > MAX_CALLS:
            self.fail(f"functions call one another more than {MAX_CALLS} deep")
        operations = [op.operation for op in block.operations]
        wholes = self.wholes.get(operations[0])
        if wholes is None:
            wholes = laid_out(operations)
            wholes |= self.series(operations, wholes)
            self.wholes[operations[0]] = wholes
        at = 0
        while at < len(operations):
            op = operations[at]
            dialect, _, kind = op.name.partition(".")
            match = re.search(r":(\d+):\d+\)?$", str(op.location))
            self.place = f"line {match[1]}" if match else op.name
            if kind == "return":
                return [known.get(v) for v in op.operands]
            if len(self.builder.operations) > MAX_OPERATIONS:
                self.fail(f"more than {MAX_OPERATIONS:,} operations, calls inlined")
            if dialect not in DIALECTS:
                self.fail(f"{op.name}: operations of StableHLO are read, lower the module to it")
            try:
                if at in wholes:
                    at = self.whole(operations[at : wholes[at][1]], wholes[at][0], known, scope, at)
                    continue
                inputs = [known.get(v) for v in op.operands]
                known.update(
                    zip(op.results, self.operation(op, dialect, kind, inputs, known, scope))
                )
            except (InputError, MemoryError, RecursionError):
                raise
            except Exception as error:
                # of the binding, which does not know all that the parser does
                self.fail(f"{op.name} cannot be read ({type(error).__name__}: {shown(error, 200)})")
            at += 1
        return []

    def series(
        self, operations: list[Any], wholes: dict[int, tuple[str, int]]
    ) -> dict[int, tuple[str, int]]:
        """`laid_out_series` of a block, broadcasts before the first operation included."""
        long = operations if len(operations) >= RUN else []
        types = {str(op.results[0].type) for op in long if len(op.results)}
        dtypes = [name for short, name in FLOATS.items() if any(f"x{short}>" in t for t in types)]
        parts = steps(operations, wholes)
        found = laid_out_series(parts, dtypes) | eliminated(operations, parts, dtypes)
        whole = {}
        for first, (kind, end) in found.items():
            inside = set(operations[first:end])
            while first and operations[first - 1].name in GIVEN:
                users = {
                    use.owner.operation for r in operations[first - 1].results for use in r.uses
                }
                if not users <= inside:
                    break
                first -= 1
                inside.add(operations[first])
            whole[first] = kind, end
        return whole

    def whole(
        self, part: list[Any], kind: str, known: dict[Any, int | None], scope: Scope, at: int
    ) -> int:
        """Lays out operations that together are one primitive; the place after them."""
        made = {result for op in part for result in op.results}
        read: dict[Any, None] = {}
        for op in part:
            if op.name == "stablehlo.constant":
                known.update(zip(op.results, self.constant(op)))
                continue
            read |= dict.fromkeys(v for v in op.operands if v not in made or v in known)
        read = {v: None for v in read if v not in made}
        inside = set(part)
        results = [
            result
            for op in part
            if op.name != "stablehlo.constant"
            for result in op.results
            if any(use.owner.operation not in inside for use in result.uses)
        ]
        avals = [self.aval(v) for v in results]
        operands = [self.aval(v) for v in read]
        params = self.whole_params(kind, operands, avals)
        inputs = [known.get(v) for v in read]
        flop = self.parts_flop(part) if kind == "fft" else None  # one axis after the other
        values = self.builder.emit(kind, scope.path, inputs, operands, avals, params, flop=flop)
        known.update(zip(results, values))
        return at + len(part)

    def whole_params(
        self, kind: str, operands: Sequence[Any], results: Sequence[Any]
    ) -> dict[str, Any]:
        """The parameters that a rule needs, as far as shapes have them."""
        matrices = [r.shape for r in results if len(r.shape) >= 2]
        if kind == "svd":
            m = max(operands[0].shape[-2:])
            full = any(shape[-2:] == (m, m) for shape in matrices)
            return {"compute_uv": bool(matrices), "full_matrices": full}
        if kind in ("top_k", "approx_top_k"):
            before, after = operands[0].shape, results[0].shape
            axis = next((d for d, (n, k) in enumerate(zip(before, after)) if n != k), -1)
            return {"k": after[axis], "dimension": axis % len(before)}
        if kind == "ragged_dot_general":
            return {"ragged_dot_dimension_numbers": GROUPED[len(results[0].shape) - 2]}
        if kind in ("eig", "schur"):
            names = ("compute_left_eigenvectors", "compute_right_eigenvectors")
            return dict.fromkeys((*names, "compute_schur_vectors"), len(matrices) > 1)
        return {}

    def constant(self, op: Any) -> list[int | None]:
        """The value of a constant: none where it is one number, however often."""
        if is_splat(op):
            number = number_in(op)
            if number is not None:
                self.numbers[op.results[0]] = number
            return [None]
        aval = self.aval(op.results[0])
        value = self.builder.constant(aval, self.builder.distinct("constant"))
        return [value if isinstance(value, int) else None]

    def operation(
        self,
        op: Any,
        dialect: str,
        kind: str,
        inputs: list[int | None],
        known: dict[Any, int | None],
        scope: Scope,
    ) -> list[int | None]:
        """The values of one operation's results."""
        results = [self.aval(r) for r in op.results]
        for result in op.results:
            self.numbers.pop(result, None)
        if op in self.skipped:
            return [self.skipped[op]] * len(results)
        if op.name == "func.call":
            return self.call(op, inputs, results, known, scope)
        if kind == "while":
            return self.loop(op, inputs, known, scope)
        if kind == "constant":
            return self.constant(op)
        if dialect == "sdy" and len(op.regions):
            return self.sharded(op, inputs, known, scope)
        if kind == "optimization_barrier" or dialect == "sdy":
            return inputs[: len(results)]
        if kind == "composite":
            return self.composite(op, inputs, results, known, scope)
        if kind in ("if", "case"):
            branches = [self.enter(r.blocks[0], [], known, scope) for r in op.regions]
            chosen: list[int | None] = []
            index = self.aval(op.operands[0])
            for result, values in zip(results, zip(*branches)):
                operand_values, avals = [inputs[0], *values], [index, *[result] * len(values)]
                chosen += self.builder.emit(
                    "select_n", scope.path, operand_values, avals, [result], {}
                )
            return chosen
        if kind == "custom_call":
            return self.custom_call(op, inputs, results, known, scope)
        if self.is_implied(op, kind) or self.is_row(op, kind) or self.is_whole(op, kind):
            return inputs[:1]
        if kind == "concatenate" and op.results[0].type in (types := [v.type for v in op.operands]):
            return [inputs[types.index(op.results[0].type)]]  # the others are empty
        if kind == "pad" and bordered(user_of(op)) is not None:
            return inputs[:1]
        if kind == "slice" and bordered(maker_of(op.operands[0])) is not None:
            return inputs[:1]
        inside = bordered(op)
        if inside is not None:
            results = [self.aval(inside)]
        if kind == "select" and (self.is_status(op) or self.is_fill(op)):
            return inputs[1:2]
        whole, argument = self.written_out(op, kind)
        if argument is not None:
            aval = [self.aval(argument)]
            return list(
                self.builder.emit(whole, scope.path, [known.get(argument)], aval, results, {})
            )
        params: dict[str, Any] = {}
        kind = self.primitive(op, kind, params)
        operands = [self.aval(v) for v in op.operands]
        flop = self.flop(op, kind, operands, results, params)
        effect = kind in ("psend", "precv") or str(op.attributes.get("has_side_effect")) == "true"
        read = 2 if kind == "rng_uniform" else None  # and a shape
        made = self.builder.emit(
            kind,
            scope.path,
            inputs[:read] or [None],
            operands[:read] or results,
            results,
            params,
            effect=effect,
            flop=flop,
        )
        number = self.computed(op, kind)
        if number is not None:
            self.numbers[op.results[0]] = number
        return list(made)

    def call(self, op, inputs, results, known, scope: Scope) -> list[int | None]:
        """A function of the module: inlined, or the primitive that it lays out."""
        callee = op.attributes["callee"].value
        block = self.function(callee).regions[0].blocks[0]
        kind = laid_out_function(callee)
        if any(is_call_of(o.operation, "_svd_tall_and_square_input") for o in block.operations):
            kind = "svd"  # by iterations without a count
        if kind:
            operands = [self.aval(v) for v in op.operands]
            users = [[use.owner.operation for use in result.uses] for result in op.results]
            both = [user for alone in users for user in alone]
            if len(both) == 2 and both[0] == both[1] and both[0].name == "stablehlo.xor":
                # Two words of which one is used: random bits, of the key alone.
                keys, avals = inputs[:2], operands[:2]
                bits = self.builder.emit("random_bits", scope.path, keys, avals, results[:1], {})
                self.skipped[both[0]] = bits[0]
                return [bits[0], bits[0]]
            params = self.whole_params(kind, operands, results)
            return list(self.builder.emit(kind, scope.path, inputs, operands, results, params))
        for argument, operand in zip(block.arguments, op.operands):
            self.numbers.pop(argument, None)
            if operand in self.numbers:
                self.numbers[argument] = self.numbers[operand]
        inner = f"{scope.path}/{callee}".strip("/")
        return self.enter(block, inputs, {}, Scope(inner, scope.depth))

    def composite(self, op, inputs, results, known, scope: Scope) -> list[int | None]:
        """The primitive of a composite's name, or what it consists of."""
        kind = op.attributes["name"].value.rpartition(".")[2]
        kind = OPERATIONS.get(kind, kind)
        operands = [self.aval(v) for v in op.operands]
        kind = "ragged_dot_general" if kind == "ragged_dot" else kind
        if kind in LAID_OUT or kind in ELEMENT_WISE or kind == "ragged_dot_general":
            params = self.whole_params(kind, operands, results)
            return list(self.builder.emit(kind, scope.path, inputs, operands, results, params))
        function = self.function(op.attributes["decomposition"].value)
        return self.enter(function.regions[0].blocks[0], inputs, {}, scope)

    def custom_call(self, op, inputs, results, known, scope: Scope) -> list[int | None]:
        """What another library does, by its name, or the functions that it calls."""
        target = op.attributes["call_target_name"].value
        if target in MARKED_CALLS:
            # what stands between the two is computed on every shard
            if target.startswith("SPMD"):
                self.builder.shards = self.partitions if target == "SPMDFullToShardShape" else 1
            return inputs[: len(results)]
        operands = [self.aval(v) for v in op.operands]
        kind = called_primitive(target)
        if kind not in RULES:
            called = re.findall(r'@"?([\w.$-]+)', str(op.attributes.get("called_computations", "")))
            for name in called:
                block = self.function(name).regions[0].blocks[0]
                ends = list(block.operations)[-1].operands
                if len(block.arguments) == len(inputs) and len(ends) == len(results):
                    return self.enter(block, inputs, {}, scope)
        used = [aval for aval, result in zip(results, op.results) if list(result.uses)]
        params = self.whole_params(kind, operands, used or results) if kind in RULES else {}
        effect = str(op.attributes.get("has_side_effect")) == "true" and kind not in RULES
        read = inputs or [None], operands or results
        return list(self.builder.emit(kind, scope.path, *read, results, params, effect=effect))

    def loop(self, op, inputs, known, scope: Scope) -> list[int | None]:
        """A `while` that counts to a number of the file: its body, as often."""
        pivots = self.pivots(op)
        if pivots is not None:  # exchanged one after the other
            result, avals = self.aval(op.results[-1]), [self.aval(pivots)]
            read = [known.get(pivots)]
            order = self.builder.emit(
                "lu_pivots_to_permutation", scope.path, read, avals, [result], {}
            )
            return [order[0]] * len(inputs)
        condition, body = (region.blocks[0] for region in op.regions)
        start = [self.numbers.get(v) for v in op.operands]
        count, counter, step = self.trip_count(condition, body, start)
        if count is None or counter is None:
            fault = (
                "a loop whose count is not in the file cannot be laid out: export it with a scan or"
                " with fixed bounds, or unrolled"
            )
            self.fail(fault)
        if any(op.operation.name == "stablehlo.and" for op in condition.operations):
            self.builder.most_rounds = max(self.builder.most_rounds, count)
        where, first = f"{scope.path}/while".strip("/"), start[counter] or 0.0
        carry, stacked = list(inputs), self.stacks(body, counter)
        rows: dict[int, list[tuple[int | None, Any]]] = {place: [] for place in stacked}
        ends = list(body.operations)[-1].operands
        for turn in self.builder.rounds(where, count):
            numbers = list(start)
            numbers[counter] = first + turn * step
            for argument, number in zip(body.arguments, numbers):
                self.numbers.pop(argument, None)
                if number is not None:
                    self.numbers[argument] = number
            carry[counter] = self.builder.counter(self.aval(op.results[counter]))
            inner = known | dict(zip(body.arguments, carry))
            inside = Scope(f"{where}.{turn}", scope.depth + 1)
            after = self.walk(body, inner, inside)
            for place, update in stacked.items():
                rows[place].append((inner.get(update), self.aval(update)))
                after[place] = carry[place]
            for place, end in enumerate(ends):
                if place != counter and end != body.arguments[place]:
                    start[place] = self.numbers.get(end)
            carry = after
        for place, made in rows.items():
            result = self.aval(op.results[place])
            if made:
                parts, shapes = zip(*made)
                carry[place] = self.builder.emit("concatenate", where, parts, shapes, [result], {})[
                    0
                ]
        return carry

    def sharded(self, op, inputs, known, scope: Scope) -> list[int | None]:
        """The values of what is computed on the shards of a mesh, which counts for all of them, as
        in `dataflow`."""
        shards, attributes = self.builder.shards, op.attributes
        manual = str(attributes.get("manual_axes"))
        named = [str(attributes[n]) for n in ("in_shardings", "out_shardings") if n in attributes]
        mesh = " ".join(named)
        for name in re.findall(r'@"?([\w.-]+)', mesh)[:1]:
            mesh = self.meshes[name]
        sizes = dict(re.findall(r'"([^"]*)"=(\d+)', mesh))
        axes = re.findall(r'"([^"]*)"', manual)
        self.builder.shards *= math.prod(int(sizes.get(axis, 1)) for axis in axes)
        values = self.enter(op.regions[0].blocks[0], inputs, known, scope)
        self.builder.shards = shards
        return values

    def enter(self, block, inputs, known, scope: Scope) -> list[int | None]:
        inner = known | dict(zip(block.arguments, inputs))
        return self.walk(block, inner, Scope(scope.path, scope.depth + 1))
