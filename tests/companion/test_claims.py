"""Claims: the verdict follows from the stored rows by the declared rule."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from learned_mapping.errors import InputError
from learned_mapping_companion import claims, measures, results
from learned_mapping_companion.claims import Claim, judge, read_claims
from learned_mapping_companion.measures import Measure, measure

NUMBER = re.compile(r"\d+\.?\d*")


def row(instance, method, metric, value, **extra):
    return {"instance": instance, "method": method, "metric": metric, "value": value, **extra}


ROWS = [
    row("a", "regal", "gap_percent", 5.0),
    row("b", "regal", "gap_percent", 20.0),
    row("a", "brkga", "gap_percent", 10.0),
    row("b", "brkga", "gap_percent", 25.0),
    row("c", "brkga", "gap_percent", 99.0),
    row("a", "regal", "seconds", 1.0),
    row("a", "rl", "samples", 330, target="1.60"),
    row("a", "finetune", "samples", 171, target="1.60"),
    row("a", "finetune", "samples", 503, target="1.70"),
    row("a", "cp-sat", "gap_percent", "n.a."),
    row("all", "regal", "gap_percent", 1e6),
]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Measure("value", {"method": "regal", "metric": "gap_percent"}), 12.5),
        (Measure("value", {"method": "regal", "metric": "gap_percent"}, over="max"), 20.0),
        (Measure("value", {"method": "regal", "metric": "gap_percent", "instance": "b"}), 20.0),
        (
            Measure("ratio", {"method": "regal", "metric": "gap_percent"}, {"method": "brkga"}),
            (0.5 + 0.8) / 2,
        ),
        (
            Measure(
                "ratio",
                {"method": "regal", "metric": "gap_percent"},
                {"method": "brkga"},
                "geomean",
            ),
            0.4**0.5,
        ),
        (
            Measure(
                "difference", {"method": "regal", "metric": "gap_percent"}, {"method": "brkga"}
            ),
            -5.0,
        ),
        (
            Measure(
                "share_better", {"method": "brkga", "metric": "gap_percent"}, {"method": "regal"}
            ),
            1.0,
        ),
        (
            Measure(
                "ratio",
                {"method": "finetune", "metric": "samples", "target": "1.60"},
                {"method": "rl"},
            ),
            171 / 330,
        ),
        (
            Measure(
                "difference",
                {"method": "regal", "metric": "gap_percent", "instance": "a"},
                {"method": "brkga", "instance": "c"},
            ),
            -94.0,
        ),
        (Measure("value", {"method": "regal", "metric": "gap_percent", "instance": "all"}), 1e6),
        (Measure("value", {"method": "muzero", "metric": "return"}), None),
        (Measure("value", {"method": "cp-sat", "metric": "gap_percent"}), None),
        (Measure("ratio", {"method": "regal", "metric": "seconds"}, {"method": "brkga"}), None),
    ],
)
def test_measures_by_hand(rule, expected):
    actual = measure(rule, ROWS)
    assert actual is None if expected is None else actual.value == pytest.approx(expected)


def graphs(method, gaps, **more):
    return [row(name, method, "gap", gap, **more) for name, gap in zip("ab", gaps)]


def test_a_gap_is_that_of_the_mean_logarithm():
    """By hand: 10 % and 21 % are together as far as 15.37 %, since 1.1 * 1.21 = 1.1537 squared;
    21 % and 44 % are 32 %, since 1.21 * 1.44 = 1.32 squared. Catches a mean of ratios, 0.477."""
    rule = Measure("gap", {"method": "regal", "metric": "gap"}, {"method": "brkga"})
    actual = measure(rule, graphs("regal", (10, 21)) + graphs("brkga", (21, 44)))
    assert actual.value == pytest.approx(((1.1 * 1.21) ** 0.5 - 1) / 0.32)
    # draws are one of the two graphs twice, 0.476 or 0.477, or both
    assert (actual.low, actual.high) == (pytest.approx(10 / 21), actual.value)
    assert measure(rule, graphs("regal", (10, 21)) + graphs("brkga", (0, 0))) is None


def test_trainings_are_drawn_once_for_all_instances():
    """Catches trainings drawn anew for each instance, as if each graph had had its own: of two
    trainings, with 0 and 2 on both instances, the mean of a draw is 0, 1 or 2, at the ends of a
    95% interval 0 and 2; drawn for each instance it would be narrower."""
    rows = [row(name, "rl", "x", 1.0, by_training=[0.0, 2.0]) for name in "abcdefgh"]
    actual = measure(Measure("value", {"method": "rl", "metric": "x"}), rows)
    assert (actual.low, actual.value, actual.high) == (0.0, 1.0, 2.0)


def state_claim(**more):
    rule = Measure("ratio", {"method": "brkga", "metric": "x"}, {"method": "random"})
    return Claim("x", 3, "t", "n", "regal.x", rule, (1.5, math.inf), (1.0, math.inf), **more)


def test_what_a_reader_changes():
    """Another method, another rival, an instance less, one training, another line, equal games: by
    hand. Catches a state that changes nothing, and one that changes more than it says."""
    values = {"brkga": (2.0, 3.0), "random": (1.0, 2.0), "gp-list": (4.0, 1.0)}
    rows = [row(n, m, "x", v) for m, known in values.items() for n, v in zip("ab", known)]
    rows += [row(n, "ours", "x", 2.0, by_training=[1.0, 3.0]) for n in "ab"]
    rows += [
        row("a", m, "by_games", v, baseline=o)
        for m, v, o in (("brkga", 5.0, "random"), ("random", 4.0, "brkga"))
    ]
    expected = {
        "": (2 / 1 + 3 / 2) / 2,
        "arm=gp-list": (4 / 1 + 1 / 2) / 2,
        "rival=gp-list": (2 / 4 + 3 / 1) / 2,
        "without=b": 2.0,
        "arm=ours&training=2": (3 / 1 + 3 / 2) / 2,
        "by=games": 5 / 4,
    }
    for query, value in expected.items():
        found = claims.answer(state_claim(), rows, claims.state_of(query)).measured
        assert found.value == pytest.approx(value), query
    for query, verdict in (
        ("without=b", claims.REPRODUCED),
        ("without=b&line=2.5", claims.SAME_DIRECTION),
        ("arm=nobody", claims.NOT_YET_RUN),
        ("without=a,b", claims.NOT_YET_RUN),
    ):
        assert claims.answer(state_claim(), rows, claims.state_of(query)).verdict == verdict, query
    held = state_claim(undecided="why")
    assert claims.answer(held, rows, claims.state_of("without=b")).verdict == claims.UNDECIDED
    assert (
        claims.answer(held, rows, claims.state_of("arm=gp-list&without=b")).verdict
        != claims.UNDECIDED
    )


GAP = Measure("ratio", {"method": "ours", "metric": "gap_percent"}, {"method": "brkga"})


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (0.5, 0.45, 0.54, claims.REPRODUCED),
        (0.55, 0.55, 0.55, claims.REPRODUCED),
        (0.5, 0.4, 0.6, claims.SAME_DIRECTION),
        (0.7, 0.6, 0.9, claims.SAME_DIRECTION),
        (0.9, 0.8, 1.1, claims.UNDECIDED),
        (0.5, 0.2, 1.3, claims.UNDECIDED),
        (1.2, 1.1, 1.3, claims.NOT_REPRODUCED),
        (None, None, None, claims.NOT_YET_RUN),
    ],
)
def test_the_verdict_follows_from_the_interval(value, low, high, verdict):
    """A number on the right side of a threshold decides nothing if its interval is on both."""
    claim = Claim(
        "x", 3, "text", "number", "regal.table1", GAP, (-math.inf, 0.55), (-math.inf, 0.98)
    )
    rows = [row("a", "brkga", "gap_percent", 1.0)]
    if value is not None:
        rows.append(row("a", "ours", "gap_percent", value, low=low, high=high))
    assert judge(claim, {"rows": rows}).verdict == verdict
    assert judge(claim, None).verdict == claims.NOT_YET_RUN


@pytest.mark.parametrize(
    ("updates", "verdict"),
    [(None, claims.NOT_YET_RUN), (10, claims.NOT_YET_RUN), (1000, claims.REPRODUCED)],
)
def test_a_learner_that_has_not_learned_decides_nothing(updates, verdict):
    """The first game of an untrained network once passed for the paper's agent."""
    rule = Measure("ratio", {"method": "regal", "metric": "gap_percent"}, {"method": "brkga"})
    claim = Claim(
        "x",
        3,
        "t",
        "n",
        "regal.table1",
        rule,
        (-math.inf, 0.55),
        (-math.inf, 1),
        ours={"method": "ours"},
    )
    rows = [
        row("a", m, "gap_percent", v) for m, v in (("brkga", 1.0), ("regal", 0.5), ("ours", 0.3))
    ]
    if updates is not None:
        rows.append(row("a", "regal", "updates", updates))
    actual = judge(claim, {"rows": rows})
    assert actual.verdict == verdict and actual.ours.value == pytest.approx(0.3)


