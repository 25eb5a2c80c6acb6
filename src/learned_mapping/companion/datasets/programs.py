"""The set ``programs``: public models scheduled for the memory hierarchy at its defaults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from learned_mapping.companion.datasets.manifest import Item, Manifest, file_sha256
from learned_mapping.companion.datasets.registry import SETS
from learned_mapping.companion.datasets.stored import PROGRAMS, build_programs
from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy


def build(folder: Path, *, progress: Callable[[int, int], None] | None = None) -> Manifest:
    """Schedules the members of `programs.datasets.PROGRAMS` into ``FOLDER/NAME.json.gz``; there is no randomness."""
    items = []
    for name in PROGRAMS:
        (row,) = build_programs(folder, MemoryHierarchy(), [name])
        file = f"{name}.json.gz"
        facts = {key: value for key, value in row.items() if key not in ("name", "digest")}
        items.append(Item(name, row["digest"], None, file, file_sha256(folder / file), facts))
        if progress is not None:
            progress(len(items), len(PROGRAMS))
    return Manifest("programs", SETS["programs"].about, None, tuple(items))
