"""A program and a game as flat arrays: what the compiled kernel reads, and what it changes in place
and rewinds."""

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.errors import expect_type
from learned_mapping.mmap.rules.actions import NEVER, NO_OFFSET
from learned_mapping.programs.graph import frozen_array
from learned_mapping.programs.program import NO_ALIAS, Program


def record(names: str) -> np.dtype:
    """A record of these fields: float64 where a name ends in ``_s``, for seconds, or in ``_share``,
    else int64."""
    floats = ("_s", "_share")
    return np.dtype([(name, "f8" if name.endswith(floats) else "i8") for name in names.split()])


BUFFER = record(
    "instruction tensor is_output alias bit bytes live_end uses_left next_use group_left demand_s"
    " benefit_s benefit_left_s"
)
"""One record per buffer, in the order of the game: its target_time, tensor, whether it is an
output, alias group or `NO_ALIAS`, bit in its instruction's latency table or -1, bytes, the last
step of its tensor's live range; how many later buffers the tensor has, the step of the next of them
or -1, and how many the alias group has; demand, L_I({}) - L_I({b}), and the sum of the latter over
the tensor's later buffers."""


class ProgramArrays(NamedTuple):
    """The program as the game needs it; never written to."""

    buffers: np.ndarray  # [B] `BUFFER`.
    first_buffer: np.ndarray
    """[T + 1] int64: the buffers of step t are ``range(first_buffer[t], first_buffer[t + 1])``."""
    table_start: np.ndarray  # [T + 1] int64: where the step's latency table starts in `latency_s`.
    latency_s: np.ndarray  # float64, seconds.
    supply_s: np.ndarray  # [T] float64, seconds.
    is_parameter: np.ndarray  # [N] bool.
    updated_offsets: np.ndarray
    """[B + 1] int64: output b updates ``updated[updated_offsets[b]:updated_offsets[b + 1]]`` in
    place (rule 7)."""
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
    """The flat arrays of a program, read-only whatever the program's are: for others all would be
    compiled again. What has been made so is passed through."""
    if isinstance(program, ProgramArrays):
        return program
    expect_type(program, Program, "program")
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
            buffers["benefit_left_s"][b] = (
                buffers["benefit_left_s"][later] + buffers["benefit_s"][later]
            )
        last_of_tensor[buffers["tensor"][b]] = b
        group = buffers["alias"][b]
        if group != NO_ALIAS:
            buffers["group_left"][b] = members_left[group]
            members_left[group] += 1
    return ProgramArrays(
        buffers=buffers,
        first_buffer=frozen_array(program.buffer_offsets, np.int64),
        table_start=frozen_array(program.latency_offsets, np.int64),
        latency_s=frozen_array(program.latency_s, np.float64),
        supply_s=frozen_array(program.supply_s, np.float64),
        is_parameter=frozen_array(program.tensor_is_parameter, bool),
        updated_offsets=np.cumsum([0, *map(len, program.updated_tensors)]),
        updated=np.array(
            [tensor for tensors in program.updated_tensors for tensor in tensors], np.int64
        ),
        num_groups=program.num_alias_groups,
        fast_bytes=program.fast_bytes,
        possible_saving_s=program.possible_saving_s,
    )


def share(program: Program | ProgramArrays, saved_s: float) -> float:
    """The return of so many seconds saved, at most 1 though they were added up one by one; 0 where
    no placement saves anything."""
    return min(saved_s / program.possible_saving_s, 1.0) if program.possible_saving_s > 0 else 0.0


def benefit_unit(program: ProgramArrays) -> float:
    """The unit of benefits and rewards, in seconds: the mean over buffers of what each saves placed
    first, a loss as 0. Where only placements together save anything it is an equal share of that; 1
    where nothing does."""
    benefits = program.buffers["benefit_s"]
    mean = float(np.maximum(benefits, 0.0).mean()) if len(benefits) else 0.0
    return mean or program.possible_saving_s / max(len(benefits), 1) or 1.0


def supply_unit(program: ProgramArrays) -> float:
    """The unit of demand and supply, in seconds: the mean supply of a step; 1 where no step
    supplies any."""
    return float(program.supply_s.mean() if len(program.supply_s) else 0.0) or 1.0


NONE = -1

TENSOR = record("end offset rectangle in_hbm_from")
"""The last step and the offset of its latest allocation, the rectangle of that (each `NONE` without
one), and the first step at which HBM has the data, or `NEVER`."""
STEP = record("joined ended placed")
"""1 where one copy runs through this step and the next; the first rectangle of the list of those
that end here, or `NONE`; B' as an index into the latency table."""
GROUP = record("status offset forced")
RECTANGLE = record("offset top end tensor next previous")
"""An allocation: bytes [offset, top), up to step `end`. It begins at or before the step being
decided, so its start never matters. `next` and `previous` link those of equal end."""
LIVE = record("offset top rectangle")
OUTCOME = record("legal start end offset leftover_s reward_s")
"""The outcome of an action: I(b) = [start, end] (empty where end < start), O(b), the supply left at
the copy's far step, and the reward."""
MOVE = record(
    "action start end offset reward_s saved_s tensor_end tensor_offset tensor_rectangle in_hbm_from"
    " opened_group open_groups backup num_drained num_rectangles"
)
"""A decision with its outcome, and from `saved_s` on what was there before, for going back;
`opened_group` is 1 where it decided its alias group."""
DRAINED = record("step supply_s")
GAME = record(
    "cursor evaluated now num_live live_bytes num_rectangles num_drained open_groups backup resets"
    " moves saved_s"
)
"""The buffer to decide next, B when the game is over; the buffer whose outcomes are known, or
`NONE`; the step from which on rectangles that end are in `live`, how many these are and their
bytes; how many rectangles and drained supplies are in use, and alias groups open; the prefix
Drop-backup returns to; dead ends met; decisions made, those taken back included; and the sum of the
rewards."""


class GameState(NamedTuple):
    """A game in progress; the kernel works on it in place."""

    game: np.ndarray  # [1] `GAME`.
    supply_s: np.ndarray  # [T] float64: W.
    steps: np.ndarray  # [T] `STEP`.
    tensors: np.ndarray  # [N] `TENSOR`.
    groups: np.ndarray  # [G or 1] `GROUP`.
    rectangles: np.ndarray  # [B] `RECTANGLE`, the first `num_rectangles` in use.
    # [B] `LIVE`, the first `num_live` in use, by offset: the rectangles that end at `now` or later.
    live: np.ndarray
    outcomes: np.ndarray  # [3] `OUTCOME` of the three actions on buffer `evaluated`.
    # [B] `MOVE`, the first `cursor` in use: the decisions, and the log that takes them back.
    moves: np.ndarray
    # [T + 2 B] `DRAINED`: the supplies that copies changed, as they were before.
    drained: np.ndarray
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


def stacked(state: GameState, count: int) -> GameState:
    """States of `count` games [count, ...], all equal to this one."""
    return GameState(*(np.stack([field] * count) for field in state))


@numba.njit(cache=True)
def view(states: GameState, g: int) -> GameState:
    """Game g of stacked states."""
    return GameState(
        states.game[g],
        states.supply_s[g],
        states.steps[g],
        states.tensors[g],
        states.groups[g],
        states.rectangles[g],
        states.live[g],
        states.outcomes[g],
        states.moves[g],
        states.drained[g],
        states.scratch[g],
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
