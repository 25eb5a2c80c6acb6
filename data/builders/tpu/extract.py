"""A memory-mapping game from the real TPU compiler, with the compiler's own mapping beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from learned_mapping.programs.program import NO_ALIAS, NOT_VARIED, Program, make_program

from .compiler import V4, Compilation, Generation, compile_for_tpu
from .hlo import Instruction, Module
from .hlo_program import COPIES, HloProgram, hlo_program, placements
from .latency_tables import complete_table, infer_prices, plan, varied_units, work_key
from .pricing import price_in_stages
from .stays import CompilerMapping, compiler_mapping

SPARSE = frozenset(("gather", "scatter", "dynamic-slice", "dynamic-update-slice"))
"""Opcodes that touch only a part of an array."""


@dataclass(frozen=True)
class Extracted:
    """A program with what its compiler knows about it."""

    program: Program
    fast: np.ndarray  # [B] bool, which buffers the compiler itself put into fast memory.
    # Where and when: its own solution, of which `mapping` makes the game's.
    compiler: CompilerMapping
    slow_cycles: float  # Cycles with everything in HBM, by the tables.
    compiler_cycles: float  # Cycles under the compiler's own mapping, by the tables.
    compiled_cycles: float | None
    """Cycles under the compiler's own mapping, by its own full compilation; None where that was not
    asked for."""
    compiled_slow_cycles: float | None  # The same with its memory assignment off.
    unpriced: int
    """Instructions for which the compiler estimates nothing: charged by bytes moved at HBM's
    bandwidth, saving none."""
    inferred: int
    """Instructions not priced (`latency_tables.ENDS_SHARE`), with prices inferred from others of
    their kind."""
    # The compiler's scheduled HLO from before its memory assignment; `tpu.price` writes mappings
    # into it.
    hlo: str


def extract(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    name: str,
    donate: Sequence[int] = (),
    cycles: bool = False,
    generation: Generation = V4,
    progress: Callable[[int, int], None] | None = None,
) -> Extracted:
    """Compiles a function, prices its instructions and builds the game.

    Args:
      function, arguments, donate: as in `compile_for_tpu`.
      name: the program's name.
      cycles: also run the full compilation, with memory assignment on and off, to compare with.
      generation: of TPU; the copy engine moves at the bandwidth of its HBM.
      progress: called with (probes done, probes in all).

    Raises:
      InputError: the extra ``tpu`` is not installed.
      CompilerError: the compiler fails.
    """
    compilation = compile_for_tpu(
        function, arguments, donate=donate, generation=generation, cycles=cycles
    )
    program = hlo_program(compilation.before)
    planned = plan(compilation.before, program, fast_bytes=generation.fast_bytes)
    prices = price_in_stages(
        compilation.before_text, program, planned, generation=generation, progress=progress
    )
    extracted = assemble(compilation, program, prices, name=name, generation=generation)
    if cycles:
        slow = compile_for_tpu(
            function, arguments, donate=donate, generation=generation, cycles=True, assign=False
        )
        return replace(extracted, compiled_slow_cycles=total_cycles(slow.generated))
    return extracted


def _moved_bytes(module: Module, program: HloProgram, instruction: int) -> float:
    """Bytes an instruction reads and writes, for want of an estimate.

    One that picks or replaces parts of its largest array (`SPARSE`) moves the rest of its arrays
    twice, not that array.
    """
    used = np.flatnonzero(program.buffer_instruction == instruction)
    sizes = program.tensor_bytes[program.buffer_tensor[used]]
    if not len(sizes) or not _opcodes(module, program.instructions[instruction]) & SPARSE:
        return float(sizes.sum())
    largest = used[sizes.argmax()]
    group = program.buffer_alias[largest]
    whole = (used == largest) | ((program.buffer_alias[used] == group) & (group >= 0))
    return 2 * float(sizes[~whole].sum())


def _opcodes(module: Module, instruction: Instruction) -> frozenset[str]:
    """The instruction's opcode, or those inside a fusion."""
    if instruction.opcode != "fusion":
        return frozenset((instruction.opcode,))
    inside = module.computations[(instruction.attribute("calls") or "").lstrip("%")].instructions
    return frozenset().union(*(_opcodes(module, name) for name in inside))