def test_a_claim_about_many_instances_is_not_decided_by_a_few():
    """A few programs, run first because they are cheap, would stand for all sixty."""
    rule = Measure("value", {"method": "brkga", "metric": "gap_percent"})
    for instances, verdict in ((3, claims.REPRODUCED), (4, claims.NOT_YET_RUN)):
        claim = Claim(
            "x", 3, "t", "n", "regal.table1", rule, (0, 100), (0, 100), instances=instances
        )
        assert judge(claim, {"rows": ROWS}).verdict == verdict


def test_a_learner_is_asked_for_what_it_learned_on_the_instance_named():
    """Where the rule names none, an instance on which too little was learned does not count."""
    rows = [
        row(name, "muzero", metric, value)
        for name, updates, speedup in (("a", 5000, 1.1), ("b", 3, 0.1))
        for metric, value in (("updates", updates), ("games_worth", 900), ("speedup", speedup))
    ]
    expected = {"a": claims.REPRODUCED, "b": claims.NOT_YET_RUN, None: claims.REPRODUCED}
    for name, verdict in expected.items():
        keys = {} if name is None else {"instance": name}
        rule = Measure("value", {"method": "muzero", "metric": "speedup", **keys})
        assert (
            judge(Claim("x", 1, "t", "n", "mmap.x", rule, (1, 2), (1, 2)), {"rows": rows}).verdict
            == verdict
        )


