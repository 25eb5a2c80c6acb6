"""A mapping written into a scheduled HLO module from before memory assignment: what the compiler's
own assignment would have written, had it decided so.

A tensor has up to two versions, one in HBM and one in fast memory. Which of them the instruction at
a step reads is the mapping's word. The version in fast memory is the defining instruction's own
result (its layout says so: ``S(3)`` is CMEM, ``S(1)`` VMEM) or what a pair ``copy-start`` and
``copy-done`` brings; so is the version in HBM. Pairs stand where the mapping says:

1. Copy of an input held over [s, t] starts before the instruction of step s and is done before that
   of step t.
2. Copy of an output held over [t, e] starts after the instruction of step t and is done after that
   of step e, or before the first instruction that reads the version in HBM.
3. Where the data is in fast memory alone and is read from HBM, or is a result of the program, it is
   written back just before (`hardware.memory_hierarchy`, rule 5).

Offsets are left to the compiler. Layouts reach the parameters and results of fused computations
(`hlo_probe.Clones`). Arrays that control flow or a tuple takes stay in HBM, whatever the mapping
says; `Written.left` names them.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from learned_mapping.hardware.memory_hierarchy import DROP, MappingLike, copies_by_step
from learned_mapping.programs.program import Program

from .compiler import V4, Generation
from .hlo import Instruction, Module, leaves
from .hlo_probe import ASIDE, Clones, in_fast, placed_line, shape_text, split_shape
from .hlo_program import TRANSPARENT, Definition, HloProgram, Resolver


@dataclass(frozen=True)
class Written:
    """A module with a mapping in it."""

    text: str
    # What could not be expressed, a line each, naming the buffer; it stays in HBM.
    left: tuple[str, ...]
    copies: int  # Pairs of ``copy-start`` and ``copy-done``, write-backs included.


def write_mapping(
    module: Module,
    hlo: HloProgram,
    program: Program,
    mapping: MappingLike,
    generation: Generation = V4,
) -> Written:
    """Writes a mapping of a game into the scheduled module, from before memory assignment, that the
    game was read from.

    The mapping need not be valid: an input that was never brought to fast memory is left in HBM.
    """
    return _Writer(module, hlo, program, mapping, generation.space).write()


class _Writer:
    def __init__(
        self, module: Module, hlo: HloProgram, program: Program, mapping: MappingLike, space: int
    ):
        self.module, self.hlo, self.program = module, hlo, program
        self.action, self.held_to = mapping.action.tolist(), mapping.end.tolist()
        self.entry = module.entry
        self.resolver = Resolver(module.entry)
        self.clones = Clones(module, space, ASIDE)
        self.mark = f"S({space})"
        self.lines: list[str] = []
        self.shape: dict[str, str] = {}
        self.made: dict[tuple, str] = {}  # what was derived from which names -> its name
        # tensor -> its version in HBM; None where there is none
        self.slow: dict[int, str | None] = {}
        self.fast: dict[int, str] = {}
        # tensor -> the copy-start to HBM under way, step after its end
        self.leaving: dict[int, tuple[str, int]] = {}
        self.arriving: dict[int, str] = {}  # buffer -> its copy-start to fast memory
        self.left: list[str] = []
        self.copies = 0
        self.buffers: dict[int, list[int]] = defaultdict(list)
        for b, t in enumerate(hlo.buffer_instruction.tolist()):
            self.buffers[t].append(b)
        self.starts = copies_by_step(program, mapping)

    def write(self) -> Written:
        step = {instruction.name: t for t, instruction in enumerate(self.hlo.instructions)}
        for instruction in self.entry.instructions:
            if instruction.opcode in ("parameter", "constant", "after-all"):
                self._emit(instruction.name, self._original(instruction))
        for instruction in self.entry.instructions:
            if instruction.name in step:
                self._step(step[instruction.name], instruction)
            elif instruction.opcode not in TRANSPARENT:
                raise AssertionError(instruction.name)
        self._copies(len(self.hlo.instructions))
        root = self._result()
        body = [
            f"  ROOT {line}" if line.startswith(f"%{root} = ") else f"  {line}"
            for line in self.lines
        ]
        text = [
            self.module.header,
            "",
            *self.clones.texts.values(),
            self.entry.line,
            *body,
            "}",
            "",
        ]
        return Written("\n".join(text), tuple(self.left), self.copies)

    def _original(self, instruction: Instruction) -> str:
        return self.clones.line(instruction).removeprefix("ROOT ").split(" = ", 1)[1]

    def _emit(self, name: str, rest: str) -> str:
        self.lines.append(f"%{name} = {rest}")
        self.shape[name] = shape_text(self.lines[-1])
        return name

    def _step(self, t: int, instruction: Instruction) -> None:
        self._copies(t)
        wanted: dict[int, bool] = {}
        results: list[tuple[int, ...]] = []
        for b in self.buffers[t]:
            n, fast = int(self.hlo.buffer_tensor[b]), self.action[b] != DROP
            if fast and (
                self.hlo.opaque[t] or isinstance(self._operand_shape(b, instruction), tuple)
            ):
                self._leave(b, f"{instruction.opcode} takes its arrays in HBM")
                fast = False
            if self.hlo.buffer_is_output[b]:
                if fast:
                    results.append(self.hlo.buffer_position[b][1])
            else:
                wanted[n] = fast
                if b in self.arriving:
                    self.fast[n] = self._done(self.arriving.pop(b))
                if fast and n not in self.fast:
                    self._leave(b, "it was never brought to fast memory")
                    wanted[n] = False
        operands = [self._operand(name, wanted) for name in instruction.operands]
        fast_operands = [k for k, name in enumerate(operands) if self.mark in self.shape[name]]
        line = placed_line(
            self.clones, instruction, instruction.name, operands, fast_operands, results
        )
        self._emit(instruction.name, line.split(" = ", 1)[1])
        for index, _ in leaves(instruction.shape):
            n = self.hlo.number.get((instruction.name, index))
            if n is not None and index in results:
                self.slow[n], self.fast[n] = None, self._array((instruction.name, index))

    def _operand_shape(self, b: int, instruction: Instruction):
        position = self.hlo.buffer_position[b][0]
        return None if position < 0 else self.entry.by_name[instruction.operands[position]].shape

    def _leave(self, b: int, why: str) -> None:
        verb = "written" if self.hlo.buffer_is_output[b] else "read"
        tensor = self.hlo.tensor_names[int(self.hlo.buffer_tensor[b])]
        by = self.hlo.instructions[int(self.hlo.buffer_instruction[b])].name
        self.left.append(f"buffer {b}, {tensor} {verb} by {by}, stays in HBM: {why}")

    def _copies(self, t: int) -> None:
        """Ends the copies to HBM that are due, and starts those of step t."""
        for n in [n for n, (_, due) in self.leaving.items() if due <= t]:
            self._in_hbm(n)
        for b in self.starts.get(t, ()):
            n = int(self.hlo.buffer_tensor[b])
            if self.hlo.buffer_is_output[b]:
                if self.slow.get(n, "") is None:
                    self.leaving[n] = self._start(self.fast[n], fast=False), self.held_to[b] + 1
            elif not self.hlo.opaque[int(self.hlo.buffer_instruction[b])]:
                self.arriving[b] = self._start(self._in_hbm(n), fast=True)

    def _start(self, source: str, *, fast: bool) -> str:
        there = (
            in_fast(self.shape[source], self.clones.space)
            if fast
            else self.shape[source].replace(self.mark, "")
        )
        self.copies += 1
        shape = f"({there}, {self.shape[source]}, u32[]{{:S(2)}})"
        return self._emit(f"mapped-start.{self.copies}", f"{shape} copy-start(%{source})")

    def _done(self, start: str) -> str:
        name = start.replace("start", "done")
        return self._emit(name, f"{split_shape(self.shape[start])[0]} copy-done(%{start})")

    def _in_hbm(self, n: int) -> str:
        """The version of tensor n in HBM; ends its copy there, or makes one."""
        if n in self.leaving:
            self.slow[n] = self._done(self.leaving.pop(n)[0])
        elif n in self.slow and self.slow[n] is None:
            self.slow[n] = self._done(self._start(self.fast[n], fast=False))
        return self.slow.get(n) or self._array(self.hlo.tensors[n])

    def _array(self, definition: Definition) -> str:
        """The name of an array as its instruction defines it."""
        name, index = definition
        for i in index:
            key = (name, i)
            if key not in self.made:
                part = split_shape(self.shape[name])[i]
                self.made[key] = self._emit(
                    f"{name}.part.{i}", f"{part} get-tuple-element(%{name}), index={i}"
                )
            name = self.made[key]
        return name

    def _version(self, definition: Definition, wanted: dict[int, bool]) -> str:
        n = self.hlo.number.get(definition)
        if n is None:
            return self._array(definition)
        return self.fast[n] if wanted.get(n) else self._in_hbm(n)

    def _operand(self, name: str, wanted: dict[int, bool]) -> str:
        """What an instruction reads in the place of `name`: the versions wanted, through bitcasts
        and tuples."""
        shape = self.entry.by_name[name].shape
        if isinstance(shape, tuple):
            return self._tuple(name)
        bitcasts = []
        definition = self.resolver.resolve(name, (), bitcasts)
        version = self._version(definition, wanted)
        for bitcast in reversed(bitcasts):
            key = ("bitcast", bitcast, version)
            if key not in self.made:
                instruction = self.entry.by_name[bitcast]
                result = self._original(instruction).replace(
                    f"(%{instruction.operands[0]})", f"(%{version})", 1
                )
                if self.mark in self.shape[version]:
                    text = shape_text("x = " + result)
                    result = result.replace(text, in_fast(text, self.clones.space), 1)
                again = sum(k[:2] == key[:2] for k in self.made)
                self.made[key] = self._emit(
                    f"{bitcast}.version.{again}" if again else bitcast, result
                )
            version = self.made[key]
        return version

    def _tuple(self, name: str) -> str:
        """A tuple, made anew where an array in it is no longer what its definition gives."""
        definitions = {
            index: self.resolver.resolve(name, index)
            for index, _ in leaves(self.entry.by_name[name].shape)
        }
        owners = {definition[0] for definition in definitions.values()}
        versions = {
            index: self._version(definition, {}) for index, definition in definitions.items()
        }
        (owner,) = owners if len(owners) == 1 else (None,)
        if owner and all(
            index == d[1] and versions[index] == self._array(d) for index, d in definitions.items()
        ):
            return owner
        return self._make_tuple(name, self.entry.by_name[name].shape, versions, ())

    def _make_tuple(
        self, name: str, shape: Iterable, versions: dict, index: tuple[int, ...]
    ) -> str:
        parts = [
            self._make_tuple(name, part, versions, (*index, i))
            if isinstance(part, tuple)
            else versions[(*index, i)]
            for i, part in enumerate(shape)
        ]
        key = ("tuple", name, index, tuple(parts))
        if key not in self.made:
            number = len(self.made)
            text = f"({', '.join(self.shape[part] for part in parts)})"
            instruction = f"{text} tuple({', '.join('%' + part for part in parts)})"
            self.made[key] = self._emit(f"{name}.tuple.{number}", instruction)
        return self.made[key]

    def _result(self) -> str:
        return self._operand(self.entry.root.name, {})
