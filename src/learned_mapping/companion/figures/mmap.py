"""Pictures of memory mappings: allocations over time, and moves of the game drawn from real states."""

from __future__ import annotations

import io
from collections.abc import Sequence

import matplotlib.colors as mcolors
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from learned_mapping.companion.figures.style import GRID, INK, PALETTE, new_figure
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program

MIB = 2**20
GOLDEN = 0.6180339887498949


def tensor_colour(tensor: int) -> tuple[float, float, float]:
    """A colour per tensor; neighbours in number differ in hue and lightness, so that they can be told apart."""
    hue = (tensor * GOLDEN) % 1.0
    value = (0.92, 0.72, 0.82)[tensor % 3]
    return tuple(mcolors.hsv_to_rgb((hue, 0.45 + 0.2 * (tensor % 2), value)))


def byte_unit(fast_bytes: int) -> tuple[float, str]:
    """What to divide bytes by so that the capacity reads well, and its name."""
    for scale, name in ((MIB, "MiB"), (1024, "KiB")):
        if fast_bytes >= 2 * scale:
            return float(scale), name
    return 1.0, "bytes"


def draw_layout(
    axes: Axes, program: Program, mapping: Mapping, *, marked: Sequence[int] = (), labels: bool = False
) -> None:
    """Draws one rectangle per allocation: steps from left to right, offsets upwards, colour by tensor.

    Args:
      axes: where.
      program, mapping: what.
      marked: tensors whose rectangles get a dark outline.
      labels: write the tensor's name into each rectangle; for small programs.
    """
    scale, unit = byte_unit(program.fast_bytes)
    outline = program.num_buffers <= 1500
    for b in np.flatnonzero(mapping.placed & (mapping.end >= mapping.start)).tolist():
        tensor = int(program.buffer_tensor[b])
        low, high = int(mapping.start[b]), int(mapping.end[b]) + 1
        bottom, height = mapping.offset[b] / scale, program.buffer_bytes[b] / scale
        edge, width = (INK, 1.2) if tensor in marked else ("white", 0.3 if outline else 0.0)
        axes.add_patch(
            Rectangle(
                (low, bottom), high - low, height, facecolor=tensor_colour(tensor), edgecolor=edge, linewidth=width
            )
        )
        if labels:
            axes.text((low + high) / 2, bottom + height / 2, program.tensor_names[tensor], ha="center", va="center")
    top = program.fast_bytes / scale
    axes.axhline(top, color=INK, linewidth=1.0, linestyle="--")
    axes.set(xlim=(0, program.num_instructions), ylim=(0, top * 1.04))
    axes.set_xlabel("logical time (instruction)")
    axes.set_ylabel(f"offset in fast memory ({unit})")
    axes.grid(False)


def layout(program: Program, mapping: Mapping, *, marked: Sequence[int] = (), height: float = 3.6) -> Figure:
    """The paper's Figure 1: the memory layout of a mapped program; the dashed line is the capacity."""
    figure, axes = new_figure(height=height)
    draw_layout(axes, program, mapping, marked=marked)
    placed = int(mapping.placed.sum())
    axes.set_title(f"{program.name}: {placed:,} of {program.num_buffers:,} buffers in fast memory")
    return figure


def live_bytes(program: Program) -> np.ndarray:
    """[T] float: bytes of all tensors alive at each step."""
    change = np.zeros(program.num_instructions + 1)
    np.add.at(change, program.tensor_live[:, 0], program.tensor_bytes)
    np.add.at(change, program.tensor_live[:, 1] + 1, -program.tensor_bytes.astype(float))
    return np.cumsum(change)[:-1]


def touched_bytes(program: Program) -> np.ndarray:
    """[T] float: bytes each instruction reads and writes."""
    return np.bincount(program.buffer_instruction, program.buffer_bytes, program.num_instructions)


def demand_figure(program: Program) -> Figure:
    """What competes for the fast memory: bytes alive and bytes touched at each step, against the capacity."""
    scale, unit = byte_unit(program.fast_bytes)
    figure, axes = new_figure(height=2.8)
    steps = np.arange(program.num_instructions + 1)
    axes.stairs(live_bytes(program) / scale, steps, fill=True, color=PALETTE[5], alpha=0.6, label="all tensors alive")
    axes.stairs(touched_bytes(program) / scale, steps, color=PALETTE[1], label="tensors of the instruction")
    axes.axhline(program.fast_bytes / scale, color=INK, linestyle="--", linewidth=1.2, label="fast memory")
    axes.set_xlim(0, program.num_instructions)
    axes.set_yscale("log")
    axes.set(xlabel="logical time (instruction)", ylabel=f"bytes ({unit})", title=program.name)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def show(program: Program, mapping: Mapping | None = None) -> str:
    """SVG text: the layout of a mapping, or without one what the program asks of the fast memory."""
    return to_svg(demand_figure(program) if mapping is None else layout(program, mapping))


