"""The picture of a program's demand for fast memory, and the depths by which pictures of graphs are
laid out."""

import numpy as np
from matplotlib.figure import Figure

from learned_mapping.programs.graph import ComputationGraph, longest_paths
from learned_mapping.programs.program import Program
from learned_mapping.style import INK, PALETTE, byte_unit, new_figure, written


def live_bytes(program: Program) -> np.ndarray:
    """[T] float: bytes of all tensors alive at each step."""
    change = np.zeros(program.num_instructions + 1)
    np.add.at(change, program.tensor_live[:, 0], program.tensor_bytes)
    np.add.at(change, program.tensor_live[:, 1] + 1, -program.tensor_bytes.astype(float))
    return np.cumsum(change)[:-1]


def picture(program: Program) -> Figure:
    """The demand for the fast memory: bytes alive and bytes touched at each step, against the
    capacity."""
    scale, unit = byte_unit(program.fast_bytes)
    figure, axes = new_figure(height=2.8)
    steps = np.arange(program.num_instructions + 1)
    axes.stairs(
        live_bytes(program) / scale,
        steps,
        color=PALETTE[0],
        linewidth=1.6,
        label="all tensors alive",
    )
    touched = np.bincount(
        program.buffer_instruction, program.buffer_bytes, program.num_instructions
    )
    axes.stairs(touched / scale, steps, color=PALETTE[1], label="tensors of the instruction")
    axes.axhline(
        program.fast_bytes / scale, color=INK, linestyle="--", linewidth=1.2, label="fast memory"
    )
    axes.set(xlim=(0, program.num_instructions), ylim=0)
    axes.set(
        xlabel="logical time (instruction)", ylabel=f"bytes ({unit})", title=written(program.name)
    )
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def depth_of(graph: ComputationGraph) -> np.ndarray:
    """[N] edges on the longest path to each op."""
    return longest_paths(graph.op_producers, graph.topological_order)
