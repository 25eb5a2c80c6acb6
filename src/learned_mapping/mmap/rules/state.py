"""The state of a game as flat arrays: what the compiled kernel changes in place, copies and rewinds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learned_mapping.mmap.rules.actions import NEVER, NO_OFFSET
from learned_mapping.mmap.rules.arrays import ProgramArrays

NONE = -1

TENSOR = np.dtype(
    [
        ("end", "i8"),  # last step of its latest allocation, or NONE
        ("offset", "i8"),  # of its latest allocation
        ("rectangle", "i8"),  # the rectangle of that, or NONE where it takes no space
        ("in_hbm_from", "i8"),  # first step at which HBM has the data, or NEVER
    ]
)
STEP = np.dtype(
    [
        ("joined", "i8"),  # 1 where one copy runs through this step and the next
        ("ended", "i8"),  # first rectangle of the list of those that end here, or NONE
        ("placed", "i8"),  # B' as an index into the latency table
    ]
)
GROUP = np.dtype([("status", "i8"), ("offset", "i8"), ("forced", "i8")])
RECTANGLE = np.dtype(
    [("offset", "i8"), ("top", "i8"), ("end", "i8"), ("tensor", "i8"), ("next", "i8"), ("previous", "i8")]
)
"""An allocation: bytes [offset, top), up to step `end`. It begins at or before the step being decided, so its start
never matters. `next` and `previous` link those of equal end."""
LIVE = np.dtype([("offset", "i8"), ("top", "i8"), ("rectangle", "i8")])
OUTCOME = np.dtype(
    [("legal", "i8"), ("start", "i8"), ("end", "i8"), ("offset", "i8"), ("leftover_s", "f8"), ("reward_s", "f8")]
)
"""What an action would do: I(b) = [start, end] (empty where end < start), O(b), the supply left at the copy's far step,
and the reward."""
MOVE = np.dtype(
    [
        ("action", "i8"),
        ("start", "i8"),
        ("end", "i8"),
        ("offset", "i8"),
        ("reward_s", "f8"),
        # What was there before, for going back.
        ("saved_s", "f8"),
        ("tensor_end", "i8"),
        ("tensor_offset", "i8"),
        ("tensor_rectangle", "i8"),
        ("in_hbm_from", "i8"),
        ("opened_group", "i8"),  # 1 where this move decided its alias group
        ("open_groups", "i8"),
        ("backup", "i8"),
        ("num_drained", "i8"),
        ("num_rectangles", "i8"),
    ]
)
DRAINED = np.dtype([("step", "i8"), ("supply_s", "f8")])
GAME = np.dtype(
    [
        ("cursor", "i8"),  # the buffer to decide next; B when the game is over
        ("evaluated", "i8"),  # the buffer whose outcomes are known, or NONE
        ("now", "i8"),  # rectangles that end at or after this step are in `live`
        ("num_live", "i8"),
        ("live_bytes", "i8"),
        ("num_rectangles", "i8"),
        ("num_drained", "i8"),
        ("open_groups", "i8"),
        ("backup", "i8"),  # the prefix Drop-backup returns to
        ("resets", "i8"),  # dead ends met
        ("moves", "i8"),  # decisions made, those taken back included
        ("saved_s", "f8"),  # sum of the rewards
    ]
)


class GameState(NamedTuple):
    """A game in progress; the kernel works on it in place."""

    game: np.ndarray
    """[1] `GAME`."""
    supply_s: np.ndarray
    """[T] float64: W."""
    steps: np.ndarray
    """[T] `STEP`."""
    tensors: np.ndarray
    """[N] `TENSOR`."""
    groups: np.ndarray
    """[G or 1] `GROUP`."""
    rectangles: np.ndarray
    """[B] `RECTANGLE`, the first `num_rectangles` in use."""
    live: np.ndarray
    """[B] `LIVE`, the first `num_live` in use, by offset: the rectangles that end at `now` or later."""
    outcomes: np.ndarray
    """[3] `OUTCOME` of the three actions on buffer `evaluated`."""
    moves: np.ndarray
    """[B] `MOVE`, the first `cursor` in use: the decisions, and the log that takes them back."""
    drained: np.ndarray
    """[T + 2 B] `DRAINED`: the supplies that copies changed, as they were before."""
    scratch: np.ndarray
    """[B] int64, for the kernel's own use."""


def new_state(program: ProgramArrays) -> GameState:
    """A game of which nothing is decided yet."""
    num_buffers, num_steps = program.num_buffers, program.num_instructions
    tensors = np.zeros(len(program.is_parameter), TENSOR)
    tensors["end"] = tensors["rectangle"] = NONE
    tensors["offset"] = NO_OFFSET
    tensors["in_hbm_from"] = np.where(program.is_parameter, 0, NEVER)
    steps = np.zeros(num_steps, STEP)
    steps["ended"] = NONE
    groups = np.zeros(max(program.num_groups, 1), GROUP)
    groups["offset"] = NO_OFFSET
    game = np.zeros(1, GAME)
    game["evaluated"] = NONE
    return GameState(
        game=game,
        supply_s=program.supply_s.copy(),
        steps=steps,
        tensors=tensors,
        groups=groups,
        rectangles=np.zeros(num_buffers, RECTANGLE),
        live=np.zeros(num_buffers, LIVE),
        outcomes=np.zeros(3, OUTCOME),
        moves=np.zeros(num_buffers, MOVE),
        drained=np.zeros(num_steps + 2 * num_buffers, DRAINED),
        scratch=np.zeros(num_buffers, np.int64),
    )


def copy_state(target: GameState, source: GameState) -> None:
    """Makes `target`, a state of the same program, equal to `source`, a snapshot taken or restored."""
    game = source.game[0]
    cursor, rectangles, drained = int(game["cursor"]), int(game["num_rectangles"]), int(game["num_drained"])
    used = {"rectangles": rectangles, "live": int(game["num_live"]), "moves": cursor, "drained": drained, "scratch": 0}
    for name, to, origin in zip(GameState._fields, target, source):
        count = used.get(name, len(to))
        to[:count] = origin[:count]
