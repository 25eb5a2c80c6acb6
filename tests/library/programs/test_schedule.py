"""Scheduling: fusion, views, aliases, order and latencies, worked out by hand on small
functions."""

import functools
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from learned_mapping_builders.zoo.examples import array

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.program import NO_ALIAS
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping.programs.trace.dataflow import flatten
from learned_mapping.programs.trace.graph import trace
from learned_mapping.programs.trace.schedule import RATES, schedule, schedule_graph


class Machine:
    """Round numbers, so that latencies can be worked out by hand."""

    peak_flop_per_s = 1e9
    hbm_bytes_per_s = 1e6
    cmem_bytes_per_s = 4e6
    copy_bytes_per_s = 5e5
    cmem_bytes = 4096
    overhead_s = 1e-3


def uses(program):
    """For each instruction its kind and its buffers as (tensor name, 'R' or 'W')."""
    result = []
    for t in range(program.num_instructions):
        span = range(program.buffer_offsets[t], program.buffer_offsets[t + 1])
        names = [program.tensor_names[program.buffer_tensor[b]] for b in span]
        roles = ["W" if program.buffer_is_output[b] else "R" for b in span]
        result.append((program.instruction_kinds[t], list(zip(names, roles))))
    return result


def alias_pairs(program):
    """Alias groups as (instruction, operand, result) names."""
    members: dict[int, list[int]] = {}
    for b, group in enumerate(program.buffer_alias.tolist()):
        if group != NO_ALIAS:
            members.setdefault(group, []).append(b)
    pairs = []
    for buffers in members.values():
        operand, result = buffers
        assert program.buffer_instruction[operand] == program.buffer_instruction[result]
        assert not program.buffer_is_output[operand] and program.buffer_is_output[result]
        pairs.append(
            (
                int(program.buffer_instruction[operand]),
                program.tensor_names[program.buffer_tensor[operand]],
                program.tensor_names[program.buffer_tensor[result]],
            )
        )
    return pairs


def dense(w, b, x):
    return jax.nn.relu(x @ w + b)


def test_a_dense_layer_is_one_instruction():
    """Would catch element-wise operations left alone after a product, or a broadcast stored."""
    program = schedule(dense, array(20, 30), array(30), array(10, 20), machine=Machine())
    assert uses(program) == [
        ("fusion", [("arg2", "R"), ("arg0", "R"), ("arg1", "R"), ("max", "W")])
    ]
    assert program.tensor_is_parameter.tolist() == [True, True, True, False]
    assert program.tensor_is_output.tolist() == [False, False, False, True]
    assert program.tensor_bytes.tolist() == [1024, 2560, 512, 1536]
    assert (program.fast_bytes, program.copy_bytes_per_s) == (4096, 5e5)


def test_latencies_follow_the_roofline():
    """Would catch a wrong bandwidth, bit or bound: three entries of the table are worked out by
    hand."""
    program = schedule(dense, array(20, 30), array(30), array(10, 20), machine=Machine())
    touched = 800 + 2400 + 120 + 1200
    table = program.latency_s
    assert len(table) == 16
    assert table[0] == pytest.approx(1e-3 + touched / 1e6)
    assert table[15] == pytest.approx(1e-3 + touched / 4e6)
    assert table[0b0010] == pytest.approx(1e-3 + (touched - 2400) / 1e6 + 2400 / 4e6)

    class Slow(Machine):
        peak_flop_per_s = 1e6

    slow = schedule(dense, array(20, 30), array(30), array(10, 20), machine=Slow())
    flop = 2 * 10 * 20 * 30 + 300 + 300
    assert slow.latency_s == pytest.approx(np.full(16, 1e-3 + flop / 1e6))


@pytest.mark.parametrize("field", RATES)
def test_a_machine_without_a_rate_is_refused(field):
    for value in (0, float("nan"), float("inf")):
        machine = type("Broken", (Machine,), {field: value})()
        with pytest.raises(
            InputError, match=f"machine: {field}: must be above 0 and finite, got {value}"
        ):
            schedule(dense, array(20, 30), array(30), array(10, 20), machine=machine)


def test_two_products_never_share_an_instruction():
    """Would catch a fusion with two heavy operations, and a producer duplicated."""
    square = array(9, 9)
    program = schedule(
        lambda a, b, x: jnp.tanh((x @ a) + (x @ b)), square, square, square, machine=Machine()
    )
    assert [kind for kind, _ in uses(program)] == ["dot_general", "fusion"]


