"""FLOPs of primitives: against XLA's own cost analysis where it counts the same, by hand
elsewhere."""

import gc
import importlib

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import io_callback, sparse
from jax.experimental import pallas as pl
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend import core as jex
from jax.sharding import AbstractMesh, Mesh
from jax.sharding import PartitionSpec as Spec
from learned_mapping_builders.zoo.examples import array

from learned_mapping.programs.trace.dataflow import flatten
from learned_mapping.programs.trace.graph import trace
from learned_mapping.programs.trace.primitive_costs import (
    GAMMA_FLOP,
    RANDOM_FLOP,
    RULES,
    TRANSCENDENTAL_FLOP,
)

KNOWN = RULES.keys() | set(
    "jit pjit closed_call core_call call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr"
    " custom_jvp_call_jaxpr checkpoint remat2 remat_opt custom_lin custom_linear_solve linear_call"
    " composite custom_partitioning custom_vmap_call shard_map pallas_call core_map mpmd_map"
    " run_state run_scoped jaxpr_call eval_jaxpr call_hi_primitive call_hi_primitive_linearized"
    " stage scan cond while".split()
)
"""Primitives that have a rule, and those that hold functions, whose operations count."""


def total_flop(function, *args):
    return sum(operation.flop for operation in flatten(function, *args).operations)


def convolved(strides, **options):
    layout = {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "padding": "VALID"}
    return lambda x, w: lax.conv_general_dilated(x, w, strides, **layout, **options)


LIKE_XLA = {
    "matrix product": (lambda a, b: a @ b, array(7, 5), array(5, 3)),
    "batched product": (
        lambda a, b: jnp.einsum("bij,bjk->bik", a, b),
        array(4, 7, 5),
        array(4, 5, 3),
    ),
    "outer product": (lambda a, b: jnp.einsum("i,j->ij", a, b), array(7), array(5)),
    "convolution": (convolved((2, 1)), array(2, 9, 8, 6), array(3, 2, 6, 5)),
    "grouped convolution": (
        convolved((1, 1), feature_group_count=3),
        array(2, 9, 8, 6),
        array(3, 2, 2, 9),
    ),
    "dilated convolution": (
        convolved((1, 1), rhs_dilation=(2, 3)),
        array(2, 9, 8, 6),
        array(3, 2, 6, 5),
    ),
}


@pytest.mark.parametrize("name", LIKE_XLA)
def test_products_and_convolutions_count_as_in_xla(name):
    """Would catch a wrong contraction, kernel layout, group or stride: XLA counts the same
    multiply-adds."""
    function, *args = LIKE_XLA[name]
    expected = jax.jit(function).lower(*args).cost_analysis()["flops"]
    assert total_flop(function, *args) == expected


def test_a_transposed_convolution_costs_what_its_forward_one_does():
    """Would catch multiplying the zeros between the inputs of a stride-2 gradient."""
    forward = convolved((2, 2))
    x, w = array(1, 16, 16, 4), array(2, 2, 4, 8)  # windows tile the input, so no border effects
    y = jax.eval_shape(forward, x, w)
    backward = total_flop(lambda x, w, g: jax.vjp(lambda x: forward(x, w), x)[1](g)[0], x, w, y)
    assert backward == total_flop(forward, x, w)


def pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID")


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
        (lambda x: lax.reduce(x, np.float32(0), lambda a, b: a * b + a, (1,)), 48),
        (
            lambda x: jnp.matmul(x.astype(jnp.complex64), x.T.astype(jnp.complex64)),
            4 * 2 * 4 * 4 * 6,
        ),
        (lambda x: jax.grad(lambda y: pooled(y).sum())(x), 24),
        (lambda x: jax.jvp(pooled, (x,), (x,))[1], 24),
        (
            lambda x: lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), (10,), jnp.uint32)[1],
            10 * RANDOM_FLOP,
        ),
    ],
)
def test_element_wise_and_movement(function, flop):
    """Would catch data movement charged as arithmetic, or arithmetic forgotten; x is [4, 6]."""
    assert total_flop(function, array(4, 6)) == flop


def test_every_primitive_of_the_installed_jax_has_its_rule():
    """Would catch a primitive that a new JAX brings, charged by a guess."""
    names = {value.name for key, value in vars(jex.primitives).items() if key.endswith("_p")}
    assert len(names) > 150 and names <= KNOWN


OPAQUE = {"call_exported", "cudnn_fusion", "ffi_call", "io_callback", "pure_callback", "spsolve"}
OPAQUE |= {"global_array_to_host_local_array", "host_local_array_to_global_array"}
"""Calls of code that JAX does not see, a library's sparse solver, and what passes arrays between
hosts, of which this process may know or not: the only primitives of unknown cost."""


