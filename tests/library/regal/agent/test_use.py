"""REGAL as printed, in use, with networks of random weights in the place of trained ones."""

from itertools import product

import jax
import numpy as np
import pytest

from learned_mapping.errors import InputError, MissingNetworkError
from learned_mapping.folders import data_folder
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.agent import policy as policies
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.network import make_batch
from learned_mapping.regal.agent.reinforce import ReinforceAgent, ReinforceConfig, Stage
from learned_mapping.regal.methods import solve
from learned_mapping.regal.rules.instance import Instance


@pytest.fixture
def networks(tmp_path, monkeypatch):
    """A data folder with networks of each training for each objective; those for running time are
    of seed 5."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    for (objective, name), training in product(
        policies.SERVES.items(), ("reinforce", "cloned", "gas")
    ):
        instance = Instance(
            random_graph(np.random.default_rng(0), "layered", 12), objective=objective
        )
        path = data_folder() / "checkpoints" / "regal" / f"{training}-{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        policy = policies.untrained(instance, 5 if objective == "runtime" else 6)
        if training == "gas":
            batch = make_batch([features(instance)])
            parameters, _ = policies.random_parameters(batch, np.random.default_rng(5), "gas")
            policy = policies.Policy(jax.tree.map(np.asarray, parameters), objective, "none", 5)
        policies.write_policy(path, policy, {"updates": 1})


def test_a_named_network_serves(networks):
    """Catches another network than the one named, weights of another seed, and objectives mixed
    up."""
    instance = Instance(random_graph(np.random.default_rng(1), "towers", 40))
    served = solve(instance, "regal", seed=1, samples=500).metrics
    assert served == solve(instance, "regal:traced-runtime-0", seed=1, samples=500).metrics
    assert served == solve(instance, "regal-untrained:5", seed=1, samples=500).metrics
    assert served != solve(instance, "regal-untrained", seed=1, samples=500).metrics
    with pytest.raises(MissingNetworkError, match="there are: traced-memory-0, traced-runtime-0"):
        policies.policy_for(instance, "traced-runtime-1")
    with pytest.raises(InputError, match="trained for memory"):
        policies.policy_for(instance, "traced-memory-0")


def test_laws_are_drawn_once_for_mutants_alone(instance):
    """Catches a law in the initial population, one that is the same in every run, and laws of
    transfers."""
    one, two = (
        policies.untrained(instance).law(instance, np.random.default_rng(seed)) for seed in (0, 1)
    )
    assert (
        not one.in_initial and one.mutant_share == 1.0 and not np.array_equal(one.alpha, two.alpha)
    )
    assert len(one.alpha) == 120 and set(one.alpha) | set(one.beta) <= set(policies.BINS)


def test_the_average_law_sees_no_graph():
    """By 1,200 draws: every op has the same law, the mean of all ops' own. Catches a control that
    keeps the graph."""
    instance = Instance(random_graph(np.random.default_rng(7), "layered", 10))
    policy, rng = policies.untrained(instance), np.random.default_rng(0)
    drawn = np.array([policy.choices(instance, rng, average=True) for _ in range(1200)])
    actual = np.array([(drawn == b).mean(axis=0) for b in range(len(policies.BINS))])
    assert np.allclose(policy.probabilities(instance).sum(axis=-1), 1.0)
    expected = np.moveaxis(policy.probabilities(instance).mean(axis=0), -1, 0)
    assert np.abs(actual - expected[:, None]).max() < 0.05
    assert np.ptp(policy.probabilities(instance), axis=0).max() > 0.1


def test_untrained_is_what_a_training_starts_from():
    """Catches a control with weights that no training ever had."""
    instance = Instance(random_graph(np.random.default_rng(7), "layered", 10))
    config = ReinforceConfig(
        (Stage(1.0, 180, 4, 1, 20),), 1.0, seed=3, batch_graphs=1, batch_ops=32
    )
    agent = ReinforceAgent([instance], config)
    for module, arrays in policies.untrained(instance, 3).parameters.items():
        for name, values in arrays.items():
            assert np.array_equal(values, agent.parameters[module][name])
