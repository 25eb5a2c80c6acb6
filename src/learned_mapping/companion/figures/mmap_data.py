"""Pictures of the data: buffers per workload and sizes of sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from learned_mapping.companion.figures.charts import ROW_INCHES, name_rows
from learned_mapping.style import GRID, INK, PALETTE, new_figure


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
    colours = {each: PALETTE[i % len(PALETTE)] for i, each in enumerate(sorted(set(families)))}
    axes.axvspan(*paper_range, color=GRID, alpha=0.55, linewidth=0, zorder=0)
    axes.barh(range(len(names)), buffers, color=[colours[each] for each in families], height=0.72, zorder=2)
    for row, (name, count) in enumerate(zip(names, buffers)):
        # Where the paper's diamond may stand at the bar's end, the number steps aside.
        x = 1.16 * max(count, paper_buffers[name]) if name in paper_buffers else 1.05 * count
        axes.text(x, row, f"{count:,}", va="center", fontsize=6.5, zorder=4)
    marked = [row for row, name in enumerate(names) if name in paper_buffers]
    diamond = {"marker": "D", "s": 20, "color": "white", "edgecolor": INK, "zorder": 3}
    diamonds = axes.scatter([paper_buffers[names[row]] for row in marked], marked, **diamond)
    diamonds.set_label("the paper's program of this name")
    _log_sizes(axes)
    axes.set_xlim(min(100, min(buffers) / 1.5), max(*buffers, paper_range[1]) * 1.8)
    name_rows(axes, names, small=True)
    axes.set_xlabel("buffers")
    handles = [Patch(color=colour, label=each) for each, colour in colours.items()]
    handles.append(Patch(color=GRID, label=f"the paper's {paper_range[0]:,} to {paper_range[1]:,}"))
    figure.legend(handles=[*handles, diamonds], loc="outside upper center", ncols=3)
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
        share = np.arange(len(ordered) + 1) / len(ordered)
        look = {"where": "post", "color": PALETTE[i % len(PALETTE)]}
        axes.step([ordered[0], *ordered], share, label=f"{label} ({len(ordered):,})", **look)
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
