"""Stored results: made, refused, damaged, stale; and what the book and the ledger say of them."""

import json

import pytest

from companion.toy import BROKEN, TOY, install
from learned_mapping.errors import InputError
from learned_mapping_companion import display, fingerprints, ledger, results
from learned_mapping_companion.artifact import TABLE, read_table, reported
from learned_mapping_companion.table import row


@pytest.fixture(autouse=True)
def toys(own_folders, monkeypatch):
    install(monkeypatch, TOY, BROKEN)


def test_full_results_belong_to_the_project_and_quick_ones_do_not(tmp_path):
    results.make(TOY, "full", progress=False)
    results.make(TOY, "quick", progress=False)
    assert (tmp_path / "data/results/toy.table.json").exists()
    assert len((tmp_path / "data/results/runs/toy.table.jsonl").read_text().splitlines()) == 15
    assert (tmp_path / "build/quick/results/toy.table.json").exists()


def test_what_is_stored_is_what_was_made():
    result = results.make("toy.table", "full", progress=False)
    assert results.load("toy.table") == result
    assert result["seeds"] == 5 and result["validated"] == 15 and len(result["runs"]) == 15
    assert results.value(
        result, instance="toy0", method="random", metric="return"
    ) == pytest.approx((1 + 4 + 9) / 3)


def test_making_again_performs_nothing_and_changes_no_number():
    first = results.make(TOY, "quick", progress=False)
    again = results.make(TOY, "quick", progress=False)
    assert again["rows"] == first["rows"] and again["seconds"] == first["seconds"]


def test_an_invalid_solution_is_never_stored(tmp_path):
    with pytest.raises(results.InvalidSolutionsError, match=r"1 of 15 solutions"):
        results.make(BROKEN, "full", progress=False)
    assert results.stored("toy.broken") is None


def test_no_host_name_is_stored():
    import socket

    name = socket.gethostname()
    result = results.make(TOY, "quick", progress=False)
    assert len(name) < 4 or name not in json.dumps(
        {"machine": result["machine"], "versions": result["versions"]}
    )


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (["id"], "toy.other", "id"),
        (["profile"], "huge", "profile"),
        (["seeds"], 0, "seeds"),
        (["created"], "yesterday", "created"),
        (["seconds"], -1, "seconds"),
        (["invalid"], 2, "invalid"),
        (["rows", 0, "value"], [1], "rows[0]['value']"),
        (["rows", 1, "low"], "x", "rows[1]['low']"),
        (["rows", 0, "curve"], {"x": [1], "y": [], "x_unit": "s"}, "rows[0]['curve']"),
        (["paper", 0, "metric"], 3, "paper[0]['metric']"),
        (["runs", 0], 7, "runs[0]"),
        (["extra"], 1, "extra"),
    ],
)
def test_a_damaged_result_is_refused_with_its_field(path, value, field):
    """Whatever a chapter shows has passed this check."""
    result = results.make(TOY, "full", progress=False)
    target = result
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    results.result_path("toy.table").write_text(json.dumps(result))
    with pytest.raises(InputError) as caught:
        results.load("toy.table")
    assert field in str(caught.value)


def test_changed_behaviour_makes_a_result_stale(monkeypatch):
    key = TOY.plan(1)[0].task
    monkeypatch.setattr(fingerprints, "current", lambda: {key: "one"})
    results.make(TOY, "full", progress=False)
    assert [row["state"] for row in ledger.entries()] == ["fresh", "not yet run"]
    monkeypatch.setattr(fingerprints, "current", lambda: {key: "other"})
    assert ledger.entries()[0]["state"] == "stale" and ledger.entries()[0]["changed"] == [key]
    assert "stale" in display.show_result("toy.table")
    again = results.make(TOY, "full", reuse_stale=True, progress=False)
    assert again["fingerprints"] == {key: "one"}, (
        "runs of other behaviour must not pass for runs of this one"
    )
    assert results.make(TOY, "full", progress=False)["fingerprints"] == {key: "other"}


