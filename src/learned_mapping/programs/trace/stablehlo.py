"""A graph from StableHLO, as text or as bytecode: what `jax.jit(f).lower(...)` prints, `jax.export`
and others write.

The parser is the one that comes with JAX. It is C++ and was not made for strangers' files, so it
runs in a process of its own, whose time and memory are bounded and whose answer is read like any
file. There each operation becomes the primitive of JAX that it stands for, so that graph and costs
are those of `programs.trace.graph`.
"""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from learned_mapping.errors import InputError, shown
from learned_mapping.programs.formats import graph_from_json, graph_to_json
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import parse_json, read_bytes, utf8_text
from learned_mapping.programs.trace.primitive_costs import (
    REDUCTIONS,
    TRANSCENDENTAL_FLOP,
    elements,
    primitive_flop,
)

BYTECODE = b"ML\xefR"
SECONDS, MEMORY_BYTES = 120, 8 * 2**30  # Of the parser's process, at most.
# It gets so many, and one more for so many bytes of the file.
FIRST_SECONDS, BYTES_PER_S = 20, 100_000
MAX_OPERATIONS = 200_000
MAX_CALLS = 100  # Functions within one another.
MAX_NESTED = 200  # Brackets within one another: the parser's own stack would overflow.
# Exit code of the process where the file is at fault; its standard error is the field, a tab, the
# fault.
FAULT = 2

