"""The behaviour of every method on small frozen instances: a result is fresh while its methods
still do the same.

A fingerprint is what a method ends with on the frozen instances of ``data/fingerprints``, with a
fixed seed and a fixed number of samples: the costs by the independent validator, to six digits. Its
digest also covers the method's `version` and the files it has learned from. A function renamed, a
file moved or a comment edited changes none of it.

The stored fingerprints, ``data/fingerprints/fingerprints.json``, are made by ``lmap fingerprint``;
the test suite holds them to what the methods do. Listing what is stale only reads files.
"""

import fnmatch
import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError, MissingNetworkError
from learned_mapping.folders import data_folder, kept_while_unchanged
from learned_mapping.programs.json_io import (
    check_writable,
    file_sha256,
    locked,
    read_json,
    write_json,
)
from learned_mapping.verdict import Verdict
from learned_mapping_companion.artifact import Run, function_of, read_table

SCHEMA = "learned-mapping/fingerprints/1"
DIGITS = 6
SEED = 20
# What a search may evaluate on each instance.
SAMPLES = {"mmap": 40, "mcm": 40, "silicon": 40, "regal": 120}
_TABLE = read_table("fingerprints.yml")
INSTANCES: dict[str, list[tuple[str, dict[str, Any]]]] = _TABLE["instances"]
"""Problem -> files of ``data/fingerprints``, and the options of their tasks."""
SAME_CODE: dict[str, str] = _TABLE["same_code"]
"""Methods whose fingerprint is another's: one agent under other settings."""
NO_METHOD: tuple[str, ...] = tuple(_TABLE["no_method"])
"""Keys that need no fingerprint: what is compared with methods and is none."""
PROBES: dict[str, tuple[str, str, dict[str, Any]]] = _TABLE["probes"]
"""Other tasks -> a small run of theirs, (method, instance, config), which is their fingerprint."""
CLOCKS = ("seconds", "x", "rate", "peak_bytes")
"""Numbers that a run measures with a clock: never part of a fingerprint, nor of a comparison."""
FIRST_NAMES = {"needed_bytes": "peak_bytes"}
"""Costs that stored fingerprints know by another name: of a silicon task, in the place of what the
model has there."""


def path() -> Path:
    """The file of the stored fingerprints."""
    return data_folder() / "fingerprints" / "fingerprints.json"


def key_of(run: Run) -> str:
    """The key of a run's fingerprint: the problem and the method, or the task."""
    problem = _TABLE["solves"].get(run.task)
    if problem is None:
        return run.task
    key = f"{problem}/{run.method.partition(':')[0]}"
    return SAME_CODE.get(key, key)


def turns_on_last_bits(run: Run) -> bool:
    """Whether a run asks a network or an eigenvector, whose last bits differ from processor to
    processor."""
    return any(fnmatch.fnmatchcase(key_of(run), pattern) for pattern in _TABLE["last_bits"])


def instances_of(key: str) -> list[tuple[str, dict[str, Any]]]:
    """The instances that a method plays: entries of `INSTANCES`."""
    instances = INSTANCES[key.partition("/")[0]]
    return [instances[_TABLE["only"][key]]] if key in _TABLE["only"] else instances


def with_network(key: str) -> str:
    """The method of a key, and the network that it plays with where it plays with one."""
    method = key.partition("/")[2]
    return f"{method}:{_TABLE['network'][key]}" if key in _TABLE["network"] else method


def current() -> dict[str, str]:
    """Key -> digest of every stored fingerprint, with the files it covers as they are now; reads
    files only."""
    return {key: _digest(key, entry["costs"], entry["version"]) for key, entry in entries().items()}


def entries() -> dict[str, dict[str, Any]]:
    """Key -> costs and version of every stored fingerprint; none where there is no file."""
    return _entries(path()) if path().exists() else {}


@kept_while_unchanged
def _entries(file: Path) -> dict[str, dict[str, Any]]:
    value = read_json(file, "fingerprints").value
    try:
        return {key: {"costs": entry["costs"], "version": int(entry["version"])}
                for key, entry in value["methods"].items()}  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(file, "methods", f"is missing or damaged ({error})") from None


