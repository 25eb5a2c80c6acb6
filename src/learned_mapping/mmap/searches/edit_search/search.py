"""Improves a game by random edits until the budget is spent.

It starts at the best game of `priced` and of `greedy`, redraws decisions, redecides tensors and
makes room, plays an edit until the game is the incumbent's again, lets an edit lose a little if
others make up for it, and keeps what is not worse. With `REPEATING` it also decides at one place
like at another where the same buffers come.
"""

from typing import NamedTuple

import numpy as np

from learned_mapping.mmap.rules.state import share
from learned_mapping.mmap.searches.edit_search.incumbent import begin, new_incumbent
from learned_mapping.mmap.searches.edit_search.loop import COUNTS, PLAYED, improve
from learned_mapping.mmap.searches.edit_search.neighbourhood import KINDS, new_edits
from learned_mapping.mmap.searches.edit_search.repeats import repeats_of
from learned_mapping.mmap.searches.greedy import greedy
from learned_mapping.mmap.searches.priced import priced
from learned_mapping.mmap.searches.search import Search


class EditParameters(NamedTuple):
    """Hyperparameters, chosen on programs outside Table 2; seven of these are among the sixty of
    Table 3.

    They are the compiled mlperf_bert_batch_16, convnext_train_batch_32_bf16,
    fleet_mixture_of_experts, densenet_train_batch_32, inference_densenet, inference_convnext and
    inference_shufflenet."""

    length: int = 12  # Decisions of a segment, at most.
    deviation: float = 0.3  # Probability that a decision of a segment is redrawn.
    eject: float = 0.5  # Share of edits that make room.
    together: float = 0.5  # Share of those that make room for all that an instruction lacks.
    tensors: float = 0.3  # Share of the others that redecide a tensor.
    noise: float = 0.3  # Blur of the costs of what is evicted.
    # An edit that makes room is played if it gains at least this share of what it costs.
    least: float = 0.7
    refill: float = 0.5  # Probability that an edit also places what has become legal by it.
    refill_reach: int = 200  # Decisions behind an edit's last up to which it does.
    stride: int = 100  # Most buffers between the places of two edits that follow each other.
    jump: float = 0.01  # Probability of a place anywhere in the program instead.
    # Probability that an edit may lose a little, to be followed by others around it.
    trial: float = 0.3
    # Mean of what it may lose, in shares of the possible saving over the number of buffers.
    trial_loss: float = 5.0
    trial_spread: float = 100.0
    """Half of the trials may lose more: up to this many times as much, log-uniformly, the edits
    after them growing with the root of it."""
    trial_edits: int = 8  # Edits tried after it before it is undone.
    trial_stride: int = 40  # Most buffers between it and them.
    repeats: float = 0.0
    """Share of the segments that are decided like another place instead."""


PLAIN, REPEATING = EditParameters(), EditParameters(repeats=0.5)
"""The parameters of edit-search and of edit-search-repeats."""


START = 0.3  # Share of the budget after which `priced` stops at the latest.
CHUNK = 100  # Edits drawn between two looks at the budget, at most.
CHUNK_SECONDS = 0.1
# Chunks between two replays of the whole incumbent, which note anew what is legal where.
REFRESH = 20
TOLERANCE = 1e-9
"""The share of the possible saving above which a loss is an undone trial's fault: the best game is
taken up again."""


def edit_search(
    search: Search, rng: np.random.Generator, parameters: EditParameters = PLAIN
) -> None:
    """Improves the best game of the rule with prices, or of the greedy rule, by edits."""
    priced(search, share=START)
    greedy(search)
    EditSearch(search, rng, parameters).run()


class EditSearch:
    """The best game of a `Search`, improved; it has one, of which only the actions count."""

    def __init__(
        self, search: Search, rng: np.random.Generator, parameters: EditParameters = PLAIN
    ):
        self.search, self.rng, self.parameters = search, rng, parameters
        program = search.game.program
        self.incumbent = new_incumbent(program, search.program.num_tensors)
        self.edits, self.repeats = new_edits(program), repeats_of(program)
        self.counts = np.zeros((len(KINDS), COUNTS), np.int64)
        """By kind of edit: played, better, better by a trial; and, under the first kind, undone."""
        self.action = search.found.action.astype(np.int64)
        self._begin()

    @property
    def saved_s(self) -> float:
        """Seconds the incumbent saves."""
        return float(self.incumbent.saved_s[-1])

    def _begin(self) -> None:
        begin(self.search.game.program, self.search.game.state, self.incumbent, self.action)
        self.best_s = self.saved_s

    def run(self) -> None:
        """Goes on until the budget is spent; the search's best game is then the incumbent."""
        search, budget = self.search, self.search.budget
        program, state = search.game.program, search.game.state
        size, chunks = 10, 0
        while program.num_buffers and not budget.spent():
            limit = budget.remaining_samples
            began, played = budget.seconds, int(self.counts[:, PLAYED].sum())
            improve(
                program, state, self.incumbent, self.edits, self.repeats, self.parameters,
                min(size, CHUNK if limit is None else limit), self.counts, self.rng,
            )  # fmt: skip
            if limit is not None:
                size = CHUNK  # nothing but the seed may decide
            else:
                size = min(
                    max(int(size * CHUNK_SECONDS / max(budget.seconds - began, 1e-3)), 10), CHUNK
                )
            if self.saved_s < self.best_s - TOLERANCE * program.possible_saving_s:
                self._begin()
            else:
                self.action[:] = self.incumbent.moves["action"]
                self.best_s = self.saved_s
            budget.record(
                share(program, self.best_s), max(int(self.counts[:, PLAYED].sum()) - played, 1)
            )
            chunks += 1
            if chunks % REFRESH == 0:
                begin(program, state, self.incumbent, self.action)
        self._begin()
        search.game.restart()
        search.game.play_actions(self.action)
        if search.game.value > search.found.value:
            search.best = search.game.played()
