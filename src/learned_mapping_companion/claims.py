"""The papers' claims, each with a rule that turns stored results into a verdict; no verdict is ever
typed.

``book/claims.yml`` declares for each claim what is measured (`measures`) and which values count as
which verdict. A claim is decided by the rows of the methods it names. Where their interval lies on
both sides of a threshold of direction it is *undecided*; where no rows count, it is *not yet run*.
Beside a learner's verdict stands that of the strongest method without learning, by the same rule.
"""

import ast
import math
import operator
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from learned_mapping import folders
from learned_mapping.errors import InputError
from learned_mapping.problem import RULE, SEARCH, problem
from learned_mapping.programs.json_io import Node, read_bytes
from learned_mapping_companion import results
from learned_mapping_companion.display import Html, escaped, head_row, number, simple_table
from learned_mapping_companion.measures import (
    KINDS,
    LEARNERS,
    OVER,
    Measure,
    Measured,
    by_instance,
    counting_rows,
    measure,
)

REPRODUCED, SAME_DIRECTION, UNDECIDED = "reproduced", "same direction", "undecided"
NOT_REPRODUCED, NOT_TESTABLE, NOT_YET_RUN = "not reproduced", "not testable here", "not yet run"
VERDICTS = (REPRODUCED, SAME_DIRECTION, UNDECIDED, NOT_REPRODUCED, NOT_YET_RUN, NOT_TESTABLE)
MEANING = {
    "reproduced": (
        "it reaches the paper's number, the least of several, with its whole interval if it has one"
    ),
    "same direction": "it points the same way and stays short of the number",
    "undecided": "its interval holds both directions",
    "not reproduced": "it does not",
    "not yet run": (
        "the method it names has not run, or with fewer games, samples or updates than stated"
    ),
    "not testable here": "what it would take is out of reach, and the table says what",
}
PAPERS = {1: "memory mapping", 2: "chips", 3: "scheduling"}
PROBLEMS = {1: ("mmap",), 2: ("mcm", "silicon"), 3: ("regal",)}

NONE = "none"
YES, NO = "yes", "no"
ANSWERS = (YES, UNDECIDED, NO)
LEVEL = {"ratio": 1.0, "gap": 1.0, "share_better": 0.5}
"""Kind -> its number where two methods tie; 0 of the others."""
BY = ("games", "moves")
"""What may be equal for both methods in the place of time, where rows have it."""
MAX_CLAIMS = 1000
ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


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
    undecided: str = ""
    """Why nothing measured here decides the claim, whatever the number; empty where it does."""
    instances: int = 1
    """Instances that the claim is about, also where a row over all decides: with fewer it is not
    yet run."""
    ours: Mapping[str, str] = field(default_factory=dict)
    """The keys that replace the paper's method when a learner of ours is measured by the same rule,
    and under ``against`` the method that replaces its rival; empty for none."""
    rival: str = ""  # `NONE` where the claim is of a weakness, so that no rival earns it better.
    beside: Mapping[str, str] = field(default_factory=dict)
    """``artifact`` and ``method``: rows of another table, with the same clock, that stand beside
    those of the claim's own; empty for none."""
    # In words, who stands in for the paper's method, and why; empty where that one itself runs.
    decided_by: str = ""
    printed: str = ""
    """The paper's number in the unit of the measure, from those in `number`: ``171 / 330``."""
    unprinted: str = ""  # Why the paper has no such number.
    few: str = ""  # Why fewer than three instances or runs decide it.

    @property
    def our_measure(self) -> Measure | None:
        """The same rule with a learner of ours in the place of the paper's; None without one."""
        if self.measure is None or not self.ours:
            return None
        rows, against = {**self.measure.rows, **self.ours}, dict(self.measure.against)
        if "against" in rows:
            against["method"] = rows.pop("against")
        return replace(self.measure, rows=rows, against=against)

    @property
    def papers_value(self) -> float | None:
        """The value of `printed`; None where there is none."""
        return _value(ast.parse(self.printed, mode="eval").body) if self.printed else None

    @property
    def falls(self) -> bool:
        """Whether a smaller number is the better one."""
        (low, high), (least, most) = self.reproduced, self.same_direction
        return low == -math.inf or (low == least and high < most)

    def lined(self, line: float | None) -> "Claim":
        """The claim with another line from which a number is *reproduced*."""
        low, high = self.reproduced
        moved = (low, line) if self.falls else (line, high)
        return self if line is None else replace(self, reproduced=moved)


@dataclass(frozen=True)
class Judged:
    """A claim with the verdict of the stored results."""

    claim: Claim
    verdict: str  # One of `VERDICTS`.
    measured: Measured | None = None
    ours: Measured | None = None  # What our own method reaches by the same rule.
    # Where a learner decides: the best method without learning, by the same rule.
    rival: "Rival | None" = None