def _digest(key: str, costs: Any, version: int) -> str:
    hasher = hashlib.sha256(json.dumps([key, costs, version], sort_keys=True).encode())
    if key in _TABLE["files"]:
        for file in sorted(data_folder().glob(_TABLE["files"][key])):
            hasher.update(f"{file.name} {_sha256(file)}\n".encode())
    return hasher.hexdigest()[:16]


_sha256 = kept_while_unchanged(file_sha256)


def measure(keys: Collection[str] = (), progress: Any = None) -> dict[str, dict[str, Any]]:
    """Lets methods play the frozen instances: key -> costs and version; of all whose networks are
    there, or of `keys`. Raises `InputError` for an unknown key, or one that is asked for by name
    and whose network is missing."""
    known = [key for key in _known() if not keys or key in keys]
    for key in keys:
        if key not in known:
            raise InputError("fingerprint", key, f"is not known; there are: {', '.join(_known())}")
    measured = {}
    for done, key in enumerate(known):
        try:
            measured[key] = _probe(key) if key in PROBES else _play(key)
        except MissingNetworkError:
            if keys:
                raise
        if progress is not None:
            progress(done + 1, len(known))
    return measured


def _known() -> list[str]:
    from learned_mapping.problem import problem

    solved = [f"{name}/{method}" for name in INSTANCES for method in problem(name).methods("quick")]
    return [*(key for key in solved if key not in SAME_CODE), *PROBES]


def _play(key: str) -> dict[str, Any]:
    from learned_mapping.problem import problem, solve

    name = key.partition("/")[0]
    paper, method = problem(name), with_network(key)
    costs = []
    for file, options in instances_of(key):
        instance = paper.read(str(path().parent / file))
        task = paper.task(instance, **options)
        result = solve(paper, task, method, seed=SEED, samples=SAMPLES[name], profile="quick")
        costs.append(costs_of(paper.validate(task, result.solution)))
    return {"costs": costs, "version": paper.method(method).version}


def costs_of(verdict: Verdict) -> dict[str, float]:
    """The costs of a verdict as a fingerprint has them: rounded, under the names of
    `FIRST_NAMES`."""
    renamed = {
        first: verdict.costs[name] for name, first in FIRST_NAMES.items() if name in verdict.costs
    }
    return rounded(
        {
            name: cost
            for name, cost in (dict(verdict.costs) | renamed).items()
            if name not in FIRST_NAMES
        }
    )


def _probe(task: str) -> dict[str, Any]:
    method, instance, config = PROBES[task]
    if task.startswith("regal.") and "graphs" not in config:
        from learned_mapping_companion.regal.graphs import graph_names

        config = config | {"graphs": list(graph_names("synthetic", "small"))[:1]}
    return {
        "costs": rounded(without_clocks(function_of(task)(method, instance, config, SEED))),
        "version": 1,
    }


def without_clocks(value: Any) -> Any:
    """JSON without what a clock measured: by name, or by an ending such as ``_seconds``."""
    if isinstance(value, Mapping):
        clocked = {
            key for key in value if key in CLOCKS or key.endswith(("_seconds", "_per_second"))
        }
        return {key: without_clocks(item) for key, item in value.items() if key not in clocked}
    if isinstance(value, list | tuple):
        return [without_clocks(item) for item in value]
    return value


def rounded(value: Any) -> Any:
    """JSON with floats to `DIGITS` significant digits, so that another processor's last bits do not
    matter."""
    if isinstance(value, Mapping):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if hasattr(value, "tolist"):
        return rounded(value.tolist())
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def changed(measured: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The keys whose stored fingerprint is another, or missing."""
    stored = entries()
    return [key for key, entry in measured.items() if stored.get(key) != dict(entry)]


def store(measured: Mapping[str, Mapping[str, Any]], *, only_these: bool = True) -> None:
    """Writes the fingerprints; with `only_these` off, those measured replace theirs and the others
    stay."""
    check_writable(path().parent)
    with locked(path().parent):  # another process may have stored others meanwhile
        merged = ({} if only_these else entries()) | dict(measured)
        write_json(path(), {"schema": SCHEMA, "methods": dict(sorted(merged.items()))}, indent=1)
