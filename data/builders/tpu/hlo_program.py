"""From a scheduled HLO module to the memory-mapping game's instructions, tensors, buffers and alias
groups.

The rules, in the order in which they apply:

1. An instruction of the entry computation is one logical time step, unless it moves nothing:
   ``parameter``, ``constant``, ``get-tuple-element``, ``tuple``, ``bitcast``,
   ``optimization-barrier``, ``after-all``.
2. A tensor is an array that a parameter, a constant or an instruction defines; the moves of rule 1
   are looked through.
   Arrays of one element are left out: they live in registers and scalar memory.
3. A buffer is one array an instruction reads (once, however many operands name it) or writes.
4. An instruction that updates in place shares memory between an input and an output:
   ``dynamic-update-slice``, a fusion whose root is one, and whatever ``output_to_operand_aliasing``
   lists. The two buffers form an alias group. So do a donated parameter and the result that takes
   over its memory, in the instruction that reads one and writes the other: the compiler treats the
   two as one value there, and never was one found in fast memory without the other.
5. Control flow (``while``, ``conditional``, ``call``) is one opaque instruction: its arrays stay in
   HBM, because what its body would gain is not known from outside. `HloProgram.opaque` counts them.
"""

import functools
import re
from dataclasses import dataclass

import numpy as np

from learned_mapping.errors import InputError

from .hlo import Computation, Instruction, Module, leaves, parse_index

TRANSPARENT = frozenset(
    (
        "parameter",
        "constant",
        "get-tuple-element",
        "tuple",
        "bitcast",
        "optimization-barrier",
        "after-all",
    )
)
OPAQUE = frozenset(("while", "conditional", "call", "async-start", "async-update", "async-done"))
COPIES = frozenset(("copy-start", "copy-done", "async-start", "async-done"))
"""What the compiler's memory assignment adds; it runs beside the computation."""
IN_PLACE = frozenset(("dynamic-update-slice", "scatter"))

Definition = tuple[str, tuple[int, ...]]
"""An instruction's name and an index into its (possibly tuple) shape: one array."""


@dataclass(frozen=True)
class HloProgram:
    """What the game needs of a module, before latencies are known; arrays as in
    `program.Program`."""

    instructions: tuple[Instruction, ...]
    tensors: tuple[Definition, ...]
    tensor_bytes: np.ndarray
    tensor_is_parameter: np.ndarray
    tensor_is_output: np.ndarray
    buffer_instruction: np.ndarray
    buffer_tensor: np.ndarray
    buffer_is_output: np.ndarray
    buffer_alias: np.ndarray
    buffer_position: tuple[tuple[int, tuple[int, ...]], ...]
    """Where each buffer stands on its instruction: (operand number or -1 for the result, tuple
    index)."""
    opaque: np.ndarray  # [T] bool, whether the instruction is control flow.

    @functools.cached_property
    def number(self) -> dict[Definition, int]:
        """The index of each tensor."""
        return {definition: n for n, definition in enumerate(self.tensors)}

    @property
    def tensor_names(self) -> tuple[str, ...]:
        return tuple(
            name + ("{" + ",".join(map(str, index)) + "}" if index else "")
            for name, index in self.tensors
        )


def hlo_program(module: Module) -> HloProgram:
    """Applies the rules above to a scheduled module.

    Raises:
      InputError: the module is not scheduled, or an instruction reads a value that nothing defines.
    """
    if "is_scheduled=true" not in module.header:
        raise InputError(module.name, "is_scheduled", "the module has no schedule")
    entry = module.entry
    resolver = Resolver(entry)
    outputs = {resolver.resolve(entry.root.name, index) for index, _ in leaves(entry.root.shape)}
    donated = _donated(module, resolver)
    number: dict[Definition, int] = {}
    sizes: list[int] = []
    is_parameter: list[bool] = []
    buffers: list[tuple[int, int, bool]] = []
    groups: list[int] = []
    positions: list[tuple[int, tuple[int, ...]]] = []
    instructions = [i for i in entry.instructions if i.opcode not in TRANSPARENT]

    def tensor(definition: Definition) -> int | None:
        if definition not in number:
            shape = resolver.shape(definition)
            if int(np.prod(shape.dimensions)) <= 1 or shape.bytes == 0:
                return None
            number[definition] = len(sizes)
            sizes.append(shape.bytes)
            is_parameter.append(entry.by_name[definition[0]].opcode in ("parameter", "constant"))
        return number[definition]

    next_group = 0
    for t, instruction in enumerate(instructions):
        reads: dict[int, int] = {}
        for place, operand in enumerate(instruction.operands):
            for index, _ in leaves(
                entry.by_name[operand].shape if operand in entry.by_name else ()
            ):
                read = tensor(resolver.resolve(operand, index))
                if read is not None and read not in reads:
                    reads[read] = len(buffers)
                    buffers.append((t, read, False))
                    groups.append(-1)
                    positions.append((place, index))
        for index, _ in leaves(instruction.shape):
            written = tensor((instruction.name, index))
            if written is None:
                continue
            group = -1
            source = in_place_source(module, instruction, index)
            if source is not None or (instruction.name, index) in donated:
                shared = tensor(
                    donated[instruction.name, index]
                    if source is None
                    else resolver.resolve(*source)
                )
                if (
                    shared in reads
                    and sizes[shared] == sizes[written]
                    and groups[reads[shared]] == -1
                ):
                    group = groups[reads[shared]] = next_group
                    next_group += 1
            buffers.append((t, written, True))
            groups.append(group)
            positions.append((-1, index))
    columns = np.array(buffers, np.int64).reshape(-1, 3)
    return HloProgram(
        instructions=tuple(instructions),
        tensors=tuple(number),
        tensor_bytes=np.array(sizes, np.int64),
        tensor_is_parameter=np.array(is_parameter, bool),
        tensor_is_output=np.array([d in outputs for d in number], bool),
        buffer_instruction=columns[:, 0].astype(np.int32),
        buffer_tensor=columns[:, 1].astype(np.int32),
        buffer_is_output=columns[:, 2].astype(bool),
        buffer_alias=np.array(groups, np.int32),
        buffer_position=tuple(positions),
        opaque=np.array([i.opcode in OPAQUE for i in instructions], bool),
    )


