"""Calibrated seconds: a budget counts them, a record keeps the rate, no stored row mixes cores of different rates."""

from __future__ import annotations

import time

import pytest

from learned_mapping import clock
from learned_mapping.budget import Budget
from learned_mapping.companion import ledger, results
from learned_mapping.companion.artifact import TABLE
from learned_mapping.companion.records import read_records
from learned_mapping.companion.worker import perform


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
    task = {"task": "companion.run_functions:square", "method": "m", "instance": "i", "config": {}, "seed": 3}
    outcome = perform(task)
    assert outcome["rate"] == 2.0 and outcome["cpu"] == clock.cpu_model() and clock._factor == 2.0


def test_the_rate_repeats():
    """Would catch a calibration that measures the compiler, or nothing."""
    first, second = (clock.measured_rate(0.2) for _ in range(2))
    assert first > 1e6 and 0.5 < first / second < 2.0


def test_a_row_of_two_kinds_of_core_is_named():
    """Would catch groups of different limits taken together, and a mixture that passes."""
    run = {"instance": "a", "method": "m", "config": {"seconds": 5.0}}
    records = [run | {"rate": rate} for rate in (1.0, 1.1)] + [run, run | {"config": {"seconds": 9.0}, "rate": 2.0}]
    assert not ledger.mixed_rows(records)
    assert ledger.mixed_rows([*records, run | {"rate": 1.2}]) == [("a", "m", 1.0, 1.2)]


@pytest.mark.parametrize("artifact", [name for name, *_ in TABLE])
def test_no_stored_row_mixes_cores(artifact):
    """Would catch a comparison for equal seconds that were not equal."""
    assert not ledger.mixed_rows(read_records(results.runs_path(artifact)).values())
