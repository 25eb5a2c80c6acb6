"""A tighter upper bound on the return: the relaxation of `mmap.relaxation` with whole decisions.

In a game every p, c and k is 0 or 1, so its point stays feasible when the program may no longer place half of a buffer.
Branch and bound (HiGHS) proves that no such point is better than its dual bound, whether it finishes or runs out of
time. Unlike that of `mmap.bound`, this bound rests on the solver's arithmetic; `SLACK` is added for its tolerances.
"""

from __future__ import annotations

import itertools
import time

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from learned_mapping.mmap.bounds.linear import MAX_EXACT_BUFFERS, UpperBound, upper_bound
from learned_mapping.mmap.bounds.relaxation import Relaxation, minimal_copies
from learned_mapping.programs.program import Program

WINDOW_BUFFERS = 1500
"""Buffers of a window, for programs above `MAX_EXACT_BUFFERS`."""
SLACK = 1e-6
"""Added to the dual bound of each window, as a share of the possible saving."""
RELATIVE_GAP = 1e-4
"""Branch and bound stops when its bound is this close to the best point it has."""


def integer_bound(program: Program, *, seconds: float = 60.0) -> UpperBound:
    """Bounds the return of every valid game of `program`; at most the value of `upper_bound`.

    Args:
      program: the program.
      seconds: wall-clock limit of the solver over all windows; a shorter one gives a looser bound, never a wrong one.
    """
    began = time.process_time()
    linear_bound = upper_bound(program)
    if program.possible_saving_s <= 0:
        return linear_bound
    exact = program.num_buffers <= MAX_EXACT_BUFFERS
    pieces = 1 if exact else -(-program.num_buffers // WINDOW_BUFFERS)
    cuts = np.linspace(0, program.num_buffers, pieces + 1)[1:-1].astype(int)
    edges = [0, *program.buffer_instruction[cuts].tolist(), program.num_instructions]
    copies = minimal_copies(program)
    value = 0.0
    variables = constraints = 0
    for first, last in itertools.pairwise(edges):
        if first < last:
            relaxation = Relaxation(program, first, last, copies)
            value += _window_bound(relaxation, seconds / pieces)
            variables += relaxation.linear.num_variables
            constraints += len(relaxation.linear.limits)
    value = min(value, linear_bound.value)
    return UpperBound(
        value=value,
        saving_s=value * program.possible_saving_s,
        exact=exact,
        variables=variables,
        constraints=constraints,
        seconds=time.process_time() - began,
    )


def _window_bound(relaxation: Relaxation, seconds: float) -> float:
    """The lower of the branch-and-bound and the Lagrangian bound of one window."""
    linear = relaxation.linear
    lagrangian = linear.bound()
    if not linear.limits or not linear.num_variables:
        return lagrangian
    whole = np.zeros(linear.num_variables)
    for variables in (relaxation.placed, relaxation.copied, relaxation.kept):
        whole[list(variables.values())] = 1
    solved = milp(
        -np.array(linear.objective),
        constraints=LinearConstraint(linear.matrix(), -np.inf, linear.limits),
        integrality=whole,
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": RELATIVE_GAP},
    )
    if solved.mip_dual_bound is None or not np.isfinite(solved.mip_dual_bound):
        return lagrangian
    return min(lagrangian, linear.constant - float(solved.mip_dual_bound) + SLACK)