def to_svg(figure: Figure) -> str:
    """A figure as SVG text; the same figure gives the same text."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def moves_figure(program: Program, mapping: Mapping, prefixes: Sequence[int], titles: Sequence[str]) -> Figure:
    """A small game after some of its moves: one panel per prefix of the decisions, the last move outlined.

    Args:
      program, mapping: a finished game of a program small enough for names in the rectangles.
      prefixes: numbers of decisions made.
      titles: one per panel.
    """
    columns = min(len(prefixes), 3)
    rows = -(-len(prefixes) // columns)
    figure, grid = new_figure(rows, columns, height=0.5 + 1.9 * rows, sharex=True, sharey=True, squeeze=False)
    for axes, prefix, title in zip(grid.flat, prefixes, titles):
        undecided = np.arange(program.num_buffers) >= prefix
        partial = Mapping(
            action=np.where(undecided, 2, mapping.action),
            offset=np.where(undecided, -1, mapping.offset),
            start=np.where(undecided, -1, mapping.start),
            end=np.where(undecided, -1, mapping.end),
        )
        draw_layout(axes, program, partial, labels=True)
        last = prefix - 1
        if last >= 0 and partial.placed[last] and partial.end[last] >= partial.start[last]:
            scale, _ = byte_unit(program.fast_bytes)
            corner = (int(partial.start[last]), partial.offset[last] / scale)
            size = (int(partial.end[last] - partial.start[last]) + 1, program.buffer_bytes[last] / scale)
            axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=INK, linewidth=2.0))
        axes.set_title(title)
        axes.set_xticks(np.arange(program.num_instructions) + 0.5, [str(t) for t in range(program.num_instructions)])
        for t in range(1, program.num_instructions):
            axes.axvline(t, color=GRID, linewidth=0.8, zorder=0)
        axes.set(xlabel="", ylabel="")
    for axes in grid.flat[len(prefixes) :]:
        axes.set_visible(False)
    figure.supxlabel("step", fontsize=9.5)
    figure.supylabel("offset (bytes)", fontsize=9.5)
    return figure


def tradeoff_figure(program: Program, moves: Sequence[int]) -> Figure:
    """The paper's Figure 3 from a real state: memory and copy supply after each legal action, a column per action.

    Args:
      program: small enough for names in the rectangles.
      moves: the actions that lead to the state; the next buffer is the one decided three ways.
    """
    names = ("Copy", "NoCopy", "Drop")
    columns = []
    for action in range(3):
        game = Game(program)
        for move in moves:
            game.step(move)
        if game.legal[action]:
            reward = game.step(action)
            columns.append((names[action], reward, game))
    figure, grid = new_figure(
        2, len(columns), height=3.6, sharex=True, sharey="row", squeeze=False, gridspec_kw={"height_ratios": (3, 2)}
    )
    steps = np.arange(program.num_instructions)
    for column, (name, reward, game) in enumerate(columns):
        decided = np.arange(program.num_buffers) < game.cursor
        made = game.state.moves
        partial = Mapping(
            action=np.where(decided, made["action"], 2),
            offset=np.where(decided, made["offset"], -1),
            start=np.where(decided, made["start"], -1),
            end=np.where(decided, made["end"], -1),
        )
        top, bottom = grid[0, column], grid[1, column]
        draw_layout(top, program, partial, labels=True)
        top.set(title=f"{name}: saves {reward:g} s", xlabel="", ylabel="")
        bottom.bar(steps + 0.5, program.supply_s, width=0.7, facecolor="white", edgecolor=INK, linewidth=0.8)
        bottom.bar(steps + 0.5, game.state.supply_s, width=0.7, color=PALETTE[0])
        bottom.set_xticks(steps + 0.5, [str(t) for t in steps])
        bottom.grid(False, axis="x")
    grid[0, 0].set_ylabel(f"offset ({byte_unit(program.fast_bytes)[1]})")
    grid[1, 0].set_ylabel("supply left (s)")
    figure.supxlabel("step", fontsize=9.5)
    return figure