def test_a_value_with_two_readers_is_stored_once():
    """Would catch a shared value recomputed or written twice."""

    def shared(x):
        y = jnp.exp(x)
        return jnp.sum(y, axis=0), jnp.max(y, axis=0)

    program = schedule(shared, array(30, 30), machine=Machine())
    assert uses(program) == [
        ("exp", [("arg0", "R"), ("exp", "W")]),
        ("reduce_sum", [("exp", "R"), ("reduce_sum", "W")]),
        ("reduce_max", [("exp", "R"), ("reduce_max", "W")]),
    ]


def test_reshapes_are_views_and_scalars_no_buffers():
    """Would catch an instruction for a reshape, or a loss in fast memory."""

    def loss(x):
        return jnp.sum(jnp.exp(x).reshape(-1)), jnp.cos(x.reshape(5, 20))

    program = schedule(loss, array(10, 10), machine=Machine())
    assert uses(program) == [("fusion", [("arg0", "R")]), ("cos", [("arg0", "R"), ("cos", "W")])]
    with pytest.raises(InputError, match="scalars"):
        schedule(lambda x: x + 1, array(), machine=Machine())


def test_constants_are_recomputed_where_they_are_read():
    """Would catch a mask of iotas stored as a tensor."""
    program = schedule(
        lambda x: jnp.where(jnp.tri(50, dtype=bool), x, 0.0), array(50, 50), machine=Machine()
    )
    assert [buffers for _, buffers in uses(program)] == [[("arg0", "R"), ("select_n", "W")]]


def train(params, x):
    gradient = jax.grad(lambda p: jnp.sum((jnp.tanh(x @ p["a"]) @ p["b"]) ** 2))(params)
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradient)


def test_donated_parameters_are_updated_in_place():
    """Would catch an update that copies, one read after it was overwritten, or aliases without
    donation."""
    params = {"a": array(40, 50), "b": array(50, 60)}
    program = schedule(train, params, array(30, 40), machine=Machine(), donated=0)
    pairs = alias_pairs(program)
    assert sorted(operand for _, operand, _ in pairs) == ["arg0['a']", "arg0['b']"]
    for step, operand, result in pairs:
        tensor = program.tensor_names.index(operand)
        assert program.tensor_live[tensor, 1] == step
        assert program.tensor_is_output[program.tensor_names.index(result)]
    assert schedule(train, params, array(30, 40), machine=Machine()).num_alias_groups == 0
    with pytest.raises(InputError, match="donated"):
        schedule(train, params, array(30, 40), machine=Machine(), donated=2)


def test_updates_run_as_soon_as_they_can():
    """Would catch gradients kept to the end of the program: b's update precedes the gradient of
    a."""
    params = {"a": array(40, 50), "b": array(50, 60)}
    program = schedule(train, params, array(30, 40), machine=Machine(), donated=0)
    steps = {operand: step for step, operand, _ in alias_pairs(program)}
    assert steps["arg0['b']"] < steps["arg0['a']"]


def test_a_donation_that_order_forbids_is_a_copy():
    """Would catch a cycle, or an argument overwritten before its last reader, which needs the
    result."""

    def stubborn(x):
        y = jnp.exp(x)
        return y, jnp.sum(y, axis=0) @ x

    program = schedule(stubborn, array(30, 30), machine=Machine(), donated=0)
    assert program.num_alias_groups == 0


def test_slice_updates_are_in_place_when_the_operand_dies():
    """Would catch a cache copied at each step, or charged for bytes it does not touch."""

    def cache(x, row):
        first = jnp.exp(x)
        return lax.dynamic_update_slice(first, row, (3, 0))

    program = schedule(cache, array(50, 40), array(1, 40), machine=Machine())
    assert [(step, operand) for step, operand, _ in alias_pairs(program)] == [(1, "exp")]
    assert program.slow_s[1] == pytest.approx(1e-3 + 3 * 160 / 1e6)

    def keeps(x, row):
        first = jnp.exp(x)
        return lax.dynamic_update_slice(first, row, (3, 0)), jnp.sin(first) @ row.T

    assert schedule(keeps, array(50, 40), array(1, 40), machine=Machine()).num_alias_groups == 0