def test_primitives_without_a_public_name_have_their_rules_too():
    """Would catch those of kernels, sparse matrices and meshes forgotten because no list names
    them."""
    for module in ("experimental.sparse", "experimental.pallas", "scipy.linalg", "custom_batching"):
        importlib.import_module(f"jax.{module}")
    names = {value.name for value in gc.get_objects() if isinstance(value, jex.Primitive)}
    assert len(names) > 300
    assert names - KNOWN <= OPAQUE


def mesh(count=1):
    return AbstractMesh((count,), ("d",))


def sharded(count, *specs):
    return lambda a, b: jax.shard_map(
        lambda a, b: a @ b, mesh=mesh(count), in_specs=specs, out_specs=Spec("d", None)
    )(a, b)  # fmt: skip


def kernel(grid):
    """A matrix product in blocks of 128 columns; the body adds them up where the grid goes over
    them twice."""

    def body(a, b, out):
        @pl.when(pl.program_id(0) >= 0)
        def _():
            out[...] = lax.fori_loop(0, 4, lambda i, x: x + a[...] @ b[...], jnp.zeros(out.shape))

    blocks = [
        pl.BlockSpec((128, 512), lambda i: (i, 0)),
        pl.BlockSpec((512, 128), lambda i: (0, 0)),
    ]
    out = pl.BlockSpec((128, 128), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct((256, 128), jnp.float32)
    return lambda a, b: pl.pallas_call(
        body, out_shape=shape, grid=grid, in_specs=blocks, out_specs=out
    )(a, b)


@custom_partitioning
def partitioned(a, b):
    return a @ b + 1


partitioned.def_partition(
    partition=lambda *_: None,
    infer_sharding_from_operands=lambda *_: None,
    sharding_rule="i k, k j -> i j",
)
LINEAR = jax.custom_derivatives.linear_call
KEY = jax.eval_shape(lambda: jax.random.key(0))
MATRICES = array(256, 512), array(512, 128)
PRODUCT = 2 * 256 * 512 * 128


def counted(a, x):
    """A loop that JAX keeps as a `while`, of at most ten rounds."""
    return lax.while_loop(
        lambda s: (s[0] < 10) & (jnp.sum(s[1]) < 9.0), lambda s: (s[0] + 2, s[1] @ a), (0, x)
    )[1]  # fmt: skip


def gradient_steps(a, b):
    return jsp.sparse.linalg.cg(lambda x: a @ x, b, maxiter=10)[0]


ENTRIES = array(100, 2, dtype=jnp.int32)


def spread(data, indices, x):
    return sparse.BCOO((data, indices), shape=(64, 64)) @ x


CLOSED = {
    "a map over shards": (sharded(1, Spec("d", None), Spec()), MATRICES, PRODUCT),
    "a map over eight shards": (sharded(8, Spec("d", None), Spec()), MATRICES, PRODUCT),
    "a kernel": (kernel((2,)), MATRICES, 4 * (PRODUCT + 256 * 128) + 2 * 4),
    "a composite": (
        lax.composite(lambda a, b: a @ b + 1, "own.product"),
        MATRICES,
        PRODUCT + 256 * 128,
    ),
    "custom partitioning": (partitioned, MATRICES, PRODUCT + 256 * 128),
    "a linear call": (
        lambda a, b: LINEAR(lambda r, x: x @ r, lambda r, x: x @ r.T, b, a),
        MATRICES,
        PRODUCT,
    ),
    "a linear solve of one's own": (
        lambda a, b: lax.custom_linear_solve(lambda x: a @ x, b, lambda _, b: a @ (a @ b)),
        (array(64, 64), array(64)),
        2 * 2 * 64 * 64,
    ),
    "a ragged product": (
        lax.ragged_dot,
        (array(128, 64), array(4, 64, 32), array(4, dtype=jnp.int32)),
        2 * 128 * 64 * 32,
    ),
    "Cholesky": (
        lambda a: lax.linalg.cholesky(a, symmetrize_input=False),
        (array(1024, 1024),),
        1024**3 / 3,
    ),
    "triangles": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
        (array(256, 256), array(256, 128)),
        256**2 * 128,
    ),
    "triangles from the right": (
        lax.linalg.triangular_solve,
        (array(3, 16, 16), array(3, 5, 16)),
        3 * 16**2 * 5,
    ),
    "LU": (lambda a: lax.linalg.lu(a)[0], (array(5, 96, 96),), 5 * 2 / 3 * 96**3),
    "solve": (
        jnp.linalg.solve,
        (array(128, 128), array(128, 16)),
        2 / 3 * 128**3 + 2 * 128**2 * 16,
    ),
    "QR": (
        lambda a: lax.linalg.qr(a, full_matrices=False),
        (array(256, 128),),
        2 * 2 * 128**2 * (256 - 128 / 3),  # the triangle, and as much for the orthogonal factor
    ),
    "eigenvalues": (
        lambda a: lax.linalg.eigh(a, symmetrize_input=False),
        (array(64, 64),),
        9 * 64**3,
    ),
    "singular values": (
        lambda a: lax.linalg.svd(a, compute_uv=False),
        (array(64, 32),),
        4 * 64 * 32**2 - 4 / 3 * 32**3,
    ),
    "Fourier": (jnp.fft.fft, (array(16, 1024),), 5 * 16 * 1024 * 10),
    "real Fourier": (jnp.fft.rfft2, (array(3, 16, 64),), 2.5 * 3 * 16 * 64 * 10),
    "sort of columns": (lambda x: jnp.sort(x, axis=0), (array(4096, 2),), 4096 * 2 * 12),
    "sort of rows": (lambda x: jnp.sort(x, axis=1), (array(2, 4096),), 4096 * 2 * 12),
    "the eight greatest": (lambda x: lax.top_k(x, 8, axis=0)[0], (array(4096, 2),), 4096 * 2 * 3),
    "random words": (lambda k: jax.random.bits(k, (100,)), (KEY,), 100 * RANDOM_FLOP),
    "new keys": (lambda k: jax.random.split(k, 3), (KEY,), 3 * 2 * RANDOM_FLOP),
    "gamma draws": (lambda k: jax.random.gamma(k, 2.0, (100,)), (KEY,), 100 * GAMMA_FLOP),
    "a loop that counts": (counted, (array(64, 64), array(8, 64)), 5 * (2 * 8 * 64 * 64 + 8 * 64)),
    "conjugate gradients": (gradient_steps, (array(256, 256), array(256)), 11 * 2 * 256**2),
    "a general reduction": (
        lambda x: lax.reduce(x, 0.0, lambda a, b: a + b * b, (0,)),
        (array(40, 60),),
        2 * 40 * 60,
    ),
    "a sparse product": (spread, (array(100), ENTRIES, array(64, 16)), 2 * 100 * 16),
    "a sparse product of whole numbers": (
        spread,
        (array(100, dtype=jnp.int32), ENTRIES, array(64, 16, dtype=jnp.int32)),
        2 * 100 * 16,
    ),
    "entries of a product": (
        jax.grad(lambda d, i, x: spread(d, i, x).sum()),
        (array(100), ENTRIES, array(64, 16)),
        2 * 100 * 16,
    ),
    "a scatter of maxima": (
        lambda x, i, u: x.at[i, i].max(u),
        (array(40, 60), array(1, dtype=jnp.int32), array(1)),
        1,
    ),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(name):
    """Would catch a primitive charged one per element: its function not entered, or its formula
    missing; and a rule for one shape alone (batches, axes, sides). What is beside the operation
    meant is a few per cent at most."""
    function, args, flop = CLOSED[name]
    graph = trace(function, *args)
    assert graph.op_flop.sum() == pytest.approx(
        flop, rel=0.05 if name == "conjugate gradients" else 0.01, abs=64
    )
    assert "unknown_ops" not in graph.metadata


def test_a_mesh_of_devices_shares_what_a_map_reads():
    """Would catch weights that every shard reads counted as often as there are shards."""
    flow = flatten(sharded(8, Spec("d", None), Spec()), *MATRICES)
    product = next(operation for operation in flow.operations if operation.kind == "dot_general")
    assert product.read_bytes == (4 * 256 * 512, 4 * 512 * 128)
    assert [flow.values[v].bytes for v in product.outputs] == [4 * 256 * 128]


def test_marks_are_nothing():
    """Would catch an op or an instruction for a name, a sharding, a layout or a barrier."""
    one = Mesh(np.array(jax.devices()[:1]), ("d",))
    place = jax.sharding.NamedSharding(one, Spec())

    def marked(x, w):
        y = checkpoint_name(jnp.tanh(x @ w), "activation")
        y, w = lax.optimization_barrier((lax.with_sharding_constraint(y, place), w))
        return jnp.tanh(y) @ w

    args = array(64, 64), array(64, 64)
    plain = trace(lambda x, w: jnp.tanh(jnp.tanh(x @ w)) @ w, *args, name="f", parameters=1)
    assert trace(marked, *args, name="f", parameters=1).digest == plain.digest


def test_what_nobody_can_cost_is_named():
    """Would catch a foreign call charged by a guess without a word."""

    def foreign(x):
        y = jax.pure_callback(np.sin, x, x)
        io_callback(lambda _: None, None, y, ordered=True)
        return y + jax.ffi.ffi_call("anything", x)(x)

    graph = trace(foreign, array(8, 8))
    assert graph.metadata["unknown_ops"] == {"ffi_call": 1, "io_callback": 1, "pure_callback": 1}
    assert flatten(foreign, array(8, 8)).facts["unknown_ops"] == graph.metadata["unknown_ops"]
