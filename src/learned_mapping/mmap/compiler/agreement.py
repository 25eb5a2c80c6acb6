"""How far two mappings of a program put the same buffers into fast memory."""

from __future__ import annotations

import numpy as np

from learned_mapping.mmap.mapping import Mapping
from learned_mapping.programs.program import Program


def placement_agreement(program: Program, one: Mapping, other: Mapping) -> dict[str, float]:
    """Agreement of placements, fast memory or HBM, buffer by buffer; offsets and intervals do not count.

    Returns:
      ``agreement``, the share of the buffers that both put into the same memory; ``agreement_bytes``, the same by
      bytes; ``agreement_benefit``, among the buffers whose initial benefit is positive, by that benefit (1 where there
      is none); ``kappa``, Cohen's: 1 for equal placements, 0 for what two mappings that place as much share by chance.
    """
    same = one.placed == other.placed
    benefit = np.maximum(program.initial_benefit_s, 0.0)
    share = float(same.mean()) if len(same) else 1.0
    p, q = (float(m.placed.mean()) if len(same) else 0.0 for m in (one, other))
    chance = p * q + (1 - p) * (1 - q)
    return {
        "agreement": share,
        "agreement_bytes": _weighted(same, program.buffer_bytes),
        "agreement_benefit": _weighted(same, benefit),
        "kappa": (share - chance) / (1 - chance) if chance < 1 else 1.0,
    }


def _weighted(same: np.ndarray, weight: np.ndarray) -> float:
    total = float(weight.sum())
    return float(weight[same].sum()) / total if total > 0 else 1.0
