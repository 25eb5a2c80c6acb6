"""Paper 1's Figure 4: the agent's representation network, drawn from the network's own modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from learned_mapping.companion.figures.charts import Canvas, Rows
from learned_mapping.style import PALETTE, Picture

PARTS = {
    "map_flat": ("Memory map", "map"),
    "profile": ("Memory profile", "profile"),
    "supply": ("Supply profile", "supply"),
    "buffers": ("Buffers", "buffer"),
    "actions": ("Actions, global", "actions"),
}
"""The last module of each part of the input (`network._encode`), its title, and what the part's modules start with."""
BOX_CHARACTERS = 52
"""That fit on a line of a box."""

Modules = Mapping[str, Mapping[str, Any]]


def network(rows: Rows, profile: str) -> Picture:
    """Inputs at the left, their modules with the shapes of their parameters, and the embedding at the right.

    Args:
      rows: of `mmap.fig4`.
      profile: which network.
    """
    mine = [row for row in rows if row["instance"] == profile]
    modules = {row["module"]: row for row in mine if row["metric"] == "parameters" and row["part"] == "representation"}
    (whole,) = [row for row in mine if row["metric"] == "parameters_total"]
    seen = whole["representation"]
    buffers = 1 + seen["next_buffers"] + seen["same_tensor_buffers"]
    inputs = {
        "map_flat": f"{seen['window']} x {seen['window']} bits",
        "profile": f"{seen['profile']:,} bits",
        "supply": f"{seen['supply']} steps",
        "buffers": f"{buffers} of {modules['buffer_0']['shapes']['w'][0]} features",
        "actions": f"{modules['actions']['shapes']['w'][0]} numbers",
    }
    draw, tall, size = Canvas(4.6), 0.92, 6.8
    middle = tall * len(PARTS) / 2
    draw.box(5.13, middle, 1.5, 1.48, "Joined", "\n".join(_chain(modules, "join")), PALETTE[0], size)
    for line, (last, (title, start)) in enumerate(PARTS.items()):
        y = tall * (len(PARTS) - 0.5 - line)
        steps = _tower(modules, whole["block"]) if last == "map_flat" else _chain(modules, start)
        if last != start:
            steps.append(_step(modules[last]))
        own = [m for name, m in modules.items() if name == last or name.startswith((f"{start}_", f"{start}/"))]
        count = sum(module["value"] for module in own)
        draw.box(0.61, y, 1.19, 0.74, title, inputs[last], PALETTE[7], size)
        draw.box(2.79, y, 2.52, 0.74, "", f"{_wrapped(steps)}\n{count:,} parameters", PALETTE[2], size)
        draw.arrow((1.205, y), (1.53, y))
        draw.arrow((4.05, y), (4.38, middle + 0.17 * (len(PARTS) / 2 - 0.5 - line)))
    draw.arrow((5.88, middle), (6.15, middle))
    draw.axes.text(6.25, middle, "h", ha="center", va="center", fontsize=12, fontstyle="italic")
    total = sum(module["value"] for module in modules.values())
    words = f"{total:,} parameters here,\n{whole['value']:,} with dynamics,\nreward, policy and value"
    draw.axes.text(5.13, 0.32, words, ha="center", va="center", fontsize=8)
    return draw.figure


def _step(module: Mapping[str, Any]) -> str:
    """``linear 128 to 64`` or ``conv 3 x 3, 64 to 32``, from the weight's own shape."""
    *kernel, before, after = module["shapes"]["w"]
    return f"conv {kernel[0]} x {kernel[1]}, {before} to {after}" if kernel else f"linear {before:,} to {after:,}"


def _chain(modules: Modules, start: str) -> list[str]:
    """The linear layers of an MLP in their order, or the one layer of this name."""
    if f"{start}_out" not in modules:
        return [_step(modules[start])]
    hidden = sorted(name for name in modules if name.rpartition("_")[0] == start and name.rpartition("_")[2].isdigit())
    return [_step(modules[name]) for name in (*hidden, f"{start}_out")]


def _tower(modules: Modules, block: int) -> list[str]:
    """The stages of the ResNet over the memory map."""
    steps = [f"{block} x {block} patches"]
    stage = 0
    while f"map_in_{stage}" in modules:
        blocks = sum(name.startswith(f"map_{stage}_") and name.endswith("conv_0") for name in modules)
        steps.append(f"{_step(modules[f'map_in_{stage}'])} + {blocks} residual")
        stage += 1
    return steps


def _wrapped(steps: list[str]) -> str:
    """As many steps a line as fit into a box."""
    lines = [steps[0]]
    for step in steps[1:]:
        if len(lines[-1]) + len(step) < BOX_CHARACTERS:
            lines[-1] += f"; {step}"
        else:
            lines.append(step)
    return ";\n".join(lines)
