"""``lmap trace``: a user's functions become graphs and programs, and none of them can end the
command."""

import json
import sys

import pytest

from cli_files import one_line, refusal, run
from learned_mapping.programs.formats import program_from_json
from learned_mapping.programs.json_io import parse_json


def test_trace_makes_files_that_solve_reads(capsys, folder):
    (folder / "mymodel.py").write_text(
        "import jax.numpy as jnp\nprint('imported')\n"
        "def forward(w, x):\n    print('traced')\n    return jnp.tanh(x @ w) @ w.T\n"
    )
    arguments = [
        "mymodel.py:forward",
        "--arg",
        "f32[64,64]",
        "--arg",
        "f32[256,64]",
        "--parameters",
        "0",
    ]
    code, out, err = run(capsys, "trace", *arguments, "--out", "g.json", "--json")
    assert code == 0 and json.loads(out)["ops"] >= 3 and "imported" in err and "traced" in err
    code, out, err = run(capsys, "trace", *arguments, "--program", "--out", "p.json")
    assert code == 0 and "traced" not in out, err
    for paper, instance, method in (
        ("mmap", "p", "greedy"),
        ("mcm", "g", "greedy-naive"),
        ("regal", "g", "gp-dfs"),
    ):
        options = ["--method", method, "--seconds", "0.2", "--out", "s.json"] + ["--chips", "2"] * (
            paper == "mcm"
        )
        assert run(capsys, "solve", paper, f"{instance}.json", *options)[0] == 0
        assert run(capsys, "check", paper, f"{instance}.json", "s.json")[0] == 0


OWN = """
import jax, jax.numpy as jnp, numpy as np
def foreign(x):
    return jnp.tanh(jax.pure_callback(np.sin, x, x)) @ x
def product(x):
    return jnp.tanh(x @ x)
"""


@pytest.mark.parametrize("options", [[], ["--program"]])
def test_trace_names_what_it_cannot_cost(capsys, folder, options):
    """Would catch a guess without a word, in a graph as in a program, and a word where there is no
    guess."""
    (folder / "own.py").write_text(OWN)
    code, _, err = run(
        capsys, "trace", "own.py:foreign", "--arg", "f32[64,64]", *options, "--out", "g.json"
    )
    assert (code, err) == (0, "1 op of unknown cost: pure_callback; charged 1 FLOP per element\n")
    assert json.loads((folder / "g.json").read_text())["metadata"]["unknown_ops"] == {
        "pure_callback": 1
    }
    assert (
        run(capsys, "trace", "own.py:product", "--arg", "f32[64,64]", *options, "--out", "g.json")[
            2
        ]
        == ""
    )


def test_trace_is_checked_against_xla(capsys, folder):
    """Would catch a comparison that is not printed, or one whose ratio is of something else."""
    (folder / "own.py").write_text(OWN)
    arguments = ["trace", "own.py:product", "--arg", "f32[64,64]", "--check", "--out", "g.json"]
    flop = json.loads(run(capsys, *arguments, "--json")[1])["check"]["flop"]
    assert (flop["ours"], flop["xla"]) == (2 * 64**3 + 10 * 64**2, 2 * 64**3) and flop[
        "explained"
    ] == 1.0
    _, out, err = run(capsys, *arguments)
    told = "ratio 1.0781; 1.0000 without the differences of\n  tanh +40,960 (XLA counts"
    assert told in out and not err
    code, _, err = run(
        capsys, *[a.replace("product", "none").replace("f32", "f9") for a in arguments]
    )
    assert code == 2 and one_line(err)


MODULE = """
import sys, jax, jax.numpy as jnp
class Odd(BaseException): pass
def example(): sys.exit("no weights found")
def odd(x): raise Odd("why")
def leaves(x): sys.exit(0)
async def later(x): return x
def fine(x): return jnp.tanh(x) @ x
def step(p, x): return {k: v - 0.1 * jnp.sum(x @ v) for k, v in p.items()}, x
donated = jax.jit(step, donate_argnums=0)
def array(*shape): return jax.ShapeDtypeStruct(shape, "float32")
def donor(): return donated, ({"w": array(64, 64)}, array(8, 64))
def plain(): return step, donor()[1]
"""


def test_a_users_function_cannot_end_the_command(folder, capsys, recwarn):
    """`sys.exit` ended it with code 0 and no file; another BaseException with a traceback."""
    (folder / "theirs.py").write_text(MODULE)
    for name, arguments in (
        ("example", []),
        ("odd", ["--arg", "f32[4]"]),
        ("leaves", ["--arg", "f32[4]"]),
        ("later", ["--arg", "f32[4]"]),
    ):
        assert name in refusal(capsys, "trace", f"theirs.py:{name}", *arguments, "--out", "t.json")
        assert not (folder / "t.json").exists()
    assert not [w for w in recwarn if "never awaited" in str(w.message)]


