"""The costs of a function by our rules beside XLA's own count of the same program, the differences
by name.

XLA counts the program as it is handed over, before anything is fused, on the CPU. It is asked
twice: for the whole program, and for each of its primitives alone. The primitives together are the
whole if nothing was lost on the way and nothing counted twice; and where our rule for a primitive
says something else than XLA, the difference has its name.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend import core as jex

from learned_mapping.errors import InputError
from learned_mapping.programs.trace.dataflow import (
    Dataflow,
    called,
    closed_jaxpr,
    flatten,
    held_functions,
    trip_count,
    widths,
)
from learned_mapping.programs.trace.primitive_costs import (
    ELEMENT_WISE,
    REDUCTIONS,
    RULES,
    SERIES,
    TRANSCENDENTAL,
    WINDOW_REDUCTIONS,
    nbytes,
)

ROWS = "rows"
"""The name of what a loop takes of sequences and puts into results, round for round."""
LOOPS = "loops"
"""The name of what XLA counts once: the body of a loop, and of a choice the dearest branch."""
NAMED = {
    "integer_pow": "mul",
    "exp2": "exp",
    "qr": "geqrf",
    "stack": "concatenate",
    "unstack": "slice",
}
"""Primitives that `dataflow` spells out, and the name that the most of them has there."""
REASONS = {
    **dict.fromkeys(
        TRANSCENDENTAL | SERIES,
        "XLA counts transcendental functions apart, or a polynomial of its own",
    ),
    **dict.fromkeys(
        REDUCTIONS | WINDOW_REDUCTIONS, "XLA counts one less per result, and scans as windows"
    ),
    **dict.fromkeys(
        "convert_element_type bitcast_convert_type reduce_precision".split(),
        "XLA counts one per element, we none",
    ),
    **dict.fromkeys("square clamp".split(), "XLA counts every multiplication and comparison"),
    **dict.fromkeys(
        "gather pad iota dynamic_slice dynamic_update_slice split stack unstack scatter "
        "scatter-add scatter-mul scatter-sub scatter-min scatter-max".split(),
        "XLA counts the arithmetic of indices",
    ),
    "conv_general_dilated": "XLA leaves out the border's padding; we count it as data",
    "ragged_dot_general": "XLA multiplies every row with every group's matrix on the CPU",
    "fft": "XLA counts 8 N log2 N, we 5",
    **dict.fromkeys(
        "sort top_k approx_top_k".split(), "XLA counts log2 of all elements, or nothing"
    ),
    **dict.fromkeys(
        "random_bits random_split random_fold_in random_gamma threefry2x32 random_seed random_wrap "
        "random_unwrap".split(),
        "we count 40 per word of Threefry, XLA its own operations",
    ),
    **dict.fromkeys(
        "cholesky triangular_solve lu geqrf geqp3 eigh eig svd schur hessenberg householder_product"
        " tridiagonal tridiagonal_solve lu_pivots_to_permutation select_and_scatter_add"
        " select_and_gather_add linear_solve".split(),
        "XLA calls a library, whose work it does not count",
    ),
    ROWS: "XLA counts how the rows of a loop are taken and put, once",
    LOOPS: "XLA counts the body of a loop once, and of a choice the dearest branch",
}
"""Primitive -> why XLA's FLOP differ from ours."""


class Counts(NamedTuple):
    """FLOP, or bytes, of a program by two rules."""

    ours: float
    xla: float  # Of the whole program; negative where XLA cannot say.
    differences: dict[str, float]
    """Primitive -> ours less XLA's, where they differ, the largest first."""

    @property
    def ratio(self) -> float:
        """Ours over XLA's; 1 where both are 0."""
        return _ratio(self.ours, self.xla)

    @property
    def explained(self) -> float:
        """Ours less the differences that have a name, over XLA's: 1 where nothing is lost or
        counted twice."""
        return _ratio(self.ours - sum(self.differences.values()), self.xla)


def _ratio(ours: float, xla: float) -> float:
    if xla <= 0:
        return 1.0 if abs(ours) < 1e-9 and xla == 0 else math.inf
    return ours / xla


