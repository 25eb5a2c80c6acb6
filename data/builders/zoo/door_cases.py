"""Functions that go through every door: each primitive with a rule, and whole functions."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.experimental import sparse
from learned_mapping_builders.zoo.examples import array

E = array(64, 128)
RULES: dict = {}
SMOOTH = """
exp exp2 expm1 log log1p tanh tan sin cos sinh cosh asin acos atan asinh acosh atanh
logistic erf erfc erf_inv sqrt rsqrt cbrt lgamma digamma bessel_i0e bessel_i1e neg sign
abs floor ceil round square is_finite
"""
for n in SMOOTH.split():
    RULES[n] = (getattr(lax, n), [E])
for n in "add sub mul div rem max min pow atan2 nextafter".split():
    RULES[n] = (getattr(lax, n), [E, E])
RULES["integer_pow"] = (lambda x: lax.integer_pow(x, 3), [E])
RULES["integer_pow7"] = (lambda x: lax.integer_pow(x, 7), [E])
RULES["igamma"] = (lax.igamma, [E, E])
RULES["igammac"] = (lax.igammac, [E, E])
RULES["betainc"] = (lax.betainc, [E, E, E])
RULES["zeta"] = (lax.zeta, [E, E])
RULES["polygamma"] = (lax.polygamma, [E, E])
RULES["igamma_grad_a"] = (lax.igamma_grad_a, [E, E])
RULES["clamp"] = (lambda x: lax.clamp(-1.0, x, 1.0), [E])
RULES["select"] = (lambda c, x, y: lax.select(c > 0, x, y), [E, E, E])
for n in "cumsum cumprod cummax cummin cumlogsumexp".split():
    RULES[n] = (lambda x, n=n: getattr(lax, n)(x, axis=1), [E])
RULES["sort"] = (lambda x: lax.sort(x, dimension=1), [E])
RULES["sort2"] = (lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), [E, E])
RULES["argmax"] = (lambda x: jnp.argmax(x, 1), [E])
RULES["argmin"] = (lambda x: jnp.argmin(x, 1), [E])
RULES["top_k"] = (lambda x: lax.top_k(x, 8), [array(64, 512)])
RULES["approx"] = (lambda x: lax.approx_max_k(x, 8), [array(64, 512)])
RULES["popcount"] = (lax.population_count, [array(64, 128, dtype=jnp.uint32)])
RULES["clz"] = (lax.clz, [array(64, 128, dtype=jnp.uint32)])
A = array(128, 128)
RULES["cholesky"] = (lax.linalg.cholesky, [A])
RULES["lu"] = (lambda x: lax.linalg.lu(x), [A])
RULES["qr"] = (lambda x: jnp.linalg.qr(x), [A])
RULES["qr_r"] = (lambda x: jnp.linalg.qr(x, mode="r"), [A])
RULES["eigh"] = (lambda x: lax.linalg.eigh(x), [A])
RULES["svd"] = (lambda x: lax.linalg.svd(x, full_matrices=False), [array(96, 64)])
RULES["svd_full"] = (lambda x: lax.linalg.svd(x, full_matrices=True), [array(96, 64)])
RULES["svdvals"] = (lambda x: lax.linalg.svd(x, compute_uv=False), [array(96, 64)])
RULES["trisolve"] = (
    lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
    [A, array(128, 32)],
)
RULES["eig"] = (lambda x: lax.linalg.eig(x), [array(32, 32)])
RULES["schur"] = (lambda x: lax.linalg.schur(x), [array(32, 32)])
RULES["hessenberg"] = (lambda x: lax.linalg.hessenberg(x), [array(32, 32)])
RULES["tridiagonal"] = (lambda x: lax.linalg.tridiagonal(x, lower=True), [array(32, 32)])
RULES["trisolve3"] = (
    lambda a, b, c, d: lax.linalg.tridiagonal_solve(a, b, c, d),
    [array(64), array(64), array(64), array(64, 4)],
)
RULES["inv"] = (jnp.linalg.inv, [A])
RULES["solve"] = (jnp.linalg.solve, [A, array(128, 8)])
RULES["lstsq"] = (lambda a, b: jnp.linalg.lstsq(a, b)[0], [array(64, 32), array(64, 4)])
RULES["det"] = (jnp.linalg.det, [A])
RULES["pinv"] = (jnp.linalg.pinv, [array(64, 32)])
RULES["cholesky_batch"] = (lax.linalg.cholesky, [array(3, 64, 64)])
RULES["lu_batch"] = (lambda x: lax.linalg.lu(x), [array(3, 64, 64)])
RULES["eigh_batch"] = (lambda x: lax.linalg.eigh(x), [array(3, 64, 64)])
RULES["fft"] = (lambda x: jnp.fft.fft(x), [array(16, 128)])
RULES["rfft"] = (lambda x: jnp.fft.rfft(x), [array(16, 128)])
RULES["irfft2"] = (lambda x: jnp.fft.irfft2(x), [array(16, 65, dtype=jnp.complex64)])
RULES["conv"] = (
    lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"),
    [array(2, 8, 16, 16), array(16, 8, 3, 3)],
)
RULES["conv_t"] = (
    lambda x, k: lax.conv_general_dilated(x, k, (1, 1), ((1, 2), (1, 2)), lhs_dilation=(2, 2)),
    [array(2, 8, 16, 16), array(16, 8, 3, 3)],
)
RULES["conv_ts"] = (
    lambda x, k: lax.conv_general_dilated(x, k, (2, 2), ((2, 1), (0, 3)), lhs_dilation=(2, 2)),
    [array(2, 8, 16, 16), array(16, 8, 3, 3)],
)
RULES["conv_g"] = (
    lambda x, k: lax.conv_general_dilated(x, k, (2, 2), "SAME", feature_group_count=8),
    [array(2, 8, 16, 16), array(8, 1, 3, 3)],
)
RULES["einsum"] = (lambda a, b: jnp.einsum("bij,jk->bik", a, b), [array(4, 32, 64), array(64, 16)])
RULES["ragged"] = (
    lambda a, b, g: lax.ragged_dot(a, b, g),
    [array(128, 64), array(4, 64, 32), array(4, dtype=jnp.int32)],
)
RULES["rw_sum"] = (
    lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID"),
    [array(16, 16)],
)
RULES["rw_max"] = (
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME"),
    [array(16, 16)],
)
RULES["rw_gen"] = (
    lambda x: lax.reduce_window(x, 1.0, lambda a, b: a * b + jnp.sin(a), (2, 2), (2, 2), "VALID"),
    [array(16, 16)],
)
RULES["reduce_gen"] = (lambda x: lax.reduce(x, np.float32(1), lambda a, b: a * b + a, (1,)), [E])
RULES["reduce_logic"] = (lambda x: jnp.all(x > 0, axis=1), [E])
RULES["maxpool_grad"] = (
    jax.grad(
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()
    ),
    [array(2, 16, 16, 4)],
)
RULES["scatter_add"] = (
    lambda x, ix, up: x.at[ix].add(up),
    [array(100, 8), array(10, dtype=jnp.int32), array(10, 8)],
)
RULES["scatter"] = (
    lambda x, ix, up: x.at[ix].set(up),
    [array(100, 8), array(10, dtype=jnp.int32), array(10, 8)],
)
RULES["scatter_mul"] = (
    lambda x, ix, up: x.at[ix].mul(up),
    [array(100, 8), array(10, dtype=jnp.int32), array(10, 8)],
)
RULES["scatter_max"] = (
    lambda x, ix, up: x.at[ix].max(up),
    [array(100, 8), array(10, dtype=jnp.int32), array(10, 8)],
)
RULES["scatter_apply"] = (
    lambda x, ix: x.at[ix].apply(jnp.sin),
    [array(100, 8), array(10, dtype=jnp.int32)],
)
RULES["gather"] = (lambda x, ix: x[ix], [array(100, 8), array(10, dtype=jnp.int32)])
RULES["complex"] = (lambda x, y: lax.complex(x, y) * lax.complex(y, x), [E, E])
RULES["cexp"] = (lambda x: jnp.exp(x), [array(64, 128, dtype=jnp.complex64)])
RULES["cabs"] = (lambda x: jnp.abs(x), [array(64, 128, dtype=jnp.complex64)])
key = array(2, dtype=jnp.uint32)
RULES["bits"] = (lambda k: jax.random.bits(jax.random.wrap_key_data(k), (256, 128)), [key])
RULES["uniform"] = (lambda k: jax.random.uniform(jax.random.wrap_key_data(k), (256, 128)), [key])
RULES["normal"] = (lambda k: jax.random.normal(jax.random.wrap_key_data(k), (256, 128)), [key])
RULES["split"] = (
    lambda k: jax.random.key_data(jax.random.split(jax.random.wrap_key_data(k), 8)),
    [key],
)
RULES["fold_in"] = (
    lambda k: jax.random.key_data(jax.random.fold_in(jax.random.wrap_key_data(k), 3)),
    [key],
)
RULES["bernoulli"] = (
    lambda k: jax.random.bernoulli(jax.random.wrap_key_data(k), 0.5, (256, 128)),
    [key],
)
RULES["gamma"] = (lambda k: jax.random.gamma(jax.random.wrap_key_data(k), 2.0, (64,)), [key])
RULES["permutation"] = (lambda k: jax.random.permutation(jax.random.wrap_key_data(k), 128), [key])
RULES["rngbit"] = (lambda k: lax.rng_bit_generator(k, (64, 64)), [array(4, dtype=jnp.uint32)])
RULES["bits16"] = (
    lambda k: jax.random.bits(jax.random.wrap_key_data(k), (64, 32), "uint16"),
    [key],
)
RULES["normal_bf16"] = (
    lambda k: jax.random.normal(jax.random.wrap_key_data(k), (64, 32), "bfloat16"),
    [key],
)
RULES["stack"] = (lambda x, y: jnp.stack([x, y], 1), [E, E])
RULES["unstack"] = (lambda x: jnp.unstack(x, axis=1)[3] * 2, [E])
RULES["tile"] = (lambda x: jnp.tile(x, (2, 3)), [E])
RULES["choice_by_index"] = (
    lambda i, x: lax.select_n(i, x, x * 2, x + 1),
    [array(64, 128, dtype=jnp.int32), E],
)
RULES["to_bool"] = (lambda x: jnp.any(x, axis=1), [E])
RULES["conj"] = (lambda x: jnp.conj(x) * x, [array(64, 128, dtype=jnp.complex64)])
RULES["pow_int"] = (lax.pow, [E, array(64, 128, dtype=jnp.int32)])
RULES["whole_slice"] = (lambda x: lax.slice(x, (0, 0), (64, 128)) + 1, [E])
RULES["whole_pad"] = (lambda x: lax.pad(x, 0.0, ((0, 0, 0), (0, 0, 0))) + 1, [E])
RULES["gather_filled"] = (
    lambda x, i: jnp.take_along_axis(x, i, 1),
    [E, array(64, 128, dtype=jnp.int32)],
)
RULES["maxpool_grad_border"] = (
    jax.grad(
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME").sum()
    ),
    [array(2, 16, 16, 8)],
)
RULES["ragged_grad"] = (
    jax.grad(lambda a, b, g: lax.ragged_dot(a, b, g).sum(), argnums=(0, 1)),
    [array(128, 64), array(4, 64, 32), array(4, dtype=jnp.int32)],
)
RULES["lu_solve"] = (
    lambda a, b: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), b),
    [array(64, 64), array(64, 4)],
)
RULES["svd_grad"] = (
    jax.grad(lambda x: jnp.linalg.svd(x, full_matrices=False)[1].sum()),
    [array(64, 64)],
)
C = array(64, 128, dtype=jnp.complex64)
for n in "exp log sqrt tanh sinh atan sin cos".split():
    RULES[f"{n}_complex"] = (getattr(lax, n), [C])
RULES["conv_complex"] = (
    lambda x, k: lax.conv(x, k, (1, 1), "SAME"),
    [array(1, 4, 8, 8, dtype=jnp.complex64), array(4, 4, 3, 3, dtype=jnp.complex64)],
)
RULES["sparse"] = (
    lambda data, indices, x: sparse.BCOO((data, indices), shape=(64, 64)) @ x,
    [array(100), array(100, 2, dtype=jnp.int32), array(64, 16)],
)
RULES["eigh_complex"] = (jnp.linalg.eigh, [array(32, 32, dtype=jnp.complex64)])
WHOLE: dict = {}


def ffn(x, a, b):
    return jax.nn.gelu(x @ a, approximate=False) @ b


WHOLE["ffn4"] = (
    lambda x, a, b: ffn(ffn(ffn(ffn(x, a, b), a, b), a, b), a, b),
    [array(128, 256), array(256, 1024), array(1024, 256)],
)
WHOLE["gelu"] = (lambda x: jax.nn.gelu(x, approximate=False), [array(512, 1024)])
WHOLE["softmax"] = (lambda x: jax.nn.softmax(x), [E])
WHOLE["logsoftmax"] = (lambda x: jax.nn.log_softmax(x), [E])
WHOLE["layernorm"] = (
    lambda x, g, b: (
        (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b
    ),
    [E, array(128), array(128)],
)


def att(q, k, v):
    s = jnp.einsum("bthd,bshd->bhts", q, k) / 8.0
    m = jnp.tril(jnp.ones(s.shape[-2:], bool))
    s = jnp.where(m, s, -1e9)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(s), v)


WHOLE["attention"] = (att, [array(2, 32, 4, 16)] * 3)
WHOLE["dpa"] = (lambda q, k, v: jax.nn.dot_product_attention(q, k, v), [array(2, 32, 4, 16)] * 3)
WHOLE["grad_att"] = (
    jax.grad(lambda q, k, v: att(q, k, v).sum(), argnums=(0, 1, 2)),
    [array(2, 32, 4, 16)] * 3,
)
WHOLE["dropout"] = (
    lambda x, k: jnp.where(
        jax.random.bernoulli(jax.random.wrap_key_data(k), 0.9, x.shape), x / 0.9, 0
    ),
    [E, key],
)
WHOLE["scan"] = (
    lambda x, w: lax.scan(lambda c, wi: (jnp.tanh(c @ wi), c.sum()), x, w),
    [array(32, 64), array(12, 64, 64)],
)
WHOLE["fori"] = (lambda x: lax.fori_loop(0, 8, lambda i, c: jnp.sin(c @ c), x), [array(64, 64)])
WHOLE["nested"] = (
    lambda x: lax.fori_loop(
        0, 3, lambda i, c: lax.fori_loop(0, 4, lambda j, d: jnp.sin(d @ d) + j, c), x
    ),
    [array(32, 32)],
)


def lstm(x, w, u_, h, c):
    def step(s, xt):
        h, c = s
        z = xt @ w + h @ u_
        a, b, g, o = jnp.split(z, 4, -1)
        c = jax.nn.sigmoid(a) * c + jax.nn.sigmoid(b) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, c), x)[1]


WHOLE["lstm"] = (lstm, [array(10, 4, 16), array(16, 64), array(16, 64), array(4, 16), array(4, 16)])
WHOLE["grad_lstm"] = (
    jax.grad(lambda *a: lstm(*a).sum(), argnums=(1, 2)),
    [array(10, 4, 16), array(16, 64), array(16, 64), array(4, 16), array(4, 16)],
)
WHOLE["remat"] = (
    jax.grad(lambda x, a: jax.checkpoint(lambda x: jnp.sin(jnp.tanh(x @ a) @ a))(x).sum()),
    [array(32, 64), array(64, 64)],
)
WHOLE["kvcache"] = (
    lambda c, k, q, p: (lambda c2: (c2, jax.nn.softmax(q @ c2.T) @ c2))(
        lax.dynamic_update_slice(c, k, (p, 0))
    ),
    [array(256, 32), array(1, 32), array(1, 32), array(dtype=jnp.int32)],
)
WHOLE["int8"] = (
    lambda x, w: (
        lax.dot_general(
            (x * 127).astype("int8"), w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32
        ).astype("float32")
        * 0.1
    ),
    [array(32, 64), array(64, 32, dtype=jnp.int8)],
)
WHOLE["fp8"] = (
    lambda x, w: lax.dot_general(
        x.astype(jnp.float8_e4m3fn),
        w.astype(jnp.float8_e4m3fn),
        (((1,), (0,)), ((), ())),
        preferred_element_type=jnp.float32,
    ),
    [array(32, 64), array(64, 32)],
)
WHOLE["bn_train"] = (
    lambda x, g, b: (lambda m, v: (x - m) * lax.rsqrt(v + 1e-5) * g + b)(
        x.mean((0, 1, 2)), x.var((0, 1, 2))
    ),
    [array(2, 8, 8, 16), array(16), array(16)],
)
WHOLE["conv_net_grad"] = (
    jax.grad(
        lambda x, k, w: (
            jax.nn.relu(lax.conv_general_dilated(x, k, (1, 1), "SAME")).reshape(2, -1) @ w
        ).sum(),
        argnums=(1, 2),
    ),
    [array(2, 4, 8, 8), array(8, 4, 3, 3), array(512, 10)],
)
WHOLE["mlp_grad"] = (
    jax.grad(lambda a, b, x: jnp.square(jax.nn.gelu(x @ a) @ b).mean(), argnums=(0, 1)),
    [array(32, 64), array(64, 8), array(16, 32)],
)
WHOLE["embed"] = (
    lambda t, e, w: jax.nn.log_softmax(e[t].mean(1) @ w),
    [array(8, 16, dtype=jnp.int32), array(1000, 32), array(32, 10)],
)
WHOLE["onehot"] = (lambda t: jax.nn.one_hot(t, 50), [array(8, 16, dtype=jnp.int32)])
WHOLE["cond"] = (
    lambda p, x: lax.cond(p > 0, lambda x: jnp.sin(x @ x), lambda x: x, x),
    [array(), array(32, 32)],
)
WHOLE["vmap_solve"] = (jax.vmap(jnp.linalg.solve), [array(4, 16, 16), array(4, 16, 2)])
WHOLE["swish_moe"] = (
    lambda x, g, w: jnp.einsum(
        "te,ted->td", jax.nn.softmax(x @ g), jnp.einsum("td,edf->tef", x, w)
    ),
    [array(32, 64), array(64, 4), array(4, 64, 64)],
)
WHOLE["rope"] = (
    lambda x: (
        lambda t: x * jnp.cos(t) + jnp.concatenate([-x[..., 16:], x[..., :16]], -1) * jnp.sin(t)
    )(jnp.arange(32.0)[:, None] * jnp.ones(32)),
    [array(2, 32, 32)],
)
WHOLE["adam"] = (
    lambda p, g, m, v: (lambda m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8))(
        0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    ),
    [
        array(
            1000,
        )
    ]
    * 4,
)
WHOLE["jvp_erf"] = (lambda x: jax.jvp(jax.scipy.special.erf, (x,), (x,)), [E])
WHOLE["norm_cdf"] = (lambda x: jax.scipy.stats.norm.cdf(x), [E])
WHOLE["logsumexp"] = (lambda x: jax.nn.logsumexp(x, axis=1), [E])
WHOLE["ctc"] = (
    lambda l, p, t: optax.ctc_loss(l, p, t, jnp.zeros(t.shape)),
    [array(2, 10, 8), array(2, 10), array(2, 4, dtype=jnp.int32)],
)
WHOLE["polyval"] = (lambda x: jnp.polyval(jnp.arange(6.0), x), [E])
WHOLE["cumsum_attn"] = (lambda q, k, v: q * jnp.cumsum(k * v, axis=1), [array(2, 64, 16)] * 3)
WHOLE["resnet_block"] = (
    lambda x, a, b: jax.nn.relu(
        x
        + lax.conv_general_dilated(
            jax.nn.relu(lax.conv_general_dilated(x, a, (1, 1), "SAME")), b, (1, 1), "SAME"
        )
    ),
    [array(1, 16, 16, 16), array(16, 16, 3, 3), array(16, 16, 3, 3)],
)
WHOLE["histogram"] = (lambda x: jnp.histogram(x, bins=10)[0], [array(1000)])
WHOLE["interp"] = (lambda x: jnp.interp(x, jnp.arange(10.0), jnp.arange(10.0) ** 2), [array(100)])
WHOLE["quantile"] = (lambda x: jnp.quantile(x, 0.5), [array(1000)])
WHOLE["sdpa_mask"] = (
    lambda q, k, v, m: (
        jax.nn.softmax(jnp.where(m > 0, jnp.einsum("bhtd,bhsd->bhts", q, k), -1e9)) @ v
    ),
    [array(2, 4, 32, 16), array(2, 4, 32, 16), array(2, 4, 32, 16), array(2, 1, 32, 32)],
)
WHOLE["group_norm"] = (
    lambda x, g: (
        (
            lambda y: (
                (y - y.mean((2, 3), keepdims=True)) * lax.rsqrt(y.var((2, 3), keepdims=True) + 1e-5)
            )
        )(x.reshape(2, 4, 16, 64)).reshape(2, 64, 64)
        * g[:, None]
    ),
    [array(2, 64, 64), array(64)],
)
WHOLE["gru"] = (
    lambda x, w, u, h: lax.scan(
        lambda h, a: (lambda z: ((1 - z) * h + z * jnp.tanh(a @ w), h))(jax.nn.sigmoid(h @ u)), h, x
    ),
    [array(8, 4, 16), array(16, 16), array(16, 16), array(4, 16)],
)
WHOLE["silu_glu"] = (
    lambda x, a, b, c: (jax.nn.silu(x @ a) * (x @ b)) @ c,
    [array(32, 64), array(64, 128), array(64, 128), array(128, 64)],
)
WHOLE["scan_back"] = (
    lambda x, w: lax.scan(lambda c, m: (jnp.tanh(c @ m), c.sum()), x, w, reverse=True),
    [array(32, 64), array(12, 64, 64)],
)
WHOLE["until"] = (
    lambda x: lax.while_loop(
        lambda s: (s[0] < 7) & (s[1].sum() > 0), lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x)
    )[1],
    [array(16, 16)],
)
WHOLE["scan_of_vmap"] = (
    jax.vmap(lambda x, w: lax.scan(lambda c, m: (jnp.tanh(c * m), c), x, w)[1], in_axes=(0, None)),
    [array(5, 32), array(12, 32)],
)
WHOLE["scan_unrolled"] = (
    lambda x: lax.scan(lambda c, a: (c * a, c), jnp.ones(128), x, unroll=4),
    [E],
)
WHOLE["scan_unrolled_in_parts"] = (
    lambda x: lax.scan(
        lambda c, a: (c * a, a + c[0]), jnp.ones((8, 64)), x, reverse=True, unroll=5
    ),
    [array(37, 64)],
)
WHOLE["scan_unrolled_whole"] = (
    lambda x: lax.scan(lambda c, a: (c + a.sum(), a * c), 0.0, x, unroll=True),
    [array(6, 64)],
)
WHOLE["switch_of_vmap"] = (
    jax.vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x)),
    [array(64, dtype=jnp.int32), E],
)
WHOLE["adam_step"] = (
    lambda p, g: optax.adam(1e-3).update(g, optax.adam(1e-3).init(p), p),
    [array(64, 64)] * 2,
)
WHOLE["spence"] = (jax.scipy.special.spence, [E])
WHOLE["gamma_function"] = (jax.scipy.special.gamma, [E])
WHOLE["fft_convolve"] = (
    lambda x, y: jax.scipy.signal.fftconvolve(x, y),
    [array(128), array(16)],
)
WHOLE["jacobian"] = (jax.jacrev(lambda x: jnp.sin(x) * x.sum()), [array(16)])
