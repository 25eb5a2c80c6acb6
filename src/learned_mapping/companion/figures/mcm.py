"""Paper 2's figures: a graph over its chips with loads and traffic, broken rules, gaps to the optimum, curves."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learned_mapping.companion.figures.style import GRID, INK, PALETTE, method_colour, new_figure
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.partition import Partition
from learned_mapping.programs.graph import ComputationGraph

LABELLED_OPS = 40
"""Up to this many ops, a drawing writes their names."""
OK_COLOUR, BAD_COLOUR = PALETTE[2], PALETTE[1]


def svg_text(figure: Figure) -> str:
    """The figure as SVG, the same text each time."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def show(graph: ComputationGraph, partition: Partition | None = None) -> str:
    """SVG text of a partition over its chips, or of the graph alone."""
    return svg_text(graph_drawing(graph) if partition is None else partition_drawing(graph, partition))


def depth_of(graph: ComputationGraph) -> np.ndarray:
    """[N] edges on the longest path to each op."""
    depth = np.zeros(graph.num_ops, np.int64)
    following: list[list[int]] = [[] for _ in range(graph.num_ops)]
    for u, v in graph.op_edges.tolist():
        following[u].append(v)
    for u in graph.topological_order.tolist():
        for v in following[u]:
            depth[v] = max(depth[v], depth[u] + 1)
    return depth


def graph_drawing(graph: ComputationGraph) -> Figure:
    """Ops by their depth, coloured by their share of the work, with their edges."""
    figure, axes = new_figure(height=3.4)
    x, y = depth_of(graph).astype(float), _lanes(graph, depth_of(graph))
    _draw_edges(axes, graph, x, y)
    seconds = ChipModel(graph, ChipPackage(chips=1)).op_seconds
    size = np.ceil(4 * np.sqrt(seconds / max(seconds.max(), 1e-30)))
    for step in range(5):  # few sizes keep the file small
        axes.plot(x[size == step], y[size == step], "o", color=PALETTE[0], alpha=0.8, markersize=2 + 2.2 * step)
    _label_ops(axes, graph, x, y)
    axes.margins(y=0.35)
    axes.set_yticks(np.unique(np.round(y)))
    axes.set(xlabel="operations on the longest path before", ylabel="operations side by side")
    axes.set_title(f"{graph.name}: {graph.num_ops} operations; size: time on one chip")
    return figure


def partition_drawing(
    graph: ComputationGraph, partition: Partition, package: ChipPackage | None = None, *, title: str = ""
) -> Figure:
    """The ops on their chips with their edges; underneath, what each chip spends on arithmetic and on its links.

    Args:
      graph, partition: ids in range; a partition that breaks Eq. 2 is drawn without the chips' times.
      package: the chips; the default package of as many chips as the partition has where None.
      title: above; the graph's name and the throughput where empty.
    """
    package = ChipPackage(chips=partition.chips) if package is None else package
    chip = partition.assignment.astype(int)
    edges = graph.op_edges
    if np.any(chip[edges[:, 0]] > chip[edges[:, 1]]):
        figure, axes = new_figure(height=3.0)
        _draw_partition(axes, graph, chip, partition.chips)
        axes.set_title(title or f"{graph.name}: an edge runs back")
        return figure
    figure, (axes, bars) = new_figure(2, 1, height=4.8, sharex=True, height_ratios=[3, 2])
    _draw_partition(axes, graph, chip, partition.chips)
    axes.set_xlabel("")
    model = ChipModel(graph, package)
    links = model.link_seconds(partition.assignment) * 1e3
    total = model.latencies(partition.assignment) * 1e3
    centres = np.arange(package.chips)
    bars.bar(centres, total - links, color=PALETTE[0], label="operations")
    bars.bar(centres, links, bottom=total - links, color=PALETTE[4], label="links on both sides")
    bars.axhline(total.max(), color=INK, linewidth=1, linestyle="--", label=f"slowest chip, {total.max():.3g} ms")
    bars.set(xlabel="chip", ylabel="time per result (ms)", ylim=(0, total.max() * 1.45 if total.max() > 0 else 1))
    bars.legend(ncols=3, loc="upper left")
    throughput = 1e3 / total.max() if total.max() > 0 else 0.0
    axes.set_title(title or f"{graph.name} on {package.chips} chips: {throughput:.4g} results per second")
    return figure


