"""Paper 1: which buffers live in fast memory, when, and at what offset (the MMapGame)."""

from typing import TYPE_CHECKING

from learned_mapping.lazy import lazily
from learned_mapping.mmap.validate import validate

if TYPE_CHECKING:
    from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
    from learned_mapping.mmap import env
    from learned_mapping.mmap.mapping import Mapping
    from learned_mapping.mmap.methods import METHODS, PROBLEM, solve
    from learned_mapping.mmap.rules.play import Game

__all__ = ["METHODS", "PROBLEM", "Game", "Mapping", "MemoryHierarchy", "env", "solve", "validate"]

__getattr__, __dir__ = lazily(
    __name__,
    env="env",
    solve="methods",
    METHODS="methods",
    PROBLEM="methods",
    Game="rules.play",
    Mapping="mapping",
    MemoryHierarchy="validate",
    ACTION_NAMES="rules.actions",
    all_dropped="mapping",
    mapping_of="rules.play",
    toy_program="rules.actions",
    price_bound="bounds.prices",
    upper_bound="bounds.upper",
)