def test_an_arm_that_finished_no_game_decides_nothing():
    """Catches a lead over an arm that had no time for one game; it counts on the program where both
    played."""
    lead = {"a": (0.5, 0.4, 900), "b": (0.9, 0.0, 0)}
    rows = []
    for name, (ours, theirs, played) in lead.items():
        for method, value, games in (("muzero", ours, 900), ("search-only", theirs, played)):
            counts = {"return": value, "games": games, "updates": 5000, "games_worth": 900}
            rows += [row(name, method, metric, number) for metric, number in counts.items()]
    rule = Measure(
        "difference", {"method": "muzero", "metric": "return"}, {"method": "search-only"}
    )
    claim = Claim("x", 1, "t", "n", "mmap.x", rule, (0, 1), (0, 1))
    assert judge(claim, {"rows": rows}).measured.value == pytest.approx(0.1)
    assert judge(replace(claim, instances=2), {"rows": rows}).verdict == claims.NOT_YET_RUN
    for judged in claims.judge_all():
        if judged.measured is not None and judged.claim.artifact == "mmap.fig7":
            games = {
                (r["instance"], r["method"]): r["value"]
                for r in results.load("mmap.fig7")["rows"]
                if r["metric"] == "games"
            }
            arms = {judged.claim.measure.rows["method"], judged.claim.measure.against["method"]}
            playing = [
                n
                for n in dict.fromkeys(n for n, _ in games)
                if min(games[n, arm] for arm in arms) > 0
            ]
            assert judged.measured.instances <= len(playing), judged.claim.id


