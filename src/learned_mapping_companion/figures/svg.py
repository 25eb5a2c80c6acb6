"""Pictures written as SVG by hand, and one after another as a piece of HTML with buttons.

The HTML stands alone: the pictures are inline SVG, the script is plain, nothing is loaded. Without
scripts all pictures show.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from learned_mapping.style import INK, PAPER

SCRIPT = "\n" + Path(__file__).with_name("stepper.js").read_text()


def words(x: float, y: float, text: str, attributes: str = "") -> str:
    """Text at a place; `more` are attributes, here and in the others."""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{INK}" {attributes}>{html.escape(text)}</text>'


def line(x0: float, y0: float, x1: float, y1: float, attributes: str) -> str:
    """A line between two places."""
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" {attributes}/>'


def rectangle(x: float, y: float, width: float, height: float, fill: str, attributes: str) -> str:
    """A rectangle by its upper left corner."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"'
        f" {attributes}/>"
    )


def box_path(x: float, y: float, width: float, height: float) -> str:
    """A rectangle by its upper left corner, as a part of a path."""
    return f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}z"


def path(parts: Iterable[str], attributes: str) -> str:
    """One path of many parts; empty where there are none."""
    joined = "".join(parts)
    return f'<path d="{joined}" {attributes}/>' if joined else ""


def picture(width: float, height: float, parts: Iterable[str]) -> str:
    """Inline SVG as wide as the column, on paper."""
    style = "width:100%;height:auto;font:11px sans-serif"
    paper = f'<rect width="{width}" height="{height}" fill="{PAPER}"/>'
    return (
        f'<svg viewBox="0 0 {width} {height}" style="{style}"'
        f' role="img">{paper}{"".join(parts)}</svg>'
    )


def stepper(
    pictures: Sequence[tuple[str, str]], legend: Mapping[str, str], noun: str, name: str
) -> str:
    """Pictures, (inline SVG, what it shows in words), as HTML with buttons.

    Args:
      legend: colour -> what it stands for.
      noun: what a picture is one of, such as ``move``.
      name: the element's id, another for each on a page.
    """
    box = "display:inline-block;width:1em;height:.8em"
    key = " ".join(
        f'<span style="white-space:nowrap"><span style="{box};background:{colour}"></span>'
        f" {html.escape(words)}</span>"
        for colour, words in legend.items()
    )
    figures = "".join(
        f'<figure data-frame="{i}" style="margin:0 0 1em">'
        + picture.replace('role="img"', f'role="img" aria-label="{words}"', 1)
        + f"<figcaption>{words}</figcaption></figure>"
        for i, (picture, words) in enumerate(
            (picture, html.escape(words)) for picture, words in pictures
        )
    )
    script = SCRIPT.replace("NAME", name)
    buttons = (
        '<button type="button" data-go="-1">back</button> <button type="button"'
        ' data-go="1">next</button>'
    )
    return (
        f'<div id="{html.escape(name)}" data-noun="{html.escape(noun)}">'
        f'<nav class="lm-bar" hidden aria-label="{html.escape(noun)}s">'
        f"{buttons} <output></output></nav><p>{key}</p>{figures}</div><script>{script}</script>"
    )
