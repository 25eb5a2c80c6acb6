"""Prices of placements: probes (`hlo_probe`) through the back end of the TPU compiler alone, in a
process of its own.

The back end takes scheduled HLO and leaves HLO with estimated cycles. It is called through PJRT's C
interface: the few calls needed are bound here, by their fixed places in the interface's table of
functions (``pjrt_c_api.h``, whose order only ever grows at the end).
"""

import contextlib
import ctypes
import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from learned_mapping.errors import LearnedMappingError

from . import latency_tables as tables
from .compiler import GENERATIONS, V4, Generation, compiler_environment
from .hlo import Module, parse_module
from .hlo_probe import Probe, ProbeModule, Unprobeable
from .hlo_program import HloProgram
from .latency_tables import Priceable, Prices

BATCH = 24  # Probes in one compilation.
BATCH_SECONDS = 600.0  # Wall-clock limit of one; what runs past it counts as refused.

_ERROR_DESTROY, _ERROR_MESSAGE, _PLUGIN_INITIALIZE, _TOPOLOGY_CREATE, _COMPILE = 0, 1, 3, 82, 89
# Bytes before the table: the struct's size, its extensions, the version.
_FUNCTIONS_AT = 8 + 8 + 24
_BACKEND_ONLY = b"\x1a\x02\x58\x01"
"""Serialized ``executable_build_options.run_backend_only = true``, appended to the options
(protobuf merges fields)."""

_SIZE, _POINTER, _TEXT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p


