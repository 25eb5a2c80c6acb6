"""The one visual style of the book: sizes, the colour-blind safe palette of Okabe and Ito, a colour per method."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMN_INCHES = 6.8
"""Width of the text column at 100 dots per inch."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#595959")
INK, GRID, PAPER = "#222222", "#DDDDDD", "#FFFFFF"

METHOD_COLOURS = {
    "muzero": "#0072B2", "muzero-paper": "#56B4E9", "evolution-logits": "#E69F00", "evolution-policy": "#D55E00",
    "evolution-warm": "#8C6D31", "segment-search": "#CC79A7", "greedy": "#8FBFA8", "greedy-tuned": "#009E73",
    "random": "#999999", "bound": "#222222", "xla": "#222222", "xla-kept": "#6B5B95", "heuristic": "#595959",
    "prod": "#004C7A", "gumbel": "#009E73", "search-only": "#D55E00", "learning-only": "#8C6D31",
    "muzero-no-backup": "#D55E00", "muzero-scratch": "#E69F00",
    "rl": "#56B4E9", "finetune": "#0072B2", "zeroshot": "#CC79A7", "sa": "#E69F00", "greedy-naive": "#D55E00",
    "rl-balanced": "#56B4E9", "rl-weights": "#56B4E9", "sa-balanced": "#E69F00", "random-balanced": "#595959",
    "random-weights": "#999999", "cem-weights": "#009E73", "class-search": "#D55E00",
    "zeroshot-chips": "#CC79A7", "finetune-chips": "#0072B2",
    "greedy-careful": "#009E73", "optimum": "#222222", "unconstrained": "#595959", "cp-sat": "#8C6D31",
    "regal": "#0072B2", "brkga": "#E69F00", "brkga-tuned": "#D55E00", "gp-dfs": "#595959", "local-search": "#009E73",
    "list-scheduler": "#CC79A7", "gp-list": "#8E7CC3", "gas": "#56B4E9", "idrs": "#8FBFA8",
    "spectral-law": "#8C6D31", "constant-law": "#B8A47E", "regal-paper": "#5B9BC8", "regal-local-search": "#004C7A",
    "priority-law": "#6B5B95", "regal-mean": "#009E73", "regal-initial": "#CC79A7",
}  # fmt: skip

_SETTINGS = {
    "figure.dpi": 100, "savefig.dpi": 200, "savefig.bbox": "tight", "svg.hashsalt": "learned-mapping",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans", "font.size": 9.5, "axes.titlesize": 10, "axes.labelsize": 9.5, "legend.fontsize": 8.5,
    "xtick.labelsize": 8.5, "ytick.labelsize": 8.5, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.6, "axes.axisbelow": True, "lines.linewidth": 1.8,
    "legend.frameon": False, "figure.constrained_layout.use": True,
}  # fmt: skip


def use_style() -> None:
    """Makes every later matplotlib figure follow the book's style."""
    mpl.rcParams.update(_SETTINGS)
    mpl.rcParams["axes.prop_cycle"] = mpl.cycler(color=PALETTE)


def new_figure(rows: int = 1, columns: int = 1, *, height: float = 3.2, width: float = COLUMN_INCHES, **kwargs):
    """A figure in the book's style, outside pyplot's global state.

    Args:
      rows, columns: the grid of axes.
      height, width: inches.
      **kwargs: passed to `Figure.subplots`, such as ``sharex``.

    Returns:
      (figure, axes), axes as `matplotlib.figure.Figure.subplots` gives them.
    """
    use_style()
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **kwargs)


def method_colour(method: str) -> str:
    """The colour of a method, the same in every figure."""
    return METHOD_COLOURS.get(method, PALETTE[sum(method.encode()) % len(PALETTE)])


def label_bars(axes: Axes, fmt: str = "{:.2f}") -> None:
    """Writes each bar's value beside it, so that no number has to be read off an axis."""
    for container in axes.containers:
        if hasattr(container, "datavalues"):
            axes.bar_label(container, labels=[fmt.format(v) for v in container.datavalues], padding=2, fontsize=8)
