"""Paper 3's results as figures: gaps by method, gains by graph, limit and distance, seconds; laws."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from learned_mapping.companion.figures.charts import (
    Row,
    bars,
    curve,
    distinct,
    errors,
    method_colour,
    name_rows,
    new_panels,
    of,
)
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.draw import drawing
from learned_mapping.regal.searches.brkga import MutantLaw
from learned_mapping.style import INK, new_figure

DATASET_TITLES = {
    "traced-runtime": "traced graphs,\nrunning time",
    "traced-memory": "traced graphs,\npeak memory",
    "synthetic-runtime": "synthetic graphs,\nrunning time",
}
NETWORK_TITLES = {"traced-runtime": "network of traced graphs", "synthetic-runtime": "network of synthetic graphs"}
DIAMOND = {"color": "white", "markeredgecolor": INK}  # What the paper has.
HISTOGRAM_STEP = 5.0  # Percent, width of a bar.
SPREAD = 0.13  # How far the methods of a distance stand from its line.


def _by_key(rows: Sequence[Row], metric: str) -> dict[tuple[str, str], Row]:
    """(instance, method) -> row."""
    return {(row["instance"], row["method"]): row for row in of(rows, metric)}


def gap_bars(result: dict[str, Any], methods: Sequence[str]) -> Figure:
    """Table 1 as bars, one panel per dataset: the gap to the best known, its interval, the paper's value as a mark."""
    rows, paper = (_by_key(result[part], "gap_percent") for part in ("rows", "paper"))
    datasets = [d for d in DATASET_TITLES if any(row["instance"] == d for row in result["rows"])]
    shown = [m for m in methods if any((d, m) in rows for d in datasets)]
    figure, panels = new_panels(len(datasets), len(datasets), height=1.5 + 0.36 * len(shown), sharey=True)
    for panel, dataset in zip(panels, datasets):
        here = [rows.get((dataset, m), {"method": m, "value": 0.0}) for m in shown]
        bars(panel, range(len(shown)), here, 0.66, error_kw={"linewidth": 1, "ecolor": INK})
        marks = [(paper[dataset, m]["value"], i) for i, m in enumerate(shown) if (dataset, m) in paper]
        if marks:
            panel.plot(*zip(*marks), "D", **DIAMOND, markersize=5, clip_on=False, zorder=5)
        reach = max([*(row.get("high", row["value"]) for row in here), *(x for x, _ in marks), 1e-9])
        for i, row in enumerate(here):
            said = f"{row['value']:.1f}" if "metric" in row else "–"
            panel.text(1.0, i, said, transform=panel.get_yaxis_transform(), ha="right", va="center")
        name_rows(panel, shown)
        panel.set(xlim=(0, 1.35 * reach), xlabel="gap to best known (%)")
        panel.set_title(DATASET_TITLES[dataset], loc="left")
    mark = Line2D([], [], marker="D", linestyle="", label="the paper, its graphs", **DIAMOND)
    figure.legend(handles=[mark], loc="outside lower right")
    return figure


def seconds_by_size(result: dict[str, Any]) -> Figure:
    """CPU seconds of every method against the number of ops, both axes logarithmic; the paper's mean as a line."""
    figure, axes = new_figure(height=3.4)
    rows = sorted(of(result["rows"], "seconds_by_size"), key=lambda row: row["ops"])
    for method in distinct(of(result["rows"], "seconds_by_size"), "method"):
        points = [(row["ops"], row["value"]) for row in rows if row["method"] == method]
        axes.plot(*zip(*points), "o-", color=method_colour(method), markersize=4, label=method)
    for row in of(result["paper"], "seconds"):
        if row["method"] == "brkga":
            axes.axhline(row["value"], color=INK, linewidth=0.9, linestyle=":")
            label = f"paper, BRKGA, mean over its graphs: {row['value']:g} s"
            place = {"xycoords": ("axes fraction", "data"), "xytext": (0, 3), "textcoords": "offset points"}
            axes.annotate(label, (0.01, row["value"]), **place, fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="ops in the graph", ylabel="CPU seconds, one core")
    sizes = distinct(rows, "ops")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


LEARNERS = ("regal", "regal-imitation", "spectral-law")
"""Which have a panel or dots of their own; spectral-law has learned nothing."""


