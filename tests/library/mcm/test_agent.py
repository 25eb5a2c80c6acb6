"""Tests of the learner: it learns where it should, repairs what it samples, and repeats itself."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learned_mapping_builders.training.pretrain import Pretraining, choose

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.learning.loop import Log, resume, train
from learned_mapping.mcm.agent import ppo
from learned_mapping.mcm.agent.checkpoints import load_policy, save_policy
from learned_mapping.mcm.agent.config import CANDIDATE, RANGES, SAMPLE, agent_config
from learned_mapping.mcm.agent.features import padded_size
from learned_mapping.mcm.agent.network import reading_of
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.methods import BALANCED
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches.even_cut import Start
from learned_mapping.programs.synthetic import random_graph

CONFIGS = {
    "FIX": agent_config("quick"),
    "T = 2, SAMPLE": agent_config("quick", iterations=2, mode=SAMPLE),
}


def environment(chips=5, size=40, family="towers", seed=0, model=ChipModel):
    graph = random_graph(np.random.default_rng(seed), family, size)
    return PartitionEnv(model(graph, ChipPackage(chips=chips)))


def rolled(policy, env, rng):
    """A batch of a fresh policy, and what is learned from it."""
    parameters, context = policy.new_parameters(rng), policy.context(env)
    batch = ppo.rollouts(policy, parameters, context, env, rng)
    gains = ppo.advantages(batch.throughput / env.unit)
    return (
        parameters,
        context,
        batch,
        policy.credits(env, batch.sampled, batch.partitions, batch.latencies, gains),
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_partitions_are_valid_and_actions_finite(name):
    """Catches an unrepaired sample, latencies of another partition, or a log-probability of a chip
    there is not."""
    policy, env = ppo.make_policy(CONFIGS[name]), environment()
    parameters, context, batch, credits = rolled(policy, env, np.random.default_rng(0))
    assert all(is_valid(row, env.graph.op_edges) and row.max() < 5 for row in batch.partitions)
    assert batch.throughput.tolist() == [env.model.throughput(row) for row in batch.partitions]
    np.testing.assert_array_equal(
        batch.latencies, [env.model.latencies(row) for row in batch.partitions]
    )
    logs, *_ = policy.log_probabilities(parameters, context, credits.state)
    chosen = np.take_along_axis(np.asarray(logs), credits.alternatives, axis=2)
    assert np.all(chosen[credits.weight > 0] > -50)


@pytest.mark.parametrize(("credit", "same"), [("sample", True), (CANDIDATE, False)])
def test_credit_goes_to_the_repaired_partition(credit, same):
    """Catches learning from y where y' was rewarded, and the other way round."""
    policy, env = ppo.make_policy(agent_config("quick", credit=credit)), environment()
    *_, batch, credits = rolled(policy, env, np.random.default_rng(1))
    assert np.array_equal(credits.alternatives[:, : env.num_ops, 0], batch.partitions) == same
    assert credits.alternatives.shape[2] == 1


def test_credited_log_probabilities_in_closed_form():
    """Catches a share or an index that credits another chip.

    A fresh policy is uniform, so each choice has -log C. With T = 2 the choices of each iteration
    count half, those of padded ops nothing. With a bias b on chip 0 of the last layer, exp(b) /
    (exp(b) + C - 1) are on chip 0.
    """
    chips, b = 36, 2.0
    policy, env = (
        ppo.make_policy(agent_config("quick", iterations=2, credit="sample")),
        environment(chips),
    )
    n = len(env.features.ops)
    parameters, context, batch, credits = rolled(policy, env, np.random.default_rng(0))

    def chosen():
        logs, *more = policy.log_probabilities(parameters, context, credits.state)
        return np.take_along_axis(np.asarray(logs), credits.alternatives, axis=2)[..., 0], *more

    logs, entropy, _ = chosen()
    np.testing.assert_allclose(logs, -np.log(chips), rtol=1e-5)
    np.testing.assert_allclose(
        credits.weight[0, :, 0], np.tile((np.arange(n) < 40) / 40 / 2, 2), rtol=1e-6
    )
    assert float(entropy) == pytest.approx(np.log(chips), rel=1e-5)
    parameters["policy_out"]["b"][0] = b
    logs = chosen()[0].reshape(20, 2, n)[:, 1, :40]
    total = np.log(np.exp(b) + chips - 1)
    np.testing.assert_allclose(logs, np.where(batch.partitions == 0, b, 0.0) - total, rtol=1e-5)


