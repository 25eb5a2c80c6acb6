"""Tests of searches that begin at a balanced partition."""

import itertools
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
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches.even_cut import (
    MOVED,
    PATIENCE,
    Start,
    balanced_start,
    log_weights,
)
from learned_mapping.mcm.searches.moves import POWER, pushed, pushes
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


def policy_of(rollouts):
    return make_policy(
        agent_config("quick", begun=True, credit="exact", rollouts=rollouts, minibatches=2)
    )


def test_the_policy_pushes_about_as_many_ops_as_it_says_and_every_partition_is_valid(model):
    """Catches a prior of another number of ops, one that does not weigh pushes by their size or
    halve row by row, a push that the rules forbid, and one of more than a chip."""
    arrays = repair_arrays(model.graph)
    policy, rng = policy_of(400), np.random.default_rng(2)
    env = PartitionEnv(model, arrays, Start(model, arrays))
    begun = policy.begin(env, rng)
    for row, y in enumerate(begun.partition[:20]):
        sizes = pushes(env.moves, y, model.latencies(y), np.arange(80), 80)[1]
        chances = np.exp(begun.prior[row, :80, ::2])
        for kind in (sizes == 1, sizes > 1):
            if kind.sum() > 20:  # else a half of the moves is the most
                assert (chances * sizes)[kind].sum() == pytest.approx(6.0 / 2 ** (row % 4))
        assert not chances[sizes == 0].any()
    sampled = policy.act(policy.new_parameters(rng), policy.context(env), begun, new_key(rng))
    moved = policy.choice(env, sampled) - begun.partition
    assert np.abs(moved).max() == 1
    counts = np.abs(moved).sum(axis=1).reshape(-1, 4).mean(axis=0)
    assert np.all(counts[:-1] > 1.1 * counts[1:]) and 6.0 < counts[0] < 12.0
    assert all(is_valid(y, model.graph.op_edges) for y in policy.choice(env, sampled))


def test_the_policy_is_told_what_each_push_gains(model):
    """Catches a gain of another op or side, and one that is not told."""
    arrays, rng = repair_arrays(model.graph), np.random.default_rng(4)
    env = PartitionEnv(model, arrays, Start(model, arrays))
    begun = policy_of(10).begin(env, rng)
    y = begun.partition[0]
    for op, side in itertools.product(range(80), (-1, 1)):
        after = pushed(env.moves, y, op, side, 6, 80)
        if begun.prior[0, op, side + 1] > MASKED:
            change = smooth(model, y) - smooth(model, after)
            told = begun.features[0, op, 5 + (side > 0)]
            assert told == pytest.approx(np.tanh(change / SHARP), abs=1e-4)


def smooth(model, y):
    """The p-norm of the latencies as `searches.moves` defines V, but for its sign and unit."""
    return np.log((model.latencies(y) ** POWER).sum()) / POWER


def test_credits_of_moves_are_the_gains_of_the_repaired_partition(model):
    """Catches gains read relative to y' where they count relative to y(0), and weights of chips
    that y(0) has not."""
    arrays = repair_arrays(model.graph)
    policy = policy_of(10)
    env, rng = PartitionEnv(model, arrays, Start(model, arrays)), np.random.default_rng(3)
    batch = rollouts(policy, policy.new_parameters(rng), policy.context(env), env, rng)
    credits = policy.credits(env, batch.sampled, batch.partitions, batch.latencies, np.zeros(10))
    assert credits.weight[:, env.num_ops :].sum() == 0.0
    np.testing.assert_allclose(credits.weight.sum(axis=(1, 2)).mean(), 1.0, rtol=1e-4)
    np.testing.assert_allclose((credits.weight * credits.advantage).sum(axis=-1), 0.0, atol=1e-6)
    y, start = batch.partitions[0], batch.sampled.start.partition[0]
    gain, sizes = pushes(env.moves, y, batch.latencies[0], np.arange(80), 80)
    gain, allowed = np.insert(gain, 1, 0.0, axis=1), np.insert(sizes > 0, 1, True, axis=1)
    for op in range(env.num_ops):
        chips = [start[op] + side for side in (-1, 0, 1)]
        known = [k for k, c in enumerate(chips) if abs(d := c - y[op]) <= 1 and allowed[op, d + 1]]
        offered = [k for k in known if batch.sampled.start.prior[0, op, k] > MASKED]
        weighted = [k for k in range(3) if credits.weight[0, op, k] > 0]
        assert weighted == (offered if len(known) > 1 else [])
        for k in weighted[1:]:
            difference = credits.advantage[0, op, k] - credits.advantage[0, op, weighted[0]]
            told = [np.tanh(gain[op, chips[n] - y[op] + 1] / SHARP) for n in (k, weighted[0])]
            assert difference == pytest.approx(told[0] - told[1], abs=1e-5)


def test_a_row_of_samples_goes_on_from_the_best_of_it_and_begins_anew_when_idle(model):
    """Catches a chain that forgets a better partition or takes a worse one, one that never ends,
    and a start that is no partition."""
    arrays, rng = repair_arrays(model.graph), np.random.default_rng(0)
    start, edges = Start(model, arrays, follow=0.0), model.graph.op_edges
    places = start.draw(rng, 4)
    assert all(is_valid(row, edges) for row in places.partitions) and not places.throughput.any()
    one, other = start.draw(rng, 4).partitions, start.draw(rng, 4).partitions
    places = start.after(places, rng, one, np.array([2.0, 2.0, 2.0, 2.0]))
    places = start.after(places, rng, other, np.array([1.0, 2.0, 3.0, 3.0]))
    np.testing.assert_array_equal(places.partitions, np.stack([one[0], *other[1:]]))
    assert places.throughput.tolist() == [2.0, 2.0, 3.0, 3.0]
    assert places.idle.tolist() == [1, 1, 0, 0]
    for _ in range(PATIENCE - 1):
        kept = places
        places = start.after(places, rng, places.partitions, np.array([1.0, 1.0, 1.0, 9.0]))
    fresh = (places.partitions != kept.partitions).any(axis=1)
    assert fresh.tolist() == [True, True, False, False]
    assert places.throughput.tolist() == [0.0, 0.0, 3.0, 9.0]
    assert all(is_valid(row, edges) for row in places.partitions)


def test_the_first_rows_follow_the_best_of_all_and_never_lose_it(model):
    """Catches a best partition that is forgotten when its row begins anew, or that no row goes on
    from."""
    arrays, rng = repair_arrays(model.graph), np.random.default_rng(0)
    start = Start(model, arrays, follow=0.5)
    places, found = start.draw(rng, 4), start.draw(rng, 4).partitions
    places = start.after(places, rng, found, np.array([1.0, 1.0, 1.0, 5.0]))
    for _ in range(PATIENCE + 1):
        assert (places.partitions[:2] == found[3]).all() and places.throughput[:2].tolist() == [
            5,
            5,
        ]
        places = start.after(places, rng, places.partitions, np.ones(4))
    assert not (places.partitions[3] == found[3]).all()


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
