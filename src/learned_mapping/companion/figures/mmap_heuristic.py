"""The compiler, its heuristic as told here, and greedy rules on the compiled programs: returns, and two copy rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from learned_mapping.companion.figures.style import GRID, INK, PALETTE, new_figure

Rows = Sequence[Mapping[str, Any]]
ROW_INCHES = 0.155
"""Of one program."""
LABELS = {
    "xla": "compiler, as it stands",
    "xla-kept": "compiler, within the rules",
    "xla-replayed": "compiler, replayed in order",
    "heuristic": "heuristic, by bytes",
    "heuristic-tables": "heuristic, by the tables",
    "greedy": "greedy",
    "greedy-tuned": "greedy, tuned",
}
COLOURS = {
    "xla": INK,
    "xla-kept": PALETTE[6],
    "xla-replayed": PALETTE[4],
    "heuristic": PALETTE[1],
    "heuristic-tables": PALETTE[3],
    "greedy": "#8FBFA8",
    "greedy-tuned": PALETTE[2],
}
MARKERS = {
    "xla": "D",
    "xla-kept": "d",
    "xla-replayed": "x",
    "heuristic": "o",
    "heuristic-tables": "^",
    "greedy": "v",
    "greedy-tuned": "s",
}


def _values(rows: Rows, metric: str) -> dict[str, dict[str, float]]:
    """Method -> program -> value."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["metric"] == metric and row["instance"] != "all" and row["value"] is not None:
            found.setdefault(row["method"], {})[row["instance"]] = row["value"]
    return found


def returns_figure(
    rows: Rows,
    methods: Sequence[str] = ("xla", "xla-kept", "heuristic", "heuristic-tables", "greedy-tuned"),
    limit: float = 1.0,
) -> Figure:
    """A line per program, a mark per method: the share of the possible saving; programs by the compiler's share.

    Args:
      rows: of `mmap.heuristic`.
      methods: those shown.
      limit: shares outside [-0.1, limit] are drawn at the edge.
    """
    values = _values(rows, "return")
    names = sorted(values["xla"], key=lambda name: (-values["xla"][name], name))
    figure, axes = new_figure(height=1.1 + ROW_INCHES * len(names))
    low = -0.1
    positions = np.arange(len(names))
    axes.hlines(positions, low, limit, color=GRID, linewidth=0.5, zorder=0)
    for method in methods:
        shares = np.array([values[method].get(name, np.nan) for name in names])
        axes.scatter(
            np.clip(shares, low, limit), positions, marker=MARKERS[method], s=16, color=COLOURS[method],
            label=LABELS[method], zorder=2, linewidth=0,
        )  # fmt: skip
    axes.axvline(1.0, color=INK, linewidth=0.8, linestyle="--", zorder=1)
    axes.set(xlim=(low - 0.03, limit + 0.03), ylim=(len(names) - 0.4, -0.6))
    axes.set_yticks(positions, names, fontsize=6.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.set_xlabel("return (share of the possible saving); at the left edge: -0.1 or less")
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def copy_rules_figure(rows: Rows, methods: Sequence[str] = ("heuristic", "heuristic-tables", "greedy-tuned")) -> Figure:
    """A dot per program and method: speed against the compiler's mapping, with one copy at a time across, with copies
    that share bandwidth upwards. Off the diagonal the two disagree; in the shaded quarters, about who is faster."""
    across, upwards = _values(rows, "speedup_over_xla"), _values(rows, "speedup_over_xla_contended")
    figure, axes = new_figure(height=4.2, width=4.8)
    every = [value for found in (across, upwards) for method in methods for value in found[method].values()]
    margin = 0.02 * (max(every) - min(every) + 0.1)
    low, high = min(*every, 1.0) - margin, max(*every, 1.0) + margin
    for x, y in ((low, 1.0), (1.0, low)):
        axes.fill_between([x, high if x == 1.0 else 1.0], y, high if y == 1.0 else 1.0, color=GRID, alpha=0.5, zorder=0)
    axes.plot([low, high], [low, high], color=INK, linewidth=0.8, linestyle="--")
    for method in methods:
        names = list(across[method])
        axes.scatter(
            [across[method][n] for n in names], [upwards[method][n] for n in names], marker=MARKERS[method], s=18,
            color=COLOURS[method], label=LABELS[method], alpha=0.8, linewidth=0, zorder=2,
        )  # fmt: skip
    axes.set(xlim=(low, high), ylim=(low, high))
    axes.set_xlabel("speed over the compiler's mapping, one copy at a time")
    axes.set_ylabel("the same, copies share bandwidth")
    figure.legend(loc="outside upper center", ncols=len(methods))
    return figure
