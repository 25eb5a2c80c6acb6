from __future__ import annotations

import numpy as np
import pytest

from learned_mapping.companion.regal import effect
from learned_mapping.companion.regal.graphs import load_graph
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.policy import BINS
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_part_of_a_rule_leaves_the_other_alone(objective):
    """Both sides of the cut prefer other devices; catches an order that leaks into devices, or one part lost."""
    instance = Instance(load_graph("synthetic", "layered-100"), objective=objective)
    parts = {part: effect.rule_bins(instance, features(instance), part) for part in ("devices", "order", "both")}
    uniform = effect.uniform_bins(instance)
    assert np.array_equal(parts["order"][:, :2], uniform[:, :2]) and np.array_equal(
        parts["devices"][:, 2], uniform[:, 2]
    )
    assert np.array_equal(parts["both"][:, :2], parts["devices"][:, :2])
    assert (
        np.array_equal(parts["both"][:, 2], parts["order"][:, 2]) and len(np.unique(parts["order"][:, 2], axis=0)) > 3
    )
    strong = BINS.index(effect.RULES[objective][1])
    own = [(parts["devices"][:, device] == [strong, BINS.index(1.0)]).all(axis=1) for device in (0, 1)]
    assert (own[0] != own[1]).all() and 0.2 < own[0].mean() < 0.8
