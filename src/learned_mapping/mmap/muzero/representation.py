"""What the agent sees of a state: the inputs of section 4.3.1, read off the compiled kernel's state.

Times are steps relative to t, the target time of the current buffer, through s(x) = sign(x) ln(1 + |x|) / 8; seconds
and bytes are relative to the program's means and its fast memory. The paper says neither; so one network can read
programs of any length. Resolutions of the places that the paper leaves open:

- *Buffers.* Table 1 lists eight features, one of which, live_range, is an interval: nine numbers, and a tenth that
  tells a buffer from the padding where fewer than k or l remain. Ids enter as fractions of their count. The benefit is
  the current one, L(B') - L(B' + {b}), which Appendix A updates as the buffers of an instruction are decided.
- *Memory map.* Row c of the image stands for the steps t + (c - n/2) q to t + (c - n/2) q + q - 1, q being
  `steps_per_column`; column j for an equal share of the fast memory. A cell is set if anything in it is occupied: a
  downsampling that never hides an allocation. Steps outside the program are empty.
- *Memory profile*: occupancy at t alone, by the same rule, in `profile` cells.
- *Supply profile*: ln(1 + W / mean supply) / 4 of the steps t - n/2 to t + n/2 - 1; -1 outside the program.
- *Actions*: legal, start and end of I(b), offset over fast memory; zeros where illegal. Drop: 1, 0, 0, 0.
- *Global*: moves made (those taken back included) and buffers decided, over B; the buffer's index in its alias group
  and the number that remain in it, as ln(1 + n) / 4, zero without a group.
- *Prices* (not in the paper): `kernel.FEATURES` of Copy and NoCopy over 4, zeros where illegal.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.muzero.compiled import KERNEL_SOURCE
from learned_mapping.mmap.muzero.config import RepresentationConfig
from learned_mapping.mmap.muzero.position import Position
from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.kernel import NUM_FEATURES
from learned_mapping.programs.program import NO_ALIAS, Program

BUFFER_NUMBERS = 10
"""Per buffer: present, size, is_output, target_time, tensor_id, alias_id, live_range (2), demand, benefit."""
ACTION_NUMBERS = 4
GLOBAL_NUMBERS = 4
SMALLEST = 1e-6
"""Sizes below this share of the fast memory count as this."""


class Layout(NamedTuple):
    """Where the numbers of an observation's vector stand."""

    buffers: slice
    supply: slice
    actions: slice
    globals: slice
    prices: slice
    size: int


def layout(config: RepresentationConfig) -> Layout:
    """The slices of the vector for a configuration."""
    sizes = (
        BUFFER_NUMBERS * (1 + config.next_buffers + config.same_tensor_buffers),
        config.supply,
        3 * ACTION_NUMBERS,
        GLOBAL_NUMBERS,
        2 * NUM_FEATURES if config.prices else 0,
    )
    ends = np.cumsum(sizes).tolist()
    return Layout(*(slice(end - size, end) for end, size in zip(ends, sizes)), ends[-1])


class Observation(NamedTuple):
    """The inputs of the network, one state or many."""

    window: np.ndarray
    """[..., n, n / 8] uint8: rows are times; bit i of byte j is cell 8 j + i, counted from offset 0."""
    profile: np.ndarray
    """[..., P / 8] uint8, bits as above."""
    vector: np.ndarray
    """[..., F] float32, see `layout`."""


