"""Pictures of memory mappings: allocations over time."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import hsv_to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from learned_mapping.mmap.mapping import Mapping
from learned_mapping.programs.draw import picture as demand
from learned_mapping.programs.program import Program
from learned_mapping.style import INK, byte_unit, new_figure, written

DRAWN_ALLOCATIONS = 3000  # Up to this many allocations, a layout is made of outlines.


def picture(program: Program, mapping: Mapping | None = None) -> Figure:
    """The layout of a mapping, or without one what the program asks of the fast memory."""
    return demand(program) if mapping is None else layout(program, mapping)


def tensor_colour(tensor: int) -> tuple[float, float, float]:
    """A colour per tensor; neighbours in number differ in hue and lightness, so that they can be
    told apart."""
    # By the golden ratio, so that no two of many hues are near each other.
    hue = (tensor * 0.6180339887498949) % 1.0
    value = (0.92, 0.72, 0.82)[tensor % 3]
    return tuple(hsv_to_rgb((hue, 0.45 + 0.2 * (tensor % 2), value)))


def draw_layout(axes: Axes, program: Program, mapping: Mapping, *, labels: bool = False) -> None:
    """Draws one rectangle per allocation: steps from left to right, offsets upwards, colour by
    tensor; with `labels`, for small programs, its name in it."""
    scale, unit = byte_unit(program.fast_bytes)
    outline = program.num_buffers <= 1500
    rectangles, colours = [], []
    for b in np.flatnonzero(mapping.placed & (mapping.end >= mapping.start)).tolist():
        tensor = int(program.buffer_tensor[b])
        low, high = int(mapping.start[b]), int(mapping.end[b]) + 1
        bottom, height = mapping.offset[b] / scale, program.buffer_bytes[b] / scale
        rectangles.append(Rectangle((low, bottom), high - low, height))
        colours.append(tensor_colour(tensor))
        if labels:
            axes.text(
                (low + high) / 2,
                bottom + height / 2,
                written(program.tensor_names[tensor]),
                ha="center",
                va="center",
            )
    if rectangles:
        # Beyond some thousands the picture holds their pixels, not their outlines.
        many = len(rectangles) > DRAWN_ALLOCATIONS
        axes.add_collection(
            PatchCollection(
                rectangles,
                facecolors=colours,
                edgecolors="white",
                linewidths=0.3 if outline else 0.0,
                rasterized=many,
            )
        )
    top = program.fast_bytes / scale
    axes.axhline(
        top, color=INK, linewidth=1.0, linestyle="--", label="capacity; a colour for each tensor"
    )
    axes.set(xlim=(0, program.num_instructions), ylim=(0, top * 1.04))
    axes.set(xlabel="logical time (instruction)", ylabel=f"offset in fast memory ({unit})")
    axes.grid(False)


def layout(program: Program, mapping: Mapping) -> Figure:
    """The paper's Figure 1: the memory layout of a mapped program; the dashed line is the
    capacity."""
    figure, axes = new_figure(height=3.6)
    draw_layout(axes, program, mapping)
    placed = int(mapping.placed.sum())
    axes.set_title(
        f"{written(program.name)}: {placed:,} of {program.num_buffers:,} buffers in fast memory"
    )
    figure.legend(loc="outside lower center")
    return figure
