"""What the compiler's own memory assignment decided, the production solution to beat, in the game's
terms: which tensor is fast, when and where; and the game's actions that say so."""

import bisect
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, NO_OFFSET
from learned_mapping.programs.program import Program

from .compiler import Allocation, Compilation
from .hlo_program import HloProgram, Resolver, placements


@dataclass(frozen=True)
class Stay:
    """One stay of a tensor in fast memory. Steps count the game's instructions."""

    tensor: int
    buffers: tuple[int, ...]
    """The uses it serves, in order; the first is the output that defines the tensor, or the stay
    begins by a copy."""
    offset: int  # Bytes from the start of fast memory.
    # First step in fast memory: the defining one, or the first while the copy into fast memory
    # runs.
    start: int
    evicted: int | None  # Last step of a copy back to HBM; None where there is none.


@dataclass(frozen=True)
class CompilerMapping:
    """The stays, and what of the compiler's mapping they cannot tell."""

    stays: tuple[Stay, ...]
    unplaced: int
    """Buffers that the compiler has in fast memory though its table of allocations has no place for
    them."""


def compiler_mapping(program: HloProgram, compilation: Compilation) -> CompilerMapping:
    """Reads the stays from the module after memory assignment and the compiler's table of
    allocations.

    In that table a value defined in fast memory starts at its defining instruction; one copied
    there starts after the instruction named, when the copy may begin. Values that share memory
    (`hlo_program`, rule 4) share their entries. A parameter that the compiler copies there before
    the program starts is one of the table's entries without a name.
    """
    entry = compilation.before.entry
    time = {instruction.name: i for i, instruction in enumerate(entry.instructions)}
    step_time = [time[i.name] for i in program.instructions]
    fast = placements(program, compilation.assigned) == 1
    family = _families(program)
    entries: dict[int, list[Allocation]] = defaultdict(list)
    number = {name: n for n, name in enumerate(program.tensor_names)}
    for allocation in compilation.allocations:
        tensor = number.get(allocation.name)
        if tensor is not None:
            entries[family[tensor]].append(allocation)
    for tensor, allocation in _prefetched_before(program, compilation).items():
        entries[family[tensor]].append(allocation)
    evictions = _evictions(program, compilation)
    current: dict[int, Allocation] = {}
    open_stays: dict[int, list] = {}
    stays, unplaced = [], 0
    for b in np.flatnonzero(fast).tolist():
        tensor, step = int(program.buffer_tensor[b]), int(program.buffer_instruction[b])
        is_output = bool(program.buffer_is_output[b])
        place = _allocation(
            entries[family[tensor]],
            step_time[step],
            int(program.tensor_bytes[tensor]),
            is_output,
            current.get(tensor),
        )
        if place is None:
            unplaced += 1
            continue
        if current.get(tensor) is place:
            open_stays[tensor][0].append(b)
            continue
        start = step if is_output else min(step, bisect.bisect_right(step_time, place.start))
        current[tensor] = place
        open_stays[tensor] = [
            [b],
            place.offset,
            start,
            evictions.get(tensor) if is_output else None,
        ]
        stays.append((tensor, open_stays[tensor]))
    finished = (Stay(tensor, tuple(buffers), *rest) for tensor, (buffers, *rest) in stays)
    return CompilerMapping(tuple(finished), unplaced)


def _allocation(
    entries: list[Allocation], time: int, size: int, is_output: bool, current: Allocation | None
) -> Allocation | None:
    """The entry that holds a value of `size` bytes at `time`; an output's own entry starts
    there."""
    holding = [a for a in entries if a.start <= time <= a.end and a.bytes == size]
    if is_output:
        return next((a for a in holding if a.start == time), holding[-1] if holding else None)
    if current in holding:
        return current
    before = [a for a in holding if a.start < time]
    return max(before or holding, key=lambda a: a.start, default=None)


def _prefetched_before(program: HloProgram, compilation: Compilation) -> dict[int, Allocation]:
    """Parameters in fast memory from the program's start on (XLA's cross-program prefetch);
    nameless in the table."""
    resolver = Resolver(compilation.assigned.entry)
    nameless = [a for a in compilation.allocations if not a.name]
    result = {}
    for instruction in compilation.assigned.entry.instructions:
        if (
            instruction.opcode == "copy-start"
            and instruction.attribute("cross_program_prefetch_index") is not None
        ):
            tensor = program.number.get(resolver.resolve(instruction.operands[0], ()))
            size = 0 if tensor is None else int(program.tensor_bytes[tensor])
            place = next((a for a in nameless if a.bytes == size), None)
            if place is not None:
                result[tensor] = replace(place, start=-1)
                nameless.remove(place)
    return result


def _families(program: HloProgram) -> list[int]:
    """[N] a number per tensor, equal for those that share memory through in-place updates."""
    aliased = np.flatnonzero(program.buffer_alias >= 0)
    tensors, groups = (
        program.buffer_tensor[aliased],
        len(program.tensors) + program.buffer_alias[aliased],
    )
    size = int(groups.max(initial=len(program.tensors) - 1)) + 1
    links = coo_array((np.ones(len(tensors)), (tensors, groups)), shape=(size, size))
    return connected_components(links, directed=False)[1][: len(program.tensors)].tolist()


def _evictions(program: HloProgram, compilation: Compilation) -> dict[int, int]:
    """Tensor -> last step of the copy that takes it from where it was defined in fast memory to
    HBM."""
    entry = compilation.assigned.entry
    resolver = Resolver(entry)
    started: dict[str, int] = {}
    result: dict[int, int] = {}
    step_of = {instruction.name: step for step, instruction in enumerate(program.instructions)}
    last = -1
    for instruction in entry.instructions:
        last = max(last, step_of.get(instruction.name, -1))
        if instruction.opcode == "copy-start":
            tensor = program.number.get(resolver.resolve(instruction.operands[0], ()))
            if tensor is not None and not instruction.shape[0].is_fast:
                started[instruction.name] = tensor
        elif instruction.opcode == "copy-done" and instruction.operands[0] in started:
            result.setdefault(started[instruction.operands[0]], last)
    return result


def mapping_of_compiler(program: Program, compiler: CompilerMapping) -> Mapping:
    """Tells the compiler's stays in the game's three actions.

    A stay that begins by a copy is Copy of its first use and NoCopy of the others. A stay that
    begins with the defining instruction is Copy of the output where the compiler copies it back to
    HBM, else NoCopy, which takes the live range. The compiler obeys rules of its own:
    `mmap.validate.validate` says which of the game's it breaks.
    """
    action = np.full(program.num_buffers, DROP)
    offset, start, end = (np.full(program.num_buffers, NO_OFFSET) for _ in range(3))
    for stay in compiler.stays:
        held = -1
        for position, b in enumerate(stay.buffers):
            step = int(program.buffer_instruction[b])
            offset[b] = stay.offset
            if program.buffer_is_output[b]:
                copied = stay.evicted is not None
                action[b] = COPY if copied else NO_COPY
                start[b] = step
                end[b] = held = stay.evicted if copied else int(program.tensor_live[stay.tensor, 1])
            elif position == 0:
                action[b] = COPY
                start[b], end[b] = stay.start, step
                held = step
            else:
                action[b] = NO_COPY
                start[b], end[b] = min(held, step) + 1, step
                held = max(held, step)
    return make_mapping(program, action, offset, start, end)
