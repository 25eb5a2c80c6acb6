"""Pictures of the data: buffers per workload, sizes of sets, and how a compiler fills the fast memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from learned_mapping.companion.figures.mmap import byte_unit, tensor_colour
from learned_mapping.companion.figures.style import GRID, INK, PALETTE, new_figure

ROW_INCHES = 0.155
"""Of one workload."""


def buffers_figure(
    names: Sequence[str],
    buffers: Sequence[int],
    families: Sequence[str],
    *,
    paper_range: tuple[int, int],
    paper_buffers: Mapping[str, int],
) -> Figure:
    """Paper 1's figure 9: a bar per workload on a logarithmic scale, its colour the family.

    Args:
      names: [W] workloads, from top to bottom.
      buffers: [W] number of buffers of each.
      families: [W] family of each.
      paper_range: the least and the most in the paper, drawn as a band.
      paper_buffers: the paper's number for a workload of ours, drawn as a diamond.
    """
    figure, axes = new_figure(height=1.0 + ROW_INCHES * len(names))
    known = list(dict.fromkeys(families))
    colours = {each: PALETTE[i % len(PALETTE)] for i, each in enumerate(sorted(known))}
    rows = np.arange(len(names))
    axes.axvspan(*paper_range, color=GRID, alpha=0.55, linewidth=0, zorder=0)
    axes.barh(rows, buffers, color=[colours[each] for each in families], height=0.72, zorder=2)
    for row, name, count in zip(rows, names, buffers):
        # Where the paper's diamond may stand at the bar's end, the number steps aside.
        axes.text(
            1.16 * max(count, paper_buffers[name]) if name in paper_buffers else 1.05 * count,
            row,
            f"{count:,}",
            va="center",
            fontsize=6.5,
            zorder=4,
        )
    marked = [row for row, name in zip(rows, names) if name in paper_buffers]
    axes.scatter(
        [paper_buffers[names[row]] for row in marked], marked, marker="D", s=20, color="white", edgecolor=INK, zorder=3
    )
    _log_sizes(axes)
    axes.set_xlim(min(100, min(buffers) / 1.5), max(*buffers, paper_range[1]) * 1.8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(rows, names, fontsize=6.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.set_xlabel("buffers")
    handles = [Patch(color=colours[each], label=each) for each in sorted(known)]
    handles.append(Patch(color=GRID, label=f"the paper's {paper_range[0]:,} to {paper_range[1]:,}"))
    handles.append(
        axes.scatter([], [], marker="D", s=20, color="white", edgecolor=INK, label="the paper's program of this name")
    )
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure


def sizes_figure(groups: Mapping[str, np.ndarray], *, unit: str = "ops") -> Figure:
    """How large the members of a set are: for each size, the share that is no larger.

    Args:
      groups: label, such as a split -> [members] sizes.
      unit: of a size.
    """
    figure, axes = new_figure(height=2.6)
    for i, (label, sizes) in enumerate(groups.items()):
        ordered = np.sort(np.asarray(sizes, dtype=float))
        share = np.arange(1, len(ordered) + 1) / len(ordered)
        x = np.concatenate([ordered[:1], ordered])
        y = np.concatenate([[0.0], share])
        axes.step(x, y, where="post", color=PALETTE[i % len(PALETTE)], label=f"{label} ({len(ordered):,})")
    _log_sizes(axes)
    axes.set(xlabel=unit, ylabel="share of the set, no larger", ylim=(0, 1.02))
    axes.legend(loc="lower right")
    return figure


def _log_sizes(axes: Axes) -> None:
    """A logarithmic scale across, its ticks written as whole numbers."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def xla_layout(
    start: np.ndarray,
    end: np.ndarray,
    offset: np.ndarray,
    size: np.ndarray,
    colour_key: np.ndarray,
    *,
    capacity: int,
    title: str = "",
    height: float = 3.6,
) -> Figure:
    """How a compiler fills the fast memory: a rectangle per stay, time from left to right, offsets upwards.

    Args:
      start, end: [N] first and last instruction of each stay, both included.
      offset, size: [N] bytes.
      colour_key: [N] int; stays of equal key, such as those of one tensor, have one colour.
      capacity: bytes of the fast memory, the dashed line.
      title: above the axes.
      height: inches.

    Raises:
      ValueError: the arrays differ in length, or a stay ends before it starts.
    """
    start, end, offset, size, colour_key = (np.asarray(each) for each in (start, end, offset, size, colour_key))
    if len({each.shape for each in (start, end, offset, size, colour_key)}) != 1 or start.ndim != 1:
        raise ValueError("start, end, offset, size and colour_key are arrays of one length")
    if np.any(end < start):
        raise ValueError(f"stay {int(np.argmax(end < start))} ends before it starts")
    scale, unit = byte_unit(capacity)
    figure, axes = new_figure(height=height)
    stays = [
        Rectangle((s, o / scale), e - s + 1, b / scale)
        for s, e, o, b in zip(start.tolist(), end.tolist(), offset.tolist(), size.tolist())
    ]
    colours = [tensor_colour(key) for key in colour_key.tolist()]
    axes.add_collection(
        PatchCollection(
            stays, facecolor=colours, edgecolor="white", linewidth=0.3 if len(stays) <= 1500 else 0.0, rasterized=False
        )
    )
    top = capacity / scale
    axes.axhline(top, color=INK, linewidth=1.0, linestyle="--")
    axes.set(xlim=(0, int(end.max(initial=0)) + 1), ylim=(0, top * 1.04), title=title)
    axes.set_xlabel("instruction")
    axes.set_ylabel(f"offset in fast memory ({unit})")
    axes.grid(False)
    return figure