def compare(
    function: Callable, *args: Any, name: str = "function", **options: Any
) -> dict[str, Counts]:
    """``flop`` and ``bytes`` of a function of abstract arguments.

    Arguments as in `dataflow.flatten`.

    Raises:
      InputError: the function cannot be traced, or XLA has no way to compile it for the CPU.
    """
    flow = flatten(function, *args, name=name, **options)
    closed = closed_jaxpr(function, *args, name=name)
    with widths(args):
        try:
            whole = _analysis(closed)
        except Exception as error:  # what a compiler may say is nowhere written down
            text = str(error).strip().split("\n")[0][:300]
            raise InputError(name, "--check", f"XLA cannot count it on the CPU ({text})") from error
        ours, once = _by_kind(flow), [0.0, 0.0]
        every: tuple[defaultdict[str, float], ...] = defaultdict(float), defaultdict(float)
        for kind, cost, times, part in _primitives(closed.jaxpr, 1, 1.0, {}):
            for i in range(2):
                every[i][kind] += times * cost[i]
                once[i] += part * cost[i]
    counts = {}
    for i, name in enumerate(("flop", "bytes")):
        apart = {kind: ours[i][kind] - every[i][kind] for kind in {*ours[i], *every[i]}}
        apart[LOOPS] = sum(every[i].values()) - once[i]
        apart = {
            kind: value
            for kind, value in sorted(apart.items(), key=lambda e: (-abs(e[1]), e[0]))
            if value
        }
        counts[name] = Counts(sum(ours[i].values()), whole[i], apart)
    return counts


def _by_kind(flow: Dataflow) -> tuple[defaultdict[str, float], ...]:
    """FLOP and bytes of each kind of operation; an update in place touches what it writes."""
    flop: defaultdict[str, float] = defaultdict(float)
    moved: defaultdict[str, float] = defaultdict(float)
    for operation in flow.operations:
        reads, writes = (
            sum(operation.read_bytes),
            sum(flow.values[v].bytes for v in operation.outputs),
        )
        if operation.in_place:
            reads += operation.update_bytes - operation.read_bytes[0]
            writes = operation.update_bytes
        flop[operation.kind] += operation.flop
        moved[operation.kind] += reads + writes
    return flop, moved


def _primitives(
    jaxpr: Any,
    times: int,
    part: float,
    asked: dict[str, tuple[float, float]],
    wanted: Sequence[bool] | None = None,
) -> Iterator[tuple[str, tuple[float, float], int, float]]:
    """(primitive, what XLA counts for it alone, how often it runs, how often XLA counts it) of all
    equations on which an effect or one of the `wanted` results depends, all where None; what was
    `asked` already is not asked again."""
    needed = {v for i, v in enumerate(jaxpr.outvars) if wanted is None or wanted[i]}
    spread: set[str] = set()
    for equation in reversed(jaxpr.eqns):
        used = [v in needed for v in equation.outvars]
        if not any(used) and not equation.effects:
            continue
        kind, params = equation.primitive.name, equation.params
        own = _own_branch(params) if kind == "cond" else None
        read = [True] * len(equation.invars) if own is None else [False, *_read(own)]
        pairs = zip(equation.invars, read)
        needed.update(v for v, is_read in pairs if is_read and not isinstance(v, jex.Literal))
        if kind == "scan":
            every = [True] * params["num_carry"] + used[params["num_carry"] :]
            length, unroll = int(params["length"]), int(params["unroll"])
            bodies = length if unroll >= length else unroll + length % unroll
            yield ROWS, (0.0, _rows(equation, every)), times, part
            yield from _primitives(
                params["jaxpr"].jaxpr, times * length, part * bodies, asked, every
            )
        elif kind == "while":
            count = trip_count(equation) or 1
            for body in (params["cond_jaxpr"], params["body_jaxpr"]):
                yield from _primitives(body.jaxpr, times * count, part, asked)
        elif own is not None:
            yield from _primitives(own, times, part, asked, used)
        elif kind == "cond":
            branches = [
                list(_primitives(branch.jaxpr, times, part, asked, used))
                for branch in params["branches"]
            ]
            dearest = max(branches, key=lambda branch: sum(cost[0] for _, cost, *_ in branch))
            for branch in branches:
                yield from ((k, one, n, p if branch is dearest else 0.0) for k, one, n, p in branch)
        elif kind == "custom_linear_solve":
            yield from _primitives(params["jaxprs"].solve.jaxpr, times, part, asked, used)
        elif (function := called(equation)) is not None:
            if params.get("differentiated") and params.get("prevent_cse"):
                held_back = float(sum(nbytes(v.aval) for v in equation.invars))
                yield "optimization_barrier", (0.0, held_back), times, part
            yield from _primitives(function, times, part, asked, used)
        elif kind in RULES or not any(held_functions(params)):
            flop, moved = _alone(jaxpr, equation, used, asked)
            moved -= _spread_before(equation, spread)
            yield NAMED.get(kind, kind), (flop, max(moved, 0.0)), times, part


