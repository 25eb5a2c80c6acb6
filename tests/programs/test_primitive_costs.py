"""FLOPs of primitives: against XLA's own cost analysis where it counts the same, by hand elsewhere."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from learned_mapping.programs.trace.dataflow import flatten
from learned_mapping.programs.trace.primitive_costs import TRANSCENDENTAL_FLOP


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def total_flop(function, *args):
    return sum(operation.flop for operation in flatten(function, *args).operations)


CONVOLUTION = {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "padding": "VALID"}

LIKE_XLA = {
    "matrix product": (lambda a, b: a @ b, array(7, 5), array(5, 3)),
    "batched product": (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), array(4, 7, 5), array(4, 5, 3)),
    "outer product": (lambda a, b: jnp.einsum("i,j->ij", a, b), array(7), array(5)),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (2, 1), **CONVOLUTION),
        array(2, 9, 8, 6),
        array(3, 2, 6, 5),
    ),
    "grouped convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), feature_group_count=3, **CONVOLUTION),
        array(2, 9, 8, 6),
        array(3, 2, 2, 9),
    ),
    "dilated convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), rhs_dilation=(2, 3), **CONVOLUTION),
        array(2, 9, 8, 6),
        array(3, 2, 6, 5),
    ),
}


@pytest.mark.parametrize("name", LIKE_XLA)
def test_products_and_convolutions_count_as_in_xla(name):
    """Would catch a wrong contraction, kernel layout, group or stride: XLA counts the same multiply-adds."""
    function, *args = LIKE_XLA[name]
    expected = jax.jit(function).lower(*args).cost_analysis()["flops"]
    assert total_flop(function, *args) == expected


def test_a_transposed_convolution_costs_what_its_forward_one_does():
    """Would catch multiplying the zeros between the inputs of a stride-2 gradient."""

    def forward(x, w):
        return lax.conv_general_dilated(x, w, (2, 2), **CONVOLUTION)

    x, w = array(1, 16, 16, 4), array(2, 2, 4, 8)  # windows tile the input, so no border effects
    y = jax.eval_shape(forward, x, w)
    backward = total_flop(lambda x, w, g: jax.vjp(lambda x: forward(x, w), x)[1](g)[0], x, w, y)
    assert backward == total_flop(forward, x, w)


@pytest.mark.parametrize(
    ("function", "flop"),
    [
        (lambda x: x + x, 24),
        (lambda x: jnp.exp(x), 24 * TRANSCENDENTAL_FLOP),
        (lambda x: x.T, 0),
        (lambda x: x.reshape(24), 0),
        (lambda x: jnp.sum(x), 24),
        (lambda x: jnp.max(x, axis=0), 24),
        (lambda x: lax.cumsum(x, axis=1), 24),
        (lambda x: x[1:3], 0),
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID"), 24),
        (lambda x: x.astype(jnp.bfloat16), 0),
        (lambda x: jnp.where(x > 0, x, -x), 72),
    ],
)
def test_element_wise_and_movement(function, flop):
    """Would catch data movement charged as arithmetic, or arithmetic forgotten; x is [4, 6]."""
    assert total_flop(function, array(4, 6)) == flop