def test_a_donated_cache_is_updated_in_place():
    """Would catch a decoder's cache copied at each token: donation and a slice update or a scatter
    together."""
    for update in (
        lambda cache, row: lax.dynamic_update_slice(cache, row, (3, 0)),
        lambda cache, row: cache.at[jnp.array([3])].set(row),
    ):
        program = schedule(update, array(50, 40), array(1, 40), machine=Machine(), donated=0)
        assert [operand for _, operand, _ in alias_pairs(program)] == ["arg0"]
        assert program.slow_s[-1] <= 1e-3 + (3 * 160 + 8) / 1e6
        assert (
            schedule(update, array(50, 40), array(1, 40), machine=Machine()).slow_s[-1]
            > 1e-3 + 16_000 / 1e6
        )


def test_flops_are_conserved():
    """Would catch an operation lost or doubled by fusion (nothing in this function is
    recomputed)."""

    def run(w, x):
        for _ in range(3):
            x = jnp.tanh(x @ w) + x
        return x.reshape(-1)

    args = array(20, 20), array(20, 20)
    graph = trace(run, *args)
    only_flop = type("OnlyFlop", (Machine,), {"hbm_bytes_per_s": 1e30, "cmem_bytes_per_s": 1e30})
    program = schedule(run, *args, machine=only_flop)
    assert (program.slow_s - 1e-3).sum() * 1e9 == pytest.approx(graph.op_flop.sum())


def test_a_deep_train_step_is_valid_and_reproducible():
    """Would catch an order that breaks data flow (make_program validates), or depends on
    hashing."""
    optimiser = optax.adam(1e-3)
    params = {f"{i:02d}": {"w": array(64, 64), "b": array(64)} for i in range(6)}

    def step(params, state, x):
        def loss(params):
            y = x
            for layer in params.values():
                y = jax.nn.gelu(y @ layer["w"] + layer["b"])
            return jnp.mean(y**2)

        updates, state = optimiser.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    state = jax.eval_shape(optimiser.init, params)
    programs = [
        schedule(step, params, state, array(32, 64), machine=Machine(), donated=(0, 1))
        for _ in range(2)
    ]
    assert programs[0].digest == programs[1].digest
    assert programs[0].num_alias_groups == 3 * 12
    written = {program for _, program, _ in alias_pairs(programs[0])}
    assert len(written) == 36


@pytest.mark.parametrize("family", sorted(GRAPH_FAMILIES))
def test_graphs_become_programs(family):
    """Would catch a graph from a file that cannot become a game: every op's time and weights must
    be there."""
    graph = random_graph(np.random.default_rng(0), family, 60)
    program = schedule_graph(graph, Machine())
    weights = sum(program.tensor_is_parameter[i] for i in range(program.num_tensors))
    inputs = sum(kind == "input" for kind in graph.op_kinds)
    assert program.num_instructions <= graph.num_ops
    assert weights >= (graph.op_weight_bytes > 0).sum() - inputs
    assert program.num_alias_groups == 0


def test_a_graph_of_constants_alone_is_told_what_it_lacks():
    """Catches a chain without inputs and results that is refused for its scalars, of which it has
    none."""
    rows = {
        "op_names": "abc",
        "op_kinds": ["add"] * 3,
        "op_flop": [1.0] * 3,
        "tensor_names": "xyz",
        "tensor_producer": [0, 1, 2],
        "tensor_bytes": [1024, 10**14, 1024],
        "edge_tensor": [0, 1],
        "edge_consumer": [1, 2],
    }
    with pytest.raises(
        InputError, match=r"constants are computed.*kind is input, and a result has output: true"
    ):
        schedule_graph(make_graph(name="chain", tensor_is_output=[False] * 3, **rows), Machine())
    assert schedule_graph(
        make_graph(name="chain", tensor_is_output=[False, False, True], **rows), Machine()
    )


def test_an_op_that_makes_nothing_is_scheduled():
    """Catches a last op without a tensor, which nobody reads, taken for one whose size can be asked
    for."""
    rows = {
        "op_names": "abc",
        "op_kinds": ["input", "dot_general", "tanh"],
        "op_flop": [0.0, 1e9, 1e6],
    }
    edges = {
        "edge_tensor": [0, 1],
        "edge_consumer": [1, 2],
        "tensor_producer": [0, 1],
        "tensor_bytes": [1000, 2000],
    }
    graph = make_graph(
        name="sink", tensor_names="xy", tensor_is_output=[False, False], **rows, **edges
    )
    assert schedule_graph(graph, Machine()).num_instructions == 2


