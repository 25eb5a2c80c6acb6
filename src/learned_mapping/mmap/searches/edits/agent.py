"""The learned agent: edits of the best game, chosen by what has been learned of their outcomes.

What is left of MuZero: a learned judgement that serves as policy and value, a search that tries the likeliest two edits
deep, and Drop-backup. The model is the game itself; no dynamics are learned. One network serves all programs: it sees
what an edit asks for and what stands in its way, not where in which program, so it is trained on some and goes on
learning on the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mmap.searches.edits.parameters import EditParameters
from learned_mapping.mmap.searches.edits.scorer import Scorer, new_scorer
from learned_mapping.mmap.searches.edits.search import EditSearch
from learned_mapping.mmap.searches.greedy import greedy_tuned
from learned_mapping.mmap.searches.search import Search
from learned_mapping.mmap.searches.segment_search import START
from learned_mapping.programs.program import Program

LEARNED = EditParameters(candidates=16)
"""As the random search, but for 16 edits to choose from, and ways to propose chosen by what they gain."""


def edit_agent(search: Search, rng: np.random.Generator, scorer: Scorer, parameters: EditParameters = LEARNED) -> None:
    """Improves the game of the tuned threshold rule by edits that `scorer`, changed in place, chooses."""
    greedy_tuned(search, share=START)
    EditSearch(search, rng, parameters, scorer).run()


def pretrain(
    programs: Iterable[Program],
    seconds: float,
    rng: np.random.Generator,
    parameters: EditParameters = LEARNED,
    report: Callable[[Program, float], None] = lambda program, value: None,
) -> Scorer:
    """One network trained on one program after the other, for `seconds` CPU seconds each."""
    scorer = new_scorer(rng)
    for program in programs:
        search = Search(program, Budget(seconds=seconds, cpu=True))
        edit_agent(search, rng, scorer, parameters)
        report(program, search.best.value)
    return scorer
