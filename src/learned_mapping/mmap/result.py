"""What every way to map a program returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from learned_mapping.mmap.mapping import Mapping

SECONDS = 10.0
"""Every search gets this much unless told otherwise."""


@dataclass(frozen=True)
class Result:
    """A mapping and how it came about."""

    solution: Mapping
    metrics: dict[str, float]
    """``return`` (share of the possible saving), ``saving_s``, ``latency_s`` (the whole program, with stalls),
    ``resets`` (dead ends in the best game)."""
    curve: dict[str, Any]
    """The best return over time and samples, as `Budget.curve` gives it."""
    samples: int
    """Games played; a game played on from the middle of another counts as one, and so does a planned mapping."""
    seconds: float
