"""Pictures of partitions: a graph over its chips, and what each chip spends on arithmetic and on
its links."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.partition import Partition
from learned_mapping.programs.draw import depth_of
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.style import GRID, INK, PALETTE, new_figure, written

LABELLED_OPS = 40  # Up to this many ops, a drawing writes their names.
SINGLE_OPS = 600  # Up to this many ops, a partition's drawing has a dot for each.
LEVELS = 40  # Depths that a drawing of more tells apart.
BAD_COLOUR = PALETTE[1]


def picture(
    graph: ComputationGraph, partition: Partition, package: ChipPackage | None = None
) -> Figure:
    """The ops on their chips with their edges; underneath, what each chip spends on arithmetic and
    on its links.

    Args:
      graph, partition: ids in range; a partition that breaks Eq. 2 is drawn without the chips'
        times.
      package: the chips; the default package of as many chips as the partition has where None.
    """
    package = ChipPackage(chips=partition.chips) if package is None else package
    chip = partition.assignment.astype(int)
    edges = graph.op_edges
    if np.any(chip[edges[:, 0]] > chip[edges[:, 1]]):
        figure, axes = new_figure(height=3.0)
        draw_partition(axes, graph, chip, partition.chips)
        axes.set_title(f"{written(graph.name)}: an edge runs back")
        _legend(figure, graph)
        return figure
    figure, (axes, bars) = new_figure(2, 1, height=4.8, sharex=True, height_ratios=[3, 2])
    draw_partition(axes, graph, chip, partition.chips)
    axes.set_xlabel("")
    model = ChipModel(graph, package)
    links = model.link_seconds(partition.assignment) * 1e3
    total = model.latencies(partition.assignment) * 1e3
    centres = np.arange(package.chips)
    bars.bar(centres, total - links, color=PALETTE[0], label="operations")
    bars.bar(centres, links, bottom=total - links, color=PALETTE[4], label="links on both sides")
    bars.axhline(
        total.max(),
        color=INK,
        linewidth=1,
        linestyle="--",
        label=f"slowest chip, {total.max():.3g} ms",
    )
    bars.set(
        xlabel="chip",
        ylabel="time per result (ms)",
        ylim=(0, total.max() * 1.45 if total.max() > 0 else 1),
    )
    bars.legend(ncols=3, loc="upper left")
    throughput = 1e3 / float(total.max()) if total.max() > 1e-300 else 0.0
    axes.set_title(
        f"{written(graph.name)} on {package.chips} chips: {throughput:,.0f} results per second"
    )
    _legend(figure, graph)
    return figure


def _legend(figure: Figure, graph: ComputationGraph) -> None:
    """The legend of dots and lines."""
    many = graph.num_ops > SINGLE_OPS
    dot = (
        f"ops of one chip and depth, {graph.num_ops:,} in all; area: how many"
        if many
        else "op; its chip's colour"
    )
    within = [] if many else [("within a chip", "#B0B0B0")]
    across = "from chip to chip; width: bytes" if many else "to a later chip"
    lines = [*within, (across, INK), ("to an earlier chip", BAD_COLOUR)]
    handles = [Line2D([], [], linestyle="", marker="o", color=PALETTE[0], label=dot)]
    handles += [Line2D([], [], color=colour, label=text) for text, colour in lines]
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if many else 4)


def draw_partition(axes: Axes, graph: ComputationGraph, chip: np.ndarray, chips: int) -> None:
    """Ops within the band of their chip, left to right by depth."""
    depth = depth_of(graph)
    if graph.num_ops > SINGLE_OPS:
        _draw_bundles(axes, graph, depth, chip, chips)
        return
    x = np.empty(graph.num_ops)
    for c in range(chips):
        on_chip = chip == c
        if on_chip.any():
            low, high = depth[on_chip].min(), depth[on_chip].max()
            x[on_chip] = c + (depth[on_chip] - low) / max(high - low, 1) * 0.6 - 0.3 * (high > low)
            axes.axvspan(c - 0.45, c + 0.45, color="#EEF3F7", zorder=0, linewidth=0)
        else:
            axes.axvspan(
                c - 0.45, c + 0.45, facecolor="none", edgecolor=GRID, linestyle=":", zorder=0
            )
    y = _lanes(depth)
    _draw_edges(axes, graph, x, y, chip)
    colours = np.array(PALETTE[:6])[chip % 6]
    axes.scatter(
        x, y, s=150 if graph.num_ops <= LABELLED_OPS else 8, color=colours, zorder=3, linewidth=0
    )
    step = max(1, chips // 12)
    axes.set(xlim=(-0.6, chips - 0.4), xticks=range(0, chips, step), yticks=[], xlabel="chip")
    if graph.num_ops <= LABELLED_OPS:
        _label_ops(axes, graph, x, y)
        axes.set_xticks(range(0, chips, step), [f"chip {c}" for c in range(0, chips, step)])
        axes.margins(y=0.25)
    axes.grid(visible=False)


def _draw_bundles(
    axes: Axes, graph: ComputationGraph, depth: np.ndarray, chip: np.ndarray, chips: int
) -> None:
    """A dot for the ops of one chip and of like depth, a line for all that goes from one chip to
    another."""
    level = depth * LEVELS // (depth.max() + 1)
    place, count = np.unique(np.stack([chip, level], axis=1), axis=0, return_counts=True)
    axes.scatter(place[:, 0], place[:, 1], s=4 + 150 * count / count.max(), zorder=3, linewidth=0,
                 color=np.array(PALETTE[:6])[place[:, 0] % 6])  # fmt: skip
    ends = np.stack([chip[graph.edge_producer], chip[graph.edge_consumer]], axis=1)
    across = ends[:, 0] != ends[:, 1]
    pairs, which = np.unique(ends[across], axis=0, return_inverse=True)
    carried = np.bincount(which.ravel(), graph.tensor_bytes[graph.edge_tensor[across]], len(pairs))
    middle = np.bincount(chip, level, chips) / np.maximum(np.bincount(chip, minlength=chips), 1)
    for (a, b), size in zip(pairs.tolist(), carried / max(carried.max(initial=1), 1)):
        axes.plot(
            [a, b],
            [middle[a], middle[b]],
            color=INK if b > a else BAD_COLOUR,
            linewidth=0.3 + 3 * size,
        )
    axes.set(
        xlim=(-0.6, chips - 0.4),
        xticks=range(0, chips, max(1, chips // 12)),
        xlabel="chip",
        ylabel="depth",
    )
    axes.set_yticks([])
    axes.grid(visible=False)


def _draw_edges(
    axes: Axes, graph: ComputationGraph, x: np.ndarray, y: np.ndarray, chip: np.ndarray
) -> None:
    """Grey within a chip, dark to a later chip, red to an earlier one; arrows where the graph is
    small."""
    edges = graph.op_edges
    colours = np.full(len(edges), "#B0B0B0", object)
    colours[chip[edges[:, 1]] > chip[edges[:, 0]]] = INK
    colours[chip[edges[:, 1]] < chip[edges[:, 0]]] = BAD_COLOUR
    if graph.num_ops <= LABELLED_OPS:
        for (u, v), colour in zip(edges.tolist(), colours):
            arrow = {
                "arrowstyle": "-|>",
                "color": colour,
                "shrinkA": 6,
                "shrinkB": 6,
                "linewidth": 1.2,
            }
            axes.annotate("", (x[v], y[v]), (x[u], y[u]), arrowprops=arrow, zorder=2)
        return
    for colour in dict.fromkeys(colours.tolist()):  # one path per colour keeps the file small
        u, v = edges[colours == colour].T
        gap = np.full(len(u), np.nan)
        path = [np.stack([values[u], values[v], gap], axis=1).ravel().round(3) for values in (x, y)]
        axes.plot(*path, color=colour, linewidth=0.6, zorder=1)


def _lanes(depth: np.ndarray) -> np.ndarray:
    """[N] heights: ops of the same depth stand side by side, centred on 0."""
    y = np.empty(len(depth))
    for level in np.unique(depth):
        of_level = np.flatnonzero(depth == level)
        y[of_level] = np.arange(len(of_level)) - (len(of_level) - 1) / 2
    return y


def _label_ops(axes: Axes, graph: ComputationGraph, x: np.ndarray, y: np.ndarray) -> None:
    short = all(len(name) <= 3 for name in graph.op_names)
    for name, a, b in zip(graph.op_names, x, y):
        if short:
            axes.annotate(
                written(name),
                (a, b),
                ha="center",
                va="center",
                color="white",
                fontsize=8.5,
                zorder=4,
            )
        else:
            axes.annotate(
                written(name.split("/")[-1]),
                (a, b),
                xytext=(2, 7),
                textcoords="offset points",
                rotation=50,
                rotation_mode="anchor",
                fontsize=6.5,
            )
