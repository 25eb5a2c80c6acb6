"""The work of one equation: its FLOP, with those of the functions that it holds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.extend import core as jex

from learned_mapping.programs.trace.loops import trip_count
from learned_mapping.programs.trace.primitive_costs import RULES, primitive_flop


def held_functions(params: Mapping[str, Any]) -> Iterator[Any]:
    """The jaxprs among an equation's parameters, open; also those within containers."""
    for leaf in jax.tree_util.tree_leaves(tuple(params.values())):
        leaf = leaf.jaxpr if isinstance(leaf, jex.ClosedJaxpr) else leaf
        if isinstance(leaf, jex.Jaxpr):
            yield leaf


def called(equation: Any) -> Any:
    """The jaxpr that an equation only calls: among its parameters, with as many operands and
    results; or None."""
    if equation.primitive.name in RULES or equation.primitive.name == "pallas_call":
        return None
    sizes = len(equation.invars), len(equation.outvars)
    alike = (
        held
        for held in held_functions(equation.params)
        if (len(held.invars), len(held.outvars)) == sizes
    )
    return next(alike, None)


def work_of(
    kind: str, in_avals: Sequence[Any], out_avals: Sequence[Any], params: Mapping[str, Any]
) -> tuple[float, tuple[str, ...]]:
    """FLOP of one operation, that of the functions it holds where it has no rule, and what in it is
    of unknown cost."""
    functions = () if kind in RULES else tuple(held_functions(params))
    if kind in ("reduce", "reduce_window"):
        body = [work_of_equation(eqn) for held in held_functions(params) for eqn in held.eqns]
        each = max(sum(flop for flop, _ in body), 1.0)
        unknown = tuple(name for _, names in body for name in names)
        return each * primitive_flop(kind, in_avals, out_avals, params), unknown
    if not functions:
        return primitive_flop(kind, in_avals, out_avals, params), () if kind in RULES else (kind,)
    grid = getattr(params["grid_mapping"], "grid", ()) if kind == "pallas_call" else ()
    times = math.prod(size for size in grid if isinstance(size, int))
    unknown = () if all(isinstance(size, int) for size in grid) else (kind,)
    total = 0.0
    for flop, uncounted in (work_of_equation(eqn) for jaxpr in functions for eqn in jaxpr.eqns):
        total, unknown = total + flop, unknown + uncounted
    return times * total, unknown


def work_of_equation(equation: Any) -> tuple[float, tuple[str, ...]]:
    """The work of an equation within a function that stays one operation, as `work_of` counts
    it."""
    kind, params = equation.primitive.name, equation.params
    avals = [v.aval for v in equation.invars], [v.aval for v in equation.outvars]
    flop, unknown = work_of(kind, *avals, params)
    if kind == "scan":
        return flop * int(params["length"]), unknown
    if kind == "while":
        count, _ = trip_count(equation)
        return (flop, (*unknown, kind)) if count is None else (flop * count, unknown)
    return flop, unknown
