"""Reading the HLO text that the XLA compiler dumps: computations, instructions, shapes with layout
and memory space.

Only what memory mapping needs is interpreted; every other attribute stays text. The grammar is that
of XLA's ``HloModule`` printer.
"""

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from learned_mapping.errors import InputError

ELEMENT_BITS = {
    "pred": 8,
    "s2": 2,
    "s4": 4,
    "s8": 8,
    "s16": 16,
    "s32": 32,
    "s64": 64,
    "u2": 2,
    "u4": 4,
    "u8": 8,
    "u16": 16,
    "u32": 32,
    "u64": 64,
    "bf16": 16,
    "f16": 16,
    "f32": 32,
    "f64": 64,
    "c64": 64,
    "c128": 128,
    "f8e4m3fn": 8,
    "f8e5m2": 8,
    "f8e4m3": 8,
    "f8e4m3b11fnuz": 8,
    "f8e4m3fnuz": 8,
    "f8e5m2fnuz": 8,
    "f8e3m4": 8,
    "f4e2m1fn": 4,
    "f8e8m0fnu": 8,
    "token": 0,
    "opaque": 0,
}
ALLOCATION_BYTES = 512  # The TPU compiler allocates memory in chunks of this many bytes.

FAST_SPACES = (1, 3)  # Memory spaces of fast memory: VMEM (TPU v5e, v6e) and CMEM (v4); 0 is HBM.

NO_ESTIMATE = 2**63 - 1  # The compiler's word for cycles it does not know.


@dataclass(frozen=True)
class ArrayShape:
    """The shape of one array: its element type, logical dimensions, layout and memory space."""

    element: str
    dimensions: tuple[int, ...]
    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...]
    memory_space: int = 0

    @property
    def is_fast(self) -> bool:
        return self.memory_space in FAST_SPACES

    @functools.cached_property
    def bytes(self) -> int:
        """Bytes in memory: minor dimensions padded to the first tile, the whole rounded up to
        `ALLOCATION_BYTES`."""
        order = self.minor_to_major or tuple(range(len(self.dimensions) - 1, -1, -1))
        physical = [self.dimensions[d] for d in reversed(order)]
        if self.tiles:
            tile = self.tiles[0]
            physical = [1] * (len(tile) - len(physical)) + physical
            for i, extent in enumerate(tile, start=len(physical) - len(tile)):
                physical[i] = -(-physical[i] // extent) * extent
        size = -(-math.prod(physical) * ELEMENT_BITS.get(self.element, 0) // 8)
        return -(-size // ALLOCATION_BYTES) * ALLOCATION_BYTES


Shape = ArrayShape | tuple  # An array, or a tuple of shapes.


def leaves(
    shape: Shape, index: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], ArrayShape]]:
    """The arrays of a shape with their tuple indices, in order."""
    if isinstance(shape, ArrayShape):
        yield index, shape
    else:
        for i, part in enumerate(shape):
            yield from leaves(part, (*index, i))


@dataclass(frozen=True)
class Instruction:
    """One line of a computation: ``%name = shape opcode(operands), attributes``."""

    name: str
    shape: Shape
    opcode: str
    operands: tuple[str, ...]  # Names of operand instructions; empty for parameters and constants.
    argument: str  # The text between the parentheses, such as a parameter's number.
    attributes: str
    is_root: bool
    line: str = ""  # The whole line as printed, without indentation.

    def attribute(self, key: str) -> str | None:
        """The text of ``key=value``, braces balanced; None where there is none."""
        match = re.search(rf"(?:^|[ ,]){re.escape(key)}=", self.attributes)
        return None if match is None else _balanced(self.attributes, match.end())

    @property
    def estimated_cycles(self) -> int | None:
        """The compiler's own estimate for this instruction, in cycles; None where it gives none."""
        match = re.search(r'"estimated_cycles":"(\d+)"', self.attributes)
        cycles = int(match.group(1)) if match else NO_ESTIMATE
        return None if cycles >= NO_ESTIMATE else cycles


@dataclass(frozen=True)
class Computation:
    """A named sequence of instructions; in a scheduled module their order is the order of
    execution."""

    name: str
    instructions: tuple[Instruction, ...]
    line: str = ""  # The opening line as printed.

    @functools.cached_property
    def by_name(self) -> dict[str, Instruction]:
        return {instruction.name: instruction for instruction in self.instructions}

    @property
    def root(self) -> Instruction:
        return next(i for i in self.instructions if i.is_root)

    @functools.cached_property
    def parameters(self) -> tuple[Instruction, ...]:
        """Parameters in the order of their numbers."""
        listed = [i for i in self.instructions if i.opcode == "parameter"]
        return tuple(sorted(listed, key=lambda i: int(i.argument)))


@dataclass(frozen=True)
class Module:
    """A whole HLO module."""

    name: str
    header: str
    computations: dict[str, Computation]
    entry: Computation

    @functools.cached_property
    def donated(self) -> dict[tuple[int, ...], tuple[int, tuple[int, ...]]]:
        """Output tuple index -> (parameter number, its tuple index), from
        ``input_output_alias``."""
        match = re.search(r"input_output_alias=", self.header)
        if match is None:
            return {}
        text = _balanced(self.header, match.end())
        pairs = re.findall(r"\{([\d, ]*)\}: \((\d+), \{([\d, ]*)\}", text)
        return {parse_index(out): (int(number), parse_index(inner)) for out, number, inner in pairs}


def parse_module(text: str, source: object = "HLO text") -> Module:
    """Parses a module; raises `InputError` naming the line that does not fit the grammar."""
    header, name, entry = "", "", None
    computations: dict[str, Computation] = {}
    current: str | None = None
    instructions: list[Instruction] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if line.startswith("HloModule "):
            header, name = stripped, stripped[len("HloModule ") :].split(",")[0].strip()
        elif (
            current is None
            and stripped.endswith("{")
            and ("->" in stripped or stripped.startswith(("%", "ENTRY")))
        ):
            match = re.match(r"(ENTRY )?%?([^\s(]+)", stripped)
            if match is None:
                raise InputError(source, f"line {number}", "a computation without a name")
            current, instructions, opening = match.group(2), [], stripped
            if match.group(1):
                entry = current
        elif current is not None and stripped.startswith("}"):
            computations[current] = Computation(current, tuple(instructions), opening)
            current = None
        elif current is not None and " = " in stripped:
            try:
                instructions.append(_parse_instruction(stripped))
            except (ValueError, IndexError, KeyError, RecursionError) as error:
                raise InputError(
                    source, f"line {number}", f"not an HLO instruction ({error})"
                ) from None
    if not header or entry is None or entry not in computations:
        raise InputError(source, "", "no HLO module with an entry computation")
    for computation in computations.values():
        if sum(i.is_root for i in computation.instructions) != 1:
            raise InputError(source, computation.name, "a computation must have one ROOT")
    return Module(name, header, computations, computations[entry])


def _parse_instruction(line: str) -> Instruction:
    is_root = line.startswith("ROOT ")
    name, rest = (line[5:] if is_root else line).split(" = ", 1)
    shape, end = parse_shape(rest, 0)
    match = re.compile(r"\s*([\w\-]+)\(").match(rest, end)
    if match is None:
        raise ValueError("no opcode")
    argument = _balanced(rest, match.end() - 1)
    attributes = rest[match.end() - 1 + len(argument) :].lstrip(", ")
    argument = argument[1:-1]
    opcode = match.group(1)
    operands = (
        () if opcode in ("parameter", "constant") else tuple(re.findall(r"%([\w.\-]+)", argument))
    )
    return Instruction(
        name.lstrip("%").strip(), shape, opcode, operands, argument, attributes, is_root, line
    )


_COMMENT = re.compile(r"(?:\s|/\*.*?\*/)*")
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\]")
_LAYOUT = re.compile(r"\{([\d,]*)(?::((?:[^{}]|\{[^{}]*\})*))?\}")
_TILE = re.compile(r"\(([\d,*\- ]*)\)")
_WORD = re.compile(r"[^,\s]*")
_STRING_OR_BRACKET = re.compile(r'"(?:\\.|[^"\\])*(?:"|\\?$)|[(){}\[\]]')


