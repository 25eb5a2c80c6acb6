"""Partitions one above the other: chips in a row with their load, and what goes from chip to chip."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from learned_mapping.companion.figures.mmap import byte_unit
from learned_mapping.companion.figures.style import INK, PALETTE, new_figure
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.partition import Partition
from learned_mapping.mcm.rules.constraints import obeys_acyclic
from learned_mapping.programs.graph import ComputationGraph

BOX, LOAD = 0.74, 1.0
"""A chip's width and height, in units of the distance between chips and of the longest load."""
WIDEST_POINTS = 7.0
"""Width of the largest traffic's arc."""
MOST_LABELLED = 12
"""With more chips there is no room for numbers."""
OPERATIONS, LINKS, SLOWEST = PALETTE[0], PALETTE[4], PALETTE[1]


def traffic(graph: ComputationGraph, assignment: np.ndarray) -> dict[tuple[int, int], int]:
    """(chip made on, last chip used on) -> bytes of all such tensors; what stays on its chip is left out.

    Args:
      graph, assignment: [N] chips that obey Eq. 2.
    """
    found: dict[tuple[int, int], int] = {}
    for tensor in range(graph.num_tensors):
        first = int(assignment[graph.tensor_producer[tensor]])
        last = max((int(assignment[op]) for op in graph.consumers(tensor)), default=first)
        if last > first:
            found[first, last] = found.get((first, last), 0) + int(graph.tensor_bytes[tensor])
    return found


def package_drawing(graph: ComputationGraph, partitions: Mapping[str, Partition], package: ChipPackage) -> Figure:
    """A row of chips per partition: a box is as high as the slowest chip of all, its fill the chip's own time.

    Args:
      graph: what is partitioned.
      partitions: title -> partition, drawn in this order; all obey Eq. 2.
      package: their chips.

    Raises:
      InputError: a partition with edges that run back, or of another number of chips.
    """
    model = ChipModel(graph, package)
    for title, partition in partitions.items():
        if partition.chips != package.chips or not obeys_acyclic(partition.assignment, graph.op_edges):
            raise InputError(title, "assignment", f"is no partition over {package.chips} chips that obeys Eq. 2")
    times = {title: model.latencies(p.assignment) for title, p in partitions.items()}
    moved = {title: traffic(graph, p.assignment) for title, p in partitions.items()}
    longest = max(float(t.max()) for t in times.values())
    largest = max((size for each in moved.values() for size in each.values()), default=1)
    unit, unit_name = byte_unit(largest)
    figure, grid = new_figure(len(partitions), 1, height=0.4 + 1.75 * len(partitions), squeeze=False)
    for axes, (title, partition) in zip(grid[:, 0], partitions.items()):
        links = model.link_seconds(partition.assignment)
        _chips(axes, times[title] - links, links, longest)
        _arcs(axes, moved[title], largest, unit if package.chips <= MOST_LABELLED else 0)
        slow = float(times[title].max())
        rate = f"{1 / slow:,.0f} results per second" if slow > 0 else "no time"
        axes.set_title(f"{title}: slowest chip {slow * 1e6:,.4g} µs, {rate}", loc="left")
    handles = [
        Patch(color=OPERATIONS, label="operations, µs"),
        Patch(color=LINKS, label="links on both sides, µs"),
        Line2D([], [], color=SLOWEST, linewidth=2.2, label="slowest chip"),
        Line2D(
            [],
            [],
            color=INK,
            linewidth=WIDEST_POINTS,
            alpha=0.55,
            label=f"tensors, {unit_name}; widest {largest / unit:.3g}",
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _chips(axes: Axes, operations: np.ndarray, links: np.ndarray, longest: float) -> None:
    """Boxes, filled from below by time on operations and then on links; times in µs inside."""
    chips, together = len(operations), operations + links
    scale = LOAD / longest if longest > 0 else 0.0
    slow = int(np.argmax(together))
    for c in range(chips):
        left = c - BOX / 2
        axes.add_patch(Rectangle((left, 0), BOX, operations[c] * scale, color=OPERATIONS, linewidth=0))
        axes.add_patch(Rectangle((left, operations[c] * scale), BOX, links[c] * scale, color=LINKS, linewidth=0))
        edge, width = (SLOWEST, 2.2) if c == slow else (INK, 0.8)
        axes.add_patch(Rectangle((left, 0), BOX, LOAD, facecolor="none", edgecolor=edge, linewidth=width))
        if chips <= MOST_LABELLED:
            axes.annotate(
                f"{together[c] * 1e6:.3g}", (c, 0.06), ha="center", fontsize=8, color="white",
                bbox={"facecolor": INK, "alpha": 0.55, "linewidth": 0, "pad": 1.2},
            )  # fmt: skip
    step = max(1, chips // MOST_LABELLED)
    axes.set(xlim=(-0.6, chips - 0.4), ylim=(-0.02, LOAD + 0.75), yticks=[])
    axes.set_xticks(
        range(0, chips, step), [f"chip {c}" if chips <= MOST_LABELLED else str(c) for c in range(0, chips, step)]
    )
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def _arcs(axes: Axes, moved: Mapping[tuple[int, int], int], largest: int, unit: float) -> None:
    """An arc over the boxes per pair of chips, as wide as its share of the largest traffic; unit 0: no numbers."""
    for (a, b), size in sorted(moved.items()):
        start, end = (a + 0.16, LOAD + 0.02), (b - 0.16, LOAD + 0.02)
        axes.add_patch(
            FancyArrowPatch(
                start, end, connectionstyle=f"arc3,rad={-0.55 if b == a + 1 else -0.3}", arrowstyle="-", color=INK,
                alpha=0.55, linewidth=max(WIDEST_POINTS * size / largest, 0.5),
            )
        )  # fmt: skip
        if unit:
            axes.annotate(f"{size / unit:.3g}", ((a + b) / 2, LOAD + 0.42), ha="center", fontsize=7.5)