KINDS = [
    "add",
    "exp",
    "dot_general",
    "reduce_sum",
    "transpose",
    "broadcast_in_dim",
    "gather",
    "sort",
]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 80))
def test_random_graphs_lose_nothing(seed, num_ops):
    """Would catch a fusion that drops arithmetic, an output never written, or a value read though
    it was fused away (make_program validates that all that is read was written)."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, "random-dag", num_ops)
    kinds = [
        kind if kind == "input" else KINDS[rng.integers(len(KINDS))] for kind in graph.op_kinds
    ]
    size = rng.choice([1024, 4096], graph.num_tensors)
    graph = replace(
        graph,
        op_kinds=tuple(kinds),
        op_seconds=None,
        tensor_bytes=size,
        op_flop=np.full(num_ops, 1e9),
    )
    only_flop = type("OnlyFlop", (Machine,), {"hbm_bytes_per_s": 1e30, "cmem_bytes_per_s": 1e30})
    computed = [i for i, kind in enumerate(kinds) if kind != "input"]
    if not computed:
        return
    program = schedule_graph(graph, only_flop)
    written = {program.tensor_names[t] for t in program.buffer_tensor[program.buffer_is_output]}
    outputs = [
        t
        for t in np.flatnonzero(graph.tensor_is_output)
        if kinds[graph.tensor_producer[t]] != "input"
    ]
    assert {graph.tensor_names[t] for t in outputs} <= written
    if "broadcast_in_dim" not in kinds:
        assert (program.slow_s - 1e-3).sum() == pytest.approx(len(computed))


def test_the_program_of_a_traced_graph_is_that_of_its_function():
    """Would catch two rules for one thing: without broadcasts and views both ways give the same
    instructions."""

    def run(w, x):
        return jnp.tanh(jnp.tanh(x @ w) @ w)

    args = array(20, 20), array(20, 20)
    from_graph = schedule_graph(trace(run, *args), Machine())
    direct = schedule(run, *args, machine=Machine())
    assert from_graph.instruction_names == direct.instruction_names
    assert np.array_equal(from_graph.latency_s, direct.latency_s)


INPUT_OUTPUT = re.compile(r"\{(\d*)\}: \((\d+), \{\}")


def donated_by_xla(function, args):
    """(argument leaf, result leaf) pairs of the compiled program's ``input_output_alias``."""
    compiled = function.lower(*args).compile()
    head = (
        compiled.as_text()
        .splitlines()[0]
        .partition("input_output_alias={")[2]
        .partition(" entry_computation")[0]
    )
    # unused arguments are left out of the program
    kept = sorted(compiled._executable._kept_var_idx)
    return {
        (kept[int(argument)], int(result or 0)) for result, argument in INPUT_OUTPUT.findall(head)
    }


def donated_here(function, args, wrapped=lambda f: f):
    """The same pairs of our program, and (argument, result) pairs of values that share memory
    without being a pair."""
    flow = flatten(wrapped(function), *args, name="f")
    program = schedule(wrapped(function), *args, machine=Machine(), name="f")
    names = {flow.values[v].name: i for i, v in enumerate(flow.arguments)}
    results = {
        flow.values[v].name: i for i, v in reversed(list(enumerate(flow.outputs))) if v is not None
    }
    return {(names[a], results[r]) for _, a, r in alias_pairs(program) if a in names}


SQUARE, OTHER = array(32, 32), array(32, 16)
STATE = {"a": SQUARE, "b": OTHER}


def adamw(params, state, gradient):
    updates, state = OPTIMISER.update(gradient, state, params)
    return optax.apply_updates(params, updates), state


OPTIMISER = optax.adamw(1e-3)
MOMENTS = jax.eval_shape(OPTIMISER.init, STATE)
ROWS = (array(3, dtype=jnp.int32), array(3, 32))
TWO, THREE = (SQUARE, SQUARE), (SQUARE, SQUARE, SQUARE)

