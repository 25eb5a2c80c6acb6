"""Figures and tables of a page get numbers and captions; a figure's picture is named by its
caption. A table of a paper keeps the paper's number: *P1 Table 2*.

A code cell gives its figure a caption with the option ``:caption:``; without one a figure is called
after its section.
"""

import html
import math
import re

from docutils import nodes

MARK = "<!--lm-caption {}-->"
PIECES = re.compile(
    r"<h[1-4][^>]*>(?P<heading>.*?)</h[1-4]>"
    r"|<!--lm-caption (?P<caption>.*?)-->"
    r'|(?P<before>text_html">\s*)(?P<drawn><svg (?![^>]*aria-label).*?</svg>)'
    r'|<figure class="lm-(?:figure|explorable)[^>]*>.*?<figcaption>'
    r"|<caption>",
    re.S,
)
OF_PAPER = re.compile(
    r'(?:(?!<div class="output)(?!</figure>).)*?'
    r'<p class="lm-provenance"><code>(\w+)\.table(\d+)</code>',
    re.S,
)
"""After a caption: the paper's table that an output shows, by its provenance."""
PAPERS = {"mmap": "P1", "mcm": "P2", "regal": "P3"}
IDENTITY = re.compile(r'\s*\bid="([^"]*)"')
PLACES = re.compile(r'(?<= )(d|x|y|points)="[^"]*"| transform="rotate\(-0 [^"]*"')
DIGITS = re.compile(r"(\.\d\d)\d+")
METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.S)


def finished(page: str) -> str:
    """The page with its figures and tables numbered, each kind on its own."""
    section, caption, counts = "", "", {"Figure": 0, "Table": 0}

    def name(kind: str) -> str:
        counts[kind] += 1
        return f"<b>{kind} {counts[kind]}.</b> "

    def piece(match: re.Match) -> str:
        nonlocal section, caption
        if match["heading"] is not None:
            section = re.sub(
                r"<a class=\"headerlink.*?</a>|<[^>]+>", "", match["heading"], flags=re.S
            ).strip()
            caption = ""
            return match[0]
        if match["caption"] is not None:
            caption = match["caption"]
            return ""
        if match[0] == "<caption>":
            shown = OF_PAPER.match(page, match.end())
            if shown:
                return f"{match[0]}<b>{PAPERS[shown[1]]} Table {shown[2]}.</b> "
            return match[0] + name("Table")
        if match["drawn"] is None:
            return match[0] + name("Figure")
        words, caption = caption or section, ""
        numbered = name("Figure")
        drawn = own_identities(light(METADATA.sub("", match["drawn"])), f"f{counts['Figure']}")
        label = html.escape(html.unescape(re.sub("<[^>]+>", "", words)), quote=True)
        drawn = drawn.replace(
            "<svg ",
            f'<svg role="img" aria-label="{label}" style="--lm-wide: {readable(drawn)}px" ',
            1,
        )
        return (
            f'{match["before"]}<figure class="lm-drawing" id="figure-{counts["Figure"]}"><div'
            f' class="lm-scroll">{drawn}</div><figcaption>{numbered}{words}</figcaption></figure>'
        )

    return PIECES.sub(piece, page)


def light(drawing: str) -> str:
    """The drawing with its places to a hundredth of a point, and without turns by nothing."""
    return PLACES.sub(lambda match: DIGITS.sub(r"\1", match[0]) if match[1] else "", drawing)


def readable(drawing: str) -> int:
    """The width in pixels at which the smallest text of a drawing, exponents left out, is ten
    pixels tall."""
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', drawing)[1]) if "viewBox" in drawing else 0.0
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: ?(?:bold )?([\d.]+)px", drawing)]
    plain = [size for size in sizes if size > 0.72 * max(sizes, default=0) or size >= 6.5]
    return math.ceil(10.05 * width / min(plain)) if plain else 0


def own_identities(drawing: str, prefix: str) -> str:
    """The drawing with the ids that it refers to made its own, and without the others."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', drawing))
    drawing = IDENTITY.sub(
        lambda match: f' id="{prefix}-{match[1]}"' if match[1] in used else "", drawing
    )
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", drawing)


def _mark(app, doctree: nodes.document, page: str) -> None:
    """Leaves the captions of cells in the page, where `finished` finds them."""
    for cell in list(doctree.findall(nodes.container)):
        caption = cell.get("cell_metadata", {}).get("caption")
        if caption:
            cell.parent.insert(
                cell.parent.index(cell),
                nodes.raw("", MARK.format(html.escape(caption)), format="html"),
            )


def setup(app) -> dict:
    app.connect("doctree-resolved", _mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
