"""``lmap verify``: stored runs computed again, and compared value by value."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from learned_mapping.companion import fingerprints, results
from learned_mapping.companion.artifact import TABLE
from learned_mapping.companion.worker import perform
from learned_mapping.programs.json_io import read_json

CLOCKED = ("seconds", "solver_time", "repeats")
"""Configurations that a clock decides: such a run cannot end the same twice."""
OTHER_TASKS = ("mmap.play", "mmap.price")
"""Tasks that a clock decides, or that ask a compiler that need not be installed."""
TOLERANCE = 1e-9


def stored_runs(profile: str = "full") -> Iterator[Path]:
    """The records of all stored runs, in a fixed order."""
    for artifact_id, *_ in TABLE:
        yield from sorted(results.runs_folder(artifact_id, profile).glob("*.json"))


def repeatable(record: Mapping[str, Any]) -> bool:
    """Whether a run is limited by samples alone."""
    return record["task"] not in OTHER_TASKS and not any(name in record["config"] for name in CLOCKED)


def choose(count: int, seed: int = 0, profile: str = "full") -> list[dict[str, Any]]:
    """Records of repeatable runs, drawn without repetition; fewer where there are not so many."""
    paths = list(stored_runs(profile))
    random.Random(seed).shuffle(paths)
    found: list[dict[str, Any]] = []
    for path in paths:
        if len(found) >= count:
            break
        record = read_json(path, "run").value
        if repeatable(record):
            found.append(record)
    return found


def differences(record: Mapping[str, Any]) -> list[str]:
    """Computes a run again; where its result differs from the stored one, without what a clock measured."""
    outcome = perform({name: record[name] for name in ("task", "method", "instance", "config", "seed")})
    if "error" in outcome:
        return [outcome["error"]]
    old, new = (fingerprints.without_clocks(value) for value in (record["result"], outcome["result"]))
    return list(_compare(old, new, "result"))


def _compare(old: Any, new: Any, where: str) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            if key not in old or key not in new:
                yield f"{where}.{key} is in one of them only"
            else:
                yield from _compare(old[key], new[key], f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where} has {len(new)} entries, stored are {len(old)}"
        else:
            for i, (a, b) in enumerate(zip(old, new)):
                yield from _compare(a, b, f"{where}[{i}]")
    elif isinstance(old, float) or isinstance(new, float):
        if not abs(old - new) <= TOLERANCE * max(abs(old), abs(new)):
            yield f"{where} is {new!r}, stored is {old!r}"
    elif old != new:
        yield f"{where} is {new!r}, stored is {old!r}"
