"""The doors: a file is what its bytes say, costs the same through each, and tells its way where it
is not read."""

import gzip
import io
import json
import pickle
import random
import zipfile

import jax
import jax.numpy as jnp
import pytest
from learned_mapping_builders import zoo

from cli_files import GRAPH, refusal
from damaged_models import exported
from learned_mapping.cli import main
from learned_mapping.doors import models, torch_archive
from learned_mapping.doors.models import read_model
from learned_mapping.doors.sources import is_function, read_graph_of
from learned_mapping.doors.wire import without_numbers
from learned_mapping.errors import InputError
from learned_mapping.programs import recognition
from learned_mapping.programs.trace.dataflow import flatten
from learned_mapping.programs.trace.graph import trace
from learned_mapping.programs.trace.parameters import guessed


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def classifier(words, table, weight, bias, scale, head):
    """An embedding, a hidden layer, a normalisation and a head."""
    hidden = jax.nn.relu(table[words].mean(0) @ weight + bias)
    spread = jnp.mean(hidden * hidden, -1, keepdims=True)
    return (hidden * jax.lax.rsqrt(spread + 1e-5) * scale) @ head


ARGUMENTS = (
    array(7, 4, dtype=jnp.int32),
    array(100, 32),
    array(32, 64),
    array(64),
    array(64),
    array(64, 10),
)
WEIGHT_BYTES = 4 * (100 * 32 + 32 * 64 + 64 + 64 + 64 * 10)
PRODUCTS = 2 * 4 * (32 * 64 + 64 * 10)
"""FLOP of the two products alone, by hand."""


def archive(names, text=b"{}"):
    """A zip archive of files with these names, the same bytes whenever it is written."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name in names:
            made.writestr(zipfile.ZipInfo(name), text)
    return stream.getvalue()


@pytest.fixture(scope="module")
def writers():
    """The classifier as each of JAX's writers leaves it."""
    lowered = jax.jit(classifier).lower(*ARGUMENTS)
    bytecode = jax.export.export(jax.jit(classifier))(*ARGUMENTS).mlir_module_serialized
    return {
        recognition.TEXT: lowered.as_text().encode(),
        recognition.BYTECODE: bytecode,
        recognition.EXPORTED: exported(bytecode),
    }


KINDS = {
    b'{"schema": "learned-mapping/graph/1"}': recognition.JSON,
    b"\xef\xbb\xbf  [1]": recognition.JSON,
    b'# of a run\nnode { name: "x" }': recognition.COSTGRAPH,
    b"cost_graph {\n node { }\n}": recognition.COSTGRAPH,
    b"id,lower,upper,size\na,0,1,2\n": recognition.MINIMALLOC,
    b"\xef\xbb\xbfid,lower,upper,size\r\na,0,1,2\r\n": recognition.MINIMALLOC,
    b"// by hand\n#loc = loc(unknown)\nmodule @m {\n}": recognition.TEXT,
    b"WARNING: all messages before\nmodule @m {\n}": recognition.TEXT,
    b'"builtin.module"() ({\n}) : () -> ()': recognition.TEXT,
    b"\x08\x0a\x12\x07pytorch\x3a\x80\x01": recognition.ONNX,
    archive(["m/data/weights/weight_0", "m/models/model.json"]): recognition.ARCHIVE,
}
TOLD = {
    b"HloModule jit_f, entry_computation_layout={}": "as_text()",
    b"digraph {\n a -> b\n}": "`seconds`",
    b"<?xml version='1.0'?>\n<adag name='x'>": "DAX",
    b"<graphml>": "XML",
    b"  3\n 0 1 0\n 1 2 1 0\n 2 1 1 1\n": "STG",
    b"\x1c\x00\x00\x00TFL3\x14\x00": "TFLite",
    b"\xff\xfe{\x00": "UTF-8",
    b"GGUF\x03\x00": "weights alone",
    b"\x89HDF\r\n\x1a\n": "Keras",
    b'\x40\x00\x00\x00\x00\x00\x00\x00{"__metadata__":{}}': "safetensors",
    pickle.dumps([1]): "never opened",
    archive(["m/data.pkl"]): "torch.export.save",
    archive(["arr_0.npy"]): "zip archive",
    b"?!": "nor another kind",
}


