"""Demonstrations: any mapping as a game in the replay (the paper's section 3, Reanalyse: "external demonstrations")."""

from __future__ import annotations

import numpy as np

from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.muzero.position import Position
from learned_mapping.mmap.muzero.records import Record, first_row
from learned_mapping.mmap.muzero.representation import Observer
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY

INSTEAD = {COPY: (COPY, NO_COPY, DROP), NO_COPY: (NO_COPY, COPY, DROP), DROP: (DROP, NO_COPY, COPY)}
"""What to do where the wanted action is not legal, in this order: the compiler's mapping may break the game's rules."""


def follow(position: Position, wanted: np.ndarray) -> int:
    """The legal action closest to the wanted ones [B] at the position's buffer."""
    for action in INSTEAD[int(wanted[position.game.cursor])]:
        if position.legal[action]:
            return action
    raise AssertionError("a decision has a legal action")


def demonstrate(
    position: Position, wanted: np.ndarray, observer: Observer, value_scale: float, confidence: float = 1.0
) -> Record:
    """Plays a mapping's actions [B] as a game, from the start of the position.

    Policy targets give the action taken the probability `confidence`, and the other legal ones the rest; values are the
    returns that followed. Reanalyse replaces both in time.
    """
    record = Record(position)
    record.restart()
    while not position.over:
        action = follow(position, wanted)
        policy = np.where(position.legal, (1.0 - confidence) / (position.legal.sum() - 1), 0.0)
        policy[action] = confidence
        record.decide(first_row(observer([position])), action, policy, 0.0, 0.0)
    record.value = (value_scale * record.returns_to_go()).tolist()
    return record


def wanted_actions(mapping: Mapping) -> np.ndarray:
    """[B] int64: a mapping's actions."""
    return mapping.action.astype(np.int64)
