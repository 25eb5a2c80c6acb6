"""StableHLO: the graph is what tracing gives, and no damaged file does more than one line."""

import collections
import json
import os
import random
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learned_mapping_builders import zoo
from learned_mapping_builders.zoo.examples import array

from cli_files import refusal
from learned_mapping.cli import main
from learned_mapping.doors import models, stablehlo_reader
from learned_mapping.doors.models import MEMORY_BYTES, read_model
from learned_mapping.errors import InputError
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.trace.graph import trace


@pytest.fixture
def here(monkeypatch):
    """The parser within this process: others begin by importing JAX."""

    def run(command, *, input, **options):
        code, text = models.answer(json.loads(command[-1]), input)
        out, err = ("", text) if code else (text, "")
        return subprocess.CompletedProcess(command, code, out.encode(), err.encode())

    monkeypatch.setattr(models.subprocess, "run", run)


def lowered(function, args, parameters=()):
    """A function's lowering and the positions of its parameters among the flat arguments."""
    flat, positions = 0, []
    for i, arg in enumerate(args):
        count = len(jax.tree.leaves(arg))
        positions += range(flat, flat + count) if i in parameters else ()
        flat += count
    return jax.jit(function, keep_unused=True).lower(*args), positions


def over_shards(x):
    mesh = jax.sharding.AbstractMesh((4,), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    each = lambda part: part * jax.lax.axis_index("d")  # noqa: E731
    return jax.shard_map(each, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(x)


COUNTED = {
    "reverse": (
        lambda x: jax.lax.scan(lambda c, a: (c * 0.9 + a, c), jnp.zeros(8), x, reverse=True),
        6 * (8 + 8),
    ),
    "dictionary": (
        lambda x: jax.lax.scan(
            lambda c, a: ({"h": c["h"] + a["x"], "n": c["n"] + 1}, {"o": c["h"] * 2}),
            {"h": jnp.zeros(8), "n": 0},
            {"x": x},
        ),
        6 * (8 + 8 + 1),
    ),
    "while": (
        lambda x: jax.lax.while_loop(
            lambda s: s[0] < 6, lambda s: (s[0] + 2, s[1] * (s[0] * 3)), (0, x[0])
        )[1],
        3 * 8,
    ),
    "shards": (over_shards, 6 * 8),
}
"""A function of an array of 6 by 8, and FLOP by hand: of a round, of all shards."""


@pytest.mark.parametrize("name", COUNTED)
def test_a_counter_of_a_loop_or_of_devices_is_no_work(name, tmp_path, here):
    """Catches index arithmetic that one door counts and another does not: of a scan that runs
    backwards, of a loop's own counter, of a device's own number."""
    function, flop = COUNTED[name]
    shape = array(8, 6) if name == "shards" else array(6, 8)
    module = jax.jit(function).trace(shape).lower(lowering_platforms=("cpu",))
    (tmp_path / "m.mlir").write_text(module.as_text())
    read, traced = read_model(tmp_path / "m.mlir"), trace(function, shape)
    assert read.op_flop.sum() == traced.op_flop.sum() == flop


MODELS = {
    "lenet_inference": {},
    "squeezenet_inference": {},
    "mlp_mixer_inference": {"layers": 2},
    "lstm": {"steps": 3},
    "unet_inference": {"depth": 2},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_zoo_costs_what_its_trace_costs(name, tmp_path, here):
    """FLOP within a hundredth, bytes of weights to the byte: catches an operation under another
    primitive's rule."""
    example = zoo.example(name, **MODELS[name])
    traced = trace(example.function, *example.args, parameters=example.parameters)
    module, positions = lowered(example.function, example.args, example.parameters)
    path = tmp_path / f"{name}.mlir"
    path.write_text(module.as_text())
    graph = read_model(path, positions)
    assert graph.op_flop.sum() == pytest.approx(traced.op_flop.sum(), rel=0.01)
    assert graph.op_weight_bytes.sum() == traced.op_weight_bytes.sum()
    assert graph.metadata["parameter_bytes"] == traced.metadata["parameter_bytes"]
    assert "unknown_ops" not in graph.metadata


def mixed(weights, x):
    """Calls, branches, a sort, a scatter, a lookup, an array in the text."""
    y = jax.nn.gelu(x @ weights + np.arange(8.0, dtype=np.float32))
    y = jax.lax.cond(y[0, 0] > 0, jnp.sin, jnp.tanh, jnp.sort(y, axis=1))
    return (
        y.at[jnp.array([0, 2])].add(1.0),
        jnp.argmax(jnp.cumsum(y, 1)),
        jnp.take(y, jnp.array([1, 1]), axis=0),
    )


def test_bytecode_and_text_are_one_graph(tmp_path, here):
    """Also a portable artifact, which `jax.export` writes, and which says more of what was one
    operation; the branches both count."""
    args = (array(4, 8), array(6, 4))
    module, positions = lowered(mixed, args, (0,))
    traced = trace(mixed, *args, parameters=0)
    text, portable = tmp_path / "m.mlir", tmp_path / "m.mlirbc"
    text.write_text(module.as_text())
    portable.write_bytes(jax.export.export(jax.jit(mixed))(*args).mlir_module_serialized)
    graph = read_model(text, positions)
    assert graph.op_weight_bytes.sum() == traced.op_weight_bytes.sum()
    assert graph.op_flop.sum() == pytest.approx(traced.op_flop.sum(), rel=0.06)
    assert graph.metadata.get("unknown_ops") == traced.metadata.get("unknown_ops")
    exported = read_model(portable, positions).op_flop.sum()
    assert exported == pytest.approx(traced.op_flop.sum(), rel=0.02)
    assert exported == pytest.approx(graph.op_flop.sum(), rel=0.06)


def padded(*padding):
    """A sum over windows as long as the first axis."""
    return lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (8, 1), (1, 1), padding)


TABLE = np.arange(3, dtype=np.complex64)
SAME = {
    "sum": lambda x: jnp.cumsum(x, 0),
    "max": lambda x: jax.lax.cummax(x, 1, reverse=True),
    "min": lambda x: jax.lax.cummin(x, 0),
    "prod": lambda x: jax.lax.cumprod(x, 1),
    "logsumexp": lambda x: jax.lax.cumlogsumexp(x, 0),
    "reduced": lambda x: jnp.sum(x, 0),
    "argmax": lambda x: jnp.argmax(x, 1),
    "argmin": lambda x: jnp.argmin(x, 0),
    "centred": padded((4, 3), (0, 0)),
    "whole": padded((0, 0), (0, 0)),
    "wider": padded((7, 7), (0, 0)),
    "complex": lambda x: jnp.exp(x * 1j),
    "complex array": lambda x: x[:, :3] * TABLE,
    "complex bytes": lambda x: x * (np.arange(128) * 1j).reshape(8, 16).astype(np.complex64),
}


@pytest.mark.parametrize("name", SAME)
def test_an_operation_costs_what_its_primitive_does(name, tmp_path, here):
    """Catches a running sum charged as windows, windows taken for one, and complex constants, which
    were not read."""
    module, _ = lowered(SAME[name], (array(8, 16),))
    (tmp_path / "m.mlir").write_text(module.as_text())
    graph, traced = read_model(tmp_path / "m.mlir"), trace(SAME[name], array(8, 16))
    assert sorted(graph.op_kinds) == sorted(traced.op_kinds)
    assert (
        graph.op_flop.sum() == traced.op_flop.sum()
        and graph.op_weight_bytes.sum() == traced.op_weight_bytes.sum()
    )


@pytest.mark.parametrize("shardy", [True, False])
def test_what_is_computed_on_shards_counts_for_all_of_them(shardy, tmp_path, here):
    """Catches a body that is lost whole, as ``sdy.manual_computation`` holds it, or counted for one
    shard alone."""
    mesh, rows = jax.sharding.AbstractMesh((4, 2), ("x", "y")), jax.P("x")
    sharded = jax.shard_map(lambda x: jnp.tanh(x @ x.T), mesh=mesh, in_specs=rows, out_specs=rows)
    jax.config.update("jax_use_shardy_partitioner", shardy)
    try:
        lowering = (
            jax.jit(lambda x: sharded(x) * 2).trace(array(8, 16)).lower(lowering_platforms=("cpu",))
        )
    finally:
        jax.config.update("jax_use_shardy_partitioner", True)
    module = lowering.as_text().replace("num_partitions = 1 ", "num_partitions = 8 ")
    assert ("sdy.manual_computation" in module) == shardy
    (tmp_path / "m.mlir").write_text(module)
    graph, traced = (
        read_model(tmp_path / "m.mlir"),
        trace(lambda x: sharded(x) * 2, array(8, 16)),
    )
    assert graph.op_kinds == traced.op_kinds and graph.op_flop.tolist() == traced.op_flop.tolist()


def test_an_effect_keeps_the_work_that_it_shows(tmp_path, here):
    """Catches a callback without results that is dropped, with all that feeds it."""

    def function(x):
        jax.experimental.io_callback(print, None, jnp.linalg.norm(x @ x @ x))
        return x * 2

    module, _ = lowered(function, (array(8, 8),))
    (tmp_path / "m.mlir").write_text(module.as_text())
    graph, traced = read_model(tmp_path / "m.mlir"), trace(function, array(8, 8))
    assert graph.num_ops == traced.num_ops and graph.op_flop.sum() == traced.op_flop.sum()


HELPER = """func.func private @helper(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
PUBLIC = (
    HELPER.replace("{", "{{")
    .replace("}", "}}")
    .replace("private @helper", "@{name}")
    .replace("negate", "tanh")
)


def test_the_function_that_is_meant_is_main_or_the_public_one(tmp_path, here):
    """Catches the first function taken for it, a private one; of two public ones none is taken."""
    path = tmp_path / "m.mlir"
    for text, kind in (
        (HELPER + PUBLIC.format(name="predict"), "tanh"),
        (PUBLIC.format(name="other") + HELPER.replace("private @helper", "@main"), "neg"),
        (HELPER, "neg"),
    ):
        path.write_text(text)
        assert read_model(path).op_kinds == ("input", kind)
    path.write_text(PUBLIC.format(name="one") + PUBLIC.format(name="two"))
    with pytest.raises(InputError, match="no function is named main, and 2 may be meant"):
        read_model(path)


def test_what_the_binding_does_not_know_is_one_line(tmp_path, here, monkeypatch):
    """Catches a traceback of the parser's process, told as its exit code: inside an operation and
    anywhere else."""
    path = tmp_path / "m.mlir"
    path.write_text(DOUBLED)
    monkeypatch.setattr(
        stablehlo_reader.Reader, "primitive", lambda *arguments: {}["no such\nattribute"]
    )
    with pytest.raises(
        InputError, match=r"line 2: stablehlo.add cannot be read \(KeyError: .no such.*attribute"
    ):
        read_model(path)
    failed = subprocess.CompletedProcess([], 1, b"", b"Traceback:\n  x\nTypeError: of no use\n")
    monkeypatch.setattr(models.subprocess, "run", lambda *arguments, **options: failed)
    with pytest.raises(InputError, match=r"gave up on it \(TypeError: of no use\)"):
        read_model(path)


def test_the_commands_read_it(tmp_path, capsys):
    module, _ = lowered(lambda w, x: jax.nn.relu(x @ w) @ w.T, (array(16, 32), array(8, 16)))
    path, out = tmp_path / "net.mlir", tmp_path / "out.json"
    path.write_text(module.as_text())
    assert main(["trace", str(path), "--parameters", "0", "--out", str(out)]) == 0
    assert (
        read_graph(out).op_weight_bytes.sum() == 2 * 16 * 32 * 4 and read_graph(out).name == "net"
    )
    assert (
        main(
            [
                "solve",
                "mcm",
                str(path),
                "--chips",
                "2",
                "--method",
                "greedy-careful",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    assert main(["check", "mcm", str(path), str(out)]) == 0
    for option in (
        ["--arg", "f32[2]"],
        ["--check"],
        ["--parameters", "7"],
        ["--parameters", "1-x"],
    ):
        assert main(["trace", str(path), *option, "--out", str(out)]) == 2
        assert option[0] in capsys.readouterr().err.splitlines()[-1]


MODULE = "module {{ func.func public @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {{\n{}\n}} }}"
DOUBLED = MODULE.format("%0 = stablehlo.add %a, %a : tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>")
THEIRS = MODULE.format(
    '%0 = "NAME.add"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>'
)
LOOP = lowered(
    lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, x), (array(3),)
)[0].as_text()
BOMB = (
    "module {"
    + "".join(
        f"func.func private @f{i}(%a: tensor<f32>) -> tensor<f32> {{ %0 = func.call @f{i + 1}(%a) :"
        f" (tensor<f32>) -> tensor<f32>\n %1 = func.call @f{i + 1}(%0) : (tensor<f32>) ->"
        " tensor<f32>\n return %1 : tensor<f32> }\n"
        for i in range(30)
    )
    + "func.func private @f30(%a: tensor<f32>) -> tensor<f32> { %0 = stablehlo.sine %a :"
    " tensor<f32>\n return %0 : tensor<f32> } func.func public @main(%a: tensor<f32>) ->"
    " tensor<f32> { %0 = func.call @f0(%a) : (tensor<f32>) -> tensor<f32>\n return %0 :"
    " tensor<f32> } }"
)
SELF = (
    "func.func public @main(%a: tensor<f32>) -> tensor<f32> { %0 = call @main(%a) : (tensor<f32>)"
    " -> tensor<f32>\nreturn %0 : tensor<f32> }"
)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "is empty"),
        ("module {}", "holds no function"),
        (DOUBLED.replace("add", "added"), "line 2: not StableHLO"),
        (DOUBLED.replace("2x3", "2x?"), "a dynamic shape, tensor<2x?xf32>"),
        (DOUBLED.replace("stablehlo.add", "arith.addf"), "arith.addf"),
        (THEIRS.replace("NAME", "theirs"), "line 2: operations of StableHLO are read"),
        (THEIRS.replace("NAME", "tosa.x"), "line 2: operations of StableHLO are read"),
        (DOUBLED[:60], "not StableHLO"),
        (LOOP, "a loop whose count is not in the file"),
        pytest.param(BOMB, "more than 200,000 operations", marks=pytest.mark.slow),
        (SELF, "more than 100 deep"),
        ("module " + "<" * 100_000, "brackets"),
        ("HloModule m", "StableHLO is what"),
        ("ML\x00", "nor another kind that is read"),
    ],
)
def test_what_is_not_read_is_one_line(text, named, tmp_path, capsys, here):
    path, out = tmp_path / "m.mlir", tmp_path / "out.json"
    path.write_text(text)
    line = refusal(capsys, "solve", "regal", path, "--method", "list-scheduler", "--out", out)
    assert "m.mlir" in line and named in line and not out.exists()


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (DOUBLED.encode(), "StableHLO text: a model, which `lmap trace`"),
        (b"ML\xefR\x00", "StableHLO bytecode: a model"),
        (b"HloModule jit_f, entry", "StableHLO"),
        (b"PK\x03\x04\x00", "zip"),
        (b"\x80\x04\x95\xff", "pickle"),
        (b"\x08\x07\x12\x04onnx\x00\xff", "ONNX: a model"),
        (b"digraph G {\n a -> b\n}", "DOT"),
        (b"id,lower,upper,size\n", "MiniMalloc"),
        (b'node { name: "x" }', "CostGraphDef"),
    ],
)
def test_what_is_not_ours_is_told_which_door_to_take(data, named, tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"not (JSON|UTF-8 text) but") as actual:
        read_graph(path)
    assert named in str(actual.value)


@pytest.mark.parametrize(
    ("name", "flop"), [("add", 6), ("power", 60), ("shift_left", 6), ("zeta", 1200)]
)
def test_what_spreads_its_operands_is_what_it_does(name, flop, tmp_path, here):
    """Catches an operation of chlo of unknown cost because it brings operands to one shape."""
    path, kind = tmp_path / "m", "i32" if name == "shift_left" else "f32"
    line = f"%0 = chlo.broadcast_{name} %a, %b : (tensor<2x3xT>, tensor<3xT>) -> tensor<2x3xT>"
    text = MODULE.format(line + "\nreturn %0 : tensor<2x3xT>").replace("f32", "T")
    path.write_text(
        text.replace("%a: tensor<2x3xT>", "%a: tensor<2x3xT>, %b: tensor<3xT>", 1).replace(
            "T", kind
        )
    )
    graph = read_model(path)
    assert graph.op_flop.sum() == flop and "unknown_ops" not in graph.metadata


WORDS = (b"?", b"-1", b"99999999999", b"tensor<", b"}", b"dense<", b"while", b"f4")


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A file with one to four cuts, doublings, swaps or other bytes."""
    for _ in range(rng.randint(1, 4)):
        i, j = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        j = min(j, i + rng.choice((1, 3, 30, 300)))
        kind = rng.randrange(5)
        if kind == 0:
            data = data[:i] + data[j:]
        elif kind == 1:
            data = data[:i] + data[i:j] * rng.choice((2, 3, 50)) + data[j:]
        elif kind == 2:
            data = data[:i] + bytes(rng.randrange(256) for _ in range(j - i)) + data[j:]
        elif kind == 3:
            data = data[:i] + rng.choice(WORDS) + data[j:]
        else:
            data = data[:i]
        data = data or b"m"
    return data


SERVER = """
import os, resource, signal, sys
import jax.interpreters.mlir, jaxlib.mlir.dialects.chlo, jaxlib.mlir.dialects.func, jaxlib.mlir.dialects.stablehlo
import learned_mapping.programs.trace.graph
from learned_mapping.doors import models, stablehlo_reader
for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        resource.setrlimit(resource.RLIMIT_AS, (models.MEMORY_BYTES, models.MEMORY_BYTES))
        try:
            code, text = models.answer({"name": "m", "parameters": []}, open(path, "rb").read())
        except BaseException as error:
            code, text = 98, repr(error)
        os.write(1, (str(code) + " " + path + " " + (text if code else "") + "\\n").encode())
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended:
        print(ended, path, "", flush=True)
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""
"""Forks the parser's process for each file, having imported what it needs once; nothing runs in it
before a fork."""


def test_a_name_that_is_no_text_is_refused(tmp_path):
    """Catches an exception of the binding, which has no word for such a name."""
    whole = jax.export.export(jax.jit(mixed))(array(4, 8), array(6, 4)).mlir_module_serialized
    path = tmp_path / "m.mlirbc"
    path.write_bytes(whole.replace(b"main", b"m\xffin"))
    with pytest.raises(InputError, match="holds a name that is not UTF-8"):
        read_model(path)


@pytest.mark.slow
def test_damaged_files_are_refused_or_read(tmp_path):
    """A thousand damaged files: a graph, a fault in one line, or a crash of the parser's process
    and nothing worse."""
    sources = [
        lowered(mixed, (array(4, 8), array(6, 4)))[0].as_text().encode(),
        DOUBLED.encode(),
        LOOP.encode(),
    ]
    sources.append(
        jax.export.export(jax.jit(mixed))(array(4, 8), array(6, 4)).mlir_module_serialized
    )
    rng = random.Random(0)
    count = int(os.environ.get("DAMAGED", "1000"))
    for i in range(count):
        (tmp_path / str(i)).write_bytes(damaged(rng.choice(sources), rng))
    paths = [str(tmp_path / str(i)) for i in range(count)]
    command = [sys.executable, "-c", SERVER, *paths]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
    )
    *lines, peak = done.stdout.splitlines()
    codes = collections.Counter(int(line.split()[0]) for line in lines)
    print(codes, peak, [line for line in lines if line.split()[0] not in "02"][:5])
    assert sum(codes.values()) == count, "a fault has more than one line"
    assert set(codes) <= {0, 2, -4, -6, -9, -11, -14} and codes[2] > 0.5 * count
    assert int(peak.split()[1]) < MEMORY_BYTES >> 20
    # the parser goes on for ever
    for path in (line.split()[1] for line in lines if line.startswith("-14 ")):
        with pytest.raises(InputError, match="is not parsed after 18 s"):
            read_model(path)


def test_a_loop_that_may_end_earlier_is_said_to(here, tmp_path):
    """As by our own trace: catches rounds charged in silence by this door alone."""

    def early(x):
        test = lambda s: (s[0] < 7) & (s[1].sum() > 0.1)  # noqa: E731
        return jax.lax.while_loop(test, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))[1]

    path = tmp_path / "early.mlir"
    path.write_text(jax.jit(early).lower(array(4)).as_text())
    assert read_model(str(path)).metadata["rounds_at_most"] == 7