def test_a_learner_whose_count_is_missing_on_an_instance_does_not_count_there():
    """Catches PPO's rows of three programs, whose updates nobody kept, in a claim that asks for
    them."""
    rows = [row(name, "ppo", "return", value) for name, value in (("a", 0.5), ("b", 0.9))]
    rule = Measure("value", {"method": "ppo", "metric": "return"})
    for counts, expected in (
        ([("a", 500)], 0.5),
        ([("a", 500), ("b", 500)], 0.7),
        ([("a", 500), ("b", 9)], 0.5),
    ):
        known = [row(name, "ppo", "updates", count) for name, count in counts]
        claim = Claim("x", 1, "t", "n", "mmap.x", rule, (0, 1), (0, 1))
        assert judge(claim, {"rows": rows + known}).measured.value == pytest.approx(expected)


def test_beside_a_learner_stands_the_best_that_learns_nothing():
    """Catches a rival that is behind another one, one that learns, an exact method, and one of
    fewer instances."""
    values = {"rl-sample-credit": (1.2, 1.2), "sa": (1.0, 1.1), "sa-balanced": (1.3, 1.3)}
    values |= {"optimum": (9.0, 9.0), "rl": (5.0, 5.0), "climb": (2.0,)}
    rows = [
        row(name, m, "throughput", v) for m, known in values.items() for name, v in zip("ab", known)
    ]
    rows += [row(name, "random", "throughput", 1.0) for name in "ab"]
    rows += [row("all", "rl-sample-credit", "updates", 50)]
    rule = Measure(
        "ratio", {"method": "rl-sample-credit", "metric": "throughput"}, {"method": "random"}
    )
    claim = Claim("x", 2, "t", "n", "mcm.x", rule, (1.25, math.inf), (1.01, math.inf))
    actual = judge(claim, {"rows": rows})
    assert actual.verdict == claims.SAME_DIRECTION
    assert (actual.rival.method, actual.rival.verdict) == ("sa-balanced", claims.REPRODUCED)
    assert claims.earned_without_learning([actual]) == (1, 1)
    # of 1.2 over 1.3 on both graphs nothing is unsure, so that nobody knows
    assert actual.rival.lead.value == pytest.approx(1.2 / 1.3)
    assert actual.rival.adds == claims.UNDECIDED and claims.learning_adds([actual])["yes"] == 0
    assert judge(replace(claim, rival=claims.NONE), {"rows": rows}).rival is None
    assert judge(replace(claim, undecided="why"), {"rows": rows}).verdict == claims.UNDECIDED
    smaller = replace(claim, reproduced=(-math.inf, 1.05), same_direction=(-math.inf, 1.5))
    assert judge(smaller, {"rows": rows}).rival.method == "sa"


def test_every_claim_of_strength_has_a_rival_without_learning_or_a_reason():
    """Catches a learner's verdict that stands alone: no rows of what learns nothing in the same
    table."""
    for judged in claims.judge_all():
        method = "" if judged.claim.measure is None else judged.claim.measure.rows.get("method", "")
        if (
            judged.verdict in (claims.REPRODUCED, claims.SAME_DIRECTION)
            and method in measures.LEARNERS
        ):
            assert judged.rival is not None or judged.claim.rival == claims.NONE, judged.claim.id


def test_the_interval_of_a_mean_holds_what_its_rows_are_unsure_of():
    """Catches an interval over instances that treats each instance's few runs as without noise: two
    rows of the same value, each between -1 and 1, give an interval of about 1 / sqrt(2) to each
    side."""
    rows = [row(name, "brkga", "gap_percent", 0.0, low=-1.0, high=1.0) for name in "ab"]
    actual = measure(Measure("value", {"method": "brkga", "metric": "gap_percent"}), rows)
    assert 0.6 < actual.high < 0.8 and -0.8 < actual.low < -0.6
    most = measure(Measure("value", {"method": "brkga", "metric": "gap_percent"}, over="max"), rows)
    assert (most.low, most.high, most.instances) == (-1.0, 1.0, 2)


def test_a_mean_over_instances_has_an_interval_over_instances():
    actual = measure(Measure("value", {"method": "brkga", "metric": "gap_percent"}), ROWS)
    assert (
        actual.value == pytest.approx((10 + 25 + 99) / 3)
        and 10 <= actual.low < actual.value < actual.high <= 99
    )


