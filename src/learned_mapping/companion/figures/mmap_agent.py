"""The agent itself: its representation network drawn from the network's own modules, what Drop-backup does, and what
steps cost against program size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import NullFormatter

from learned_mapping.companion.figures.style import INK, PALETTE, method_colour, new_figure

Rows = Sequence[Mapping[str, Any]]
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


def network(rows: Rows, profile: str) -> Figure:
    """Figure 4: inputs at the left, their modules with the shapes of their parameters, and the embedding at the right.

    Args:
      rows: of `mmap.fig4`.
      profile: which network.
    """
    modules = {
        row["module"]: row
        for row in rows
        if row["instance"] == profile and row["metric"] == "parameters" and row["part"] == "representation"
    }
    (whole,) = [row for row in rows if row["instance"] == profile and row["metric"] == "parameters_total"]
    seen = whole["representation"]
    buffers = 1 + seen["next_buffers"] + seen["same_tensor_buffers"]
    inputs = {
        "map_flat": f"{seen['window']} x {seen['window']} bits",
        "profile": f"{seen['profile']:,} bits",
        "supply": f"{seen['supply']} steps",
        "buffers": f"{buffers} of {_inputs(modules, 'buffer_0')} features",
        "actions": f"{_inputs(modules, 'actions')} numbers",
    }
    figure, axes = new_figure(height=4.6)
    axes.set(xlim=(0, 10), ylim=(0, len(PARTS)))
    axes.axis("off")
    joined = _boxed(axes, 7.55, len(PARTS) / 2, 2.2, 1.6, _text("Joined", _chain(modules, "join")), PALETTE[0])
    for line, (last, (title, start)) in enumerate(PARTS.items()):
        y = len(PARTS) - 0.5 - line
        steps = _chain(modules, start) if last != "map_flat" else _tower(modules, whole["block"])
        if last not in (start, "map_flat"):
            steps.append(_step(modules[last]))
        if last == "map_flat":
            steps.append(_step(modules[last]))
        own = [m for m in modules.values() if m["module"] == last or m["module"].startswith((f"{start}_", f"{start}/"))]
        count = sum(module["value"] for module in own)
        left = _boxed(axes, 0.9, y, 1.75, 0.8, f"{title}\n{inputs[last]}", PALETTE[5])
        right = _boxed(axes, 4.1, y, 3.7, 0.8, f"{_wrapped(steps)}\n{count:,} parameters", PALETTE[2])
        _arrow(axes, left[1], right[0])
        _arrow(axes, right[1], (joined[0][0], joined[0][1] + 0.18 * (len(PARTS) / 2 - 0.5 - line)))
    _, out = joined
    axes.annotate("h", (out[0] + 0.55, out[1]), ha="center", va="center", fontsize=12, fontstyle="italic")
    _arrow(axes, out, (out[0] + 0.4, out[1]))
    total = sum(module["value"] for module in modules.values())
    axes.text(
        7.55, 0.35, f"{total:,} parameters here,\n{whole['value']:,} with dynamics,\nreward, policy and value",
        ha="center", va="center", fontsize=8,
    )  # fmt: skip
    return figure


def _inputs(modules: Mapping[str, Mapping[str, Any]], name: str) -> int:
    return int(modules[name]["shapes"]["w"][0])


def _step(module: Mapping[str, Any]) -> str:
    """``linear 128 to 64`` or ``conv 3 x 3, 64 to 32``, from the weight's own shape."""
    *kernel, before, after = module["shapes"]["w"]
    return f"conv {kernel[0]} x {kernel[1]}, {before} to {after}" if kernel else f"linear {before:,} to {after:,}"


def _chain(modules: Mapping[str, Mapping[str, Any]], start: str) -> list[str]:
    """The linear layers of an MLP in their order, or the one layer of this name."""
    if f"{start}_out" not in modules:
        return [_step(modules[start])]
    hidden = sorted(
        name for name in modules if name.startswith(f"{start}_") and name.removeprefix(f"{start}_").isdigit()
    )
    return [_step(modules[name]) for name in (*hidden, f"{start}_out")]


def _tower(modules: Mapping[str, Mapping[str, Any]], block: int) -> list[str]:
    """The stages of the ResNet over the memory map."""
    steps = [f"{block} x {block} patches"]
    stage = 0
    while f"map_in_{stage}" in modules:
        blocks = sum(name.startswith(f"map_{stage}_") and name.endswith("conv_0") for name in modules)
        steps.append(f"{_step(modules[f'map_in_{stage}'])} + {blocks} residual")
        stage += 1
    return steps


