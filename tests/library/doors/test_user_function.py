"""A user's function from the command line: specifications, factories and every way to get them
wrong."""

import jax.numpy as jnp
import pytest

from learned_mapping.doors.user_function import (
    graph_of_example,
    load_example,
    parse_argument,
)
from learned_mapping.errors import InputError
from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
from learned_mapping.programs.trace.schedule import schedule

MODULE = """
import jax, jax.numpy as jnp
def forward(w, x):
    return jnp.tanh(x @ w)
def bare():
    return forward, (jax.ShapeDtypeStruct((5, 3), jnp.float32), jax.ShapeDtypeStruct((2, 5), "f4"))
def tree():
    params = {"w": jax.ShapeDtypeStruct((5, 3), jnp.float32)}
    return (lambda p, x: forward(p["w"], x)), (params, jax.ShapeDtypeStruct((2, 5), jnp.float32)), 0
def wrong():
    return 3
def fails():
    raise RuntimeError("no data")
class Model:
    apply = staticmethod(forward)
number = 4
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    (tmp_path / "my_own_model.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return "my_own_model"


def traced(spec, arguments=(), parameters=None):
    """The graph of a user's function, as the command line makes it."""
    example = load_example(spec, arguments, parameters=parameters)
    return graph_of_example(example, "mine")


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("f32[8,128]", (8, 128), jnp.float32),
        (" bf16[ 4 ] ", (4,), jnp.bfloat16),
        ("i32[]", (), jnp.int32),
        ("float16[0,2]", (0, 2), jnp.float16),
        ("pred[1]", (1,), jnp.bool_),
        ("i4[3]", (3,), jnp.int4),
        ("f8_e4m3[8]", (8,), jnp.float8_e4m3),
        ("float8_e5m2fnuz[8]", (8,), jnp.float8_e5m2fnuz),
        ("c128[2]", (2,), jnp.complex128),
    ],
)
def test_argument_specifications(text, shape, dtype):
    """Would catch a type or a shape misread."""
    argument = parse_argument(text)
    assert argument.shape == shape and argument.dtype == dtype


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f32",
        "f32[",
        "f32[a]",
        "f32[-1]",
        "f32[1.5]",
        "f33[1]",
        "f32[1,,2]",
        "f32[9999999,9999999,9999]",
        "[1]",
        "f32[" + "1," * 40 + "1]",
        "f32[1]x",
    ],
)
def test_bad_specifications_are_input_errors(text):
    """Would catch a traceback, or an array of another shape than the user meant."""
    with pytest.raises(InputError, match="--arg"):
        parse_argument(text)


def test_functions_and_factories(user_module):
    """Would catch parameters lost between the command line and the graph; by module, by file, by
    attribute."""
    arguments = ["f32[5,3]", "f32[2,5]"]
    graphs = [
        traced(f"{user_module}:forward", arguments, parameters=[0]),
        traced(f"{user_module}.py:forward", arguments, parameters=[0]),
        traced(f"{user_module}:Model.apply", arguments, parameters=[0]),
        traced(f"{user_module}:tree"),
    ]
    assert {graph.op_kinds for graph in graphs} == {("input", "dot_general", "tanh")}
    assert all(graph.op_weight_bytes.sum() == 60 for graph in graphs)


def test_parameters_that_nobody_names_are_guessed(user_module):
    """Would catch a function without positions whose weights are inputs without a word, and a guess
    in spite of what somebody said."""
    for arguments in (["f32[5,3]", "f32[2,5]"], []):
        spec = f"{user_module}:{'forward' if arguments else 'bare'}"
        graph = traced(spec, arguments)
        assert graph.op_weight_bytes.sum() == 60 and graph.op_kinds.count("input") == 1
        assert graph.metadata["guessed_parameters"] == {"arguments": 1, "bytes": 60}
        graph = traced(spec, arguments, parameters=())
        assert graph.op_weight_bytes.sum() == 0 and graph.op_kinds.count("input") == 2
    assert "guessed_parameters" not in traced(f"{user_module}:tree").metadata


def test_a_program_of_a_users_function(user_module):
    """Would catch a command-line function that graphs accept and programs do not."""
    example = load_example(f"{user_module}:forward", ["f32[50,30]", "f32[20,50]"])
    program = schedule(example.function, *example.args, machine=MemoryHierarchy())
    assert program.num_instructions == 1 and program.num_buffers == 3


@pytest.mark.parametrize(
    ("spec", "arguments", "message"),
    [
        ("my_own_model", [], "MODULE:FUNCTION"),
        (":forward", [], "MODULE:FUNCTION"),
        ("my_own_model:", [], "MODULE:FUNCTION"),
        ("no_such_module_here:forward", [], "No module named"),
        ("missing.py:forward", [], "no such file"),
        ("broken_model:forward", [], "cannot be imported"),
        ("leaving_model:forward", [], "cannot be imported"),
        ("my_own_model:backward", [], "no such function"),
        ("my_own_model:number", [], "no function"),
        ("my_own_model:forward", [], "takes 2 argument"),
        ("my_own_model:wrong", [], "expected (function, args)"),
        ("my_own_model:fails", [], "no data"),
        ("my_own_model:forward", ["f32[2]"], "cannot be traced"),
        ("my_own_model:forward", ["f32[5,3]", "f32[5,3]"], "cannot be traced"),
    ],
)
def test_what_a_user_can_get_wrong(user_module, tmp_path, spec, arguments, message):
    """Would catch a traceback, or a line that does not say what to change."""
    (tmp_path / "broken_model.py").write_text("def forward(:")
    (tmp_path / "leaving_model.py").write_text("raise SystemExit(3)")
    with pytest.raises(InputError) as caught:
        traced(spec, arguments)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_positions_beyond_the_arguments(user_module):
    """Would catch a parameter position silently ignored."""
    with pytest.raises(InputError, match="position 7"):
        traced(f"{user_module}:tree", parameters=[7])
    assert load_example(f"{user_module}:tree").parameters == (0,)
