"""The costs of a function by our rules beside XLA's own count of the same program, the differences
by name.

XLA counts the program as it is handed over, before anything is fused, on the CPU. It is asked
twice: for the whole program, and for each of its instructions alone, which carry the name of the
primitive that they came from. Together they are the whole if nothing was lost on the way and
nothing counted twice; and where our rule for a primitive says something else than XLA, the
difference has its name.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
from jax.extend import core as jex

from learned_mapping.errors import InputError
from learned_mapping.programs.trace.dataflow import closed_jaxpr, flatten, widths
from learned_mapping.programs.trace.loops import trip_count
from learned_mapping.programs.trace.names import OPERATIONS
from learned_mapping.programs.trace.operations import Dataflow
from learned_mapping.programs.trace.primitive_costs import (
    REDUCTIONS,
    SERIES,
    TRANSCENDENTAL,
    WINDOW_REDUCTIONS,
)
from learned_mapping.programs.trace.work import called, work_of_equation

Cost = tuple[float, float]
NOTHING: Cost = (0.0, 0.0)
COUNTED = {"flop": "flops", "bytes": "bytes accessed"}
"""What is counted, and XLA's name for it."""
METADATA = re.compile(r', metadata=\{(?:[^}"]|"[^"]*")*\}')
MOVED = re.compile(r".* (?:broadcast|reshape|constant|parameter)\(.*")
"""Instructions that are left of what is known to be constant."""
CALLED = {
    "call": r"to_apply=%[\w.-]+",
    "while": r"(?:body|condition)=%[\w.-]+",
    "conditional": r"_computations?=(?:%[\w.-]+|\{[^}]*\})",
}
"""Instructions that run computations, and where their names stand."""
ROWS = "rows"
"""The name of what a loop takes of sequences and puts into results, round for round."""
LOOPS = "loops"
"""The name of what XLA counts once: the body of a loop, and of a choice the dearest branch."""
FOLDED = "folded"
"""The name of primitives that are none of XLA's instructions."""
UNUSED = "unused"
"""The name of what nothing uses."""
COMPLEX = "complex numbers"
"""The name of what is done with them and has no other reason."""
NAMED = {
    "integer_pow": "mul",
    "stack": "concatenate",
    "unstack": "slice",
}
"""Primitives that `dataflow` spells out, and the name that the most of them has there."""
SPELLED_OUT = ("qr", "exp2", "broadcast_in_dim")
"""Primitives whose parts have their own names: of what is written within, or of what it does."""
REASONS = {
    **dict.fromkeys(
        TRANSCENDENTAL | SERIES,
        "XLA counts transcendental functions apart, or a polynomial of its own",
    ),
    **dict.fromkeys(
        "rem sign nextafter round".split(), "XLA counts what it spells the function out in"
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
        "random_bits random_split random_fold_in random_gamma threefry2x32 random_seed "
        "rng_bit_generator rng_uniform".split(),
        "we count 40 per word, XLA its own operations or none",
    ),
    **dict.fromkeys(
        "cholesky triangular_solve lu geqrf geqp3 eigh eig svd schur hessenberg householder_product"
        " tridiagonal tridiagonal_solve lu_pivots_to_permutation select_and_scatter_add"
        " select_and_gather_add linear_solve".split(),
        "XLA calls a library, whose work it does not count",
    ),
    ROWS: "XLA counts how the rows of a loop are taken and put",
    **dict.fromkeys(
        "conj real imag complex".split(), "XLA counts one of what is done to one part of a number"
    ),
    UNUSED: "XLA counts what nothing uses, where a function makes it",
    FOLDED: "XLA leaves out what is constant, or there already",
    COMPLEX: "XLA counts one of what is four to eleven of complex numbers",
    LOOPS: "XLA counts the body of a loop once, and of a choice the dearest branch",
}
"""Primitive -> why XLA's FLOP differ from ours."""


