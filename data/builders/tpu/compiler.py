"""A JAX function through the real XLA TPU compiler, ahead of time and with no TPU: its own schedule
and mapping.

Needs the extra ``tpu`` (`libtpu`, proprietary, installed by the user). The compiler runs in a
process of its own: it must be configured before JAX starts, and may be stopped as soon as it has
written what is needed. Memory assignment comes seconds into a compilation; code generation, which
alone gives cycles, takes the other nine tenths.
"""

import csv
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError, LearnedMappingError

from .hlo import Module, parse_module


@dataclass(frozen=True)
class Generation:
    """A generation of TPU: what its compiler has to be told, and what its memory assignment may
    use."""

    name: str
    topology: str
    accelerator: str
    assignment: str  # The compiler's flag for the assignment of the fast memory.
    space: int  # The fast memory's number in HLO: 3 is CMEM, 1 is VMEM.
    fast_bytes: int
    """Of one core, for the assignment: VMEM is 128 MiB, of which instructions keep 16 (v5e) or 32
    (v6e) for themselves; found as the most that the compiler's own mappings of programs with too
    much to hold ever use."""
    clock_hz: float  # One estimated cycle is 1 / clock_hz seconds.
    hbm_bytes_per_s: float

    @property
    def unassigned(self) -> str:
        """The flag that turns the assignment off."""
        return f"--{self.assignment}_memory_space_assignment=false"


V4 = Generation("v4", "v4:2x2x1", "v4-8", "xla_tpu_cmem", 3, 64 * 2**20, 1.05e9, 614e9)
"""The generation of paper 1. Clock and HBM bandwidth of TPUv4i (Jouppi et al. 2021, table 1)."""
GENERATIONS = {
    each.name: each
    for each in (
        V4,
        Generation("v5e", "v5e:2x2", "v5litepod-4", "xla_vf_vmem", 1, 112 * 2**20, 1.5e9, 819e9),
        Generation("v6e", "v6e:2x2", "v6e-4", "xla_gf_vmem", 1, 96 * 2**20, 1.75e9, 1640e9),
    )
}
"""Of v5e and v6e the makers publish HBM's bandwidth and the peak of bfloat16, 197 and 918 TFLOP/s;
by the compiler a large product comes near 131,072 and 524,288 operations a cycle, and the clock is
the quotient."""

BEFORE = "after_optimizations_before_buffer_assignment.txt"
ASSIGNED = "after_optimizations_after_buffer_assignment.txt"
GENERATED = "after_codegen.txt"
"""How the names of dumps end."""


class CompilerError(LearnedMappingError):
    """The TPU compiler refused the program or ran past its limit."""


@dataclass(frozen=True)
class Allocation:
    """One stay of a value in fast memory as the compiler planned it; times count the compiler's own
    schedule."""

    # Defining instruction, with a tuple index in braces where the value is part of a tuple.
    name: str
    bytes: int
    offset: int
    start: int
    end: int


@dataclass(frozen=True)
class Compilation:
    """What one run of the compiler left behind."""

    before_text: str  # The dump that `before` was read from.
    before: Module  # Scheduled, before memory assignment: the game's instruction sequence.
    assigned: Module
    """After memory assignment: values in fast memory carry its number, prefetches and evictions are
    instructions."""
    generated: Module | None  # After code generation, with estimated cycles; None unless asked for.
    allocations: tuple[Allocation, ...]  # The compiler's own layout of the fast memory.
    seconds: float


def compile_for_tpu(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    donate: Sequence[int] = (),
    generation: Generation = V4,
    assign: bool = True,
    cycles: bool = False,
    seconds: float = 300.0,
) -> Compilation:
    """Compiles a JAX function for a generation of TPU.

    Args:
      function: any function that `jax.jit` takes.
      arguments: its arguments, pytrees of `jax.ShapeDtypeStruct`; nothing is allocated.
      donate: numbers of arguments whose memory the results may take over.
      generation: one of `GENERATIONS`.
      assign: whether the compiler may use the fast memory; without it everything stays in HBM.
      cycles: wait for code generation, which alone estimates cycles.
      seconds: wall-clock limit.

    Raises:
      InputError: the extra ``tpu`` is not installed.
      CompilerError: the compiler fails or runs past the limit.
    """
    require_compiler()
    with tempfile.TemporaryDirectory(prefix="learned-mapping-tpu-") as name:
        folder, dumps = Path(name), Path(name, "dumps")
        dumps.mkdir()
        exported, donated = _export(function, arguments, donate)
        (folder / "function.bin").write_bytes(exported)
        (folder / "donated.json").write_text(json.dumps(donated))
        flags = [f"--xla_jf_dump_to={dumps}", "--xla_jf_dump_category_filter=msa"]
        flags += [] if assign else [generation.unassigned]
        started = time.monotonic()
        command = ["builders.tpu.compiler", name, generation.topology]
        run_compiler(command, generation, flags, dumps, GENERATED if cycles else ASSIGNED, seconds)
        return Compilation(
            before_text=dumped(dumps, BEFORE),
            before=parse_module(dumped(dumps, BEFORE), BEFORE),
            assigned=parse_module(dumped(dumps, ASSIGNED), ASSIGNED),
            generated=parse_module(dumped(dumps, GENERATED), GENERATED) if cycles else None,
            allocations=_allocations(dumps) if assign else (),
            seconds=time.monotonic() - started,
        )


def require_compiler() -> None:
    """Raises `InputError` where the extra ``tpu`` is not installed."""
    for package, what in (
        ("libtpu", "the TPU compiler"),
        ("flatbuffers", "the format functions are handed over in"),
    ):
        if importlib.util.find_spec(package) is None:
            raise InputError(
                "TPU compiler",
                package,
                f"{what} is not installed: pip install -e '.[tpu]' in the checkout",
            )


