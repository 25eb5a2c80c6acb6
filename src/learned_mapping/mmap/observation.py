"""The agent's view of a position (section 4.2, Table 1), from what is live: its cost does not grow
with the game.

The parts of the vector stand in `PARTS`; ids (buffer, tensor, alias group + 1) go apart, for the
network to embed. Lengths of time are ln(1 + steps), sizes shares of the fast memory, seconds by the
program's units; a saving x in units is sign(x) ln(1 + |x|), so that a placement that costs time
does not look like one that saves nothing.
"""

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.rules.actions import COPY, DROPPED, NO_COPY, PLACED
from learned_mapping.mmap.rules.state import (
    NONE,
    GameState,
    ProgramArrays,
    benefit_unit,
    supply_unit,
)

NEXT_BUFFERS, NEXT_OF_TENSOR = 5, 3
"""The paper's k and l: buffers described besides the current one."""
STATIC = 10
BUFFER_NUMBERS = STATIC + 6
LIVE, LIVE_NUMBERS = 8, 5
AHEAD = np.array([0, 1, 2, 4, 8, 16, 32, 64])
"""Steps after target_time at which the memory is drawn."""
CELLS = 16
"""Cells of the memory at each of these steps; a number is the share of a cell that is taken."""
PROFILE = 64
"""Cells of the memory at target_time."""
SUPPLY = 16
"""Steps of W before target_time, and as many from it on."""
ACTION_NUMBERS = 6
PARTS = {
    "buffers": (1 + NEXT_BUFFERS + NEXT_OF_TENSOR) * BUFFER_NUMBERS,
    "live": LIVE * LIVE_NUMBERS,
    "bytes": len(AHEAD),
    "gap": len(AHEAD),
    "map": len(AHEAD) * CELLS,
    "profile": PROFILE,
    "supply": 2 * SUPPLY,
    "actions": 3 * ACTION_NUMBERS,
    "globals": 7,
}
"""Name -> numbers, in the order of the vector."""
WIDTH = sum(PARTS.values())
PRICES, PRIOR = 14, 11
"""Numbers of `agent.priced_view` that an agent sees behind the vector, zeros without prices; and
the place of the prior's three logits among them."""
SEEN = WIDTH + PRICES
_STARTS = np.concatenate([[0], np.cumsum(list(PARTS.values()))])
_LIVE, _BYTES, _GAP, _MAP, _PROFILE, _SUPPLY, _ACTIONS, _GLOBALS = (
    int(start) for start in _STARTS[1:-1]
)


class Tables(NamedTuple):
    """The tables that an observation needs of a program besides its arrays."""

    static: np.ndarray  # [B, STATIC] float32: what never changes about a buffer.
    next_of_tensor: np.ndarray  # [B] int64: the next buffer of the same tensor, or -1.
    reward_scale: float  # 1 / `benefit_unit`, per second.
    supply_scale: float  # 1 / `supply_unit`, per second.


def tables_of(program: ProgramArrays) -> Tables:
    """The tables of a program."""
    buffers = program.buffers
    next_of_tensor = np.full(len(buffers), NONE, np.int64)
    last: dict[int, int] = {}
    for b in range(len(buffers) - 1, -1, -1):
        next_of_tensor[b] = last.get(int(buffers["tensor"][b]), NONE)
        last[int(buffers["tensor"][b])] = b
    reward, supply = 1.0 / benefit_unit(program), 1.0 / supply_unit(program)
    share = buffers["bytes"] / program.fast_bytes
    until_next = np.where(buffers["next_use"] >= 0, buffers["next_use"] - buffers["instruction"], 0)
    static = [
        1.0 + np.log(np.maximum(share, 1e-6)) / 10.0,
        np.minimum(share, 1.0),
        buffers["is_output"],
        buffers["alias"] >= 0,
        buffers["bit"] >= 0,
        np.log1p(buffers["demand_s"] * supply) / 4.0,
        np.sign(buffers["benefit_s"]) * np.log1p(np.abs(buffers["benefit_s"]) * reward) / 2.0,
        np.log1p(buffers["uses_left"]) / 2.0,
        np.log1p(np.maximum(until_next, 0)) / 4.0,
        np.log1p(buffers["group_left"]) / 2.0,
    ]
    return Tables(np.stack(static, axis=1).astype(np.float32), next_of_tensor, reward, supply)


@numba.njit(cache=True)
def signed_log(x: float) -> float:
    """sign(x) ln(1 + |x|)."""
    return np.sign(x) * np.log1p(abs(x))


@numba.njit(cache=True)
def _log_steps(steps: int) -> float:
    return np.sign(steps) * np.log1p(abs(steps)) / 4.0