@pytest.mark.parametrize("data", KINDS, ids=lambda data: repr(data[:12]))
def test_a_kind_is_its_bytes(data):
    """Catches a kind known by its ending alone, or hidden by a mark, a comment or a line before."""
    assert recognition.kind_of(data) == KINDS[data]


def test_jaxs_writers_are_told_apart(writers):
    """Catches a serialised export taken for another FlatBuffer, or for nothing."""
    assert {kind: recognition.kind_of(data) for kind, data in writers.items()} == {
        kind: kind for kind in writers
    }


def test_jax_writes_what_is_recognised(writers):
    """A file of `jax.export` itself, where the package that it needs is there; cut off it is no
    module."""
    pytest.importorskip("flatbuffers")
    data = jax.export.export(jax.jit(classifier))(*ARGUMENTS).serialize()
    assert recognition.kind_of(bytes(data)) == recognition.EXPORTED
    module = recognition.exported_module(bytes(data))
    assert module[:4] == b"ML\xefR" and len(module) == len(writers[recognition.BYTECODE])
    assert recognition.exported_module(bytes(data[:-2000])) is None


@pytest.mark.parametrize("data", TOLD, ids=lambda data: repr(data[:12]))
@pytest.mark.parametrize("command", ["trace", "solve"])
def test_what_is_not_read_is_told_the_way(data, command, tmp_path, capsys):
    """In both commands, whatever the name: catches a parser's own words for another's file."""
    path, out = tmp_path / "model.mlir", tmp_path / "g.json"
    path.write_bytes(data)
    method = ["regal", str(path), "--method", "list-scheduler"]
    words = method if command == "solve" else [str(path)]
    line = refusal(capsys, command, *words, "--out", out)
    assert TOLD[data] in line.replace("not StableHLO or another model", "nor another kind")
    assert not out.exists()


def test_one_model_costs_the_same_through_every_door(writers, tmp_path):
    """FLOP, weights and bytes of each file are those of the trace, whose products are derived by
    hand; packed or not, under a name that says nothing."""
    traced = trace(classifier, *ARGUMENTS, parameters=(1, 2, 3, 4, 5), name="model")
    assert traced.op_weight_bytes.sum() == WEIGHT_BYTES
    kinds = zip(traced.op_kinds, traced.op_flop)
    assert sum(flop for kind, flop in kinds if kind == "dot_general") == PRODUCTS
    for packed in (False, True):
        for kind, data in writers.items():
            path = tmp_path / "model.dat"
            path.write_bytes(gzip.compress(data) if packed else data)
            graph = read_graph_of(str(path), name="model")
            sums = [(g.op_flop.sum(), g.op_weight_bytes.sum()) for g in (graph, traced)]
            assert sums[0] == sums[1], kind
            assert graph.tensor_bytes.sum() == traced.tensor_bytes.sum(), kind
            guess = graph.metadata["guessed_parameters"]
            assert guess == {"arguments": 5, "bytes": WEIGHT_BYTES}, kind


