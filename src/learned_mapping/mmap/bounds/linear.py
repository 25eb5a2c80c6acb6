"""A proven upper bound on the return of the MMapGame, by linear programming and weak duality.

Every game that follows the rules gives a point of the linear program of `mmap.relaxation`, whose objective is the
game's return; so no game returns more than the program's optimum. And for any multipliers of the constraints, those
that the solver returns or others, the Lagrangian over the box of the variables is at least that optimum: `upper_bound`
reports the Lagrangian, so that the bound does not rest on the solver's tolerances.

**Long programs.** Above `max_exact_buffers` buffers the program is cut into windows of instructions with a relaxation
each. The objective is a sum over instructions and every game satisfies every window's constraints, so the windows'
optima add up to a valid bound.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np

from learned_mapping.mmap.bounds.relaxation import Relaxation, minimal_copies
from learned_mapping.programs.program import Program

MAX_EXACT_BUFFERS = 4000
"""Programs up to this many buffers get one linear program."""
WINDOW_BUFFERS = 2000
"""Buffers of a window, above that."""


@dataclass(frozen=True)
class UpperBound:
    """What no game can exceed."""

    value: float
    """The return: share of the possible saving."""
    saving_s: float
    """The same in seconds."""
    exact: bool
    """Whether one linear program covers the whole (else a sum over windows)."""
    variables: int
    constraints: int
    seconds: float
    """CPU seconds spent."""


def upper_bound(program: Program, *, max_exact_buffers: int = MAX_EXACT_BUFFERS) -> UpperBound:
    """Bounds the return of every valid game of `program`; see the module's docstring for the proof.

    Args:
      program: the program.
      max_exact_buffers: above this many buffers the program is cut into windows.
    """
    began = time.process_time()
    exact = program.num_buffers <= max_exact_buffers
    pieces = 1 if exact else -(-program.num_buffers // min(WINDOW_BUFFERS, max_exact_buffers))
    cuts = np.linspace(0, program.num_buffers, pieces + 1)[1:-1]
    edges = [0, *program.buffer_instruction[cuts.astype(int)].tolist(), program.num_instructions]
    copies = minimal_copies(program)
    saving = 0.0
    variables = constraints = 0
    for first, last in itertools.pairwise(edges):
        if first == last:
            continue
        linear = Relaxation(program, first, last, copies).linear
        saving += linear.bound()
        variables += linear.num_variables
        constraints += len(linear.limits)
    possible = program.possible_saving_s
    value = min(saving, 1.0) if possible > 0 else 0.0
    return UpperBound(
        value=value,
        saving_s=value * possible,
        exact=exact,
        variables=variables,
        constraints=constraints,
        seconds=time.process_time() - began,
    )
