"""Tests of the learner: it learns where it should, repairs what it samples, and repeats itself."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.hardware.op_classes import OP_CLASSES, op_classes
from learned_mapping.learning.loop import Log, resume, train
from learned_mapping.mcm.agent.baselines import cross_entropy, random_weights
from learned_mapping.mcm.agent.checkpoints import load_policy, save_policy
from learned_mapping.mcm.agent.chips import reading_of
from learned_mapping.mcm.agent.config import CANDIDATE, PROPORTIONAL, SAMPLE, agent_config
from learned_mapping.mcm.agent.features import graph_features, padded_size
from learned_mapping.mcm.agent.ppo import advantages, make_policy, new_learned
from learned_mapping.mcm.agent.pretrain import Pretraining, choose
from learned_mapping.mcm.agent.problem import Problem
from learned_mapping.mcm.agent.search import rollouts, run
from learned_mapping.mcm.agent.weights import CLASS_LATENTS, NUM_LATENTS, realise
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import random_graph

CONFIGS = {
    "chips": agent_config("chips", "quick"),
    "chips, T = 2, SAMPLE": agent_config("chips", "quick", iterations=2, mode=SAMPLE),
    "weights": agent_config("weights", "quick"),
    "weights, proportional": agent_config("weights", "quick", cut=PROPORTIONAL),
}


def problem(chips=5, size=40, family="towers", seed=0, judge=None):
    graph = random_graph(np.random.default_rng(seed), family, size)
    return Problem(ChipModel(graph, ChipPackage(chips=chips)), judge)


@pytest.mark.parametrize("name", CONFIGS)
def test_partitions_are_valid_and_actions_finite(name):
    """Catches an unrepaired sample, or a log-probability of a chip there is not."""
    policy, here, rng = make_policy(CONFIGS[name]), problem(), np.random.default_rng(0)
    context = policy.context(here)
    learned = new_learned(policy, rng)
    found, actions = rollouts(policy, learned.parameters, context, here, rng)
    assert all(is_valid(row, here.model.graph.op_edges) and row.max() < 5 for row in found)
    logs, shares, *_ = policy.log_probabilities(learned.parameters, context, actions)
    assert float(shares.sum()) == pytest.approx(1.0, rel=1e-5)
    assert np.all(np.asarray(logs)[:, np.asarray(shares) > 0] > -50)


def test_credit_goes_to_the_repaired_partition():
    """Catches learning from y where y' was rewarded, and the other way round."""
    for credit, same in (("repaired", True), (CANDIDATE, False)):
        policy = make_policy(agent_config("chips", "quick", credit=credit))
        here, rng = problem(), np.random.default_rng(1)
        learned = new_learned(policy, rng)
        found, actions = rollouts(policy, learned.parameters, policy.context(here), here, rng)
        assert np.array_equal(np.asarray(actions.chosen)[:, -1, : here.num_ops], found) == same


def test_padding_changes_nothing():
    """Catches embeddings that see padded ops or edges."""
    policy, here = make_policy(CONFIGS["weights"]), problem()
    learned = new_learned(policy, np.random.default_rng(0))
    parameters = jax.tree_util.tree_map(lambda x: x + 0.01, learned.parameters)
    small = here.features
    n, extra = len(small.ops), 32
    ends = [np.concatenate([np.where(x == n - 1, n + extra - 1, x), np.full(9, n + extra - 1)]) for x in small[1:3]]
    large = small._replace(
        ops=np.pad(small.ops, ((0, extra), (0, 0))), mask=np.pad(small.mask, (0, extra)),
        producers=ends[0].astype(np.int32), consumers=ends[1].astype(np.int32),
    )  # fmt: skip
    a, b = (policy.act(parameters, graph, jax.random.PRNGKey(0), count=1) for graph in (small, large))
    np.testing.assert_allclose(a.latent, b.latent, atol=1e-5)
    np.testing.assert_allclose(a.ops[:, : here.num_ops], b.ops[:, : here.num_ops], atol=1e-5)


def test_features_are_finite_and_padded():
    """Catches infinite logarithms of ops without work, and a padding without room for padded edges."""
    features = graph_features(problem().model)
    assert np.isfinite(features.ops).all() and np.abs(features.ops).max() < 10
    assert features.mask.sum() == 40 and len(features.ops) == 64 and features.mask[-1] == 0
    assert [padded_size(n) for n in (1, 63, 64, 511, 512, 767, 768, 1023, 1024, 2051)] == [
        64, 64, 128, 512, 768, 768, 1024, 1024, 1536, 3072,
    ]  # fmt: skip


def test_36_chips_read_the_positions_one_to_one():
    """Catches an interpolation that blurs the paper's own number of chips, or loses probability on another."""
    assert np.array_equal(reading_of(36)[0], np.eye(36))
    for chips in (1, 2, 16, 50):
        reading, allowed = reading_of(chips)
        assert allowed.sum() == chips
        np.testing.assert_allclose(reading.sum(0), allowed, atol=1e-6)


