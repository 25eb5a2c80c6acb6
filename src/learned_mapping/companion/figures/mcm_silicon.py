"""Figure 7 of paper 2: predicted against measured run time; and what each method reaches on silicon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from learned_mapping.companion.figures.style import INK, PALETTE, method_colour, new_figure

COLOURS = {
    "random-balanced": PALETTE[5],
    "class-search": PALETTE[0],
    "even-cut": PALETTE[6],
    "informed-cut": PALETTE[3],
    "informed-optimum": PALETTE[3],
}


def predicted_against_measured(result: Mapping[str, Any]) -> Figure:
    """The valid partitions of the first seed of a result of ``mcm.fig7``, run times over the smallest of their kind."""
    (row,) = (r for r in result["rows"] if r["metric"] == "pearson")
    predicted, measured = (np.array(row["scatter"][name]) for name in ("predicted", "measured"))
    valid = measured > 0
    x, y = predicted[valid] / predicted[valid].min(), measured[valid] / measured[valid].min()
    figure, axes = new_figure(height=3.6, width=4.8)
    axes.plot(x, y, "o", color=PALETTE[0], alpha=0.35, markersize=3, markeredgewidth=0, rasterized=True)
    end = max(x.max(), y.max()) * 1.02
    axes.plot([1, end], [1, end], color=INK, linewidth=1, linestyle="--", label="measured as predicted")
    axes.set(xlabel="predicted run time over the smallest", ylabel="measured run time over the smallest")
    axes.set_title(f"{valid.sum()} of {len(valid)} partitions run, R = {np.corrcoef(x, y)[0, 1]:.3f}")
    axes.legend(loc="lower right")
    return figure


def method_bars(result: Mapping[str, Any]) -> Figure:
    """Throughput of each method's partition on silicon, without noise, over that of the static optimum."""
    rows = [r for r in result["rows"] if r["metric"] == "over_optimum"]
    figure, axes = new_figure(height=0.6 + 0.33 * len(rows))
    for place, row in enumerate(rows):
        colour = COLOURS.get(row["method"]) or method_colour(row["method"])
        spread = [[max(0.0, row["value"] - row["low"])], [max(0.0, row["high"] - row["value"])]]
        axes.barh(place, row["value"], color=colour, xerr=spread if row["n"] > 1 else None)
        text = f"{row['value']:.3f}" if row["value"] else "does not fit"
        axes.annotate(text, (row["high"], place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.axvline(1, color=INK, linewidth=1, linestyle="--")
    axes.set(xlabel="throughput on silicon over the static optimum's", yticks=range(len(rows)), xlim=(0, 1.25))
    axes.set_yticklabels([row["method"] for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    return figure
