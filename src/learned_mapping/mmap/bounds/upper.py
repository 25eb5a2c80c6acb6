"""Proven upper bounds on the return of the MMapGame: by linear programming and weak duality, and by
branch and bound.

Every game that follows the rules gives a point of the linear program of `mmap.bounds.relaxation`,
whose objective is the game's return; so no game returns more than the program's optimum. And for
any multipliers of the constraints, those that the solver returns or others, the Lagrangian over the
box of the variables is at least that optimum: `upper_bound` reports the Lagrangian, so that the
bound does not rest on the solver's tolerances.

In a game every p, c and k is 0 or 1, so its point stays feasible when the program may no longer
place half of a buffer. Branch and bound (HiGHS) proves that no such point is better than its dual
bound, whether it finishes or runs out of time: `integer_bound`. It rests on the solver's
arithmetic; `SLACK` is added for its tolerances.

**Long programs.** Above `MAX_EXACT_BUFFERS` buffers the program is cut into windows of instructions
with a relaxation each. The objective is a sum over instructions and every game satisfies every
window's constraints, so the windows' optima add up to a valid bound.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from learned_mapping.mmap.bounds.prices import price_bound
from learned_mapping.mmap.bounds.relaxation import Relaxation, minimal_copies
from learned_mapping.programs.program import Program

MAX_EXACT_BUFFERS = 4000  # Programs up to this many buffers get one linear program.
LINEAR_WINDOW, INTEGER_WINDOW = 2000, 1500  # Buffers of a window, above that.
SLACK = 1e-6  # Added to the dual bound of each window, as a share of the possible saving.
RELATIVE_GAP = 1e-4  # Branch and bound stops when its bound is this close to the best point it has.


@dataclass(frozen=True)
class UpperBound:
    """The return that no game can exceed."""

    value: float  # The return: share of the possible saving.
    saving_s: float  # The same in seconds.
    exact: bool  # Whether one program covers the whole (else a sum over windows).
    variables: int
    constraints: int
    seconds: float  # CPU seconds spent.


def upper_bound(program: Program) -> UpperBound:
    """Bounds the return of every valid game of `program` by linear programming."""
    return _over_windows(
        program, LINEAR_WINDOW, lambda relaxation, windows: relaxation.linear.bound()
    )


def integer_bound(program: Program, *, seconds: float = 60.0) -> UpperBound:
    """Bounds the return of every valid game of `program` with whole decisions; at most the value of
    `upper_bound`.

    Args:
      seconds: wall-clock limit of the solver over all windows; a shorter one gives a looser bound,
        never a wrong one.
    """
    linear = upper_bound(program)
    if program.possible_saving_s <= 0:
        return linear
    integer = _over_windows(
        program,
        INTEGER_WINDOW,
        lambda relaxation, windows: _branch_and_bound(relaxation, seconds / windows),
    )
    value = min(integer.value, linear.value)
    return replace(
        integer,
        value=value,
        saving_s=value * program.possible_saving_s,
        seconds=integer.seconds + linear.seconds,
    )


def _over_windows(
    program: Program, window: int, bound: Callable[[Relaxation, int], float]
) -> UpperBound:
    """The sum over windows of what `bound` says of a relaxation and their number, as a share; at
    most 1."""
    began = time.process_time()
    exact = program.num_buffers <= MAX_EXACT_BUFFERS
    windows = 1 if exact else -(-program.num_buffers // window)
    cuts = np.linspace(0, program.num_buffers, windows + 1)[1:-1].astype(int)
    edges = [0, *program.buffer_instruction[cuts].tolist(), program.num_instructions]
    copies = minimal_copies(program)
    value, variables, constraints = 0.0, 0, 0
    for first, last in itertools.pairwise(edges):
        if first < last:
            relaxation = Relaxation(program, first, last, copies)
            value += bound(relaxation, windows)
            variables += relaxation.linear.num_variables
            constraints += len(relaxation.linear.limits)
    value = min(value, 1.0) if program.possible_saving_s > 0 else 0.0
    seconds = time.process_time() - began
    return UpperBound(
        value, value * program.possible_saving_s, exact, variables, constraints, seconds
    )


def _branch_and_bound(relaxation: Relaxation, seconds: float) -> float:
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


def proven(program: Program) -> float:
    """A return that no mapping exceeds: by prices and, up to `MAX_EXACT_BUFFERS`
    buffers, by linear programming."""
    bound = price_bound(program)
    small = 0 < program.num_buffers <= MAX_EXACT_BUFFERS
    return min(bound, upper_bound(program).value) if small else bound
