"""Parts that charts share: a colour per method, panels, bars and curves with intervals."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learned_mapping.programs.json_io import read_yaml
from learned_mapping.style import COLUMN_INCHES, PALETTE, PHONE_INCHES, new_figure

Row = Mapping[str, Any]
Rows = Sequence[Row]
ROW_INCHES = 0.155  # Height of one of many rows with a small name.

METHOD_COLOURS: dict[str, str] = read_yaml(Path(__file__).with_name("colours.yml"))


def method_colour(method: str) -> str:
    """The colour of a method, the same in every figure."""
    return METHOD_COLOURS.get(method, PALETTE[sum(method.encode()) % len(PALETTE)])


def distinct(rows: Iterable[Row], key: str) -> list[Any]:
    """The values of a key in their order."""
    return list(dict.fromkeys(row[key] for row in rows))


def of(rows: Iterable[Row], metric: str) -> list[Row]:
    return [row for row in rows if row["metric"] == metric]


def new_panels(count: int, columns: int = 2, **kwargs: Any) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels, at most `columns` side by side; ``height`` as in `new_figure`,
    others are hidden."""
    columns = min(columns, count)
    kwargs = {"width": PHONE_INCHES if columns == 1 else COLUMN_INCHES} | kwargs
    figure, grid = new_figure(-(-count // columns), columns, squeeze=False, **kwargs)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:count])


def facets(
    groups: Mapping[str, Any],
    head: float,
    per_row: float,
    columns: int = 2,
    *,
    loc: str = "center",
    **kwargs: Any,
) -> tuple[Figure, list[tuple[Axes, str, Any]]]:
    """A panel titled by its name for each group: the figure, and (axes, name, what the group
    holds).

    Args:
      groups: name -> what is drawn in its panel.
      head, each: inches of height for what all share, and for each row of panels.
      columns: panels side by side, at most.
      loc, kwargs: of the titles; as in `new_figure`.
    """
    rows = -(-len(groups) // min(columns, len(groups)))
    figure, panels = new_panels(len(groups), columns, height=head + per_row * rows, **kwargs)
    for axes, name in zip(panels, groups):
        axes.set_title(name, loc=loc)
    return figure, [(axes, *group) for axes, group in zip(panels, groups.items())]


def finish(
    figure: Figure,
    across: str = "",
    upwards: str = "",
    *,
    loc: str = "outside upper center",
    ncols: int = 4,
) -> Figure:
    """The words that all panels share, and one legend of what is labelled in any of them."""
    figure.supxlabel(across, fontsize=9.5) if across else None
    figure.supylabel(upwards, fontsize=9.5) if upwards else None
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    narrow = figure.get_figwidth() <= PHONE_INCHES
    figure.legend(
        handles.values(), handles.keys(), loc=loc, ncols=min(ncols, 2) if narrow else ncols
    )
    return figure


def plain_ticks(axes: Axes, ticks: Sequence[float]) -> None:
    """These ticks across alone, thousands separated."""
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()


def name_rows(axes: Axes, names: Sequence[str], *, small: bool = False) -> None:
    """A name for each of the places 0, 1, ... from the top down."""
    axes.set_yticks(range(len(names)), names)
    if small:
        axes.tick_params(axis="y", length=0, labelsize=6.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")


def errors(rows: Iterable[Row]) -> np.ndarray:
    """[2, n] how far the ends of the rows' intervals are from their values, at least 0; 0 where
    there is none."""
    ends = [
        (r["value"] - r.get("low", r["value"]), r.get("high", r["value"]) - r["value"])
        for r in rows
    ]
    return np.maximum(np.array(ends, float).reshape(-1, 2).T, 0.0)


def bars(
    axes: Axes, places: Any, rows: Rows, width: float, *, start: float = 0.0, **look: Any
) -> None:
    """A bar per row from `start` to its value, with its interval, in the colour of its method."""
    length = np.array([row["value"] for row in rows], float) - start
    look = {
        "color": [method_colour(row["method"]) for row in rows],
        "error_kw": {"linewidth": 1.0},
    } | look
    axes.barh(places, length, width, left=start, xerr=errors(rows), **look)


def curve(
    axes: Axes, x: Any, y: Any, low: Any, high: Any, *, colour: str, style: str = "-", **look: Any
) -> Any:
    """A line with its interval shaded; returns the line."""
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    return axes.plot(x, y, style, color=colour, **look)[0]


def write_beside(axes: Axes, text: str, x: float, y: float) -> None:
    """Small text to the right of the end of a bar."""
    axes.annotate(text, (x, y), (4, 0), textcoords="offset points", va="center", fontsize=8)
