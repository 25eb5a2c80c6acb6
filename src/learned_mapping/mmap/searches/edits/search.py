"""Improves a game by edits until the budget is spent."""

from __future__ import annotations

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.searches.edits.improve import COUNTS, PLAYED, improve
from learned_mapping.mmap.searches.edits.incumbent import new_incumbent, refresh, take
from learned_mapping.mmap.searches.edits.parameters import EditParameters
from learned_mapping.mmap.searches.edits.proposals import KINDS, new_edit
from learned_mapping.mmap.searches.edits.scorer import Scorer, new_scorer
from learned_mapping.mmap.searches.search import Search

RANDOM = EditParameters()
"""One candidate: chance alone proposes."""
CHUNK = 100
"""Edits drawn between two looks at the budget, at most."""
CHUNK_SECONDS = 0.1
REFRESH = 20
"""Chunks between two replays of the whole incumbent, which note anew what is legal where."""
TOLERANCE = 1e-9
"""Of the possible saving: more than this lost is a fault of an undone trial, and the best game is taken up again."""


def warm_up(parameters: EditParameters = RANDOM) -> None:
    """Compiles the loop."""
    search = Search(toy_program(), Budget(samples=200))
    search.play_preferences(np.zeros((search.program.num_buffers, 3)))
    EditSearch(search, np.random.default_rng(0), parameters).run()


class EditSearch:
    """The best game of a `Search`, improved.

    Args:
      search: what to map and the budget; has a best game, of which only the actions count.
      rng: every random choice.
      parameters: see `EditParameters`; with one candidate chance alone proposes.
      scorer: what chooses among candidates; changed in place. None: a new one.
    """

    def __init__(
        self,
        search: Search,
        rng: np.random.Generator,
        parameters: EditParameters = RANDOM,
        scorer: Scorer | None = None,
    ):
        self.search, self.rng, self.parameters = search, rng, parameters
        self.scorer = new_scorer(rng) if scorer is None else scorer
        program = search.game.program
        self.incumbent = new_incumbent(program, search.program.num_tensors)
        self.edit = new_edit(program)
        self.counts = np.zeros((len(KINDS), COUNTS), np.int64)
        """By kind of edit: drawn, played, kept, better, tried, better by a trial, taken back."""
        self.action = search.best.action.astype(np.int64)
        self._take()

    @property
    def saved_s(self) -> float:
        """Seconds the incumbent saves."""
        return float(self.incumbent.saved_s[-1])

    def _take(self) -> None:
        take(self.search.game.program, self.search.game.state, self.incumbent, self.action)
        self.best_s = self.saved_s

    def run(self, share: float = 1.0) -> None:
        """Goes on until this share of the budget is spent; the search's best game is then the incumbent."""
        search, budget = self.search, self.search.budget
        program, state = search.game.program, search.game.state
        size, chunks = 10, 0
        while program.num_buffers and not search.spent(share):
            limit = budget.remaining_samples
            began, played = budget.seconds, int(self.counts[:, PLAYED].sum())
            improve(
                program, state, self.incumbent, self.edit, self.scorer, self.parameters,
                min(size, CHUNK if limit is None else limit), self.counts, self.rng,
            )  # fmt: skip
            if limit is not None:
                size = CHUNK  # nothing but the seed may decide
            else:
                size = min(max(int(size * CHUNK_SECONDS / max(budget.seconds - began, 1e-3)), 10), CHUNK)
            self._check()
            budget.record(self.best_s / program.possible_saving_s, max(int(self.counts[:, PLAYED].sum()) - played, 1))
            chunks += 1
            if chunks % REFRESH == 0 and not refresh(program, state, self.incumbent):
                self._take()
        self._take()
        search.game.restart()
        preferences = np.zeros((program.num_buffers, 3))
        preferences[np.arange(program.num_buffers), self.action] = 1.0
        search.game.play_preferences(preferences)
        if search.game.value > search.best.value:
            search.best = search.game.played()

    def _check(self) -> None:
        if self.saved_s < self.best_s - TOLERANCE * self.search.game.program.possible_saving_s:
            self._take()
        else:
            self.action[:] = self.incumbent.moves["action"]
            self.best_s = self.saved_s
