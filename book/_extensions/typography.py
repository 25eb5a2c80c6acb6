"""A number and its percent sign stay in one line, and what is below zero has a minus instead of a
hyphen."""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes

PERCENT = re.compile(r"(?:(?<=\d)|^) (?=%)")  # the number may be in bold, and a node of its own
MINUS = re.compile(r"(?<![\w.)\]/–-])-(?=\d)")
VERBATIM = (
    nodes.FixedTextElement, nodes.literal, nodes.math, nodes.math_block, nodes.raw, nodes.comment,
    nodes.title_reference,
)  # fmt: skip


def set_in_type(text: str) -> str:
    """The words as they are printed."""
    return MINUS.sub("−", PERCENT.sub("\N{NO-BREAK SPACE}", text))


def _on_resolved(app: Any, doctree: nodes.document, page: str) -> None:
    for text in texts_outside(doctree, VERBATIM):
        if (printed := set_in_type(str(text))) != str(text):
            text.parent.replace(text, nodes.Text(printed))


def texts_outside(node: nodes.Node, kinds: tuple[type, ...]) -> Iterator[nodes.Text]:
    """The texts under a node that stand inside no node of these kinds; each may be replaced when it
    is there."""
    for text in list(node.findall(nodes.Text)):
        parent = text.parent
        while parent is not None and not isinstance(parent, kinds):
            parent = parent.parent
        if parent is None:
            yield text


def setup(app: Any) -> dict:
    app.connect("doctree-resolved", _on_resolved)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
