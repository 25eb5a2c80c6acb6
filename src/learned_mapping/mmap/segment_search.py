"""Local search over whole games: change a few decisions of the best game, play on as before, keep what is not worse.

No learning is involved. A proposal takes the game back to its first changed decision, plays the changed ones, and
follows the incumbent from there where that is legal. Following can at best keep what the change has gained, so a
proposal is given up as soon as it has saved less than the incumbent had by then: most cost a few dozen decisions,
whatever the length of the program. Proposals wander through the program from each to the next, so that going there is
cheap too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from learned_mapping.mmap.evolution import evolution_policy
from learned_mapping.mmap.greedy import greedy_tuned
from learned_mapping.mmap.rules import COPY, DROP, NO_COPY
from learned_mapping.mmap.search import Search


@dataclass(frozen=True)
class SegmentParameters:
    """Hyperparameters; chosen on synthetic programs and on programs that stand in no table."""

    length: int = 12
    """Decisions of a segment, at most."""
    deviation: float = 0.3
    """Probability that a decision of the segment is redrawn."""
    tensor_moves: float = 0.3
    """Share of proposals that redraw the decisions on one tensor instead of a segment."""
    stride: int = 100
    """Most buffers between the places of two proposals that follow each other."""
    jump: float = 0.01
    """Probability of a place anywhere in the program instead."""
    look_ahead: int = 400
    """Decisions between two comparisons with the incumbent."""
    plateau_decisions: float = 2000.0
    """A proposal that has so far gained nothing is played on with probability this over the decisions left."""
    shares: tuple[float, float, float, float] = (0.2, 0.4, 0.55, 0.75)
    """Shares of the budget at which `greedy_tuned` stops, its game has been improved, `evolution_policy` stops, and its
    game has been improved; the better of the two gets the rest."""


SEGMENTS = SegmentParameters()
FALLBACK = np.array([[3.0, 1.0, 0.5], [1.0, 3.0, 0.5], [0.0, 0.5, 3.0]])
"""Preferences [3] of a buffer whose incumbent action is the row: what to try where that has become illegal."""
LOSS = 1e-12
"""Of the possible saving: less is rounding."""


def segment_search(search: Search, rng: np.random.Generator, parameters: SegmentParameters = SEGMENTS) -> None:
    """Improves two games, one of a tuned threshold rule and one of an evolved policy, then the better one."""
    tuned, improved, evolved, both = parameters.shares
    greedy_tuned(search, share=tuned)
    best = _Improvement(search, rng, parameters)
    best.run(improved)
    other = Search(search.program, search.budget)
    evolution_policy(other, rng, share=evolved)
    if other.best is not None:
        second = _Improvement(other, rng, parameters)
        second.run(both)
        if other.best.value > search.best.value:
            best = second
    best.run()
    search.best = best.search.best


class _Improvement:
    """The incumbent, and a game that agrees with it up to some buffer."""

    def __init__(self, search: Search, rng: np.random.Generator, parameters: SegmentParameters):
        self.search, self.rng, self.parameters = search, rng, parameters
        self.program, self.game = search.program, search.game
        order = np.argsort(self.program.buffer_tensor, kind="stable")
        bounds = np.searchsorted(self.program.buffer_tensor[order], np.arange(1, self.program.num_tensors))
        self.buffers_of = np.split(order, bounds)
        self.tolerance_s = LOSS * self.program.possible_saving_s
        self.place = 0
        self.incumbent = search.best.action.astype(np.int64)
        self.preferences = FALLBACK[self.incumbent]
        self.game.restart()
        self.game.play_preferences(self.preferences)
        self.adopt()

    def adopt(self) -> None:
        """Makes the finished game the incumbent."""
        moves = self.game.state.moves
        self.incumbent = moves["action"].astype(np.int64)
        self.preferences = FALLBACK[self.incumbent]
        self.saved_s = np.append(moves["saved_s"], self.game.state.game["saved_s"][0])
        self.same_until = self.program.num_buffers

    def run(self, share: float = 1.0) -> None:
        """Proposes until this share of the budget is spent."""
        if not self.program.num_buffers:
            return
        while not self.search.spent(share):
            changed, wanted = self.propose()
            if len(changed) and self.play(changed, wanted):
                self.search.finish()
                self.adopt()
            else:
                self.search.budget.record(self.search.best.value)

    def propose(self) -> tuple[np.ndarray, np.ndarray]:
        """Buffers to redecide, ascending, and the actions wanted."""
        rng, p = self.rng, self.parameters
        count = self.program.num_buffers
        if rng.random() < p.jump:
            self.place = int(rng.integers(count))
        else:
            self.place = int(self.place + rng.integers(-p.stride, p.stride + 1)) % count
        return self.tensor_move() if rng.random() < p.tensor_moves else self.segment_move()

    def segment_move(self) -> tuple[np.ndarray, np.ndarray]:
        """Redraws some of the decisions of a run of buffers, the first of them always."""
        length = int(self.rng.integers(1, self.parameters.length + 1))
        buffers = np.arange(self.place, min(self.place + length, self.program.num_buffers))
        redrawn = self.rng.random(len(buffers)) < self.parameters.deviation
        redrawn[0] = True
        changed = buffers[redrawn]
        return changed, (self.incumbent[changed] + self.rng.integers(1, 3, len(changed))) % 3

    def tensor_move(self) -> tuple[np.ndarray, np.ndarray]:
        """Redecides uses of one tensor in a row: kept, copied in once or each time, or dropped."""
        rng = self.rng
        buffers = self.buffers_of[int(self.program.buffer_tensor[self.place])]
        buffers = buffers[int(rng.integers(len(buffers))) :]
        if rng.random() < 0.5:
            buffers = buffers[: int(rng.integers(1, len(buffers) + 1))]
        wanted = np.full(len(buffers), int(rng.integers(3)))
        if wanted[0] == COPY and rng.random() < 0.7:
            wanted[1:] = NO_COPY
        elif wanted[0] == NO_COPY and rng.random() < 0.3:
            wanted[1:] = DROP
        different = wanted != self.incumbent[buffers]
        return buffers[different], wanted[different]

    def play(self, changed: np.ndarray, wanted: np.ndarray) -> bool:
        """Plays a proposal as far as it is worth it; whether it went to the end without a loss."""
        program, game = self.program, self.game
        first = int(changed[0])
        game.state.groups["forced"][:] = 0
        game.rewind(min(first, self.same_until))
        resets = game.resets
        self.preferences[changed] = FALLBACK[wanted]
        stop = int(program.buffer_offsets[program.buffer_instruction[changed[-1]] + 1])
        kept = False
        while True:
            game.play_preferences(self.preferences, stop)
            gain_s = float(game.state.game["saved_s"][0]) - self.saved_s[game.cursor]
            if gain_s < -self.tolerance_s:
                break
            if game.over:
                kept = True
                break
            left = program.num_buffers - game.cursor
            if gain_s <= self.tolerance_s and self.rng.random() * left > self.parameters.plateau_decisions:
                break
            stop = game.cursor + self.parameters.look_ahead
        self.same_until = min(first, self.same_until)
        if game.resets != resets:  # a Drop-backup went behind the proposal
            before = game.state.moves["action"][: self.same_until] != self.incumbent[: self.same_until]
            if before.any():
                self.same_until = int(np.argmax(before))
        if not kept:
            self.preferences[changed] = FALLBACK[self.incumbent[changed]]
        return kept
