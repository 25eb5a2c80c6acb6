"""REGAL's own figures: the method, gains graph by graph, gains by number of evaluations, the law painted on a graph."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from learned_mapping.companion.figures.regal import drawing
from learned_mapping.companion.figures.style import INK, PALETTE, method_colour, new_figure
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.searches.brkga import MutantLaw

HISTOGRAM_STEP = 5.0
"""Percent, width of a bar."""


def method(result: dict[str, Any]) -> Figure:
    """Figure 1: from a graph to a schedule, with the number of weights of each part of the network.

    Args:
      result: of `regal.fig1`.
    """
    weights = {row["instance"]: row["value"] for row in result["rows"] if row["metric"] == "parameters"}
    (rounds,) = [row["value"] for row in result["rows"] if row["metric"] == "rounds"]

    def count(start: str) -> str:
        return f"{sum(value for name, value in weights.items() if name.startswith(start)):,.0f} weights"

    boxes = (
        ("graph", "costs of ops and\ntensors, smooth\nvectors of the graph", PALETTE[7]),
        ("encoders", f"ops: {count('node_enc')}\nuses: {count('edge_enc')}", PALETTE[0]),
        (f"{rounds} rounds", f"messages: {count('message')}\nupdate: {count('node_upd')}", PALETTE[0]),
        ("heads", f"alpha, beta of affinities\nand priority: {count('head')}", PALETTE[0]),
        ("Beta laws", "one for every entry\nof a chromosome", PALETTE[4]),
        ("BRKGA", "draws mutants from\nthe laws, keeps the\nbest schedule", PALETTE[2]),
    )
    figure, axes = new_figure(height=3.3)
    axes.set(xlim=(0, 3), ylim=(0, 2))
    axes.axis("off")
    centres = [(0.5, 1.5), (1.5, 1.5), (2.5, 1.5), (2.5, 0.5), (1.5, 0.5), (0.5, 0.5)]
    for (title, words, colour), (x, y) in zip(boxes, centres):
        _box(axes, x, y, title, words, colour)
    for (x0, y0), (x1, y1) in itertools.pairwise(centres):
        right, up = np.sign(x1 - x0), np.sign(y1 - y0)
        start, end = (x0 + 0.41 * right, y0 + 0.33 * up), (x1 - 0.41 * right, y1 - 0.33 * up)
        axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0})
    return figure


def _box(axes: Axes, x: float, y: float, title: str, words: str, colour: str) -> None:
    patch = FancyBboxPatch(
        (x - 0.39, y - 0.31), 0.78, 0.62, boxstyle="round,pad=0,rounding_size=0.04", facecolor="white", edgecolor=colour
    )
    axes.add_patch(patch)
    axes.text(x, y + 0.2, title, ha="center", va="center", weight="bold", color=colour)
    axes.text(x, y - 0.08, words, ha="center", va="center", fontsize=8)


def improvement_histogram(result: dict[str, Any], methods: Sequence[str] = ("regal", "spectral-law")) -> Figure:
    """Figure 2, left: how many test graphs gain how much over BRKGA; the paper's best and worst as marks.

    Args:
      result: of `regal.fig2_left`.
      methods: a panel each.
    """
    rows = [row for row in result["rows"] if row["metric"] == "improvement_percent"]
    shown = [name for name in methods if any(row["method"] == name for row in rows)]
    marks = [row["value"] for row in result["paper"] if row["metric"] == "improvement_percent"]
    everything = [row["value"] for row in rows] + marks
    first = HISTOGRAM_STEP * np.floor(min(everything) / HISTOGRAM_STEP)
    edges = np.arange(first, max(everything) + HISTOGRAM_STEP, HISTOGRAM_STEP)
    figure, axes = new_figure(1, len(shown), height=2.8, sharey=True, squeeze=False)
    for panel, name in zip(axes[0], shown):
        values = [row["value"] for row in rows if row["method"] == name]
        panel.hist(values, bins=edges, color=method_colour(name), edgecolor="white")
        panel.axvline(0, color=INK, linewidth=0.9)
        if marks:
            panel.plot(marks, [0] * len(marks), "D", color="white", markeredgecolor=INK, clip_on=False, zorder=5)
        panel.set_title(f"{name}: {min(values):+.1f} to {max(values):+.1f} %", loc="left")
        panel.set_xlabel("improvement over BRKGA (%)")
        panel.yaxis.get_major_locator().set_params(integer=True)
    axes[0][0].set_ylabel("test graphs")
    return figure


def improvement_by_limit(result: dict[str, Any]) -> Figure:
    """Figure 2, right: improvement over BRKGA at the first limit, against the limit, a panel for each dataset.

    Args:
      result: of `regal.fig2_right`.
    """
    rows = [row for row in result["rows"] if row["metric"] == "improvement_percent"]
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    limits = sorted({int(row["instance"]) for row in rows})
    figure, axes = new_figure(1, len(datasets), height=3.0, squeeze=False)
    for panel, dataset in zip(axes[0], datasets):
        here = [row for row in rows if row["dataset"] == dataset]
        for name in dict.fromkeys(row["method"] for row in here):
            mine = sorted((row for row in here if row["method"] == name), key=lambda row: int(row["instance"]))
            x, colour = [int(row["instance"]) for row in mine], method_colour(name)
            panel.fill_between(x, [r["low"] for r in mine], [r["high"] for r in mine], color=colour, alpha=0.15, lw=0)
            panel.plot(x, [r["value"] for r in mine], "o-", color=colour, markersize=5, label=name)
        panel.axhline(0, color=INK, linewidth=0.8)
        panel.set_xscale("log")
        panel.set_xticks(limits, [f"{limit:,}" for limit in limits])
        panel.minorticks_off()
        panel.set_title(dataset, loc="left")
        panel.set_xlabel("evaluations")
    axes[0][0].set_ylabel(f"improvement over BRKGA\nwith {limits[0]:,} evaluations (%)")
    axes[0][0].legend()
    return figure


def painted_law(graph: ComputationGraph, law: MutantLaw) -> Figure:
    """The graph with each op in the colour of the device that the law prefers.

    Args:
      graph: of N ops.
      law: of two devices; the means of both affinities are compared.
    """
    return drawing(graph, preference(graph, law), label="device 0   —   what the law prefers   —   device 1")


def preference(graph: ComputationGraph, law: MutantLaw) -> np.ndarray:
    """[N] in [0, 1]: one half, plus half of how much larger device 1's mean affinity is than device 0's."""
    entries = 2 * graph.num_ops
    mean = (law.alpha[:entries] / (law.alpha[:entries] + law.beta[:entries])).reshape(-1, 2)
    return 0.5 + (mean[:, 1] - mean[:, 0]) / 2