def test_a_users_module_may_answer_for_itself(folder, capsys):
    """A module that took its folder off the path, and one that refuses every name, were faults of
    ours."""
    (folder / "taking.py").write_text("import sys\ndef ok(x): return x + 1\nsys.path.pop(0)\n")
    (folder / "refusing.py").write_text("def __getattr__(name): raise RuntimeError('no')\n")
    assert run(capsys, "trace", "taking.py:ok", "--arg", "f32[2]", "--out", "t.json")[0] == 0
    assert "RuntimeError: no" in refusal(
        capsys, "trace", "refusing.py:a.b", "--arg", "f32[2]", "--out", "u.json"
    )
    assert not (folder / "u.json").exists()


def test_names_given_to_trace_are_names(folder, capsys):
    """It wrote graphs that nothing would read."""
    (folder / "theirs.py").write_text(MODULE)
    for name in ("a\nb", "\x1b[31m", "x" * 1001, "\udcff", ""):
        options = ("--arg", "f32[4,4]", "--name", name, "--out", "t.json")
        assert (
            "--name" in refusal(capsys, "trace", "theirs.py:fine", *options)
            and not (folder / "t.json").exists()
        )


def test_what_jit_donates_becomes_alias_groups(folder, capsys):
    """The book promised it, and there were none."""
    (folder / "theirs.py").write_text(MODULE)
    aliases = {}
    for name in ("donor", "plain"):
        assert (
            run(capsys, "trace", f"theirs.py:{name}", "--program", "--out", f"{name}.json")[0] == 0
        )
        read = program_from_json(parse_json((folder / f"{name}.json").read_bytes(), name))
        aliases[name] = read.num_alias_groups
    assert aliases == {"donor": 1, "plain": 0}
    for parameters in ("foo,99", "99"):
        options = ["--program", "--parameters", parameters, "--out", "t.json"]
        refusal(capsys, "trace", "theirs.py:donor", *options)


STATIC = """
import jax, jax.numpy as jnp
A = jax.ShapeDtypeStruct((64, 64), "float32")
step = jax.jit(lambda w, how, x: getattr(jnp, how)(w @ x), static_argnums=(-2,), donate_argnums=2)
named = jax.jit(lambda x, n, m=2: x ** n * m, static_argnames=("n", "m"))
def numbered(): return step, (A, "tanh", A), (0,)
def names(): return named, (A, 3)
def empty(): return named, (A, A)
"""


def test_static_arguments_are_what_they_are(folder, capsys):
    """Catches a static argument that is traced as an array, and positions that are counted without
    it."""
    (folder / "static.py").write_text(STATIC)
    facts = json.loads(
        run(capsys, "trace", "static.py:numbered", "--check", "--out", "g.json", "--json")[1]
    )
    assert (facts["flop"], facts["weight_bytes"]) == (2 * 64**3 + 10 * 64**2, 4 * 64**2)
    assert run(capsys, "trace", "static.py:numbered", "--program", "--out", "p.json")[0] == 0
    assert (
        program_from_json(parse_json((folder / "p.json").read_bytes(), "p")).num_alias_groups == 1
    )
    assert run(capsys, "trace", "static.py:names", "--out", "g.json")[0] == 0
    for arguments in (["empty"], ["named", "--arg", "f32[2]", "--arg", "i32[]"]):
        told = refusal(
            capsys, "trace", f"static.py:{arguments[0]}", *arguments[1:], "--out", "t.json"
        )
        assert "argument 1 is static" in told and "functools.partial" in told


def test_what_lies_beside_a_users_file_is_found_inside_its_function(folder, capsys):
    """The folder was on the path only while the module was imported."""
    (folder / "sub").mkdir()
    (folder / "sub" / "lying_beside.py").write_text("def g(x): return x * 2\n")
    (folder / "sub" / "late.py").write_text(
        "def f(x):\n    from lying_beside import g\n    return g(x)\n"
    )
    before = list(sys.path)
    code, _, err = run(capsys, "trace", "sub/late.py:f", "--arg", "f32[3]", "--out", "t.json")
    assert code == 0 and sys.path == before, err


@pytest.mark.parametrize(
    ("argument", "size"), [("f64[3]", 24), ("i64[3]", 24), ("u64[5]", 40), ("f32[3]", 12)]
)
def test_wide_elements_keep_their_width(folder, capsys, argument, size):
    """JAX made f32 of f64, and half of all bytes were missing."""
    (folder / "wide.py").write_text("def f(x): return x * 2\n")
    assert run(capsys, "trace", "wide.py:f", "--arg", argument, "--out", "t.json")[0] == 0
    assert {t["bytes"] for t in json.loads((folder / "t.json").read_text())["tensors"]} == {size}
