"""Torch modules as graphs, where torch is installed: weights, FLOP by torch's own counter, and what
is refused."""

import json
import zipfile

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from learned_mapping.cli import main
from learned_mapping.doors.torch_module import trace_module
from learned_mapping.doors.user_function import is_torch, load_example
from learned_mapping.programs.trace.graph import trace

MODELS = """
import torch
from torch import nn
def convolutions():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8, track_running_stats=False), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, groups=2), nn.GroupNorm(4, 16), nn.GELU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 10), nn.Softmax(-1)), (torch.zeros(2, 3, 16, 16),)
def transformer():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 2), (torch.zeros(2, 8, 32),)
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn, self.out = nn.Embedding(50, 16), nn.GRU(16, 32), nn.Linear(32, 50)
    def forward(self, words):
        return self.out(self.rnn(self.embedding(words))[0])
def recurrent():
    return Tagger(), (torch.zeros(5, 2, dtype=torch.long),)
class Odd(nn.Module):
    def forward(self, x, i):
        y = torch.zeros(5, 4).index_put((i, i % 4), x)
        y[0] = 1.0
        return torch.sort(y)[0], torch.topk(y, 2).values, torch.fft.rfft(y), y.scatter(0, i[None], 3.0), y.cumsum(0)
def odd():
    return Odd(), (torch.zeros(3), torch.arange(3))
def in_training():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.2)).train(), (torch.zeros(2, 3, 8, 8),)
class Product(nn.Module):
    def forward(self, x, y):
        return x @ y
def bare():
    return Product(), (torch.zeros(8, 8), torch.zeros(8, 4))
class Branches(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
def branches():
    return Branches(), (torch.zeros(3),)
def dynamic():
    shapes = ({0: torch.export.Dim("batch", min=2)},)
    return torch.export.export(nn.Linear(4, 4), (torch.zeros(3, 4),), dynamic_shapes=shapes), ()
def wrong_input():
    return nn.Linear(4, 4), (torch.zeros(3, 5),)
dense = nn.Linear(512, 256)
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "their_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return "their_models.py"


def traced(spec, *more):
    """The graph file that the command writes."""
    assert main(["trace", spec, "--out", "graph.json", *more]) == 0
    with open("graph.json", encoding="utf-8") as stream:
        return json.load(stream)


def total(graph, field, kinds=()):
    """The sum of a field over the ops of a graph file, or over those of some kinds."""
    return sum(op.get(field, 0) for op in graph["ops"] if not kinds or op["kind"] in kinds)


@pytest.mark.parametrize("name", ["convolutions", "transformer", "recurrent"])
def test_weights_and_flop_are_torchs(models, name):
    """Every parameter counts once in the model's size; contractions have the FLOP that torch counts
    itself."""
    from torch.utils.flop_counter import FlopCounterMode

    module, args = load_example(f"{models}:{name}")[:2]
    graph = traced(f"{models}:{name}")
    assert graph["metadata"]["parameter_bytes"] == sum(
        p.numel() * p.element_size() for p in module.parameters()
    )
    assert graph["metadata"].get("unknown_ops", {}) == {}
    if name != "recurrent":  # the counter does not know a fused recurrent layer
        assert total(graph, "weight_bytes") == graph["metadata"]["parameter_bytes"]
        with FlopCounterMode(display=False) as counter:
            module(*args)
        contractions = ("dot_general", "conv_general_dilated")
        assert total(graph, "flop", contractions) == counter.get_total_flops() > 0


def test_a_dense_layer_is_what_jax_makes_of_it(models, tmp_path):
    """Would catch a contraction or a bias that costs something else than in JAX."""
    (tmp_path / "ours.py").write_text("def dense(w, b, x):\n    return x @ w + b\n")
    torchs = traced(f"{models}:dense", "--arg", "f32[8,512]")
    args = [
        "--arg",
        "f32[512,256]",
        "--arg",
        "f32[256]",
        "--arg",
        "f32[8,512]",
        "--parameters",
        "0,1",
    ]
    jaxs = traced("ours.py:dense", *args)
    assert total(torchs, "weight_bytes") == total(jaxs, "weight_bytes") == 4 * (512 * 256 + 256)
    assert total(torchs, "flop") == 2 * 8 * 512 * 256  # torch counts no bias
    assert total(jaxs, "flop") == total(torchs, "flop") + 8 * 256


def shape(*sizes, dtype="float32"):
    return jax.ShapeDtypeStruct(sizes, jnp.dtype(dtype))


def pooled(*window):
    """The largest of each window, in JAX."""
    return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")


def layer_norm(x, w):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * w + w


def graph_of(function, *args, **more):
    """The graph of a function that takes torch itself first, as a module's."""
    torch = pytest.importorskip("torch")

    class Module(torch.nn.Module):
        def forward(self, *tensors):
            return function(torch, *tensors)

    return trace_module(Module(), args, **more)


