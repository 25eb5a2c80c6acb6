"""Tests of searches that begin at a balanced partition."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.agent.config import AgentConfig
from learned_mapping.mcm.agent.network import ChipPolicy
from learned_mapping.mcm.agent.ppo import new_key
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches.even_cut import MOVED, Start, balanced_start, log_weights
from learned_mapping.mcm.searches.stochastic import annealing_from_balance
from learned_mapping.mcm.silicon import PROBLEM
from learned_mapping.problem import solve
from learned_mapping.programs.synthetic import random_graph


@pytest.fixture(scope="module")
def model():
    return ChipModel(random_graph(np.random.default_rng(0), "layered", 80), ChipPackage(chips=6))


def test_the_distribution_moves_about_as_many_ops_as_it_says():
    """Catches a rate with the wrong sign, or for one neighbour instead of two."""
    weights = np.exp(log_weights(np.full(500, 3), 8))
    weights /= weights.sum(1, keepdims=True)
    assert 500 - weights[:, 3].sum() == pytest.approx(MOVED, rel=0.1)
    assert np.all(np.argmax(weights, axis=1) == 3) and weights[0, 2] == pytest.approx(weights[0, 4])


def test_annealing_begins_at_the_start_and_never_returns_less(model):
    """Catches a start that costs no sample or is lost, and hidden randomness."""
    arrays = repair_arrays(model.graph)
    repair = partial(repair_batch, arrays, model.package.chips)
    start = balanced_start(model, arrays)
    one = annealing_from_balance(model, arrays, repair, np.random.default_rng(0), Budget(samples=1))
    np.testing.assert_array_equal(one, start)
    found = []
    for _ in range(2):
        budget = Budget(samples=60)
        found.append(annealing_from_balance(model, arrays, repair, np.random.default_rng(1), budget))
        assert budget.samples == 60
    np.testing.assert_array_equal(*found)
    assert model.throughput(found[0]) >= model.throughput(start)


def test_the_policy_begins_about_the_start(model):
    """Catches a start that the network's output drowns, and one that reaches an environment without a start."""
    arrays = repair_arrays(model.graph)
    policy = ChipPolicy(AgentConfig(layers=1, width=8, begun=True))
    parameters = policy.new_parameters(np.random.default_rng(0))
    kept = {}
    for given in (None, Start(model, arrays)):
        env, rng = PartitionEnv(model, arrays, given), np.random.default_rng(2)
        begun = policy.begin(env, rng)
        actions, _ = policy.act(parameters, policy.context(env), begun, new_key(rng))
        np.testing.assert_array_equal(np.asarray(actions.previous)[:, 0], begun)
        kept[given is None] = float(np.mean(np.asarray(actions.chosen)[:, -1, :80] == begun[:, :80]))
    assert kept[False] == pytest.approx(1 - MOVED / 80, abs=0.05) and kept[True] == 0.0


def test_a_share_of_the_samples_begins_at_the_best_so_far(model):
    """Catches a best partition that is forgotten, or followed before there is one, and a start that is no partition."""
    arrays = repair_arrays(model.graph)
    start, rng = Start(model, arrays, follow=0.5), np.random.default_rng(0)
    best = balanced_start(model, arrays)
    for known in (None, best):
        drawn = start.draw(rng, 20, known)
        assert drawn.shape == (20, 80) and all(is_valid(row, model.graph.op_edges) for row in drawn)
        same = (drawn == best).all(1)
        assert same[:10].all() == (known is not None) and not same[10:].all()


def test_learners_learn_from_measurements_on_silicon():
    """Catches a learner that is asked about the analytical model instead."""
    assert {"rl", "rl-balanced", "finetune", "sa-balanced", "class-search", "optimum"} <= set(PROBLEM.methods())
    graph = random_graph(np.random.default_rng(1), "towers", 30)
    result = solve(PROBLEM, PROBLEM.task(graph, chips=3), "rl", profile="quick", samples=25, seed=1)
    noisy = np.unique(result.curve["y"])
    assert result.samples == 25 and result.metrics["throughput"] > 0
    assert result.metrics["throughput"] not in noisy, "the curve holds measurements with noise"
