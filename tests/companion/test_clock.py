"""Calibrated seconds: a budget counts them, a record keeps the rate, no stored row mixes cores of
different rates."""

import time
from collections.abc import Iterable
from typing import Any

import pytest

from learned_mapping import clock
from learned_mapping.budget import Budget
from learned_mapping_companion import results
from learned_mapping_companion.artifact import TABLE
from learned_mapping_companion.records import read_records
from learned_mapping_companion.table import by
from learned_mapping_companion.worker import perform

MIXED = 1.15
"""The rates of the cores that performed the runs of one row may differ by so much."""


def mixed_rows(records: Iterable[dict[str, Any]]) -> list[tuple[str, str, float, float]]:
    """Of runs that a clock limits: instance, method, least and largest rate, of each group whose
    rates mix by more than `MIXED`, unless other groups of the instance mix alike: all their runs of
    one seed on one kind of core. Runs of a group share instance, method and limit; a run without a
    rate, in a group that has one, counts as a core that stood still."""
    clocked = [{**r, **r["config"]} for r in records if "seconds" in r["config"]]
    groups = by([{"arm": r["method"]} | r for r in clocked], "instance", "arm", "seconds")
    mixed = {key: runs for key, runs in groups.items() if not _alike(runs)}
    rows = []
    for (instance, method, _), runs in mixed.items():
        beside = [group for key, group in mixed.items() if key[0] == instance]
        of_seeds = by([run for group in beside for run in group], "seed").values()
        if len(beside) == 1 or not all(map(_alike, of_seeds)):
            actual = [run.get("rate", 0.0) for run in runs]
            rows.append((instance, method, min(actual), max(actual)))
    return rows


def _alike(runs: list[dict[str, Any]]) -> bool:
    """Whether runs were on one kind of core."""
    actual = [run.get("rate", 0.0) for run in runs]
    return max(actual) <= MIXED * min(actual)


@pytest.fixture
def plain_seconds():
    yield
    clock.count_at(1.0)


def test_a_budget_counts_calibrated_seconds(plain_seconds):
    """Would catch a budget that ignores the rate, or counts wall-clock by it."""
    clock.count_at(1000.0)
    cpu, wall = Budget(seconds=1.0, cpu=True), Budget(seconds=1.0)
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
    assert cpu.spent() and cpu.seconds > 15.0 and not wall.spent()


def test_a_run_keeps_processor_and_rate(plain_seconds, monkeypatch):
    """Would catch a record that does not say on what core its seconds were counted."""
    monkeypatch.setattr(clock, "rate", lambda: 2.0)
    task = {
        "task": "companion.run_functions:square",
        "method": "m",
        "instance": "i",
        "config": {},
        "seed": 3,
    }
    outcome = perform(task)
    assert outcome["rate"] == 2.0 and outcome["cpu"] == clock.cpu_model() and clock._factor == 2.0


def test_the_rate_repeats():
    """Would catch a calibration that measures the compiler, or nothing."""
    first, second = (clock.measured_rate(0.2) for _ in range(2))
    assert first > 1e6 and 0.5 < first / second < 2.0


def test_a_row_of_two_kinds_of_core_is_named():
    """Would catch groups of different limits taken together, and a mixture that passes."""
    run = {"instance": "a", "method": "m", "config": {"seconds": 5.0}, "seed": 0}
    other = run | {"config": {"seconds": 9.0}}
    records = [run | {"rate": rate} for rate in (1.0, 1.1)] + [
        other | {"rate": 2.0},
        run | {"method": "older"},
    ]
    assert not mixed_rows(records)
    assert mixed_rows([*records, run | {"rate": 1.2}]) == [("a", "m", 1.0, 1.2)]
    assert mixed_rows([*records, other]) == [("a", "m", 0.0, 2.0)]


def test_rows_may_mix_cores_alike():
    """Would catch a row whose second run was on another core than those it is compared with, and a
    row that mixes alone."""
    runs = [
        {"instance": "a", "method": method, "config": {"seconds": 5.0}, "seed": seed}
        | {"rate": 1.0 + 0.4 * seed}
        for method in ("m", "n")
        for seed in (0, 1)
    ]
    assert not mixed_rows(runs)
    assert mixed_rows(runs[:3]) == [("a", "m", 1.0, 1.4)]
    runs[2]["rate"], runs[3]["rate"] = 1.4, 1.0
    assert [row[:2] for row in mixed_rows(runs)] == [("a", "m"), ("a", "n")]


@pytest.mark.parametrize("artifact", TABLE)
def test_no_stored_row_mixes_cores(artifact):
    """Would catch a comparison for equal seconds that were not equal."""
    assert not mixed_rows(read_records(results.runs_path(artifact)).values())


def test_every_stored_run_is_of_a_stored_result():
    """Would catch records that outlive their artifact's plan, and would be counted and drawn for
    checking."""
    named = {
        digest
        for artifact in TABLE
        if (stored := results.stored(artifact))
        for digest in stored["runs"]
    }
    assert {
        digest for artifact in TABLE for digest in read_records(results.runs_path(artifact))
    } <= named


@pytest.mark.parametrize("artifact", ["mmap.table2", "mmap.table3", "mmap.fig7"])
def test_every_run_counts_calibrated_seconds(artifact):
    """Would catch a run that comes back into a whole table with plain seconds."""
    assert all("rate" in record for record in read_records(results.runs_path(artifact)).values())


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (
            "model name : AMD EPYC\ncpu family : 26\nmodel : 2\nmodel : 3\n",
            "AMD EPYC (family 26, model 2)",
        ),
        ("model name : A  core\n", "A core"),
        ("", "fallback"),
    ],
)
def test_a_processor_is_told_from_others_of_its_name(monkeypatch, lines, name):
    """Would catch two generations that a virtual machine calls alike, taken for one."""
    monkeypatch.setattr(clock.Path, "read_text", lambda path: lines)
    monkeypatch.setattr(clock.platform, "processor", lambda: "fallback")
    assert clock.cpu_model() == name