def test_a_method_that_nobody_has_a_fingerprint_of_is_stale(monkeypatch):
    """Would catch a new method whose results count as fresh for ever, and a fingerprint stored
    after its runs."""
    key = TOY.plan(1)[0].task
    monkeypatch.setattr(fingerprints, "current", lambda: {})
    results.make(TOY, "full", progress=False)
    assert ledger.entries()[0]["state"] == "stale" and ledger.entries()[0]["changed"] == [
        f"no fingerprint of {key}"
    ]
    assert f"no fingerprint of {key}" in display.show_result("toy.table")
    monkeypatch.setattr(fingerprints, "current", lambda: {key: "one"})
    assert ledger.entries()[0]["changed"] == [key], "nobody knows what the method did then"
    results.make(TOY, "full", progress=False)
    assert ledger.entries()[0]["state"] == "fresh"
    monkeypatch.setattr(fingerprints, "NO_METHOD", (key,))
    monkeypatch.setattr(fingerprints, "current", lambda: {})
    assert results.make(TOY, "full", progress=False)["fingerprints"] == {}


def test_unknown_artifact_and_profile_are_named():
    with pytest.raises(InputError, match=r"toy.nothing.*there are: toy.table"):
        results.make("toy.nothing", progress=False)
    with pytest.raises(InputError, match="huge"):
        results.make(TOY, "huge", progress=False)
    with pytest.raises(InputError, match="--seeds"):
        results.make(TOY, "quick", seeds=0, progress=False)


def test_ledger_adds_up(monkeypatch):
    monkeypatch.setattr(fingerprints, "current", lambda: {TOY.plan(1)[0].task: "one"})
    result = results.make(TOY, "full", progress=False)
    first, second = ledger.entries()
    assert (first["state"], first["validated"], first["seconds"]) == (
        "fresh",
        15,
        result["seconds"],
    )
    assert second["state"] == "not yet run" and second["created"] is None
    assert "lmap make toy.broken --profile full" in ledger.ledger_table()


def test_the_table_has_our_number_the_papers_and_the_interval():
    text = display.table(results.make(TOY, "full", progress=False))
    assert "<b>4.667</b>" in text and "paper 1.250" in text and " to " in text and "toy2" in text
    assert display.show_result("toy.broken").count("no stored") == 1


def test_markup_in_names_is_shown_not_run():
    """A method named by a stranger must not become part of the page."""
    result = {
        "rows": [{"instance": "<i>", "method": "<script>", "metric": "m", "value": 1}],
        "paper": [],
    }
    text = display.table(result)
    assert "<script>" not in text and "&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.58341, "0.5834"),
        (1.0059, "1.006"),
        (12345.6, "12,346"),
        (3, "3"),
        (-0.000491, "-0.00049"),
        (1e-7, "1.000e-07"),
        (0.0, "0"),
        (-66.98, "-66.98"),
        (True, "yes"),
        ("n.a.", "n.a."),
        (None, "–"),
    ],
)
def test_numbers_read_well(value, text):
    assert display.number(value) == text


@pytest.mark.parametrize("artifact_id", TABLE)
def test_the_papers_numbers_beside_a_stored_result_are_those_of_the_list(artifact_id):
    """Catches a number of a paper corrected in one place only, and an entry of the list that no
    artifact has."""
    stored = results.stored(artifact_id)
    assert stored is None or stored["paper"] == reported(artifact_id)
    assert set(read_table("papers.yml")) <= TABLE.keys()


def test_one_table_has_a_column_for_each_metric():
    """Catches a metric in the wrong column, one that was not asked for, a row of a method left out,
    and a number of an instance that was not asked for."""
    values = (("a", "seconds", 1.5), ("b", "seconds", 2.5), ("b", "samples", 7))
    rows = [row("all", method, metric, value) for method, metric, value in values]
    shown = display.table(
        {"rows": rows, "paper": []}, metrics=["samples", "seconds"], joined="both", key=True
    )
    assert (
        shown.count("<tr>") == 3
        and shown.index("Partitions tried") < shown.index("Seconds")
        and "lm-key" in shown
    )
    assert "1.5" in shown and "7" in shown
    rows += [row("other", "a", "seconds", 9.5), row("other", "b", "samples", 8)]
    again = display.table(
        {"rows": rows, "paper": []}, metrics=["samples", "seconds"], instances=["all"], joined="both", key=True
    )  # fmt: skip
    assert again == shown
    one = display.table({"rows": rows[:1], "paper": []}, metrics=["seconds"], joined="both")
    assert ">all<" in one
