"""A program as flat arrays, the form in which the compiled kernel and the JAX environment read it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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

    buffers: np.ndarray
    """[B] `BUFFER`."""
    first_buffer: np.ndarray
    """[T + 1] int64: the buffers of step t are ``range(first_buffer[t], first_buffer[t + 1])``."""
    table_start: np.ndarray
    """[T + 1] int64: where the step's latency table starts in `latency_s`."""
    latency_s: np.ndarray
    """float64, seconds."""
    supply_s: np.ndarray
    """[T] float64, seconds."""
    is_parameter: np.ndarray
    """[N] bool."""
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
        num_groups=program.num_alias_groups,
        fast_bytes=program.fast_bytes,
        possible_saving_s=program.possible_saving_s,
    )
