"""How long one instruction takes, for every way to spread its buffers over the two memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.programs.program import MAX_VARIED


def varied_buffers(sizes: Sequence[int]) -> list[int]:
    """Positions of the at most `MAX_VARIED` largest buffers of an instruction, in buffer order.

    The paper keeps latencies for subsets of at most 8 buffers (Appendix A); the others count as living in HBM. Ties
    go to the buffer that comes first.
    """
    largest = sorted(range(len(sizes)), key=lambda j: (-sizes[j], j))[:MAX_VARIED]
    return sorted(largest)


def instruction_latency_table(flop: float, sizes: Sequence[int], machine: Any) -> np.ndarray:
    """L_I(S) of one instruction over the subsets S of its varied buffers held in fast memory (paper 1, Appendix A).

    A roofline: L_I(S) = overhead + max(flop / peak, bytes outside S / HBM bandwidth + bytes in S / CMEM bandwidth).

    Args:
      flop: floating-point operations of the instruction.
      sizes: bytes of all its buffers; the `varied_buffers` of them may be in S.
      machine: an object with ``peak_flop_per_s``, ``hbm_bytes_per_s``, ``cmem_bytes_per_s`` and ``overhead_s``.

    Returns:
      [2^k] float64, seconds, k = min(8, len(sizes)); entry number sum(2^i for varied buffer i in S).
    """
    total = float(sum(sizes))
    in_fast = np.zeros(1)
    for position in varied_buffers(sizes):
        in_fast = np.concatenate([in_fast, in_fast + float(sizes[position])])
    moving = (total - in_fast) / machine.hbm_bytes_per_s + in_fast / machine.cmem_bytes_per_s
    return machine.overhead_s + np.maximum(flop / machine.peak_flop_per_s, moving)