def _own_branch(params: Any) -> Any:
    """The branch that is for the CPU, where a choice is by platforms; or None."""
    if params.get("branches_platforms") is None:
        return None
    pairs = zip(params["branches_platforms"], params["branches"])
    return next(branch.jaxpr for names, branch in pairs if names is None or "cpu" in names)


def _read(jaxpr: Any) -> list[bool]:
    """Which of its operands a jaxpr reads."""
    read = {v for e in jaxpr.eqns for v in e.invars if not isinstance(v, jex.Literal)}
    return [v in read or v in jaxpr.outvars for v in jaxpr.invars]


def _rows(equation: Any, used: Sequence[bool]) -> float:
    """Bytes that XLA counts around the body of a scan: a row is taken of each sequence and dropped
    to its shape, and each result is brought to the shape of a row and put into what began as
    zeros; where rounds are unrolled, in blocks of rows, to which sequences and results are
    shaped."""
    params = equation.params
    first, carried = params["num_consts"] + params["num_carry"], params["num_carry"]
    length, rounds = int(params["length"]), int(params["unroll"])
    if rounds >= length:
        return 0.0
    rows = [nbytes(var.aval) for var in params["jaxpr"].jaxpr.invars[first:]]
    results = [
        var.aval
        for var, is_used in zip(params["jaxpr"].jaxpr.outvars[carried:], used[carried:])
        if is_used
    ]
    made = [nbytes(aval) for aval in results]
    zeros = length * sum({(aval.shape, aval.dtype): nbytes(aval) for aval in results}.values())
    every = sum(rows) + sum(made)
    shaped = 0 if rounds == 1 else 4 * rounds * every + 2 * length * every
    return float(4 * rounds * every + zeros + shaped)


def _alone(
    jaxpr: Any, equation: Any, used: Sequence[bool], asked: dict[str, tuple[float, float]]
) -> tuple[float, float]:
    """XLA's count of one equation with the results that are used; nothing where it cannot be asked
    (references)."""
    inputs = list(dict.fromkeys(v for v in equation.invars if not isinstance(v, jex.Literal)))
    results = [v for v, is_used in zip(equation.outvars, used) if is_used]
    single = jex.ClosedJaxpr(
        jaxpr.replace(constvars=[], invars=inputs, outvars=results, eqns=[equation]), []
    )
    key, again = str(single), equation.primitive.name in TRANSCENDENTAL | SERIES
    if again and key in asked:
        return _again(single, key, asked)
    if key not in asked:
        try:
            flop, moved = _analysis(single)
        except Exception:  # cannot stand alone; the whole program's count still shows it
            flop, moved = 0.0, 0.0
        asked[key] = max(flop, 0.0), max(moved, 0.0)
    return asked[key]


def _spread_before(equation: Any, spread: set[str]) -> float:
    """Bytes of numbers that XLA brings to the shape of an element-wise result, where it did so
    before in the same function: it shares them."""
    before = 0.0
    result = equation.outvars[0].aval
    for var in equation.invars if equation.primitive.name in ELEMENT_WISE else ():
        aval = var.aval
        if isinstance(var, jex.Literal) and not aval.shape and result.shape:
            key = f"{var.val} {aval.dtype} {result.shape}"
            before += nbytes(result) + aval.dtype.itemsize if key in spread else 0.0
            spread.add(key)
    return before


def _again(single: Any, key: str, asked: dict[str, tuple[float, float]]) -> tuple[float, float]:
    """XLA's count of an equation that was there before: the constants of a polynomial are made once
    for all."""
    if f"{key} again" not in asked:
        function, values = jex.jaxpr_as_fun(single), [v.aval for v in single.jaxpr.invars]
        both = jax.make_jaxpr(lambda a, b: (function(*a), function(*b)))(values, values)
        flop, moved = (max(b - a, 0.0) for a, b in zip(asked[key], _analysis(both)))
        asked[f"{key} again"] = flop, moved
    return asked[f"{key} again"]


def _analysis(closed: Any) -> tuple[float, float]:
    """XLA's count of a closed jaxpr; -1 where it cannot say."""
    avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars]
    counts = jax.jit(jex.jaxpr_as_fun(closed), keep_unused=True).lower(*avals).cost_analysis() or {}
    return float(counts.get("flops", 0.0)), float(counts.get("bytes accessed", 0.0))
