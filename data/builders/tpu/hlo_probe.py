"""A synthetic HLO module that holds single instructions of a program under many placements of their
arrays.

Paper 1 measures every instruction under every subset of its buffers in fast memory (Appendix A).
Without the chip, the compiler's own estimate stands in: each probe is a clone of an instruction in
which some operands and results lie in fast memory. One compilation of the module's back end prices
all of them.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from learned_mapping.errors import InputError

from .hlo import Instruction, Module, parse_shape

_TEXT = r'[^{}"]|"[^"]*"'
_DEPTH_1 = rf"(?:{_TEXT}|\{{(?:{_TEXT})*\}})*"
_DEPTH_2 = rf"(?:{_TEXT}|\{{{_DEPTH_1}\}})*"
_ASIDE = "metadata|sharding|frontend_attributes|control-predecessors"
_NOISE = re.compile(rf", (?:{_ASIDE}|backend_config)=\{{{_DEPTH_2}\}}")
"""Attributes that say nothing about the work an instruction does."""
ASIDE = re.compile(rf", (?:{_ASIDE})=\{{{_DEPTH_2}\}}")
"""The same without what the compiler's front end tells its back end."""
CALLED = (
    "calls",
    "to_apply",
    "select",
    "scatter",
    "comparator",
    "condition",
    "body",
    "branch_computations",
    "true_computation",
    "false_computation",
    "called_computations",
)
"""Attributes that name computations."""


@dataclass(frozen=True)
class Probe:
    """One instruction with some of its arrays in fast memory."""

    instruction: str
    operands: frozenset[int]  # Numbers of the operands in fast memory.
    results: frozenset[tuple[int, ...]]  # Tuple indices of the results in fast memory.


class Unprobeable(InputError):
    """The instruction cannot stand alone: it reads a tuple, or its text is of a kind not
    understood."""


def signature(module: Module, instruction: Instruction) -> str:
    """A digest equal for instructions that do the same work on arrays of the same shapes and
    layouts."""
    h = hashlib.sha256()
    entry = module.entry
    for operand in instruction.operands:
        line = entry.by_name[operand].line
        h.update(shape_text(line).encode())
        if entry.by_name[operand].opcode == "constant":
            h.update(entry.by_name[operand].argument.encode())
    h.update(
        _canonical(
            module, instruction.line, {o: f"o{i}" for i, o in enumerate(instruction.operands)}
        ).encode()
    )
    return h.hexdigest()


def _canonical(module: Module, line: str, names: dict[str, str]) -> str:
    text = _NOISE.sub("", line.removeprefix("ROOT "))
    text = text.split(" = ", 1)[1]

    def rename(match: re.Match) -> str:
        # A computation and an instruction may bear one name; an attribute, such as calls=, means
        # the computation.
        attribute, name = match.groups()
        computation = module.computations.get(name) if attribute else None
        if computation is None:
            return (attribute or "") + names.get(name, "%?")
        local: dict[str, str] = {}
        body = []
        for i, inner in enumerate(computation.instructions):
            local[inner.name] = f"v{i}"
            body.append(("R" if inner.is_root else "") + _canonical(module, inner.line, local))
        return attribute + "{" + ";".join(body) + "}"

    return re.sub(r"(=)?%([\w.\-]+)", rename, text)


class Clones:
    """Fused computations of a module with some of their parameters and results in the fast memory
    of number `space`, and what they need; every line without `noise`."""

    def __init__(self, module: Module, space: int, noise: re.Pattern = _NOISE):
        self._module, self.space, self._noise = module, space, noise
        self._count = 0
        self.texts: dict[str, str] = {}
        """The computations in HLO text by name; each stands behind those it calls."""

    def line(self, instruction: Instruction) -> str:
        """An instruction's line without noise."""
        return self._noise.sub("", instruction.line)

    def argument(self, instruction: Instruction) -> str:
        """What stands between an instruction's parentheses, without noise."""
        return self._noise.sub("", instruction.argument)

    def fused(self, name: str, operands: Iterable[int], results: Iterable[tuple[int, ...]]) -> str:
        """Copies a fused computation, its parameters and results moved to fast memory, down through
        nested fusions; returns the copy's name."""
        computation = self._module.computations[name]
        fast = {(p.name, ()) for p in computation.parameters if int(p.argument) in set(operands)}
        for index in results:
            fast.add((computation.root.name, index))
            if computation.root.opcode == "tuple":
                fast.add((computation.root.operands[index[0]], index[1:]))
        lines = []
        for inner in computation.instructions:
            line = self.line(inner)
            for index in sorted(i for n, i in fast if n == inner.name):
                line = place(line, index, self.space)
            if inner.opcode == "fusion":
                callee = (inner.attribute("calls") or "").lstrip("%")
                inside = frozenset(k for k, o in enumerate(inner.operands) if (o, ()) in fast)
                clone = self.fused(callee, inside, frozenset(i for n, i in fast if n == inner.name))
                line = line.replace(f"calls=%{callee}", f"calls=%{clone}")
            else:
                self.need_callees(inner)
            lines.append("  " + line)
        self._count += 1
        clone = f"{name}.placed{self._count}"
        opening = computation.line.replace(f"%{name} ", f"%{clone} ", 1)
        self.texts[clone] = "\n".join([opening, *lines, "}", ""])
        return clone

    def need_callees(self, instruction: Instruction) -> None:
        """Takes along, as they are, the computations an instruction calls."""
        for name in re.findall(
            r"%([\w.\-]+)", " ".join(filter(None, map(instruction.attribute, CALLED)))
        ):
            if name not in self.texts:
                computation = self._module.computations[name]
                for inner in computation.instructions:
                    self.need_callees(inner)
                lines = ["  " + self.line(inner) for inner in computation.instructions]
                self.texts[name] = "\n".join([computation.line, *lines, "}", ""])


