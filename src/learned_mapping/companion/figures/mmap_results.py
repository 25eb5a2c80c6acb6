"""Results of paper 1 as figures: reward over time, final rewards beside bound and paper, gaps to the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from learned_mapping.companion.figures.style import INK, method_colour, new_figure

Rows = Sequence[Mapping[str, Any]]


def _names(rows: Rows, key: str, metric: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows if row["metric"] == metric and row["instance"] != "all"))


def curves(
    rows: Rows,
    bounds: Mapping[str, float] | None = None,
    *,
    metric: str = "return",
    x_label: str = "CPU seconds",
) -> Figure:
    """Best return so far over time or games, a panel per program, a line per method, the spread of the seeds shaded.

    Args:
      rows: of `mmap.table2`, `mmap.fig5` or `mmap.fig7`.
      bounds: return that no game exceeds, by instance.
      metric: of the rows whose curves are drawn.
      x_label: what the curves are over.
    """
    rows = [row for row in rows if row["metric"] == metric and "curve" in row]
    instances = _names(rows, "instance", metric)
    columns = min(2, len(instances))
    lines = -(-len(instances) // columns)
    figure, grid = new_figure(lines, columns, height=0.6 + 2.4 * lines, squeeze=False)
    handles: dict[str, Any] = {}
    for axes, instance in zip(grid.flat, instances):
        shown = [row for row in rows if row["instance"] == instance]
        right = max(row["curve"]["x"][-1] for row in shown)
        for row in shown:
            curve, colour = row["curve"], method_colour(row["method"])
            x, y = np.array(curve["x"]), np.array(curve["y"])
            reached = y > 0
            if not reached.any():
                continue
            (line,) = axes.plot(x[reached], y[reached], color=colour)
            if row["n"] == 1:  # a rule is done within moments: its result as a level from there on
                axes.plot([x[-1], right], [y[-1]] * 2, color=colour, linestyle=":")
            else:
                low, high = np.array(curve["low"])[reached], np.array(curve["high"])[reached]
                axes.fill_between(x[reached], low, high, color=colour, alpha=0.15)
            handles.setdefault(row["method"], line)
        if bounds and instance in bounds:
            handles.setdefault("bound", axes.axhline(bounds[instance], color=INK, linestyle="--", linewidth=1.2))
        axes.set_xscale("log")
        axes.set_xlim(right=right)
        axes.set_title(instance)
    for axes in grid.flat[len(instances) :]:
        axes.set_visible(False)
    figure.supxlabel(x_label, fontsize=9.5)
    figure.supylabel("return (share of the possible saving)", fontsize=9.5)
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4)
    return figure


def returns(rows: Rows, paper: Rows = (), bounds: Mapping[str, float] | None = None) -> Figure:
    """Final returns, a panel per program: bars with 95% intervals, a line for the bound, rings for the paper's.

    A negative return, of placements that slow the program down, is a bar of no length with its number.
    """
    instances, methods = _names(rows, "instance", "return"), _names(rows, "method", "return")
    columns = min(2, len(instances))
    lines = -(-len(instances) // columns)
    figure, grid = new_figure(
        lines, columns, height=0.7 + (0.5 + 0.26 * len(methods)) * lines, squeeze=False, sharey=True, sharex=True
    )
    for axes, instance in zip(grid.flat, instances):
        for position, method in enumerate(methods):
            row = next(
                (r for r in rows if (r["instance"], r["method"], r["metric"]) == (instance, method, "return")), None
            )
            if row is None:
                continue
            error = [[max(row["value"] - row["low"], 0.0)], [max(row["high"] - row["value"], 0.0)]]
            axes.barh(
                position, max(row["value"], 0.0), xerr=error, color=method_colour(method), error_kw={"linewidth": 1.0}
            )
            axes.text(0.01, position, f"{row['value']:.3f}", va="center", fontsize=8, color="white", fontweight="bold")
        for row in paper:
            if row["instance"] == instance and row["method"] in methods:
                position = methods.index(row["method"])
                axes.plot(row["value"], position, "o", markerfacecolor="white", markeredgecolor=INK, markersize=5)
        if bounds and instance in bounds:
            axes.axvline(bounds[instance], color=INK, linestyle="--", linewidth=1.2)
        axes.set_yticks(range(len(methods)), methods)
        axes.set(xlim=(0, 1.02), title=instance)
        axes.grid(False, axis="y")
    grid.flat[0].invert_yaxis()
    for axes in grid.flat[len(instances) :]:
        axes.set_visible(False)
    figure.supxlabel("return; dashed: no game can do better; rings: the paper's numbers", fontsize=9.5)
    return figure


def gaps(rows: Rows) -> Figure:
    """How far below the proven bound each method stays, in percent of the bound; a group of bars per program."""
    instances, methods = _names(rows, "instance", "gap_percent"), _names(rows, "method", "gap_percent")
    figure, axes = new_figure(height=3.4)
    width = 0.8 / max(len(methods), 1)
    for i, method in enumerate(methods):
        values = [
            next(r for r in rows if (r["instance"], r["method"], r["metric"]) == (instance, method, "gap_percent"))
            for instance in instances
        ]
        heights = np.array([row["value"] for row in values])
        error = np.abs(np.array([[row["value"] - row["low"], row["high"] - row["value"]] for row in values]).T)
        positions = np.arange(len(instances)) + (i - (len(methods) - 1) / 2) * width
        axes.bar(
            positions, heights, width * 0.92, yerr=error, color=method_colour(method), label=method,
            error_kw={"linewidth": 0.8},
        )  # fmt: skip
    axes.set_xticks(
        range(len(instances)), [name.replace("_", "_\n", 1) if len(name) > 14 else name for name in instances]
    )
    axes.set_ylabel("gap to the bound (%)")
    axes.grid(False, axis="x")
    figure.legend(loc="outside upper center", ncols=4)
    return figure