def _wrapped(steps: Sequence[str]) -> str:
    """As many steps a line as fit into a box."""
    lines = [steps[0]]
    for step in steps[1:]:
        if len(lines[-1]) + len(step) < BOX_CHARACTERS:
            lines[-1] += f"; {step}"
        else:
            lines.append(step)
    return ";\n".join(lines)


def _text(title: str, steps: Sequence[str]) -> str:
    return "\n".join([title, *steps])


def _boxed(
    axes: Axes, x: float, y: float, width: float, height: float, text: str, colour: str
) -> tuple[tuple[float, float], tuple[float, float]]:
    """A box with text around (x, y); the middles of its left and right sides."""
    corner = (x - width / 2, y - height / 2)
    axes.add_patch(
        FancyBboxPatch(
            corner, width, height, boxstyle="round,pad=0,rounding_size=0.08", facecolor=colour, alpha=0.18,
            edgecolor=colour,
        )
    )  # fmt: skip
    axes.text(x, y, text, ha="center", va="center", fontsize=6.8, color=INK)
    return (corner[0], y), (corner[0] + width, y)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 0.8})


def drop_backup(rows: Rows) -> Figure:
    """Random play: share of games with a dead end, per program; the agent: mean return over its games, a panel each.

    Args:
      rows: of `mmap.dropbackup`.
    """
    lost = [row for row in rows if row["metric"] == "lost"]
    curves = [row for row in rows if row["metric"] == "mean_return" and "curve" in row]
    names = list(dict.fromkeys(row["instance"] for row in curves))
    figure, grid = new_figure(1, 1 + len(names), height=3.0, squeeze=False)
    axes = grid[0, 0]
    shown = sorted(lost, key=lambda row: -row["value"])
    met = [row for row in shown if row["value"] > 0]
    error = np.maximum([[r["value"] - r["low"] for r in met], [r["high"] - r["value"] for r in met]], 0.0)
    axes.bar(range(len(met)), [row["value"] for row in met], yerr=error, color=method_colour("random"), width=0.6)
    axes.set_xticks(range(len(met)), [_short(row["instance"]) for row in met], fontsize=6.5)
    axes.set_title(f"random play: none on {len(shown) - len(met)} of {len(shown)}", fontsize=8.5)
    axes.set_ylabel("share of games with a dead end")
    axes.grid(False, axis="x")
    handles: dict[str, Any] = {}
    for axes, name in zip(grid[0, 1:], names):
        for row in curves:
            if row["instance"] == name:
                curve, colour = row["curve"], method_colour(row["method"])
                (line,) = axes.plot(curve["x"], curve["y"], color=colour)
                axes.fill_between(curve["x"], curve["low"], curve["high"], color=colour, alpha=0.15)
                handles.setdefault(row["method"], line)
        axes.set_title(name, fontsize=8.5)
        axes.set_xlabel("games")
        axes.set_ylabel("mean return of the games")
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=2)
    return figure


def _short(name: str) -> str:
    return name.replace("_", "_\n", 1) if len(name) > 14 else name


def scaling(rows: Rows, steps: Mapping[str, str]) -> Figure:
    """Against buffers, on logarithmic axes: a game step, the agent's steps, and games a second of the searches.

    Args:
      rows: of `mmap.scaling`.
      steps: metrics of the agent and what they are, as `experiments.mmap_scaling.STEPS`.
    """
    figure, grid = new_figure(1, 3, height=3.0)
    panels = (
        (grid[0], {"step_us": "random play"}, "microseconds per game step"),
        (grid[1], {metric: metric.removesuffix("_ms") for metric in steps}, "milliseconds"),
        (grid[2], {"games_per_s": ""}, "games per CPU second"),
    )
    for axes, metrics, label in panels:
        lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for row in rows:
            if row["metric"] in metrics:
                lines.setdefault((row["method"], row["metric"]), []).append((row["buffers"], row["value"]))
        for i, ((method, metric), points) in enumerate(lines.items()):
            x, y = np.array(sorted(points)).T
            colour = PALETTE[i] if axes is grid[1] else method_colour(method)
            axes.plot(x, y, marker="o", markersize=4, color=colour, label=metrics[metric] or method)
        axes.set(xscale="log", yscale="log", xlabel="buffers", ylabel=label)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.legend(fontsize=7)
    return figure