def placements(program: HloProgram, assigned: Module) -> np.ndarray:
    """Which buffers of a program the compiler put into fast memory, read from the module after its
    memory assignment: [B] int8, 1 in fast memory, 0 elsewhere, -1 where the instruction did not
    survive under its name."""
    entry = assigned.entry
    result = np.full(len(program.buffer_tensor), -1, np.int8)
    for b, (t, (place, index)) in enumerate(
        zip(program.buffer_instruction.tolist(), program.buffer_position)
    ):
        instruction = entry.by_name.get(program.instructions[t].name)
        if instruction is None:
            continue
        if place >= 0:
            if (
                place >= len(instruction.operands)
                or instruction.operands[place] not in entry.by_name
            ):
                continue
            instruction = entry.by_name[instruction.operands[place]]
        shapes = dict(leaves(instruction.shape))
        if index in shapes:
            result[b] = shapes[index].is_fast
    return result


class Resolver:
    """Finds the instruction that defines an array, looking through moves of nothing."""

    def __init__(self, computation: Computation):
        self._computation = computation

    def resolve(
        self, name: str, index: tuple[int, ...], bitcasts: list[str] | None = None
    ) -> Definition:
        """The array that stands at `index` of a value; the bitcasts on the way are appended to
        `bitcasts`."""
        while True:
            instruction = self._computation.by_name.get(name)
            if instruction is None:
                raise InputError(self._computation.name, name, "no such instruction")
            if instruction.opcode == "get-tuple-element":
                position = int(re.search(r"index=(\d+)", instruction.attributes).group(1))
                name, index = instruction.operands[0], (position, *index)
            elif instruction.opcode == "tuple":
                name, index = instruction.operands[index[0]], index[1:]
            elif instruction.opcode in ("bitcast", "optimization-barrier"):
                if bitcasts is not None and instruction.opcode == "bitcast":
                    bitcasts.append(name)
                name = instruction.operands[0]
            else:
                return name, index

    def shape(self, definition: Definition):
        shape = self._computation.by_name[definition[0]].shape
        for i in definition[1]:
            shape = shape[i]
        return shape


def _donated(module: Module, resolver: Resolver) -> dict[Definition, Definition]:
    """The array of each result that takes over a parameter's memory -> that parameter's array."""
    entry = module.entry
    parameters = {int(i.argument): i.name for i in entry.instructions if i.opcode == "parameter"}
    return {
        resolver.resolve(entry.root.name, out): (parameters[parameter], inner)
        for out, (parameter, inner) in module.donated.items()
        if parameter in parameters
    }


def in_place_source(
    module: Module, instruction: Instruction, index: tuple[int, ...]
) -> Definition | None:
    """The operand (and its tuple index) whose memory the output at `index` takes over, or None."""
    listed = instruction.attribute("output_to_operand_aliasing")
    if listed:
        for out, operand, inner in re.findall(r"\{([\d, ]*)\}: \((\d+), \{([\d, ]*)\}\)", listed):
            if parse_index(out) == index:
                return instruction.operands[int(operand)], parse_index(inner)
    if instruction.opcode in IN_PLACE:
        return instruction.operands[0], ()
    if instruction.opcode == "fusion":
        callee = module.computations.get((instruction.attribute("calls") or "").lstrip("%"))
        number = None if callee is None else _updated_parameter(callee, index)
        if number is not None:
            return instruction.operands[number], ()
    return None


def _updated_parameter(fused: Computation, index: tuple[int, ...]) -> int | None:
    """The fusion parameter that the in-place root at `index` updates, or None."""
    name, index = Resolver(fused).resolve(fused.root.name, index)
    root = fused.by_name[name]
    if index or root.opcode not in IN_PLACE:
        return None
    source, inner = Resolver(fused).resolve(root.operands[0], ())
    parameter = fused.by_name[source]
    return int(parameter.argument) if parameter.opcode == "parameter" and not inner else None