@dataclass(frozen=True)
class Rival:
    """The strongest method without learning: in the place of a claim's learner, and against it."""

    method: str
    measured: Measured
    verdict: str
    lead: Measured  # Of the learner against it, by the same rule.
    adds: str  # Whether learning adds to it: one of `ANSWERS`.


@dataclass(frozen=True)
class State:
    """What a reader changes of a claim: the method, its rival, what is equal for both (``games`` or
    ``moves``; time where empty), the instances, or families of them, that are left out, the
    training that counts alone, from 1 on, and the line from which a number is *reproduced*."""

    arm: str = ""
    rival: str = ""
    by: str = ""
    without: frozenset[str] = frozenset()
    training: int = 0  # 0 for all.
    line: float | None = None


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
        node.fail(
            "a claim has either 'measure', 'reproduced' and 'same_direction', or 'not_testable'"
        )
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
    "beside": _words,
}
"""Readers of a claim's fields; all others are words."""


def judge(claim: Claim, result: Mapping[str, Any] | None) -> Judged:
    """The verdict that a result bears out, by the claim's own rule."""
    if claim.not_testable:
        return Judged(claim, NOT_TESTABLE)
    rows = [] if result is None else result["rows"]
    ours = measure(claim.our_measure, rows) if claim.our_measure else None
    rows = counting_rows(claim.measure, rows)
    measured = measure(claim.measure, rows)
    if measured is None or not _enough(claim, claim.measure, rows):
        return Judged(claim, NOT_YET_RUN, None, ours)
    verdict = UNDECIDED if claim.undecided else _verdict(claim, measured)
    return Judged(claim, verdict, measured, ours, _rival(claim, rows))


def _enough(claim: Claim, rule: Measure, rows: list[dict[str, Any]]) -> bool:
    """Whether both sides of a rule have the instances that a claim is about."""
    return claim.instances == 1 or len(_counted(rule, rows)) >= claim.instances


def _counted(rule: Measure, rows: list[dict[str, Any]]) -> set[str]:
    """The instances that both sides of a rule have."""
    selection = {key: value for key, value in rule.rows.items() if value != "all"}
    there = [by_instance(rows, {**selection, **keys}) for keys in ({}, rule.against)]
    return there[0].keys() & there[1].keys()


@lru_cache
def without_learning(paper: int) -> frozenset[str]:
    """The rules and searches of a paper that learn nothing: no exact method, and no network that
    changes."""
    return frozenset(
        name
        for part in PROBLEMS[paper]
        for name, method in problem(part).methods().items()
        if method.kind in (RULE, SEARCH) and (not method.resumable or method.settings.get("frozen"))
    )


def state_of(query: str) -> State:
    """The state in an address, with the fields of `State` for names:
    ``arm=regal&without=towers,attention&line=0.7``; raises `InputError` for what no address has."""
    cells: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    known = [entry.name for entry in fields(State)]
    for name in cells.keys() - set(known):
        raise InputError("state", name, f"is none of {', '.join(known)}")
    without = frozenset(cells.pop("without", "").split(",")) - {""}
    for name, kind in (("training", int), ("line", float)):
        try:
            cells |= {name: kind(cells[name])} if name in cells else {}
        except ValueError:
            raise InputError("state", name, f"{cells[name]!r} is no number") from None
    return State(without=without, **cells)


def changed(rule: Measure, state: State) -> Measure:
    """The rule with the method and the rival of a state in the places of its own."""
    rows, against = dict(rule.rows), dict(rule.against)
    if state.arm:
        rows["method"] = state.arm
    if state.rival and "method" in against:
        against["method"] = state.rival
    elif state.rival:
        rows["baseline"] = state.rival
    if state.by:
        rows |= {"metric": f"by_{state.by}", "baseline": against.get("method", "")}
        against["baseline"] = rows.get("method", "")
    return replace(rule, rows=rows, against=against)


def answer(claim: Claim, rows: list[dict[str, Any]], state: State) -> Judged:
    """What a claim's rule says in a state; as `judge` says it where nothing is changed."""
    if state == State() or claim.measure is None:
        return judge(claim, {"rows": rows})
    rule = changed(claim.measure, state)
    rows = [
        _of_training(row, state.training)
        for row in counting_rows(rule, rows)
        if not {row["instance"], family_of(claim.artifact, row["instance"])} & state.without
    ]
    measured = measure(rule, rows)
    if measured is None:
        return Judged(claim, NOT_YET_RUN)
    undecided = claim.undecided and not state.arm and not state.rival
    verdict = UNDECIDED if undecided else _verdict(claim.lined(state.line), measured)
    return Judged(claim, verdict, measured)


def _of_training(row: dict[str, Any], training: int) -> dict[str, Any]:
    """A row of one training alone, where it is of that many."""
    each = row.get("by_training", ())
    if not 0 < training <= len(each):
        return row
    alone = each[training - 1]
    return row | {"value": alone, "low": alone, "high": alone, "by_training": ()}


