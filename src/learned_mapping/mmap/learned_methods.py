"""The methods that learn, by name, and one call for all methods of paper 1.

They stand apart from `mmap.methods` so that what rests on the methods that do not learn does not change with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.mmap import methods
from learned_mapping.mmap.methods import METHODS, Result, result_of, warm_up
from learned_mapping.mmap.searches.search import Search
from learned_mapping.programs.program import Program

PAPER, GUMBEL, EDITS = "paper", "gumbel", "edits"


@dataclass(frozen=True)
class LearnedMethod:
    """One way to learn to map."""

    description: str
    agent: str
    """`PAPER`: MMap-MuZero; `GUMBEL`: with what we found to help; `EDITS`: the agent of `mmap.edits`."""
    search: str | None = None
    """Another search than the agent's own, as `MuZeroConfig.search` names it."""
    pretrained: bool = True
    """Whether the agent of `EDITS` starts from the network trained on other programs; else from a new one."""


LEARNED_METHODS = {
    "muzero-paper": LearnedMethod("MMap-MuZero as the paper has it, from scratch", PAPER),
    "gumbel": LearnedMethod("MMap-MuZero with Gumbel search, demonstrations of greedy-tuned, shaped rewards", GUMBEL),
    "muzero": LearnedMethod("edits of the game of greedy-tuned, chosen by a network trained on other programs, their "
                            "kind by what each has gained; searched two deep in the game, without learned dynamics",
                            EDITS),
}  # fmt: skip
"""By name, in the order of the tables."""
ABLATIONS = {
    "search-only": LearnedMethod("tree search with the game's own dynamics, without a network", PAPER, "exact"),
    "learning-only": LearnedMethod("MMap-MuZero that acts from its policy head, without a search", PAPER, "none"),
    "muzero-scratch": LearnedMethod("muzero, from a new network instead of the one trained on other programs", EDITS,
                                    pretrained=False),
}  # fmt: skip
"""What is left of a method without a part of it: beside `LEARNED_METHODS` and ``segment-search``, which is ``muzero``
without its network."""
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
      profile: the size of MMap-MuZero's networks: quick, full or paper.

    Raises:
      InputError: an unknown method or profile, or a budget that is not positive.
    """
    limits = {"seed": seed, "seconds": seconds, "samples": samples, "cpu": cpu, "progress": progress}
    if method in METHODS:
        return methods.solve(program, method, **limits)
    learned = {**LEARNED_METHODS, **ABLATIONS}.get(method)
    if learned is None:
        raise InputError("method", "", f"{method!r} is none of {', '.join((*ALL_METHODS, *ABLATIONS))}")
    if learned.agent == EDITS:
        return _edit(program, **limits, pretrained=learned.pretrained)
    from learned_mapping.mmap.muzero.config import improved_config, paper_config
    from learned_mapping.mmap.muzero.solve import solve as learn

    config = improved_config(profile) if learned.agent == GUMBEL else paper_config(profile)
    if learned.search is not None:
        config = dataclasses.replace(config, search=learned.search)
    return learn(program, seed, seconds=seconds, games=samples, config=config, cpu=cpu, progress=progress)


def _edit(
    program: Program,
    seed: int,
    seconds: float | None,
    samples: int | None,
    cpu: bool,
    progress: Any,
    pretrained: bool,
) -> Result:
    from learned_mapping.mmap.searches.edit_search import search as edits
    from learned_mapping.mmap.searches.edit_search.checkpoints import scorer_for
    from learned_mapping.mmap.searches.edit_search.scorer import new_scorer

    if seconds is None and samples is None:
        seconds = methods.SECONDS
    Budget(seconds=seconds, samples=samples)  # complains before anything is compiled
    warm_up()
    edits.warm_up()
    rng = np.random.default_rng(seed)
    scorer = scorer_for(program.name) if pretrained else new_scorer(rng)
    search = Search(program, Budget(seconds=seconds, samples=samples, cpu=cpu, progress=progress))
    edits.edit_search(search, rng, scorer)
    return result_of(search)