def gains_by_distance(result: dict[str, Any]) -> Figure:
    """Geometric-mean improvement over BRKGA with as many evaluations by distance from the training graphs.

    Args:
      result: of `regal.distance`; near distances are above, refusals in words.
    """
    rows = [row for row in result["rows"] if row["metric"] in ("improvement_percent", "refused")]
    methods = [name for name in LEARNERS if any(row["method"] == name for row in rows)]
    networks = [name for name in NETWORK_TITLES if any(row["instance"].startswith(f"{name}/") for row in rows)]
    distances = list(dict.fromkeys(row["instance"].partition("/")[2] for row in rows))
    found = {(row["instance"], row["method"]): row for row in rows}
    height = 1.1 + 0.42 * len(distances)
    figure, panels = new_panels(len(networks), len(networks), height=height, sharex=True, sharey=True)
    for panel, network in zip(panels, networks):
        panel.axvline(0, color=INK, linewidth=0.9)
        for k, name in enumerate(methods):
            offset, colour = SPREAD * (2 * k - len(methods) + 1), method_colour(name)
            mine = [(i + offset, found.get((f"{network}/{each}", name))) for i, each in enumerate(distances)]
            dots = [(y, row) for y, row in mine if row is not None and row["metric"] != "refused"]
            values, shown = [row["value"] for _, row in dots], [row for _, row in dots]
            look = {"fmt": "o", "color": colour, "markersize": 5, "elinewidth": 1.2, "capsize": 2, "label": name}
            panel.errorbar(values, [y for y, _ in dots], xerr=errors(shown), **look)
            for y, row in mine:
                if row is not None and row["metric"] == "refused":
                    look = {"ha": "right", "va": "center", "color": colour, "fontsize": 8}
                    panel.text(0.98, y, f"{name} refuses", transform=panel.get_yaxis_transform(), **look)
        name_rows(panel, [each.replace("-", " ") for each in distances])
        panel.set_title(NETWORK_TITLES[network], loc="left")
        panel.set_xlabel("improvement over BRKGA (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(methods))
    return figure


def improvement_histogram(result: dict[str, Any]) -> Figure:
    """Figure 2, left: how many test graphs gain how much over BRKGA; the paper's best and worst as marks.

    Args:
      result: of `regal.fig2_left`.
    """
    rows = of(result["rows"], "improvement_percent")
    shown = [name for name in LEARNERS if any(row["method"] == name for row in rows)]
    marks = [row["value"] for row in of(result["paper"], "improvement_percent")]
    everything = [row["value"] for row in rows] + marks
    first = HISTOGRAM_STEP * np.floor(min(everything) / HISTOGRAM_STEP)
    edges = np.arange(first, max(everything) + HISTOGRAM_STEP, HISTOGRAM_STEP)
    figure, panels = new_panels(len(shown), len(shown), height=2.8, sharey=True)
    for panel, name in zip(panels, shown):
        values = [row["value"] for row in rows if row["method"] == name]
        panel.hist(values, bins=edges, color=method_colour(name), edgecolor="white")
        panel.axvline(0, color=INK, linewidth=0.9)
        panel.plot(marks, [0] * len(marks), "D", **DIAMOND, clip_on=False, zorder=5)
        panel.set_title(f"{name}: {min(values):+.1f} to {max(values):+.1f} %", loc="left")
        panel.set_xlabel("improvement over BRKGA (%)")
        panel.yaxis.get_major_locator().set_params(integer=True)
    panels[0].set_ylabel("test graphs")
    return figure


def improvement_by_limit(result: dict[str, Any]) -> Figure:
    """Figure 2, right: improvement over BRKGA at the first limit, against the limit, a panel for each dataset.

    Args:
      result: of `regal.fig2_right`.
    """
    unsorted = of(result["rows"], "improvement_percent")
    rows = sorted(unsorted, key=lambda row: int(row["instance"]))
    datasets, limits = distinct(unsorted, "dataset"), sorted({int(row["instance"]) for row in rows})
    figure, panels = new_panels(len(datasets), len(datasets), height=3.0)
    for panel, dataset in zip(panels, datasets):
        for name in distinct((row for row in unsorted if row["dataset"] == dataset), "method"):
            mine = [row for row in rows if (row["dataset"], row["method"]) == (dataset, name)]
            x = [int(r["instance"]) for r in mine]
            y, low, high = ([r[end] for r in mine] for end in ("value", "low", "high"))
            style = "o--" if name.startswith("regal-imitation") else "o-"  # ours, not the paper's
            curve(panel, x, y, low, high, colour=method_colour(name), style=style, markersize=5, label=name)
        panel.axhline(0, color=INK, linewidth=0.8)
        panel.set_xscale("log")
        panel.set_xticks(limits, [f"{limit:,}" for limit in limits])
        panel.minorticks_off()
        panel.set_title(dataset, loc="left")
        panel.set_xlabel("evaluations")
    panels[0].set_ylabel(f"improvement over BRKGA\nwith {limits[0]:,} evaluations (%)")
    lines = {line.get_label(): line for panel in panels for line in panel.get_legend_handles_labels()[0]}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3)
    return figure


def learning_curves(records: Sequence[dict[str, Any]]) -> Figure:
    """REGAL learns: gaps on validation graphs at 5,000 evaluations over CPU seconds, a panel for each dataset.

    Args:
      records: of `companion.regal.methods.training_records`; a line for each seed, dashed for the same network's
        average law.
    """
    datasets = [d for d in DATASET_TITLES if any(record["dataset"] == d for record in records)]
    figure, panels = new_panels(len(datasets), len(datasets), height=3.0)
    lines = (("regal", "gap", "-"), ("regal-average", "gap_average_law", "--"), ("brkga", "gap_uniform", ":"))
    for panel, dataset in zip(panels, datasets):
        for record in records:
            watched = [row for row in record["curve"] if "gap" in row and record["dataset"] == dataset]
            for name, key, style in lines:
                x, y = ([row[each] for row in watched] for each in ("cpu_s", key))
                panel.plot(x, y, style, color=method_colour(name), linewidth=1.3)
        panel.set_title(DATASET_TITLES[dataset], loc="left")
        panel.set_xlabel("CPU seconds of training")
    panels[0].set_ylabel("gap to best known (%),\nvalidation graphs")
    words = {"regal": "its laws", "regal-average": "its average law for every op", "brkga": "uniform mutants"}
    marks = [Line2D([], [], color=method_colour(name), linestyle=style, label=words[name]) for name, _, style in lines]
    figure.legend(handles=marks, loc="outside lower center", ncols=3)
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
