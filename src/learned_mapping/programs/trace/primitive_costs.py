"""Arithmetic and traffic of one JAX primitive.

FLOP: a multiply-add is two. Element-wise primitives count one per element of the result, transcendental ones
`TRANSCENDENTAL_FLOP`, random bits `RANDOM_FLOP`; reductions one per element read; data movement none. Bytes: every
operand is read and every result written whole, except by primitives that touch only a part (`gather`, slices, updates).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

TRANSCENDENTAL_FLOP = 10
"""Vector operations of one exponential, logarithm, ...: a range reduction and a short polynomial. Our choice."""
RANDOM_FLOP = 40
"""Vector operations per 32 random bits of the Threefry generator: 20 rounds of 4 for 2 words."""

TRANSCENDENTAL = frozenset(
    "exp exp2 expm1 log log1p tanh tan sin cos sinh cosh asin acos atan atan2 asinh acosh atanh logistic erf erfc "
    "erf_inv pow sqrt rsqrt cbrt lgamma digamma igamma".split()
)
ELEMENT_WISE = TRANSCENDENTAL | frozenset(
    "add add_any sub mul div rem neg sign abs max min floor ceil round square integer_pow clamp eq ne lt le gt ge and "
    "or xor not is_finite select_n nextafter shift_left shift_right_logical shift_right_arithmetic population_count "
    "clz real imag complex conj".split()
)
MOVEMENT = frozenset(
    "convert_element_type bitcast_convert_type reshape squeeze expand_dims broadcast_in_dim transpose rev slice "
    "dynamic_slice dynamic_update_slice concatenate pad gather copy copy_p stop_gradient iota scatter split "
    "reduce_precision device_put optimization_barrier random_wrap random_unwrap random_seed random_fold_in "
    "empty".split()
)
REDUCTIONS = frozenset(
    "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor argmax argmin cumsum cumprod cummax "
    "cummin cumlogsumexp reduce".split()
)
WINDOW_REDUCTIONS = frozenset("reduce_window reduce_window_sum reduce_window_max reduce_window_min".split())
PARTIAL_READS = frozenset("gather slice dynamic_slice split".split())
"""Primitives that read no more of their first operand than they write."""
IN_PLACE_UPDATES = {"dynamic_update_slice": 1, "scatter": 2, "scatter-add": 2, "scatter_add": 2, "scatter-mul": 2}
"""Primitives that may overwrite their first operand, and which operand holds the update."""


def primitive_flop(name: str, operands: Sequence[Any], results: Sequence[Any], params: Mapping[str, Any]) -> float:
    """Floating-point operations of one equation.

    Args:
      operands, results: their abstract values (with ``shape``).
      params: the equation's parameters.
    """
    if not results:
        return 0.0
    out = float(sum(elements(r) for r in results))
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return 2.0 * out * math.prod(operands[0].shape[d] for d in contracted)
    if name == "conv_general_dilated":
        # Two per kernel tap, input channel of the group and result element. The zeros that a transposed convolution
        # (``lhs_dilation``) puts between its inputs are not multiplied; padding at the borders counts as data.
        kernel, spec = operands[1].shape, params["dimension_numbers"].rhs_spec
        taps = math.prod(kernel[d] for d in spec[2:]) * kernel[spec[1]]
        return 2.0 * out * taps / math.prod(params["lhs_dilation"])
    if name in TRANSCENDENTAL:
        return TRANSCENDENTAL_FLOP * out
    if name in ELEMENT_WISE:
        return out
    if name in MOVEMENT:
        return 0.0
    if name in REDUCTIONS:
        return float(sum(elements(o) for o in operands))
    if name in WINDOW_REDUCTIONS:
        return out * math.prod(params.get("window_dimensions", (1,)))
    if name.startswith("select_and_scatter") or name.startswith("select_and_gather"):
        return float(elements(operands[0])) * math.prod(params.get("window_dimensions", (1,)))
    if name in IN_PLACE_UPDATES:
        return float(elements(operands[min(IN_PLACE_UPDATES[name], len(operands) - 1)]))
    if name in ("sort", "top_k", "approx_top_k"):
        length = float(elements(operands[0]))
        return length * max(1.0, math.log2(max(2.0, operands[0].shape[-1] if operands[0].shape else 2.0)))
    if name.startswith("random_bits") or name.startswith("threefry"):
        return RANDOM_FLOP * out
    return out


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
    """Bytes of an abstract value; 0 for what holds no data (tokens, `float0`)."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or str(dtype) == "float0":
        return 0
    return elements(value) * int(dtype.itemsize)
