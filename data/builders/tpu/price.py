"""What the TPU compiler itself says a mapping costs: the mapping written into its program, its own
cycles read back.

Three steps, each in the compiler's process, so that its crash costs one mapping:

1. `write_mapping` puts the mapping into the scheduled program (`hlo_mapping`).
2. The compiler's back end, its own assignment off, takes the program: its verifier accepts the
   layouts, it assigns all memory and reports the most fast memory in use. No array may have moved
   (`check`).
3. Cycles. ``whole=True`` waits for the code of the whole program. Otherwise every instruction is
   priced alone (`hlo_probe`) in the placement that the written program gives it; instructions of
   equal work and placement share a price, and prices are kept by content in a `PriceCache`. The
   compiler's estimate of an instruction depends on nothing
   else: the two ways agree to the cycle wherever both were tried.

Cycles are the compiler's own estimates, of computation alone: copies run beside it and are never
waited for. `with_stalls` adds the wait by the latency models of `hardware`, with the compiler's
cycles for the instructions' times.
"""

import functools
import hashlib
import importlib.metadata
import json
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.hardware.copy_engines import shared_copy_latency
from learned_mapping.hardware.memory_hierarchy import MappingLike, program_latency
from learned_mapping.programs.json_io import append_line
from learned_mapping.programs.program import NOT_VARIED, Program

from . import compiler
from .compiler import V4, Generation
from .hlo import Instruction, Module, leaves, parse_module
from .hlo_mapping import Written, write_mapping
from .hlo_probe import signature
from .hlo_program import COPIES, TRANSPARENT, HloProgram, hlo_program
from .latency_tables import Prices, plan
from .pricing import priced

_REPORT = "after_optimizations-memory-usage-report.txt"


@dataclass(frozen=True)
class Source:
    """The compiler's program that a game was made from."""

    text: str  # Scheduled HLO from before memory assignment.
    module: Module
    hlo: HloProgram
    program: Program

    @property
    def generation(self) -> Generation:
        return generation_of(self.program)


def generation_of(program: Program) -> Generation:
    """The generation of TPU that a game is of; raises `InputError` for one that is not known."""
    name = program.metadata.get("generation", V4.name)
    if not isinstance(name, str) or name not in compiler.GENERATIONS:
        raise InputError(
            program.name, "generation", f"{name!r} is none of {', '.join(compiler.GENERATIONS)}"
        )
    return compiler.GENERATIONS[name]


def source(text: str, program: Program) -> Source:
    """The HLO of a game; raises `InputError` where the game is of other HLO."""
    module = parse_module(text, "HLO")
    hlo = hlo_program(module)
    same = (
        tuple(i.name for i in hlo.instructions) == program.instruction_names
        and hlo.tensor_names == program.tensor_names
        and np.array_equal(hlo.buffer_tensor, program.buffer_tensor)
        and np.array_equal(hlo.tensor_bytes, program.tensor_bytes)
    )
    if not same:
        raise InputError(
            "HLO", module.name, f"is not the program that {program.name!r} was made from"
        )
    return Source(text, module, hlo, program)


@dataclass(frozen=True)
class Price:
    """The compiler's price of one mapping."""

    cycles: dict[str, int | None]
    """By instruction, copies and what costs nothing left out; None where the compiler has no
    estimate."""
    fast_bytes: int | None
    """The most fast memory in use at offsets of the compiler's own choice, as it reports it; it may
    need more than the mapping's offsets do, and more than there is. None where it was not asked."""
    # What the written program cannot express, a line each (`hlo_mapping.Written.left`).
    left: tuple[str, ...]
    copies: int
    compiled: int  # Instructions compiled for this price; the others were known.
    seconds: float

    @property
    def total(self) -> int:
        """Cycles of the program."""
        return sum(cycles or 0 for cycles in self.cycles.values())


class PriceCache:
    """Cycles by content, one line of JSON each, in a file that only grows; without a file, in
    memory alone."""

    def __init__(self, path: Path | None = None):
        self._path = path
        self.prices: dict[str, int | None] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                try:
                    self.prices.update(json.loads(line))
                except ValueError:  # the end of a file whose writer was killed
                    continue

    def put(self, key: str, cycles: int | None) -> None:
        """Keeps a price."""
        self.prices[key] = cycles
        if self._path is not None:
            append_line(self._path, {key: cycles})


def price_key(
    generation: Generation, work: str, operands: list[int], results: list[list[int]]
) -> str:
    """The key of a price: what an instruction does (`hlo_probe.signature`), where its arrays lie,
    which compiler."""
    key = [
        _version(),
        work,
        sorted(operands),
        sorted(results),
        *([] if generation == V4 else [generation.name]),
    ]
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:  # nothing is compiled then
        return ""


def known_prices(origin: Source, prices: Prices) -> dict[str, int | None]:
    """Prices of placements found when a game was made (`pricing.price`), by `price_key`."""
    known = {}
    for item in plan(origin.module, origin.hlo, fast_bytes=origin.program.fast_bytes):
        work = signature(origin.module, origin.hlo.instructions[item.instruction])
        for subset, cycles in prices.get(item.signature, {}).items():
            places = [
                origin.hlo.buffer_position[b]
                for u in subset.split(",")
                if u
                for b in item.units[int(u)]
            ]
            operands = [place for place, _ in places if place >= 0]
            results = [list(index) for place, index in places if place < 0]
            known[price_key(origin.generation, work, operands, results)] = cycles
    return known


