"""Written sentences whose numbers come from stored results, and that are shown only while they
hold.

``book/sentences.yml`` has for each sentence the numbers it names, by the rules that
`learned_mapping_companion.claims` measures claims by, or as a term of those before it, and cases: a
condition and a text. The first case whose condition holds is what the book says; where none does,
the build and a test fail, and somebody has to write the sentence anew. In a page::

    ```{sentence} mmap.news
    ```

or, within a line, ``{said}`mmap.news```. A number that a claim's page can show is a link to the
state of that page that shows it.
"""

import functools
import re
from pathlib import Path
from typing import Any

import claim_links
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from learned_mapping.programs.json_io import read_yaml
from learned_mapping_companion import results
from learned_mapping_companion.claims import earned_without_learning, judge_all, learning_adds
from learned_mapping_companion.measures import Measure, measure

PATH = Path(__file__).resolve().parents[1] / "sentences.yml"


class Number(float):
    """A measured number with the ends of its interval, and of how many runs or instances it is,
    where one row says."""

    low: float
    high: float
    n: int
    address: str = ""  # Of the claim's state that shows it.


class Linked(Number):
    """A number that is a link where it is printed, if the claim's state prints the same."""

    shown: float

    def __format__(self, form: str) -> str:
        words = format(float(self), form)
        link = f"{{claim}}`{words} <{self.address}>`"
        return link if format(self.shown, form) == words else words


def read(path: Path = PATH) -> dict[str, dict[str, Any]]:
    """The sentences by name."""
    return read_yaml(path)


@functools.cache
def stored(artifact: str) -> dict[str, Any] | None:
    """The stored result, read once: a sentence has up to twenty numbers."""
    return results.stored(artifact)


def number(rule: dict[str, Any]) -> Number | None:
    """What a rule measures; None where the rows are missing.

    Args:
      rule: ``artifact``, ``rows``, and optionally ``kind``, ``against``, ``over`` as in
        ``claims.yml``; ``paper`` for the paper's own rows.
    """
    result = stored(rule["artifact"])
    if result is None:
        return None
    parts = (
        rule.get("kind", "value"),
        rule["rows"],
        rule.get("against", {}),
        rule.get("over", "mean"),
    )
    rows = result["paper" if rule.get("paper") else "rows"]
    measured = measure(Measure(*parts), rows)
    if measured is None:
        return None
    formatted = Number(measured.value)
    formatted.low, formatted.high = measured.low, measured.high
    for key, cell in rule["rows"].items():
        rows = [row for row in rows if str(row.get(key)) == cell]
    counts = [row.get("n", 0) for row in rows]
    formatted.n = counts[0] if len(counts) == 1 else 0
    return formatted


@functools.cache
def judged(paper: int = 0) -> list:
    """The claims of a paper, or all, with their verdicts."""
    return [item for item in judged() if item.claim.paper == paper] if paper else judge_all()


@functools.cache
def verdicts() -> dict[str, str]:
    """The verdict of each claim."""
    return {item.claim.id: item.verdict for item in judged()}


def say(name: str, sentence: dict[str, Any], linking: bool = False) -> str:
    """The text of the first case that holds; raises `ValueError` where none does. With `linking`
    its numbers are roles ``claim`` where a claim's page shows them."""
    known = {
        "verdict": lambda claim: verdicts()[claim], "abs": abs, "min": min, "max": max,
        "earned": lambda paper=0: earned_without_learning(judged(paper)),
        "adds": lambda answer: learning_adds(judged())[answer],
    }  # fmt: skip
    numbers: dict[str, Any] = {}
    for key, rule in sentence.get("numbers", {}).items():
        numbers[key] = _term(rule, {**known, **numbers}) if isinstance(rule, str) else number(rule)
    for case in sentence["cases"]:
        if _term(case["holds"], {**known, **numbers}):
            printed = _linked(sentence["numbers"], numbers) if linking else numbers
            return case["text"].format(**printed)
    shown = ", ".join(f"{key} = {value}" for key, value in numbers.items())
    raise ValueError(f"sentence {name}: no case holds any more ({shown})")


def _term(words: str, known: dict[str, Any]) -> Any:
    """The value of a term or condition; None where a number in it is missing."""
    try:
        return eval(words, {"__builtins__": {}}, known)
    except (TypeError, AttributeError):
        return None


def _linked(rules: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
    """The numbers, as links where a claim's page shows them, or the one number that a term has."""
    found = dict(numbers)
    for key, rule in rules.items():
        if isinstance(rule, str):
            known = [name for name in re.findall(r"[a-z_]\w*", rule) if name in numbers]
            address = getattr(found[known[0]], "address", "") if len(known) == 1 else ""
            there = numbers[key]  # a number made of another is printed nowhere else
        elif numbers[key]:
            address, there = claim_links.address_showing(rule, numbers[key])
        else:
            address, there = "", 0.0
        if address:
            found[key] = Linked(numbers[key])
            found[key].address, found[key].shown = address, there
            for end in ("low", "high", "n"):
                setattr(found[key], end, getattr(numbers[key], end, 0))
    return found


class Sentence(Directive):
    """Puts a sentence into the page, as if it had been written there."""

    required_arguments = 1

    def run(self) -> list:
        text = say(self.arguments[0], read()[self.arguments[0]], linking=True)
        box = nodes.container()
        self.state.nested_parse(
            StringList(text.splitlines(), self.arguments[0]), self.content_offset, box
        )
        return box.children


def said(name, rawtext, text, lineno, inliner, options=None, content=None) -> tuple[list, list]:
    """The role ``{said}`mmap.news```: a sentence within a line; of Markdown it may have strong
    words alone."""
    page = inliner.document.settings.env.docname
    return claim_links.linked(say(text, read()[text], linking=True), page), []


def setup(app) -> dict:
    app.add_directive("sentence", Sentence)
    app.add_role("said", said)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
