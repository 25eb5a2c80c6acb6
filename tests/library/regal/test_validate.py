import numpy as np
import pytest

from learned_mapping.hardware.devices import Devices
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.validate import validate

A, B, C, D = ((op, -1) for op in range(4))
X_TO_1, Z_TO_0, Y_TO_1 = (0, 1), (2, 0), (1, 1)
PLACEMENT = [0, 0, 1, 0]
GOOD = [A, X_TO_1, B, C, Z_TO_0, D]


def judge(diamond, order, placement=PLACEMENT, devices=2, **machine):
    return validate(diamond, Schedule.of(placement, order, devices), Devices(**machine))


def test_costs_by_hand(diamond):
    """a runs 0-1, x is sent, b runs 1-5, c 1-3, z is sent at 5, d runs 5-6. While b runs, x and y
    make 12 bytes."""
    verdict = judge(diamond, GOOD)
    assert verdict.valid and verdict.costs == {"makespan_s": 6.0, "peak_bytes": 12.0}


def test_late_transfer_costs_time_only_in_a_rendezvous(diamond):
    late = [A, B, X_TO_1, C, Z_TO_0, D]
    assert judge(diamond, late).costs["makespan_s"] == 8.0
    assert judge(diamond, late, transfers="free").costs["makespan_s"] == 6.0


@pytest.mark.parametrize(
    ("rule", "culprit", "order"),
    [
        ("every op once", "d", [A, X_TO_1, B, C, Z_TO_0]),
        ("every op once", "b", [A, X_TO_1, B, B, C, Z_TO_0, D]),
        ("dataflow", "b", [B, A, X_TO_1, C, Z_TO_0, D]),
        ("dataflow", "c", [A, B, C, Z_TO_0, D]),
        ("dataflow", "c", [A, C, X_TO_1, B, Z_TO_0, D]),
        ("dataflow", "a", [X_TO_1, A, B, C, Z_TO_0, D]),
        ("one transfer per tensor and device", "x", [A, X_TO_1, X_TO_1, B, C, Z_TO_0, D]),
        ("transfer implied", "y", [A, X_TO_1, B, Y_TO_1, C, Z_TO_0, D]),
        ("transfer implied", "x", [A, (0, 0), X_TO_1, B, C, Z_TO_0, D]),
        ("order", "", [A, (7, -1), X_TO_1, B, C, Z_TO_0, D]),
        ("order", "", [A, (0, 2), X_TO_1, B, C, Z_TO_0, D]),
    ],
)
def test_every_broken_rule_is_named_with_its_culprit(diamond, rule, culprit, order):
    verdict = judge(diamond, order)
    assert not verdict.valid and not verdict.costs
    named = [v for v in verdict.violations if v.rule == rule]
    assert named and (not culprit or culprit in named[0].culprits), verdict


def test_devices_that_do_not_exist(diamond):
    assert judge(diamond, GOOD, placement=[0, 0, 2, 0]).violations[0].rule == "placement"
    assert judge(diamond, GOOD, placement=[0, 0, 1]).violations[0].rule == "placement"
    assert judge(diamond, GOOD, devices=3).violations[0].rule == "devices"


def test_memory_limit_keeps_the_costs(diamond):
    """The schedule can be run, it only does not fit: the verdict still says what it would take."""
    assert judge(diamond, GOOD, memory_bytes=12).valid
    verdict = judge(diamond, GOOD, memory_bytes=11)
    assert [v.rule for v in verdict.violations] == ["memory limit"] and verdict.costs[
        "peak_bytes"
    ] == 12.0


def test_random_damage_is_noticed(diamond):
    """Swapping two steps of a valid schedule leaves it valid only where both orders are
    topological."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        i, j = rng.integers(0, len(GOOD), 2)
        order = list(GOOD)
        order[i], order[j] = order[j], order[i]
        position = {step: k for k, step in enumerate(order)}
        before = [(A, X_TO_1), (A, B), (X_TO_1, C), (C, Z_TO_0), (Z_TO_0, D), (B, D)]
        allowed = all(position[first] < position[second] for first, second in before)
        assert judge(diamond, order).valid == allowed
        seen.add(allowed)
    assert seen == {True, False}
