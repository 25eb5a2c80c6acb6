"""Which modules a run of paper 3 rests on, method by method, and what a learner brings to it besides: its network."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.regal.graphs import DATASETS
from learned_mapping.regal.agent.learner import read_learner, variant_to
from learned_mapping.regal.learned_methods import checkpoint_folder, chosen, chosen_variant

LAWS = ("constant-law", "spectral-law", "priority-law")
"""BRKGA with laws that no network makes."""
NETWORKS = ("gas", "regal", "regal-paper", "regal-mean", "regal-initial", "regal-local-search", "idrs")
"""What asks a network, in the order of the tables."""
CHOSEN = ("gas", "regal", "regal-local-search")
"""Those that use it as validation graphs chose."""
LEARNERS = ("constant-law", "spectral-law", "priority-law", "idrs", "gas", "regal-paper", "regal", "regal-local-search")
"""In table 1, in the order of its rows."""
QUICK_LEARNERS = ("spectral-law", "regal-paper", "regal")
TRAINING_SEEDS = (0, 1, 2)
"""Networks of each model and dataset."""
SEARCH_SEEDS = 3
"""Of a search with each network, at most."""
DIGEST_LENGTH = 16

_COMMON = (
    "learned_mapping.regal.validate", "learned_mapping.regal.searches.list_schedule",
    "learned_mapping.hardware.device_pair",
    "learned_mapping.companion.regal.graphs",
)  # fmt: skip
"""The validator, the floor, the simulator and the graphs."""
_LISTS = ("learned_mapping.regal.searches.list_schedule",)
_BRKGA = ("learned_mapping.regal.searches.brkga",)
_CLIMB = ("learned_mapping.regal.searches.local_search",)
_CODE = {
    "brkga": _BRKGA,
    "brkga-tuned": _BRKGA,
    "local-search": _CLIMB,
    "random": _CLIMB,
    "gp-dfs": _LISTS,
    "gp-list": _LISTS,
    "list-scheduler": _LISTS,
    "long-search": (*_BRKGA, *_CLIMB, *_LISTS),
    "cp-sat": ("learned_mapping.regal.bounds.cp_sat", *_BRKGA, *_CLIMB, *_LISTS),
}
_LEARNED_CODE = ("learned_mapping.regal.learned_methods",)


def code_of(run: Run) -> tuple[str, ...]:
    """Modules that one run's record rests on: those of its method, the validator, the simulator and the graphs."""
    return (*_COMMON, *_CODE.get(run.method, _LEARNED_CODE))


def brought(method: str, dataset: str) -> list[dict[str, Any]]:
    """What besides seeds and graphs decides a run, once for each variety of it.

    Nothing; or a chosen law; or one of the networks of `TRAINING_SEEDS`.

    Args:
      method: of `regal.methods`.
      dataset: of `DATASETS`; its own networks are used, as in the paper.
    """
    if method in LAWS:
        return [{"law": chosen()[method][DATASETS[dataset][1]]["chosen"]}]
    if method not in NETWORKS:
        return [{}]
    return [_network(method, f"{dataset}-{seed}") for seed in TRAINING_SEEDS]


def _network(method: str, name: str) -> dict[str, Any]:
    path = checkpoint_folder() / f"{'gas-' if method == 'gas' else ''}{name}.npz"
    found = {"network": name, "weights": _digest(str(path), path.stat().st_mtime_ns)}
    return found | ({"variant": variant_to(chosen_variant(read_learner(path)))} if method in CHOSEN else {})


@functools.lru_cache(maxsize=64)
def _digest(path: str, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGEST_LENGTH]
