"""Finishes the pages: what would run elsewhere or weighs too much goes, figures get names, search
works from a file.

- Long tables are folded: a section has a figure and a verdict, and its table beneath.
- The theme's live-code button would run code on somebody else's server, and no page uses cards or
  tabs.
- Its script of icons is 1.5 MB for the dozen that are shown; ``book.css`` has those as characters.
- MathJax is 2 MB; a page without a formula does not load it.
- A page downloads as the notebook that `notebooks` makes of it.
- What scrolls sideways can be reached by the keyboard.
- A page says in its head what it is about, for search engines and previews of links, and at its
  foot which version of the book it is and how to cite it.
- A browser does not let a page that was opened as a file read its neighbours, from which search
  takes its excerpts; so the words of all pages lie in a script beside them.
"""

import html
import json
import re
from importlib.metadata import version
from pathlib import Path

import figures
import page_check
from matplotlib import rc_context
from matplotlib.figure import Figure

from learned_mapping.style import PALETTE

ICONS = re.compile(r"<(?:script|link)[^>]*(?:fontawesome|fa-[a-z]+-\d+)[^>]*>(?:\s*</script>)?")
ICON_RULE = re.compile(r"[^{}]*\.fa-[^{}]*\{[^{}]*\}")
MATHJAX = re.compile(
    r"<script[^>]*mathjax/[^>]*>\s*</script>|<script>window\.MathJax = .*?</script>", re.S
)
UNUSED = re.compile("thebe|sphinx-design|design-tabs")
TABLES = re.compile(r'(?:<div class="lm-table"[^>]*><table.*?</table></div>\s*)+', re.S)
CAPTION = re.compile(r"<caption>(.*?)</caption>", re.S)
FOLDED_ROWS = 7
"""Tables that have at least so many rows together are folded, so that a page is no recital."""
UNFOLDED = {"claims.html", "ledger.html", "data.html"}  # Pages that are there for their tables.
TAG = re.compile(r"<(script|style|svg|mjx-container)\b.*?</\1>|<[^>]+>", re.S)
EXCERPTS = """<script src="page_words.js"></script><script>
(function () {
  if (location.protocol !== "file:") return;
  const fetched = window.fetch;
  window.fetch = function (address, options) {
    const name = String(address).split("/html/").pop().replace(/^\\.\\//, "").split(/[?#]/)[0];
    const words = window.pageWords[name];
    if (words === undefined) return fetched(address, options);
    const page = document.createElement("div");
    page.setAttribute("role", "main");
    page.textContent = words;
    return Promise.resolve(new Response("<!doctype html><body>" + page.outerHTML + "</body>"));
  };
})();
</script></head>"""
REACHED = """<script>
(function () {
  function reach() {
    document.querySelectorAll(".lm-table, .lm-scroll, .bd-article pre").forEach(function (box) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
      more(box);
    });
  }
  function more(box) {
    box.classList.toggle("lm-more", box.scrollLeft + box.clientWidth < box.scrollWidth - 4);
  }
  addEventListener("load", reach);
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);
  document.addEventListener("scroll", function (event) {
    if (event.target.classList) more(event.target);
  }, true);
})();
</script></body>"""
LONGEST = 200
"""Letters of a description."""
PICTURE = "learned-mapping.png"
STAYS = (
    (0, 7, 0, 2),
    (0, 4, 2, 1),
    (4, 5, 2, 2),
    (7, 6, 0, 1),
    (9, 8, 1, 2),
    (13, 7, 0, 1),
    (9, 3, 3, 2),
    (12, 8, 3, 1),
)
"""Of the picture: first step, steps, offset and size."""
AUTHOR = re.compile(r'<p class="component-author">.*?</p>', re.S)
FOOTER = """<p class="component-author">Learned Mapping {version}, by its authors. Apache-2.0.
<a href="{up}bibliography.html#how-to-cite-this-book">How to cite</a> ·
<a href="{up}rerun.html">The code, and how to rerun it</a></p>"""
SOURCE = re.compile(
    r'(<a href="[^"]*_sources/[^"]*)\.md" target="_blank"(.*?)title="Download source'
    r' file"(.*?)>\.md<',
    re.S,
)


def _drop_unused(app, page: str, template: str, context: dict, doctree) -> None:
    for kind in ("script_files", "css_files"):
        context[kind] = [
            file for file in context.get(kind, []) if not UNUSED.search(_described(file))
        ]


def _described(file) -> str:
    return f"{getattr(file, 'filename', file)} {getattr(file, 'attributes', '')}".lower()


