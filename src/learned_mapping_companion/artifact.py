"""The parts of the tables and figures: keyed runs, and artifacts assembled from their records.

`TABLE` lists every artifact and `TASKS` what a run can be, from ``artifacts.yml``.
"""

import hashlib
import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import read_yaml

DEFAULT_SEEDS = {"quick": 3, "full": 5, "paper": 5}
PROFILES = tuple(DEFAULT_SEEDS)
PAPERS = {"mmap": 1, "mcm": 2, "regal": 3}
PACKAGE = "learned_mapping_companion"
# What a `Run` is decided by, and a record says of it.
RUN = ("task", "method", "instance", "config", "seed")


def read_table(name: str) -> dict[str, Any]:
    """A table of this folder, as text: a listing imports nothing."""
    return read_yaml(Path(__file__).parent / name)


TASKS: dict[str, str] = read_table("artifacts.yml")["tasks"]
"""The function that does each task. A name here stays when its function moves."""
TABLE: dict[str, dict[str, Any]] = read_table("artifacts.yml")["artifacts"]
"""Id -> title, the module with its ``plan_NAME`` and ``assemble_NAME``, and the artifacts whose
results it reads."""
Assemble = Callable[[str, list[dict[str, Any]]], dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """One independent piece of work, the same wherever it is executed.

    Its function is called as ``function(method, instance, config, seed)`` and returns JSON:
    numbers, strings, lists and objects with string keys. The seed decides all that is random in it.
    """

    # A name of `TASKS`, or ``module:function``, importable wherever the run may be executed.
    task: str
    method: str
    instance: str
    # JSON: everything else that decides the outcome.
    config: dict[str, Any] = field(default_factory=dict, hash=False)
    seed: int = 0
    long: bool = field(default=False, compare=False)
    """Whether it takes so long that it is performed only where `make` is told to; an artifact does
    without it."""

    def __post_init__(self) -> None:
        if self.task not in TASKS and ":" not in self.task:
            raise ValueError(
                f"a run's task is a name of TASKS or 'module:function', got {self.task!r}"
            )
        json.dumps(self.config, allow_nan=False)

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that key the run's record: SHA-256 over task, method, instance,
        config and seed."""
        key = [self.task, self.method, self.instance, self.config, int(self.seed)]
        text = json.dumps(key, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def function_of(task: str) -> Callable[..., Any]:
    """The function that performs a task."""
    module, _, name = TASKS.get(task, task).partition(":")
    if module.startswith("builders."):
        from learned_mapping_companion.datasets.registry import builder

        target: Any = builder(module.removeprefix("builders."))
    else:
        target = importlib.import_module(f"{PACKAGE}.{module}" if task in TASKS else module)
    for part in name.split("."):
        target = getattr(target, part)
    return target


@dataclass(frozen=True)
class Artifact:
    """A table or figure: which runs it needs, and how their records become tidy rows."""

    id: str  # As under ``lmap make`` and in ``data/results/``: ``mmap.table2``.
    title: str
    # (profile, seeds) -> runs. The profile is one of `PROFILES`.
    plan: Callable[[str, int], list[Run]]
    # (profile, records in the order of the plan) -> ``{"rows", "validated", "invalid"}``.
    assemble: Assemble
    # Ids of artifacts whose stored results `assemble` reads; they are made first.
    parts: tuple[str, ...] = ()


def no_runs(profile: str, seeds: int) -> list[Run]:
    """The plan of an artifact that is made of its parts, or of the code itself."""
    return []


def find_artifact(artifact_id: str) -> Artifact:
    """The artifact of this id; imports its module, and raises `InputError` for another."""
    if artifact_id not in TABLE:
        raise InputError("artifact", artifact_id, f"is not known; there are: {', '.join(TABLE)}")
    entry, name = TABLE[artifact_id], artifact_id.partition(".")[2]
    module = importlib.import_module(f"{PACKAGE}.{entry['module']}")
    plan, assemble = getattr(module, f"plan_{name}", no_runs), getattr(module, f"assemble_{name}")
    return Artifact(artifact_id, entry["title"], plan, assemble, tuple(entry.get("parts", ())))


def reported(artifact_id: str) -> list[dict[str, Any]]:
    """The rows that the paper reports, which stand beside an artifact's own; from
    ``papers.yml``."""
    return [
        {name: cell for name, cell in entry.items() if name not in ("over", "values")}
        | {entry["over"]: key, "value": value}
        for entry in read_table("papers.yml").get(artifact_id, ())
        for key, value in entry["values"].items()
    ]
