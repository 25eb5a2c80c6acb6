"""A graph from a model's file: StableHLO as text or bytecode, a serialised `jax.export`, ONNX, an
archive of `torch.export`. What it is, its bytes say (`programs.recognition`), not its name.

The parsers are those of JAX, ONNX and torch. They were not made for strangers' files, so they run
in a process of their own, whose time and memory are bounded and whose answer is read like any file.
There each operation becomes the primitive of JAX that it stands for, so that graph and costs are
those of `programs.trace.graph`.
"""

import json
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError, shown
from learned_mapping.programs.formats import graph_from_json, graph_to_json
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import (
    GZIP,
    parse_json,
    read_bytes,
    read_head,
    utf8_text,
)
from learned_mapping.programs.recognition import (
    ARCHIVE,
    EXPORTED,
    MODELS,
    ONNX,
    TEXT,
    exported_module,
    kind_of,
    refused,
)

SECONDS, MEMORY_BYTES = 120, 8 * 2**30  # Of the parser's process, at most.
# It gets so many of the processor, and one more for so many bytes of the file.
FIRST_SECONDS, BYTES_PER_S = 18, 100_000
# And so many bytes, of which its libraries take more than half, and more for each byte of the file;
# those of an archive take more.
FIRST_BYTES, BYTES_PER_BYTE = 2 * 2**30, 300
WAITING = 5  # Seconds by the clock for each that it gets: others may hold the processor.
UNROLL_LIMIT = 20_000  # As `dataflow.DEFAULT_UNROLL_LIMIT`, which would import JAX.
MAX_MODEL_BYTES = 2**31  # Of a file whose weights are not read.
# Exit code of the process where the file is at fault; its standard error is the field, a tab, the
# fault.
FAULT = 2
PARSERS = {ONNX: "onnx", ARCHIVE: "torch"}  # The package that parses, JAX for all else.


def read_model(
    path: str | os.PathLike,
    parameters: Sequence[int] | None = (),
    name: str | None = None,
    unroll_limit: int = UNROLL_LIMIT,
    shapes: Sequence[tuple[str, Sequence[int]]] = (),
) -> ComputationGraph:
    """Reads a model's file; raises `InputError` naming file, line or operation, and fault.

    Args:
      parameters: positions of the arguments that are parameters: no ops, but weights of the ops
        that use them, as arrays in the file are. None has them guessed, and the graph's metadata
        say so.
      name: the graph's name, by default the file's.
      unroll_limit: operations that one loop may make.
      shapes: of ONNX, type and sizes of the first inputs.
    """
    head = read_head(path)
    kind = kind_of(head)
    if kind not in MODELS:
        fault = f"not StableHLO or another model {refused(head, '')}" if head else "is empty"
        raise InputError(path, "", fault.rstrip())
    if shapes and kind != ONNX:
        raise InputError("--arg", "", "is for a function, or for the open sizes of an ONNX model")
    data = _content(path, kind)
    limit = min(FIRST_SECONDS + len(data) // BYTES_PER_S, SECONDS)
    needed = FIRST_BYTES + BYTES_PER_BYTE * len(data)
    memory = MEMORY_BYTES if kind == ARCHIVE else min(needed, MEMORY_BYTES)
    asked = {
        "kind": kind,
        "seconds": limit,
        "bytes": memory,
        "name": name or Path(path).name.split(".")[0] or "graph",
        "parameters": None if parameters is None else list(parameters),
        "unroll_limit": unroll_limit,
        "shapes": [[dtype, list(sizes)] for dtype, sizes in shapes],
    }
    command = [sys.executable, "-m", "learned_mapping.doors.models", json.dumps(asked)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    clock = WAITING * limit
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=clock, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(path, "", f"is not parsed after {clock} s") from None
    said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if done.returncode == FAULT:
        field, _, fault = said.partition("\t")
        raise InputError(path, field, fault)
    if done.returncode == -getattr(signal, "SIGXCPU", 24):
        raise InputError(path, "", f"is not parsed after {limit} s of the processor")
    if done.returncode != 0:
        how = f"signal {-done.returncode}" if done.returncode < 0 else shown(said, 300)
        how = how or f"exit code {done.returncode}"
        parser = PARSERS.get(kind, "JAX")
        raise InputError(path, "", f"the parser of {parser} gave up on it ({how})")
    return graph_from_json(parse_json(done.stdout, path))


def _content(path: str | os.PathLike, kind: str) -> bytes:
    """What the parser of a kind gets of a file."""
    if kind == ONNX:
        from learned_mapping.doors.wire import without_numbers

        with _mapped(path) as data:
            return without_numbers(data, path)
    if kind == ARCHIVE:
        from learned_mapping.doors.torch_archive import program_text

        return program_text(path)
    data = read_bytes(path)
    if kind == EXPORTED:
        module = exported_module(data)
        if module is None:
            raise InputError(
                path, "", "not a whole jax.export: its module is cut off or is missing"
            )
        return module
    if kind == TEXT:
        from learned_mapping.doors import stablehlo

        text = utf8_text(data, path)
        stablehlo.check_nesting(text, path)
        return text.encode()
    return data


def _mapped(path: str | os.PathLike) -> Any:
    """A context that gives a file's bytes, mapped where it is not packed; raises `InputError`."""
    if read_head(path, raw=True).startswith(GZIP):
        return nullcontext(read_bytes(path))
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > MAX_MODEL_BYTES:
                raise InputError(path, "", f"more than {MAX_MODEL_BYTES} bytes")
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise InputError(
            path, "", f"cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from None


def _main(asked: dict[str, Any], data: bytes) -> dict[str, Any]:
    """The JSON object of the graph."""
    from learned_mapping.doors import stablehlo
    from learned_mapping.programs.trace.parameters import graph_with_parameters

    kind = asked.get("kind", TEXT)
    weights: Sequence[int] = []
    asked = {"unroll_limit": UNROLL_LIMIT} | asked
    if kind == ONNX:
        from learned_mapping.doors import onnx_model

        flow, weights = onnx_model.read(data, asked)
    elif kind == ARCHIVE:
        from learned_mapping.doors import torch_archive

        flow, weights = torch_archive.read(data, asked)
        asked["parameters"] = asked["parameters"] or ()  # it says itself which are
    else:
        flow = stablehlo.read(data, asked)
    return graph_to_json(graph_with_parameters(flow, asked["parameters"], weights))


def answer(asked: dict[str, Any], data: bytes) -> tuple[int, str]:
    """The answer of the parser's process on a file: 0 and the graph's JSON, or `FAULT` with field,
    tab and fault."""
    try:
        return 0, json.dumps(_main(asked, data), allow_nan=False)
    except InputError as error:
        field, text = error.field, error.fault
    except (MemoryError, RecursionError) as error:
        field, text = "", f"too large for the parser ({type(error).__name__})"
    return FAULT, f"{shown(field, 200)}\t{shown(text, 600)}"


def _run() -> int:
    """The parser's process: a file on standard input, a graph as JSON on standard output."""
    asked = json.loads(sys.argv[1])
    try:
        import resource

        seconds, memory = asked["seconds"], asked["bytes"]
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass  # the time limit of the caller holds anyhow
    with redirect_stdout(sys.stderr):
        code, text = answer(asked, sys.stdin.buffer.read())
    print(text, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(_run())