def broken_rules(graph: ComputationGraph, cases: Sequence[Mapping[str, Any]], chips: int) -> Figure:
    """One panel per case: the graph on its chips, and the validator's verdict underneath.

    Args:
      cases: each with ``title``, ``assignment`` ([N] chips) and ``rule`` (empty where valid).
    """
    columns = 2
    rows = -(-len(cases) // columns)
    figure, axes = new_figure(rows, columns, height=2.3 * rows)
    for panel, case in zip(np.ravel(axes), cases):
        chip = np.asarray(case["assignment"], int)
        _draw_partition(panel, graph, chip, chips)
        panel.set_title(case["title"], fontsize=9.5)
        panel.set_xlabel(case["rule"] or "valid", color=BAD_COLOUR if case["rule"] else OK_COLOUR, fontsize=9)
    for panel in np.ravel(axes)[len(cases) :]:
        panel.set_axis_off()
    return figure


def gap_bars(result: Mapping[str, Any], methods: Sequence[str] | None = None) -> Figure:
    """How much longer a result takes than at the optimum, by instance and method, on a logarithmic axis from 1."""
    rows = [r for r in result["rows"] if r["metric"] == "gap_percent" and r["method"] != "optimum"]
    instances = list(dict.fromkeys(r["instance"] for r in rows))
    methods = list(dict.fromkeys(r["method"] for r in rows)) if methods is None else methods
    figure, axes = new_figure(height=1.2 + 0.62 * len(instances))
    step = 0.8 / len(methods)
    for m, method in enumerate(methods):
        here = {r["instance"]: r for r in rows if r["method"] == method}
        y = [i + (m - (len(methods) - 1) / 2) * step for i, name in enumerate(instances) if name in here]
        value = np.array([1 + here[n]["value"] / 100 for n in instances if n in here])
        spread = [
            [max(0.0, (here[n]["value"] - here[n]["low"]) / 100) for n in instances if n in here],
            [max(0.0, (here[n]["high"] - here[n]["value"]) / 100) for n in instances if n in here],
        ]
        axes.barh(y, value - 1, left=1, height=step * 0.9, color=method_colour(method), label=method, xerr=spread)
        for place, v, above in zip(y, value, spread[1]):
            axes.annotate(f"{v:.2f}", (v + above, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set(xscale="log", xlabel="time per result over the optimum's (1 = optimum)", yticks=range(len(instances)))
    axes.set_yticklabels(instances)
    ticks = [t for t in (1, 1.5, 2, 3, 4, 6, 8, 12) if t <= axes.get_xlim()[1] * 1.05]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_xlim(1, axes.get_xlim()[1] * 1.25)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(methods))
    return figure


def search_curves(result: Mapping[str, Any], instance: str) -> Figure:
    """Best throughput against samples for the searches, with the rules as lines across."""
    rows = [r for r in result["rows"] if r["metric"] == "throughput" and r["instance"] == instance]
    figure, axes = new_figure(height=3.2)
    for row in rows:
        colour = method_colour(row["method"])
        if "curve" in row:
            axes.plot(row["curve"]["x"], row["curve"]["y"], color=colour, label=row["method"])
        else:
            style = ":" if row["method"] == "bound" else "--"
            width = 4.0 if row["method"] == "greedy-careful" else 1.3  # it may lie under the optimum's
            axes.axhline(row["value"], color=colour, linewidth=width, linestyle=style, label=row["method"])
    axes.set(xscale="log", xlabel="partitions evaluated", ylabel="results per second", ylim=(0, None))
    axes.set_title(instance)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _draw_partition(axes: Axes, graph: ComputationGraph, chip: np.ndarray, chips: int) -> None:
    """Ops within the band of their chip, left to right by depth."""
    depth = depth_of(graph)
    x = np.empty(graph.num_ops)
    for c in range(chips):
        mine = chip == c
        if mine.any():
            low, high = depth[mine].min(), depth[mine].max()
            x[mine] = c + (depth[mine] - low) / max(high - low, 1) * 0.6 - 0.3 * (high > low)
            axes.axvspan(c - 0.45, c + 0.45, color="#EEF3F7", zorder=0, linewidth=0)
        else:
            axes.axvspan(c - 0.45, c + 0.45, facecolor="none", edgecolor=GRID, linestyle=":", zorder=0)
    y = _lanes(graph, depth)
    _draw_edges(axes, graph, x, y, chip)
    colours = np.array(PALETTE[:6])[chip % 6]
    axes.scatter(x, y, s=150 if graph.num_ops <= LABELLED_OPS else 8, color=colours, zorder=3, linewidth=0)
    _label_ops(axes, graph, x, y)
    step = max(1, chips // 12)
    axes.set(xlim=(-0.6, chips - 0.4), xticks=range(0, chips, step), yticks=[], xlabel="chip")
    if graph.num_ops <= LABELLED_OPS:
        axes.set_xticks(range(0, chips, step), [f"chip {c}" for c in range(0, chips, step)])
        axes.margins(y=0.25)
    axes.grid(visible=False)


def _draw_edges(
    axes: Axes, graph: ComputationGraph, x: np.ndarray, y: np.ndarray, chip: np.ndarray | None = None
) -> None:
    """Grey within a chip, dark to a later chip, red to an earlier one; arrows where the graph is small."""
    edges = graph.op_edges
    colours = np.full(len(edges), "#B0B0B0", object)
    if chip is not None:
        colours[chip[edges[:, 1]] > chip[edges[:, 0]]] = INK
        colours[chip[edges[:, 1]] < chip[edges[:, 0]]] = BAD_COLOUR
    if graph.num_ops <= LABELLED_OPS:
        for (u, v), colour in zip(edges.tolist(), colours):
            arrow = {"arrowstyle": "-|>", "color": colour, "shrinkA": 6, "shrinkB": 6, "linewidth": 1.2}
            axes.annotate("", (x[v], y[v]), (x[u], y[u]), arrowprops=arrow, zorder=2)
        return
    for colour in dict.fromkeys(colours.tolist()):  # one path per colour keeps the file small
        u, v = edges[colours == colour].T
        gap = np.full(len(u), np.nan)
        path = [np.stack([values[u], values[v], gap], axis=1).ravel().round(3) for values in (x, y)]
        axes.plot(*path, color=colour, linewidth=0.6, zorder=1)


def _lanes(graph: ComputationGraph, depth: np.ndarray) -> np.ndarray:
    """[N] heights: ops of the same depth stand side by side, centred on 0."""
    y = np.empty(graph.num_ops)
    for level in np.unique(depth):
        mine = np.flatnonzero(depth == level)
        y[mine] = np.arange(len(mine)) - (len(mine) - 1) / 2
    return y


def _label_ops(axes: Axes, graph: ComputationGraph, x: np.ndarray, y: np.ndarray) -> None:
    if graph.num_ops > LABELLED_OPS:
        return
    short = all(len(name) <= 3 for name in graph.op_names)
    for name, a, b in zip(graph.op_names, x, y):
        if short:
            axes.annotate(name, (a, b), ha="center", va="center", color="white", fontsize=8.5, zorder=4)
        else:
            spot = {"xytext": (2, 7), "textcoords": "offset points", "rotation": 50, "rotation_mode": "anchor"}
            axes.annotate(name.split("/")[-1], (a, b), **spot, fontsize=6.5)
