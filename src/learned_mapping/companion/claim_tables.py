"""The claims as the book shows them: the count of verdicts, and the table."""

from __future__ import annotations

import html

from learned_mapping.companion.claims import NOT_TESTABLE, VERDICTS, Judged, Measured, count_verdicts
from learned_mapping.companion.display import Html, number, simple_table

MEANING = {
    "reproduced": "the stored result reaches the paper's number, with its whole interval",
    "same direction": "it points the same way and stays short of the number",
    "undecided": "its interval holds both directions",
    "not reproduced": "it does not",
    "not yet run": "the method it names has not run, or with fewer games, samples or updates than stated",
    "not testable here": "what it would take is out of reach, and the table says what",
}
PAPERS = {1: "memory mapping", 2: "chips", 3: "scheduling"}


def verdict_counts(judged: list[Judged]) -> Html:
    """How many claims have which verdict, paper by paper."""
    papers = sorted({item.claim.paper for item in judged})
    counts = {paper: count_verdicts([item for item in judged if item.claim.paper == paper]) for paper in papers}
    names = [*(f"paper {paper}" for paper in papers), "all"]
    head = '<tr><th scope="col">verdict</th>' + "".join(f'<th scope="col">{name}</th>' for name in names) + "</tr>"
    body = ""
    for verdict in VERDICTS:
        cells = [counts[paper][verdict] for paper in papers]
        numbers = "".join(f"<td>{cell}</td>" for cell in [*cells, sum(cells)])
        body += f'<tr><th scope="row" title="{MEANING[verdict]}">{verdict}</th>{numbers}</tr>'
    return simple_table(f"{len(judged)} claims by verdict", head, body)


def claims_table(judged: list[Judged], paper: int) -> Html:
    """The claims of one paper: what it says, the verdict, its number, and ours: by its method, and by our own."""
    names = ("claim", "verdict, measured", "the paper's number", "our own method")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = ""
    for item in judged:
        claim = item.claim
        if claim.paper != paper:
            continue
        text = html.escape(claim.text)
        if item.verdict == NOT_TESTABLE:
            text += f"<br><em>{html.escape(claim.not_testable)}</em>"
        body += (
            f'<tr><td class="lm-wrap">{text}<br><code>{html.escape(claim.artifact)}</code></td>'
            f'<td class="lm-wrap lm-verdict"><b>{item.verdict}</b>{_cell(item.measured)}</td>'
            f'<td class="lm-wrap lm-narrow">{html.escape(claim.number)}</td>'
            f'<td class="lm-wrap lm-narrow">{_ours(item)}</td></tr>'
        )
    return simple_table(f"Paper {paper}: {PAPERS[paper]}", f"<tr>{head}</tr>", body)


def _cell(measured: Measured | None) -> str:
    """A number on a new line, and its interval on another."""
    if measured is None:
        return ""
    if measured.low == measured.high:
        return f"<br>{number(measured.value)}"
    return f"<br>{number(measured.value)}<br><small>[{number(measured.low)}, {number(measured.high)}]</small>"


def _ours(item: Judged) -> str:
    if item.ours is None:
        return ""
    return f"<code>{html.escape(item.claim.ours.get('method', ''))}</code>{_cell(item.ours)}"
