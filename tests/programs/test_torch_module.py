"""Torch modules as graphs, where torch is installed: weights, FLOP by torch's own counter, and what is refused."""

import json

import pytest

from learned_mapping.cli import main
from learned_mapping.programs.trace.user_function import is_torch, load_example

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
    """Every parameter counts once in the model's size; contractions have the FLOP that torch counts itself."""
    from torch.utils.flop_counter import FlopCounterMode

    module, args = load_example(f"{models}:{name}")[:2]
    graph = traced(f"{models}:{name}")
    assert graph["metadata"]["parameter_bytes"] == sum(p.numel() * p.element_size() for p in module.parameters())
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
    args = ["--arg", "f32[512,256]", "--arg", "f32[256]", "--arg", "f32[8,512]", "--parameters", "0,1"]
    jaxs = traced("ours.py:dense", *args)
    assert total(torchs, "weight_bytes") == total(jaxs, "weight_bytes") == 4 * (512 * 256 + 256)
    assert total(torchs, "flop") == 2 * 8 * 512 * 256  # torch counts no bias
    assert total(jaxs, "flop") == total(torchs, "flop") + 8 * 256


def test_odd_operations_and_programs(models):
    """Scatters, selections, transforms and scans cost something known; a program comes of a module as well."""
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
    assert total(graph, "flop", ("dot_general",)) == 2 * 4 * 16 * 8 and total(graph, "weight_bytes") == 4 * 16 * 8
