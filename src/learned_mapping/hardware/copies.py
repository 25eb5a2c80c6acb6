"""Which copies between HBM and CMEM a mapping asks for, and in which order: what every latency model starts from."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from learned_mapping.programs.program import Program

COPY, NO_COPY, DROP = 0, 1, 2
"""Codes of the actions in a mapping (paper 1, section 4.2)."""


class MappingLike(Protocol):
    """What the latency models read of a mapping; `learned_mapping.mmap.mapping.Mapping` has it."""

    action: np.ndarray
    offset: np.ndarray
    start: np.ndarray
    end: np.ndarray


def copies_by_step(program: Program, mapping: MappingLike) -> dict[int, list[int]]:
    """Buffers whose copy may start when a step is reached, by step; within a step those that end first come first.

    A copy of an input at step t held over [s, t] may start at s, a copy of an output of instruction t at t + 1. One
    after the last instruction has the step T.
    """
    keyed: dict[int, list[tuple[int, int]]] = {}
    for b in np.flatnonzero(np.asarray(mapping.action) == COPY).tolist():
        t = int(program.buffer_instruction[b])
        is_output = bool(program.buffer_is_output[b])
        first, last = (t + 1, int(mapping.end[b])) if is_output else (int(mapping.start[b]), t - 1)
        keyed.setdefault(min(first, program.num_instructions), []).append((last, b))
    return {step: [b for _, b in sorted(pairs)] for step, pairs in keyed.items()}
