"""Arithmetic and traffic of one JAX primitive: a table of rules, by name.

FLOP: a multiply-add is two. Element-wise primitives count one per element of the result,
transcendental ones `TRANSCENDENTAL_FLOP`, series `SERIES_FLOP`, random bits `RANDOM_FLOP`;
reductions one per element read, or what their body does; dense linear algebra has the closed forms
of Golub and Van Loan, four times as many for complex numbers, as products and convolutions have;
data movement none.
Bytes:
every operand is read and every result written whole, except by primitives that touch only a part
(`gather`, slices, updates). A primitive that is in no rule, and holds no function that could be
counted, is of unknown cost: it is charged one per element of its results, and whoever traces is
told.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

TRANSCENDENTAL_FLOP = 10
"""Vector operations of one exponential, logarithm, ...: a range reduction and a short polynomial.
Our choice."""
SERIES_FLOP = 200
"""FLOP of a function that is summed term by term (incomplete gamma and beta, zeta): twenty terms of
ten. Our choice."""
RANDOM_FLOP = 40
"""Vector operations per 32 random bits of the Threefry generator: 20 rounds of 4 for 2 words."""
GAMMA_FLOP = 8 * RANDOM_FLOP + 6 * TRANSCENDENTAL_FLOP
"""FLOP of a draw by Marsaglia and Tsang's rejection, which hardly ever rejects: 8 words, 6
logarithms and roots."""

TRANSCENDENTAL = frozenset(
    "exp exp2 expm1 log log1p tanh tan sin cos sinh cosh asin acos atan atan2 asinh acosh atanh"
    " logistic erf erfc erf_inv pow sqrt rsqrt cbrt lgamma digamma bessel_i0e bessel_i1e".split()
)
SERIES = frozenset(
    "igamma igammac igamma_grad_a random_gamma_grad regularized_incomplete_beta zeta"
    " polygamma".split()
)
ELEMENT_WISE = TRANSCENDENTAL | frozenset(
    "add add_any sub mul div rem neg sign abs max min floor ceil round square integer_pow clamp eq"
    " ne lt le gt ge and or xor not is_finite select_n nextafter shift_left shift_right_logical"
    " shift_right_arithmetic population_count clz real imag complex conj eq_to le_to lt_to mulhi"
    " reciprocal".split()
)
MARKS = frozenset(
    "name copy copy_p sharding_constraint reshard pvary preduced pbroadcast layout_constraint"
    " optimization_barrier tie pin unpin reduced_vary_cast_p vary_unreduced_cast_p"
    " with_memory_space_constraint multiple_of stop_gradient random_wrap random_unwrap".split()
)
"""Primitives that say something of a value and do nothing: their results are their operands."""
SILENT = frozenset(
    "after_all create_token axis_index platform_index dim_as_value dimension_size shape_assertion"
    " check unreachable dce_sink inspect_sharding debug_callback debug_print delay create_linear"
    " free_ref empty_ref program_id num_programs semaphore_read semaphore_signal semaphore_wait"
    " get_global box_get box_set new_box new_log log_read log_extend".split()
)
"""Tokens, indices, checks, messages: no arithmetic."""
MOVEMENT = (
    frozenset(
        "convert_element_type bitcast_convert_type reshape squeeze expand_dims broadcast_in_dim"
        " broadcast_to tile rev transpose slice dynamic_slice dynamic_update_slice concatenate"
        " stack unstack pad gather iota iota_2x32_shape scatter split"
        " reduce_precision device_put random_seed random_clone empty"
        " empty2 zeros_like from_edtype to_edtype lu_pivots_to_permutation new_ref freeze get swap"
        " masked_load masked_swap all_gather all_gather_invariant all_gather_reduced all_to_all"
        " ragged_all_to_all ppermute psend precv coo_todense csr_todense bcoo_todense bcsr_todense"
        " coo_fromdense csr_fromdense bcoo_fromdense bcsr_fromdense bcoo_extract bcsr_extract"
        " bcoo_transpose todense".split()
    )
    | {
        f"{name}_{end}"
        for name in "all_gather all_gather_reduced all_to_all pbroadcast ppermute".split()
        for end in ("start", "done")
    }
    | {"psum_done", "reduce_scatter_done"}
)
REDUCTIONS = frozenset(
    "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor argmax argmin"
    " cumsum cumprod cummax cummin cumlogsumexp reduce psum psum_invariant pmax pmin reduce_scatter"
    " unreduced_psum unreduced_reduce_scatter bcoo_sum_duplicates".split()
) | {
    f"{name}_start"
    for name in (
        "psum",
        "psum_invariant",
        "reduce_scatter",
        "unreduced_psum",
        "unreduced_reduce_scatter",
    )
}
RANDOM = frozenset(
    "random_bits rng_uniform threefry2x32 threefry4x32 philox2x32 philox4x32".split()
)
WINDOW_REDUCTIONS = frozenset(
    "reduce_window reduce_window_sum reduce_window_max reduce_window_min".split()
)
PARTIAL_READS = frozenset("gather slice dynamic_slice split get".split())
"""Primitives that read no more of their first operand than they write."""
IN_PLACE_UPDATES = {
    "dynamic_update_slice": 1,
    "scatter": 2,
    "scatter-add": 2,
    "scatter_add": 2,
    "scatter-mul": 2,
    "scatter-sub": 2,
    "scatter-min": 2,
    "scatter-max": 2,
    "swap": 1,
    "addupdate": 1,
}
"""Primitives that may overwrite their first operand, and which operand holds the update."""

Rule = Callable[[Sequence[Any], Sequence[Any], Mapping[str, Any]], float]
"""FLOP from operands and results (abstract values, with ``shape``) and the equation's
parameters."""


def _contraction(
    operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]
) -> float:
    (contracted, _), _ = params["dimension_numbers"]
    return (
        2.0
        * _out(results)
        * math.prod(operands[0].shape[d] for d in contracted)
        * _complex(operands[0])
    )


def _ragged_contraction(
    operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]
) -> float:
    # Every row meets the matrix of its own group alone; where the groups divide what is contracted,
    # each result takes a part of it, and all parts together are the whole.
    numbers = params["ragged_dot_dimension_numbers"]
    (contracted, _), _ = numbers.dot_dimension_numbers
    groups = results[0].shape[0] if set(numbers.lhs_ragged_dimensions) & set(contracted) else 1
    depth = math.prod(operands[0].shape[d] for d in contracted)
    return 2.0 * _out(results) / max(groups, 1) * depth * _complex(operands[0])


def _convolution(
    operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]
) -> float:
    # Two per input channel of the group, result element and kernel tap that meets data. The zeros
    # that a transposed convolution (``lhs_dilation``) puts between its inputs are not multiplied;
    # padding at the borders counts as data.
    kernel, numbers = operands[1].shape, params["dimension_numbers"]
    out = [results[0].shape[d] for d in numbers.out_spec[2:]]
    pairs = 1
    for axis, taps in enumerate(kernel[d] for d in numbers.rhs_spec[2:]):
        between = params["lhs_dilation"][axis]
        if between == 1:
            pairs *= taps * out[axis]
            continue
        stride, spread = params["window_strides"][axis], params["rhs_dilation"][axis]
        first, _ = params["padding"][axis]
        met = Counter((tap * spread - first) % between for tap in range(taps))
        # Where outputs begin repeats after so many of them.
        turn = between // math.gcd(stride, between)
        starts = Counter(o * stride % between for o in range(min(turn, out[axis])))
        whole = sum(met[-start % between] * count for start, count in starts.items())
        pairs *= whole * out[axis] / max(min(turn, out[axis]), 1)
    rest = _out(results) / max(math.prod(out), 1)
    return 2.0 * rest * pairs * kernel[numbers.rhs_spec[1]] * _complex(operands[0])


def _matrices(flop: Callable[[float, float, Mapping[str, Any]], float]) -> Rule:
    """The rule of a factorisation: `flop` of m rows, n columns and the parameters, for every matrix
    of the batch."""

    def rule(operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]) -> float:
        *batch, m, n = operands[0].shape
        return math.prod(batch) * flop(float(m), float(n), params) * _complex(operands[0])

    return rule


def _complex(value: Any) -> float:
    return 4.0 if str(value.dtype).startswith("complex") else 1.0


def _eliminated(m: float, n: float) -> float:
    """Multiply-adds, twice, of eliminating min(m, n) columns one after the other: 2/3 n^3 of a
    square matrix."""
    k = min(m, n)
    return 2 * m * n * k - (m + n) * k**2 + 2 / 3 * k**3


def _svd(m: float, n: float, params: Mapping[str, Any]) -> float:
    m, n = max(m, n), min(m, n)
    if not params.get("compute_uv", True):
        return 4 * m * n**2 - 4 / 3 * n**3
    whole = params.get("full_matrices", True) and m > n
    return 4 * m**2 * n + 8 * m * n**2 + 9 * n**3 if whole else 14 * m * n**2 + 8 * n**3


def _reflectors(
    operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]
) -> float:
    (*batch, m, n), k = operands[0].shape, operands[1].shape[-1]
    return (
        math.prod(batch)
        * (4.0 * m * n * k - 2.0 * (m + n) * k**2 + 4 / 3 * k**3)
        * _complex(operands[0])
    )


def _fft(operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]) -> float:
    # 5 N log2 N of a complex transform, half of it where one side is real.
    length = math.prod(params["fft_lengths"])
    real = {str(v.dtype).startswith("complex") for v in (operands[0], results[0])} != {True}
    points = max(elements(operands[0]), elements(results[0])) if real else elements(operands[0])
    return (2.5 if real else 5.0) * points * math.log2(max(length, 1))


def _sort(operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]) -> float:
    # Comparisons: N log2 of the axis that is sorted; of a selection, log2 of how many are kept.
    shape = operands[0].shape or (1,)
    axis = params.get(
        "dimension", params.get("axis", params.get("reduction_dimension", len(shape) - 1))
    )
    length = min(params.get("k", shape[axis]), shape[axis])
    return elements(operands[0]) * max(1.0, math.log2(max(2.0, length)))


def _sparse(operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]) -> float:
    # A multiply-add for each entry that is stored and each column that it meets.
    if "dimension_numbers" in params and len(operands) == 3:
        (_, contracted), (_, batch) = params["dimension_numbers"]
        shape = operands[2].shape
        columns = [n for d, n in enumerate(shape) if d not in (*contracted, *batch)]
        return 2.0 * elements(operands[0]) * math.prod(columns) * _complex(operands[0])
    alike = [o.shape for o in operands[1:] if str(o.dtype) == str(operands[0].dtype)]
    columns = [shape[-1] for shape in alike if len(shape) == 2]
    return 2.0 * elements(operands[0]) * (columns[-1] if columns else 1) * _complex(operands[0])


def _sampled(operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]) -> float:
    # A product of which the entries at some indices are made.
    (contracted, _), _ = params["dimension_numbers"]
    depth = math.prod(operands[0].shape[d] for d in contracted)
    return 2.0 * _out(results) * depth * _complex(operands[0])


def _updated(update: int) -> Rule:
    """The rule of what combines an update, the operand at this place, with what it is put into."""
    return lambda operands, results, params: float(
        elements(operands[min(update, len(operands) - 1)])
    )


def _attended(times: int) -> Rule:
    """The rule of this many FLOP for each number of the queries and each key."""
    return lambda operands, results, params: float(
        times * elements(operands[0]) * operands[1].shape[-3]
    )


def _window(params: Mapping[str, Any]) -> int:
    return math.prod(params.get("window_dimensions", (1,)))


def _out(results: Sequence[Any]) -> float:
    return float(sum(elements(r) for r in results))


def _each(flop: float, of_complex: float) -> Rule:
    """The rule of an element-wise primitive: FLOP of a result's element where numbers are real, and
    where they are complex."""

    def rule(operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]) -> float:
        alike = any(str(v.dtype).startswith("complex") for v in (*operands[:1], *results))
        return (of_complex if alike else flop) * _out(results)

    return rule


def _power(operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]) -> float:
    # Products by squaring, and a division where the exponent is negative.
    exponent = abs(params.get("y", 2))
    products = exponent.bit_length() + exponent.bit_count() - 2 if exponent else 0
    inverted = params.get("y", 2) < 0
    return (products + inverted) * _each(1, 6)(operands, results, params)


def _orthogonal(m: float, n: float, params: Mapping[str, Any]) -> float:
    """Reflectors and triangle, then the orthogonal factor made of them."""
    k = min(m, n)
    columns = m if params.get("full_matrices", False) else k
    made = 4 * m * columns * k - 2 * (m + columns) * k**2 + 4 / 3 * k**3
    return 2 * _eliminated(m, n) + made


PARTS = frozenset("add add_any sub neg conj square select_n eq ne complex real imag copy".split())
"""Element-wise primitives that treat the two parts of a complex number alike."""
RULES: dict[str, Rule] = {
    **dict.fromkeys(TRANSCENDENTAL, _each(TRANSCENDENTAL_FLOP, 4 * TRANSCENDENTAL_FLOP)),
    **dict.fromkeys(SERIES, _each(SERIES_FLOP, SERIES_FLOP)),
    **dict.fromkeys(ELEMENT_WISE - TRANSCENDENTAL, _each(1, 1)),
    **dict.fromkeys(PARTS - MOVEMENT, _each(1, 2)),
    "mul": _each(1, 6),
    "div": _each(1, 11),
    "integer_pow": _power,
    **dict.fromkeys(MOVEMENT | MARKS | SILENT, lambda operands, results, params: 0.0),
    **dict.fromkeys(
        REDUCTIONS, lambda operands, results, params: float(sum(elements(o) for o in operands))
    ),
    "reduce": lambda operands, results, params: float(
        sum(elements(o) for o in operands[: len(operands) // 2])
    ),
    **dict.fromkeys(
        (*WINDOW_REDUCTIONS, "select_and_gather_add"),
        lambda operands, results, params: _out(results) * _window(params),
    ),
    **dict.fromkeys(
        ("select_and_scatter", "select_and_scatter_add"),
        lambda operands, results, params: elements(operands[0]) * _window(params),
    ),
    **{name: _updated(update) for name, update in IN_PLACE_UPDATES.items() if name not in MOVEMENT},
    "accum_grad_in_ref": lambda operands, results, params: float(elements(operands[-1])),
    "dot_general": _contraction,
    "ragged_dot_general": _ragged_contraction,
    **dict.fromkeys(
        "scaled_dot scaled_matmul scaled_matmul_wrapper".split(),
        lambda operands, results, params: 2.0 * _out(results) * operands[0].shape[-1],
    ),
    "conv_general_dilated": _convolution,
    "cholesky": _matrices(lambda m, n, params: n**3 / 3),
    "cholesky_update": _matrices(lambda m, n, params: 4 * n**2),
    "triangular_solve": lambda operands, results, params: (
        float(operands[0].shape[-1] * elements(operands[1])) * _complex(operands[0])
    ),
    "inverse": _matrices(lambda m, n, params: 2 * n**3),
    "linear_solve": lambda operands, results, params: (
        _matrices(lambda m, n, params: _eliminated(m, n))(operands, results, params)
        + 2.0 * operands[0].shape[-1] * elements(operands[1]) * _complex(operands[0])
    ),
    "symmetric_product": _matrices(lambda m, n, params: 2 * m * m * n),
    "lu": _matrices(lambda m, n, params: _eliminated(m, n)),
    "qr": _matrices(_orthogonal),
    **dict.fromkeys("geqrf geqp3".split(), _matrices(lambda m, n, params: 2 * _eliminated(m, n))),
    **dict.fromkeys("householder_product ormqr".split(), _reflectors),
    "eigh": _matrices(lambda m, n, params: 9 * n**3),
    "eig": _matrices(
        lambda m, n, params: (
            (
                25
                if params.get("compute_left_eigenvectors", True)
                or params.get("compute_right_eigenvectors", True)
                else 10
            )
            * n**3
        )
    ),
    "schur": _matrices(
        lambda m, n, params: (25 if params.get("compute_schur_vectors", True) else 10) * n**3
    ),
    "svd": _matrices(_svd),
    "hessenberg": _matrices(lambda m, n, params: 10 / 3 * n**3),
    "tridiagonal": _matrices(lambda m, n, params: 4 / 3 * n**3),
    "tridiagonal_solve": lambda operands, results, params: 8.0 * max(map(elements, results)),
    "fft": _fft,
    # of a feature: a root and two products
    "batch_norm": lambda operands, results, params: (
        params.get("each", 4.0) * elements(operands[0])
        + (TRANSCENDENTAL_FLOP + 2.0) * elements(operands[1])
    ),
    **dict.fromkeys("sort top_k approx_top_k bcoo_sort_indices".split(), _sort),
    **dict.fromkeys(
        RANDOM,
        lambda operands, results, params: (
            RANDOM_FLOP * max(params.get("bit_width", 32) / 32, 1) * _out(results)
        ),
    ),
    # not of its new key
    "rng_bit_generator": lambda operands, results, params: RANDOM_FLOP * nbytes(results[-1]) / 4,
    **dict.fromkeys(
        "random_split random_fold_in".split(),
        lambda operands, results, params: RANDOM_FLOP * sum(nbytes(r) for r in results) / 4,
    ),
    "random_gamma": lambda operands, results, params: GAMMA_FLOP * _out(results),
    **dict.fromkeys(
        "bcoo_dot_general bcsr_dot_general coo_matvec coo_matmat coo_spmv coo_spmm csr_matvec"
        " csr_matmat csr_spmv csr_spmm".split(),
        _sparse,
    ),
    "bcoo_dot_general_sampled": _sampled,
    "bcoo_spdot_general": lambda operands, results, params: (
        2.0 * elements(operands[0]) * _complex(operands[0])
    ),
    # Queries [.., T, N, H] times keys [.., S, N, H] and the values; backwards two and a half times
    # as many products.
    **{
        f"dot_product_attention_{kind}{way}{end}": _attended(times)
        for kind in ("", "fp8_")
        for way, times in (("fwd", 4), ("bwd", 10))
        for end in ("", "_wrapper")
    },
}
"""Primitive -> its FLOP. What is not here either holds a function, whose operations count, or is of
unknown cost."""


def primitive_flop(
    name: str, operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]
) -> float:
    """Floating-point operations of one equation; one per element of the results where no rule is
    known.

    Args:
      operands, results: their abstract values (with ``shape``).
      params: the equation's parameters.
    """
    rule = RULES.get(name)
    if rule is None:
        return _out(results)
    return float(rule(operands, results, params)) if results or name in IN_PLACE_UPDATES else 0.0


def bytes_read(name: str, operands: Sequence[Any], results: Sequence[Any]) -> list[int]:
    """Bytes the primitive reads of each operand."""
    read = [nbytes(o) for o in operands]
    if name in PARTIAL_READS and read:
        read[0] = min(read[0], sum(nbytes(r) for r in results))
    return read


def elements(value: Any) -> int:
    """Number of elements of an abstract value."""
    return math.prod(getattr(value, "shape", ()))


def nbytes(value: Any) -> int:
    """Bytes of an abstract value, types of fewer than eight bits packed; 0 for what holds no data
    (tokens, `float0`)."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or str(dtype) == "float0":
        return 0
    packed = re.match(r"u?int([124])$|float([46])_", str(dtype))
    bits = int(packed[1] or packed[2]) if packed else 8 * int(dtype.itemsize)
    return -(-elements(value) * bits // 8)