def total_cycles(generated: Module) -> float:
    """The sum of a module's estimated cycles, copies aside, which run beside the computation."""
    cycles = (i.estimated_cycles for i in generated.entry.instructions if i.opcode not in COPIES)
    return float(sum(c for c in cycles if c is not None))


def assemble(
    compilation: Compilation,
    program: HloProgram,
    prices: Mapping[str, Mapping[str, int | None]],
    *,
    name: str,
    generation: Generation = V4,
) -> Extracted:
    """The game of a compiled program, given the prices of its instructions (cycles, from
    `pricing.price`)."""
    num_buffers = len(program.buffer_tensor)
    bit = np.full(num_buffers, NOT_VARIED, np.int8)
    offsets, latencies, unpriced, inferred = [0], [], 0, 0
    guesses = infer_prices(
        plan(compilation.before, program, fast_bytes=generation.fast_bytes), prices
    )
    fast = placements(program, compilation.assigned) == 1
    compiler_cycles, per_cycle = 0.0, generation.hbm_bytes_per_s / generation.clock_hz
    for t in range(len(program.instructions)):
        units = () if program.opaque[t] else varied_units(program, t, generation.fast_bytes)
        key = (
            ""
            if program.opaque[t]
            else work_key(compilation.before, program, t, generation.fast_bytes)
        )
        sizes = [int(program.tensor_bytes[program.buffer_tensor[unit[0]]]) for unit in units]
        table = (
            None
            if program.opaque[t]
            else complete_table(sizes, prices.get(key) or guesses.get(key, {}))
        )
        if table is None:
            unpriced += 1
            units, table = (), np.array([_moved_bytes(compilation.before, program, t) / per_cycle])
        elif key in guesses:
            inferred += 1
        varied = sorted(b for unit in units for b in unit)
        for position, b in enumerate(varied):
            bit[b] = position
        for entry in range(1 << len(varied)):
            placed = {b for position, b in enumerate(varied) if entry >> position & 1}
            # An in-place update is fast only when both its buffers are.
            inside = sum(1 << u for u, unit in enumerate(units) if placed.issuperset(unit))
            latencies.append(table[inside] / generation.clock_hz)
        chosen = sum(1 << u for u, unit in enumerate(units) if all(fast[b] for b in unit))
        compiler_cycles += float(table[chosen])
        offsets.append(len(latencies))
    result = make_program(
        name=name,
        fast_bytes=generation.fast_bytes,
        copy_bytes_per_s=generation.hbm_bytes_per_s,
        instruction_names=[i.name for i in program.instructions],
        instruction_kinds=[i.opcode for i in program.instructions],
        tensor_names=program.tensor_names,
        tensor_bytes=program.tensor_bytes,
        tensor_is_parameter=program.tensor_is_parameter,
        tensor_is_output=program.tensor_is_output,
        buffer_instruction=program.buffer_instruction,
        buffer_tensor=program.buffer_tensor,
        buffer_is_output=program.buffer_is_output,
        buffer_alias=np.where(program.buffer_alias >= 0, program.buffer_alias, NO_ALIAS),
        buffer_bit=bit,
        latency_offsets=offsets,
        latency_s=latencies,
        metadata={
            "source": "XLA TPU compiler",
            "unpriced_instructions": unpriced,
            "inferred_instructions": inferred,
        }
        | ({} if generation == V4 else {"generation": generation.name}),
    )
    generated = compilation.generated
    return Extracted(
        program=result,
        fast=fast,
        compiler=compiler_mapping(program, compilation),
        slow_cycles=float(result.slow_s.sum() * generation.clock_hz),
        compiler_cycles=compiler_cycles,
        compiled_cycles=None if generated is None else total_cycles(generated),
        compiled_slow_cycles=None,
        unpriced=unpriced,
        inferred=inferred,
        hlo=compilation.before_text,
    )
