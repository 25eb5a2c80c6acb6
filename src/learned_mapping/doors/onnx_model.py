"""A model of ONNX as a dataflow: each operation is a primitive by `names.ONNX`, or what a function
of `onnx_layouts` lays out in JAX.

The `onnx` package parses the file, inlines functions, infers shapes, one operation after the other,
and computes what only says a shape. Initializers are weights. It runs in the process of `models`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.doors.onnx_layouts import LAYOUTS, Given
from learned_mapping.errors import InputError, shown
from learned_mapping.programs.trace.dataflow import _Builder, as_input_error
from learned_mapping.programs.trace.names import ONNX
from learned_mapping.programs.trace.operations import Dataflow
from learned_mapping.programs.trace.primitive_costs import ELEMENT_WISE

FEW = 1024  # Elements of an array that may say a shape.
MAX_NODES = 100_000  # Of a model, functions inlined.
MAX_DEPTH = 20  # Graphs within one another.
DOMAINS = ("", "ai.onnx")
FIRST = {*ONNX.values()} - ELEMENT_WISE - {"concatenate", "gather", "scatter"}
"""Primitives that read the first of what an operation is given; the rest says how."""
SAYING = ("int64", "int32", "bool")
"""Types of numbers that say shapes rather than are weights."""

Known = tuple[int | None, Any]
"""A value of the dataflow, None for what stands in the file, and its abstract array."""


def read(data: bytes, asked: Mapping[str, Any]) -> tuple[Dataflow, list[int]]:
    """The dataflow of a model and the values that are weights.

    Args:
      data: a ModelProto, without the numbers of large tensors.
      asked: ``name`` and ``unroll_limit``, and ``shapes``: type and sizes of each input where the
        file leaves sizes open.
    """
    name = asked["name"]
    try:
        import onnx
    except ImportError:
        fault = "ONNX needs the package onnx: pip install onnx"
        raise InputError(name, "", fault) from None
    with as_input_error(name, "not ONNX"):
        model = onnx.load_model_from_string(data)
    if not model.graph.node:
        raise InputError(name, "graph", "not ONNX: holds no nodes")
    for value, (dtype, sizes) in zip(model.graph.input, asked.get("shapes", ())):
        code = onnx.helper.np_dtype_to_tensor_dtype(jnp.dtype(dtype))
        value.type.CopyFrom(onnx.helper.make_tensor_type_proto(code, sizes))
    with as_input_error(name, "not ONNX"), jax.enable_x64(True):
        return _Reader(name, asked["unroll_limit"], onnx).read(model)


class _Reader:
    """The reading of one model.

    Args:
      name: of the file, for errors.
      unroll_limit: operations that one loop may make.
      onnx: the package.
    """

    def __init__(self, name: str, unroll_limit: int, onnx: Any):
        self.name, self.onnx = name, onnx
        self.builder = _Builder(name, unroll_limit)
        self.weights: list[int] = []
        self.arrays: dict[str, np.ndarray] = {}  # Small values that are known.
        self.opsets: list[Any] = []
        self.version, self.place, self.depth = 0, "", 0

    def fail(self, fault: str) -> NoReturn:
        raise InputError(self.name, self.place, fault)

    def read(self, model: Any) -> tuple[Dataflow, list[int]]:
        """The dataflow, and the values of the initializers."""
        model = self.laid_open(model)
        self.opsets = list(model.opset_import)
        self.version = max((o.version for o in self.opsets if o.domain in DOMAINS), default=1)
        known: dict[str, Known] = {}
        self.hold(model.graph, known)
        arguments = []
        for value in model.graph.input:
            if value.name not in known:  # older writers list the initializers too
                self.place = f"input {shown(value.name)}"
                aval = self.aval(value.type)
                if aval is None:
                    self.fail(f"{_sizes(value.type)}: give --arg DTYPE[SHAPE] for each input")
                arguments.append(self.builder.value(aval, self.label(value.name, "input")))
                known[value.name] = arguments[-1], aval
        ends = self.walk(model.graph, known, "")
        leaves = [[v] for v in arguments]
        ends_of = [v for v, _ in ends]
        return self.builder.dataflow([*self.weights, *arguments], leaves, ends_of), self.weights

    def laid_open(self, model: Any) -> Any:
        """The model without functions: its own are inlined, and those of the standard that nothing
        here knows."""
        from onnx import defs, inliner

        with as_input_error(self.name, "its functions cannot be inlined"):
            if len(model.functions):
                model = inliner.inline_local_functions(model)
            listed = [("", op) for op in {*ONNX, *LAYOUTS}]
            ops = {n.op_type for n in model.graph.node if n.domain in DOMAINS}
            others = [op for op in ops - {*ONNX, *LAYOUTS} if defs.has(op)]
            if any(_has_body(defs.get_schema(op)) for op in others):
                model = inliner.inline_selected_functions(model, listed, True, True)
        if len(model.graph.node) > MAX_NODES:
            self.fail(f"more than {MAX_NODES:,} nodes, functions inlined")
        return model

    def label(self, text: str, default: str) -> str:
        return self.builder.distinct(shown(text, 200) or default)

    def hold(self, graph: Any, known: dict[str, Known]) -> None:
        """Takes in the initializers of a graph."""
        for tensor in graph.initializer:
            self.place = f"initializer {shown(tensor.name)}"
            known[tensor.name] = self.held(tensor, tensor.name)
        for sparse in graph.sparse_initializer:
            self.fail(f"{shown(sparse.values.name)}: sparse initializers are not read")

    def held(self, tensor: Any, name: str) -> Known:
        """The value of a tensor in the file: a weight, or nothing where it is one number."""
        if any(size < 0 for size in tensor.dims):
            self.fail("a size below 0")
        aval = jax.ShapeDtypeStruct(tuple(tensor.dims), self.dtype(tensor.data_type))
        if np.prod([float(size) for size in aval.shape]) <= FEW:
            try:
                self.arrays[name] = self.onnx.numpy_helper.to_array(tensor)
            except Exception:
                pass  # its numbers lie in another file; its shape is known
        value = self.builder.constant(aval, self.label(name, "constant"))
        if not isinstance(value, int):
            return None, aval
        self.weights.append(value)
        return value, aval

    def dtype(self, code: int) -> Any:
        with as_input_error(self.name, f"element type {code} is not read", self.place):
            dtype = jnp.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(code))
            assert not dtype.hasobject, "texts"
            return dtype

    def aval(self, kind: Any) -> Any:
        """The abstract array of a type; None where sizes are open or it is no tensor."""
        tensor = kind.tensor_type
        if not tensor.elem_type or not tensor.HasField("shape"):
            return None
        if any(not d.HasField("dim_value") or d.dim_value < 0 for d in tensor.shape.dim):
            return None
        sizes = tuple(d.dim_value for d in tensor.shape.dim)
        return jax.ShapeDtypeStruct(sizes, self.dtype(tensor.elem_type))

    def walk(self, graph: Any, known: dict[str, Known], scope: str) -> list[Known]:
        """Lays out a graph's nodes, in their order; returns the values it ends with."""
        for node in graph.node:
            op, self.place = shown(node.op_type), ""
            texts = (node.op_type, node.name, node.domain, *node.input, *node.output)
            if not all(isinstance(text, str) for text in texts):
                self.fail("a name that is no UTF-8 text")
            self.place = f"node {shown(node.name or ''.join(node.output[:1]) or op, 200)}"
            if node.domain not in DOMAINS:
                self.fail(f"{shown(node.domain)}.{op}: only ONNX's own operations are read")
            missing = next((i for i in node.input if i and i not in known), None)
            if missing is not None:
                self.fail(f"reads {shown(missing)!r}, which nothing before it makes")
            path = shown(node.name.strip("/").rpartition("/")[0], 200)
            where = "/".join(part for part in (scope, path) if part)
            with as_input_error(self.name, f"{op} does not fit its inputs", self.place):
                known.update(zip(node.output, self.node(node, known, where)))
        missing = next((value.name for value in graph.output if value.name not in known), None)
        if missing is not None:
            self.fail(f"the graph ends with {shown(missing)!r}, which nothing makes")
        return [known[value.name] for value in graph.output]

    def node(self, node: Any, known: dict[str, Known], scope: str) -> Sequence[Known]:
        """The values of one node's results."""
        op = node.op_type
        inputs: list[Any] = [known[i] if i else None for i in node.input]
        said = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
        arrays = [self.arrays.get(i) for i in node.input]
        if op == "If":
            return self.choice(inputs[0], arrays[0], said, known, scope)
        if op == "Loop":
            return self.loop(node, inputs, arrays, said["body"], known, scope)
        if op == "Constant" and "value" in said:
            return [self.held(said["value"], node.output[0])]
        if op in ("Shape", "Size"):
            shape = np.array(inputs[0][1].shape, np.int64)
            shape = shape[said.get("start", 0) : said.get("end")] if op == "Shape" else shape.prod()
            return [self.says(node.output[0], shape)]
        results = self.computed(node, [i for i in inputs if i], arrays)
        if results is not None:
            return results
        given = Given(op, said, arrays, len(node.output))
        if op in LAYOUTS:
            return self.laid_out(given, inputs, scope)
        return self.named(node, given, inputs, known, scope)

    def named(
        self, node: Any, given: Given, inputs: Sequence[Known | None], known: Any, scope: str
    ) -> list[Known]:
        """The values of an operation that is one primitive."""
        kind = ONNX.get(given.op, given.op)  # of unknown cost
        if given.get("reduction", "none") == "add":
            kind = "scatter-add"
        read = [pair for pair in inputs if pair]
        read = read[:1] if kind in FIRST else read
        params: dict[str, Any] = {}
        if kind.startswith("reduce_window"):
            params = {"window_dimensions": given.get("kernel_shape")}
        elif kind == "top_k":
            axis = given.get("axis", -1) % len(read[0][1].shape)
            params = {"k": given.whole(1, "k")[0], "dimension": axis}
        outputs = self.inferred(node, known)
        atoms, avals = [v for v, _ in read], [a for _, a in read]
        values = self.builder.emit(kind, scope, atoms, avals, outputs, params)
        if given.op == "AveragePool":
            values = self.builder.emit("div", scope, values, outputs, outputs, {})
        return list(zip(values, outputs))

    def inferred(self, node: Any, known: Mapping[str, Known]) -> list[Any]:
        """The abstract arrays of a node's results, by the package's inference."""
        helper = self.onnx.helper
        code = helper.np_dtype_to_tensor_dtype
        avals = {i: known[i][1] for i in node.input if i}
        types = {
            i: helper.make_tensor_type_proto(code(aval.dtype), aval.shape)
            for i, aval in avals.items()
        }
        numbers = {
            i: self.onnx.numpy_helper.from_array(self.arrays[i], i)
            for i in avals
            if i in self.arrays
        }
        schema = self.onnx.defs.get_schema(node.op_type, self.version, "")
        found = self.onnx.shape_inference.infer_node_outputs(
            schema, node, types, numbers, opset_imports=self.opsets
        )
        outputs = [self.aval(found[o]) if o in found else None for o in node.output]
        if None in outputs:
            self.fail(f"the shape that {shown(node.op_type)} makes is not known before it runs")
        return outputs

    def says(self, name: str, array: Any) -> Known:
        """A result whose numbers are known: no value, as a number in a program's text."""
        self.arrays[name] = array = np.asarray(array)
        return None, jax.ShapeDtypeStruct(array.shape, array.dtype)

    def computed(
        self, node: Any, inputs: Sequence[Known], arrays: Sequence[Any]
    ) -> list[Known] | None:
        """The results of an operation on few numbers that are known, and no weights; None of
        another one."""
        given = {i: a for i, a in zip(node.input, arrays) if i}
        if any(a is None for a in given.values()) or ONNX.get(node.op_type) == "random_bits":
            return None
        if any(v is not None and aval.dtype.name not in SAYING for v, aval in inputs):
            return None
        from onnx.reference import ReferenceEvaluator

        try:
            alone = {i: (None, array) for i, array in given.items()}
            made = self.inferred(node, alone) if alone else []
            if sum(float(np.prod(a.shape)) for a in (*given.values(), *made)) > FEW:
                return None
            results = ReferenceEvaluator(node).run(None, given)
        except Exception:
            return None
        return [self.says(o, array) for o, array in zip(node.output, results)]

    def laid_out(self, given: Given, inputs: Sequence[Known | None], scope: str) -> list[Known]:
        """The values of what a function of JAX lays out."""
        pairs = {i: pair for i, pair in enumerate(inputs) if pair}
        function = LAYOUTS[given.op](given)

        def spread(*arrays: Any) -> Any:
            at = dict(zip(pairs, arrays))
            return function(*[at.get(i) for i in range(len(inputs))])

        closed = jax.make_jaxpr(spread)(*(aval for _, aval in pairs.values()))
        inner = f"{scope}/{given.op}" if scope else given.op
        constants = [self.builder.array(c, jax.typeof(c)) for c in closed.consts]
        atoms = [atom for atom, _ in pairs.values()]
        values = self.builder.walk(closed.jaxpr, constants, atoms, inner)
        avals = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in closed.out_avals]
        return [(v if isinstance(v, int) else None, a) for v, a in zip(values, avals)]

    def inside(
        self, graph: Any, given: Sequence[Known], known: Mapping[str, Known], scope: str
    ) -> list[Known]:
        """The values that a graph within a node ends with."""
        if self.depth >= MAX_DEPTH:
            self.fail(f"graphs more than {MAX_DEPTH} within one another")
        inner = dict(known)
        self.hold(graph, inner)
        inner.update(zip((value.name for value in graph.input), given))
        for made in (*graph.input, *(o for n in graph.node for o in n.output)):
            self.arrays.pop(getattr(made, "name", made), None)
        self.depth += 1
        ends = self.walk(graph, inner, scope)
        self.depth -= 1
        return ends

    def choice(
        self, asked: Any, array: Any, said: Mapping[str, Any], known: Any, scope: str
    ) -> list[Known]:
        """The branch that the file chooses, or both and a selection, as of `lax.cond`."""
        branches = [said["then_branch"], said["else_branch"]]
        if array is not None:
            return self.inside(branches[not np.all(array)], (), known, scope)
        ends = [self.inside(branch, (), known, scope) for branch in branches]
        made = []
        for (yes, aval), (no, other) in zip(*ends):
            if aval.shape != other.shape:
                self.fail("an If whose branches end with different shapes")
            values, avals = [asked[0], yes, no], [asked[1], aval, other]
            made += self.builder.emit("select_n", scope, values, avals, [aval], {})
        return list(zip(made, [aval for _, aval in ends[0]]))

    def loop(
        self, node: Any, inputs: Any, arrays: Any, body: Any, known: Any, scope: str
    ) -> list[Known]:
        """The body as often as the file says; what its rounds stack is concatenated."""
        going = arrays[1] if len(inputs) > 1 and inputs[1] else True
        if arrays[0] is None or going is None or not np.all(going) or not self.goes_on(body):
            fault = "a Loop whose count is not in the file: export it unrolled, or with a count and"
            self.fail(f"{fault} no other condition")
        flag = None, jax.ShapeDtypeStruct((), np.dtype(bool))
        number = None, jax.ShapeDtypeStruct((), np.dtype(np.int64))
        carried, kept = list(inputs[2:]), len(inputs) - 2
        where, rows = f"{scope}/Loop".strip("/"), []
        for turn in self.builder.rounds(where, int(np.ravel(arrays[0])[0])):
            ends = self.inside(body, [number, flag, *carried], known, f"{where}.{turn}")
            carried, row = ends[1 : 1 + kept], ends[1 + kept :]
            rows.append(row)
        if len(node.output) > kept and not rows:
            self.fail("a Loop of no rounds stacks results, whose shape is not in the file")
        for parts in zip(*rows):
            values, avals = zip(*parts)
            whole = jax.ShapeDtypeStruct((len(parts), *avals[0].shape), avals[0].dtype)
            made = self.builder.emit("concatenate", where, values, avals, [whole], {})
            carried.append((made[0], whole))
        return carried

    def goes_on(self, body: Any) -> bool:
        """Whether a loop's body ends with the condition that it began with, or with truth."""
        makers = {o: n for n in body.node for o in n.output}
        name, maker = body.output[0].name, None
        while (maker := makers.get(name)) is not None and maker.op_type == "Identity":
            name = maker.input[0]
        tensors = [t for t in body.initializer if t.name == name]
        if maker is not None and maker.op_type == "Constant":
            tensors = [self.onnx.helper.get_attribute_value(maker.attribute[0])]
        if tensors:
            return bool(np.all(self.onnx.numpy_helper.to_array(tensors[0])))
        return len(body.input) > 1 and name == body.input[1].name


def _has_body(schema: Any) -> bool:
    return bool(schema.has_function or schema.has_context_dependent_function)


def _sizes(kind: Any) -> str:
    """What is wrong with the type of an input whose sizes are not fixed."""
    if kind.WhichOneof("value") != "tensor_type":
        return f"a value of type {shown(kind.WhichOneof('value'))}, where tensors are expected"
    sizes = [d.dim_param or str(d.dim_value or "?") for d in kind.tensor_type.shape.dim]
    return f"a dynamic shape, [{shown(', '.join(sizes))}]"