def test_every_claim_about_a_learner_names_it():
    """A paper's number may only be decided by the paper's method; where another decides, the claim
    says who and why."""
    learners = set(measures.LEARNERS)
    credit = {"rl", "finetune", "zeroshot"}  # their credit per op is ours
    for claim in read_claims():
        if claim.measure is None:
            continue
        method = claim.measure.rows.get("method", "")
        if claim.ours:
            assert method in learners and claim.ours["method"] != method, claim.id
            assert claim.ours["method"] not in claims.without_learning(claim.paper), claim.id
        others = {
            method,
            claim.measure.rows.get("baseline", ""),
            claim.measure.against.get("method", ""),
        }
        if others & credit and claim.id != "mcm.fix-beats-sample":
            assert claim.decided_by, claim.id
        if others & {"regal-cloned", "evolution-best"} or (
            others & {"regal"} and "traced" in str(claim.measure.rows)
        ):
            assert claim.decided_by, claim.id


def test_every_measured_claim_has_three_dots_or_says_why_not():
    """A verdict of one number cannot be taken apart: instances, or the runs of the one that there
    is; the runs' values are those that its row says, to its count."""
    for claim in read_claims():
        if claim.measure is None:
            continue
        rows = claims.counting_rows(claim.measure, claims.rows_of(claim))
        counted = claims._counted(claim.measure, rows)
        asked = [
            row
            for row in rows
            if all(str(row.get(key)) == value for key, value in claim.measure.rows.items())
            and row["instance"] in counted
        ]
        runs = [value for row in asked for value in row.get("values", ())]
        if counted:
            assert (max(len(counted), len(runs)) < 3) == bool(claim.few), claim.id
        if len(counted) == 1 and len(runs) > 2:
            (row,) = asked
            assert len(runs) == row["n"] and min(runs) <= row["value"] <= max(runs), claim.id


def test_regal_against_local_search_is_asked_where_it_fares_worst():
    (claim,) = (claim for claim in read_claims() if claim.id == "regal.best-of-all")
    rows = results.select(
        results.load("regal.test"), method="regal", metric="gap_ratio", baseline="local-search"
    )
    worst = max(rows, key=lambda row: row["value"])
    assert worst["instance"] == claim.measure.rows["dataset"]
    assert judge(claim, results.load("regal.test")).measured.value == pytest.approx(worst["value"])


def test_sides_that_differ_in_more_than_the_method_are_compared_number_by_number():
    """Of its own cost with few evaluations one has 0.8 left and a rival without learning 0.9: the
    lead is 0.8 / 0.9, not the one's cost over the other's."""
    costs = {("regal", "5"): 10, ("regal", "9"): 8, ("brkga", "5"): 100, ("brkga", "9"): 90}
    rows = [
        row(name, method, "cost", value, limit=limit)
        for (method, limit), value in costs.items()
        for name in "ab"
    ]
    rows += [row(name, "regal", "updates", 5000) for name in "ab"]
    rule = Measure("ratio", {"method": "regal", "metric": "cost", "limit": "9"}, {"limit": "5"})
    claim = Claim("x", 3, "t", "n", "regal.x", rule, (-math.inf, 1), (-math.inf, 1))
    rival = judge(claim, {"rows": rows}).rival
    assert rival.method == "brkga" and rival.measured.value == pytest.approx(0.9)
    assert rival.lead.value == pytest.approx(8 / 9) and rival.adds == claims.UNDECIDED


def test_the_books_claims_read_and_cover_the_three_papers():
    actual = read_claims()
    assert {claim.paper for claim in actual} == {1, 2, 3} and len(actual) >= 40
    assert all(
        claim.artifact.split(".")[0] == ("mmap", "mcm", "regal")[claim.paper - 1]
        for claim in actual
    )
    for claim in actual:
        if claim.measure is not None:
            low, high = claim.same_direction
            assert low <= claim.reproduced[0] and claim.reproduced[1] <= high, (
                f"{claim.id}: reproduced is the stricter"
            )


