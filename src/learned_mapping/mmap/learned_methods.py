"""The methods that learn, by name, and one call for all methods of paper 1.

They stand apart from `mmap.methods` so that what rests on the methods that do not learn does not change with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from learned_mapping.errors import InputError
from learned_mapping.mmap import methods
from learned_mapping.mmap.methods import METHODS, Result
from learned_mapping.programs.program import Program


@dataclass(frozen=True)
class LearnedMethod:
    """One way to learn to map."""

    description: str
    improved: bool
    """Whether it adds to the paper's agent what we found to help."""


LEARNED_METHODS = {
    "muzero-paper": LearnedMethod("MMap-MuZero as the paper has it", improved=False),
    "muzero": LearnedMethod("MMap-MuZero with Gumbel search, demonstrations of greedy-tuned and shaped rewards", True),
}
"""By name, in the order of the tables."""
ALL_METHODS = (*METHODS, *LEARNED_METHODS)


def solve(
    program: Program,
    method: str,
    *,
    seed: int = 0,
    seconds: float | None = None,
    samples: int | None = None,
    cpu: bool = False,
    progress: Callable[[int, float, float | None], None] | None = None,
    profile: str = "full",
) -> Result:
    """Maps `program` by any method; arguments as in `methods.solve`.

    Args:
      profile: the size of a learned method: quick, full or paper.

    Raises:
      InputError: an unknown method or profile, or a budget that is not positive.
    """
    if method not in LEARNED_METHODS:
        if method not in METHODS:
            raise InputError("method", "", f"{method!r} is none of {', '.join(ALL_METHODS)}")
        limits = {"seed": seed, "seconds": seconds, "samples": samples, "cpu": cpu, "progress": progress}
        return methods.solve(program, method, **limits)
    from learned_mapping.mmap.muzero.config import improved_config, paper_config
    from learned_mapping.mmap.muzero.solve import solve as learn

    config = improved_config(profile) if LEARNED_METHODS[method].improved else paper_config(profile)
    return learn(program, seed, seconds=seconds, games=samples, config=config, cpu=cpu, progress=progress)