def compiler_environment(generation: Generation, flags: Sequence[str]) -> dict[str, str]:
    """The environment of a process that runs the compiler: no search for a chip, the compiler's own
    flags, and these modules as ``builders.tpu``."""
    search = [
        str(Path(__file__).resolve().parents[2]),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    return dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(search),
        TPU_SKIP_MDS_QUERY="1",
        JAX_PLATFORMS="cpu",
        TPU_ACCELERATOR_TYPE=generation.accelerator,
        TPU_WORKER_HOSTNAMES="localhost",
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",
        TPU_MIN_LOG_LEVEL="3",
        LIBTPU_INIT_ARGS=" ".join(flags),
    )


def _export(
    function: Callable[..., Any], arguments: Sequence[Any], donate: Sequence[int]
) -> tuple[bytes, list[int]]:
    """The function over flat lists of arrays, serialized, and the numbers of the arrays it may
    overwrite.

    Flat, because only standard containers can be serialized and an optimiser's state is none.
    """
    import jax
    import jax.export

    from learned_mapping.programs.trace.dataflow import static_positions

    static = static_positions(function, arguments, "function")
    traced = tuple(() if i in static else argument for i, argument in enumerate(arguments))
    leaves, structure = jax.tree.flatten(traced)
    sizes = [len(jax.tree.leaves(argument)) for argument in traced]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    donated = [leaf for i in donate for leaf in range(starts[i], starts[i] + sizes[i])]

    def flat(*arrays: Any) -> list[Any]:
        filled = jax.tree.unflatten(structure, arrays)
        return jax.tree.leaves(
            function(*(arguments[i] if i in static else a for i, a in enumerate(filled)))
        )

    exported = jax.export.export(jax.jit(flat, donate_argnums=tuple(donated)), platforms=["tpu"])(
        *leaves
    )
    return bytes(exported.serialize()), donated


def run_compiler(
    command: Sequence[str],
    generation: Generation,
    flags: Sequence[str],
    dumps: Path,
    ending: str,
    seconds: float,
) -> None:
    """Runs a module of this package, with its arguments, in the compiler's process; ends it once it
    has written a dump.

    Code generation is waited for to the end: its estimates come last.

    Raises:
      CompilerError: the process fails, with the last line of its log, or runs past the limit of
        `seconds`.
    """
    environment, started = compiler_environment(generation, flags), time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            while process.poll() is None and (ending == GENERATED or not _complete(dumps, ending)):
                if time.monotonic() - started > seconds:
                    raise CompilerError(f"the TPU compiler ran past {seconds:g} seconds")
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        if not _complete(dumps, ending):
            log.seek(0)
            tail = [line for line in log.read().splitlines() if line.strip()][-1:]
            raise CompilerError(
                f"the TPU compiler failed: {tail[0][:300] if tail else 'no message'}"
            )


def _find(dumps: Path, ending: str) -> Path | None:
    # A compilation may build helper modules first; the largest dump of a kind is the program's.
    paths = sorted(dumps.glob(f"*{ending}"), key=lambda path: path.stat().st_size)
    return paths[-1] if paths else None


def _complete(dumps: Path, ending: str) -> bool:
    path = _find(dumps, ending)
    if path is None:
        return False
    text = path.read_bytes()
    # The entry computation comes last; other computations' closing braces may end a file that is
    # still being written.
    return b"\nENTRY " in text and text.rstrip().endswith(b"\n}")


def dumped(dumps: Path, ending: str) -> str:
    """The text of a dump; raises `CompilerError` where there is none."""
    path = _find(dumps, ending)
    if path is None:
        raise CompilerError(f"the TPU compiler wrote no {ending}")
    return path.read_text(encoding="utf-8", errors="replace")


def _allocations(dumps: Path) -> tuple[Allocation, ...]:
    names_file, places_file = _find(dumps, "bufferinfo.txt"), _find(dumps, "allocinfo.txt")
    if names_file is None or places_file is None:
        return ()
    return parse_allocations(names_file.read_text(), places_file.read_text())


def parse_allocations(buffer_info: str, allocation_info: str) -> tuple[Allocation, ...]:
    """The compiler's layout of the fast memory from its two tables (comma-separated text with a
    header line)."""
    names = {
        row["buffer_id"]: row["buffer_name"].strip("<>").split(" ", 1)[1].split(" @")[0]
        for row in csv.DictReader(io.StringIO(buffer_info))
    }
    return tuple(
        Allocation(
            names.get(row["buffer_id"], ""),
            *(int(row[key]) for key in ("size", "offset", "start_time", "end_time")),
        )
        for row in csv.DictReader(io.StringIO(allocation_info))
    )


def main(folder: Path, topology_name: str) -> None:
    """The compiler's own process: reads a function, compiles it, leaves the dumps."""
    import jax
    import jax.export
    from jax.experimental import topologies

    exported = jax.export.deserialize(bytearray((folder / "function.bin").read_bytes()))
    topology = topologies.get_topology_desc(platform="tpu", topology_name=topology_name)
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    abstract = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in exported.in_avals
    ]
    arguments, keywords = jax.tree.unflatten(exported.in_tree, abstract)
    jitted = jax.jit(
        exported.call, donate_argnums=tuple(json.loads((folder / "donated.json").read_text()))
    )
    options = {"xla_dump_to": str(folder / "dumps"), "xla_dump_hlo_as_text": True}
    jitted.lower(*arguments, **keywords).compile(compiler_options=options)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
