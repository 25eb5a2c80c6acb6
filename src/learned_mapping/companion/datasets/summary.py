"""Counts and sizes of the sets, from their manifests alone, as the book shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from learned_mapping.companion.datasets.manifest import SPLITS, Manifest
from learned_mapping.companion.datasets.registry import SETS
from learned_mapping.companion.datasets.verify import bytes_of, files_of


def stored_manifests() -> dict[str, Manifest]:
    """The manifests of the sets that are stored, by name; raises `InputError` for a damaged one."""
    found = {name: each.manifest() for name, each in SETS.items()}
    return {name: manifest for name, manifest in found.items() if manifest is not None}


def stored_bytes(name: str) -> int:
    """Bytes of all files in a set's folder."""
    return bytes_of(files_of(SETS[name].path))


def by_split(manifest: Manifest, fact: str) -> dict[str, np.ndarray]:
    """Split -> [items] values of a numeric fact, splits in the order of `SPLITS`; ``all`` where a set has none.

    Items without the fact are left out, and splits without such items.
    """
    values: dict[str, list[float]] = {split: [] for split in (*SPLITS, "all")}
    for item in manifest.items:
        if isinstance(item.facts.get(fact), int | float):
            values[item.split or "all"].append(item.facts[fact])
    return {split: np.array(found) for split, found in values.items() if found}


def size_rows(manifest: Manifest, fact: str) -> list[dict[str, Any]]:
    """One row per split: number of items, and the least, the median and the most of a fact."""
    return [
        {"split": split, "items": len(found), "least": found.min(), "median": np.median(found), "most": found.max()}
        for split, found in by_split(manifest, fact).items()
    ]


def families(manifest: Manifest) -> dict[str, Mapping[str, int]]:
    """Split -> family -> number of items, most first; items without a family are left out."""
    counts: dict[str, Counter[str]] = {}
    for item in manifest.items:
        if "family" in item.facts:
            counts.setdefault(item.split or "all", Counter())[item.facts["family"]] += 1
    order = [split for split in (*SPLITS, "all") if split in counts]
    return {split: dict(sorted(counts[split].items(), key=lambda each: (-each[1], each[0]))) for split in order}
