"""Tracing: what becomes an op, what folds, what is inlined and unrolled, and what is refused."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from learned_mapping_builders.zoo.examples import array

from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipPackage, graph_work
from learned_mapping.hardware.chip_package import op_seconds as op_times
from learned_mapping.hardware.devices import Devices, op_seconds
from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
from learned_mapping.programs.formats import graph_from_json, graph_to_json
from learned_mapping.programs.json_io import Node
from learned_mapping.programs.trace import graph as graph_module
from learned_mapping.programs.trace.dataflow import flatten
from learned_mapping.programs.trace.graph import fold_sources, trace
from learned_mapping.programs.trace.schedule import schedule


def kinds(graph):
    return dict(collections.Counter(graph.op_kinds))


def dense(weights, x):
    return jax.nn.relu(x @ weights["w"] + weights["b"])


WEIGHTS = {"w": array(5, 3), "b": array(3)}


def test_a_dense_layer():
    """Would catch parameters left as ops, a broadcast of one not folded, or wrong bytes: all worked
    out by hand."""
    graph = trace(dense, WEIGHTS, array(7, 5), parameters=0)
    assert graph.op_kinds == ("input", "dot_general", "add", "max")
    assert graph.op_weight_bytes.tolist() == [0, 60, 12, 0]
    assert graph.op_flop.tolist() == [0, 210, 21, 21]
    assert graph.tensor_bytes.tolist() == [140, 84, 84, 84]
    assert graph.tensor_is_output.tolist() == [False, False, False, True]
    assert graph.op_edges.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert graph.op_seconds is None
    assert graph.metadata["parameters"] == 18 and graph.metadata["parameter_bytes"] == 72


@pytest.mark.parametrize("positions", [2, -1, (0, 5), (True,), ("w", 0), "0"])
def test_positions_that_do_not_fit_are_input_errors(positions):
    """Would catch a traceback or a silently ignored position."""
    with pytest.raises(InputError):
        trace(dense, WEIGHTS, array(7, 5), parameters=positions)


def test_calls_are_inlined():
    """Would catch a nested call left as one opaque op: jit, custom derivatives, rematerialisation
    and vmap."""

    @jax.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (double(x), None), lambda _, g: (2 * g,))

    def nested(x):
        return jax.jit(jax.checkpoint(lambda y: jax.vmap(double)(jax.nn.softplus(y))))(x)

    graph = trace(nested, array(4))
    assert not any(name in str(graph.op_kinds) for name in ("jit", "custom", "remat"))
    assert kinds(graph)["mul"] >= 1 and "exp" in graph.op_kinds


def test_a_function_called_twice_closes_over_its_arrays_once():
    """Would catch weights that are counted, and held in memory, once for each call."""
    w = jnp.ones((16, 16))
    layer = jax.jit(lambda x: x @ w)
    once = schedule(lambda x: (x @ w) @ w, array(4, 16), machine=MemoryHierarchy(), name="once")
    for function in (
        lambda x: layer(layer(x)),
        lambda x: lax.fori_loop(0, 2, lambda i, y: layer(y), x),
    ):
        program = schedule(function, array(4, 16), machine=MemoryHierarchy(), name="twice")
        assert sum(program.tensor_is_parameter) == sum(once.tensor_is_parameter) == 2  # x and w


def test_dead_code_and_unused_inputs_are_dropped():
    """Would catch ops no result depends on."""

    def half_dead(x, y):
        jnp.exp(x)
        return x + 1

    assert trace(half_dead, array(4), array(9)).op_kinds == ("input", "add")


def test_loops_are_unrolled():
    """Would catch a lost carry or a wrong order: the graph of a scan is that of the loop written
    out."""

    def body(carry, x):
        carry = jnp.tanh(carry * x)
        return carry, carry

    for reverse in (False, True):
        graph = trace(
            lambda c, xs, r=reverse: lax.scan(body, c, xs, reverse=r), array(4), array(3, 4)
        )
        assert kinds(graph) == {"input": 2, "slice": 3, "mul": 3, "tanh": 3, "concatenate": 1}
        first = next(i for i, kind in enumerate(graph.op_kinds) if kind == "slice")
        assert graph.op_names[first].startswith(f"scan.{2 if reverse else 0}/")
        depth = np.zeros(graph.num_ops, int)
        for op in graph.topological_order:
            before = graph.op_edges[graph.op_edges[:, 1] == op, 0]
            depth[op] = 1 + max(depth[before], default=0)
        assert depth.max() == 1 + 1 + 2 * 3 + 1
    static = trace(lambda x: lax.fori_loop(0, 5, lambda i, y: jnp.sin(y), x), array(4))
    assert kinds(static)["sin"] == 5


def test_a_long_loop_says_its_limit():
    """Would catch an hour of unrolling, and a message that does not say what to do."""

    def run(x):
        return lax.scan(lambda c, _: (jnp.sin(jnp.cos(c)), None), x, None, length=100)[0]

    assert trace(run, array(4), unroll_limit=200).num_ops == 201
    with pytest.raises(InputError) as caught:
        trace(run, array(4), unroll_limit=199)
    assert (
        "200" in str(caught.value)
        and "199" in str(caught.value)
        and "--unroll-limit" in str(caught.value)
    )


def test_data_dependent_loops_are_refused_and_branches_are_not():
    """Would catch a while loop traced once, or a branch of a conditional lost."""
    with pytest.raises(InputError, match="trip count"):
        trace(lambda x: lax.while_loop(lambda y: y.sum() < 9, lambda y: y + y, x), array(4))
    graph = trace(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), array(dtype=jnp.bool_), array(4))
    assert {"sin", "cos", "select_n"} < set(graph.op_kinds)


def test_loops_within_loops_have_a_limit_together(monkeypatch):
    """Would catch a thousand rounds of a thousand, each within its own limit, that fill the
    memory."""

    def counted(rounds, body, x):
        return lax.while_loop(lambda s: s[0] < rounds, lambda s: (s[0] + 1, body(s[1])), (0, x))[1]

    monkeypatch.setattr("learned_mapping.programs.trace.dataflow.MAX_OPERATIONS", 500)
    with pytest.raises(InputError, match="make more than 500 operations"):
        trace(lambda x: counted(20, lambda y: counted(20, jnp.sin, y), x), array(4))
    with pytest.raises(InputError, match="above the limit of 300"):
        trace(
            lambda x: counted(20, lambda y: counted(20, jnp.sin, y), x), array(4), unroll_limit=300
        )


@pytest.mark.parametrize(
    ("test", "change", "rounds"),
    [
        (lambda i: i < 10, lambda i: i + 3, 4),
        (lambda i: i <= 9, lambda i: i + 3, 4),
        (lambda i: 10 > i, lambda i: 1 + i, 10),
        (lambda i: i != 8, lambda i: i + 2, 4),
        (lambda i: i > -5, lambda i: i - 1, 5),
        (lambda i: (i < 10) & (i < 3), lambda i: i + 1, 3),
        (lambda i: i > 3, lambda i: i + 1, 0),
        (lambda i: i < 3, lambda i: i - 1, None),
        (lambda i: i < 3, lambda i: i * 2, None),
        (lambda i: i != 7, lambda i: i + 2, None),
    ],
)
def test_a_while_loop_that_counts_has_its_rounds(test, change, rounds):
    """Would catch one round too many or too few, by direction, step and side, and an endless loop
    laid out."""

    def run(x):
        return lax.while_loop(
            lambda s: test(s[0]), lambda s: (change(s[0]), jnp.sin(s[1])), (0, x)
        )[1]

    if rounds is None:
        with pytest.raises(InputError, match="trip count"):
            trace(run, array(4))
    else:
        assert (
            flatten(run, array(4)).operations == []
            if not rounds
            else kinds(trace(run, array(4)))["sin"] == rounds
        )


def test_a_loop_that_may_end_earlier_is_said_to():
    """Catches a thousand rounds charged for ten in silence, and a counted loop that is doubted."""

    def loop(test):
        return lambda x: lax.while_loop(test, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))[1]

    counted = trace(loop(lambda s: s[0] < 7), array(4))
    assert "rounds_at_most" not in counted.metadata
    early = loop(lambda s: (s[0] < 7) & (s[1].sum() > 0.1))
    assert trace(early, array(4)).metadata["rounds_at_most"] == 7


def written(x, y):
    total = jax.new_ref(jnp.zeros((8, 8)))
    total[...] = x @ y
    total[0] = total[1] * 2
    total[...] += x
    return total[...] + 1


def in_a_loop(x, y):
    total = jax.new_ref(x)

    def body(i, _):
        total[i] = total[i] * 2.0
        return _

    lax.fori_loop(0, 3, body, None)
    return jax.freeze(total) @ y


def in_a_choice(x, y):
    total = jax.new_ref(x)

    def write():
        total[...] = x @ y

    lax.cond(x[0, 0] > 0, write, lambda: None)
    return total[...]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (written, {"dot_general": 1, "get": 1, "mul": 1, "swap": 1, "add": 2}),
        (in_a_loop, {"get": 3, "mul": 3, "swap": 3, "dot_general": 1}),
        (in_a_choice, {"dot_general": 1, "select_n": 1, "gt": 1}),
        (
            lambda x, y: (io_callback(lambda _: None, None, x @ y, ordered=True), x + 1)[1],
            {"dot_general": 1, "add": 1},
        ),
        (
            lambda x, y: (jax.debug.print("{}", x @ y), x + 1)[1],
            {"dot_general": 1, "debug_print": 1, "add": 1},
        ),
        (
            lambda x, y: (jax.debug.callback(print, x @ y, ordered=True), x + 1)[1],
            {"dot_general": 1, "add": 1},
        ),
        (lambda x, y: (jnp.sin(x @ y), x + 1)[1], {"add": 1}),
    ],
)
def test_effects_keep_what_feeds_them(function, expected):
    """Would catch a write into a reference, or what a callback is given, dropped as dead code; and
    dead code kept."""
    counts = kinds(trace(function, array(8, 8), array(8, 8)))
    assert expected.items() <= counts.items()
    assert ("dot_general" in counts) == ("dot_general" in expected)
    schedule_of = schedule(function, array(8, 8), array(8, 8), machine=MemoryHierarchy())
    assert schedule_of.num_instructions >= 1


def test_a_reference_that_outlives_the_call_keeps_its_last_value():
    """Would catch the one effect of a function that returns something else."""
    total = jax.new_ref(jnp.zeros((8, 8)))

    def accumulate(x, y):
        total[...] = total[...] + x @ y
        return x + 1

    graph = trace(accumulate, array(8, 8), array(8, 8))
    assert {"dot_general", "freeze"} <= set(graph.op_kinds) and graph.op_flop.sum() == 1024 + 2 * 64


def test_a_choice_between_literals_reads_its_condition():
    """Would catch a condition dropped because both branches give numbers, and a selection between
    equal ones."""
    graph = trace(
        lambda p, x: lax.cond(p, lambda: 1.0, lambda: 2.0) * x, array(dtype=jnp.bool_), array(4, 4)
    )
    assert "select_n" in graph.op_kinds and graph.op_kinds.count("input") == 2
    same = trace(
        lambda p, x: lax.cond(p, lambda: 1.0, lambda: 1.0) * x, array(dtype=jnp.bool_), array(4, 4)
    )
    assert same.op_kinds == ("input", "mul")


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("int4", 1024),
        ("uint4", 1024),
        ("int2", 512),
        ("float4_e2m1fn", 1024),
        ("int8", 2048),
        ("float6_e2m3fn", 1536),
        ("float8_e4m3fn", 2048),
        ("bool", 2048),
        ("bfloat16", 4096),
    ],
)
def test_types_of_fewer_than_eight_bits_are_packed(dtype, size):
    """Would catch a byte for half a byte, or a bit for a byte."""
    graph = trace(lambda x: x.astype(jnp.float32), array(64, 32, dtype=jnp.dtype(dtype)))
    assert graph.tensor_bytes.tolist() == [size, 8192]


def test_arrays_in_the_programs_text_are_weights():
    """Would catch closed-over arrays lost where JAX keeps them in the program instead of beside
    it."""
    table = np.ones((256, 256), np.float32)

    def run(x):
        return lax.scan(lambda s, _: (jnp.tanh(s @ table), None), x, None, length=3)[0]

    plain = trace(run, array(8, 256))
    before = jax.config.jax_use_simplified_jaxpr_constants
    jax.config.update("jax_use_simplified_jaxpr_constants", True)
    try:
        within = trace(run, array(8, 256))
    finally:
        jax.config.update("jax_use_simplified_jaxpr_constants", before)
    assert plain.op_weight_bytes.sum() == within.op_weight_bytes.sum() == 3 * 262_144
    assert plain.digest == within.digest


def test_shared_parameters_are_held_by_each_user_and_closures_count():
    """Would catch weights counted once for two ops that each must hold them, and captured arrays
    left as ops."""
    table = jnp.ones((3, 3))
    graph = trace(lambda w, x: (x @ w) @ w.T @ table, array(3, 3), array(2, 3), parameters=0)
    assert graph.op_weight_bytes.tolist() == [0, 36, 36, 36]
    assert graph.metadata["parameters"] == 9


def test_a_part_of_a_parameter_weighs_its_part():
    """Would catch a slice of a table charged as the whole table."""
    graph = trace(lambda w, x: x + w[:2], array(100, 3), array(2, 3), parameters=0)
    assert graph.op_weight_bytes.tolist() == [0, 24]


def test_an_unrolled_scan_costs_what_its_steps_cost():
    """Would catch each step charged for the whole sequence that it takes a slice of: quadratic in
    the steps."""

    def body(carry, x):
        carry = jnp.tanh(carry + x)
        return carry, carry

    def seconds(steps):
        graph = trace(lambda c, xs: lax.scan(body, c, xs), array(4096), array(steps, 4096))
        return (
            op_seconds(graph, Devices()).sum(),
            op_times(graph_work(graph), ChipPackage(op_overhead_s=0)).sum(),
        )

    for once, twice in zip(seconds(32), seconds(64)):
        assert twice == pytest.approx(2 * once, rel=0.01)


def test_a_lookup_touches_its_rows_and_an_update_in_place_what_it_writes():
    """Would catch a whole table charged for a few of its rows, whether parameter or tensor, and a
    whole cache for one row written; and an update that must copy what others still read charged for
    the row."""
    rows, indices = 16 * 128 * 4, 16 * 4
    table, which = array(30_000, 128), array(16, dtype=jnp.int32)
    for parameters, (tensors, weights) in (
        (0, (indices + rows, rows)),
        ((), (indices + 2 * rows, 0)),
    ):
        graph = trace(lambda w, i: w.at[i].get(mode="clip"), table, which, parameters=parameters)
        op = graph.op_kinds.index("gather")
        assert (graph.op_tensor_traffic[op], graph.op_weight_traffic[op]) == (tensors, weights)
        assert graph.op_weight_bytes[op] == (30_000 * 128 * 4 if weights else 0), (
            "it holds all rows"
        )
        assert graph_from_json(Node(graph_to_json(graph), "")).digest == graph.digest

    def write(x, row, reads_again):
        y = jnp.sin(x)
        z = lax.dynamic_update_slice(y, row, (3, 0))
        return z + y if reads_again else z * 2

    for reads_again, expected in ((False, 3 * 32), (True, 2 * 32_000 + 32)):
        graph = trace(
            lambda x, row, again=reads_again: write(x, row, again), array(1000, 8), array(1, 8)
        )
        assert graph.op_tensor_traffic[graph.op_kinds.index("dynamic_update_slice")] == expected


def test_what_loses_the_tensor_it_takes_a_part_of_touches_all_that_is_left():
    """Would catch bytes spared twice: of a table of constants that folds away, and of its rows."""
    graph = trace(lambda i: jnp.arange(3000.0)[i] * 2, array(4, dtype=jnp.int32))
    assert graph.metadata["folded_sources"] and "iota" not in graph.op_kinds
    op = graph.op_kinds.index("gather")
    assert graph.op_tensor_traffic[op] == graph.op_input_bytes[op] + graph.op_output_bytes[op] > 0


def test_constant_chains_fold_into_their_users(monkeypatch):
    """Would catch iotas and masks left as sources, or their arithmetic lost."""

    def masked(x):
        return jnp.where(jnp.tri(4, dtype=bool), x, 0.0) @ x

    raw = graph_module.graph_of_dataflow(flatten(masked, array(4, 4)), [])
    assert "iota" in raw.op_kinds
    monkeypatch.setattr(graph_module, "FOLDED_FLOP", 0.2)
    folded = fold_sources(raw)
    assert folded.op_kinds == ("input", "select_n", "dot_general")
    assert folded.op_flop.sum() >= raw.op_flop.sum()
    assert folded.metadata["folded_sources"] == raw.num_ops - 3
    monkeypatch.setattr(graph_module, "FOLDED_FLOP", 0.0)
    assert fold_sources(raw).num_ops > 3


def test_a_table_cut_and_joined_often_is_one_table():
    """Would catch weights that double at each of eighty joins, past 64 bits: what folds counts once
    a path."""
    table = np.ones((64, 8), np.float32)

    def joined(x):
        rows = jnp.asarray(table)
        for _ in range(80):
            rows = lax.concatenate([rows[:32], rows[32:]], 0)
        return x @ x + rows[0, 0]

    graph = trace(joined, array(64, 64))
    assert graph.metadata["folded_sources"] == 3 * 80
    assert 0 < graph.op_weight_bytes.max() <= table.nbytes


def test_functions_that_cannot_be_traced():
    """Would catch a traceback from inside a user's function."""

    def broken(x):
        return x @ x

    with pytest.raises(InputError) as caught:
        trace(broken, array(3, 4))
    assert "cannot be traced" in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="computes nothing"):
        trace(lambda w: w.T, array(3, 4), parameters=0)
    with pytest.raises(InputError):
        trace(lambda x: 3.0, array(3))


def test_traced_graphs_can_be_written():
    """Would catch a name or a number in a traced graph that its file refuses."""
    graph = trace(
        jax.value_and_grad(lambda w, x: dense(w, x).sum()), WEIGHTS, array(7, 5), parameters=0
    )
    assert graph_from_json(Node(graph_to_json(graph), "f")).digest == graph.digest