def test_parameters_are_guessed_said_and_kept(writers, tmp_path, capsys):
    """Catches weights that become inputs, or inputs weights, without a word; and a solution that
    forgets the guess."""
    path, out = tmp_path / "model.bin", tmp_path / "out.json"
    path.write_bytes(writers[recognition.TEXT])
    assert main(["trace", str(path), "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert "5 arguments of 24.1 kB look like parameters; `lmap trace --parameters none`" in said
    for words, weights in ((["none"], 0), (["2"], 4 * 32 * 64)):
        assert main(["trace", str(path), "--parameters", *words, "--out", str(out)]) == 0
        assert "look" not in capsys.readouterr().err
        ops = json.loads(out.read_text())["ops"]
        assert sum(op.get("weight_bytes", 0) for op in ops) == weights
    words = ["mcm", str(path), "--chips", "2", "--method", "greedy-careful", "--out", str(out)]
    assert main(["solve", *words]) == 0 and "look like parameters" in capsys.readouterr().err
    assert json.loads(out.read_text())["made"]["guessed_parameters"]["arguments"] == 5


def test_no_data_are_guessed_to_be_parameters(tmp_path):
    """A module of activations alone has no parameters, and of two operands of a product the first
    is an input: catches a guess that leaves a model without inputs."""
    path = tmp_path / "m"
    for function, args, guess in (
        (lambda x, y: jnp.tanh(x) * y, (array(8, 8), array(8, 8)), 0),
        (lambda x, y: x @ y, (array(8, 16), array(16, 8)), 1),
    ):
        path.write_text(jax.jit(function).lower(*args).as_text())
        graph = read_model(path, None)
        assert graph.metadata.get("guessed_parameters", {"arguments": 0})["arguments"] == guess
        assert graph.op_kinds.count("input") == 2 - guess


QUICK = ("lenet_inference", "squeezenet_inference", "lstm", "unet_inference", "dlrm_train")
OTHERS = sorted({*zoo.models.ZOO} - {*QUICK})


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_a_models_parameters_are_guessed(name):
    """What is guessed wrongly, either way, is at most a fiftieth of the bytes that a model of the
    zoo says are its parameters: catches a guess that holds for one kind of model alone."""
    example = zoo.example(name)
    flow = flatten(example.function, *example.args, name=name)
    used = {value for operation in flow.operations for value in operation.inputs}
    true = {v for p in example.parameters for v in flow.argument_leaves[p]} & used
    found = {flow.arguments[place] for place in guessed(flow)}
    sizes = [sum(flow.values[v].bytes for v in part) for part in (true, found ^ true)]
    assert sizes[1] <= 0.02 * sizes[0] > 0


def test_a_function_is_no_file(tmp_path, monkeypatch):
    """Catches a Windows drive, a folder with a colon or a file taken for a module."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd:name").write_text(json.dumps(GRAPH))
    assert is_function("package.module:function") and is_function("folder/file.py:make")
    assert not is_function("odd:name") and not is_function("a:b/file.json")
    assert not is_function("plain.json") and read_graph_of("odd:name").num_ops == 4


def test_solve_takes_a_function(tmp_path, monkeypatch, capsys):
    """A user's function in `solve` is the graph that `trace` makes of it."""
    (tmp_path / "theirs_to_solve.py").write_text(
        "import jax, jax.numpy as jnp\n"
        "def model():\n"
        "    print('hello')\n"
        "    return jnp.dot, (jax.ShapeDtypeStruct((4, 8), jnp.float32),) * 1"
        " + (jax.ShapeDtypeStruct((8, 2), jnp.float32),), (1,)\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["regal", "theirs_to_solve:model", "--method", "list-scheduler", "--out", "s.json"]
    assert main(["solve", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "list-scheduler"
    graph = read_graph_of("theirs_to_solve:model")
    assert graph.op_flop.sum() == 2 * 4 * 8 * 2 and graph.op_weight_bytes.sum() == 64


PROGRAM = {
    "guards_code": [],
    "graph_module": {
        "metadata": {},
        "signature": {"input_specs": []},
        "graph": {
            "nodes": [
                {
                    "target": "torch.ops.aten.add.Tensor",
                    "metadata": {"stack_trace": "(anything)", "nn_module_stack": "L__self__"},
                    "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}}],
                }
            ]
        },
    },
}


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("torch.ops.aten.add.Tensor", "torch.os.system", "no operation of ATen"),
        ("torch.ops.aten.add.Tensor", "torch.ops.aten.__class__.mro", "no operation of ATen"),
        ("torch.ops.aten.add.Tensor", "#extension:op", "no operation of ATen"),
        ('"x"', "\"x=__import__('os').system('true')\"", "no plain name"),
        ('"x"', '"x\\");evil(\\""', "no plain name"),
        ('"name": "x"', '"as_expr": {"expr_str": "evil"}', "a dynamic shape"),
        ('"self"', '"f(x)"', "no plain name"),
        ('"input_specs"', '"in(put)"', "no plain name"),
        ('{"guards_code"', '["guards_code"', "not JSON"),
        ('"guards_code": []', '"guards_code": ["evil()"]', "nothing is wrong"),
    ],
)
def test_code_in_an_archive_never_reaches_torch(old, new, named):
    """Torch's reader makes code of a program's names and guards, and looks up whatever it names:
    what is no plain name is refused before."""
    text = json.dumps(PROGRAM).replace(old, new)
    with pytest.raises(InputError, match=named):
        assert torch_archive.checked(text.encode(), "m")["guards_code"] == []
        raise InputError("m", "", "nothing is wrong")


def test_an_archive_that_is_none_is_one_line(tmp_path):
    """Cut off, without a program, with two, with one too large: catches a traceback of zipfile and
    a bomb."""
    path = tmp_path / "m.pt2"
    for data, named in (
        (archive(["m/data/weights/weight_0"]), "holds 0 programs"),
        (archive(["m/models/a.json", "m/models/b.json"]), "holds 2 programs"),
        (archive(["m/models/a.json"])[:60], "not a whole archive"),
        (archive(["m/models/a.json"], b"[1,2]"), "not a program"),
    ):
        path.write_bytes(data)
        with pytest.raises(InputError, match=named):
            torch_archive.checked(torch_archive.program_text(path), "m")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("m/models/a.json", b" " * (torch_archive.MAX_FILE_BYTES + 1))
    with pytest.raises(InputError, match="is more than"):
        torch_archive.program_text(path)


def message(*fields):
    """A message of protocol buffers: pairs of a field's number and its bytes."""
    made = b""
    for number, content in fields:
        size, count = len(content), b""
        while size > 127:
            count, size = count + bytes([size & 127 | 128]), size >> 7
        made += bytes([number << 3 | 2]) + count + bytes([size]) + content
    return made


def test_large_tensors_lose_their_numbers_alone():
    """A model of 40 kB of weights in a graph and in a node's attribute: catches names, shapes or
    small numbers that go too, and weights that stay."""
    numbers, few = bytes(40_000), bytes(64)
    tensor = message((8, b"w"), (9, numbers))
    node = message((4, b"Constant"), (5, message((1, b"value"), (5, tensor))))
    small = message((8, b"s"), (9, few))
    model = message((7, message((1, node), (5, tensor), (5, small))))
    name = message((8, b"w"))
    attribute = message((1, b"value"), (5, name))
    left = message((1, message((4, b"Constant"), (5, attribute))), (5, name), (5, small))
    assert without_numbers(model, "m") == message((7, left))


def test_damaged_bytes_are_one_line(writers, tmp_path, monkeypatch):
    """A thousand damaged models and archives, up to what another process parses: an error of ours,
    or bytes for the parser."""
    monkeypatch.setattr(models.subprocess, "run", lambda *args, **kept: pytest.skip.Exception)
    rng, tensor = random.Random(0), message((8, b"w"), (9, bytes(9000)))
    model = b"\x08\x0a" + message((7, message((1, message((4, b"Relu"))), (5, tensor))))
    sources = [model, archive(["m/models/a.json"], json.dumps(PROGRAM).encode())]
    sources.append(writers[recognition.EXPORTED])
    path, outcomes = tmp_path / "m", {True: 0, False: 0}
    for _ in range(1000):
        data = bytearray(rng.choice(sources))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((0, 1, 3))] = rng.randbytes(rng.choice((0, 1, 2)))
        data = bytes(data[: rng.choice((len(data), rng.randrange(1, len(data))))])
        path.write_bytes(data)
        kind = recognition.kind_of(data[: recognition.HEAD])
        try:
            content = models._content(path, kind) if kind in recognition.MODELS else b""
            outcomes[isinstance(content, bytes)] += 1
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 500
            outcomes[False] += 1
    assert min(outcomes.values()) > 100
