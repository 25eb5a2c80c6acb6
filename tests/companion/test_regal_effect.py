import numpy as np
import pytest

from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.policy import BINS
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance
from learned_mapping.regal.searches.list_schedule import upward_rank
from learned_mapping_companion.regal import effect, from_cut
from learned_mapping_companion.regal.graphs import load_graph


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_part_of_a_rule_leaves_the_other_alone(objective):
    """Both sides of the cut prefer other devices; catches an order that leaks into devices, or one
    part lost."""
    instance = Instance(load_graph("synthetic", "layered-100"), objective=objective)
    parts = {
        part: effect.rule_bins(instance, features(instance), part)
        for part in ("devices", "order", "both")
    }
    uniform = effect.uniform_bins(instance)
    assert np.array_equal(parts["order"][:, :2], uniform[:, :2]) and np.array_equal(
        parts["devices"][:, 2], uniform[:, 2]
    )
    assert np.array_equal(parts["both"][:, :2], parts["devices"][:, :2])
    assert (
        np.array_equal(parts["both"][:, 2], parts["order"][:, 2])
        and len(np.unique(parts["order"][:, 2], axis=0)) > 3
    )
    strong = BINS.index(effect.RULES[objective][1])
    own = [
        (parts["devices"][:, device] == [strong, BINS.index(1.0)]).all(axis=1) for device in (0, 1)
    ]
    assert (own[0] != own[1]).all() and 0.2 < own[0].mean() < 0.8


def test_the_cut_as_a_law_names_a_side_and_an_order():
    """Catches an op that prefers no device or both, and priorities that do not rise with the path
    from an op."""
    instance = Instance(load_graph("synthetic", "layered-100"))
    bins = effect.cut_bins(instance, features(instance))
    own = bins[:, :2, 0] == BINS.index(8.0)
    assert (own.sum(axis=1) == 1).all() and 0.2 < own[:, 0].mean() < 0.8
    assert (bins[:, :2, 1] == BINS.index(1.0)).all() and (bins[:, 2, 1] == BINS.index(8.0)).all()
    assert np.corrcoef(bins[:, 2, 0], upward_rank(instance))[0, 1] > 0.5


def test_laws_that_differ_are_told_from_runs_that_do():
    """Against numbers drawn with known spreads: two percent between laws, three between runs, five
    between streams."""
    rng = np.random.default_rng(0)
    collected = []
    for _ in range(400):
        laws, runs, streams = (
            rng.normal(0, 0.02, 8),
            rng.normal(0, 0.03, (3, 8)),
            rng.normal(0, 0.05, (3, 1)),
        )
        collected.append(from_cut._variances(laws + runs + streams))
    truth, noise = np.sqrt(np.mean(collected, axis=0))
    assert truth == pytest.approx(0.02, rel=0.1) and noise == pytest.approx(0.03, rel=0.05)


def test_what_learning_adds_to_the_cut():
    """Catches a law compared with itself, or networks that count as one."""
    runs = []
    for method, over in (("start", 1.02), ("trained", 0.99)):
        for network in ("a", "b"):
            for seed in range(3):
                costs = [[0.9, *[0.9 * over] * from_cut.DRAWS]] * 4
                graphs = {
                    "roomy": {"costs": costs, "room": True},
                    "tight": {"costs": costs, "room": seed > 0},
                }
                config, result = {"network": network}, {"graphs": graphs}
                runs.append({"method": method, "seed": seed, "config": config, "result": result})
    rows = {
        (r["method"], r["metric"], r["evaluations"]): r
        for r in from_cut.assemble_from_cut("full", runs)["rows"]
    }
    assert rows["cut", "effect_percent", 500]["value"] == pytest.approx(-10.0)
    assert rows["start", "over_cut_percent", 5000]["value"] == pytest.approx(2.0)
    assert rows["trained", "over_cut_percent", 5000]["value"] == pytest.approx(-1.0)
    assert rows["trained", "over_cut_percent", 5000]["training_seeds"] == 2
    assert rows["trained", "law_spread_percent", 5000]["value"] == pytest.approx(0.0, abs=1e-6)
    assert rows["trained", "over_cut_percent", 5000]["graphs"] == 1
