"""Primitives of JAX that every writer of a file spells out in others: `dataflow` does as well, so
that a function costs the same by every door."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Emit = Callable[..., list[int]]
"""Appends an operation of a kind with inputs, their abstract values and those of the results."""
Values = Sequence[Any]
Avals = list[Any]
Params = Mapping[str, Any]
Spelling = Callable[[Emit, Values, Avals, Avals, Params], list[Any]]
"""Appends the operations of one primitive by what appends one; returns its results, none where it
is one operation as it is."""


def _exp2(emit: Emit, inputs: Values, operands: Avals, results: Avals, params: Params) -> list[Any]:
    return emit("exp", emit("mul", inputs, operands, results), results, results)


def _integer_pow(
    emit: Emit, inputs: Values, operands: Avals, results: Avals, params: Params
) -> list[Any]:
    exponent = params.get("y", 2)
    made, square, left = None, inputs[0], abs(exponent)
    while left:
        if left % 2 and made is None:
            made = square
        elif left % 2:
            made = emit("mul", [made, square], operands * 2, results)[0]
        left //= 2
        if left:
            square = emit("mul", [square] * 2, operands * 2, results)[0]
    if exponent < 0:
        return emit("div", [made], operands, results)
    return [made] if isinstance(made, int) else []


def _random_bits(
    emit: Emit, inputs: Values, operands: Avals, results: Avals, params: Params
) -> list[Any]:
    # A word for each, narrowed; of 64 bits two, joined.
    whole, width = results[0], 8 * results[0].dtype.itemsize
    if width == 32 or not jnp.issubdtype(whole.dtype, jnp.unsignedinteger):
        return []
    words = [jax.ShapeDtypeStruct(whole.shape, jnp.uint32)]
    if width < 32:
        drawn = emit("random_bits", inputs, operands, words)
        return emit("convert_element_type", drawn, words, results)
    drawn = emit("threefry2x32", inputs, operands, words * 2)
    high, low = (emit("convert_element_type", [word], words, results) for word in drawn)
    high = emit("shift_left", high, results, results)
    return emit("or", [*high, *low], results * 2, results)


def _select_n(
    emit: Emit, inputs: Values, operands: Avals, results: Avals, params: Params
) -> list[Any]:
    # By an index: halves, each time by a comparison with it.
    which, *cases = inputs
    chosen_by = jax.ShapeDtypeStruct(operands[0].shape, jnp.bool_)
    if operands[0].dtype == jnp.bool_ or operands[0].shape != results[0].shape:
        return []

    def chosen(left: list[Any]) -> Any:
        if len(left) == 1:
            return left[0]
        middle = len(left) // 2
        below = emit("lt", [which], operands[:1], [chosen_by])
        sides = [chosen(left[:middle]), chosen(left[middle:])]
        return emit("select_n", [*below, *sides], [chosen_by, *results * 2], results)[0]

    return [chosen(cases)]


def _stack(
    emit: Emit, inputs: Values, operands: Avals, results: Avals, params: Params
) -> list[Any]:
    axis = params["axis"]
    row = _shaped(results[0], 1, axis)
    rows = [
        emit("broadcast_in_dim", [value], [aval], [row])[0] for value, aval in zip(inputs, operands)
    ]
    return emit("concatenate", rows, [row] * len(rows), results)


def _unstack(
    emit: Emit, inputs: Values, operands: Avals, results: Avals, params: Params
) -> list[Any]:
    row = _shaped(operands[0], 1, params["axis"])
    rows = [emit("slice", inputs, operands, [row]) for _ in results]
    return [emit("reshape", part, [row], [aval])[0] for part, aval in zip(rows, results)]


def _shaped(aval: Any, size: int, axis: int) -> Any:
    """The abstract array with this size along an axis."""
    shape = list(aval.shape)
    shape[axis] = size
    return jax.ShapeDtypeStruct(tuple(shape), aval.dtype)


def _tile(emit: Emit, inputs: Values, operands: Avals, results: Avals, params: Params) -> list[Any]:
    sizes = operands[0].shape
    apart = [n for size in sizes for n in (1, size)]
    spread = [n for times, size in zip(params["reps"], sizes) for n in (times, size)]
    rows = jax.ShapeDtypeStruct(tuple(apart), operands[0].dtype)
    every = jax.ShapeDtypeStruct(tuple(spread), operands[0].dtype)
    inputs = emit("reshape", inputs, operands, [rows])
    inputs = emit("broadcast_in_dim", inputs, [rows], [every])
    return emit("reshape", inputs, [every], results)


def _pow(emit: Emit, inputs: Values, operands: Avals, results: Avals, params: Params) -> list[Any]:
    # A whole exponent is made a number of the same type.
    if len(operands) < 2 or operands[0].dtype == operands[1].dtype:
        return []
    alike = [jax.ShapeDtypeStruct(operands[1].shape, operands[0].dtype)]
    exponent = emit("convert_element_type", inputs[1:], operands[1:], alike)
    return emit("pow", [inputs[0], *exponent], [operands[0], *alike], results)


def _whole(
    emit: Emit, inputs: Values, operands: Avals, results: Avals, params: Params
) -> list[Any]:
    # Nothing is left out, and nothing added; what else there is of a split is empty.
    of_shape = {a.shape: v for v, a in zip(inputs, operands) if isinstance(v, int)}
    made = [of_shape.get(result.shape) for result in results]
    return made if any(value is not None for value in made) else []


def _of_parts(real: str, imaginary: str, spare: int, sign: str | None) -> Spelling:
    # The sine or the cosine of complex numbers, by real functions of both parts.
    def spelling(
        emit: Emit, inputs: Values, operands: Avals, results: Avals, params: Params
    ) -> list[Any]:
        if not jnp.issubdtype(results[0].dtype, jnp.complexfloating):
            return []
        half = [jax.ShapeDtypeStruct(results[0].shape, jnp.finfo(results[0].dtype).dtype)]
        truth = [jax.ShapeDtypeStruct(results[0].shape, jnp.bool_)]

        def part(kind: str, *values: Any) -> Any:
            return emit(kind, values, half * len(values), half)[0]

        a, b = (emit(kind, inputs, operands, half)[0] for kind in ("real", "imag"))
        is_zero = emit("eq", [a, None], half * 2, truth)
        waves = {"sin": part("sin", a), "cos": part("cos", a)}
        up, down = part("expm1", b), part("expm1", part("neg", b))
        sinh = part("div", part("sub", up, down), None)
        cosh = part("div", part("add", part("add", up, down), None), None)
        outer = waves[imaginary] if sign is None else part(sign, waves[imaginary])
        pair = part("mul", waves[real], cosh), part("mul", outer, sinh)
        at_zero = [None if place == spare else value for place, value in enumerate(pair)]
        both = [emit("complex", values, half * 2, results)[0] for values in (at_zero, pair)]
        return emit("select_n", [*is_zero, *both], truth + results * 2, results)

    return spelling


SPELLED: dict[str, Spelling] = {
    "exp2": _exp2,
    "sin": _of_parts("sin", "cos", 0, None),
    "cos": _of_parts("cos", "sin", 1, "neg"),
    "integer_pow": _integer_pow,
    "pow": _pow,
    "random_bits": _random_bits,
    "select_n": _select_n,
    "stack": _stack,
    "unstack": _unstack,
    "tile": _tile,
    "concatenate": _whole,
    "slice": _whole,
    "split": _whole,
    "pad": _whole,
}
"""Primitive -> how it is written."""