def test_advantages_are_relative():
    """Catches a scale of the rewards that leaks into learning, and noise made of equal rewards."""
    a = advantages(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(a, advantages(np.array([10.0, 20.0, 30.0])), rtol=1e-5)
    assert a[1] == 0 and not advantages(np.full(4, 0.3)).any()


class Rewarding:
    """A judge that pays for ops on the first chip: nothing but learning finds that."""

    def throughput(self, assignment):
        return 0.1 + float(np.mean(assignment == 0))


def test_chip_policy_learns():
    """Catches a gradient of the wrong sign or no gradient: the mean reward grows on a task with a plain answer."""
    here, rewards = problem(judge=Rewarding()), []
    policy = make_policy(CONFIGS["chips"])
    rng = np.random.default_rng(0)
    run(policy, new_learned(policy, rng), here, rng, Budget(samples=400), learning=True, report=rewards.append)
    assert rewards[-1]["mean_reward"] > 1.3 * rewards[0]["mean_reward"]


class Skewed:
    """A package whose products are far slower than the analytical model says."""

    def __init__(self, model, slow):
        self.model, self.seconds = model, model.op_seconds * np.where(slow, 6.0, 1.0)

    def throughput(self, assignment):
        load = np.bincount(assignment, weights=self.seconds, minlength=self.model.package.chips)
        return 1.0 / float((load + self.model.link_seconds(assignment)).max())


def test_zero_corrections_keep_the_model_and_true_ones_help():
    """Catches latents that are wired to the wrong class: the judge's own factor, given by hand, must help."""
    n = 8
    graph = make_graph(
        name="chain", op_names=[str(i) for i in range(n)], op_kinds=["dot_general"] * 4 + ["add"] * 4, op_flop=[0] * n,
        op_seconds=[1.0] * n, tensor_names=[f"t{i}" for i in range(n)], tensor_producer=range(n), tensor_bytes=[0] * n,
        edge_tensor=range(n - 1), edge_consumer=range(1, n),
    )  # fmt: skip
    model = ChipModel(graph, ChipPackage(chips=2))
    here = Problem(model, Skewed(model, op_classes(graph) == OP_CLASSES.index("attention")))
    plain, corrected = np.zeros(NUM_LATENTS), np.zeros(NUM_LATENTS)
    # Products without weights are of class attention; the factor is exp(0.3 * 4) = 3.3.
    corrected[CLASS_LATENTS.start + OP_CLASSES.index("attention")] = 4.0
    zeros = np.zeros(n)
    assert realise(here, plain, zeros).tolist() == [0] * 4 + [1] * 4
    assert realise(here, corrected, zeros).tolist() == [0] * 3 + [1] * 5
    assert here.judge.throughput(realise(here, corrected, zeros)) == pytest.approx(1 / 18)


def test_searches_in_weights_begin_alike():
    """Catches a head start: learner, random and cross-entropy search judge the same first partition."""
    firsts = []
    config = CONFIGS["weights"]
    policy = make_policy(config)
    for search in (random_weights, cross_entropy):
        here, budget = problem(), Budget(samples=1)
        firsts.append(search(config, here, np.random.default_rng(3), budget))
    rng = np.random.default_rng(4)
    found, _ = run(policy, new_learned(policy, rng), problem(), rng, Budget(samples=1), learning=True)
    assert all(np.array_equal(found, first) for first in firsts)


def test_training_resumes_to_the_same_numbers(tmp_path):
    """Catches state that is not saved: a run stopped after two iterations ends as one that was not."""
    config = CONFIGS["weights"]
    makers = [lambda seed=seed: problem(seed=seed, size=30) for seed in range(3)]

    def agent():
        return Pretraining(config, makers, samples=100, snapshots=2, seed=5)

    whole = agent()
    train(whole, lambda: False, log=Log(None))
    part = agent()
    train(part, lambda: part.iterations >= 2, log=Log(None), checkpoint=tmp_path / "state.npz", every=1)
    again = agent()
    assert resume(again, tmp_path / "state.npz") and again.iterations == 2
    train(again, lambda: False, log=Log(None))
    assert sorted(again.snapshots) == sorted(whole.snapshots) == [2, 5]
    for a, b in zip(jax.tree_util.tree_leaves(again.learned), jax.tree_util.tree_leaves(whole.learned)):
        np.testing.assert_array_equal(a, b)
    best, rows = choose(config, whole.snapshots, [problem(seed=9, size=30)], finalists=1)
    assert best in whole.snapshots and sum("finetune" in row for row in rows) == 1


def test_checkpoint_round_trip(tmp_path):
    """Catches lost parameters, and a file of another agent that is accepted."""
    config, path = CONFIGS["chips"], tmp_path / "chips.npz"
    parameters = new_learned(make_policy(config), np.random.default_rng(0)).parameters
    save_policy(path, config, parameters, {"samples": 1})
    found, again = load_policy(path)
    assert found == config
    for a, b in zip(jax.tree_util.tree_leaves(parameters), jax.tree_util.tree_leaves(again)):
        np.testing.assert_array_equal(a, b)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError):
        load_policy(path)


def test_unknown_choices_are_refused():
    """Catches a misspelt option that silently does nothing."""
    for bad in ({"mode": "both"}, {"credit": "none"}, {"cut": "deep"}, {"rollouts": 21}):
        with pytest.raises(InputError, match=next(iter(bad))):
            agent_config("chips", "full", **bad)
