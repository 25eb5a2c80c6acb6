"""Explains a word where one points at its first use on a page, and lists all words in the appendix.

The words are in ``book/glossary.yml``.
"""

import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from typography import texts_outside

from learned_mapping.programs.json_io import read_yaml

WORDS: dict[str, str] = read_yaml(Path(__file__).resolve().parents[1] / "glossary.yml")
KEPT_AS_THEY_ARE = (
    nodes.reference,
    nodes.title,
    nodes.abbreviation,
    nodes.raw,
    nodes.term,
    nodes.literal_block,
)


def _explain(app, doctree: nodes.document, page: str) -> None:
    left = dict(WORDS)
    for paragraph in list(doctree.findall(nodes.paragraph)):
        for text in texts_outside(paragraph, KEPT_AS_THEY_ARE):
            if left:
                _explain_in(text, left)


def _explain_in(text: nodes.Text, left: dict[str, str]) -> None:
    """Wraps the first of the words left that a text holds; the rest of the text is looked at in
    turn."""
    pattern = (
        r"(?<![\w-])("
        + "|".join(map(re.escape, sorted(left, key=len, reverse=True)))
        + r")(?![\w-])"
    )
    match = re.search(pattern, text.astext())
    if not match:
        return
    before, after = nodes.Text(text[: match.start()]), nodes.Text(text[match.end() :])
    word = nodes.abbreviation("", match[0], explanation=left.pop(match[0]))
    text.parent.replace(text, [before, word, after])
    if left:
        _explain_in(after, left)


class Glossary(Directive):
    """The list of all words."""

    def run(self) -> list[nodes.Node]:
        items = [
            nodes.definition_list_item(
                "", nodes.term("", word), nodes.definition("", nodes.paragraph("", meaning))
            )
            for word, meaning in sorted(WORDS.items(), key=lambda item: item[0].lower())
        ]
        return [nodes.definition_list("", *items)]


def setup(app) -> dict:
    app.connect("doctree-resolved", _explain)
    app.add_directive("glossary-of-the-book", Glossary)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
