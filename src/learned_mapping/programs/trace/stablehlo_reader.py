"""A module of StableHLO, laid out flat as the primitives that its operations stand for.

What a writer laid out is put together again where the file says so: a composite is the primitive of
its name, and operations that lie together at one place which names a primitive, as JAX's exports
do, are that primitive. Loops that count to a number in the file are their body, as often.
"""

import math
import operator
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

from learned_mapping.errors import InputError, shown
from learned_mapping.programs.trace.dataflow import _Builder
from learned_mapping.programs.trace.layouts import (
    GIVEN,
    RUN,
    eliminated,
    laid_out_series,
    steps,
)
from learned_mapping.programs.trace.loops import SWAPPED, rounds_within
from learned_mapping.programs.trace.names import (
    BODIES,
    LAID_OUT,
    MARKED_CALLS,
    OPERATIONS,
    called_primitive,
    laid_out_function,
)
from learned_mapping.programs.trace.primitive_costs import (
    ELEMENT_WISE,
    REDUCTIONS,
    RULES,
    elements,
    primitive_flop,
)
from learned_mapping.programs.trace.stablehlo_ops import (
    bordered,
    is_call_of,
    is_nan,
    is_splat,
    laid_out,
    listed,
    maker_of,
    number_in,
    place_of,
    user_of,
)

MAX_OPERATIONS = 200_000
MAX_CALLS = 100  # Functions within one another.
EFFECTS = ("infeed", "outfeed", "send", "recv")
DIALECTS = ("stablehlo", "chlo", "func", "mhlo", "sdy")
TYPES = {
    "i1": "bool",
    "pred": "bool",
    "index": "int64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
FLOATS = {"f32": "float32", "f64": "float64", "bf16": "bfloat16", "f16": "float16"}
STATUS = tuple(
    f"stablehlo.{name}" for name in ("broadcast_in_dim", "compare", "and", "reshape", "select")
)
"""What lies between a library's status and the selection by it."""
ARITHMETIC: dict[str, Callable[..., float]] = {
    "convert_element_type": lambda a: a,
    "reshape": lambda a: a,
    "broadcast_in_dim": lambda a: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "select_n": lambda chosen, yes, no: yes if chosen else no,
}
"""What may become of a counter before it is an index."""
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}
GROUPED = [
    SimpleNamespace(
        dot_dimension_numbers=(((axis,), (axis,)), ((), ())), lhs_ragged_dimensions=(0,)
    )
    for axis in (1, 0)
]
"""A product of rows in groups, each with a matrix of its own, and one whose groups divide what is
contracted."""
BATCH_NORM = {"batch_norm_training": 8.0, "batch_norm_grad": 9.0}
"""FLOP of an element of the input: mean and variance before scaling, or two sums and what becomes
of the gradient; `primitive_costs` has those of inference."""


class Scope(NamedTuple):
    """The names around an operation, and how many functions it lies in."""

    path: str
    depth: int