def parse_shape(text: str, at: int) -> tuple[Shape, int]:
    at = _COMMENT.match(text, at).end()
    if text[at] == "(":
        parts, at = [], at + 1
        while True:
            at = _COMMENT.match(text, at).end()
            if text[at] == ")":
                return tuple(parts), at + 1
            if text[at] == ",":
                at += 1
                continue
            part, at = parse_shape(text, at)
            parts.append(part)
    match = _ARRAY.match(text, at)
    if match is None:
        raise ValueError(f"no shape at {text[at : at + 20]!r}")
    at = match.end()
    dimensions = tuple(int(d.strip("<= ")) for d in match.group(2).split(",") if d.strip())
    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    space = 0
    layout = _LAYOUT.match(text, at)
    if layout:
        at = layout.end()
        minor_to_major = parse_index(layout.group(1))
        extra = layout.group(2) or ""
        tiling = re.match(r"T((?:\([\d,*\- ]*\))+)", extra)
        if tiling:
            tiles = tuple(parse_index(t.replace("*", "1")) for t in _TILE.findall(tiling.group(1)))
        tag = re.search(r"S\((\d+)\)", extra)
        space = int(tag.group(1)) if tag else 0
    return ArrayShape(match.group(1), dimensions, minor_to_major, tiles, space), at


def parse_index(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _balanced(text: str, start: int) -> str:
    """From `start` to where its opening bracket closes; without a bracket, to the next comma.
    Strings are skipped."""
    if text[start] not in "({[":
        return _WORD.match(text, start)[0]
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text, start):
        depth += (match[0] in "({[") - (match[0] in ")}]")
        if depth == 0:
            return text[start : match.end()]
    raise ValueError("unbalanced brackets")
