"""Local search over whole games without learning: edits of the best game, drawn at random.

The machinery is that of the learned agent (`mmap.edits`): it starts at the game of `greedy_tuned`, redraws decisions,
redecides tensors and makes room, plays an edit until the game is the incumbent's again, lets an edit lose a little if
others make up for it, and keeps what is not worse. Only nothing chooses among edits but chance.
"""

from __future__ import annotations

import numpy as np

from learned_mapping.mmap.searches.edits.parameters import EditParameters
from learned_mapping.mmap.searches.edits.search import RANDOM, EditSearch
from learned_mapping.mmap.searches.greedy import greedy_tuned
from learned_mapping.mmap.searches.search import Search

START = 0.1
"""Share of the budget after which `greedy_tuned` stops at the latest."""


def segment_search(search: Search, rng: np.random.Generator, parameters: EditParameters = RANDOM) -> None:
    """Improves the game of the tuned threshold rule by random edits."""
    greedy_tuned(search, share=START)
    EditSearch(search, rng, parameters).run()
