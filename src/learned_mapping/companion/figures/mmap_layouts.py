"""Two layouts of one program side by side, the stays of one tensor marked in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from learned_mapping.companion.figures.mmap import byte_unit, draw_layout
from learned_mapping.companion.figures.style import INK, PAPER, new_figure
from learned_mapping.mmap.mapping import make_mapping
from learned_mapping.programs.program import Program

MARK = "T"
NAMES = {"xla": "the compiler", "heuristic": "the compiler's heuristic"}


def layouts(program: Program, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """The paper's Figure 8: a panel per row with a ``mapping``, its ``stays`` outlined and lettered.

    Args:
      program: whose mappings the rows hold.
      rows: of `mmap.fig8`; the others are passed over.
    """
    shown = [row for row in rows if "mapping" in row]
    figure, grid = new_figure(1, len(shown), height=3.8, sharex=True, sharey=True, squeeze=False)
    scale, _ = byte_unit(program.fast_bytes)
    for axes, row in zip(grid.flat, shown):
        mapping = make_mapping(program, **row["mapping"])
        draw_layout(axes, program, mapping)
        height = row["tensor_bytes"] / scale
        for start, end, offset in row["stays"]:
            corner = (start, offset / scale)
            outline = Rectangle(corner, end - start + 1, height, fill=False, edgecolor=INK, linewidth=1.6, zorder=4)
            axes.add_patch(outline)
            axes.text(
                (start + end + 1) / 2, offset / scale + height / 2, MARK, ha="center", va="center", zorder=5,
                fontweight="bold", path_effects=[withStroke(linewidth=2.0, foreground=PAPER)],
            )  # fmt: skip
        placed = int(mapping.placed.sum())
        axes.set_title(f"{NAMES.get(row['method'], row['method'])}: {placed:,} of {program.num_buffers:,} buffers")
    for axes in grid.flat[1:]:
        axes.set_ylabel("")
    return figure
