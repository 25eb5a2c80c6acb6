"""ONNX: what a node costs is derived by hand or is the trace of the same function of JAX; shapes are
those that the standard's own tests state."""

import json
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cli_files import refusal
from learned_mapping.cli import main
from learned_mapping.doors import models
from learned_mapping.doors.models import read_model
from learned_mapping.errors import InputError
from learned_mapping.programs.trace.graph import trace

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402, after the skip


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """The parser within this process: others begin by importing JAX."""

    def run(command, *, input, **options):
        code, text = models.answer(json.loads(command[-1]), input)
        out, err = ("", text) if code else (text, "")
        return subprocess.CompletedProcess(command, code, out.encode(), err.encode())

    monkeypatch.setattr(models.subprocess, "run", run)


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def saved(folder, text, weights=(), opset=20):
    """A file of a graph as the package's parser reads it, and weights of these names and shapes."""
    graph = parser.parse_graph(text)
    for name, shape in dict(weights).items():
        numbers = np.zeros(shape, np.float32)
        graph.initializer.append(numpy_helper.from_array(numbers, name))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    path = folder / "model.bin"
    path.write_bytes(model.SerializeToString())
    return path


def product(a, w):
    return a @ w


def dense(x, w, b):
    return jax.nn.relu(x @ w + b)


def attention(q, k, v):
    scores = jnp.matmul(q, k) * np.float32(0.25)
    return jnp.matmul(jax.nn.softmax(scores, -1), v)


def layer_norm(x, scale, bias):
    apart = x - x.mean(-1, keepdims=True)
    spread = (apart * apart).mean(-1, keepdims=True)
    return apart * jax.lax.rsqrt(spread + np.float32(1e-5)) * scale + bias


def convolved(x, w, b):
    y = jax.lax.conv_general_dilated(x, w, (2, 2), ((1, 1), (1, 1)), feature_group_count=2)
    return y + b.reshape(1, -1, 1, 1)


def pooled(x):
    window = (1, 1, 2, 2)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")


def shuffled(x):
    y = jnp.concatenate([x.transpose(1, 0), jnp.zeros((1, 4), x.dtype)], 0)[1:]
    return y.reshape(2, 3, 2).sum(1)


