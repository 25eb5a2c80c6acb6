"""Tests of searches that begin at a balanced partition."""

from functools import partial

import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.agent.config import agent_config
from learned_mapping.mcm.agent.credit import SHARP
from learned_mapping.mcm.agent.network import MASKED
from learned_mapping.mcm.agent.ppo import make_policy, new_key, rollouts
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import is_valid, obeys_chain_rule
from learned_mapping.mcm.searches.even_cut import MOVED, Start, balanced_start, log_weights
from learned_mapping.mcm.searches.moves import single_moves
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
    collected = []
    for _ in range(2):
        budget = Budget(samples=60)
        collected.append(
            annealing_from_balance(model, arrays, repair, np.random.default_rng(1), budget)
        )
        assert budget.samples == 60
    np.testing.assert_array_equal(*collected)
    assert model.throughput(collected[0]) >= model.throughput(start)


def test_the_policy_makes_about_as_many_moves_as_it_says_and_only_allowed_ones(model):
    """Catches a prior of another number of moves, a move that the rules forbid, and one of more
    than a chip."""
    arrays = repair_arrays(model.graph)
    policy = make_policy(
        agent_config("quick", begun=True, credit="exact", rollouts=40, minibatches=2)
    )
    env, rng = PartitionEnv(model, arrays, Start(model, arrays)), np.random.default_rng(2)
    begun = policy.begin(env, rng)
    sampled = policy.act(policy.new_parameters(rng), policy.context(env), begun, new_key(rng))
    moved = policy.choice(env, sampled) - begun.partition
    assert np.abs(moved).max() == 1 and np.abs(moved).sum(axis=1).mean() == pytest.approx(
        6.0, abs=1.0
    )
    for y, step in zip(begun.partition, moved):
        for op in np.flatnonzero(step):
            one = y.copy()
            one[op] += step[op]
            assert obeys_chain_rule(one, model.graph.op_edges)


def test_credits_of_moves_are_the_gains_of_the_repaired_partition(model):
    """Catches gains read relative to y' where they count relative to y(0), and weights of chips
    that y(0) has not."""
    arrays = repair_arrays(model.graph)
    policy = make_policy(
        agent_config("quick", begun=True, credit="exact", rollouts=10, minibatches=2)
    )
    env, rng = PartitionEnv(model, arrays, Start(model, arrays)), np.random.default_rng(3)
    batch = rollouts(policy, policy.new_parameters(rng), policy.context(env), env, rng)
    credits = policy.credits(env, batch.sampled, batch.partitions, batch.latencies, np.zeros(10))
    assert credits.weight[:, env.num_ops :].sum() == 0.0
    np.testing.assert_allclose(credits.weight.sum(axis=(1, 2)).mean(), 1.0, rtol=1e-4)
    np.testing.assert_allclose((credits.weight * credits.advantage).sum(axis=-1), 0.0, atol=1e-6)
    gain, allowed = single_moves(env.moves, batch.partitions[0], batch.latencies[0])
    for op in range(env.num_ops):
        chips = [batch.sampled.start.partition[0, op] + side for side in (-1, 0, 1)]
        known = [
            k
            for k, c in enumerate(chips)
            if abs(d := c - batch.partitions[0, op]) <= 1 and allowed[op, d + 1]
        ]
        offered = [k for k in known if batch.sampled.start.prior[0, op, k] > MASKED]
        weighted = [k for k in range(3) if credits.weight[0, op, k] > 0]
        assert weighted == (offered if len(known) > 1 else [])
        for k in weighted[1:]:
            difference = credits.advantage[0, op, k] - credits.advantage[0, op, weighted[0]]
            told = [
                np.tanh(gain[op, chips[n] - batch.partitions[0, op] + 1] / SHARP)
                for n in (k, weighted[0])
            ]
            assert difference == pytest.approx(told[0] - told[1], abs=1e-5)


def test_a_share_of_the_samples_begins_at_the_best_so_far(model):
    """Catches a best partition that is forgotten, or followed before there is one, and a start that
    is no partition."""
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
    assert {"rl", "rl-balanced", "finetune", "sa-balanced", "class-search", "optimum"} <= set(
        PROBLEM.methods()
    )
    graph = random_graph(np.random.default_rng(1), "towers", 30)
    result = solve(PROBLEM, PROBLEM.task(graph, chips=3), "rl", profile="quick", samples=25, seed=1)
    noisy = np.unique(result.curve["y"])
    assert result.samples == 25 and result.metrics["silicon_throughput"] > 0
    assert result.metrics["silicon_throughput"] not in noisy, (
        "the curve holds measurements with noise"
    )