LINES, COLUMN, CUBE, IMAGE = (
    [shape(4, 16)],
    [shape(1024, 1)],
    [shape(1, 4, 8, 8, 8)],
    [shape(1, 4, 8, 64)],
)
WAVES, TALL, SQUARE = [shape(8, 33, dtype="complex64")], [shape(6, 4)], [shape(4, 4)]
ROWS = [shape(1000, 8), shape(5, dtype="int32"), shape(5, 8)]
PAIRS = [
    ("sort", 10240, COLUMN, lambda t, x: x.sort(0)[0], lambda x: jnp.sort(x, 0)),
    (
        "sort",
        10240,
        COLUMN,
        lambda t, x: t.sort(x, stable=True, dim=-2)[0],
        lambda x: jnp.sort(x, 0),
    ),
    ("sort", 1024, COLUMN, lambda t, x: x.argsort(), jnp.argsort),
    (
        "top_k",
        3072,
        COLUMN,
        lambda t, x: x.topk(k=8, dim=0)[0],
        lambda x: lax.top_k(x, 8, axis=0)[0],
    ),
    ("fft", 7680, WAVES, lambda t, x: t.fft.irfft(x), jnp.fft.irfft),
    ("fft", 11520, WAVES, lambda t, x: t.fft.irfft2(x), jnp.fft.irfft2),
    ("fft", 7680, [shape(8, 64)], lambda t, x: t.fft.rfft(x), jnp.fft.rfft),
    ("fft", 23040, [shape(8, 64)], lambda t, x: t.fft.fft2(x), jnp.fft.fft2),
    ("fft", 112640, [shape(4, 8, 64)], lambda t, x: t.fft.fftn(x), jnp.fft.fftn),
    ("", 2048, CUBE, lambda t, x: t.nn.MaxPool3d(2)(x), pooled(1, 1, 2, 2, 2)),
    ("", 2048, CUBE, lambda t, x: t.nn.MaxPool3d((2,))(x), pooled(1, 1, 2, 2, 2)),
    ("", 2048, IMAGE, lambda t, x: t.nn.MaxPool2d(2)(x), pooled(1, 1, 2, 2)),
    ("", 2048, IMAGE, lambda t, x: t.nn.AvgPool2d((2,))(x), pooled(1, 1, 2, 2)),
    ("", 2048, CUBE, lambda t, x: t.nn.AvgPool3d(2)(x), pooled(1, 1, 2, 2, 2)),
    ("", 2048, IMAGE, lambda t, x: t.nn.AdaptiveMaxPool2d(1)(x), lambda x: x.max((2, 3))),
    (
        "scatter-add",
        40,
        ROWS,
        lambda t, x, i, u: x.index_add(0, i, u),
        lambda x, i, u: x.at[i].add(u),
    ),
    ("scatter", 0, ROWS, lambda t, x, i, u: x.index_put((i,), u), lambda x, i, u: x.at[i].set(u)),
    ("", 64, LINES, lambda t, x: x**2, lambda x: x**2),
    ("", 3 * 64, LINES, lambda t, x: x**-3, lambda x: x**-3),
    ("pow", 640, LINES, lambda t, x: x**2.0, lambda x: x**2.0),
    ("pow", 640, LINES, lambda t, x: x**0.5, lambda x: x**0.5),
    ("pow", 640, LINES, lambda t, x: 2**x, lambda x: 2**x),
    ("pow", 640, LINES * 2, lambda t, x, y: x**y, lambda x, y: x**y),
    ("cholesky", 64 / 3, SQUARE, lambda t, x: t.linalg.cholesky(x), jnp.linalg.cholesky),
    ("qr geqrf householder_product", 896 / 3, TALL, lambda t, x: t.linalg.qr(x), jnp.linalg.qr),
    ("svd", 1920, TALL, lambda t, x: t.linalg.svd(x), jnp.linalg.svd),
    (
        "svd",
        896 / 3,
        TALL,
        lambda t, x: t.linalg.svdvals(x),
        lambda x: jnp.linalg.svd(x, compute_uv=False),
    ),
    ("eigh", 576, SQUARE, lambda t, x: t.linalg.eigh(x), jnp.linalg.eigh),
    ("eig", 1600, SQUARE, lambda t, x: t.linalg.eig(x), jnp.linalg.eig),
    ("eig", 640, SQUARE, lambda t, x: t.linalg.eigvals(x), jnp.linalg.eigvals),
    ("lu", 128 / 3, SQUARE, lambda t, x: t.linalg.lu_factor(x), jax.scipy.linalg.lu_factor),
    (
        "triangular_solve",
        32,
        [*SQUARE, shape(4, 2)],
        lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True),
        jax.scipy.linalg.solve_triangular,
    ),
    ("", 64, LINES, lambda t, x: x.max(1)[0], lambda x: x.max(1)),
    ("", 64, LINES, lambda t, x: x.min(), lambda x: x.min()),
    ("", 64, LINES * 2, lambda t, x, y: t.max(x, y), jnp.maximum),
    ("", 138, LINES, lambda t, x: t.linalg.norm(x), jnp.linalg.norm),
    ("", 192, LINES, lambda t, x: t.nn.LeakyReLU()(x), jax.nn.leaky_relu),
    ("", 960, LINES, lambda t, x: t.nn.ELU()(x), jax.nn.elu),
    (
        "",
        564,
        [*LINES, shape(16)],
        lambda t, x, w: t.nn.functional.layer_norm(x, (16,), w, w),
        layer_norm,
    ),
    (
        "",
        304,
        [*LINES, shape(16)],
        lambda t, x, w: t.nn.functional.rms_norm(x, (16,), w, 1e-5),
        lambda x, w: x * lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w,
    ),
]
"""Kinds of op, or all of them; their FLOP; abstract arrays; the function in torch; the function in
JAX."""


