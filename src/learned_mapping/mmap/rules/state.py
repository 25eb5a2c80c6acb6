"""A program and a game as flat arrays: what the compiled kernel reads, and what it changes in place and rewinds."""

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.rules.actions import NEVER, NO_OFFSET
from learned_mapping.programs.program import NO_ALIAS, Program

BUFFER = np.dtype(
    [
        ("instruction", "i8"),  # target_time(b)
        ("tensor", "i8"),
        ("is_output", "i8"),
        ("alias", "i8"),  # group number or NO_ALIAS
        ("bit", "i8"),  # in its instruction's latency table, or -1
        ("bytes", "i8"),
        ("live_end", "i8"),  # last step of the tensor's live range
        ("uses_left", "i8"),  # later buffers of the same tensor
        ("next_use", "i8"),  # step of the next of them, or -1
        ("group_left", "i8"),  # later buffers of the same alias group
        ("demand_s", "f8"),
        ("benefit_s", "f8"),  # L_I({}) - L_I({b})
        ("benefit_left_s", "f8"),  # sum of benefit_s over the later buffers of the same tensor
    ]
)
"""One record per buffer, in the order of the game."""


class ProgramArrays(NamedTuple):
    """What the game needs to know of a program; never written to."""

    buffers: np.ndarray  # [B] `BUFFER`.
    first_buffer: np.ndarray
    """[T + 1] int64: the buffers of step t are ``range(first_buffer[t], first_buffer[t + 1])``."""
    table_start: np.ndarray  # [T + 1] int64: where the step's latency table starts in `latency_s`.
    latency_s: np.ndarray  # float64, seconds.
    supply_s: np.ndarray  # [T] float64, seconds.
    is_parameter: np.ndarray  # [N] bool.
    updated_offsets: np.ndarray
    """[B + 1] int64: output b updates ``updated[updated_offsets[b]:updated_offsets[b + 1]]`` in place (rule 7)."""
    updated: np.ndarray  # int64 tensors.
    num_groups: int
    fast_bytes: int
    possible_saving_s: float

    @property
    def num_buffers(self) -> int:
        return len(self.buffers)

    @property
    def num_instructions(self) -> int:
        return len(self.supply_s)


def program_arrays(program: Program | ProgramArrays) -> ProgramArrays:
    """The flat arrays of a program; arrays are passed through."""
    if isinstance(program, ProgramArrays):
        return program
    buffers = np.zeros(program.num_buffers, BUFFER)
    buffers["instruction"] = program.buffer_instruction
    buffers["tensor"] = program.buffer_tensor
    buffers["is_output"] = program.buffer_is_output
    buffers["alias"] = program.buffer_alias
    buffers["bit"] = program.buffer_bit
    buffers["bytes"] = program.buffer_bytes
    buffers["live_end"] = program.tensor_live[program.buffer_tensor, 1]
    buffers["demand_s"] = program.buffer_demand_s
    buffers["benefit_s"] = program.initial_benefit_s
    buffers["next_use"] = -1
    last_of_tensor = np.full(program.num_tensors, -1)
    members_left = np.zeros(max(program.num_alias_groups, 1), np.int64)
    for b in range(program.num_buffers - 1, -1, -1):
        later = last_of_tensor[buffers["tensor"][b]]
        if later >= 0:
            buffers["uses_left"][b] = buffers["uses_left"][later] + 1
            buffers["next_use"][b] = buffers["instruction"][later]
            buffers["benefit_left_s"][b] = buffers["benefit_left_s"][later] + buffers["benefit_s"][later]
        last_of_tensor[buffers["tensor"][b]] = b
        group = buffers["alias"][b]
        if group != NO_ALIAS:
            buffers["group_left"][b] = members_left[group]
            members_left[group] += 1
    return ProgramArrays(
        buffers=buffers,
        first_buffer=np.asarray(program.buffer_offsets),
        table_start=np.asarray(program.latency_offsets),
        latency_s=np.asarray(program.latency_s),
        supply_s=np.asarray(program.supply_s),
        is_parameter=np.asarray(program.tensor_is_parameter),
        updated_offsets=np.cumsum([0, *map(len, program.updated_tensors)]),
        updated=np.array([tensor for tensors in program.updated_tensors for tensor in tensors], np.int64),
        num_groups=program.num_alias_groups,
        fast_bytes=program.fast_bytes,
        possible_saving_s=program.possible_saving_s,
    )


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

    game: np.ndarray  # [1] `GAME`.
    supply_s: np.ndarray  # [T] float64: W.
    steps: np.ndarray  # [T] `STEP`.
    tensors: np.ndarray  # [N] `TENSOR`.
    groups: np.ndarray  # [G or 1] `GROUP`.
    rectangles: np.ndarray  # [B] `RECTANGLE`, the first `num_rectangles` in use.
    live: np.ndarray  # [B] `LIVE`, the first `num_live` in use, by offset: the rectangles that end at `now` or later.
    outcomes: np.ndarray  # [3] `OUTCOME` of the three actions on buffer `evaluated`.
    moves: np.ndarray  # [B] `MOVE`, the first `cursor` in use: the decisions, and the log that takes them back.
    drained: np.ndarray  # [T + 2 B] `DRAINED`: the supplies that copies changed, as they were before.
    scratch: np.ndarray  # [B] int64, for the kernel's own use.


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


@numba.njit(cache=True)
def copy_state(target: GameState, source: GameState) -> None:
    """Makes `target`, a state of the same program, equal to `source`: the parts in use only."""
    game = source.game[0]
    target.game[:] = source.game
    target.supply_s[:] = source.supply_s
    target.steps[:] = source.steps
    target.tensors[:] = source.tensors
    target.groups[:] = source.groups
    target.outcomes[:] = source.outcomes
    target.rectangles[: game.num_rectangles] = source.rectangles[: game.num_rectangles]
    target.live[: game.num_live] = source.live[: game.num_live]
    target.moves[: game.cursor] = source.moves[: game.cursor]
    target.drained[: game.num_drained] = source.drained[: game.num_drained]
