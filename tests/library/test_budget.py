"""Budgets: would catch a search that overruns, and a curve that forgets or invents an
improvement."""

import pytest

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.verdict import Verdict, Violation


def test_samples_limit_and_best_so_far():
    budget = Budget(samples=4)
    assert [budget.record(v) for v in (1.0, 3.0, 2.0)] == [True, True, False]
    assert not budget.spent() and budget.remaining_samples == 1
    budget.record(2.5)
    assert budget.spent()
    curve = budget.curve()
    assert curve["y"] == [1.0, 3.0, 3.0] and curve["samples"] == [1, 2, 4]
    assert curve["x"] == sorted(curve["x"])


def test_what_is_left_and_what_lasts():
    """Catches a solver that is given nothing, or all, where the limit has passed, and a limit in
    samples that is taken for one in seconds."""
    budget = Budget(seconds=5.0)
    budget._clock, budget._start = lambda: 3.0, 0.0
    assert (budget.left_s, budget.lasts(2.0), budget.lasts(2.1)) == (2.0, True, False)
    budget.spent_before(10.0)
    assert budget.left_s == 0.1 and not budget.lasts(0.0)
    assert Budget(samples=1).left_s is None and Budget(samples=1).lasts(1e9)


def test_smaller_can_be_better():
    budget = Budget(samples=10)
    improved = [budget.record(v, better=float.__lt__) for v in (5.0, 6.0, 4.0)]
    assert improved == [True, False, True] and budget.best == 4.0


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"seconds": 0},
        {"seconds": -1.0},
        {"seconds": float("nan")},
        {"seconds": "3"},
        {"samples": 0},
        {"samples": 1.5},
        {"samples": "3"},
        {"samples": True},
    ],
)
def test_meaningless_limits_are_refused(limits):
    with pytest.raises(InputError):
        Budget(**limits)


def test_cpu_clock_does_not_count_sleep():
    import time

    budget = Budget(seconds=10, cpu=True)
    time.sleep(0.2)
    assert budget.seconds < 0.15


def test_progress_reports_the_best_value():
    seen = []
    budget = Budget(samples=3, progress=lambda samples, seconds, best: seen.append((samples, best)))
    budget.record(1.0)
    assert seen == [(1, 1.0)] and not budget.spent()
    budget = Budget(samples=3, progress=lambda *now: True)
    budget.record(1.0)
    assert budget.spent()


def test_a_verdict_prints_rule_detail_and_culprits():
    verdict = Verdict((Violation("Eq. 2 acyclic dataflow", ("a", "b"), "chip 3 to chip 1"),))
    assert not verdict.valid and "Eq. 2 acyclic dataflow: chip 3 to chip 1 [a, b]" in str(verdict)
    assert verdict.to_json()["violations"][0]["culprits"] == ["a", "b"]
    assert Verdict(costs={"makespan_s": 2.0}).valid