@pytest.mark.parametrize(("kind", "flop", "args", "theirs", "ours"), PAIRS)
def test_an_operation_costs_what_it_costs_in_jax(kind, flop, args, theirs, ours):
    """Would catch an axis, a length, a window or an exponent that is not read, and an operation
    without a primitive."""
    for graph in (graph_of(theirs, *args), trace(ours, *args)):
        assert "unknown_ops" not in graph.metadata
        named = kind.split() or graph.op_kinds
        counted = [f for k, f in zip(graph.op_kinds, graph.op_flop.tolist()) if k in named]
        assert counted and sum(counted) == pytest.approx(flop), graph.op_kinds


def test_an_operand_that_is_used_twice_counts_twice():
    """Would catch a scatter that loses its update, which would be a selection; each use is one
    operand."""
    graph = graph_of(
        lambda t, x, i: x.scatter_add(0, i.long(), x), shape(8, 3), shape(8, 3, dtype="int32")
    )
    assert graph.op_flop.tolist()[-1] == 24 and graph.op_kinds[-1] == "scatter-add"


def test_checked_linear_algebra_is_read_through_its_check():
    """Would catch the refusal of an operation whose errors are checked, a check that becomes an op,
    an input or an output, and an operation of unknown cost that is not told of."""
    solver = lambda t, x: t.linalg.matrix_exp(t.linalg.cholesky(x))  # noqa: E731
    graph = graph_of(solver, *SQUARE, parameters=[0])
    assert sorted(graph.op_kinds) == ["cholesky", "linalg_matrix_exp"]
    assert graph.metadata["unknown_ops"] == {"linalg_matrix_exp": 1}
    assert graph.metadata["parameter_bytes"] == 64 and graph.tensor_is_output.sum() == 1


def test_inverses_and_solutions_have_their_closed_forms():
    """Would catch linear algebra of torch's own charged one per element: 2 n^3 for an inverse, 2/3
    n^3 and 2 n^2 a column for a solution, of every matrix."""
    torch = pytest.importorskip("torch")

    class Both(torch.nn.Module):
        def forward(self, x, y):
            return torch.linalg.inv(x), torch.linalg.solve(x, y)

    graph = trace_module(Both(), (torch.zeros(3, 8, 8), torch.zeros(3, 8, 5)))
    expected = 3 * (2 * 8**3 + 2 / 3 * 8**3 + 2 * 8**2 * 5)
    assert graph.op_flop.sum() == pytest.approx(expected, rel=0.01)
    assert "unknown_ops" not in graph.metadata


