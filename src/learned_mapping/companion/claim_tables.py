"""The claims as the book shows them: the count of verdicts, and the table."""

from __future__ import annotations

import html

from learned_mapping.companion.claims import NOT_TESTABLE, VERDICTS, Judged, count_verdicts
from learned_mapping.companion.display import Html, number, simple_table

MEANING = {
    "reproduced": "the stored result reaches the paper's number",
    "same direction": "it points the same way and stays short of the number",
    "not reproduced": "it does not",
    "not testable here": "what it would take is out of reach, and the table says what",
    "not yet run": "no stored result has the rows that the rule needs",
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
    """The claims of one paper: what it says, the verdict, its number, and ours."""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("claim", "verdict", "the paper's number", "ours"))
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
            f'<td class="lm-wrap lm-verdict"><b>{item.verdict}</b></td>'
            f'<td class="lm-wrap">{html.escape(claim.number)}</td><td>{number(item.measured)}</td></tr>'
        )
    return simple_table(f"Paper {paper}: {PAPERS[paper]}", f"<tr>{head}</tr>", body)
