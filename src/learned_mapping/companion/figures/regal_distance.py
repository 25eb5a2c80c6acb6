"""Gains over BRKGA by distance from the training graphs: a dot with its interval per method, one panel per network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from learned_mapping.companion.figures.style import INK, method_colour, new_figure

TITLES = {"traced-runtime": "network of traced graphs", "synthetic-runtime": "network of synthetic graphs"}
SPREAD = 0.13
"""How far the methods of a distance stand from its line."""


def gains_by_distance(result: dict[str, Any], methods: Sequence[str] = ("regal", "spectral-law")) -> Figure:
    """Geometric-mean improvement over BRKGA with as many evaluations, near distances above; refusals in words.

    Args:
      result: of `regal.distance`.
      methods: in the order of the legend.
    """
    rows = [row for row in result["rows"] if row["metric"] in ("improvement_percent", "refused")]
    networks = [name for name in TITLES if any(row["instance"].startswith(f"{name}/") for row in rows)]
    distances = list(dict.fromkeys(row["instance"].partition("/")[2] for row in rows))
    found = {(row["instance"], row["method"]): row for row in rows}
    figure, axes = new_figure(
        1, len(networks), height=1.1 + 0.42 * len(distances), sharex=True, sharey=True, squeeze=False
    )
    for panel, network in zip(axes[0], networks):
        panel.axvline(0, color=INK, linewidth=0.9)
        for k, name in enumerate(methods):
            offset = SPREAD * (2 * k - len(methods) + 1)
            colour = method_colour(name)
            mine = [(i + offset, found.get((f"{network}/{each}", name))) for i, each in enumerate(distances)]
            dots = [(y, row) for y, row in mine if row is not None and row["metric"] != "refused"]
            values = [row["value"] for _, row in dots]
            errors = [[r["value"] - r["low"] for _, r in dots], [r["high"] - r["value"] for _, r in dots]]
            panel.errorbar(values, [y for y, _ in dots], xerr=errors, fmt="o", color=colour, markersize=5,
                           elinewidth=1.2, capsize=2, label=name)  # fmt: skip
            for y, row in mine:
                if row is not None and row["metric"] == "refused":
                    panel.text(0.98, y, f"{name} refuses", transform=panel.get_yaxis_transform(), ha="right",
                               va="center", color=colour, fontsize=8)  # fmt: skip
        panel.set_yticks(range(len(distances)), [each.replace("-", " ") for each in distances])
        panel.set_ylim(len(distances) - 0.5, -0.5)
        panel.set_title(TITLES[network], loc="left")
        panel.set_xlabel("improvement over BRKGA (%)")
        panel.grid(axis="y", visible=False)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(methods))
    return figure
