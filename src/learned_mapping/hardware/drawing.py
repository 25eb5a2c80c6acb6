"""Pictures of graphs, plain or painted: ops by depth, as large as their seconds on a device."""

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from learned_mapping.hardware.devices import Devices, op_seconds
from learned_mapping.programs.draw import depth_of
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.style import INK, PALETTE, byte_unit, new_figure, time_unit, written

# Up to this many ops and as many edges, a drawing of a graph has a dot and a line for each.
SINGLE_OPS = 3000


def op_colours(graph: ComputationGraph) -> tuple[list[str], list[Patch]]:
    """A colour per op by its kind, and the legend: kinds by their seconds, those past the palette's
    end in one."""
    kinds, of_op = np.unique(np.array(graph.op_kinds), return_inverse=True)
    ranked = np.argsort(-np.bincount(of_op, weights=op_seconds(graph, Devices())), kind="stable")
    rank = np.empty(len(kinds), int)
    rank[ranked] = np.minimum(np.arange(len(kinds)), len(PALETTE) - 1)
    names = [written(kinds[k], 30) for k in ranked[: len(PALETTE)]]
    if len(kinds) > len(PALETTE):
        names[-1] = "other"
    legend = [Patch(color=colour, label=name) for colour, name in zip(PALETTE, names)]
    return [PALETTE[r] for r in rank[of_op].tolist()], legend


def layout(graph: ComputationGraph) -> tuple[np.ndarray, np.ndarray]:
    """([N] int64, [N] float64): an op's depth, from 0, and its height, one unit apart from others
    of that depth."""
    depth, height = depth_of(graph), np.zeros(graph.num_ops)
    before, order = graph.op_producers, graph.topological_order
    for level in range(depth.max() + 1):
        ops = order[depth[order] == level].tolist()
        wish = [
            float(np.mean([height[p] for p in before[op]])) if before[op] else 0.0 for op in ops
        ]
        # Ops of a level stand a unit apart around the mean of where their inputs would have them.
        for rank, i in enumerate(np.argsort(wish, kind="stable")):
            height[ops[i]] = np.mean(wish) + rank - (len(ops) - 1) / 2
    return depth, height


def drawing(graph: ComputationGraph, paint: np.ndarray | None = None, *, label: str = "") -> Figure:
    """The graph from left to right by depth; an op's area grows with its seconds, a line's width
    with its bytes.

    Args:
      graph: of N ops.
      paint: [N] in [0, 1], shown as colour instead of the kinds of op.
      label: what it is.
    """
    if paint is None and max(graph.num_ops, graph.num_edges // 4) > SINGLE_OPS:
        return _profile(graph)
    depth, height = layout(graph)
    figure, axes = new_figure(height=4.2)
    place = np.stack([depth, height], 1)
    lines = np.stack([place[graph.edge_producer], place[graph.edge_consumer]], 1)
    sizes = graph.tensor_bytes[graph.edge_tensor]
    widths = 0.3 + 1.7 * np.sqrt(sizes / max(sizes.max(initial=1), 1))
    axes.add_collection(LineCollection([*lines], linewidths=widths, colors="#999999", zorder=1))
    seconds = op_seconds(graph, Devices())
    colours, kinds = op_colours(graph)
    largest = float(np.clip(4e4 / graph.num_ops, 60, 900))
    area = 0.04 * largest + largest * seconds / max(seconds.max(), 1e-30)
    if paint is None:
        axes.scatter(depth, height, s=area, c=colours, zorder=2, linewidths=0)
    else:
        dots = axes.scatter(depth, height, s=area, c=paint, cmap="RdBu_r", vmin=0, vmax=1, zorder=2,
                            linewidths=0.5, edgecolors=INK)  # fmt: skip
        figure.colorbar(dots, ax=axes, label=label, location="bottom", aspect=50, shrink=0.6)
    scale, unit = time_unit(float(seconds.sum()))
    total, size_unit = byte_unit(int(graph.tensor_bytes.sum()))
    tensors = f"{graph.tensor_bytes.sum() / total:.4g} {size_unit} of tensors"
    work = f"{graph.num_ops:,} ops, {seconds.sum() * scale:.4g} {unit} of work"
    axes.set_title(f"{written(graph.name)}: {work}, {tensors}", loc="left")
    axes.set_xlabel("depth (ops on the longest path before)")
    axes.set_yticks([])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.margins(0.05)
    if paint is None and len(kinds) > 1:
        figure.legend(
            handles=kinds, loc="outside lower center", ncols=min(len(kinds), 6), title="kind of op"
        )
    return figure


def _profile(graph: ComputationGraph) -> Figure:
    """A large graph by depth: seconds of its ops by kind, and bytes of the tensors made."""
    depth, seconds = depth_of(graph), op_seconds(graph, Devices())
    colours, kinds = op_colours(graph)
    bins = min(int(depth.max()) + 1, 200)
    place = depth * bins // (int(depth.max()) + 1)
    figure, (axes, memory) = new_figure(2, 1, height=4.2, sharex=True)
    scale, unit = time_unit(float(seconds.sum()))
    bottom, edges = np.zeros(bins), np.linspace(0, depth.max() + 1, bins + 1)
    for patch_colour in PALETTE[: len(kinds)]:
        of_colour = np.array([colour == patch_colour for colour in colours])
        top = bottom + np.bincount(place[of_colour], seconds[of_colour] * scale, bins)
        axes.stairs(top, edges, baseline=bottom, fill=True, color=patch_colour)
        bottom = top
    axes.set_ylabel(f"time of ops ({unit})")
    unit_bytes, size_unit = byte_unit(int(graph.tensor_bytes.sum()))
    sizes = np.bincount(place[graph.tensor_producer], graph.tensor_bytes / unit_bytes, bins)
    memory.stairs(sizes, edges, fill=True, color=PALETTE[5])
    memory.set(
        xlabel="depth (ops on the longest path before)", ylabel=f"tensors made ({size_unit})"
    )
    counts = f"{graph.num_ops:,} ops and {graph.num_edges:,} edges, summed up by depth"
    axes.set_title(f"{written(graph.name)}: {counts}", loc="left")
    figure.legend(
        handles=kinds, loc="outside lower center", ncols=min(len(kinds), 6), title="kind of op"
    )
    return figure
