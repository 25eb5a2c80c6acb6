"""Primitives that JAX's writer lays out in many operations under no name of their own, found again:
JAX lays each of them out once more, and operations in the same order are that primitive."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax

from learned_mapping.programs.trace.names import OPERATIONS
from learned_mapping.programs.trace.primitive_costs import ELEMENT_WISE

GIVEN = ("stablehlo.constant", "stablehlo.broadcast_in_dim")
"""What brings operands to an operation."""
RUN = 50
"""Operations of element-wise arithmetic in a row that make it worth asking."""
SERIES: dict[str, tuple[Callable, int]] = {
    "random_gamma_grad": (jax.lax.random_gamma_grad, 2),
    "igamma_grad_a": (jax.lax.igamma_grad_a, 2),
    "igamma": (jax.lax.igamma, 2),
    "igammac": (jax.lax.igammac, 2),
    "regularized_incomplete_beta": (jax.lax.betainc, 3),
    "bessel_i0e": (jax.lax.bessel_i0e, 1),
}
"""Primitive -> the function that is nothing else, and how many operands it takes; before what is
its beginning."""
GROUPS: dict[str, tuple[list[tuple[int, ...]], Any]] = {
    "contracted": ([(4, 3), (4, 5)], (((0,), (0,)), ((), ()))),
    "rows": ([(4, 3), (2, 3, 5)], (((1,), (1,)), ((), ()))),
}
"""What the groups of a product divide -> its operands and dimensions; it is written as one product
of all, masked. Before what is its end."""


class Step(NamedTuple):
    """An operation that does something, or several that are one."""

    place: int  # Of the first.
    end: int  # After the last.
    kind: str


def steps(operations: Sequence[Any], wholes: dict[int, tuple[str, int]]) -> list[Step]:
    """The steps of a block, what brings operands left out."""
    found, at = [], 0
    while at < len(operations):
        kind, end = wholes.get(at, (primitive_named(operations[at]), at + 1))
        if at in wholes or operations[at].name not in GIVEN:
            found.append(Step(at, end, kind))
        at = end
    return found


def primitive_named(op: Any) -> str:
    """The primitive of an operation by its name alone."""
    name = op.name.partition(".")[2]
    return OPERATIONS.get(name, name)


@lru_cache
def layout(kind: str, dtype: str) -> list[str]:
    """The steps that JAX lays a primitive out as, in numbers of this type, or groups of this
    kind."""
    if kind == "ragged_dot_general":
        shapes, contraction = GROUPS[dtype]
        matrix = [0] * (dtype == "rows")
        numbers = jax.lax.RaggedDotDimensionNumbers(contraction, [0], matrix)
        function: Callable = partial(
            jax.lax.ragged_dot_general, ragged_dot_dimension_numbers=numbers
        )
        args = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
        args.append(jax.ShapeDtypeStruct((2,), "int32"))
    else:
        function, count = SERIES[kind]
        args = [jax.ShapeDtypeStruct((2, 3), dtype)] * count
    with jax.enable_x64(dtype == "float64"):
        module: Any = jax.jit(function).lower(*args).compiler_ir("stablehlo")
    block = module.body.operations[0].regions[0].blocks[0]
    operations = [op.operation for op in block.operations][:-1]
    return [step.kind for step in steps(operations, {})]


ELIMINATION = "slice reshape slice reshape div slice reshape slice reshape div".split()
"""What the elimination of a tridiagonal system begins with on a TPU: the first of each row."""


@lru_cache
def elimination(rows: int, columns: int, dtype: str) -> list[str]:
    """The steps in which a TPU solves a tridiagonal system of this size."""
    line = jax.ShapeDtypeStruct((rows,), dtype)
    right = jax.ShapeDtypeStruct((rows, columns), dtype)
    solver = jax.jit(jax.lax.linalg.tridiagonal_solve)
    with jax.enable_x64(dtype == "float64"):
        lowered = solver.trace(line, line, line, right).lower(lowering_platforms=("tpu",))
    block = lowered.compiler_ir("stablehlo").body.operations[0].regions[0].blocks[0]
    return [step.kind for step in steps([op.operation for op in block.operations][:-1], {})]


def eliminated(
    operations: Sequence[Any], found: Sequence[Step], dtypes: Sequence[str]
) -> dict[int, tuple[str, int]]:
    """First of the operations that together solve a tridiagonal system -> the primitive, and the
    place after the last."""
    wholes, kinds = {}, [step.kind for step in found]
    for first in range(len(kinds)):
        if kinds[first : first + len(ELIMINATION)] != ELIMINATION:
            continue
        right = str(operations[found[first + 5].place].operands[0].type)
        sizes = [int(size) for size in re.findall(r"(\d+)x", right)]
        if len(sizes) != 2 or not 3 <= sizes[0] <= 2**24 or not 0 < sizes[1] <= 2**24:
            continue
        for dtype in {"float32", "float64"}.intersection(dtypes):
            end = first + len(elimination(*sizes, dtype))
            if kinds[first:end] == elimination(*sizes, dtype):
                wholes[found[first].place] = "tridiagonal_solve", found[end - 1].end
    return wholes


def laid_out_series(found: Sequence[Step], dtypes: Sequence[str]) -> dict[int, tuple[str, int]]:
    """First of the operations that together are a primitive of `SERIES`, or a product of groups ->
    the primitive, and the place after the last."""
    kinds = [step.kind for step in found]
    length = longest = 0
    for kind in kinds:
        length = length + 1 if kind in ELEMENT_WISE or kind == "while" else 0
        longest = max(longest, length)
    asked = [(kind, dtype) for kind in SERIES for dtype in dtypes if longest >= RUN]
    if {"iota", "call", "select_n", "dot_general"} <= {*kinds}:
        asked += [("ragged_dot_general", of) for of in GROUPS]
    wholes: dict[int, tuple[str, int]] = {}
    for kind, dtype in asked:
        wanted = layout(kind, dtype)
        for first in range(len(kinds) - len(wanted) + 1):
            part = found[first : first + len(wanted)]
            ends = {end for _, end in wholes.values()}
            if kinds[first : first + len(wanted)] == wanted and part[-1].end not in ends:
                wholes.setdefault(part[0].place, (kind, part[-1].end))
    return wholes
