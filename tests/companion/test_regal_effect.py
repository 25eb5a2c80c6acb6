import numpy as np
import pytest

from learned_mapping_companion.regal import from_cut


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