class Reader:
    """The reading of one module.

    Args:
      name: of the file, for errors.
      ir, dialect: the binding's modules.
      unroll_limit: operations that one loop may make.
    """

    def __init__(self, name: str, ir: Any, dialect: Any, unroll_limit: int):
        self.ir, self.dialect, self.name = ir, dialect, name
        self.builder = _Builder(name, unroll_limit)
        self.place = ""
        self.numbers: dict[Any, float] = {}  # Scalars whose value stands in the file.
        self.skipped: dict[Any, int | None] = {}  # Operations done with others -> their value.
        self.wholes: dict[Any, dict[int, tuple[str, int]]] = {}  # Of a block's first operation.

    def fail(self, fault: str) -> NoReturn:
        raise InputError(self.name, self.place, fault)

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

    def aval(self, value: Any) -> Any:
        """The abstract array of a value; what holds no data has no element type."""
        import jax
        import jax.numpy as jnp

        kind = value.type
        text = str(kind)
        if text.startswith("!stablehlo.token"):
            return object()
        if "!quant" in text:
            fault = "quantised types are not read, export the model before it is quantised"
            self.fail(f"{shown(text)}: {fault}")
        if text.startswith("tuple<"):
            self.fail(f"{shown(text)}: tuples are not read, export with flat arguments and results")
        if text.startswith("tensor<*"):
            self.fail(f"{shown(text)}: a shape without rank, export again with fixed shapes")
        if not text.startswith("tensor<"):
            self.fail(f"a value of type {shown(text)}, expected tensors")
        tensor = self.ir.RankedTensorType(kind)
        if not tensor.has_static_shape:
            self.fail(f"a dynamic shape, {shown(text)}: export it again with fixed shapes")
        element = TYPES.get(str(tensor.element_type), str(tensor.element_type))
        element = re.sub(r"^(u?)i(\d+)$", r"\1int\2", re.sub(r"^si(\d+)$", r"i\1", element))
        element = re.sub(r"^f(\d+)$", r"float\1", element.replace("bf16", "bfloat16"))
        element = re.sub(r"^f(\d)E(.*)$", lambda m: f"float{m[1]}_e{m[2].lower()}", element)
        try:
            return jax.ShapeDtypeStruct(tuple(tensor.shape), jnp.dtype(element))
        except (TypeError, ValueError):
            self.fail(f"element type {shown(element)} is not known")

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

    def computed(self, op: Any, kind: str) -> float | None:
        """The number that an operation makes of numbers; None where it makes something else."""
        numbers = [self.numbers[v] for v in op.operands if v in self.numbers]
        if not numbers or len(numbers) < len(op.operands) or len(op.results) != 1:
            return None
        if op.name == "stablehlo.compare":
            way = re.search(r"\b(LT|LE|GT|GE|EQ|NE)\b", str(op.attributes["comparison_direction"]))
            return None if way is None else float(COMPARISONS[way[1]](*numbers))
        return ARITHMETIC[kind](*numbers) if kind in ARITHMETIC else None

    def flop(
        self,
        op: Any,
        kind: str,
        operands: Sequence[Any],
        results: Sequence[Any],
        params: dict[str, Any],
    ) -> float | None:
        """FLOP of an operation where its form says more than its primitive's rule sees."""
        name = op.name.partition(".")[2]
        if name in BATCH_NORM:
            params["each"] = BATCH_NORM[name]
        if name in ("reduce", "reduce_window") and kind in RULES:
            # no start counts, nor an index
            count = 1 if kind in ("argmax", "argmin") else len(operands) // 2
            if kind in ("reduce", "reduce_window"):
                each = max(self.body_flop(op.regions[0]), 1.0)
                return each * primitive_flop(kind, operands, results, params)
            return primitive_flop(kind, operands[:count], results, params)
        if kind == "select_and_scatter_add":  # the pooled values come second here, first in JAX
            return primitive_flop(kind, operands[1:], results, params)
        if name == "map":
            return elements(results[0]) * self.body_flop(op.regions[0])
        if name == "scan":
            axes = op.attributes.get("scan_dimension")
            axis = 0 if axes is None else self.ir.IntegerAttr(axes).value
            carried = len(op.regions[0].blocks[0].arguments)
            length = max((v.shape[axis] for v in operands[:carried] if len(v.shape)), default=1)
            return length * self.body_flop(op.regions[0])
        if name in ("einsum", "unary_einsum"):
            return self.einsum_flop(op, operands)
        if name == "ragged_dot":
            numbers = str(op.attributes["ragged_dot_dimension_numbers"])
            contracted = listed(numbers, "lhs_contracting_dimensions")
            ragged = listed(numbers, "lhs_ragged_dimensions")
            groups = results[0].shape[0] if set(ragged) & set(contracted) else 1
            depth = math.prod(operands[0].shape[d] for d in contracted)
            return 2.0 * elements(results[0]) / max(groups, 1) * depth
        return None

    def einsum_flop(self, op: Any, operands: Sequence[Any]) -> float:
        """Two for each point of all indices of a product, one of a sum."""
        terms = op.attributes["einsum_config"].value.partition("->")[0].split(",")
        sizes: dict[str, int] = {}
        for term, operand in zip(terms, operands):
            letters = term.strip().replace("...", "")
            sizes |= dict(zip(reversed(letters), reversed(operand.shape)))
        spread = max(
            len(o.shape) - len(t.strip().replace("...", "")) for t, o in zip(terms, operands)
        )
        batch = math.prod(operands[0].shape[:spread]) if spread > 0 else 1
        return float(len(operands) * batch * math.prod(sizes.values()))

    def body_flop(self, region: Any) -> float:
        """FLOP of all operations in a region, and in those within."""
        return self.parts_flop([op.operation for op in region.blocks[0].operations])

    def parts_flop(self, operations: Sequence[Any]) -> float:
        """FLOP of operations, and of those in their regions and functions."""
        total = 0.0
        for op in operations:
            kind = op.name.partition(".")[2]
            if kind in ("return", "constant"):
                continue
            params: dict[str, Any] = {}
            results, operands = ([self.aval(v) for v in vs] for vs in (op.results, op.operands))
            if kind == "call":
                total += self.body_flop(self.function(op.attributes["callee"].value).regions[0])
                continue
            primitive = self.primitive(op, kind, params)
            flop = self.flop(op, primitive, operands, results, params)
            total += primitive_flop(primitive, operands, results, params) if flop is None else flop
        return total

    def function(self, name: str) -> Any:
        function = self.functions.get(name)
        if function is None or not function.regions[0].blocks:
            self.fail(f"calls {shown(name)!r}, which has no body")
        return function

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

    def is_implied(self, op: Any, kind: str) -> bool:
        """Whether a broadcast only brings an operand of element-wise operations to their shape:
        of one number, or along axes of length 1."""
        if kind != "broadcast_in_dim" or place_of(op) == "broadcast_in_dim":
            return False
        before, after = self.aval(op.operands[0]), self.aval(op.results[0])
        if before.shape and len(before.shape) != len(after.shape):
            return False
        users = [use.owner.operation for use in op.results[0].uses]
        kinds = {OPERATIONS.get(k, k) for k in (u.name.partition(".")[2] for u in users)}
        return bool(users) and kinds <= ELEMENT_WISE

    def is_row(self, op: Any, kind: str) -> bool:
        """Whether a reshape only drops the axis along which a loop takes one row a round."""
        if kind != "reshape":
            return False
        maker = maker_of(op.operands[0])
        if getattr(maker, "name", "") != "stablehlo.dynamic_slice":
            return False
        starts = [self.number_of(v) is not None for v in list(maker.operands)[1:]]
        return all(starts) and len(list(op.operands[0].uses)) == 1

    def is_whole(self, op: Any, kind: str) -> bool:
        """Whether a slice leaves nothing out, or padding adds nothing."""
        return kind in ("slice", "pad") and op.operands[0].type == op.results[0].type

    def is_status(self, op: Any) -> bool:
        """Whether a selection only puts NaN where a library says that it failed."""
        other = maker_of(op.operands[2])
        if getattr(other, "name", "") == "stablehlo.broadcast_in_dim":
            other = maker_of(other.operands[0])
        if getattr(other, "name", "") != "stablehlo.constant" or not is_nan(other):
            return False
        maker = maker_of(op.operands[0])
        while getattr(maker, "name", "") in STATUS:
            maker = maker_of(maker.operands[0])
        return getattr(maker, "name", "") == "stablehlo.custom_call"

    def is_fill(self, op: Any) -> bool:
        """Whether a selection only replaces what a gather read out of bounds."""
        taken = maker_of(op.operands[1])
        if getattr(taken, "name", "") != "stablehlo.gather" or len(list(op.operands[1].uses)) != 1:
            return False
        waiting, indices = [op.operands[0]], set()
        while waiting:
            value = waiting.pop()
            maker = maker_of(value)
            if value == taken.operands[1]:
                indices.add(value)
            elif getattr(maker, "name", "") in (*STATUS, "stablehlo.reduce"):
                waiting += maker.operands
            elif getattr(maker, "name", "") != "stablehlo.constant":
                return False
        return bool(indices)

    def written_out(self, op: Any, kind: str) -> tuple[str, Any]:
        """A primitive that JAX writes as others, of which this is the last, and its operand; None
        where it is no such one."""
        if kind == "divide":
            return "logistic", self.sigmoid_of(op)
        if kind == "convert" and op.operands[0].type == op.results[0].type:
            maker = maker_of(op.operands[0])
            if getattr(maker, "name", "") == "stablehlo.compare":
                differs = "NE" in str(maker.attributes["comparison_direction"])
                if differs and self.number_of(maker.operands[1]) == 0:
                    return "convert_element_type", maker.operands[0]
        if kind == "complex":
            real, negated = (maker_of(v) for v in op.operands)
            if getattr(negated, "name", "") == "stablehlo.negate":
                imaginary = maker_of(negated.operands[0])
                names = [getattr(m, "name", "") for m in (real, imaginary)]
                if names == ["stablehlo.real", "stablehlo.imag"]:
                    if real.operands[0] == imaginary.operands[0]:
                        return "conj", real.operands[0]
        return "", None

    def sigmoid_of(self, op: Any) -> Any:
        """x where the operation is 1 / (1 + exp(-x)) and nothing else uses its parts; or None."""
        if self.number_of(op.operands[0]) != 1:
            return None
        value = op.operands[1]
        for name, place in (("add", None), ("exponential", 0), ("negate", 0)):
            maker = maker_of(value)
            if getattr(maker, "name", "") != f"stablehlo.{name}" or len(list(value.uses)) != 1:
                return None
            sides = list(maker.operands)
            if place is None:
                ones = [self.number_of(side) == 1 for side in sides]
                if sum(ones) != 1:
                    return None
                place = ones.index(False)
            value = sides[place]
        return value

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

    def pivots(self, op: Any) -> Any:
        """The pivots, where a loop only exchanges by them the elements of what begins as 0, 1, 2,
        ...; or None."""
        first = maker_of(op.operands[-1])
        if getattr(first, "name", "") == "stablehlo.broadcast_in_dim":
            first = maker_of(first.operands[0])
        whole = [v for v in op.operands if "xi" in str(v.type) or "xui" in str(v.type)]
        scalars = [v for v in op.operands if str(v.type) in ("tensor<i32>", "tensor<i64>")]
        if getattr(first, "name", "") != "stablehlo.iota" or len(whole) != 2:
            return None
        if len(whole) + len(scalars) != len(op.operands):
            return None
        names = [o.operation.name for o in self.within(op.regions[1].blocks[0])]
        return whole[0] if names.count("stablehlo.scatter") == 2 else None

    def within(self, block: Any) -> list[Any]:
        """The operations of a block and of the functions that it calls."""
        found = []
        for op in block.operations:
            found.append(op)
            if op.operation.name == "func.call":
                callee = self.function(op.attributes["callee"].value)
                found += self.within(callee.regions[0].blocks[0])
        return found

    def stacks(self, body: Any, counter: int | None) -> dict[int, Any]:
        """Place of a carried value -> what every round writes into a row of it, where it does
        nothing else with it: results that a scan stacks."""
        found, ends = {}, list(body.operations)[-1].operands
        for place, (argument, end) in enumerate(zip(body.arguments, ends)):
            if counter is None or len(list(argument.uses)) != 1:
                continue
            written = self.written_row(maker_of(end), argument)
            if written is not None:
                self.skipped[maker_of(end)] = None
                found[place] = written
        return found

    def written_row(self, maker: Any, argument: Any) -> Any:
        """The value that an operation, or the function that it calls, writes into a row of an
        argument; None where it does something else."""
        name = getattr(maker, "name", "")
        if name not in ("stablehlo.dynamic_update_slice", "func.call"):
            return None
        operands = list(maker.operands)
        if name == "func.call":
            block = self.function(maker.attributes["callee"].value).regions[0].blocks[0]
            returned = list(list(block.operations)[-1].operands)
            if argument not in operands or len(returned) != 1:
                return None
            inner = block.arguments[operands.index(argument)]
            value = self.written_row(maker_of(returned[0]), inner)
            arguments = list(block.arguments)
            if value is None or value not in arguments:
                return None
            return operands[arguments.index(value)]
        if operands[0] != argument or self.aval(operands[1]).shape[:1] != (1,):
            return None
        update = maker_of(operands[1])
        if getattr(update, "name", "") in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
            if len(list(operands[1].uses)) == 1:
                self.skipped[update] = None
                return update.operands[0]
        return operands[1]

    def trip_count(
        self, condition: Any, body: Any, start: Sequence[float | None]
    ) -> tuple[int | None, int | None, float]:
        """The most times that a loop runs, the place of its counter, and what a round adds to it;
        as `loops.trip_count`."""
        for block in (condition, body):
            for op in block.operations:
                if op.operation.name == "stablehlo.constant" and is_splat(op.operation):
                    stated = number_in(op.operation)
                    if stated is not None:
                        self.numbers[op.operation.results[0]] = stated
        ends = list(body.operations)[-1].operands
        best: tuple[int | None, int | None, float] = (None, None, 0.0)
        given = dict(zip(condition.arguments, start))

        def number(value: Any) -> float | None:
            return given.get(value) if value in given else self.numbers.get(value)

        waiting = list(list(condition.operations)[-1].operands)
        while waiting:
            maker = maker_of(waiting.pop())
            name = getattr(maker, "name", "")
            if name in ("stablehlo.and", "stablehlo.convert"):
                waiting += list(maker.operands)
            if name != "stablehlo.compare":
                continue
            sense = re.search(
                r"\b(LT|LE|GT|GE|NE)\b", str(maker.attributes["comparison_direction"])
            )
            if sense is None:
                continue
            sides, way = list(maker.operands), sense[1].lower()
            if way == "ne" and self.number_of(sides[1]) == 0 and "i1>" in str(sides[0].type):
                waiting.append(sides[0])  # true, as it is converted
                continue
            for counted, limit, sense_of in (
                (sides[0], sides[1], way),
                (sides[1], sides[0], SWAPPED[way]),
            ):
                if counted not in given or given[counted] is None or number(limit) is None:
                    continue
                place = list(condition.arguments).index(counted)
                step = self.step(body, place, ends[place], start)
                rounds = rounds_within(sense_of, number(limit) - given[counted], step)
                if rounds is not None and (best[0] is None or rounds < best[0]):
                    best = rounds, place, step
        return best

    def step(self, body: Any, place: int, end: Any, start: Sequence[float | None]) -> float:
        """The number that a round adds to its counter; 0 where it does something else with it."""
        maker = maker_of(end)
        name, argument = getattr(maker, "name", ""), body.arguments[place]
        if name == "func.call":
            inner = self.function(maker.attributes["callee"].value).regions[0].blocks[0]
            returned = list(inner.operations)[-1].operands
            position = list(maker.results).index(end)
            for o, a in zip(maker.operands, inner.arguments):
                if o == argument:
                    at = list(inner.arguments).index(a)
                    return self.step(inner, at, returned[position], [None] * len(inner.arguments))
            return 0.0
        if name not in ("stablehlo.add", "stablehlo.subtract"):
            return 0.0
        sides = list(maker.operands)
        if argument not in sides or (name == "stablehlo.subtract" and sides[0] != argument):
            return 0.0
        other = sides[1 - sides.index(argument)]
        amount = self.number_of(other)
        if amount is None and other in list(body.arguments):
            amount = start[list(body.arguments).index(other)]
        if amount is None:
            return 0.0
        return -amount if name == "stablehlo.subtract" else amount

    def number_of(self, value: Any) -> float | None:
        if value in self.numbers:
            return self.numbers[value]
        maker = maker_of(value)
        if getattr(maker, "name", "") == "stablehlo.broadcast_in_dim":
            return self.number_of(maker.operands[0])
        if getattr(maker, "name", "") == "stablehlo.constant" and is_splat(maker):
            return number_in(maker)
        return None

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

    def primitive(self, op: Any, kind: str, params: dict[str, Any]) -> str:
        """The primitive of JAX that an operation stands for; fills in its parameters."""
        attributes = op.attributes

        def dense(name: str, default: list[int]) -> list[int]:
            if name not in attributes:
                return default
            return list(self.ir.DenseI64ArrayAttr(attributes[name]))

        if kind == "dot_general":
            dot = self.dialect.DotDimensionNumbers(attributes["dot_dimension_numbers"])
            params["dimension_numbers"] = ((list(dot.lhs_contracting_dimensions), ()), ((), ()))
        elif kind == "dot":
            last = len(self.aval(op.operands[0]).shape) - 1
            params["dimension_numbers"] = (([last], ()), ((), ()))
        elif kind in ("convolution", "dynamic_conv"):
            self.convolution(op, dense, params)
        elif kind in ("reduce_window", "select_and_scatter"):
            params["window_dimensions"] = dense("window_dimensions", [1])
        elif kind == "sort":
            params["dimension"] = self.ir.IntegerAttr(attributes["dimension"]).value
        elif kind == "top_k":
            params["k"] = self.ir.IntegerAttr(attributes["k"]).value
        elif kind == "fft":
            params["fft_lengths"] = dense("fft_length", [1])
        if kind == "reduce" and len(op.operands) == 4:
            if getattr(op.operands[1].owner, "name", "") == "stablehlo.iota":
                first = op.regions[0].blocks[0].operations[0].attributes
                least = re.search("L[TE]", str(first.get("comparison_direction")))
                return "argmin" if least else "argmax"
        if kind in ("reduce", "reduce_window", "scatter"):
            return self.reduction(op, kind, dense)
        bare = kind.removeprefix("broadcast_")  # of chlo, which brings operands to one shape
        return OPERATIONS.get(kind, OPERATIONS.get(bare, bare if bare in RULES else kind))

    def convolution(
        self, op: Any, dense: Callable[[str, list[int]], list[int]], params: dict[str, Any]
    ) -> None:
        """Fills in what the rule of convolutions reads."""
        conv = self.dialect.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        kernel = list(conv.kernel_spatial_dimensions)
        spec = (conv.kernel_output_feature_dimension, conv.kernel_input_feature_dimension, *kernel)
        out = (conv.output_batch_dimension, conv.output_feature_dimension)
        params["dimension_numbers"] = SimpleNamespace(
            rhs_spec=spec, out_spec=(*out, *conv.output_spatial_dimensions)
        )
        ones = [1] * len(kernel)
        for name in ("window_strides", "lhs_dilation", "rhs_dilation"):
            params[name] = dense(name, ones)
        params["padding"] = [(0, 0)] * len(kernel)
        if "padding" in op.attributes:
            ends = list(self.ir.DenseIntElementsAttr(op.attributes["padding"]))
            params["padding"] = list(zip(ends[::2], ends[1::2]))

    def reduction(self, op: Any, kind: str, dense: Callable[[str, list[int]], list[int]]) -> str:
        """The primitive of a reduction, by what its body does."""
        block = op.regions[0].blocks[0]
        body = [o.operation.name.partition(".")[2] for o in block.operations][:-1]
        suffix = BODIES.get(body[-1], "") if len(body) == 1 else ""
        if kind == "reduce_window" and self.is_cumulative(op, dense):
            suffix = "logsumexp" if {"exponential", "log_plus_one"} <= {*body} else suffix
            if f"cum{suffix}" in REDUCTIONS:
                return f"cum{suffix}"
        if kind == "scatter":
            named = {"sum": "scatter-add", "prod": "scatter-mul", "": "scatter"}
            return named.get(suffix, f"scatter-{suffix}")
        if suffix and (kind == "reduce" or suffix in ("sum", "max", "min")):
            return f"{kind}_{suffix}"
        return kind

    def is_cumulative(self, op: Any, dense: Callable[[str, list[int]], list[int]]) -> bool:
        """Whether the windows of a reduction begin, or end, where one axis does, and each is one
        element longer."""
        shape = list(self.aval(op.operands[0]).shape)
        ones, window = [1] * len(shape), dense("window_dimensions", [])
        axis = next((i for i, size in enumerate(window) if size > 1), None)
        steps = ("window_strides", "base_dilations", "window_dilations")
        if axis is None or "padding" not in op.attributes:
            return False
        if any(dense(name, ones) != ones for name in steps):
            return False
        padding = list(self.ir.DenseIntElementsAttr(op.attributes["padding"]))
        ones[axis] = shape[axis]
        ways = [
            [(shape[axis] - 1) * (i == 2 * axis + end) for i in range(2 * len(shape))]
            for end in (0, 1)
        ]
        return window == ones and padding in ways