CASES = {
    "product": (
        product,
        (array(2, 8, 16), array(16, 4)),
        "g (float[2,8,16] x) => (float[2,8,4] y) { y = MatMul(x, w) }",
        2 * 2 * 8 * 16 * 4,
    ),
    "dense": (
        dense,
        (array(8, 16), array(16, 4), array(4)),
        "g (float[8,16] x) => (float[8,4] y) { a = Gemm(x, w, b) y = Relu(a) }",
        2 * 8 * 16 * 4 + 2 * 8 * 4,
    ),
    "attention": (
        attention,
        (array(2, 4, 8, 16), array(2, 4, 16, 8), array(2, 4, 8, 16)),
        """g (float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v) => (float[2,4,8,16] y)
        { s = MatMul(q, k) c = Constant <value = float {0.25}> () t = Mul(s, c)
          p = Softmax <axis = -1> (t) y = MatMul(p, v) }""",
        # two products, the scale, and a softmax, whose largest is compared with the least number
        2 * 2 * 2 * 4 * 8 * 16 * 8 + 512 + (1 + 1 + 10 + 1 + 1) * 512 + 64,
    ),
    "layer norm": (
        layer_norm,
        (array(8, 32), array(32), array(32)),
        "g (float[8,32] x) => (float[8,32] y) { y = LayerNormalization (x, w, b) }",
        # two means of a sum and a quotient; four of an element, a root, a sum, two, and the rest
        2 * (8 * 32 + 8) + (1 + 1) * 8 * 32 + (1 + 10) * 8 + 3 * 8 * 32,
    ),
    "convolution": (
        convolved,
        (array(1, 4, 9, 9), array(6, 2, 3, 3), array(6)),
        """g (float[1,4,9,9] x) => (float[1,6,5,5] y)
        { y = Conv <group = 2, strides = [2, 2], pads = [1, 1, 1, 1]> (x, w, b) }""",
        2 * 6 * 25 * 2 * 9 + 6 * 25,
    ),
    "pool": (
        pooled,
        (array(1, 3, 8, 8),),
        """g (float[1,3,8,8] x) => (float[1,3,4,4] y)
        { y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) }""",
        4 * 3 * 16,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_costs_what_its_trace_costs(name, tmp_path):
    """The same function by both doors and by hand: catches an operation under another primitive's
    rule, a weight that is an input, or one that counts twice."""
    function, args, text, flop = CASES[name]
    names = ("w", "b")[: len(args) - 1] if name != "attention" else ()
    shapes = {held: arg.shape for held, arg in zip(names, args[1:])}
    graph = read_model(saved(tmp_path, text, shapes), None, "model")
    traced = trace(function, *args, parameters=tuple(range(1, 1 + len(names))))
    assert graph.op_flop.sum() == traced.op_flop.sum() == flop
    weights = 4 * sum(np.prod(shape) for shape in shapes.values())
    assert graph.op_weight_bytes.sum() == traced.op_weight_bytes.sum() == weights
    assert sorted(graph.op_kinds) == sorted(traced.op_kinds)
    assert graph.tensor_bytes.sum() == traced.tensor_bytes.sum()


def test_a_shape_is_computed_from_the_file(tmp_path):
    """What exporters write around a reshape (shape, gather, arithmetic, concatenation) is no op of
    the graph, and the reshape has its sizes: catches shapes left open, and arithmetic that costs."""
    path = saved(
        tmp_path,
        """g (float[6,4] x) => (float[n,m] y) {
        s = Shape (x) i = Constant <value = int64 {0}> () n = Gather (s, i)
        two = Constant <value = int64 {2}> () half = Div (n, two)
        axes = Constant <value = int64[1] {0}> () h = Unsqueeze (half, axes)
        rest = Constant <value = int64[1] {-1}> () sizes = Concat <axis = 0> (h, rest)
        r = Reshape (x, sizes) y = Exp (r) }""",
    )
    graph = read_model(path, None)
    assert graph.op_kinds == ("input", "reshape", "exp") and graph.op_flop.sum() == 10 * 24
    assert graph.tensor_bytes.tolist() == [96, 96, 96]


LSTM = "g (float[5,2,8] x) => (float[5,1,2,16] y) { y = LSTM <hidden_size = 16> (x, w, b) }"
LOOP = """g (float[4,4] x) => (float[4,4] y) {{
  count = Constant <value = int64 {{{count}}}> () {going}
  y = Loop (count, {condition}, x) <body = b (int64 i, bool c, float[4,4] a) =>
    (bool d, float[4,4] e) {{ d = Identity (c) e = MatMul (a, a) }}> }}"""


def test_a_recurrence_is_a_cell_a_step(tmp_path):
    """By hand: a product of all steps' inputs and one of the state in each, whose weights every
    step holds."""
    shapes = {"w": (1, 64, 8), "b": (1, 64, 16)}
    graph = read_model(saved(tmp_path, LSTM, shapes), None)
    kinds = list(zip(graph.op_kinds, graph.op_flop, graph.op_weight_bytes))
    products = [(flop, held) for kind, flop, held in kinds if kind == "dot_general"]
    step = 2.0 * 2 * 16 * 64, 4 * 64 * 16
    assert sorted(products) == [step] * 5 + [(2.0 * 5 * 2 * 8 * 64, 4 * 64 * 8)]


def test_a_loop_is_its_body_as_often_as_the_file_says(tmp_path):
    """Six products for six rounds; without a count it is refused by name."""
    true = "t = Constant <value = bool {1}> ()"
    text = LOOP.format(count=6, going=true, condition="t")
    graph = read_model(saved(tmp_path, text), None)
    assert graph.op_flop.sum() == 6 * 2 * 4**3
    text = "g (float[4,4] x, int64 count) => (float[4,4] y) {" + text.partition(true)[2]
    path = saved(tmp_path, text.replace("(count, t,", "(count, ,"))
    with pytest.raises(InputError, match="a Loop whose count is not in the file"):
        read_model(path, None)


def test_what_is_not_known_is_counted_and_said(tmp_path, capsys):
    """An operation of the standard without a rule costs one an element, and the command says so:
    catches work that is left out in silence."""
    text = """g (float[1,3,8,8] x, float[1,4,4,2] at) => (float[1,3,4,4] y) { y = GridSample (x, at) }"""
    path, out = saved(tmp_path, text), tmp_path / "g.json"
    assert main(["trace", str(path), "--out", str(out)]) == 0
    assert "GridSample" in capsys.readouterr().err
    assert sum(op["flop"] for op in json.loads(out.read_text())["ops"]) == 48


def test_sizes_that_a_file_leaves_open_are_given(tmp_path, capsys):
    """With --arg the graph has them, without it is refused and told."""
    text = "g (float[batch,8] x) => (float[batch,2] y) { y = MatMul(x, w) }"
    path, out = saved(tmp_path, text, {"w": (8, 2)}), tmp_path / "g.json"
    words = ["trace", str(path), "--out", str(out)]
    line = refusal(capsys, *words)
    assert "a dynamic shape, [batch, 8]: give --arg" in line
    assert main([*words, "--arg", "f32[5,8]"]) == 0
    assert sum(op["flop"] for op in json.loads(out.read_text())["ops"]) == 2 * 5 * 8 * 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("g (float[2] x) => (float[2] y) { y = com.theirs.Op(x) }", "com.theirs.Op"),
        ("g (float[2] x) => (float[2] y) { y = Nothing(x) }", "Nothing"),
        ("g (float[2] x) => (float[2] y) { y = Exp(z) }", "reads 'z'"),
        ("g (float[2] x) => (float[2] y) { z = Exp(x) }", "ends with 'y'"),
        ("g (float[2] x) => (int64[1,n] y) { y = NonZero(x) }", "before it runs"),
        ("g (float[2,3] x, float[4] z) => (float[n] y) { y = Add(x, z) }", "node y"),
        ("g (float[2,3] x) => (float[n] y) { y = MatMul(x, x) }", "does not fit its inputs"),
        ("g (string[2] x) => (string[2] y) { y = Identity(x) }", "element type 8"),
        ("g (float[99999999,99999999] x) => (float[n,m] y) { y = MatMul(x, x) }", "outside"),
    ],
)
def test_what_is_not_read_is_one_line(text, named, tmp_path):
    """Catches a traceback, or a graph of something else."""
    with pytest.raises(InputError, match=named.replace("(", r"\(")) as told:
        read_model(saved(tmp_path, text), None)
    assert "\n" not in str(told.value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the standard's own reference
def test_the_standards_own_nodes_have_their_shapes(tmp_path):
    """Of every eighth of the standard's tests of one node: the results have the shapes that these
    tests expect, and what is refused is an error of ours."""
    from onnx.backend.test.case.node import collect_testcases

    cases = [case for case in collect_testcases(None) if case.model is not None][::8]
    read = 0
    for case in cases:
        path = tmp_path / "node"
        given, wanted = case.data_sets[0]
        graph = case.model.graph
        for value, numbers in list(zip(graph.input, given))[1:]:
            if isinstance(numbers, np.ndarray) and numbers.size <= 64 and numbers.dtype != object:
                graph.initializer.append(numpy_helper.from_array(numbers, value.name))
        path.write_bytes(case.model.SerializeToString())
        try:
            made = read_model(path, (), case.name)
        except InputError:
            continue
        ends = made.tensor_bytes[made.tensor_is_output]
        sizes = [np.asarray(w).nbytes for w in wanted if isinstance(w, np.ndarray) and w.ndim]
        if len(sizes) == len(ends) and "int4" not in case.name:
            assert sorted(ends.tolist()) == sorted(sizes), case.name
            read += 1
    assert read > len(cases) / 2


def test_weights_in_another_file_have_their_shapes(tmp_path):
    """A model whose numbers lie beside it, as large ones do, is read without them."""
    path = saved(tmp_path, "g (float[2,8] x) => (float[2,4] y) { y = MatMul(x, w) }")
    model = onnx.load(path)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8, 4])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../nowhere.bin")
    model.graph.initializer.append(tensor)
    path.write_bytes(model.SerializeToString())
    graph = read_model(path, None)
    assert graph.op_weight_bytes.sum() == 128 and graph.op_flop.sum() == 128