@lru_cache(maxsize=4096)
def family_of(artifact: str, instance: str) -> str:
    """The family of an instance, as its data set has it; empty where none has."""
    from learned_mapping_companion.mcm import graphs as chip_graphs
    from learned_mapping_companion.mmap import facts
    from learned_mapping_companion.regal import graphs

    dataset, _, member = instance.partition("/")
    if artifact.startswith("mmap"):
        return facts.family(instance)
    if artifact.startswith("mcm"):
        return chip_graphs.family(instance) if chip_graphs.is_known(instance) else ""
    if dataset in graphs.DATASETS and member in graphs.graph_names(dataset):
        return graphs.family_of(dataset, member)
    return ""


def rows_of(claim: Claim, stored: Callable[[str], Any] = results.stored) -> list[dict[str, Any]]:
    """The stored rows that a claim is asked of; none where nothing is stored."""
    rows = [] if (result := stored(claim.artifact)) is None else result["rows"]
    other = stored(claim.beside["artifact"]) if claim.beside else None
    known = {row["instance"] for row in rows} - {"all"}
    return rows + [
        row | {"from": claim.beside["artifact"]}
        for row in (other["rows"] if other else ())
        if row["method"] == claim.beside["method"] and row["instance"] in known
    ]


def _elsewhere(rule: Measure) -> bool:
    """Whether the two sides of a contrast differ in more than the method."""
    return bool(rule.against) and set(rule.against) != {"method"}


def _lead(rule: Measure, method: str, rows: list[dict[str, Any]]) -> Measured | None:
    """A learner's number against another method's, by the same rule: on each instance, or, of
    extremes and of sides that differ in more, one number less the other, or over it."""
    if rule.over in ("min", "max") or _elsewhere(rule):
        ours = measure(rule, rows)
        theirs = measure(changed(rule, State(arm=method)), rows)
        of = operator.truediv if rule.kind in LEVEL else operator.sub
        ends = (ours.value, theirs.value), (ours.low, theirs.high), (ours.high, theirs.low)
        return Measured(*(of(*pair) for pair in ends), ours.instances)
    kind = "difference" if rule.kind == "value" else rule.kind
    return measure(replace(rule, kind=kind, against={**rule.against, "method": method}), rows)


def _adds(claim: Claim, lead: Measured) -> str:
    """Whether a learner's lead is on the better side of a tie, with its whole interval; of single
    runs, which have none, nobody knows."""
    level, known = LEVEL.get(claim.measure.kind, 0.0), lead.low < lead.high
    better, worse = known and lead.low > level, known and lead.high < level
    if claim.falls:
        better, worse = worse, better
    return YES if better else NO if worse else UNDECIDED


def _rival(claim: Claim, rows: list[dict[str, Any]]) -> Rival | None:
    """The best by the claim's rule of the methods without learning that the artifact has on the
    same instances; None where no learner decides the claim, where it is of a weakness, or where
    nothing else has run there."""
    rule, known = claim.measure, without_learning(claim.paper)
    method = rule.rows.get("method", "")
    if claim.rival == NONE or method not in LEARNERS:
        return None
    # the better of a search's mapping and the compiler's
    ending = f"-{method}" if method == "prod" else ""
    others = {rule.rows.get("baseline")}
    others |= set() if _elsewhere(rule) else {rule.against.get("method")}
    names = {row["method"] for row in rows if row["method"].removesuffix(ending) in known} - others
    counted, found = _counted(rule, rows), dict[str, Measured]()
    for name in sorted(name for name in names if name.endswith(ending)):
        its = changed(rule, State(arm=name))
        measured = measure(its, rows)
        if measured is not None and counted <= _counted(its, rows):
            found[name] = measured
    sign = 1 if claim.falls else -1
    best = min(found, key=lambda name: sign * found[name].value, default="")
    lead = _lead(rule, best, rows) if best else None
    if lead is None:
        return None
    return Rival(best, found[best], _verdict(claim, found[best]), lead, _adds(claim, lead))


def _verdict(claim: Claim, measured: Measured) -> str:
    """Reproduced or in the same direction only where the whole interval is; undecided where it
    holds both sides."""
    (low, high), (least, most) = claim.reproduced, claim.same_direction
    if low <= measured.low and measured.high <= high:
        return REPRODUCED
    if min(low, least) <= measured.low and measured.high <= max(high, most):
        return SAME_DIRECTION
    if measured.high < min(low, least) or measured.low > max(high, most):
        return NOT_REPRODUCED
    return UNDECIDED


def judge_all() -> list[Judged]:
    """Every claim with its verdict from the stored ``full`` results."""
    stored = cache(results.stored)
    return [judge(claim, {"rows": rows_of(claim, stored)}) for claim in read_claims()]


