"""Text that opens its rows, as links to the page of a claim in a state.

``{claim}`mmap.learning-matters?rival=edit-search``` prints the verdict in that state, and
``{claim}`one in ten <mmap.programs-improved?arm=greedy-tuned>``` words of its own. A claim that is
not there, or a state without an answer, fails the build.
"""

import functools
import re
from typing import Any

from docutils import nodes

from learned_mapping_companion.claims import (
    NOT_TESTABLE,
    NOT_YET_RUN,
    Claim,
    Judged,
    State,
    answer,
    read_claims,
    rows_of,
    state_of,
)

ROLE = re.compile(r"\{claim\}`([^`]+)`")
NEAR = 0.002  # Of a number: as far as that of a state that shows it may be from it.


@functools.cache
def _claims() -> dict[str, Claim]:
    return {claim.id: claim for claim in read_claims()}


@functools.cache
def _rows(artifact: str, beside: str) -> list[dict[str, Any]]:
    return rows_of(next(c for c in _claims().values() if _source(c) == (artifact, beside)))


def _source(claim: Claim) -> tuple[str, str]:
    return claim.artifact, str(claim.beside)


@functools.cache
def judged(name: str, state: State) -> Judged:
    """What a claim's rule says in a state."""
    claim = _claims()[name]
    return answer(claim, _rows(*_source(claim)), state)


def parts_of(text: str) -> tuple[str, str]:
    """(the words of a role, the address after the ``#``); raises `ValueError` for a claim that is
    not there, and for a state without an answer."""
    titled = re.fullmatch(r"(.+?) <(.+)>", text, re.S)
    words, address = (titled[1], titled[2]) if titled else ("", text)
    name, _, query = address.partition("?")
    if name not in _claims():
        raise ValueError(f"claim {name!r} is not there")
    verdict = judged(name, state_of(query)).verdict
    if verdict == NOT_YET_RUN or (query and verdict == NOT_TESTABLE):
        raise ValueError(f"claim {address!r} has no answer: {verdict}")
    return words or verdict, address


def address_showing(rule: dict[str, Any], value: float) -> tuple[str, float]:
    """(the address, after the ``#``, of a claim's state that shows what a rule of ``sentences.yml``
    measures, the number there): the same method against the same rival in the same table, and near
    the same number; ``("", 0.0)`` where there is none."""
    rows, against = rule["rows"], rule.get("against", {})
    arm, rival = rows.get("method", ""), against.get("method", rows.get("baseline", ""))
    for claim in _claims().values():
        own = claim.measure
        if own is None or claim.artifact != rule["artifact"] or rule.get("paper"):
            continue
        its = own.against.get("method", own.rows.get("baseline", ""))
        state = State(arm * (arm != own.rows.get("method")), rival * (rival != its))
        found = judged(claim.id, state).measured
        if found is not None and abs(found.value - value) <= NEAR * abs(value):
            cells = {"arm": state.arm, "rival": state.rival}
            query = "&".join(f"{name}={cell}" for name, cell in cells.items() if cell)
            return f"{claim.id}?{query}" if query else claim.id, found.value
    return "", 0.0


def linked(text: str, page: str) -> list[nodes.Node]:
    """The text with its roles as links; of Markdown it may have strong words alone."""
    found: list[nodes.Node] = []
    for i, part in enumerate(re.split(r"\*\*(.+?)\*\*", text)):
        pieces = [
            _link(piece, page) if k % 2 else nodes.Text(piece)
            for k, piece in enumerate(ROLE.split(part))
        ]
        found += [nodes.strong("", "", *pieces)] if i % 2 else pieces
    return found


def _link(text: str, page: str) -> nodes.reference:
    words, address = parts_of(text)
    target = f"{'../' * page.count('/')}claims.html#{address}"
    return nodes.reference("", words, refuri=target, internal=True, classes=["lm-claim-link"])


def claim(name, rawtext, text, lineno, inliner, options=None, content=None) -> tuple[list, list]:
    """The role."""
    return [_link(text, inliner.document.settings.env.docname)], []


def setup(app) -> dict:
    app.add_role("claim", claim)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
