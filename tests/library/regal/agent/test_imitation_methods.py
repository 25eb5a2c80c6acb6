import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal import methods
from learned_mapping.regal.agent.learner import (
    PAPER,
    Variant,
    read_learner,
    variant_from,
    variant_to,
)
from learned_mapping.regal.agent.policy import REINFORCED
from learned_mapping.regal.methods import (
    LEARNED,
    NETWORKS,
    PROBLEM,
    checkpoint_folder,
    chosen,
    learner_for,
    solve,
)
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance


def test_the_paper_feeds_sampled_laws_to_mutants_alone(instance):
    """Catches a law that reaches the initial population, and one drawn anew or not at all."""
    learner = learner_for(instance)
    one, two = (learner.law(instance, np.random.default_rng(seed), PAPER) for seed in (0, 1))
    assert (
        not one.in_initial and one.mutant_share == 1.0 and not np.array_equal(one.alpha, two.alpha)
    )
    mean = learner.law(instance, np.random.default_rng(0), Variant())
    assert np.array_equal(
        mean.alpha, learner.law(instance, np.random.default_rng(1), Variant()).alpha
    )
    assert np.all(mean.alpha[80:] == 1) and len(one.alpha) == 120


def test_a_variant_may_order_by_a_rule(instance):
    """The learner's devices, not its priorities; and the variant survives JSON. Catches a rule that
    is dropped."""
    learner, rng = learner_for(instance), np.random.default_rng(0)
    ruled = Variant(height=16.0, transfers=60.0)
    law, plain = learner.law(instance, rng, ruled), learner.law(instance, rng, Variant())
    assert np.array_equal(law.alpha[:80], plain.alpha[:80])
    assert law.alpha[80:120].max() > 10 and np.all(law.alpha[120:] == 61.0)
    assert variant_from(variant_to(ruled)) == ruled and "height" not in variant_to(Variant())


def test_three_devices_are_one_clear_line():
    three = Instance(random_graph(np.random.default_rng(1), "layered", 20), Devices(devices=3))
    for method in set(LEARNED) - set(REINFORCED):
        with pytest.raises(InputError, match="2 devices, got 3"):
            solve(three, method, samples=200)


def test_another_network_by_name(instance):
    """A network of the right objective serves; an unknown one, or one for the other objective, is
    refused."""
    named = solve(instance, f"regal-imitation:{NETWORKS['runtime']}", samples=500)
    assert named.metrics == solve(instance, "regal-imitation", samples=500).metrics
    with pytest.raises(InputError, match=r"there are: .*traced-memory-0"):
        solve(instance, "regal-imitation:nowhere", samples=500)
    with pytest.raises(InputError, match="trained for memory"):
        solve(instance, f"regal-imitation:{NETWORKS['memory']}", samples=500)
    with pytest.raises(InputError, match="no method"):
        PROBLEM.method("brkga:traced-runtime-0")


def test_local_search_shares_the_budget(instance):
    result = solve(instance, "regal-imitation-local-search", samples=1000)
    assert 900 < result.samples <= 1000
    half = solve(instance, "regal-imitation", samples=500)
    assert result.metrics["makespan_s"] <= half.metrics["makespan_s"]


def test_every_shipped_network_reads_and_has_a_variant():
    """Catches a checkpoint of older features, a size over 2 MB, and a network without a chosen
    variant."""
    paths = sorted(
        p for kind in ("synthetic", "traced") for p in checkpoint_folder().glob(f"{kind}-*.npz")
    )
    assert {f"{name}.npz" for name in NETWORKS.values()} <= {path.name for path in paths}
    for path in paths:
        learner = read_learner(path)
        assert learner.objective in OBJECTIVES and path.stat().st_size < 2e6
        assert variant_from(chosen()["variants"][learner.dataset]["chosen"])


def test_a_missing_record_is_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setattr(methods, "checkpoint_folder", lambda: tmp_path)
    methods.chosen.cache_clear()
    with pytest.raises(InputError, match=r"chosen\.json"):
        methods.chosen()
    methods.chosen.cache_clear()
