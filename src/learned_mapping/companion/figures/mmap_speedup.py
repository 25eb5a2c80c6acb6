"""Paper 1's Figures 6 and 10: return against latency, and the speedup of every program over the compiler's mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from learned_mapping.companion.figures.style import INK, PALETTE, method_colour, new_figure

Rows = Sequence[Mapping[str, Any]]
ROW_INCHES = 0.155
"""Of one program."""
GROUP_COLOURS = {"best": PALETTE[0], "worst": PALETTE[1]}


def speedups(rows: Rows, metric: str = "speedup", *, baseline: str = "the compiler's mapping") -> Figure:
    """A line per program, fastest first: the agent's bar from 1 on, with its seeds' interval, and prod's diamond.

    Args:
      rows: of `mmap.fig10`.
      metric: ``speedup`` or ``speedup_kept``.
      baseline: what it is over, in words.
    """
    found = {
        method: {row["instance"]: row for row in rows if row["method"] == method and row["metric"] == metric}
        for method in ("muzero", "prod")
    }
    names = sorted(found["muzero"], key=lambda name: (-found["muzero"][name]["value"], name))
    positions = np.arange(len(names))
    agent = np.array([found["muzero"][name]["value"] for name in names])
    prod = np.array([found["prod"][name]["value"] for name in names])
    spread = np.array([[found["muzero"][name][end] for name in names] for end in ("low", "high")])
    figure, axes = new_figure(height=1.2 + ROW_INCHES * len(names))
    error = np.maximum(np.array([agent - spread[0], spread[1] - agent]), 0.0)
    axes.barh(
        positions, agent - 1.0, left=1.0, height=0.7, xerr=error, color=method_colour("muzero"), label="agent",
        error_kw={"linewidth": 0.8},
    )  # fmt: skip
    axes.scatter(
        prod, positions, marker="D", s=10, color=method_colour("prod"), zorder=3, label="prod: the better of both"
    )
    axes.axvline(1.0, color=INK, linewidth=1.0)
    axes.set_yticks(positions, names, fontsize=6.5)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.set_xlabel(f"speedup over {baseline}")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def return_against_latency(rows: Rows) -> Figure:
    """A panel per program, the best ones in the upper row: a dot per solution, both correlations in the corner.

    Args:
      rows: of `mmap.fig6`.
    """
    groups: dict[str, list[str]] = {}
    for row in rows:
        names = groups.setdefault(row["group"], [])
        if row["instance"] not in names:
            names.append(row["instance"])
    columns = max(map(len, groups.values()))
    figure, grid = new_figure(len(groups), columns, height=0.6 + 2.0 * len(groups), squeeze=False)
    handles: dict[str, Any] = {}
    for line, (group, names) in zip(grid, groups.items()):
        for axes in line[len(names) :]:
            axes.set_visible(False)
        for axes, name in zip(line, names):
            corner = []
            for row in rows:
                if row["instance"] != name:
                    continue
                if row["metric"] == "latency_s":
                    dot = axes.scatter(
                        row["return"], 1e3 * row["value"], s=22, color=method_colour(row["method"]), linewidth=0
                    )
                    handles.setdefault(row["method"], dot)
                elif row["value"] is not None:
                    corner.append(f"{'ranks' if row['metric'].startswith('rank') else 'r'} {row['value']:.2f}")
            axes.set_title(name, fontsize=8.5, color=GROUP_COLOURS.get(group, INK))
            axes.text(0.97, 0.95, "\n".join(corner), transform=axes.transAxes, ha="right", va="top", fontsize=8)
            axes.tick_params(labelsize=7)
    figure.supxlabel("return (share of the possible saving)", fontsize=9.5)
    figure.supylabel("latency (ms)", fontsize=9.5)
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4)
    return figure
