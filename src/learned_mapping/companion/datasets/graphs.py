"""The set ``graphs``: public models traced at realistic shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from learned_mapping.companion.datasets.manifest import Item, Manifest, file_sha256
from learned_mapping.companion.datasets.registry import SETS
from learned_mapping.companion.datasets.stored import GRAPHS, build_graphs


def build(folder: Path, *, progress: Callable[[int, int], None] | None = None) -> Manifest:
    """Traces the members of `programs.datasets.GRAPHS` into ``FOLDER/NAME.json.gz``; there is no randomness."""
    items = []
    for name in GRAPHS:
        (row,) = build_graphs(folder, [name])
        file = f"{name}.json.gz"
        facts = {key: value for key, value in row.items() if key not in ("name", "digest")}
        items.append(Item(name, row["digest"], None, file, file_sha256(folder / file), facts))
        if progress is not None:
            progress(len(items), len(GRAPHS))
    return Manifest("graphs", SETS["graphs"].about, None, tuple(items))
