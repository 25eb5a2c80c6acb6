"""A number and its percent sign stay in one line, and what is below zero has a minus instead of a hyphen."""

from __future__ import annotations

import re
from typing import Any

PERCENT = re.compile(r"(?:(?<=\d)|^) (?=%)")  # the number may be in bold, and a node of its own
MINUS = re.compile(r"(?<![\w.)\]/–-])-(?=\d)")
VERBATIM = ("FixedTextElement", "literal", "math", "math_block", "raw", "comment", "title_reference")


def set_in_type(text: str) -> str:
    """The words as they are printed."""
    return MINUS.sub("−", PERCENT.sub("\N{NO-BREAK SPACE}", text))


def _on_resolved(app: Any, doctree: Any, page: str) -> None:
    from docutils import nodes

    verbatim = tuple(getattr(nodes, name) for name in VERBATIM)
    for text in list(doctree.findall(nodes.Text)):
        parent = text.parent
        while parent is not None and not isinstance(parent, verbatim):
            parent = parent.parent
        if parent is None and (printed := set_in_type(str(text))) != str(text):
            text.parent.replace(text, nodes.Text(printed))


def setup(app: Any) -> dict:
    app.connect("doctree-resolved", _on_resolved)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