def verdict_counts(judged: list[Judged]) -> Html:
    """The number of claims with each verdict, paper by paper."""
    papers = sorted({item.claim.paper for item in judged})
    counts = {
        paper: Counter(item.verdict for item in judged if item.claim.paper == paper)
        for paper in papers
    }
    head = head_row(["verdict", *(f"paper {paper}" for paper in papers), "all"])
    body = ""
    for verdict in VERDICTS:
        cells = [counts[paper][verdict] for paper in papers]
        numbers = "".join(f"<td>{cell}</td>" for cell in [*cells, sum(cells)])
        body += (
            '<tr><th scope="row"'
            f' title="{escaped(MEANING[verdict])}">{escaped(verdict)}</th>{numbers}</tr>'
        )
    return simple_table(f"{len(judged)} claims by verdict", head, Html(body))


def earned_without_learning(judged: list[Judged]) -> tuple[int, int]:
    """(claims of strength that a learner earns, reproduced or in the same direction; how many of
    them the strongest method without learning earns as well, or better)."""
    rank = {REPRODUCED: 2, SAME_DIRECTION: 1}
    earned = _earned(judged)
    return len(earned), sum(
        rank.get(item.rival.verdict, 0) >= rank[item.verdict] for item in earned
    )


def _earned(judged: list[Judged]) -> list[Judged]:
    return [
        item
        for item in judged
        if item.rival is not None and item.verdict in (REPRODUCED, SAME_DIRECTION)
    ]


def learning_adds(judged: list[Judged]) -> Counter[str]:
    """Of the claims of strength that a learner earns, whether learning adds to the strongest method
    without it: how many have each of `ANSWERS`."""
    return Counter(item.rival.adds for item in _earned(judged))


def claims_table(judged: list[Judged], paper: int) -> Html:
    """The claims of one paper, each with two answers: whether the paper's method is ahead of the
    paper's rival, and whether learning adds to the strongest rival without it; the verdict leads to
    the claim's own page."""
    rival = "does learning add to the strongest rival without it?"
    head = head_row(("claim", "ahead of the paper's rival?", rival, "the paper's number"))
    body = ""
    for item in judged:
        claim = item.claim
        if claim.paper != paper:
            continue
        text = escaped(claim.text)
        for reason in (claim.not_testable, claim.undecided):
            text += f"<br><em>{escaped(reason)}</em>" if reason else ""
        if claim.decided_by:
            text += f"<br><em>Decided by {escaped(claim.decided_by)}.</em>"
        over = claim.measure.over if claim.measure else ""
        body += (
            f'<tr><td class="lm-wrap">{text}<br><code>{escaped(claim.artifact)}</code></td><td'
            f' class="lm-wrap lm-verdict"><a href="#{escaped(claim.id)}"><b>'
            f"{escaped(item.verdict)}</b></a>{_cell(item.measured, over)}</td><td"
            f' class="lm-wrap lm-narrow">{_beside(item)}</td><td'
            f' class="lm-wrap lm-narrow">{escaped(claim.number)}</td></tr>'
        )
    return simple_table(f"Paper {paper}: {PAPERS[paper]}", head, Html(body))


def _beside(item: Judged) -> str:
    """The answer of the strongest method without learning, and a learner of ours by the same rule;
    where there is none, why."""
    parts, rival = [], item.rival
    if rival is not None:
        name = f"<code>{escaped(rival.method)}</code>"
        parts.append(f"<b>{rival.adds}</b>: the lead over {name} is{_cell(rival.lead)}")
        parts.append(f"in its place: {escaped(rival.verdict)}{_cell(rival.measured)}")
    elif item.measured is not None:
        method = item.claim.measure.rows.get("method", "")
        learned = item.claim.rival == NONE or method in LEARNERS
        parts.append(f"<em>{'a weakness or a part' if learned else 'no learner decides it'}</em>")
    if item.ours:
        parts.append(f"ours, <code>{escaped(item.claim.ours['method'])}</code>{_cell(item.ours)}")
    return "<br>".join(parts)


EXTREMES = {"min": "the least", "max": "the most"}


def _cell(measured: Measured | None, over: str = "") -> str:
    """A number on a new line, and its interval on another; what it is an extreme of, and that its
    rows are of one run."""
    if measured is None:
        return ""
    text = f"<br>{number(measured.value)}"
    if measured.low != measured.high:
        text += f"<br><small>[{number(measured.low)}, {number(measured.high)}]</small>"
    notes = (
        [f"{EXTREMES[over]} of {measured.instances}"]
        if over in EXTREMES and measured.instances > 1
        else []
    )
    notes += ["n = 1"] if measured.runs == 1 else []
    return text + (f"<br><small>{', '.join(notes)}</small>" if notes else "")
