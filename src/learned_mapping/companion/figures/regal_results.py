"""Paper 3's results as figures: gaps by method, room by reading of a transfer, seconds by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from learned_mapping.companion.figures.style import INK, PALETTE, method_colour, new_figure

DATASET_TITLES = {
    "traced-runtime": "traced graphs,\nrunning time",
    "traced-memory": "traced graphs,\npeak memory",
    "synthetic-runtime": "synthetic graphs,\nrunning time",
}
TABLE_METHODS = (
    "gp-dfs", "list-scheduler", "gp-list", "random", "brkga", "brkga-tuned", "local-search", "constant-law",
    "spectral-law", "priority-law", "idrs", "gas", "regal-paper", "regal", "regal-local-search", "cp-sat",
)  # fmt: skip


def gap_bars(result: dict[str, Any], methods: Sequence[str] = TABLE_METHODS) -> Figure:
    """Table 1 as bars, one panel per dataset: the gap to the best known, its interval, the paper's value as a mark."""
    datasets = [d for d in DATASET_TITLES if any(row["instance"] == d for row in result["rows"])]
    rows = {(r["instance"], r["method"]): r for r in result["rows"] if r["metric"] == "gap_percent"}
    paper = {(r["instance"], r["method"]): r["value"] for r in result["paper"] if r["metric"] == "gap_percent"}
    shown = [m for m in methods if any((d, m) in rows for d in datasets)]
    figure, axes = new_figure(1, len(datasets), height=0.6 + 0.36 * len(shown) + 0.9, sharey=True, squeeze=False)
    for panel, dataset in zip(axes[0], datasets):
        values = [rows.get((dataset, m), {"value": 0.0}) for m in shown]
        lengths = np.array([row["value"] for row in values])
        errors = [
            [v["value"] - v.get("low", v["value"]) for v in values],
            [v.get("high", v["value"]) - v["value"] for v in values],
        ]
        colours = [method_colour(m) for m in shown]
        style = {"linewidth": 1, "ecolor": INK}
        panel.barh(range(len(shown)), lengths, 0.66, color=colours, xerr=np.maximum(errors, 0), error_kw=style)
        marks = [(paper[dataset, m], i) for i, m in enumerate(shown) if (dataset, m) in paper]
        if marks:
            panel.plot(*zip(*marks), "D", color="white", markeredgecolor=INK, markersize=5, clip_on=False, zorder=5)
        reach = max([*(v.get("high", v["value"]) for v in values), *[x for x, _ in marks], 1e-9])
        for i, row in enumerate(values):
            panel.text(1.0, i, f"{row['value']:.1f}", transform=panel.get_yaxis_transform(), ha="right", va="center")
        panel.set_xlim(0, 1.35 * reach)
        panel.set_yticks(range(len(shown)), shown)
        panel.set_ylim(len(shown) - 0.4, -0.6)
        panel.set_title(DATASET_TITLES[dataset], loc="left")
        panel.set_xlabel("gap to best known (%)")
        panel.grid(axis="y", visible=False)
    figure.legend(handles=_paper_mark(), loc="outside lower right")
    return figure


def _paper_mark() -> list[Line2D]:
    return [Line2D([], [], marker="D", linestyle="", color="white", markeredgecolor=INK, label="the paper, its graphs")]


def room_bars(
    result: dict[str, Any], methods: Sequence[str] = ("list-scheduler", "gp-list", "brkga", "local-search")
) -> Figure:
    """The gap of each method under both readings of a transfer, one panel per kind of graph."""
    rows = {(r["instance"], r["method"]): r for r in result["rows"] if r["metric"] == "gap_percent"}
    figure, axes = new_figure(1, 2, height=3.0, sharey=True)
    colours = {"rendezvous": PALETTE[0], "free": PALETTE[4]}
    for panel, kind in zip(axes, ("synthetic", "traced")):
        for offset, (reading, colour) in zip((-0.2, 0.2), colours.items()):
            for i, method in enumerate(methods):
                value = rows[f"{kind}-{reading}", method]["value"]
                panel.bar(i + offset, value, 0.38, color=colour)
                panel.text(i + offset, value, f"{value:.1f}", ha="center", va="bottom", fontsize=8)
        panel.set_xticks(range(len(methods)), [m.replace("-", "-\n", 1) for m in methods])
        panel.set_title(f"{kind} graphs", loc="left")
        panel.grid(axis="x", visible=False)
        panel.margins(y=0.12)
    axes[0].set_ylabel("gap to best known (%)")
    axes[1].legend(
        handles=[Patch(color=colour, label=reading) for reading, colour in colours.items()], title="transfers"
    )
    return figure


def seconds_by_size(result: dict[str, Any]) -> Figure:
    """CPU seconds of every method against the number of ops, both axes logarithmic; the paper's mean as a line."""
    figure, axes = new_figure(height=3.4)
    methods = dict.fromkeys(row["method"] for row in result["rows"] if row["metric"] == "seconds_by_size")
    for method in methods:
        rows = [r for r in result["rows"] if r["metric"] == "seconds_by_size" and r["method"] == method]
        rows.sort(key=lambda row: row["ops"])
        axes.plot(
            [r["ops"] for r in rows],
            [r["value"] for r in rows],
            "o-",
            color=method_colour(method),
            markersize=4,
            label=method,
        )
    for row in result["paper"]:
        if row["method"] == "brkga" and row["metric"] == "seconds":
            axes.axhline(row["value"], color=INK, linewidth=0.9, linestyle=":")
            label = f"paper, BRKGA, mean over its graphs: {row['value']:g} s"
            axes.annotate(label, (0.01, row["value"]), xycoords=("axes fraction", "data"), xytext=(0, 3),
                          textcoords="offset points", fontsize=8)  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    sizes = sorted({row["ops"] for row in result["rows"] if row["metric"] == "seconds_by_size"})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("ops in the graph")
    axes.set_ylabel("CPU seconds, one core")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