# function, donated positions, arguments, of XLA's pairs those that are a copy's work or no update
# here
DONATIONS = [
    (lambda s, v: (s - v, v * 2), 0, TWO, 0),
    (lambda s, v: (s - v, s), 0, TWO, 1),
    (lambda s, v: (s, s - v), 0, TWO, 1),
    (lambda s, v: (s + v, s * 2, s), 0, TWO, 1),
    (lambda s, v: (v, s - v), 0, TWO, 1),
    (lambda s, v: (s - v, v), (0, 1), TWO, 1),
    (lambda s, v: (v, s, s * v), (0, 1), TWO, 2),
    (lambda s, v: (s + v, s - v), (0, 1), TWO, 1),
    (lambda s, v: (s + v, s + v), (0, 1), TWO, 1),
    (lambda s, v: v * 2, 0, TWO, 0),
    (lambda s, v: v * 2, (0, 1), TWO, 0),
    (lambda s, v: (jnp.zeros((32, 32)), s - v), 0, TWO, 1),
    (lambda s: (s[:, :16] * 2, s + 1), 0, (SQUARE,), 0),
    (lambda s: s.astype(jnp.bfloat16), 0, (SQUARE,), 0),
    (lambda s: s.T + 1, 0, (SQUARE,), 0),
    (lambda s: s.reshape(16, 64) * 2, 0, (SQUARE,), 1),
    (lambda s, v: (jnp.sum(s), v + 1), 0, TWO, 1),
    (lambda s, v: jnp.sum(s) * v, 0, TWO, 1),
    (lambda s, v: (s @ v, s - 1), 0, TWO, 0),
    (lambda s, i, u: s.at[i].set(u), 0, (SQUARE, *ROWS), 0),
    (lambda s, i, u: s.at[i].max(u), 0, (SQUARE, *ROWS), 0),
    (lambda s, i, u: s.at[i].subtract(u), 0, (SQUARE, *ROWS), 0),
    (lambda s, i, u: (s.at[i].multiply(u), s), 0, (SQUARE, *ROWS), 1),
    (lambda s, u: lax.dynamic_update_slice(s, u, (3, 0)), 0, (SQUARE, array(1, 32)), 0),
    (lambda s, v: jax.tree.map(lambda a, b: a - 0.1 * b, s, v), 0, (STATE, STATE), 0),
    (lambda s, v: (jax.tree.map(lambda a, b: a - b, s, v), s["b"]), 0, (STATE, STATE), 1),
    (adamw, (0, 1), (STATE, MOMENTS, STATE), 1),
    (lambda s, x: lax.scan(lambda c, _: (c @ x, None), s, None, length=3)[0], 0, TWO, 1),
    (
        lambda p, s: lax.cond(p, lambda s: s + 1, lambda s: s * 2, s),
        1,
        (array(dtype=jnp.bool_), SQUARE),
        0,
    ),
    (lambda s, t, v: (t + v, s + v), (0, 1), THREE, 2),
    (lambda s, t: (s + t, t + 1, 3.0), (0, 1), TWO, 0),
    (lambda s, v: jax.jit(lambda s: s + v)(s), 0, TWO, 0),
]


@pytest.mark.parametrize("number", range(len(DONATIONS)))
def test_donation_is_xlas_or_more_cautious(number):
    """Would catch an argument overwritten that XLA keeps, or one that it overwrites forgotten;
    `less` pairs are XLA's alone: it copies first, or reuses memory that no instruction of ours
    reads and writes at once, or a scalar's."""
    function, donated, args, less = DONATIONS[number]
    jitted = jax.jit(function, donate_argnums=donated)
    expected, pairs = donated_by_xla(jitted, args), donated_here(jitted, args)
    assert pairs <= expected and len(expected) - len(pairs) == less
    assert donated_here(jitted, args, functools.partial) == pairs
    assert donated_here(jitted, args, lambda f: lambda *given: f(*given)) == pairs


def test_a_jit_around_a_jit_decides_itself():
    """Would catch an inner donation that XLA ignores, because the outer program keeps its
    arguments."""
    inner = jax.jit(lambda s: s + 1, donate_argnums=0)
    outer = jax.jit(lambda s: inner(s))
    assert donated_here(outer, (SQUARE,)) == donated_by_xla(outer, (SQUARE,)) == set()
    assert donated_here(lambda s: inner(s), (SQUARE,)) == {(0, 0)}


@pytest.mark.parametrize("kind", ["set", "add", "subtract", "multiply", "min", "max"])
def test_scatters_of_every_kind_are_updates_in_place(kind):
    """Would catch a scatter charged for the whole tensor, or a copy of it, because its name was not
    thought of."""

    def update(x, i, u):
        return getattr(jnp.sin(x).at[i], kind)(u)

    args = array(4096, 256), array(16, dtype=jnp.int32), array(16, 256)
    program = schedule(update, *args, machine=Machine())
    assert program.num_instructions <= 3 and len(alias_pairs(program)) == 1
    graph = trace(update, *args)
    op = next(i for i, kind in enumerate(graph.op_kinds) if kind.startswith("scatter"))
    assert graph.op_flop[op] == (0 if kind == "set" else 16 * 256)
    assert graph.op_tensor_traffic[op] == 3 * 16 * 256 * 4 + 16 * 4
