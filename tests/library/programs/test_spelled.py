"""Primitives that every writer of a file spells out: the operations that stand for them, by hand."""

import collections

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from learned_mapping_builders import zoo
from learned_mapping_builders.zoo.examples import array

from learned_mapping.doors.user_function import Example
from learned_mapping.programs.trace.graph import trace

X = array(6, 4)
N = 24
KEY = array(2, dtype=jnp.uint32)
INDEX = array(6, 4, dtype=jnp.int32)
SPELLED = {
    # name: function, arguments, kinds besides inputs, FLOP
    "power 7": (lambda x: x**7, [X], {"mul": 4}, 4 * N),  # x, x^2, x^3, x^4, x^7
    "power -3": (lambda x: x**-3, [X], {"mul": 2, "div": 1}, 3 * N),
    "power -1": (lambda x: x**-1, [X], {"div": 1}, N),
    "power 1": (lambda x: lax.integer_pow(x, 1) + 1, [X], {"add": 1}, N),
    "power of 2": (lax.exp2, [X], {"mul": 1, "exp": 1}, 11 * N),
    "a whole exponent": (lax.pow, [X, INDEX], {"convert_element_type": 1, "pow": 1}, 10 * N),
    "stack": (
        lambda x: jnp.stack([x, x], 1),
        [X],
        {"broadcast_in_dim": 2, "concatenate": 1},
        0,
    ),
    "unstack": (lambda x: jnp.unstack(x, axis=1), [X], {"slice": 4, "reshape": 4}, 0),
    "tile": (lambda x: jnp.tile(x, (2, 3)), [X], {"reshape": 2, "broadcast_in_dim": 1}, 0),
    "choice of three": (
        lambda i, x, y, z: lax.select_n(i, x, y, z),
        [INDEX, X, X, X],
        {"lt": 2, "select_n": 2},
        4 * N,
    ),
    "all of it": (lambda x: lax.slice(x, (0, 0), (6, 4)) + 1, [X], {"add": 1}, N),
    "no border": (lambda x: lax.pad(x, 0.0, ((0, 0, 0),) * 2) + 1, [X], {"add": 1}, N),
    "one part": (lambda x: lax.split(x, (4,), axis=1)[0] + 1, [X], {"add": 1}, N),
    "narrow bits": (
        lambda k: jax.random.bits(jax.random.wrap_key_data(k), (6, 4), "uint16"),
        [KEY],
        {"random_bits": 1, "convert_element_type": 1},
        40 * N,
    ),
    # 4/3 n^3 for reflectors and triangle, as many for the orthogonal factor; n^2 to compare, to
    # move the row of a place and to choose
    "qr": (
        jnp.linalg.qr,
        [array(6, 6)],
        {"geqrf": 1, "householder_product": 1, "add": 1, "ge": 1, "select_n": 1},
        8 / 3 * 6**3 + 3 * 36,
    ),
}


@pytest.mark.parametrize("name", SPELLED)
def test_what_every_writer_spells_out_is_spelled_out(name):
    """Would catch a primitive that costs one operation where a file of the same function has
    several."""
    function, args, kinds, flop = SPELLED[name]
    graph = trace(function, *args)
    found = collections.Counter(kind for kind in graph.op_kinds if kind != "input")
    assert found == kinds and graph.op_flop.sum() == pytest.approx(flop)


EMPTY = {
    "parts of a product so far": (jax.grad(lambda x: jnp.cumprod(x).sum()), [array(64)]),
    "a loop of no rounds": (
        lambda x, c: lax.scan(lambda c, a: (c + a, c), c, x, unroll=4)[0] * 2,
        [array(0, 4), array(4)],
    ),
    "products of no groups": (
        jax.grad(lambda a, b, g, y: lax.ragged_dot(a, b, g).sum() + y.sum() ** 2, (1, 3)),
        [array(8, 4), array(0, 4, 2), array(0, dtype=jnp.int32), array(4)],
    ),
}


@pytest.mark.parametrize("name", EMPTY)
def test_what_is_empty_costs_nothing_and_is_there(name):
    """Would catch a result that is lost because nothing is in it, and a division by none."""
    function, args = EMPTY[name]
    assert 0 < trace(function, *args).op_flop.sum() < 2000


def test_wide_bits_are_two_words_joined():
    """Would catch 64 bits at the price of 32: two words of 40 FLOP, a shift and an or."""
    with jax.enable_x64(True):
        graph = trace(
            lambda k, x: jax.random.bits(jax.random.wrap_key_data(k), (6, 4), "uint64") + x,
            KEY,
            jax.ShapeDtypeStruct((6, 4), "uint64"),
        )
    kinds = collections.Counter(graph.op_kinds)
    assert kinds["threefry2x32"] == kinds["shift_left"] == kinds["or"] == 1
    assert graph.op_flop.sum() == pytest.approx((80 + 3) * N)


def test_stored_graphs_keep_what_they_were_made_of():
    """Would catch a stored set that a new spelling moves: one operation each, a power at one FLOP
    an element, and marks that are operations."""

    def function(x):
        stacked = jnp.stack([lax.stop_gradient(x**3), lax.exp2(x)])
        return jnp.tile(stacked, (1, 1, 2))

    case = Example(function, (X,), ())
    graph = zoo.frozen_trace(case, "f")
    kinds = collections.Counter(graph.op_kinds)
    assert kinds == dict.fromkeys("input integer_pow stop_gradient exp2 stack tile".split(), 1)
    assert graph.op_flop.sum() == N + 10 * N + 2 * N  # a power, powers of 2, and the stack
