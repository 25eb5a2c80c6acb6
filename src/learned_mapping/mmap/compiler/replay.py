"""A mapping made under other rules, such as the compiler's, played under the game's: what of it the game allows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from learned_mapping.hardware.memory_hierarchy import placed_latency_s
from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.actions import ACTION_NAMES, COPY, DROP, NO_COPY, NUM_ACTIONS
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program

NEAREST = {COPY: (COPY, NO_COPY, DROP), NO_COPY: (NO_COPY, COPY, DROP), DROP: (DROP, NO_COPY, COPY)}
"""What is taken where the wanted action is not legal: one that keeps the buffer in the same memory before another."""


@dataclass(frozen=True)
class Replay:
    """A mapping as the game allows it, and what had to give."""

    mapping: Mapping
    """Obeys every rule, the shortest copies and lowest offsets included."""
    value: float
    """Its return."""
    claimed: float
    """The share of the possible saving that the wanted placements would have, were they allowed."""
    changed: dict[str, int]
    """``"Copy to Drop"`` and so on: decisions by what was wanted and what was made; those kept do not count."""
    resets: int
    """Dead ends met; each forces an alias group to Drop."""

    @property
    def kept(self) -> float:
        """The share of the decisions that could be made as wanted."""
        return 1.0 - sum(self.changed.values()) / max(len(self.mapping.action), 1)


def preferences_for(wanted: np.ndarray) -> np.ndarray:
    """[B, 3] float64: preferences by which a game makes the wanted actions [B], else the nearest legal ones."""
    rank = np.zeros((NUM_ACTIONS, NUM_ACTIONS))
    for action, order in NEAREST.items():
        rank[action, list(order)] = np.arange(NUM_ACTIONS, 0, -1)
    return rank[np.asarray(wanted, np.int64)]


def replay(program: Program, wanted: Mapping) -> Replay:
    """Makes the decisions of `wanted` in order, at offsets and over intervals as the game chooses them.

    Where one is illegal the nearest legal action is taken, and Drop-backup where none is legal.

    Args:
      program: the program.
      wanted: a mapping of it that need not be valid: only its actions count.
    """
    game = Game(program)
    game.play_preferences(preferences_for(wanted.action))
    played = game.played()
    mapping = make_mapping(program, played.action, played.offset, played.start, played.end)
    return Replay(
        mapping=mapping,
        value=played.value,
        claimed=claimed_share(program, wanted),
        changed=changes(wanted, mapping),
        resets=played.resets,
    )


def changes(wanted: Mapping, made: Mapping) -> dict[str, int]:
    """Decisions that differ, by what was wanted and what was made: ``"Copy to Drop"`` and so on."""
    moved = Counter(
        f"{ACTION_NAMES[was]} to {ACTION_NAMES[now]}"
        for was, now in zip(wanted.action.tolist(), made.action.tolist())
        if was != now
    )
    return dict(sorted(moved.items()))


def claimed_share(program: Program, mapping: Mapping) -> float:
    """What the instructions save if every placed buffer is in fast memory when they run, valid or not: the sum of
    L_I({}) - L_I(S) as a share of the possible saving."""
    possible = program.possible_saving_s
    saving = float(program.slow_s.sum() - placed_latency_s(program, mapping.placed).sum())
    return saving / possible if possible > 0 else 0.0
