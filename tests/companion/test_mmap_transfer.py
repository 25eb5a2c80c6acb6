"""What training on other programs brings: rows worked out by hand from small records."""

from __future__ import annotations

import pytest

from learned_mapping.companion import results
from learned_mapping.companion.mmap import transfer
from learned_mapping.companion.runs import task_of
from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import write_json
from results_page import shown

SECTION = "What training on other programs brings"
FINAL = {"muzero": (0.8, 0.6), "muzero-scratch": (0.5, 0.7), "segment-search": (0.3, 0.5)}


def record(method: str, final: float, seconds: float = 10.0, instance: str = "one") -> dict:
    """Its first game after 0.9 s, a better one at a fifth of the seconds, its last after the budget was spent."""
    return {
        "instance": instance,
        "method": method,
        "config": {"program": "0" * 16, "seconds": seconds},
        "result": {
            "judged": True,
            "valid": True,
            "costs": {"return": final},
            "curve": {"x": [0.9, 2.0, 10.5], "y": [final / 4, final / 2, final], "samples": [1, 2, 3]},
        },
    }


def assembled(monkeypatch, seconds: float = 10.0) -> dict:
    records = {m: [record(m, value, seconds if m == "segment-search" else 10.0) for value in FINAL[m]] for m in FINAL}
    monkeypatch.setattr(transfer, "workloads", lambda profile: ("one",))
    old = [each for method in transfer.FROM_TABLE2 for each in records[method]]
    monkeypatch.setattr(transfer, "records_of_table2", lambda profile: old)
    return {"id": "mmap.transfer", **transfer.assemble_transfer("full", records["muzero-scratch"])}


def test_returns_are_read_off_at_shares_of_the_seconds(monkeypatch):
    """Catches a curve read at the next point instead of the last, and a last game that does not count."""
    made = assembled(monkeypatch)
    for end, part in (("_tenth", 0.25), ("_quarter", 0.5), ("", 1.0)):
        for method, final in FINAL.items():
            value = results.value(made, instance="one", method=method, metric=f"return{end}")
            assert value == pytest.approx(part * sum(final) / 2)
    assert results.select(made, instance="one", method="muzero", metric="return_tenth")[0]["seconds"] == 1.0
    assert transfer.return_at(record("muzero", 0.8), 0.05) == 0.0
    assert (made["validated"], made["invalid"]) == (6, 0)
    drawn = [row for row in made["rows"] if "curve" in row]
    assert [row["method"] for row in drawn] == list(transfer.METHODS)


def test_differences_are_ours_minus_theirs_with_an_interval(monkeypatch):
    """Catches a pair the wrong way round and an interval of something else: of two runs each the ends are known."""
    made = assembled(monkeypatch)
    expected = {
        ("muzero", "muzero-scratch"): (0.1, -0.1, 0.3),
        ("muzero", "segment-search"): (0.3, 0.1, 0.5),
        ("muzero-scratch", "segment-search"): (0.2, 0.0, 0.4),
    }
    assert set(expected) == set(transfer.CONTRASTS)
    for (ours, theirs), numbers in expected.items():
        for instance in ("one", "all"):
            (row,) = results.select(made, instance=instance, method=ours, baseline=theirs, metric="difference")
            assert (row["value"], row["low"], row["high"]) == pytest.approx(numbers)
            assert row["n"] == 2


def test_unequal_seconds_are_not_compared(monkeypatch):
    made = assembled(monkeypatch, seconds=2.5)
    compared = {(row["method"], row["baseline"]) for row in made["rows"] if row["metric"].startswith("difference")}
    assert compared == {("muzero", "muzero-scratch")}


def test_only_the_new_arm_is_run():
    """Catches runs of `mmap.table2` done twice, and seconds that are not its own."""
    for profile, seeds in (("quick", 1), ("full", 5)):
        plan = transfer.plan_transfer(profile, 5)
        assert {run.method for run in plan} == {"muzero-scratch"}
        table2 = {
            (r.instance, r.seed): r.config["seconds"] for r in transfer.plan_table2(profile, 5) if r.method == "muzero"
        }
        assert {(run.instance, run.seed): run.config["seconds"] for run in plan} == table2
        assert {run.seed for run in plan} == set(range(seeds))


def test_the_others_are_the_records_of_table_2(monkeypatch, tmp_path):
    """Catches a record passed over in silence and one of another method."""
    monkeypatch.setenv("LEARNED_MAPPING_BUILD", str(tmp_path))
    monkeypatch.setattr(results, "load", lambda *_: {"seeds": 1})
    runs = transfer.plan_table2("quick", 1)
    for run in runs:
        about = {"digest": run.digest, "source_digest": "", "seconds": 1.0, "peak_bytes": 0, "result": {}}
        path = results.runs_folder("mmap.table2", "quick") / f"{run.digest}.json"
        write_json(path, {"schema": "learned-mapping/run/1", **task_of(run), **about})
    found = transfer.records_of_table2("quick")
    assert {each["method"] for each in found} == set(transfer.FROM_TABLE2) and len(found) == 4
    path = results.runs_folder("mmap.table2", "quick") / f"{found[0]['digest']}.json"
    path.unlink()
    with pytest.raises(InputError, match=found[0]["method"]):
        transfer.records_of_table2("quick")


def test_the_sentences_follow_from_the_rows(monkeypatch):
    """Catches a count of programs whose interval excludes 0 that is not the rows', and a page that fails."""
    made = assembled(monkeypatch)
    text = shown(SECTION, stored=lambda name: made, show_result=lambda *_, **__: "")
    for (ours, theirs), above in zip(transfer.CONTRASTS, (0, 1, 0)):
        (row,) = results.select(made, instance="all", method=ours, baseline=theirs, metric="difference")
        (line,) = [each for each in text.splitlines() if each.startswith(f"- At the end, {ours} minus {theirs}:")]
        assert f"{row['value']:+.4f}" in line
        assert f"above 0 on {above} and below 0 on 0 of 1 programs" in line
    assert text.count("<svg") == 1


def test_without_a_result_the_page_says_how_to_make_it(monkeypatch):
    monkeypatch.setattr(results, "stored", lambda *_: None)
    assert "lmap make mmap.transfer" in shown(SECTION)
