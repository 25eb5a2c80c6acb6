"""Runs: keyed records, resumption, isolation of a killed worker, interruption."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from companion.run_functions import FUNCTIONS, runs_of
from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import append_line
from learned_mapping_companion.artifact import PROFILES, TABLE, Run, find_artifact
from learned_mapping_companion.records import (
    faults,
    read_record,
    read_records,
    record_of,
    tidy_records,
)
from learned_mapping_companion.runs import RunsFailedError, execute


def test_digest_keys_every_part_and_no_order():
    """Two different runs sharing a record would silently mix results."""
    base = Run("m:f", "random", "toy", {"a": 1, "b": 2}, 0)
    assert base.digest == Run("m:f", "random", "toy", {"b": 2, "a": 1}, 0).digest
    others = [
        Run("m:g", "random", "toy", {"a": 1, "b": 2}, 0),
        Run("m:f", "greedy", "toy", {"a": 1, "b": 2}, 0),
        Run("m:f", "random", "boy", {"a": 1, "b": 2}, 0),
        Run("m:f", "random", "toy", {"a": 1, "b": 3}, 0),
        Run("m:f", "random", "toy", {"a": 1, "b": 2}, 1),
    ]
    assert len({base.digest, *(run.digest for run in others)}) == 6


def test_a_configuration_that_is_not_json_is_refused():
    """Such a configuration has no digest, and no worker could be sent it."""
    with pytest.raises((TypeError, ValueError)):
        Run("m:f", "random", "toy", {"a": {1, 2}}, 0)
    with pytest.raises(ValueError):
        Run("m:f", "random", "toy", {"a": float("nan")}, 0)


@pytest.mark.parametrize("name", TABLE)
def test_plans_are_of_distinct_runs(name):
    """Catches a run planned twice, and a profile that cannot be planned."""
    for profile in PROFILES:
        plan = find_artifact(name).runs(profile, 2)
        assert len({run.digest for run in plan}) == len(plan)


def test_done_runs_are_not_redone(tmp_path):
    """A second call after a finished one must cost nothing; one with more seeds only the new
    ones."""
    first = execute(
        runs_of("count", range(2), folder=str(tmp_path)), store=tmp_path / "store", progress=False
    )
    again = execute(
        runs_of("count", range(4), folder=str(tmp_path)), store=tmp_path / "store", progress=False
    )
    assert again[:2] == first
    assert [(tmp_path / f"{seed}.log").read_text() for seed in range(4)] == ["x"] * 4


def test_equal_runs_share_one_execution(tmp_path):
    runs = runs_of("count", range(1), folder=str(tmp_path)) * 3
    records = execute(runs, store=tmp_path / "store", progress=False)
    assert len(records) == 3 and (tmp_path / "0.log").read_text() == "x"


@pytest.mark.parametrize(
    "damage", ["truncated", "empty", "foreign", "other-run", "not-an-object", "bad-seconds"]
)
def test_torn_and_foreign_records_are_redone(tmp_path, damage):
    """A half-written or exchanged record must not enter a table; nor may it take the next record
    with it."""
    store = tmp_path / "store"
    runs = runs_of("count", range(2), folder=str(tmp_path))
    execute(runs, store=store, progress=False)
    lines = {record["digest"]: json.dumps(record) for record in read_records(store).values()}
    whole, other = (lines[run.digest] for run in runs)
    damaged = {
        "truncated": whole[:-20],
        "empty": "",
        "foreign": '{"schema": "learned-mapping/graph/1"}',
        "other-run": other.replace(runs[1].digest, runs[0].digest),
        "not-an-object": "[]",
        "bad-seconds": json.dumps({**json.loads(whole), "seconds": "long"}),
    }[damage]
    store.write_text(f"{other}\n{damaged}")
    assert read_record(store, runs[0]) is None
    assert len(list(faults(store))) == (damage != "empty")
    assert execute(runs, store=store, progress=False)[0]["result"] == {"seed": 0}
    assert (tmp_path / "0.log").read_text() == "xx" and (tmp_path / "1.log").read_text() == "x"
    assert not list(faults(store)) and len(store.read_text().splitlines()) == 2, (
        "the damage is gone"
    )


def test_two_processes_append_to_one_file(tmp_path):
    """Would catch records that one `lmap make` loses because another rewrites the file."""
    runs = runs_of("square", range(40))
    record = {"seconds": 1.0, "peak_bytes": 1, "result": {"curve": [0.5] * 5000}}

    def write(share: list[Run]) -> None:
        for run in share:
            append_line(tmp_path / "store", record_of(run, record, ""))
            tidy_records(tmp_path / "store")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (runs[::2], runs[1::2])))
    assert set(read_records(tmp_path / "store")) == {run.digest for run in runs}


def test_records_of_other_behaviour_are_redone_unless_asked_for(tmp_path):
    """Otherwise a table would claim to come from code that never ran."""
    runs = runs_of("count", range(1), folder=str(tmp_path))
    execute(runs, store=tmp_path / "store", fingerprint_of=lambda run: "old", progress=False)
    kept = execute(
        runs,
        store=tmp_path / "store",
        fingerprint_of=lambda run: "new",
        reuse_stale=True,
        progress=False,
    )
    assert kept[0]["fingerprint"] == "old" and (tmp_path / "0.log").read_text() == "x"
    redone = execute(
        runs, store=tmp_path / "store", fingerprint_of=lambda run: "new", progress=False
    )
    assert redone[0]["fingerprint"] == "new" and (tmp_path / "0.log").read_text() == "xx"


def test_processes_give_the_same_records_in_order_and_keep_to_one_thread(tmp_path):
    runs = runs_of("square", range(5))
    records = execute(runs, store=tmp_path / "store", jobs=2, progress=False)
    assert [record["result"]["square"] for record in records] == [0, 1, 4, 9, 16]
    assert os.getpid() not in {record["result"]["pid"] for record in records}
    assert {record["result"]["threads"] for record in records} == {"1"}
    assert all(read_record(tmp_path / "store", run) == record for run, record in zip(runs, records))


def test_a_killed_worker_costs_its_own_run_once(tmp_path):
    """The pool goes on, and the run that was killed by accident succeeds at the second attempt."""
    config = {"folder": str(tmp_path), "kill": [1]}
    records = execute(
        runs_of("killed_once", range(4), **config), store=tmp_path / "store", jobs=2, progress=False
    )
    assert [record["result"]["seed"] for record in records] == [0, 1, 2, 3]


def test_a_run_that_always_dies_is_reported_and_the_others_are_stored(tmp_path):
    runs = runs_of("killed_always", range(4), kill=[2])
    with pytest.raises(
        RunsFailedError, match=r"1 of 4 runs failed: random on toy, seed 2: .*died 2 times"
    ):
        execute(runs, store=tmp_path / "store", jobs=2, progress=False)
    assert [read_record(tmp_path / "store", run) is not None for run in runs] == [
        True,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_raising_run_is_reported_in_one_line(tmp_path, jobs):
    runs = runs_of("raising", range(3), bad=1)
    with pytest.raises(RunsFailedError) as caught:
        execute(runs, store=tmp_path / "store", jobs=jobs, progress=False)
    assert "ZeroDivisionError: seed of evil" in str(caught.value) and "\n" not in str(caught.value)
    assert [read_record(tmp_path / "store", run) is not None for run in runs] == [True, False, True]


def test_an_interrupted_series_keeps_what_is_finished(tmp_path):
    """Ctrl-C in the third run: two records stay, and going on performs the other two only."""
    runs = runs_of("interrupted", range(4), folder=str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        execute(runs, store=tmp_path / "store", progress=False)
    assert len(read_records(tmp_path / "store")) == 2
    execute(runs, store=tmp_path / "store", progress=False)
    assert [(tmp_path / f"{seed}.log").read_text() for seed in range(4)] == ["x"] * 4


def test_peak_memory_belongs_to_the_run(tmp_path):
    """A run after a large one in the same worker must not inherit its peak."""
    megabytes = 2**20
    runs = [
        Run(f"{FUNCTIONS}:allocate", "random", "toy", {"bytes": size * megabytes})
        for size in (200, 1)
    ]
    large, small = execute(runs, store=tmp_path / "store", progress=False)
    assert large["peak_bytes"] - small["peak_bytes"] > 150 * megabytes


def test_jobs_must_be_positive(tmp_path):
    with pytest.raises(InputError, match="--jobs"):
        execute([], store=tmp_path / "store", jobs=0)
