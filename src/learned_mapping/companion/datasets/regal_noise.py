"""Paper 3's augmentation: noise multiplies running times and sizes; the sets it makes of the traced graphs."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from learned_mapping.companion.datasets.manifest import SPLITS
from learned_mapping.companion.datasets.regal_traced_table import names
from learned_mapping.errors import InputError
from learned_mapping.hardware.device_pair import DevicePair, op_seconds
from learned_mapping.programs.graph import MAX_BYTES, MAX_SECONDS, ComputationGraph, frozen_array

SEED = 372
"""First entry of every noise seed."""
SPREAD = 0.3
"""Standard deviation of the logarithm of the noise; the paper prints none."""
AUGMENTED: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "traced-runtime": {"train": 16_329, "validation": 5_470, "test": 5_266},
        "traced-memory": {"train": 22_400, "validation": 7_400, "test": 7_400},
    }
)
"""Members of the augmented sets by split, the paper's numbers (Section 3.1)."""
OBJECTIVE: Mapping[str, str] = MappingProxyType({"traced-runtime": "runtime", "traced-memory": "memory"})
SAMPLES = 8
"""Members of each split whose digests stand for all."""


def noisy(
    graph: ComputationGraph, rng: np.random.Generator, spread: float = SPREAD, *, objective: str = "runtime"
) -> ComputationGraph:
    """The graph with every op's running time multiplied by log-normal noise, exp(spread z) with z standard normal.

    For the objective ``memory`` every tensor's bytes are multiplied too, each by noise of its own. Times, which a graph
    without its own gets from the roofline of `DevicePair`, are rounded to picoseconds, sizes to bytes; what is 0 stays.

    Args:
      graph: the topology does not change.
      rng: the only source of randomness.
      spread: at least 0; with 0 nothing changes but the rounding.
      objective: ``runtime`` or ``memory``.

    Raises:
      InputError: a negative spread or an unknown objective.
    """
    if not (np.isfinite(spread) and spread >= 0):
        raise InputError("noise", "spread", f"expected a finite number of at least 0, got {spread}")
    if objective not in OBJECTIVE.values():
        raise InputError("noise", "objective", f"expected runtime or memory, got {objective!r}")
    factors = np.exp(spread * rng.standard_normal(graph.num_ops))
    picoseconds = np.round(op_seconds(graph, DevicePair()) * factors * 1e12)
    seconds = np.minimum(picoseconds / 1e12, MAX_SECONDS)
    sizes = graph.tensor_bytes
    if objective == "memory":
        factors = np.exp(spread * rng.standard_normal(graph.num_tensors))
        sizes = np.where(sizes > 0, np.clip(np.round(sizes * factors), 1, MAX_BYTES), 0)
    return dataclasses.replace(
        graph, op_seconds=frozen_array(seconds, np.float64), tensor_bytes=frozen_array(sizes, np.int64)
    )


def pair(dataset: str, split: str, index: int) -> tuple[str, tuple[int, ...]]:
    """Graph and noise seed of a member of an augmented set; the graphs of the split take turns.

    Args:
      dataset: a key of `AUGMENTED`.
      split: one of its splits.
      index: from 0.

    Raises:
      InputError: there is no such member.
    """
    if dataset not in AUGMENTED:
        raise InputError("dataset", "", f"expected one of {', '.join(AUGMENTED)}, got {dataset!r}")
    if split not in AUGMENTED[dataset]:
        raise InputError("split", "", f"expected one of {', '.join(SPLITS)}, got {split!r}")
    if not 0 <= index < AUGMENTED[dataset][split]:
        raise InputError("index", "", f"{index} is outside [0, {AUGMENTED[dataset][split] - 1}]")
    graphs = names(split)
    return graphs[index % len(graphs)], (SEED, list(AUGMENTED).index(dataset), SPLITS.index(split), index)


def member(graph: ComputationGraph, dataset: str, split: str, index: int) -> ComputationGraph:
    """A member of an augmented set made of its graph, the one `pair` names; raises `InputError` as `pair`."""
    name, seed = pair(dataset, split, index)
    made = noisy(graph, np.random.default_rng(seed), objective=OBJECTIVE[dataset])
    return dataclasses.replace(made, name=f"{name}-noise-{index}")


def sample(dataset: str, split: str) -> list[int]:
    """`SAMPLES` indices spread evenly from the first to the last member."""
    last = AUGMENTED[dataset][split] - 1
    return [last * i // (SAMPLES - 1) for i in range(SAMPLES)]


def sample_digest(dataset: str, split: str, find: Callable[[str], ComputationGraph]) -> str:
    """SHA-256 over the digests of the members that `sample` lists, a line each; `find` gives a graph by name."""
    members = (member(find(pair(dataset, split, i)[0]), dataset, split, i) for i in sample(dataset, split))
    return hashlib.sha256("".join(each.digest + "\n" for each in members).encode()).hexdigest()


def augmented_facts(find: Callable[[str], ComputationGraph]) -> dict[str, Any]:
    """What a manifest says of the augmented sets: members, noise, and digests of a sample."""
    facts: dict[str, Any] = {}
    for dataset, splits in AUGMENTED.items():
        facts[dataset] = {
            "members": dict(splits),
            "sample": {split: sample(dataset, split) for split in splits},
            "sample_digest": {split: sample_digest(dataset, split, find) for split in splits},
        }
    return facts
