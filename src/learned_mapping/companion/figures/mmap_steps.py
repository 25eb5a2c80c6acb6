"""One move of the game on a program too large for names: a window of the memory before and after, and the supply."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from learned_mapping.companion.figures.mmap import byte_unit
from learned_mapping.companion.figures.style import GRID, INK, PALETTE, new_figure
from learned_mapping.mmap.rules.actions import ACTION_NAMES, COPY, DROP
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program

TAKEN, MINE, NEW = "#BBBBBB", PALETTE[0], PALETTE[1]
"""Memory of other tensors, of the buffer's tensor so far, and what the action adds."""
MARGIN = 0.2
"""Steps shown on each side of those the actions concern, as a share of those."""


def state_after(program: Program, moves: Sequence[int]) -> Game:
    """A game in which `moves` have been made."""
    game = Game(program)
    for move in moves:
        game.step(int(move))
    return game


def _window(program: Program, game: Game) -> tuple[int, int]:
    """First and last step to show: what the actions would occupy, and the tensor's last allocation."""
    b = game.cursor
    steps = [int(program.buffer_instruction[b])]
    for outcome in game.outcomes:
        if outcome["legal"] and outcome["offset"] >= 0:
            steps += [int(outcome["start"]), int(outcome["end"])]
    made = game.state.moves[:b]
    own = made[(program.buffer_tensor[:b] == program.buffer_tensor[b]) & (made["action"] != DROP)]
    if len(own):
        steps += [int(own["start"][-1]), int(own["end"].max())]
    margin = 2 + int(MARGIN * (max(steps) - min(steps)))
    return max(min(steps) - margin, 0), min(max(steps) + margin, program.num_instructions - 1)


def _draw_memory(axes: Axes, program: Program, game: Game, window: tuple[int, int], action: int | None) -> None:
    """The allocations so far and, in `NEW`, what the action adds; its copying steps are hatched."""
    scale = byte_unit(program.fast_bytes)[0]
    b = game.cursor
    made, tensor = game.state.moves[:b], int(program.buffer_tensor[b])
    for other in np.flatnonzero((made["action"] != DROP) & (made["end"] >= made["start"])).tolist():
        move = made[other]
        if move["end"] >= window[0] and move["start"] <= window[1]:
            colour = MINE if int(program.buffer_tensor[other]) == tensor else TAKEN
            _box(axes, move, program.buffer_bytes[other] / scale, scale, facecolor=colour, edgecolor="white")
    t = int(program.buffer_instruction[b])
    if action is not None and action != DROP:
        outcome = game.outcomes[action]
        height = program.buffer_bytes[b] / scale
        _box(axes, outcome, height, scale, facecolor=NEW, edgecolor=INK, linewidth=0.8, zorder=3)
        if action == COPY:
            first, last = (t + 1, outcome["end"]) if program.buffer_is_output[b] else (outcome["start"], t - 1)
            corner = (int(first), outcome["offset"] / scale)
            hatched = Rectangle(
                corner, int(last - first) + 1, height, fill=False, hatch="////", edgecolor=INK, linewidth=0, zorder=4
            )
            axes.add_patch(hatched)
    axes.axvline(t + 0.5, color=INK, linewidth=0.8, linestyle=":")
    axes.axhline(program.fast_bytes / scale, color=INK, linewidth=1.0, linestyle="--")
    axes.set(xlim=(window[0], window[1] + 1), ylim=(0, program.fast_bytes / scale * 1.04))
    axes.grid(False)


def _box(axes: Axes, move, height: float, scale: float, linewidth: float = 0.3, **style) -> None:
    corner = (int(move["start"]), int(move["offset"]) / scale)
    axes.add_patch(Rectangle(corner, int(move["end"] - move["start"]) + 1, height, linewidth=linewidth, **style))


def _title(game: Game, action: int) -> str:
    reward = float(game.outcomes[action]["reward_s"])
    return f"{ACTION_NAMES[action]}: saves {reward * 1e6:.3g} µs" if action != DROP else "Drop: saves nothing"


def step_figure(program: Program, moves: Sequence[int]) -> Figure:
    """The paper's Figure 2 from a real state: the memory before the move, and after each of its three actions.

    Args:
      program: what is mapped.
      moves: the actions that lead to the state; the next buffer is the one decided.
    """
    game = state_after(program, moves)
    window, b = _window(program, game), game.cursor
    figure, grid = new_figure(2, 2, height=4.6, sharex=True, sharey=True)
    _draw_memory(grid[0, 0], program, game, window, None)
    scale, unit = byte_unit(int(program.buffer_bytes[b]))
    role = "output" if program.buffer_is_output[b] else "input"
    grid[0, 0].set_title(f"before: an {role} of {program.buffer_bytes[b] / scale:.3g} {unit}")
    for axes, action in zip(grid.flat[1:], range(3)):
        _draw_memory(axes, program, game, window, action)
        axes.set_title(_title(game, action))
    figure.supxlabel("logical time (instruction); dotted: the buffer's own", fontsize=9.5)
    figure.supylabel(f"offset in fast memory ({byte_unit(program.fast_bytes)[1]})", fontsize=9.5)
    handles = [Patch(color=TAKEN, label="taken"), Patch(color=NEW, label="what the action takes")]
    handles.append(Patch(facecolor=NEW, hatch="////", edgecolor=INK, label="while copying"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure


def tradeoffs_figure(program: Program, moves: Sequence[int]) -> Figure:
    """The paper's Figure 3 from a real state: memory and copy supply after each action, a column per action.

    Args:
      program: what is mapped.
      moves: the actions that lead to the state; the next buffer is an input whose tensor was in fast memory before.
    """
    before = state_after(program, moves)
    window = _window(program, before)
    steps = np.arange(window[0], window[1] + 1)
    initial = program.supply_s[steps] * 1e6
    figure, grid = new_figure(2, 3, height=4.2, sharex=True, sharey="row", gridspec_kw={"height_ratios": (3, 2)})
    had = before.state.supply_s[steps] * 1e6
    for column, action in enumerate(range(3)):
        top, bottom = grid[0, column], grid[1, column]
        _draw_memory(top, program, before, window, action)
        top.set_title(_title(before, action))
        after = state_after(program, moves)
        after.step(action)
        left = after.state.supply_s[steps] * 1e6
        bottom.bar(steps + 0.5, initial, width=0.8, color=GRID)
        bottom.bar(steps + 0.5, had, width=0.8, color=NEW)
        bottom.bar(steps + 0.5, left, width=0.8, color=PALETTE[5])
        bottom.axvline(int(program.buffer_instruction[before.cursor]) + 0.5, color=INK, linewidth=0.8, linestyle=":")
        bottom.grid(False, axis="x")
    grid[1, 0].set_yscale("log")
    positive = initial[initial > 0]
    grid[1, 0].set_ylim(bottom=positive.min() / 3 if len(positive) else 1e-3)
    grid[0, 0].set_ylabel(f"offset ({byte_unit(program.fast_bytes)[1]})")
    grid[1, 0].set_ylabel("copy supply (µs)")
    figure.supxlabel("logical time (instruction); dotted: the buffer's own", fontsize=9.5)
    handles = [
        Patch(color=TAKEN, label="other tensors"),
        Patch(color=MINE, label="the tensor so far"),
        Patch(color=NEW, label="what the action takes"),
        Patch(color=PALETTE[5], label="supply left"),
        Patch(color=GRID, label="supply used before"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=5, columnspacing=1.0, handlelength=1.2)
    return figure