class Counts(NamedTuple):
    """FLOP, or bytes, of a program by two rules."""

    ours: float
    xla: float  # Of the whole program; negative where XLA cannot say.
    differences: dict[str, float]
    """Primitive -> ours less XLA's, where they differ, the largest first."""
    explained: float
    """Ours less the differences that have a name, and in FLOP one of `REASONS`, over XLA's: 1 where
    nothing is lost or counted twice."""

    @property
    def ratio(self) -> float:
        """Ours over XLA's; 1 where both are 0."""
        return _ratio(self.ours, self.xla)


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
            marks = _Marks()
            lowered = _lowered(marks.inside(closed, 1, []))
            whole = lowered.cost_analysis() or {}
            module = _Module(lowered.compiler_ir("hlo"))
            every, once = module.counts()
        except Exception as error:  # what a compiler may say is nowhere written down
            text = str(error).strip().split("\n")[0][:300]
            raise InputError(name, "--check", f"XLA cannot count it on the CPU ({text})") from error
    ours = _by_kind(flow)
    counts = {}
    for i, name in enumerate(COUNTED):
        kinds = {*ours[i], *every}
        apart = {kind: ours[i][kind] - every.get(kind, NOTHING)[i] for kind in kinds}
        apart[LOOPS] = sum(cost[i] for cost in every.values()) - once[i]
        left_out = [] if i else [v for k, v in marks.flop.items() if k not in module.marks]
        for kind, flop in left_out:
            apart[kind] = apart.get(kind, 0.0) - flop
        apart[FOLDED] = sum(flop for _, flop in left_out)
        apart = {
            kind: value
            for kind, value in sorted(apart.items(), key=lambda e: (-abs(e[1]), e[0]))
            if value
        }
        xla = float(whole.get(COUNTED[name], 0.0))
        total = sum(ours[i].values())
        named = [v for k, v in apart.items() if i or k in REASONS]
        counts[name] = Counts(total, xla, apart, _ratio(total - sum(named), xla))
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
        kind = operation.kind
        if kind not in REASONS:
            touched = (*operation.inputs, *operation.outputs)
            if any(flow.values[v].dtype.startswith("complex") for v in touched):
                kind = COMPLEX
        flop[kind] += operation.flop
        moved[kind] += reads + writes
    return flop, moved


class _Marks:
    """What tells in XLA's program where its instructions come from: the primitive and the number of
    an equation, or how often a loop runs."""

    def __init__(self) -> None:
        self.flop: dict[str, tuple[str, float]] = {}  # mark -> primitive, FLOP of all its rounds
        self.read: list[bool] = []  # The operands that the last jaxpr reads.

    def on(self, jaxpr: Any, times: int, wanted: Sequence[bool]) -> Any:
        """A jaxpr that runs so often, of which these results are wanted, with marks."""
        equations = []
        pairs = [*zip(jaxpr.outvars, wanted)]
        needed: set[Any] = set()
        for equation in (*reversed(jaxpr.eqns), None):
            needed |= {v for v, is_read in pairs if is_read and not isinstance(v, jex.Literal)}
            if equation is not None:
                used = [v in needed for v in equation.outvars]
                marked = self.marked(equation, times if any(used) or equation.effects else 0, used)
                equations.append(marked)
                pairs = [*zip(equation.invars, self.read)]
        self.read = [v in needed for v in jaxpr.invars]
        return jaxpr.replace(eqns=equations[::-1])

    def marked(self, equation: Any, times: int, used: list[bool]) -> Any:
        """An equation with marks; `read` are its operands that are needed."""
        kind, params = equation.primitive.name, equation.params
        every, mark = [times > 0] * len(equation.invars), ""
        if kind in ("scan", "while"):
            rounds = trip_count(equation)[0] or 1 if kind == "while" else 1
            if kind == "scan":
                rounds = max(int(params["length"]) // int(params["unroll"]), 1)
            carried = len(used) if kind == "while" else params["num_carry"]
            used = [*[times > 0] * carried, *used[carried:]]
            mark = f"rounds={rounds}"
            times *= rounds
        elif kind not in ("cond", "custom_linear_solve") and called(equation) is None:
            kind = NAMED.get(kind, kind) if times else UNUSED
            mark = f"primitive={kind}={len(self.flop)}"
            if times:
                self.flop[mark] = kind, times * work_of_equation(equation)[0]
            params = {}
        inside = partial(self.inside, times=times, used=used)
        if kind == "custom_linear_solve":
            jaxprs = equation.params["jaxprs"]
            params = {"jaxprs": jaxprs._replace(solve=inside(jaxprs.solve))}
        else:
            params = {name: jax.tree.map(inside, value) for name, value in params.items()}
        if called(equation) is None or len(self.read) != len(every):
            self.read = every
        source = equation.source_info
        stack = source.name_stack.extend(mark) if mark else source.name_stack
        source = source.replace(name_stack=stack)
        return equation.replace(params=equation.params | params, source_info=source)

    def inside(self, leaf: Any, times: int, used: Sequence[bool]) -> Any:
        """A leaf of an equation's parameters, with marks where it is a jaxpr."""
        jaxpr = leaf.jaxpr if isinstance(leaf, jex.ClosedJaxpr) else leaf
        if not isinstance(jaxpr, jex.Jaxpr):
            return leaf
        alike = len(used) == len(jaxpr.outvars)
        jaxpr = self.on(jaxpr, times, used if alike else [True] * len(jaxpr.outvars))
        return leaf.replace(jaxpr=jaxpr) if isinstance(leaf, jex.ClosedJaxpr) else jaxpr


def _lowered(closed: Any) -> Any:
    """A closed jaxpr as it is handed to XLA."""
    avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars]
    return jax.jit(jex.jaxpr_as_fun(closed), keep_unused=True).lower(*avals)


class Instruction(NamedTuple):
    """An instruction of XLA's program."""

    name: str
    shape: str
    opcode: str
    operands: list[str]
    rest: str  # Attributes.
    mark: tuple[str, str]  # The last of its place: of a primitive, or of a loop's rounds.


