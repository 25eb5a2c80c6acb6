"""``make bench``: each paper's benchmarks, one after the other, each in a fresh process.

A module of this folder exposes ``benchmark() -> list of {"name", "value", "unit", "bar"}`` and,
where a row needs two cores, says so by ``CORES = 2``; all others are pinned to one core. ``bar`` is
what the project wants to reach, or None; a value in seconds has to stay below its bar, any other
has to reach it.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

from learned_mapping_companion.results import machine
from learned_mapping_companion.worker import SINGLE_THREAD

MODULES = (
    "benchmarks.mmap",
    "benchmarks.mcm",
    "benchmarks.regal",
)

_SCRIPT = """
import importlib, json, os, sys
module = importlib.import_module(sys.argv[1])
if getattr(module, "CORES", 1) == 1 and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
rows = module.benchmark()
with open(int(sys.argv[2]), "w") as pipe:
    json.dump(rows, pipe, default=float)
"""


def run(module: str) -> list[dict[str, Any]]:
    """The rows of one module's benchmark, from a process of its own; raises RuntimeError where it
    fails."""
    read, write = os.pipe()
    with os.fdopen(read) as results:
        process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, module, str(write)],
            pass_fds=(write,),
            env={**os.environ, **SINGLE_THREAD},
            stdout=sys.stderr,
        )
        os.close(write)
        text = results.read()
    if process.wait() != 0 or not text:
        raise RuntimeError(f"{module}: the benchmark failed with exit status {process.returncode}")
    return json.loads(text)


def verdict(row: dict[str, Any]) -> str:
    """Whether a row reaches its bar."""
    bar = row.get("bar")
    if bar is None:
        return ""
    reached = row["value"] <= bar if row["unit"] == "s" else row["value"] >= bar
    return "reached" if reached else "MISSED"


def main(arguments: list[str] | None = None) -> int:
    """Runs the benchmarks and prints a table; exit 1 where a bar is missed or a benchmark fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=MODULES, help="such as benchmarks.mcm")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows, faults = [], []
    for module in options.modules:
        if importlib.util.find_spec(module) is None:
            print(f"{module}: there is none", file=sys.stderr)
            continue
        print(f"{module} ...", file=sys.stderr, flush=True)
        try:
            rows += [{"module": module, **row} for row in run(module)]
        except RuntimeError as error:
            faults.append(str(error))
    if options.json:
        print(json.dumps({"machine": machine(), "rows": rows, "faults": faults}))
    else:
        print("{cpu}, {cores} cores".format(**machine()))
        width = max([len(row["name"]) for row in rows], default=0)
        for row in rows:
            bar = "" if row.get("bar") is None else f"bar {row['bar']:>12,.6g}"
            line = (
                f"{row['name']:<{width}}  {row['value']:>14,.6g} {row['unit']:<16} {bar:<18}"
                f" {verdict(row)}"
            )
            print(line.rstrip())
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults) or any(verdict(row) == "MISSED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
