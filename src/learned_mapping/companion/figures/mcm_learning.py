"""Figures 5 and 6 of paper 2: what searches reach against the samples they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from learned_mapping.companion.figures.style import INK, method_colour, new_figure

OVER_COSTS = (
    "class-search", "random-weights", "cem-weights", "rl-weights", "zeroshot-weights", "finetune-weights", "zeroshot",
    "finetune",
)  # fmt: skip
"""Methods that correct the cost model: dashed, those that name chips are not."""


def curves(result: Mapping[str, Any], metric: str, y_label: str, rules: tuple[str, ...] = ()) -> Figure:
    """The curves of the rows of a metric that carry one; dashed lines across for rules without, by ``improvement``."""
    figure, axes = new_figure(height=3.4)
    for row in result["rows"]:
        if row["metric"] != metric:
            continue
        if "curve" in row:
            x, y = row["curve"]["x"], row["curve"]["y"]
            style = "--" if row["method"] in OVER_COSTS else "-"
            axes.plot(x, y, style, color=method_colour(row["method"]), label=row["method"])
        elif row["method"] in rules and "chips" not in row:
            axes.axhline(row["value"], color=INK, linewidth=1, linestyle=":", label=row["method"])
    axes.set(xscale="log", xlabel="partitions tried", ylabel=y_label)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