class _Module:
    """XLA's program: what XLA counts for each of its instructions alone.

    Args:
      computation: as the lowered function holds it.
    """

    def __init__(self, computation: Any):
        text = re.sub(r"/\*.*?\*/", "", computation.get_hlo_module().to_string())
        self.computations: dict[str, list[Instruction]] = {}
        self.texts: dict[str, str] = {}
        for head, name, body in re.findall(
            r"^((?:ENTRY )?%([^ ]+) \([^\n]*\{)\n(.*?)^\}", text, re.MULTILINE | re.DOTALL
        ):
            bare = METADATA.sub("", body)
            self.texts[name] = f"{head}\n{bare}}}\n"
            self.computations[name] = [_instruction(line) for line in body.splitlines()]
            if head.startswith("ENTRY"):
                self.entry = name
        lines = re.sub(MOVED, "", text)
        self.marks = set(re.findall(r"primitive=[\w-]+=\d+", lines))
        self.asked: dict[str, Cost] = {}

    def counts(self) -> tuple[dict[str, Cost], Cost]:
        """Primitive -> FLOP and bytes, the body of a loop as often as it runs; and those of all as
        XLA counts, which takes the body once and of a choice the dearest branch."""
        return self.computation(self.entry, "")

    def computation(self, name: str, inherited: str) -> tuple[dict[str, Cost], Cost]:
        every: dict[str, Cost] = {}
        once = NOTHING
        shapes = {made.name: made.shape for made in self.computations[name]}
        for made in self.computations[name]:
            sort, said = made.mark
            kind = said if sort == "primitive" else ROWS if sort else inherited
            given = [shapes[v] for v in made.operands]
            if kind not in REASONS and any(
                f"c{n}[" in s for n in (64, 128) for s in (*given, made.shape)
            ):
                kind = COMPLEX
            inner = re.findall(CALLED.get(made.opcode, "(?!)"), made.rest)
            names = re.findall(r"%([\w.-]+)", " ".join(inner))
            parts = [self.computation(callee, kind) for callee in names]
            if made.opcode == "while":  # the condition comes first
                parts[0] = {ROWS: parts[0][1]}, parts[0][1]
            if not parts:
                alone = self.alone(made, given)
                parts = [({kind or made.opcode.replace("-", "_"): alone}, alone)]
            times = int(said) if made.opcode == "while" and sort == "rounds" else 1
            for part, _ in parts:
                for key, cost in part.items():
                    every[key] = _plus(every.get(key, NOTHING), cost, times)
            branches = [cost for _, cost in parts]
            if made.opcode == "conditional":
                branches = [(max(f for f, _ in branches), max(b for _, b in branches))]
            for cost in branches:
                once = _plus(once, cost)
        return every, once

    def alone(self, made: Instruction, shapes: list[str]) -> Cost:
        """What XLA counts of one instruction, of operands of these shapes."""
        if made.opcode in ("parameter", "constant", "get-tuple-element"):
            return NOTHING
        given = "".join(f"%p{i} = {shape} parameter({i})\n" for i, shape in enumerate(shapes))
        read = ", ".join(f"%p{i}" for i in range(len(shapes)))
        text = f"ENTRY %e {{\n{given}ROOT %r = {made.shape} {made.opcode}({read}){made.rest}\n}}"
        waiting, held = [text], set()
        while waiting:
            names = re.findall(r"%([\w.-]+)", waiting.pop())
            new = [name for name in names if name in self.texts and name not in held]
            waiting += [self.texts[name] for name in new]
            held.update(new)
        helpers = [body for name, body in self.texts.items() if name in held]
        text = "\n".join(["HloModule m", *helpers, text])
        if text not in self.asked:
            from jaxlib import _hlo, _jax  # type: ignore[attr-defined]

            found = _jax.hlo_module_cost_analysis(
                jax.devices("cpu")[0].client, _hlo.hlo_module_from_text(text)
            )
            self.asked[text] = found.get("flops", 0.0), found.get("bytes accessed", 0.0)
        return self.asked[text]


def _instruction(line: str) -> Instruction:
    match = re.match(r"\s*(?:ROOT )?%([\w.-]+) = (.+?) ([a-z][\w-]*)\(([^)]*)\)(.*)", line)
    assert match is not None
    place = re.search(r'op_name="([^"]*)"', line)
    marks = re.findall(r"(primitive|rounds)=([\w-]+)", place[1] if place else "")
    name, shape, opcode, operands, rest = match.groups()
    operands = re.findall(r"%([\w.-]+)", operands)
    mark = marks[-1] if marks else ("", "")
    if place and mark[1] in SPELLED_OUT:
        last, does = place[1].rpartition("/")[2], match[3].replace("-", "_")
        mark = mark[0], OPERATIONS.get(does, does) if last == mark[1] else last
    return Instruction(name, shape, opcode, operands, METADATA.sub("", rest), mark)


def _plus(total: Cost, cost: Cost, times: int = 1) -> Cost:
    return total[0] + times * cost[0], total[1] + times * cost[1]