def test_the_papers_number_is_made_of_numbers_in_its_words():
    """A diamond once stood at the mean of all programs, beside words that name one program's
    speedup."""
    for claim in read_claims():
        if claim.measure is not None:
            assert bool(claim.printed) != bool(claim.unprinted), (
                f"{claim.id}: either a number or why there is none"
            )
        if claim.printed:
            stated, drawn = (
                {float(n) for n in NUMBER.findall(text.replace(",", ""))}
                for text in (claim.number, claim.printed)
            )
            assert drawn - stated <= {
                1,
                2,
                4,
                100,
            }, f"{claim.id}: {drawn - stated} are not in {claim.number!r}"
            assert drawn & stated, claim.id


def test_the_papers_number_agrees_with_the_stored_one():
    """Where the paper's rows, kept beside ours, can be measured by the claim's rule."""
    compared = 0
    for claim in read_claims():
        stored = results.stored(claim.artifact) if claim.printed and claim.measure else None
        rows = stored["paper"] if stored else []
        # which decides
        rows = rows + [row | {"method": "regal-cloned"} for row in rows if row["method"] == "regal"]
        rule = claim.measure
        if rule is not None and rule.kind == "gap":  # the paper has the mean gap of a data set
            over = {"metric": "gap_percent", "instance": rule.rows["dataset"]}
            method = rule.rows["method"]
            rule = Measure("ratio", {"method": method, **over}, rule.against)
        paper = measure(rule, rows) if rows else None
        if paper is not None:
            compared += 1
            assert claim.papers_value == pytest.approx(paper.value, rel=0.02), claim.id
    assert compared >= 15


def test_the_papers_number_comes_near_what_counts_as_reproduced():
    """A threshold may be kinder than the number, and is never stricter."""
    for claim in read_claims():
        if claim.printed and claim.measure is not None:
            low, high = claim.reproduced
            assert low - 0.01 * abs(low) <= claim.papers_value <= high + 0.01 * abs(high), claim.id


@pytest.mark.parametrize(
    ("term", "value"), [("171 / 330", 171 / 330), ("(1 + 2) * -3", -9), ("0.01", 0.01)]
)
def test_a_printed_number_is_plain_arithmetic(term, value):
    assert Claim("x", 1, "t", "n", "mmap.x", printed=term).papers_value == value


def test_a_claim_nobody_has_run_is_never_counted_as_reproduced(tmp_path, monkeypatch):
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    assert {judged.verdict for judged in claims.judge_all()} == {
        claims.NOT_YET_RUN,
        claims.NOT_TESTABLE,
    }


GOOD = """claims:
  - id: a.b
    paper: 1
    text: t
    number: n
    artifact: mmap.x
    measure: {kind: value, rows: {method: muzero}}
    reproduced: [1, null]
    same_direction: [0, null]
"""


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("paper: 1", "paper: 4", "claims[0].paper"),
        ("kind: value", "kind: guess", "claims[0].measure.kind"),
        ("reproduced: [1, null]", "reproduced: [1]", "claims[0].reproduced"),
        ("reproduced: [1, null]", "reproduced: [2, 1]", "claims[0].reproduced"),
        ("    reproduced: [1, null]\n", "", "claims[0]"),
        ("    text: t\n", "    text: t\n    not_testable: why\n", "claims[0]"),
        ("text: t", "texte: t", "claims[0]"),
        (
            "rows: {method: muzero}}",
            "rows: {method: muzero}, against: {method: x}}",
            "claims[0].measure",
        ),
        ("number: n", "number: n\n    printed: open('x')", "claims[0].printed"),
        ("number: n", "number: n\n    printed: 1 / 0", "claims[0].printed"),
        ("claims:", "claims: [", "not YAML"),
    ],
)
def test_a_fault_in_the_list_is_named(tmp_path, old, new, field):
    assert old in GOOD
    path = Path(tmp_path) / "claims.yml"
    path.write_text(GOOD)
    assert len(read_claims(path)) == 1
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError) as caught:
        read_claims(path)
    assert field in str(caught.value)


def test_the_tables_count_and_list_every_claim(tmp_path, monkeypatch):
    from learned_mapping_companion.claims import claims_table, verdict_counts

    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    judged = claims.judge_all()
    assert f"{len(judged)} claims by verdict" in verdict_counts(judged)
    for paper in (1, 2, 3):
        rows = claims_table(judged, paper).count("<tr>") - 1
        assert rows == sum(item.claim.paper == paper for item in judged)
