"""A graph from StableHLO, as text or as bytecode: what `jax.jit(f).lower(...)` prints, `jax.export`
and others write.

The parser is the one that comes with JAX. It is C++ and was not made for strangers' files, so it
runs in a process of its own, whose time and memory are bounded and whose answer is read like any
file. There each operation becomes the primitive of JAX that it stands for, so that graph and costs
are those of `programs.trace.graph`.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError, shown
from learned_mapping.programs.formats import graph_from_json, graph_to_json
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import other_door, parse_json, read_bytes, utf8_text

BYTECODE = b"ML\xefR"
SECONDS, MEMORY_BYTES = 120, 8 * 2**30  # Of the parser's process, at most.
# It gets so many, and one more for so many bytes of the file.
FIRST_SECONDS, BYTES_PER_S = 20, 100_000
UNROLL_LIMIT = 20_000  # As `dataflow.DEFAULT_UNROLL_LIMIT`, which would import JAX.
MAX_NESTED = 200  # Brackets within one another: the parser's own stack would overflow.
# Exit code of the process where the file is at fault; its standard error is the field, a tab, the
# fault.
FAULT = 2


def read_stablehlo(
    path: str | os.PathLike,
    parameters: Sequence[int] = (),
    name: str | None = None,
    unroll_limit: int = UNROLL_LIMIT,
) -> ComputationGraph:
    """Reads a ``.mlir`` file; raises `InputError` naming file, line and fault.

    Args:
      parameters: positions of the arguments of ``main`` that are parameters: no ops, but weights of
        the ops that use them, as arrays in the file are.
      name: the graph's name, by default the file's.
      unroll_limit: operations that one loop may make.
    """
    data = read_bytes(path)
    if data.lstrip().startswith(b"HloModule"):
        raise InputError(path, "", f"not StableHLO, {other_door(data)}")
    if not data.startswith(BYTECODE):
        _check_nesting(utf8_text(data, path), path)
    named = name or Path(path).name.split(".")[0] or "graph"
    asked = json.dumps(
        {"name": named, "parameters": list(parameters), "unroll_limit": unroll_limit}
    )
    command = [sys.executable, "-m", "learned_mapping.programs.trace.stablehlo", asked]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    limit = min(FIRST_SECONDS + len(data) // BYTES_PER_S, SECONDS)
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=limit, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(path, "", f"is not parsed after {limit} s") from None
    if done.returncode == FAULT:
        field, _, fault = (
            done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].partition("\t")
        )
        raise InputError(path, field, fault)
    if done.returncode != 0:
        said = shown(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2], 300)
        how = (
            f"signal {-done.returncode}"
            if done.returncode < 0
            else said or f"exit code {done.returncode}"
        )
        raise InputError(path, "", f"the parser of JAX gave up on it ({how})")
    return graph_from_json(parse_json(done.stdout, path))


def _check_nesting(text: str, path: object) -> None:
    depth = 0
    for bracket in re.finditer(r"[\[({<]|[\])}>]", text):
        depth = max(
            depth
            + (1 if bracket[0] in "[({<" else -1 if text[bracket.start() - 1] not in "-=" else 0),
            0,
        )
        if depth > MAX_NESTED:
            line = text.count("\n", 0, bracket.start()) + 1
            raise InputError(
                path, f"line {line}", f"brackets more than {MAX_NESTED} within one another"
            )


def _main(asked: dict[str, Any], data: bytes) -> dict[str, Any]:
    """The JSON object of the graph."""
    from jax.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import chlo, func, stablehlo  # noqa: F401, their types are registered

    with make_ir_context() as context:
        try:
            if data.startswith(BYTECODE):
                try:
                    module = stablehlo.deserialize_portable_artifact(context, data)
                except Exception:
                    module = ir.Module.parse(data)
            else:
                module = ir.Module.parse(data.decode())
        except Exception as error:
            match = re.search(r'"?-?"?:(\d+):\d+: (.*)', str(error))
            said = next(filter(str.strip, str(error).splitlines()), type(error).__name__)
            fault = f"not StableHLO: {match[2] if match else shown(said, 200)}"
            if "quant" in str(error):
                fault = "quantised types are not read: export the model before it is quantised"
            raise InputError(asked["name"], f"line {match[1]}" if match else "", fault) from None
        from learned_mapping.programs.trace.graph import fold_sources, graph_of_dataflow
        from learned_mapping.programs.trace.stablehlo_reader import Reader

        limit = asked.get("unroll_limit", UNROLL_LIMIT)
        flow = Reader(asked["name"], ir, stablehlo, limit).read(module)
        graph = fold_sources(
            graph_of_dataflow(flow, flow.arguments_at(asked["parameters"], "--parameters"))
        )
        return graph_to_json(graph)


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
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass  # the time limit of the caller holds anyhow
    with redirect_stdout(sys.stderr):
        code, text = answer(json.loads(sys.argv[1]), sys.stdin.buffer.read())
    print(text, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(_run())
