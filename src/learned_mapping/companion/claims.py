"""The papers' claims, each with a rule that turns stored results into a verdict; no verdict is ever typed.

``book/claims.yml`` declares for each claim what is measured and which values count as which verdict. A claim is decided
by the rows of the methods it names. Where their interval lies on both sides of a threshold of direction it is
*undecided*. An instance on which a learner has learned less than `LEARNERS` asks for does not count; where no rows are
left, the claim is *not yet run*.
"""

import ast
import html
import math
import operator
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from statistics import median
from typing import Any

from learned_mapping import folders
from learned_mapping.companion import results, statistics
from learned_mapping.companion.display import Html, head_row, number, simple_table
from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import Node, read_bytes

REPRODUCED, SAME_DIRECTION, UNDECIDED = "reproduced", "same direction", "undecided"
NOT_REPRODUCED, NOT_TESTABLE, NOT_YET_RUN = "not reproduced", "not testable here", "not yet run"
VERDICTS = (REPRODUCED, SAME_DIRECTION, UNDECIDED, NOT_REPRODUCED, NOT_YET_RUN, NOT_TESTABLE)
LEARNERS: dict[str, dict[str, float]] = {
    **{name: {"games_worth": 200, "updates": 1000} for name in ("muzero", "prod", "learning-only", "muzero-no-backup")},
    "ppo": {"updates": 100},
    **{name: {"updates": 20} for name in ("rl", "rl-sample-credit")},
    "finetune": {"updates": 20, "pretraining_samples": 20_000},
    "zeroshot": {"pretraining_samples": 20_000},
    **{name: {"updates": 1000} for name in ("regal", "regal-cloned", "gas", "idrs")},
}
"""Learners -> the least that their rows of these metrics must say on an instance that counts for a
claim. ``games_worth`` counts the decisions of windows too."""
MEANING = {
    "reproduced": "it reaches the paper's number, the least of several, with its whole interval if it has one",
    "same direction": "it points the same way and stays short of the number",
    "undecided": "its interval holds both directions",
    "not reproduced": "it does not",
    "not yet run": "the method it names has not run, or with fewer games, samples or updates than stated",
    "not testable here": "what it would take is out of reach, and the table says what",
}
PAPERS = {1: "memory mapping", 2: "chips", 3: "scheduling"}
DRAWS = 2000  # Of a bootstrap over instances.

KINDS = ("value", "ratio", "difference", "share_better")
OVER: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "sum": sum,
    "min": min,
    "max": max,
    "median": median,
    "geomean": lambda values: float(statistics.geometric_mean(values)),
}
"""Functions by which the values of several instances become one."""
MAX_CLAIMS = 1000
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@dataclass(frozen=True)
class Measure:
    """The number that decides a claim.

    ``value`` is the value of the rows that match; ``ratio`` and ``difference`` compare them, instance by instance, with
    the rows that match once the keys of `against` replace theirs; ``share_better`` is the share of instances in which
    they are larger. Several instances become one number as `over` says.
    """

    kind: str
    rows: Mapping[str, str]  # Keys of the rows: method, metric, instance or any other column.
    against: Mapping[str, str] = field(default_factory=dict)
    over: str = "mean"


@dataclass(frozen=True)
class Measured:
    """The number that a rule measures, and its 95% interval where the rows have one (else the number twice)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Claim:
    """One claim of a paper."""

    id: str
    paper: int
    text: str  # The claim, in our words.
    number: str  # What the paper reports.
    artifact: str
    measure: Measure | None = None
    reproduced: tuple[float, float] = (math.inf, math.inf)
    """Interval of values, ends included, that reproduce the claim."""
    same_direction: tuple[float, float] = (math.inf, math.inf)
    """Interval of values that point the same way without reaching the paper's number."""
    not_testable: str = ""  # Why the claim cannot be tested here; empty where it can.
    instances: int = 1
    """Instances that the claim is about, also where a row over all decides: with fewer it is not yet run."""
    ours: Mapping[str, str] = field(default_factory=dict)
    """The keys that replace the paper's method when our own is measured by the same rule; empty for none."""
    decided_by: str = ""  # In words, who stands in for the paper's method, and why; empty where that one itself runs.
    printed: str = ""
    """The paper's number in the unit of the measure, from those in `number`: ``171 / 330``."""
    unprinted: str = ""  # Why the paper has no such number.

    @property
    def papers_value(self) -> float | None:
        """The value of `printed`; None where there is none."""
        return _value(ast.parse(self.printed, mode="eval").body) if self.printed else None