def _folded(page: str) -> str:
    """The page with its long tables, and rows of tables, folded beneath their names; but for those
    marked as key."""

    def fold(match: re.Match) -> str:
        if match[0].count("<tr") < FOLDED_ROWS or "lm-key" in match[0]:
            return match[0]
        names = CAPTION.findall(match[0])
        words = (
            f"Table: {names[0]}"
            if len(names) == 1
            else f"{len(names)} tables: {', '.join(names[:4])}"
        )
        words += ", …" if len(names) > 4 else ""
        return f'<details class="lm-fold"><summary>{words}</summary>{match[0]}</details>'

    return TABLES.sub(fold, page)


def _formulas(page: str) -> str:
    """The page, without the script that sets formulas where it has none."""
    return page if 'class="math' in page else MATHJAX.sub("", page)


def _words(page: str) -> str:
    """What the article of a page says."""
    article = re.search(r"<article\b.*?</article>", page, re.S)
    return " ".join(html.unescape(TAG.sub(" ", article[0])).split()) if article else ""


def described(page: str, up: str) -> str:
    """A page with its first paragraph as its description, and a footer; `up` leads to the book's
    folder."""
    first = re.search(r"<article\b.*?</h1>.*?<p>(.*?)</p>", page, re.S)
    words = " ".join(html.unescape(TAG.sub("", first[1])).split()) if first else ""
    title = re.search(r"<title>(.*?)</title>", page, re.S)
    about = {
        "og:title": html.unescape(title[1]) if title else "",
        "og:type": "article",
        "og:image": f"{up}{PICTURE}",
    }
    about["og:description"] = (
        words if len(words) <= LONGEST else words[:LONGEST].rsplit(" ", 1)[0] + " …"
    )
    lines = [
        f'<meta property="{name}" content="{html.escape(text)}"/>'
        for name, text in about.items()
        if text
    ]
    if words:
        lines.append(f'<meta name="description" content="{html.escape(about["og:description"])}"/>')
    page = page.replace("</head>", "\n".join([*lines, "</head>"]), 1)
    return AUTHOR.sub(
        lambda match: FOOTER.format(up=up, version=version("learned-mapping")), page, count=1
    )


def draw_picture(path: Path) -> None:
    """The picture that a preview of a link shows: a memory over time, and what the book is."""
    figure = Figure(figsize=(12, 6.3), dpi=100, facecolor="white")
    axes = figure.add_axes((0.06, 0.1, 0.88, 0.42))
    for i, (start, length, low, height) in enumerate(STAYS):
        axes.broken_barh(
            [(start, length)], (low, height), facecolor=PALETTE[i % len(PALETTE)], edgecolor="white"
        )
    axes.set(xlim=(0, 20), ylim=(0, 5))
    axes.axis("off")
    figure.text(0.06, 0.82, "Learned Mapping", fontsize=52, weight="bold", va="center")
    figure.text(
        0.06, 0.65, "Three papers on learning inside ML compilers, rerun", fontsize=25, va="center"
    )
    with rc_context({"savefig.bbox": None, "savefig.dpi": "figure"}):  # as wide as previews expect
        figure.savefig(path, metadata={"Software": None})


def _finish(app, exception) -> None:
    if exception is not None or app.builder.name != "html":
        return
    folder, words = Path(app.outdir), {}
    for path in page_check.pages_of(folder):
        page = _formulas(ICONS.sub("", path.read_text(encoding="utf-8"))).replace(
            "</body>", REACHED, 1
        )
        page = described(page, "../" * (len(path.relative_to(folder).parts) - 1))
        page = page.replace(
            '<div role="list" class="citation-list">', '<div class="citation-list">'
        )  # holds no listitem
        if path.relative_to(folder).as_posix() not in UNFOLDED:
            page = _folded(page)
        page = SOURCE.sub(
            r'\1.ipynb" download\2title="Download as a notebook"\3>.ipynb<', figures.finished(page)
        )
        if path.name == "search.html":
            page = page.replace("</head>", EXCERPTS, 1)
        else:
            words[path.relative_to(folder).as_posix()] = _words(page)
        path.write_text(page, encoding="utf-8")
    draw_picture(folder / PICTURE)
    (folder / "page_words.js").write_text(
        f"window.pageWords = {json.dumps(words)};\n", encoding="utf-8"
    )
    for path in folder.glob("_static/styles/pydata-sphinx-theme.css"):
        path.write_text(ICON_RULE.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
    for path in [
        *folder.glob("_static/scripts/fontawesome*"),
        *folder.glob("_static/vendor/fontawesome/**/*"),
    ]:
        if path.is_file():
            path.unlink()


def setup(app) -> dict:
    app.connect("html-page-context", _drop_unused, priority=999)
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
