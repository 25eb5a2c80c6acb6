"""Finishes the pages: what would run elsewhere or weighs too much goes, figures get names, search works from a file.

- Long tables are folded: a section has a figure and a verdict, and its table beneath.
- The theme's live-code button would run code on somebody else's server, and no page uses cards or tabs.
- Its script of icons is 1.5 MB for the dozen that are shown; ``book.css`` has those as characters.
- A page downloads as the notebook that `notebooks` makes of it.
- What scrolls sideways can be reached by the keyboard.
- A browser does not let a page that was opened as a file read its neighbours, from which search takes its excerpts; so
  the words of all pages lie in a script beside them.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import figures

ICONS = re.compile(r"<(?:script|link)[^>]*(?:fontawesome|fa-[a-z]+-\d+)[^>]*>(?:\s*</script>)?")
ICON_RULE = re.compile(r"[^{}]*\.fa-[^{}]*\{[^{}]*\}")
UNUSED = re.compile("thebe|sphinx-design|design-tabs")
TABLES = re.compile(r'(?:<div class="lm-table"[^>]*><table.*?</table></div>\s*)+', re.S)
CAPTION = re.compile(r"<caption>(.*?)</caption>", re.S)
FOLDED_ROWS = 7
"""Tables that have at least so many rows together are folded, so that a page is no recital."""
UNFOLDED = {"claims.html", "ledger.html", "data.html"}
"""Pages that are there for their tables."""
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
SOURCE = re.compile(
    r'(<a href="[^"]*_sources/[^"]*)\.md" target="_blank"(.*?)title="Download source file"(.*?)>\.md<', re.S
)


def _drop_unused(app, page: str, template: str, context: dict, doctree) -> None:
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context.get(kind, []) if not UNUSED.search(_described(file))]


def _described(file) -> str:
    return f"{getattr(file, 'filename', file)} {getattr(file, 'attributes', '')}".lower()


def _folded(page: str) -> str:
    """The page with its long tables, and rows of tables, folded beneath their names; but for those marked as key."""

    def fold(match: re.Match) -> str:
        if match[0].count("<tr") < FOLDED_ROWS or "lm-key" in match[0]:
            return match[0]
        names = CAPTION.findall(match[0])
        words = f"Table: {names[0]}" if len(names) == 1 else f"{len(names)} tables: {', '.join(names[:4])}"
        words += ", …" if len(names) > 4 else ""
        return f'<details class="lm-fold"><summary>{words}</summary>{match[0]}</details>'

    return TABLES.sub(fold, page)


def _words(page: str) -> str:
    """What the article of a page says."""
    article = re.search(r"<article\b.*?</article>", page, re.S)
    return " ".join(html.unescape(TAG.sub(" ", article[0])).split()) if article else ""


def _finish(app, exception) -> None:
    if exception is not None or app.builder.name != "html":
        return
    folder, words = Path(app.outdir), {}
    for path in sorted(folder.rglob("*.html")):
        if path.relative_to(folder).parts[0] == "_static":
            continue
        page = ICONS.sub("", path.read_text(encoding="utf-8")).replace("</body>", REACHED, 1)
        page = page.replace(
            '<div role="list" class="citation-list">', '<div class="citation-list">'
        )  # holds no listitem
        if path.relative_to(folder).as_posix() not in UNFOLDED:
            page = _folded(page)
        page = SOURCE.sub(r'\1.ipynb" download\2title="Download as a notebook"\3>.ipynb<', figures.finished(page))
        if path.name == "search.html":
            page = page.replace("</head>", EXCERPTS, 1)
        else:
            words[path.relative_to(folder).as_posix()] = _words(page)
        path.write_text(page, encoding="utf-8")
    (folder / "page_words.js").write_text(f"window.pageWords = {json.dumps(words)};\n", encoding="utf-8")
    for path in folder.glob("_static/styles/pydata-sphinx-theme.css"):
        path.write_text(ICON_RULE.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
    for path in [*folder.glob("_static/scripts/fontawesome*"), *folder.glob("_static/vendor/fontawesome/**/*")]:
        if path.is_file():
            path.unlink()


def setup(app) -> dict:
    app.connect("html-page-context", _drop_unused, priority=999)
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