def price(
    origin: Source,
    mapping: MappingLike,
    cache: PriceCache,
    *,
    whole: bool = False,
    checked: bool = True,
    seconds: float = 600.0,
    progress: Callable[[int, int], None] | None = None,
) -> Price:
    """The compiler's cycles of a mapped program.

    Args:
      mapping: one that the validator accepts.
      cache: prices known; new ones are put there.
      whole: compile the whole program to code; without, every instruction alone.
      checked: let the back end verify the written program and assign its memory.
      seconds: wall-clock limit of the back end.
      progress: called with (probes done, probes in all).

    Raises:
      InputError: the extra ``tpu`` is not installed.
      CompilerError: the back end refuses the written program, moves an array or runs out of time.
    """
    compiler.require_compiler()
    began = time.monotonic()
    written = write_mapping(origin.module, origin.hlo, origin.program, mapping, origin.generation)
    module = parse_module(written.text, "written HLO")
    fast_bytes, cycles, compiled = None, {}, 0
    if checked or whole:
        fast_bytes, generated = check(
            written, module, origin.generation, whole=whole, seconds=seconds
        )
        if generated is not None:
            cycles = {
                i.name: i.estimated_cycles
                for i in generated.entry.instructions
                if i.opcode not in COPIES
            }
            compiled = len(cycles)
    if not whole:
        cycles, compiled = _alone(origin, module, cache, progress)
    return Price(
        cycles, fast_bytes, written.left, written.copies, compiled, time.monotonic() - began
    )


def _alone(
    origin: Source, module: Module, cache: PriceCache, progress: Callable[[int, int], None] | None
) -> tuple[dict[str, int | None], int]:
    keys, todo = {}, {}
    for instruction in module.entry.instructions:
        if instruction.opcode in COPIES | TRANSPARENT:
            continue
        operands, results = placed(module, instruction)
        work = signature(origin.module, origin.module.entry.by_name[instruction.name])
        key = keys[instruction.name] = price_key(origin.generation, work, operands, results)
        if key not in cache.prices:
            todo[key] = {
                "key": key,
                "instruction": instruction.name,
                "operands": operands,
                "results": results,
            }
    for item, cycles in priced(
        origin.text, list(todo.values()), generation=origin.generation, progress=progress
    ):
        cache.put(item["key"], cycles)
    return {name: cache.prices[key] for name, key in keys.items()}, len(todo)


def placed(module: Module, instruction: Instruction) -> tuple[list[int], list[list[int]]]:
    """Operands by number and results by index that lie in fast memory."""
    shapes = (module.entry.by_name[name].shape for name in instruction.operands)
    operands = [k for k, shape in enumerate(shapes) if any(s.is_fast for _, s in leaves(shape))]
    return operands, [list(index) for index, s in leaves(instruction.shape) if s.is_fast]


def check(
    written: Written, module: Module, generation: Generation, *, whole: bool, seconds: float
) -> tuple[int, Module | None]:
    """Sends a written program through the compiler's back end, its own assignment off.

    Returns:
      The most fast memory in use, in bytes, and, for the whole, the module with estimates.

    Raises:
      CompilerError: as `price`.
    """
    with tempfile.TemporaryDirectory(prefix="learned-mapping-price-") as name:
        folder = Path(name)
        (folder / "module.txt").write_text(written.text)
        command = ["builders.tpu.pricing", name, generation.name]
        ending = compiler.GENERATED if whole else compiler.ASSIGNED
        compiler.run_compiler(command, generation, [generation.unassigned], folder, ending, seconds)
        assigned = parse_module(compiler.dumped(folder, compiler.ASSIGNED), compiler.ASSIGNED)
        for instruction in module.entry.instructions:
            other = assigned.entry.by_name.get(instruction.name)
            if other is None or placed(assigned, other) != placed(module, instruction):
                raise compiler.CompilerError(f"the compiler moved an array of {instruction.name}")
        used = re.findall(
            rf"\(color={generation.space}\)\s*Total bytes: (\d+)", compiler.dumped(folder, _REPORT)
        )
        generated = (
            parse_module(compiler.dumped(folder, compiler.GENERATED), compiler.GENERATED)
            if whole
            else None
        )
        return sum(map(int, used)), generated


def with_stalls(program: Program, mapping: MappingLike, price: Price) -> dict[str, float]:
    """Cycles of a mapped program with its waits for copies: the compiler's cycles replayed by our
    latency models.

    An instruction without an estimate takes no time, here as in the compiler's sum. Of the two
    models the faster is taken, for every mapping alike: one copy at a time, and several that yield
    to the instructions.

    Returns:
      ``serial_cycles`` and ``shared_cycles`` by the two models, and ``stalled_cycles``, the
      smaller.
    """
    clock_hz = generation_of(program).clock_hz
    times = (
        np.array([price.cycles.get(name) or 0 for name in program.instruction_names], float)
        / clock_hz
    )
    flat = replace(
        program,
        latency_offsets=np.arange(program.num_instructions + 1),
        latency_s=times,
        buffer_bit=np.full(program.num_buffers, NOT_VARIED, np.int8),
    )
    serial = program_latency(flat, mapping).total_s * clock_hz
    shared = shared_copy_latency(flat, mapping).total_s * clock_hz
    other = price.total - float(times.sum()) * clock_hz
    totals = {"serial_cycles": serial + other, "shared_cycles": shared + other}
    return totals | {"stalled_cycles": min(totals.values())}