def test_clipped_gain_in_closed_form():
    """Catches a minimum that is a maximum, a clip on the wrong side, and an advantage of another
    sample."""
    ratio = np.array([[0.5, 0.9, 1.0, 1.1, 2.0]] * 2)
    actual = ppo.clipped_gain(
        jnp.log(ratio) - 3.0, jnp.full_like(ratio, -3.0), jnp.array([[2.0], [-1.0]]), 0.2
    )
    # A gain is capped where r > 1.2; a loss is never smaller than that at r = 0.8.
    np.testing.assert_allclose(
        actual, [[1.0, 1.8, 2.0, 2.2, 2.4], [-0.8, -0.9, -1.0, -1.1, -2.0]], rtol=1e-5
    )
    slope = jax.vmap(jax.grad(lambda log, a: ppo.clipped_gain(log, jnp.zeros(()), a, 0.2)))
    # No pull where the ratio has already gone past the clip in the direction of the advantage; r A
    # elsewhere.
    logs, signs = (
        jnp.log(jnp.array([1.5, 0.5, 1.5, 0.5, 1.1])),
        jnp.array([1.0, -1.0, -1.0, 1.0, 1.0]),
    )
    np.testing.assert_allclose(slope(logs, signs), [0.0, 0.0, -1.5, 0.5, 1.1], rtol=1e-5)


def test_padding_changes_nothing():
    """Catches embeddings that see padded ops or edges."""
    policy, env = ppo.make_policy(CONFIGS["FIX"]), environment()
    learned = ppo.new_learned(policy, np.random.default_rng(0))
    parameters = jax.tree_util.tree_map(
        lambda x: x + 0.01 * np.arange(x.shape[-1]), learned.parameters
    )
    context, small = policy.context(env), env.features
    n, extra = len(small.ops), 32
    ends = [
        np.concatenate([np.where(x == n - 1, n + extra - 1, x), np.full(9, n + extra - 1)])
        for x in small[1:3]
    ]
    large = small._replace(
        ops=np.pad(small.ops, ((0, extra), (0, 0))), mask=np.pad(small.mask, (0, extra)),
        producers=ends[0].astype(np.int32), consumers=ends[1].astype(np.int32),
    )  # fmt: skip
    collected = []
    for graph in (small, large):
        previous = np.zeros((1, 1, len(graph.ops)), np.int32)
        logs, _, value = policy.log_probabilities(
            parameters, context._replace(graph=graph), previous
        )
        collected.append((logs[:, :40], value))
    assert np.ptp(collected[0][0]) > 0.01
    for a, b in zip(*collected):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_features_are_finite_and_padded():
    """Catches infinite logarithms of ops without work, and a padding without room for padded
    edges."""
    features = environment().features
    assert np.isfinite(features.ops).all() and np.abs(features.ops).max() < 10
    assert features.mask.sum() == 40 and len(features.ops) == 64 and features.mask[-1] == 0
    assert [padded_size(n) for n in (1, 63, 64, 511, 512, 767, 768, 1023, 1024, 2051)] == [
        64, 64, 128, 512, 768, 768, 1024, 1024, 1536, 3072,
    ]  # fmt: skip


def test_36_chips_read_the_positions_one_to_one():
    """Catches an interpolation that blurs the paper's own number of chips, or loses probability on
    another."""
    assert np.array_equal(reading_of(36)[0], np.eye(36))
    for chips in (1, 2, 16, 50):
        reading, allowed = reading_of(chips)
        assert allowed.sum() == chips
        np.testing.assert_allclose(reading.sum(0), allowed, atol=1e-6)