@dataclass(frozen=True)
class Judged:
    """A claim with the verdict of the stored results."""

    claim: Claim
    verdict: str  # One of `VERDICTS`.
    measured: Measured | None = None
    ours: Measured | None = None  # What our own method reaches by the same rule.


def read_claims(path: str | os.PathLike | None = None) -> list[Claim]:
    """Reads the list of claims; raises `InputError` naming file and field."""
    import yaml

    path = folders.project_folder() / "book" / "claims.yml" if path is None else Path(path)
    try:
        value = yaml.safe_load(read_bytes(path).decode("utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError) as error:
        raise InputError(path, "", f"not YAML ({' '.join(str(error).split())[:200]})") from None
    top = Node(value, path).object(("claims",))
    claims = [_claim(node) for node in top["claims"].elements(MAX_CLAIMS)]
    for name, count in Counter(claim.id for claim in claims).items():
        if count > 1:
            raise InputError(path, name, "two claims have this id")
    return claims


def _claim(node: Node) -> Claim:
    known = fields(Claim)
    required = [entry.name for entry in known if entry.default is entry.default_factory is MISSING]
    cells = node.object(required, [entry.name for entry in known if entry.name not in required])
    measured = [name for name in ("measure", "reproduced", "same_direction") if name in cells]
    if ("not_testable" in cells) == bool(measured) or len(measured) not in (0, 3):
        node.fail("a claim has either 'measure', 'reproduced' and 'same_direction', or 'not_testable'")
    claim = Claim(**{name: READERS.get(name, Node.string)(cell) for name, cell in cells.items()})
    (low, high), (least, most) = claim.reproduced, claim.same_direction
    if max(low, least) > min(high, most):
        node.fail("between 'reproduced' and 'same_direction' there is a gap")
    return claim


def _value(term: ast.expr) -> float:
    """The value of a term of plain arithmetic; raises `ValueError` for any other."""
    match term:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            return ARITHMETIC[type(op)](_value(left), _value(right))
    raise ValueError("neither a number nor a sum, difference, product or quotient of numbers")


def _printed(node: Node) -> str:
    try:
        _value(ast.parse(str(node.value), mode="eval").body)
    except (ValueError, SyntaxError, ZeroDivisionError, RecursionError) as fault:
        node.fail(str(fault))
    return str(node.value)


def _measure(node: Node) -> Measure:
    cells = node.object(("kind", "rows"), ("against", "over"))
    kind = cells["kind"].choice(*KINDS)
    rows = _words(cells["rows"])
    against = _words(cells["against"]) if "against" in cells else {}
    if (kind == "value") == bool(against):
        node.fail("'against' belongs to every kind but 'value'")
    return Measure(kind, rows, against, cells["over"].choice(*OVER) if "over" in cells else "mean")


def _words(node: Node) -> dict[str, str]:
    return {key: value.string() for key, value in node.mapping(10).items()}


def _interval(node: Node) -> tuple[float, float]:
    ends = node.elements(2)
    if len(ends) != 2:
        node.fail("expected [low, high], null for an open end")
    low, high = (
        end.number(-1e300, 1e300) if end.value is not None else open_end
        for end, open_end in zip(ends, (-math.inf, math.inf))
    )
    if low > high:
        node.fail(f"{low} is above {high}")
    return low, high


READERS: dict[str, Callable[[Node], Any]] = {
    "paper": lambda node: node.integer(1, 3),
    "instances": lambda node: node.integer(1, MAX_CLAIMS),
    "measure": _measure,
    "reproduced": _interval,
    "same_direction": _interval,
    "printed": _printed,
    "ours": _words,
}
"""Readers of a claim's fields; all others are words."""


def judge(claim: Claim, result: Mapping[str, Any] | None) -> Judged:
    """The verdict that a result bears out, by the claim's own rule."""
    if claim.not_testable:
        return Judged(claim, NOT_TESTABLE)
    rows = [] if result is None else result["rows"]
    ours = measure(replace(claim.measure, rows={**claim.measure.rows, **claim.ours}), rows) if claim.ours else None
    rows = learned_rows(claim.measure, rows)
    measured = measure(claim.measure, rows)
    selection = {key: value for key, value in claim.measure.rows.items() if value != "all"}
    there = [_by_instance(rows, {**selection, **keys}) for keys in ({}, claim.measure.against)]
    enough = claim.instances == 1 or len(there[0].keys() & there[1].keys()) >= claim.instances
    if measured is None or not enough:
        return Judged(claim, NOT_YET_RUN, None, ours)
    return Judged(claim, _verdict(claim, measured), measured, ours)


def _verdict(claim: Claim, measured: Measured) -> str:
    """Reproduced or in the same direction only where the whole interval is; undecided where it holds both sides."""
    (low, high), (least, most) = claim.reproduced, claim.same_direction
    if low <= measured.low and measured.high <= high:
        return REPRODUCED
    if min(low, least) <= measured.low and measured.high <= max(high, most):
        return SAME_DIRECTION
    if measured.high < min(low, least) or measured.low > max(high, most):
        return NOT_REPRODUCED
    return UNDECIDED


def learned_rows(rule: Measure, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of instances on which every learner that a rule names has behind it what `LEARNERS` asks for. Where the
    rule names its instance, or the learners' rows are of all together, it is all rows or none."""
    short: set[str] = set()
    for method in {rule.rows.get("method"), rule.rows.get("baseline"), rule.against.get("method")} & set(LEARNERS):
        for metric, least in LEARNERS[method].items():
            mine = [row for row in rows if row["method"] == method and row["metric"] == metric]
            mine = [row for row in mine if row["instance"] == rule.rows.get("instance")] or mine
            if not mine:
                return []
            short |= {row["instance"] for row in mine if row["value"] is None or row["value"] < least}
    if short and ("instance" in rule.rows or "all" in short):
        return []
    return [row for row in rows if row["instance"] not in short]


def measure(rule: Measure, rows: list[dict[str, Any]]) -> Measured | None:
    """The number a rule asks for, with its interval; None where rows are missing.

    The interval of one row is its own, of a contrast of two rows what their intervals allow at
    most, of several instances a bootstrap over the instances.
    """
    ours = _by_instance(rows, rule.rows)
    if rule.kind == "value":
        return _joined(rule, list(ours.values())) if ours else None
    theirs = _by_instance(rows, {**rule.rows, **rule.against})
    if "instance" in rule.against:  # one instance compared with another
        pairs = list(zip(ours.values(), theirs.values()))
    else:
        pairs = [(ours[name], theirs[name]) for name in ours if name in theirs]
    if not pairs:
        return None
    if rule.kind == "share_better":
        better = [(a.value > b.value, a.low > b.high, a.high > b.low) for a, b in pairs]
        return _joined(rule, [Measured(*map(float, ends)) for ends in better])
    if rule.kind == "ratio":
        if any(b.low <= 0 for _, b in pairs):
            return None
        ends = [[x / y for x in (a.low, a.high) for y in (b.low, b.high)] for a, b in pairs]
        return _joined(rule, [Measured(a.value / b.value, min(e), max(e)) for (a, b), e in zip(pairs, ends)])
    return _joined(rule, [Measured(a.value - b.value, a.low - b.high, a.high - b.low) for a, b in pairs])


def _joined(rule: Measure, measured: list[Measured]) -> Measured:
    """One number of several instances, and its interval."""
    if len(measured) == 1:
        return measured[0]
    over, values = OVER[rule.over], [entry.value for entry in measured]
    if rule.over in ("min", "max"):
        return Measured(over(values), over([entry.low for entry in measured]), over([entry.high for entry in measured]))
    rng = random.Random(0)
    drawn = sorted(over(rng.choices(values, k=len(values))) for _ in range(DRAWS))
    return Measured(over(values), drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS) - 1])


def _by_instance(rows: list[dict[str, Any]], keys: Mapping[str, str]) -> dict[str, Measured]:
    by_instance = {}
    for row in rows:
        if row["instance"] == "all" and "instance" not in keys:
            continue  # a summary over instances is none of them
        numeric = isinstance(row["value"], int | float) and not isinstance(row["value"], bool)
        if numeric and all(str(row.get(key)) == value for key, value in keys.items()):
            ends = (row.get(end) for end in ("low", "high"))
            value = float(row["value"])
            by_instance[row["instance"]] = Measured(value, *(value if end is None else float(end) for end in ends))
    return by_instance


def judge_all() -> list[Judged]:
    """Every claim with its verdict from the stored ``full`` results."""
    claims = read_claims()
    stored = {name: results.stored(name) for name in {claim.artifact for claim in claims}}
    return [judge(claim, stored[claim.artifact]) for claim in claims]


def verdict_counts(judged: list[Judged]) -> Html:
    """The number of claims with each verdict, paper by paper."""
    papers = sorted({item.claim.paper for item in judged})
    counts = {paper: Counter(item.verdict for item in judged if item.claim.paper == paper) for paper in papers}
    head = head_row(["verdict", *(f"paper {paper}" for paper in papers), "all"])
    body = ""
    for verdict in VERDICTS:
        cells = [counts[paper][verdict] for paper in papers]
        numbers = "".join(f"<td>{cell}</td>" for cell in [*cells, sum(cells)])
        body += f'<tr><th scope="row" title="{MEANING[verdict]}">{verdict}</th>{numbers}</tr>'
    return simple_table(f"{len(judged)} claims by verdict", head, body)


def claims_table(judged: list[Judged], paper: int) -> Html:
    """The claims of one paper: what it says, the verdict, its number, and ours: by its method, and by our own."""
    head = head_row(("claim", "verdict, measured", "the paper's number", "our own method"))
    body = ""
    for item in judged:
        claim = item.claim
        if claim.paper != paper:
            continue
        text = html.escape(claim.text)
        if item.verdict == NOT_TESTABLE:
            text += f"<br><em>{html.escape(claim.not_testable)}</em>"
        if claim.decided_by:
            text += f"<br><em>Decided by {html.escape(claim.decided_by)}.</em>"
        ours = f"<code>{html.escape(claim.ours.get('method', ''))}</code>{_cell(item.ours)}" if item.ours else ""
        body += (
            f'<tr><td class="lm-wrap">{text}<br><code>{html.escape(claim.artifact)}</code></td>'
            f'<td class="lm-wrap lm-verdict"><b>{item.verdict}</b>{_cell(item.measured)}</td>'
            f'<td class="lm-wrap lm-narrow">{html.escape(claim.number)}</td>'
            f'<td class="lm-wrap lm-narrow">{ours}</td></tr>'
        )
    return simple_table(f"Paper {paper}: {PAPERS[paper]}", head, body)


def _cell(measured: Measured | None) -> str:
    """A number on a new line, and its interval on another."""
    if measured is None:
        return ""
    shown = f"<br>{number(measured.value)}"
    if measured.low != measured.high:
        shown += f"<br><small>[{number(measured.low)}, {number(measured.high)}]</small>"
    return shown