class ProbeModule:
    """Collects probes of a program's module, from before memory assignment, and prints the module
    that prices them."""

    def __init__(self, module: Module, space: int):
        self._module = module
        self._clones = Clones(module, space)
        self._body: list[str] = []
        self.names: dict[str, Probe] = {}
        """The name of each clone in the printed module."""

    def add(self, probe: Probe) -> str:
        """Adds a probe; returns its clone's name. Raises `Unprobeable`, and then leaves the module
        as it was."""
        instruction = self._module.entry.by_name[probe.instruction]
        saved = dict(self._clones.texts), len(self._body)
        try:
            name = self._add(instruction, probe)
        except (ValueError, KeyError, IndexError) as error:
            self._clones.texts = saved[0]
            del self._body[saved[1] :]
            raise Unprobeable(
                self._module.name, probe.instruction, f"cannot be priced alone ({error})"
            ) from None
        self.names[name] = probe
        return name

    def text(self) -> str:
        """The module in HLO text: computations before their users, a schedule, no results but one
        constant."""
        header = "HloModule probe, is_scheduled=true, entry_computation_layout={()->s32[]}"
        entry = ["ENTRY %probe_main () -> s32[] {", *self._body]
        entry += ["  ROOT %probe_out = s32[]{:T(128)} constant(0)", "}"]
        return "\n".join([header, "", *self._clones.texts.values(), *entry, ""])

    def _add(self, instruction: Instruction, probe: Probe) -> str:
        number = len(self.names)
        operands: list[str] = []
        shared: dict[str, str] = {}
        for position, operand in enumerate(instruction.operands):
            source = self._module.entry.by_name[operand]
            if isinstance(source.shape, tuple):
                raise ValueError("it reads a tuple")
            if operand in shared:
                operands.append(shared[operand])
                continue
            text = shape_text(source.line)
            if source.opcode == "constant" and position not in probe.operands:
                name = f"probe_c{number}_{position}"
                line = _NOISE.sub("", source.line.removeprefix("ROOT "))
                self._body.append(f"  %{name} = {line.split(' = ', 1)[1]}")
            else:
                # An uninitialised buffer: no parameter whose layout the compiler would choose, no
                # copy to price.
                name = f"probe_b{number}_{position}"
                text = in_fast(text, self._clones.space) if position in probe.operands else text
                self._body.append(
                    f'  %{name} = {text} custom-call(), custom_call_target="AllocateBuffer"'
                )
            shared[operand] = name
            operands.append(name)
        name = f"probe.{number}"
        self._body.append(
            "  "
            + placed_line(self._clones, instruction, name, operands, probe.operands, probe.results)
        )
        return name


def placed_line(
    clones: Clones,
    instruction: Instruction,
    name: str,
    operands: Iterable[str],
    fast_operands: Iterable[int],
    fast_results: Iterable[tuple[int, ...]],
) -> str:
    """An instruction's line under another name, reading other operands, with some of its arrays in
    fast memory."""
    line = clones.line(instruction).removeprefix("ROOT ")
    for index in fast_results:
        line = place(line, index, clones.space)
    _, end = _shape_span(line)
    head, rest = line[:end], line[end:]
    rest = rest.replace(
        f"({clones.argument(instruction)})", "(" + ", ".join(f"%{o}" for o in operands) + ")", 1
    )
    if instruction.opcode == "fusion":
        callee = (instruction.attribute("calls") or "").lstrip("%")
        rest = rest.replace(
            f"calls=%{callee}", f"calls=%{clones.fused(callee, fast_operands, fast_results)}"
        )
    else:
        clones.need_callees(instruction)
    return f"%{name} = {head.split(' = ', 1)[1]}{rest}"


def _shape_span(line: str) -> tuple[int, int]:
    start = line.index(" = ") + 3
    _, end = parse_shape(line, start)
    return start, end


def shape_text(line: str) -> str:
    """The text of the shape in a line of HLO."""
    start, end = _shape_span(line)
    return line[start:end].strip()


def in_fast(text: str, space: int) -> str:
    """The text of an array's shape, moved to the fast memory of that number."""
    match = re.fullmatch(r"([a-z]\w*\[[^\]]*\])\{([\d,]*)(:[^{}]*)?\}", text.strip())
    if match is None:
        raise ValueError(f"no layout in {text[:40]!r}")
    tiling = re.sub(r"S\(\d+\)", "", match.group(3) or ":")
    return f"{match.group(1)}{{{match.group(2)}{tiling}S({space})}}"


def place(line: str, index: tuple[int, ...], space: int) -> str:
    """A line of HLO whose result, or the part of it at `index`, lies in fast memory."""
    start, end = _shape_span(line)
    return line[:start] + _place_in_shape(line[start:end], index, space) + line[end:]


def _place_in_shape(text: str, index: tuple[int, ...], space: int) -> str:
    if not index:
        return in_fast(text, space)
    parts = split_shape(text)
    parts[index[0]] = _place_in_shape(parts[index[0]], index[1:], space)
    return "(" + ", ".join(parts) + ")"


def split_shape(text: str) -> list[str]:
    """The shapes in the text of a tuple's shape."""
    parts, depth, current = [], 0, ""
    for c in re.sub(r"/\*.*?\*/", "", text.strip())[1:-1]:
        depth += (c in "({[") - (c in ")}]")
        if c == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += c
    return [*parts, current.strip()]