@numba.njit(cache=True)
def _draw_buffer(program, state, static, b: int, now: int, out) -> None:
    buffer, width = program.buffers[b], static.shape[1]
    for i in range(width):
        out[i] = static[b, i]
    tensor = state.tensors[buffer.tensor]
    out[width] = _log_steps(buffer.instruction - now)
    out[width + 1] = 1.0 if tensor.end >= buffer.instruction else 0.0
    out[width + 2] = _log_steps(tensor.end - now) if tensor.end != NONE else -1.0
    out[width + 3] = 1.0 if tensor.in_hbm_from <= buffer.instruction else 0.0
    if buffer.alias != NONE:
        group = state.groups[buffer.alias]
        out[width + 4] = 1.0 if group.status == PLACED else 0.0
        out[width + 5] = 1.0 if group.status == DROPPED or group.forced != 0 else 0.0


@numba.njit(cache=True)
def _draw_memory(program, state, now: int, out) -> None:
    """The live rectangles one by one, and the memory they leave at the steps `AHEAD`."""
    game, fast = state.game[0], float(program.fast_bytes)
    tensor = program.buffers[game.cursor].tensor
    tops = np.zeros(len(AHEAD))
    for i in range(game.num_live):
        rectangle = state.rectangles[state.live[i].rectangle]
        low, high = state.live[i].offset / fast, state.live[i].top / fast
        if i < LIVE:
            at = _LIVE + i * LIVE_NUMBERS
            out[at], out[at + 1], out[at + 2] = 1.0, low, high
            out[at + 3] = _log_steps(rectangle.end - now)
            out[at + 4] = 1.0 if rectangle.tensor == tensor else 0.0
        for cell in range(int(low * PROFILE), min(int(np.ceil(high * PROFILE)), PROFILE)):
            out[_PROFILE + cell] += min(high * PROFILE, cell + 1.0) - max(
                low * PROFILE, float(cell)
            )
        for k in range(len(AHEAD)):
            if rectangle.end < now + AHEAD[k]:
                break
            out[_BYTES + k] += high - low
            out[_GAP + k] = max(out[_GAP + k], low - tops[k])
            tops[k] = max(tops[k], high)
            for cell in range(int(low * CELLS), min(int(np.ceil(high * CELLS)), CELLS)):
                overlap = min(high * CELLS, cell + 1.0) - max(low * CELLS, float(cell))
                out[_MAP + k * CELLS + cell] += overlap
    for k in range(len(AHEAD)):
        out[_GAP + k] = max(out[_GAP + k], 1.0 - tops[k])


@numba.njit(cache=True)
def observe(
    program: ProgramArrays, state: GameState, tables: Tables, out: np.ndarray, ids: np.ndarray
) -> None:
    """Fills out [WIDTH] float32 and ids [3] int32 for the buffer at the cursor, whose outcomes are
    known; zeros where the game is over."""
    out[:] = 0.0
    ids[:] = 0
    game, num_buffers = state.game[0], len(program.buffers)
    b = game.cursor
    if b == num_buffers:
        return
    buffer = program.buffers[b]
    now = buffer.instruction
    ids[0], ids[1], ids[2] = b, buffer.tensor, buffer.alias + 1
    other = b
    for i in range(1 + NEXT_BUFFERS + NEXT_OF_TENSOR):
        if i <= NEXT_BUFFERS:
            drawn = b + i
        else:
            other = tables.next_of_tensor[other]
            drawn = other
        if drawn == NONE:
            break
        if drawn < num_buffers:
            at = i * BUFFER_NUMBERS
            _draw_buffer(program, state, tables.static, drawn, now, out[at : at + BUFFER_NUMBERS])
    _draw_memory(program, state, now, out)
    for i in range(2 * SUPPLY):
        u = now - SUPPLY + i
        if 0 <= u < len(state.supply_s):
            out[_SUPPLY + i] = np.log1p(state.supply_s[u] * tables.supply_scale)
    for action in range(3):
        outcome, at = state.outcomes[action], _ACTIONS + action * ACTION_NUMBERS
        if outcome.legal == 0:
            continue
        out[at] = 1.0
        if action == COPY or action == NO_COPY:
            out[at + 1] = _log_steps(now - outcome.start)
            out[at + 2] = _log_steps(outcome.end - now)
            out[at + 3] = _log_steps(outcome.end - outcome.start + 1)
            out[at + 4] = outcome.offset / program.fast_bytes
            out[at + 5] = signed_log(outcome.reward_s * tables.reward_scale)
    out[_GLOBALS] = b / num_buffers
    out[_GLOBALS + 1] = now / len(state.supply_s)
    out[_GLOBALS + 2] = game.live_bytes / program.fast_bytes
    out[_GLOBALS + 3] = np.log1p(game.num_live) / 2.0
    out[_GLOBALS + 4] = 1.0 if game.open_groups > 0 else 0.0
    out[_GLOBALS + 5] = 1.0 if now > 0 and state.steps[now - 1].joined != 0 else 0.0
    out[_GLOBALS + 6] = np.log1p(game.resets) / 2.0
