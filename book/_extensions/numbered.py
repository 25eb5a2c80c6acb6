"""Makes the numbers of open points, such as M3, links to their entries in ``ambiguities``."""

import re
from pathlib import Path

from docutils import nodes
from typography import texts_outside

PAGE = "ambiguities"
ENTRY = re.compile(r"^([MPS]\d+)\. ")
NUMBER = re.compile(r"\b[MPS]\d{1,2}\b")
KEPT_AS_THEY_ARE = (
    nodes.reference,
    nodes.title,
    nodes.literal,
    nodes.literal_block,
    nodes.raw,
    nodes.math,
)


def entries() -> set[str]:
    """The numbers that have an entry."""
    text = (Path(__file__).resolve().parents[1] / f"{PAGE}.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\*\*([MPS]\d+)\. ", text, re.M))


def _link(app, doctree: nodes.document, page: str) -> None:
    if page == PAGE:
        for paragraph in doctree.findall(nodes.paragraph):
            if match := ENTRY.match(paragraph.astext()):
                paragraph["ids"].append(match[1].lower())
        return
    known, target = entries(), app.builder.get_relative_uri(page, PAGE)
    for text in texts_outside(doctree, KEPT_AS_THEY_ARE):
        if known & set(NUMBER.findall(text)):
            text.parent.replace(text, linked(text.astext(), known, target))


def linked(text: str, known: set[str], target: str) -> list[nodes.Node]:
    """The text with a link for each known number in it."""
    parts, end = [], 0
    for match in NUMBER.finditer(text):
        if match[0] in known:
            parts += [nodes.Text(text[end : match.start()])]
            parts += [
                nodes.reference("", match[0], refuri=f"{target}#{match[0].lower()}", internal=True)
            ]
            end = match.end()
    return [*parts, nodes.Text(text[end:])]


def setup(app) -> dict:
    app.connect("doctree-resolved", _link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