def empty_observation(config: RepresentationConfig, *leading: int) -> Observation:
    """Zeros of the right shapes, with leading axes in front."""
    return Observation(
        np.zeros((*leading, config.window, config.window // 8), np.uint8),
        np.zeros((*leading, config.profile // 8), np.uint8),
        np.zeros((*leading, layout(config).size), np.float32),
    )


class ProgramFacts(NamedTuple):
    """What the observation needs of a program beyond `ProgramArrays`."""

    next_same: np.ndarray
    """[B] int64: the next buffer of the same tensor, or -1."""
    group_index: np.ndarray
    """[B] int64: how many buffers of its alias group come before."""
    live_start: np.ndarray
    """[B] int64: first step of the tensor's live range."""
    scale: np.ndarray
    """[2]: mean positive benefit and mean supply, seconds, as `Game.scale`."""


def program_facts(program: Program, scale: np.ndarray) -> ProgramFacts:
    """Facts of a program; scale as in `Game.scale`."""
    next_same = np.full(program.num_buffers, -1, np.int64)
    group_index = np.zeros(program.num_buffers, np.int64)
    last: dict[int, int] = {}
    seen: dict[int, int] = {}
    for b, (tensor, group) in enumerate(zip(program.buffer_tensor.tolist(), program.buffer_alias.tolist())):
        if tensor in last:
            next_same[last[tensor]] = b
        last[tensor] = b
        if group != NO_ALIAS:
            group_index[b] = seen.get(group, 0)
            seen[group] = seen.get(group, 0) + 1
    live_start = program.tensor_live[program.buffer_tensor, 0].astype(np.int64)
    return ProgramFacts(next_same, group_index, live_start, np.asarray(scale, np.float64))


def _compile(kernel_source: str):
    @numba.njit(cache=True)
    def signed_log(x):
        return np.sign(x) * np.log1p(abs(x)) / 8.0

    @numba.njit(cache=True)
    def set_bits(row, first, last):
        """Sets bits `first` to `last`, both included."""
        low, high = first >> 3, last >> 3
        low_mask, high_mask = (0xFF << (first & 7)) & 0xFF, 0xFF >> (7 - (last & 7))
        if low == high:
            row[low] |= low_mask & high_mask
        else:
            row[low] |= low_mask
            for i in range(low + 1, high):
                row[i] = 0xFF
            row[high] |= high_mask

    @numba.njit(cache=True)
    def draw(program, state, t, steps_per_column, window, profile):
        """The memory map and the memory profile around step t."""
        columns, cells, fine = len(window), 8 * window.shape[1], 8 * len(profile)
        window[:] = 0
        profile[:] = 0
        left = t - (columns // 2) * steps_per_column
        right = left + columns * steps_per_column - 1
        for b in range(state.game[0].cursor):
            move = state.moves[b]
            if move.action == DROP or move.end < move.start or move.end < left or move.start > right:
                continue
            size = program.buffers[b].bytes
            if size == 0:
                continue
            top = move.offset + size
            low, high = move.offset * cells // program.fast_bytes, (top * cells - 1) // program.fast_bytes
            first = (max(move.start, left) - left) // steps_per_column
            last = (min(move.end, right) - left) // steps_per_column
            for column in range(first, last + 1):
                set_bits(window[column], low, high)
            if move.start <= t <= move.end:
                low, high = move.offset * fine // program.fast_bytes, (top * fine - 1) // program.fast_bytes
                set_bits(profile, low, high)

    @numba.njit(cache=True)
    def describe(program, state, facts, b, t, out):
        """The ten numbers of buffer b as seen from step t."""
        buffer = program.buffers[b]
        u = buffer.instruction
        benefit = 0.0
        if buffer.bit >= 0:
            entry = program.table_start[u] + (state.steps[u].placed & ~(1 << buffer.bit))
            benefit = program.latency_s[entry] - program.latency_s[entry + (1 << buffer.bit)]
        out[0] = 1.0
        out[1] = np.log(max(buffer.bytes / max(program.fast_bytes, 1), SMALLEST)) / -np.log(SMALLEST)
        out[2] = buffer.is_output
        out[3] = signed_log(u - t)
        out[4] = (buffer.tensor + 1) / len(program.is_parameter)
        out[5] = (buffer.alias + 1) / max(program.num_groups, 1)
        out[6] = signed_log(facts.live_start[b] - t)
        out[7] = signed_log(buffer.live_end - t)
        out[8] = np.log1p(buffer.demand_s / facts.scale[1]) / 4.0
        out[9] = np.sign(benefit) * np.log1p(abs(benefit) / facts.scale[0]) / 4.0

    @numba.njit(cache=True)
    def observe(program, state, facts, next_buffers, same_buffers, steps_per_column, supply, prices, window, profile,
                vector):  # fmt: skip
        """Fills one row of an `Observation` with the state at a decision."""
        kernel_source  # noqa: B018, see `KERNEL_SOURCE`
        game = state.game[0]
        b = game.cursor
        buffer = program.buffers[b]
        t = buffer.instruction
        count = len(program.buffers)
        draw(program, state, t, steps_per_column, window, profile)
        vector[:] = 0.0
        at = 0
        for ahead in range(next_buffers + 1):
            if b + ahead < count:
                describe(program, state, facts, b + ahead, t, vector[at : at + BUFFER_NUMBERS])
            at += BUFFER_NUMBERS
        other = facts.next_same[b]
        for _ in range(same_buffers):
            if other >= 0:
                describe(program, state, facts, other, t, vector[at : at + BUFFER_NUMBERS])
                other = facts.next_same[other]
            at += BUFFER_NUMBERS
        for i in range(supply):
            u = t - supply // 2 + i
            inside = 0 <= u < len(state.supply_s)
            vector[at + i] = np.log1p(state.supply_s[u] / facts.scale[1]) / 4.0 if inside else -1.0
        at += supply
        for action in (COPY, NO_COPY, DROP):
            outcome = state.outcomes[action]
            if outcome.legal != 0:
                vector[at] = 1.0
                if action != DROP:
                    vector[at + 1], vector[at + 2] = signed_log(outcome.start - t), signed_log(outcome.end - t)
                    vector[at + 3] = outcome.offset / max(program.fast_bytes, 1)
            at += ACTION_NUMBERS
        vector[at], vector[at + 1] = game.moves / count, b / count
        if buffer.alias != NO_ALIAS:
            vector[at + 2] = np.log1p(facts.group_index[b]) / 4.0
            vector[at + 3] = np.log1p(buffer.group_left) / 4.0
        at += GLOBAL_NUMBERS
        if prices:
            features = np.zeros(NUM_FEATURES)
            for action in (COPY, NO_COPY):
                if state.outcomes[action].legal != 0:
                    kernel.action_features(program, state, facts.scale, action, features)
                    for i in range(NUM_FEATURES):
                        vector[at + i] = features[i] / 4.0
                at += NUM_FEATURES

    return observe


_observe = _compile(KERNEL_SOURCE)


class Observer:
    """Reads observations of positions of one program.

    Args:
      program: the program.
      scale: as in `Game.scale` of its games.
      config: the sizes.
    """

    def __init__(self, program: Program, scale: np.ndarray, config: RepresentationConfig):
        self.config, self.facts = config, program_facts(program, scale)

    def fill(self, position: Position, batch: Observation, row: int) -> None:
        """Writes the observation of a position that is not over into a row of a batch."""
        c = self.config
        _observe(
            position.program, position.state, self.facts, c.next_buffers, c.same_tensor_buffers, c.steps_per_column,
            c.supply, c.prices, batch.window[row], batch.profile[row], batch.vector[row],
        )  # fmt: skip

    def __call__(self, positions: list[Position]) -> Observation:
        """[N, ...]: one row per position; zeros where a game is over."""
        batch = empty_observation(self.config, len(positions))
        for row, position in enumerate(positions):
            if not position.over:
                self.fill(position, batch, row)
        return batch
