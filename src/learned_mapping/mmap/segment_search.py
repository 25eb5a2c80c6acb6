"""Local search over whole games: change a few decisions of the best game, play on as before, keep what is not worse.

No learning is involved. A move takes the game back to the first changed decision and completes it by following the
incumbent where that is legal, so a game of B buffers costs at most B decisions and usually far fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    tensor_moves: float = 0.5
    """Share of moves that redraw the decisions on one tensor instead of a segment."""
    temperature: float = 0.0
    """Accept a loss of x in return with probability exp(-x / temperature); falls linearly to 0 with the budget."""


SEGMENTS = SegmentParameters()
FALLBACK = np.array([[3.0, 1.0, 0.5], [1.0, 3.0, 0.5], [0.0, 0.5, 3.0]])
"""Preferences [3] of a buffer whose incumbent action is the row: what to try where that has become illegal."""


def segment_search(search: Search, rng: np.random.Generator, parameters: SegmentParameters = SEGMENTS) -> None:
    """Starts from the tuned threshold rule and improves its game until the budget is spent."""
    greedy_tuned(search)
    improve(search, search.best.action.astype(np.int64), rng, parameters)


def improve(search: Search, actions: np.ndarray, rng: np.random.Generator, parameters: SegmentParameters) -> None:
    """Local search from a finished game's actions [B]."""
    program, game = search.program, search.game
    buffers_of = _buffers_by_tensor(program.buffer_tensor, program.num_tensors)
    incumbent = actions.copy()
    preferences = FALLBACK[incumbent]
    game.restart()
    game.play_preferences(preferences)
    value = game.value
    same_until = program.num_buffers  # the game agrees with the incumbent up to here
    while not search.budget.spent():
        if rng.random() < parameters.tensor_moves:
            changed, wanted = _tensor_move(rng, program, buffers_of, incumbent)
        else:
            changed, wanted = _segment_move(rng, program.num_buffers, incumbent, parameters)
        if not len(changed):
            continue
        preferences[changed] = FALLBACK[wanted]
        first = int(changed[0])
        game.state.groups["forced"][:] = 0
        game.rewind(min(first, same_until))
        game.play_preferences(preferences)
        new_value = search.finish()
        if new_value >= value:
            incumbent = game.state.moves["action"].astype(np.int64)
            preferences = FALLBACK[incumbent]
            value, same_until = new_value, program.num_buffers
        else:
            preferences[changed] = FALLBACK[incumbent[changed]]
            same_until = min(first, same_until)


def _buffers_by_tensor(tensor_of: np.ndarray, num_tensors: int) -> list[np.ndarray]:
    order = np.argsort(tensor_of, kind="stable")
    return np.split(order, np.searchsorted(tensor_of[order], np.arange(1, num_tensors)))


def _segment_move(rng, num_buffers: int, incumbent: np.ndarray, parameters: SegmentParameters):
    """Redraws some of the decisions of a run of buffers, the first of them always."""
    length = int(rng.integers(1, parameters.length + 1))
    start = int(rng.integers(num_buffers))
    buffers = np.arange(start, min(start + length, num_buffers))
    redrawn = rng.random(len(buffers)) < parameters.deviation
    redrawn[0] = True
    changed = buffers[redrawn]
    return changed, (incumbent[changed] + rng.integers(1, 3, len(changed))) % 3


def _tensor_move(rng, program, buffers_of: list[np.ndarray], incumbent: np.ndarray):
    """Redecides all buffers of a tensor from one of them on: kept, copied in each time, or dropped."""
    buffers = buffers_of[int(program.buffer_tensor[rng.integers(program.num_buffers)])]
    buffers = buffers[int(rng.integers(len(buffers))) :]
    if rng.random() < 0.5:
        buffers = buffers[: int(rng.integers(1, len(buffers) + 1))]
    wanted = np.full(len(buffers), int(rng.integers(3)))
    if wanted[0] == COPY and rng.random() < 0.7:
        wanted[1:] = NO_COPY  # brought in once, then kept
    elif wanted[0] == NO_COPY and rng.random() < 0.3:
        wanted[1:] = DROP
    different = wanted != incumbent[buffers]
    return buffers[different], wanted[different]
