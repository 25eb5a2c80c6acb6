"""The one visual style of all pictures: sizes, the colour-blind safe palette of Okabe and Ito,
readable units, SVG."""

import html
import io
import warnings

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from learned_mapping.errors import shown

COLUMN_INCHES = 6.8  # Width of the text column at 100 dots per inch.
PHONE_INCHES = 3.6  # Width at which a figure's text can be read on a phone without scrolling.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#595959")
INK, GRID, PAPER = "#222222", "#DDDDDD", "#FFFFFF"

_SETTINGS = mpl.RcParams({
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "savefig.bbox": "tight",
    "svg.hashsalt": "learned-mapping",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.labelsize": 9.5,
    "legend.fontsize": 8.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "axes.prop_cycle": cycler(color=PALETTE),
})  # fmt: skip


class Picture(Figure):
    """A figure that a notebook shows as SVG."""

    def _repr_html_(self) -> str:
        return svg_text(self)


def new_figure(
    rows: int = 1, columns: int = 1, *, height: float = 3.2, width: float = COLUMN_INCHES, **kwargs
):
    """A figure in this style, outside pyplot's global state.

    Args:
      rows, columns: the grid of axes.
      height, width: inches.
      **kwargs: passed to `Figure.subplots`, such as ``sharex``.

    Returns:
      (figure, axes), axes as `matplotlib.figure.Figure.subplots` gives them.
    """
    mpl.rcParams.update(_SETTINGS)
    figure = Picture(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **kwargs)


PICTURES = (".svg", ".png", ".pdf", ".html")  # Endings of the files a picture can go to.
_UNDATED = {
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def picture_bytes(figure: Figure, ending: str, title: str = "") -> bytes:
    """A figure as the file of one of `PICTURES`; the same figure gives the same bytes."""
    if ending == ".html":
        head = (
            '<!DOCTYPE html><html lang="en"><meta'
            f' charset="utf-8"><title>{html.escape(shown(title))}</title>'
        )
        return f"{head}<body>{svg_text(figure)}</body></html>\n".encode()
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # the reader's own fonts draw text in SVG
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(stream, format=ending[1:], metadata=_UNDATED[ending])
    return stream.getvalue()


def svg_text(figure: Figure) -> str:
    """A figure as SVG text; the same figure gives the same text."""
    text = picture_bytes(figure, ".svg").decode()
    return text[text.index("<svg") :]


def written(name: object, limit: int = 60) -> str:
    """A name from a file as a picture's text: on one line, not too long, and its dollars no
    formula."""
    return shown(name, limit).replace("$", r"\$")


def time_unit(seconds: float) -> tuple[float, str]:
    """(factor, unit) that make `seconds` a readable number."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return factor, unit
    return (1e6, "µs") if seconds > 0 else (1.0, "s")


def byte_unit(size: int) -> tuple[float, str]:
    """(divisor, unit) that make `size` bytes a readable number."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 2**power:
            return float(2**power), unit
    return 1.0, "bytes"