def test_advantages_are_relative():
    """Catches a scale of the rewards that leaks into learning, and noise made of equal rewards."""
    a = ppo.advantages(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(a, [-np.sqrt(1.5), 0.0, np.sqrt(1.5)], rtol=1e-6)
    np.testing.assert_allclose(a, ppo.advantages(np.array([10.0, 20.0, 30.0])), rtol=1e-5)
    assert not ppo.advantages(np.full(4, 0.3)).any()
    # mean 1/50, deviation 7/50: the best is 7 deviations away and cut off
    one = ppo.advantages(np.eye(50)[0])
    np.testing.assert_allclose(one, np.where(np.arange(50) == 0, ppo.LIMIT, -1 / 7), rtol=1e-6)


class Rewarding(ChipModel):
    """A judge that pays for ops on the first chip: nothing but learning finds that."""

    def judged(self, assignment):
        return 0.1 + float(np.mean(assignment == 0)), self.latencies(assignment)


def test_chip_policy_learns():
    """Catches a gradient of the wrong sign or no gradient: the mean reward grows on a task with a
    plain answer.

    Twelve batches: once all samples are equal nothing but the entropy pulls, and the policy falls
      apart again.
    """
    env, judged = environment(model=Rewarding), []
    rollout = env.rollout
    env.rollout = lambda *given: judged.append(rollout(*given)) or judged[-1]
    policy = ppo.make_policy(agent_config("quick", credit="sample"))
    rng = np.random.default_rng(0)
    ppo.run(policy, ppo.new_learned(policy, rng), env, rng, Budget(samples=240), learning=True)
    assert judged[-2][1].mean() > 1.3 * judged[0][1].mean()


def test_a_credit_for_each_op_learns():
    """Catches a flow of the wrong sign: the mean throughput of a batch rises."""
    policy, env = (
        ppo.make_policy(agent_config("quick", credit="flow")),
        environment(16, 120, "attention"),
    )
    rng, means = np.random.default_rng(0), []
    learned, context = ppo.new_learned(policy, rng), policy.context(env)
    for _ in range(20):
        batch = ppo.rollouts(policy, learned.parameters, context, env, rng)
        learned, _ = ppo.learn(policy, learned, context, env, batch, rng)
        means.append(batch.throughput.mean())
    assert means[-1] > 1.4 * means[0]


BEGUN = agent_config("quick", **{**BALANCED, "rollouts": 20})


@pytest.mark.parametrize("config", [CONFIGS["FIX"], BEGUN], ids=["chips", "moves"])
def test_training_resumes_to_the_same_numbers(tmp_path, config):
    """Catches state that is not saved, and rows of samples that do not go on: a run stopped after
    two iterations ends as one that was not."""

    def made(seed):
        env = environment(seed=seed, size=30)
        env.start = Start(env.model, env.arrays) if config.begun else None
        return env

    makers = [partial(made, seed) for seed in range(3)]

    def agent():
        return Pretraining(config, makers, samples=100, snapshots=2, seed=5)

    whole = agent()
    train(whole, lambda: False, log=Log(None))
    part = agent()
    train(
        part,
        lambda: part.iterations >= 2,
        log=Log(None),
        checkpoint=tmp_path / "state.npz",
        every=1,
    )
    again = agent()
    assert resume(again, tmp_path / "state.npz") and again.iterations == 2
    train(again, lambda: False, log=Log(None))
    assert sorted(again.snapshots) == sorted(whole.snapshots) == [0, 2, 5]
    for a, b in zip(
        jax.tree_util.tree_leaves(again.learned), jax.tree_util.tree_leaves(whole.learned)
    ):
        np.testing.assert_array_equal(a, b)
    best, rows = choose(config, whole.snapshots, [made(9)], finalists=1)
    assert best in (2, 5) and [row["iteration"] for row in rows if "finetune" in row] in (
        [0, 2],
        [0, 5],
    )


def test_checkpoint_round_trip(tmp_path):
    """Catches lost parameters, and a file of another agent that is accepted."""
    config, path = CONFIGS["FIX"], tmp_path / "chips.npz"
    parameters = ppo.new_learned(ppo.make_policy(config), np.random.default_rng(0)).parameters
    save_policy(path, config, parameters, {"samples": 1})
    actual, again = load_policy(path)
    assert actual == config
    for a, b in zip(jax.tree_util.tree_leaves(parameters), jax.tree_util.tree_leaves(again)):
        np.testing.assert_array_equal(a, b)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError):
        load_policy(path)


def test_unknown_choices_are_refused():
    """Catches a misspelt option that silently does nothing, and a number that no training can
    have."""
    begun = {"begun": True, "credit": "exact"}
    numbers = [{name: bad} for name in RANGES for bad in (-1, math.nan, "2")]
    for bad in (
        {"mode": "both"},
        {"credit": "none"},
        {"rollouts": 21},
        {"mode": "sample"} | begun,
        *numbers,
    ):
        with pytest.raises(InputError, match=next(iter(bad))):
            agent_config("full", **bad)
