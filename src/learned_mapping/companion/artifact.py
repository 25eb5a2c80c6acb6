"""What an experiment is made of: keyed runs, and the artifacts (tables and figures) assembled from their records."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from learned_mapping.errors import InputError

PROFILES = ("quick", "full", "paper")
DEFAULT_SEEDS = {"quick": 3, "full": 5, "paper": 5}
PAPER_MODULES = ("mmap", "mcm", "regal")
"""Modules of this package that expose ``ARTIFACTS``, in the order of the papers."""

_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")


@dataclass(frozen=True)
class Run:
    """One independent piece of work, the same wherever it is executed.

    Its function is called as ``function(method, instance, config, seed)`` and returns JSON: numbers, strings, lists and
    objects with string keys.
    """

    function: str
    """``module:function``, importable wherever the run may be executed."""
    method: str
    instance: str
    config: dict[str, Any] = field(default_factory=dict, hash=False)
    """JSON: everything else that decides the outcome."""
    seed: int = 0

    def __post_init__(self) -> None:
        if ":" not in self.function:
            raise ValueError(f"a run's function is 'module:function', got {self.function!r}")
        json.dumps(self.config, allow_nan=False)

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that key the run's record: SHA-256 over function, method, instance, config and seed."""
        key = [self.function, self.method, self.instance, self.config, int(self.seed)]
        text = json.dumps(key, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Artifact:
    """A table or figure: which runs it needs, and how their records become tidy rows."""

    id: str
    """As under ``lmap make`` and in ``data/results/``: ``mmap.table2``."""
    paper: int
    """1 mmap, 2 mcm, 3 regal."""
    title: str
    plan: Callable[[str, int], list[Run]]
    """(profile, seeds) -> runs. The profile is one of `PROFILES`."""
    assemble: Callable[[str, list[dict[str, Any]]], dict[str, Any]]
    """(profile, records in the order of the plan) -> ``{"rows", "paper", "validated", "invalid"}``."""
    packages: tuple[str, ...] | Callable[[Run], tuple[str, ...]] = ()
    """Modules the runs rest on (their imports inside the package are followed): ``("learned_mapping.mcm",)``.

    Where methods should not make each other's records stale, a function of the run, which names that method's modules
    only. Where nothing is named, the module of `assemble`, or nothing but the `parts`.
    """
    parts: tuple[str, ...] = ()
    """Ids of artifacts whose stored results `assemble` reads; they are made first."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"not an artifact id: {self.id!r}")
        if self.paper not in (1, 2, 3):
            raise ValueError(f"{self.id}: paper is 1, 2 or 3, got {self.paper}")

    def packages_of(self, run: Run) -> tuple[str, ...]:
        """Modules one run rests on; raises ValueError where none are named."""
        packages = self.packages(run) if callable(self.packages) else self.shared_packages
        if not packages:
            raise ValueError(f"{self.id}: no modules are named that {run.method!r} on {run.instance!r} rests on")
        return packages

    @property
    def shared_packages(self) -> tuple[str, ...]:
        """Modules the artifact rests on whatever its runs are; none where each run has its own."""
        if callable(self.packages):
            return ()
        return self.packages or (() if self.parts else (self.assemble.__module__,))


def registry() -> dict[str, Artifact]:
    """Every artifact by id, paper by paper; imports the papers' experiment modules."""
    found: dict[str, Artifact] = {}
    for name in PAPER_MODULES:
        module_name = f"learned_mapping.companion.{name}"
        if importlib.util.find_spec(module_name) is None:
            continue
        for artifact in importlib.import_module(module_name).ARTIFACTS:
            if artifact.id in found:
                raise ValueError(f"two artifacts are named {artifact.id!r}")
            found[artifact.id] = artifact
    return found


def find_artifact(artifact_id: str) -> Artifact:
    """The artifact of this id.

    Raises:
      InputError: there is none; the message lists those there are.
    """
    artifacts = registry()
    if artifact_id not in artifacts:
        known = ", ".join(artifacts) or "none"
        raise InputError("artifact", artifact_id, f"is not known; there are: {known}")
    return artifacts[artifact_id]


def check_profile(profile: str) -> str:
    """The profile itself; raises `InputError` where it is none of `PROFILES`."""
    if profile not in PROFILES:
        raise InputError("profile", "", f"{profile!r} is none of {', '.join(PROFILES)}")
    return profile
