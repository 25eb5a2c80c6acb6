"""Moves of the game drawn from real states, and layouts of one program side by side."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from learned_mapping.mmap.draw import draw_layout
from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.actions import ACTION_NAMES, DROP, NO_OFFSET
from learned_mapping.programs.program import Program
from learned_mapping.style import GRID, INK, PALETTE, PAPER, byte_unit, new_figure
from learned_mapping_companion.figures.charts import Rows, new_panels
from learned_mapping_companion.mmap.facts import state_after
from learned_mapping_companion.mmap.toy import buffer_name

MARK = "T"
NAMES = {"xla": "the compiler", "heuristic": "the compiler's heuristic"}


def _first(mapping: Any, count: int, buffers: int) -> Mapping:
    """The first `count` decisions of a mapping or of a game's moves, all others dropped."""
    undecided = np.arange(buffers) >= count
    columns = mapping if isinstance(mapping, np.ndarray) else vars(mapping)
    nothing = {"action": DROP, "offset": NO_OFFSET, "start": NO_OFFSET, "end": NO_OFFSET}
    return Mapping(
        **{name: np.where(undecided, value, columns[name]) for name, value in nothing.items()}
    )


def _outline(axes: Axes, start: int, end: int, bottom: float, height: float, width: float) -> None:
    """Around what is held from step `start` to step `end`."""
    box = Rectangle(
        (start, bottom),
        end - start + 1,
        height,
        fill=False,
        edgecolor=INK,
        linewidth=width,
        zorder=4,
    )
    axes.add_patch(box)


def moves_figure(program: Program, mapping: Mapping, prefixes: Sequence[int]) -> Figure:
    """A finished game, small enough for names, after some of its moves: one panel per prefix of the
    decisions, titled by the last move and its buffer; the last move outlined."""
    lines = -(-len(prefixes) // 3)
    figure, panels = new_panels(
        len(prefixes), 3, height=0.5 + 1.9 * lines, sharex=True, sharey=True
    )
    scale, _ = byte_unit(program.fast_bytes)
    for axes, prefix in zip(panels, prefixes):
        partial = _first(mapping, prefix, program.num_buffers)
        draw_layout(axes, program, partial, labels=True)
        last = prefix - 1
        if partial.placed[last] and partial.end[last] >= partial.start[last]:
            start, end, offset = (
                int(getattr(partial, name)[last]) for name in ("start", "end", "offset")
            )
            _outline(axes, start, end, offset / scale, program.buffer_bytes[last] / scale, 2.0)
        axes.set_title(
            f"{prefix}. {ACTION_NAMES[mapping.action[last]]}: {buffer_name(program, last)}"
        )
        axes.set_xticks(
            np.arange(program.num_instructions) + 0.5,
            [str(t) for t in range(program.num_instructions)],
        )
        for t in range(1, program.num_instructions):
            axes.axvline(t, color=GRID, linewidth=0.8, zorder=0)
        axes.set(xlabel="", ylabel="")
    figure.supxlabel("step", fontsize=9.5)
    figure.supylabel("offset (bytes)", fontsize=9.5)
    return figure


def tradeoff_figure(program: Program, moves: Sequence[int]) -> Figure:
    """The paper's Figure 3 on a small program after `moves`: memory and supply, by legal action."""
    columns = []
    for action, name in enumerate(ACTION_NAMES):
        game = state_after(program, moves)
        if game.legal[action]:
            columns.append((name, game.step(action), game))
    heights = {"gridspec_kw": {"height_ratios": (3, 2)}}
    figure, grid = new_figure(
        2, len(columns), height=3.6, sharex=True, sharey="row", squeeze=False, **heights
    )
    steps = np.arange(program.num_instructions)
    for column, (name, reward, game) in enumerate(columns):
        top, bottom = grid[:, column]
        draw_layout(
            top, program, _first(game.state.moves, game.cursor, program.num_buffers), labels=True
        )
        top.set(title=f"{name}: saves {reward:g} s", xlabel="", ylabel="")
        bottom.bar(
            steps + 0.5,
            program.supply_s,
            width=0.7,
            facecolor="white",
            edgecolor=INK,
            linewidth=0.8,
        )
        bottom.bar(steps + 0.5, game.state.supply_s, width=0.7, color=PALETTE[0])
        bottom.set_xticks(steps + 0.5, [str(t) for t in steps])
        bottom.grid(False, axis="x")
    grid[0, 0].set_ylabel(f"offset ({byte_unit(program.fast_bytes)[1]})")
    grid[1, 0].set_ylabel("supply left (s)")
    figure.supxlabel("step", fontsize=9.5)
    return figure


def actions_figure(program: Program, rows: Rows) -> Figure:
    """The paper's Figures 2 and 3: what Copy and NoCopy of a buffer would hold, among the rest."""
    game = state_after(program, rows[0]["moves"])
    partial = _first(game.state.moves, game.cursor, program.num_buffers)
    scale, _ = byte_unit(program.fast_bytes)
    held = [row for row in rows if row["steps"]]
    window = (min(row["start"] for row in held) - 4, max(row["end"] for row in held) + 5)
    figure, panels = new_panels(len(held), len(held), height=2.5, sharex=True, sharey=True)
    for axes, row in zip(panels, held):
        draw_layout(axes, program, partial)
        bottom, height = row["offset"] / scale, row["bytes"] / scale
        axes.add_patch(
            Rectangle(
                (row["start"], bottom), row["steps"], height, facecolor=INK, alpha=0.25, zorder=3
            )
        )
        _outline(axes, row["start"], row["end"], bottom, height, 1.8)
        name = next(name for name in ACTION_NAMES if name.lower() == row["method"])
        copied = f", {row['copy_s'] * 1e6:.1f} µs of copying" if row["copy_s"] else ""
        axes.set_title(f"{name}: {row['steps']} steps{copied}")
        axes.set(xlim=window, xlabel="")
    for axes in panels[1:]:
        axes.set_ylabel("")
    figure.supxlabel("logical time (instruction)", fontsize=9.5)
    return figure


def layouts(program: Program, rows: Rows) -> Figure:
    """The paper's Figure 8: a panel per row with a ``mapping``, ``stays`` outlined and lettered."""
    layout_rows = [row for row in rows if "mapping" in row]
    figure, panels = new_panels(
        len(layout_rows), len(layout_rows), height=3.8, sharex=True, sharey=True
    )
    scale, _ = byte_unit(program.fast_bytes)
    letter = {"ha": "center", "va": "center", "zorder": 5, "fontweight": "bold"}
    for axes, row in zip(panels, layout_rows):
        mapping = make_mapping(program, **row["mapping"])
        draw_layout(axes, program, mapping)
        height = row["tensor_bytes"] / scale
        for start, end, offset in row["stays"]:
            _outline(axes, start, end, offset / scale, height, 1.6)
            place = ((start + end + 1) / 2, offset / scale + height / 2)
            axes.text(
                *place, MARK, **letter, path_effects=[withStroke(linewidth=2.0, foreground=PAPER)]
            )
        placed = int(mapping.placed.sum())
        axes.set_title(
            f"{NAMES.get(row['method'], row['method'])}: {placed:,} of {program.num_buffers:,}"
            " buffers"
        )
    for axes in panels[1:]:
        axes.set_ylabel("")
    return figure
