import numpy as np
import pytest

from learned_mapping.hardware.devices import Devices
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.policy import BINS
from learned_mapping.regal.agent.written import RULES, cut_bins, rule_bins, uniform_bins
from learned_mapping.regal.methods import solve
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance
from learned_mapping.regal.rules.levels import op_cost
from learned_mapping.regal.searches.list_schedule import upward_rank
from learned_mapping.regal.validate import validate


def layered():
    return random_graph(np.random.default_rng(100), "layered", 100)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_part_of_a_rule_leaves_the_other_alone(objective):
    """Both sides of the cut prefer other devices; catches an order that leaks into devices, or one
    part lost."""
    instance = Instance(layered(), objective=objective)
    parts = {
        part: rule_bins(instance, features(instance), part) for part in ("devices", "order", "both")
    }
    uniform = uniform_bins(instance)
    assert np.array_equal(parts["order"][:, :2], uniform[:, :2]) and np.array_equal(
        parts["devices"][:, 2], uniform[:, 2]
    )
    assert np.array_equal(parts["both"][:, :2], parts["devices"][:, :2])
    assert (
        np.array_equal(parts["both"][:, 2], parts["order"][:, 2])
        and len(np.unique(parts["order"][:, 2], axis=0)) > 3
    )
    strong = BINS.index(RULES[objective][1])
    own = [
        (parts["devices"][:, device] == [strong, BINS.index(1.0)]).all(axis=1) for device in (0, 1)
    ]
    assert (own[0] != own[1]).all() and 0.2 < own[0].mean() < 0.8


def test_the_cut_as_a_law_names_a_side_and_an_order():
    """Catches an op that prefers no device or both, and priorities that do not rise with the path
    from an op."""
    instance = Instance(layered())
    bins = cut_bins(instance, features(instance))
    own = bins[:, :2, 0] == BINS.index(8.0)
    assert (own.sum(axis=1) == 1).all() and 0.2 < own[:, 0].mean() < 0.8
    assert (bins[:, :2, 1] == BINS.index(1.0)).all() and (bins[:, 2, 1] == BINS.index(8.0)).all()
    assert np.corrcoef(bins[:, 2, 0], upward_rank(instance))[0, 1] > 0.5


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_the_cut_serves_any_number_of_devices(devices):
    """Every op prefers one device, and every device has its share of the cost."""
    instance = Instance(layered(), Devices(devices=devices))
    own = cut_bins(instance, features(instance))[:, :-1, 0] == BINS.index(8.0)
    assert (own.sum(axis=1) == 1).all()
    cost = op_cost(instance)
    assert np.abs(cost @ own / cost.sum() - 1 / devices).max() <= 1.5 * cost.max() / cost.sum()
    result = solve(instance, "cut", samples=500)
    assert validate(instance.graph, result.solution, instance.machine).valid