def test_odd_operations_and_programs(models):
    """Scatters, selections, transforms and scans cost something known; a program comes of a module
    as well."""
    graph = traced(f"{models}:odd")
    assert {"scatter", "sort", "top_k", "fft", "cumsum"} <= {op["kind"] for op in graph["ops"]}
    assert "unknown_ops" not in graph["metadata"]
    assert traced(f"{models}:transformer", "--program")["schema"] == "learned-mapping/program/1"


@pytest.mark.parametrize(
    ("spec", "more", "said"),
    [
        ("branches", (), "holds functions of its own"),
        ("dynamic", (), "a dynamic shape"),
        ("wrong_input", (), "cannot be exported by torch"),
        ("dense", (), "is a torch module: give --arg"),
        ("dense", ("--arg", "f32[8,512]", "--check"), "--check"),
        ("dense", ("--arg", "f32[8,512]", "--parameters", "3"), "no argument has position 3"),
    ],
)
def test_what_cannot_be_a_graph_is_said_in_a_line(models, spec, more, said, capsys):
    """Bad modules end in one line and exit code 2, and leave no file."""
    assert main(["trace", f"{models}:{spec}", "--out", "graph.json", *more]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error.splitlines()[-1], error


def test_a_jax_function_is_no_torch_module():
    """The question does not import torch."""
    assert not is_torch(len) and not is_torch(object())


ONNX = """
import onnx, onnx2torch, torch
from onnx import TensorProto, helper
def model():
    weight = helper.make_tensor("w", TensorProto.FLOAT, [16, 8], [0.5] * 128)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, s]) for n, s in (("x", 16), ("y", 8))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "dense", ends[:1], ends[1:], [weight])
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return onnx2torch.convert(onnx_model), (torch.zeros(4, 16),)
"""


def test_onnx_comes_in_as_a_torch_module(tmp_path, monkeypatch):
    """The recipe of the README, where its packages are installed."""
    pytest.importorskip("onnx2torch")
    (tmp_path / "their_onnx.py").write_text(ONNX)
    monkeypatch.chdir(tmp_path)
    graph = traced("their_onnx.py:model")
    assert (
        total(graph, "flop", ("dot_general",)) == 2 * 4 * 16 * 8
        and total(graph, "weight_bytes") == 4 * 16 * 8
    )


@pytest.mark.parametrize(
    "name", ["convolutions", "transformer", "recurrent", "odd", "in_training", "bare"]
)
def test_an_archive_is_its_module(models, name, tmp_path):
    """`torch.export.save`'s file, whatever its name, is op by op the module's own graph, though the
    numbers of its weights are cut out of it: catches weights without a shape, and a pickle that is
    opened."""
    import torch

    module, args = load_example(f"{models}:{name}")[:2]
    torch.export.save(torch.export.export(module, args), tmp_path / "whole.pt2")
    with (
        zipfile.ZipFile(tmp_path / "whole.pt2") as whole,
        zipfile.ZipFile("m.dat", "w") as left,
    ):
        for entry in whole.infolist():
            if entry.filename.endswith(".json") or "weight_0" in entry.filename:
                left.writestr(entry.filename, whole.read(entry))
    graph = traced("m.dat", "--name", name)
    own = traced(f"{models}:{name}")
    assert graph["ops"] == own["ops"] and graph["tensors"] == own["tensors"]
    assert graph["metadata"]["parameter_bytes"] == own["metadata"]["parameter_bytes"]


def test_an_exported_program_holds_its_inputs(models, tmp_path):
    """A function may return a program alone, or be one."""
    (tmp_path / "alone.py").write_text(
        "import torch\n"
        "def program():\n"
        "    return torch.export.export(torch.nn.Linear(4, 3), (torch.zeros(2, 4),))\n"
        "held = program()\n"
    )
    graphs = [traced("alone.py:program"), traced("alone.py:held")]
    for graph in graphs:
        assert total(graph, "weight_bytes") == 4 * (4 * 3 + 3)
        assert total(graph, "flop", ("dot_general",)) == 2 * 2 * 4 * 3


def test_an_open_size_in_an_archive_is_refused(models, tmp_path, capsys):
    """Torch evaluates the text of such a size, so that it does not get there."""
    import torch

    program = load_example(f"{models}:dynamic").function
    torch.export.save(program, "m.pt2")
    assert main(["trace", "m.pt2", "--out", "graph.json"]) == 2
    assert "a dynamic shape: export it with fixed shapes" in capsys.readouterr().err