PRIMITIVES = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "remainder": "rem",
    "negate": "neg",
    "maximum": "max",
    "minimum": "min",
    "round_nearest_even": "round",
    "round_nearest_afz": "round",
    "power": "pow",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log_plus_one": "log1p",
    "sine": "sin",
    "cosine": "cos",
    "compare": "eq",
    "select": "select_n",
    "popcnt": "population_count",
    "count_leading_zeros": "clz",
    "convert": "convert_element_type",
    "bitcast_convert": "bitcast_convert_type",
    "reverse": "rev",
    "dynamic_reshape": "reshape",
    "dynamic_broadcast_in_dim": "broadcast_in_dim",
    "broadcast": "broadcast_in_dim",
    "real_dynamic_slice": "slice",
    "dynamic_gather": "gather",
    "dynamic_pad": "pad",
    "dynamic_iota": "iota",
    "convolution": "conv_general_dilated",
    "dynamic_conv": "conv_general_dilated",
    "dot": "dot_general",
    "select_and_scatter": "select_and_scatter_add",
    "rng": "rng_uniform",
    "all_reduce": "psum",
    "collective_permute": "ppermute",
    "torch_index_select": "gather",
    "next_after": "nextafter",
    "is_inf": "is_finite",
    "batch_norm_inference": "mul",
}
"""Operations that have another name as a primitive of JAX."""
BODIES = {
    "add": "sum",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
"""The name of a reduction by the operation in its body."""
EFFECTS = ("infeed", "outfeed", "send", "recv")
SILENT_CALLS = (
    "Sharding",
    "annotate_device_placement",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
)
TYPES = {
    "i1": "bool",
    "pred": "bool",
    "index": "int64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}


def read_stablehlo(
    path: str | os.PathLike, parameters: Sequence[int] = (), name: str | None = None
) -> ComputationGraph:
    """Reads a ``.mlir`` file; raises `InputError` naming file, line and fault.

    Args:
      parameters: positions of the arguments of ``main`` that are parameters: no ops, but weights of
        the ops that use them, as arrays in the file are.
      name: the graph's name, by default the file's.
    """
    data = read_bytes(path)
    if not data.startswith(BYTECODE):
        _check_nesting(utf8_text(data, path), path)
    asked = json.dumps(
        {"name": name or Path(path).name.split(".")[0] or "graph", "parameters": list(parameters)}
    )
    command = [sys.executable, "-m", "learned_mapping.programs.trace.stablehlo", asked]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    limit = min(FIRST_SECONDS + len(data) // BYTES_PER_S, SECONDS)
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=limit, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(path, "", f"is not parsed after {limit} s") from None
    if done.returncode == FAULT:
        field, _, fault = (
            done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].partition("\t")
        )
        raise InputError(path, field, fault)
    if done.returncode != 0:
        said = shown(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2], 300)
        how = (
            f"signal {-done.returncode}"
            if done.returncode < 0
            else said or f"exit code {done.returncode}"
        )
        raise InputError(path, "", f"the parser of JAX gave up on it ({how})")
    return graph_from_json(parse_json(done.stdout, path))


def _check_nesting(text: str, path: object) -> None:
    depth = 0
    for bracket in re.finditer(r"[\[({<]|[\])}>]", text):
        depth = max(
            depth
            + (1 if bracket[0] in "[({<" else -1 if text[bracket.start() - 1] not in "-=" else 0),
            0,
        )
        if depth > MAX_NESTED:
            line = text.count("\n", 0, bracket.start()) + 1
            raise InputError(
                path, f"line {line}", f"brackets more than {MAX_NESTED} within one another"
            )


def _main(asked: dict[str, Any], data: bytes) -> dict[str, Any]:
    """The JSON object of the graph."""
    from jax.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import chlo, func, stablehlo  # noqa: F401, their types are registered

    with make_ir_context() as context:
        try:
            if data.startswith(BYTECODE):
                try:
                    module = stablehlo.deserialize_portable_artifact(context, data)
                except Exception:
                    module = ir.Module.parse(data)
            else:
                module = ir.Module.parse(data.decode())
        except Exception as error:
            match = re.search(r'"?-?"?:(\d+):\d+: (.*)', str(error))
            said = next(filter(str.strip, str(error).splitlines()), type(error).__name__)
            fault = f"not StableHLO: {match[2] if match else shown(said, 200)}"
            raise InputError(asked["name"], f"line {match[1]}" if match else "", fault) from None
        from learned_mapping.programs.trace.graph import fold_sources, graph_of_dataflow

        flow = _Reader(asked["name"], ir, stablehlo).read(module)
        graph = fold_sources(
            graph_of_dataflow(flow, flow.arguments_at(asked["parameters"], "--parameters"))
        )
        return graph_to_json(graph)


class _Reader:
    """A module, laid out flat as the primitives that its operations stand for."""

    def __init__(self, name: str, ir: Any, dialect: Any):
        from learned_mapping.programs.trace.dataflow import _Builder

        self.ir, self.dialect, self.name = ir, dialect, name
        self.builder = _Builder(name, 1)
        self.place = ""

    def fail(self, fault: str) -> NoReturn:
        raise InputError(self.name, self.place, fault)

    def read(self, module: Any) -> Any:
        functions = [op for op in module.body.operations if op.operation.name == "func.func"]
        if not functions:
            self.fail("holds no function")
        self.functions = {op.attributes["sym_name"].value: op for op in functions}
        self.meshes = {
            op.attributes["sym_name"].value: str(op.attributes["mesh"])
            for op in module.body.operations
            if op.operation.name == "sdy.mesh"
        }
        self.partitions = getattr(
            module.operation.attributes.get("mhlo.num_partitions"), "value", 1
        )
        public = [
            op for op in functions if str(op.attributes.get("sym_visibility")) != '"private"'
        ] or functions
        if len(public) != 1 and "main" not in self.functions:
            self.fail(f"no function is named main, and {len(public)} may be meant, expected one")
        main = self.functions.get("main", public[0])
        if not main.regions[0].blocks:
            self.fail("its function has no body")
        block = main.regions[0].blocks[0]
        arguments = [
            self.builder.value(self.aval(a), f"arg{i}") for i, a in enumerate(block.arguments)
        ]
        outputs = self.walk(block, {a: v for a, v in zip(block.arguments, arguments)}, "", 0)
        return self.builder.dataflow(arguments, [[v] for v in arguments], outputs)

    def aval(self, value: Any) -> Any:
        """The abstract array of a value; what holds no data has no element type."""
        import jax
        import jax.numpy as jnp

        kind = value.type
        text = str(kind)
        if text.startswith("!stablehlo.token"):
            return object()
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

    def walk(
        self, block: Any, known: dict[Any, int | None], scope: str, depth: int
    ) -> list[int | None]:
        """Lays out a block; returns the values it ends with."""
        if depth > MAX_CALLS:
            self.fail(f"functions call one another more than {MAX_CALLS} deep")
        for op in block.operations:
            op = op.operation
            dialect, _, kind = op.name.partition(".")
            match = re.search(r":(\d+):\d+\)?$", str(op.location))
            self.place = f"line {match[1]}" if match else op.name
            inputs = [known.get(v) for v in op.operands]
            if kind == "return":
                return inputs
            if len(self.builder.operations) > MAX_OPERATIONS:
                self.fail(f"more than {MAX_OPERATIONS:,} operations, calls inlined")
            if dialect not in ("stablehlo", "chlo", "func", "mhlo", "sdy"):
                self.fail(f"{op.name}: operations of StableHLO are read, lower the module to it")
            try:
                values = self.operation(op, dialect, kind, inputs, known, scope, depth)
            except (InputError, MemoryError, RecursionError):
                raise
            except Exception as error:
                # of the binding, which does not know all that the parser does
                self.fail(f"{op.name} cannot be read ({type(error).__name__}: {shown(error, 200)})")
            known.update(zip(op.results, values))
        return []

    def operation(self, op, dialect, kind, inputs, known, scope, depth) -> list[int | None]:
        """The values of one operation's results."""
        results = [self.aval(r) for r in op.results]
        if op.name == "func.call":
            callee = op.attributes["callee"].value
            function = self.functions.get(callee)
            if function is None or not function.regions[0].blocks:
                self.fail(f"calls {shown(callee)!r}, which has no body")
            return self.enter(
                function.regions[0].blocks[0], inputs, {}, f"{scope}/{callee}".strip("/"), depth
            )
        if kind == "while":
            self.fail(
                f"{op.name}: how often it runs is not read from a file; `lmap trace"
                " MODULE:FUNCTION` unrolls the loops of a JAX function, others are unrolled before"
                " they are exported",
            )
        if kind == "constant":
            return [
                (
                    None
                    if _is_splat(op)
                    else self.builder.constant(results[0], self.builder.distinct("constant"))
                )
            ]
        if dialect == "sdy" and len(op.regions):
            return self.sharded(op, inputs, known, scope, depth)
        if kind in ("optimization_barrier", "tuple", "get_tuple_element") or dialect == "sdy":
            return inputs[: len(results)]
        if kind == "composite":
            function = self.functions[op.attributes["decomposition"].value]
            return self.enter(function.regions[0].blocks[0], inputs, {}, scope, depth)
        if kind in ("if", "case"):
            branches = [self.enter(r.blocks[0], [], known, scope, depth) for r in op.regions]
            chosen: list[int | None] = []
            for result, values in zip(results, zip(*branches)):
                operand_values, avals = [inputs[0], *values], [result] * (len(values) + 1)
                chosen += self.builder.emit("select_n", scope, operand_values, avals, [result], {})
            return chosen
        params: dict[str, Any] = {}
        if kind == "custom_call":
            target = op.attributes["call_target_name"].value
            if target in SILENT_CALLS:
                # what stands between the two is computed on every shard
                if target.startswith("SPMD"):
                    self.builder.shards = self.partitions if target == "SPMDFullToShardShape" else 1
                return inputs[: len(results)]
            kind = target.replace("mhlo.", "").replace("chlo.", "")
        else:
            kind = self.primitive(op, kind, params)
        operands = [self.aval(v) for v in op.operands]
        starts = op.name in (
            "stablehlo.reduce",
            "stablehlo.reduce_window",
        ) and kind in REDUCTIONS - {"reduce"}
        # no start counts, nor an index
        count = 1 if kind in ("argmax", "argmin") else len(operands) // 2
        flop = primitive_flop(kind, operands[:count], results, params) if starts else None
        if kind == "select_and_scatter_add":  # the pooled values come second here, first in JAX
            flop = primitive_flop(kind, operands[1:], results, params)
        # per element four, per feature a root and a product
        if op.name == "stablehlo.batch_norm_inference":
            flop = 4.0 * elements(operands[0]) + (TRANSCENDENTAL_FLOP + 2.0) * elements(operands[1])
        effect = kind in EFFECTS or str(op.attributes.get("has_side_effect")) == "true"
        read = inputs or [None], operands or results
        return self.builder.emit(kind, scope, *read, results, params, effect=effect, flop=flop)

    def sharded(self, op, inputs, known, scope, depth) -> list[int | None]:
        """The values of what is computed on the shards of a mesh, which counts for all of them, as
        in `dataflow`."""
        (shards, attributes), manual = (
            (self.builder.shards, op.attributes),
            str(op.attributes.get("manual_axes")),
        )
        mesh = " ".join(
            str(attributes[name])
            for name in ("in_shardings", "out_shardings")
            if name in attributes
        )
        for name in re.findall(r'@"?([\w.-]+)', mesh)[:1]:
            mesh = self.meshes[name]
        sizes = dict(re.findall(r'"([^"]*)"=(\d+)', mesh))
        self.builder.shards *= math.prod(
            int(sizes.get(axis, 1)) for axis in re.findall(r'"([^"]*)"', manual)
        )
        values = self.enter(op.regions[0].blocks[0], inputs, known, scope, depth)
        self.builder.shards = shards
        return values

    def enter(self, block, inputs, known, scope, depth) -> list[int | None]:
        return self.walk(block, known | dict(zip(block.arguments, inputs)), scope, depth + 1)

    def primitive(self, op: Any, kind: str, params: dict[str, Any]) -> str:
        """The primitive of JAX that an operation stands for; fills in its parameters."""
        attributes = op.attributes

        def dense(name: str, default: list[int]) -> list[int]:
            return (
                list(self.ir.DenseI64ArrayAttr(attributes[name])) if name in attributes else default
            )

        if kind == "dot_general":
            dot = self.dialect.DotDimensionNumbers(attributes["dot_dimension_numbers"])
            params["dimension_numbers"] = ((list(dot.lhs_contracting_dimensions), ()), ((), ()))
        elif kind == "dot":
            params["dimension_numbers"] = (
                ([len(self.aval(op.operands[0]).shape) - 1], ()),
                ((), ()),
            )
        elif kind in ("convolution", "dynamic_conv"):
            conv = self.dialect.ConvDimensionNumbers(attributes["dimension_numbers"])
            spec = (conv.kernel_output_feature_dimension, conv.kernel_input_feature_dimension)
            params["dimension_numbers"] = SimpleNamespace(
                rhs_spec=(*spec, *conv.kernel_spatial_dimensions)
            )
            params["lhs_dilation"] = dense("lhs_dilation", [])
        elif kind in ("reduce_window", "select_and_scatter"):
            params["window_dimensions"] = dense("window_dimensions", [1])
        elif kind == "sort":
            params["dimension"] = self.ir.IntegerAttr(attributes["dimension"]).value
        elif kind == "top_k":
            params["k"] = self.ir.IntegerAttr(attributes["k"]).value
        elif kind == "fft":
            params["fft_lengths"] = dense("fft_length", [1])
        if (
            kind == "reduce"
            and len(op.operands) == 4
            and getattr(op.operands[1].owner, "name", "") == "stablehlo.iota"
        ):
            first = op.regions[0].blocks[0].operations[0].attributes
            return (
                "argmin" if re.search("L[TE]", str(first.get("comparison_direction"))) else "argmax"
            )
        if kind in ("reduce", "reduce_window", "scatter"):
            body = [o.operation.name.partition(".")[2] for o in op.regions[0].blocks[0].operations][
                :-1
            ]
            suffix = BODIES.get(body[-1], "") if len(body) == 1 else ""
            if kind == "reduce_window" and self.is_cumulative(op, dense):
                suffix = "logsumexp" if {"exponential", "log_plus_one"} <= {*body} else suffix
                if f"cum{suffix}" in REDUCTIONS:
                    return f"cum{suffix}"
            if kind == "scatter":
                return {"sum": "scatter-add", "prod": "scatter-mul", "": "scatter"}.get(
                    suffix, f"scatter-{suffix}"
                )
            return (
                f"{kind}_{suffix}"
                if suffix and (kind == "reduce" or suffix in ("sum", "max", "min"))
                else kind
            )
        return PRIMITIVES.get(kind, kind)

    def is_cumulative(self, op: Any, dense: Callable[[str, list[int]], list[int]]) -> bool:
        """Whether the windows of a reduction begin, or end, where one axis does, and each is one
        element longer."""
        shape = list(self.aval(op.operands[0]).shape)
        ones, window = [1] * len(shape), dense("window_dimensions", [])
        axis = next((i for i, size in enumerate(window) if size > 1), None)
        steps = ("window_strides", "base_dilations", "window_dilations")
        if (
            axis is None
            or "padding" not in op.attributes
            or any(dense(name, ones) != ones for name in steps)
        ):
            return False
        padding, ones[axis] = (
            list(self.ir.DenseIntElementsAttr(op.attributes["padding"])),
            shape[axis],
        )
        ways = [
            [(shape[axis] - 1) * (i == 2 * axis + end) for i in range(2 * len(shape))]
            for end in (0, 1)
        ]
        return window == ones and padding in ways


def _is_splat(op: Any) -> bool:
    """Whether a constant is one number, however often; of complex ones the binding gives nothing
    but their text."""
    try:
        return getattr(op.attributes["value"], "is_splat", False)
    except TypeError:
        return "dense<(" in op.get_asm(large_elements_limit=16, use_local_scope=True)


def answer(asked: dict[str, Any], data: bytes) -> tuple[int, str]:
    """The answer of the parser's process on a file: 0 and the graph's JSON, or `FAULT` with field,
    tab and fault."""
    try:
        return 0, json.dumps(_main(asked, data), allow_nan=False)
    except InputError as error:
        field, text = error.field, error.fault
    except (MemoryError, RecursionError) as error:
        field, text = "", f"too large for the parser ({type(error).__name__})"
    return FAULT, f"{shown(field, 200)}\t{shown(text, 600)}"


def _run() -> int:
    """The parser's process: a file on standard input, a graph as JSON on standard output."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass  # the time limit of the caller holds anyhow
    with redirect_stdout(sys.stderr):
        code, text = answer(json.loads(sys.argv[1]), sys.stdin.buffer.read())
    print(text, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(_run())