def price_in_stages(
    module_text: str,
    program: HloProgram,
    planned: Sequence[Priceable],
    *,
    generation: Generation = V4,
    known: Mapping[str, Mapping[str, int | None]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Prices:
    """Prices the ends of every instruction that matters, then units alone and other subsets where
    the saving is.

    Args:
      module_text: the module before memory assignment, as dumped, of the compiler of `generation`.
      program, planned: what it holds, and of that `latency_tables.plan`.
      known: prices found earlier; they are not computed again.
      progress: called with (probes done, probes of this stage).
    """
    ends = [(p, p.ends) for p in tables.worth_a_price(planned)]
    prices = price(
        module_text, program, ends, generation=generation, known=known, progress=progress
    )
    alone = [(p, p.alone) for p in tables.worth_detail(planned, prices, tables.ALONE_SHARE)]
    others = [(p, p.others) for p in tables.worth_detail(planned, prices, tables.OTHERS_SHARE)]
    return price(
        module_text,
        program,
        [*alone, *others],
        generation=generation,
        known=prices,
        progress=progress,
    )


def price(
    module_text: str,
    program: HloProgram,
    wanted: Iterable[tuple[Priceable, Iterable[tables.Subset]]],
    *,
    generation: Generation = V4,
    known: Mapping[str, Mapping[str, int | None]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Prices:
    """Those of `known` and the prices of the placements wanted, instructions and the subsets of
    their units, found in a process of their own (`priced`); arguments as in `price_in_stages`."""
    prices = {k: dict(v) for k, v in (known or {}).items()}
    todo = []
    for item, subsets in wanted:
        have = prices.setdefault(item.signature, {})
        for subset in subsets:
            if tables.subset_key(subset) not in have:
                positions = [program.buffer_position[b] for u in subset for b in item.units[u]]
                todo.append(
                    {
                        "signature": item.signature,
                        "subset": tables.subset_key(subset),
                        "instruction": program.instructions[item.instruction].name,
                        "operands": [place for place, _ in positions if place >= 0],
                        "results": [list(index) for place, index in positions if place < 0],
                    }
                )
    for item, cycles in priced(module_text, todo, generation=generation, progress=progress):
        prices[item["signature"]][item["subset"]] = cycles
    return prices


def priced(
    module_text: str,
    todo: Sequence[dict[str, Any]],
    *,
    generation: Generation = V4,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[dict[str, Any], int | None]]:
    """Prices probes in a process of their own; yields each with its cycles, None where there is no
    estimate.

    A batch of probes is one compilation. Where the back end refuses a batch, dies of it or takes
    too long, the batch is split until the probe at fault stands alone; its price is then None.

    Args:
      module_text: the module before memory assignment, as dumped.
      todo: ``instruction``, a name; ``operands``, the numbers of those in fast memory; ``results``,
        the indices of those there. Other items of a probe are left alone.
      generation, progress: as in `price_in_stages`.
    """
    total, done = len(todo), 0
    batches = [todo[i : i + BATCH] for i in range(0, total, BATCH)]
    with tempfile.TemporaryDirectory(prefix="learned-mapping-prices-") as name:
        folder = Path(name)
        (folder / "module.txt").write_text(module_text)
        while batches:
            (folder / "batches.json").write_text(json.dumps(batches))
            command = [sys.executable, "-m", "builders.tpu.pricing", str(folder), generation.name]
            finished = 0
            with subprocess.Popen(
                command,
                env=compiler_environment(generation, [generation.unassigned]),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as process:
                for line in _lines(process):
                    if not line.startswith("cycles "):
                        continue
                    yield from zip(batches[finished], json.loads(line.removeprefix("cycles ")))
                    done += len(batches[finished])
                    finished += 1
                    if progress is not None:
                        progress(done, total)
            batches = batches[finished:]
            if batches and len(batches[0]) > 1:  # the process stopped at the first of them
                half = len(batches[0]) // 2
                batches[:1] = [batches[0][:half], batches[0][half:]]
            elif batches:
                yield batches.pop(0)[0], None
                done += 1


def _lines(process: subprocess.Popen) -> Iterator[str]:
    """What a process prints, line by line; one that is silent for too long is ended."""
    line = "first"
    while line:
        timer = threading.Timer(BATCH_SECONDS, process.kill)
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        yield line


class BackendError(LearnedMappingError):
    """The compiler's back end refused a module; the message is its own."""


def _struct(name: str, *fields: tuple[str, type]) -> type[ctypes.Structure]:
    every = [("struct_size", _SIZE), ("extension_start", _POINTER), *fields]
    return type(name, (ctypes.Structure,), {"_fields_": every})


_Plain = _struct("_Plain")
_Destroy = _struct("_Destroy", ("error", _POINTER))
_Message = _struct("_Message", ("error", _POINTER), ("message", _POINTER), ("message_size", _SIZE))
_Topology = _struct(
    "_Topology",
    ("name", _TEXT),
    ("name_size", _SIZE),
    ("options", _POINTER),
    ("num_options", _SIZE),
    ("topology", _POINTER),
)
_Program = _struct(
    "_Program", ("code", _TEXT), ("code_size", _SIZE), ("format", _TEXT), ("format_size", _SIZE)
)
_Compile = _struct(
    "_Compile",
    ("topology", _POINTER),
    ("program", _POINTER),
    ("options", _TEXT),
    ("options_size", _SIZE),
    ("client", _POINTER),
    ("executable", _POINTER),
)


class Backend:
    """A loaded compiler for a generation of TPU, in a process set up by `compiler_environment`."""

    def __init__(self, generation: Generation):
        folder = Path(importlib.util.find_spec("libtpu").origin).parent
        library = ctypes.CDLL(str(folder / "libtpu.so"))
        library.GetPjrtApi.restype = ctypes.c_void_p
        self._table = library.GetPjrtApi() + _FUNCTIONS_AT
        self._call(_PLUGIN_INITIALIZE, _Plain())
        name = generation.topology.encode()
        arguments = _Topology(name=name, name_size=len(name))
        self._call(_TOPOLOGY_CREATE, arguments)
        self._topology = arguments.topology

    def compile(self, hlo_text: str, dumps: Path | None = None) -> Module:
        """Runs the back end on a scheduled module; returns it with the compiler's estimates
        attached. Its dumps go to the folder `dumps`, or are thrown away."""
        from jaxlib import _hlo, xla_client

        code = _hlo.hlo_module_from_text(hlo_text).as_serialized_hlo_module_proto()
        temporary = (
            tempfile.TemporaryDirectory(prefix="learned-mapping-backend-")
            if dumps is None
            else None
        )
        with temporary or contextlib.nullcontext(str(dumps)) as folder:
            options = xla_client.CompileOptions()
            options.num_replicas = options.num_partitions = 1
            options.env_option_overrides = [("xla_dump_to", folder), ("xla_dump_hlo_as_text", True)]
            serialized = options.SerializeAsString() + _BACKEND_ONLY
            program = _Program(code=code, code_size=len(code), format=b"hlo", format_size=3)
            program.struct_size = ctypes.sizeof(program)
            arguments = _Compile(
                topology=self._topology,
                program=ctypes.addressof(program),
                options=serialized,
                options_size=len(serialized),
            )
            self._call(_COMPILE, arguments)
            dumps = sorted(Path(folder).glob("*after_codegen.txt"))
            if not dumps:
                raise BackendError("the back end left no estimates")
            return parse_module(dumps[-1].read_text(), "after_codegen")

    def _call(self, number: int, arguments: ctypes.Structure) -> None:
        arguments.struct_size = ctypes.sizeof(arguments)
        error = self._function(number)(ctypes.addressof(arguments))
        if error:
            message = _Message(error=error)
            message.struct_size = ctypes.sizeof(message)
            self._function(_ERROR_MESSAGE)(ctypes.addressof(message))
            text = ctypes.string_at(message.message, message.message_size).decode(errors="replace")
            destroy = _Destroy(error=error)
            destroy.struct_size = ctypes.sizeof(destroy)
            self._function(_ERROR_DESTROY)(ctypes.addressof(destroy))
            raise BackendError(" ".join(text.split())[:500])

    def _function(self, number: int):
        address = ctypes.cast(
            self._table + 8 * number, ctypes.POINTER(ctypes.c_void_p)
        ).contents.value
        return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)


def main(folder: Path, generation: Generation) -> None:
    """The process that prices batches of probes, a line of cycles each; without any it compiles the
    module itself."""
    text, backend = (folder / "module.txt").read_text(), Backend(generation)
    if not (folder / "batches.json").exists():
        backend.compile(text, folder)
        return
    module = parse_module(text)
    for batch in json.loads((folder / "batches.json").read_text()):
        probes = ProbeModule(module, generation.space)
        names: list[str | None] = []
        for item in batch:
            probe = Probe(
                item["instruction"],
                frozenset(item["operands"]),
                frozenset(tuple(index) for index in item["results"]),
            )
            try:
                names.append(probes.add(probe))
            except Unprobeable:
                names.append(None)
        entry = backend.compile(probes.text()).entry.by_name if any(names) else {}
        cycles = [entry[name].estimated_cycles if name in entry else None for name in names]
        print("cycles " + json.dumps(cycles), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), GENERATIONS[sys.argv[2]])
