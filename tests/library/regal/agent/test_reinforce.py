import dataclasses
import signal
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cuts import Killed, assert_same_state
from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices
from learned_mapping.learning.checkpoint import read_checkpoint, write_checkpoint
from learned_mapping.learning.loop import Log, resume, train
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.agent import reinforce
from learned_mapping.regal.agent.features import EDGE_FEATURES, NODE_FEATURES, PRINTED, features
from learned_mapping.regal.agent.network import make_batch
from learned_mapping.regal.agent.policy import (
    BINS,
    Policy,
    random_parameters,
    read_policy,
    sample,
    write_policy,
)
from learned_mapping.regal.rules.instance import Instance

STAGES = (reinforce.Stage(0.6, 180, 8, 3, 30), reinforce.Stage(0.4, 260, 4, 2, 40))


@pytest.fixture(scope="module", autouse=True)
def compiled_in_a_hurry():
    """Steps of a few milliseconds need no optimisation, which takes most of the compiler's time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def instances():
    rng = np.random.default_rng(0)
    return [Instance(random_graph(rng, "layered", ops)) for ops in (12, 16, 20)]


def config(**options):
    return reinforce.ReinforceConfig(STAGES, 100.0, batch_graphs=3, batch_ops=64, **options)


def test_leave_one_out_by_hand():
    """Every reward less the mean of the others; a constant of the graph changes nothing."""
    rewards = np.array([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])
    np.testing.assert_allclose(
        reinforce.leave_one_out(rewards), [[-3.0, -1.5, 4.5], [-1.5, -1.5, 3.0]]
    )
    np.testing.assert_allclose(
        reinforce.leave_one_out(rewards + [[5.0], [-2.0]]), reinforce.leave_one_out(rewards)
    )


def test_gradient_is_reinforces(instances):
    """The loss has the gradient of the mean over laws of advantage times the log-probability of all
    their bins, by hand in the logits: advantage times (taken - probability), law by law; padding
    has none."""
    rng = np.random.default_rng(1)
    batch = make_batch([features(i) for i in instances[:2]], sequence=1)
    raw = rng.standard_normal((batch.graphs.nodes.shape[0], 3, 2, len(BINS)))
    p = np.asarray(jax.nn.softmax(raw))
    choices = [sample(p[:12], 5, rng), sample(p[12:28], 5, rng)]
    advantages = rng.standard_normal((2, 5))
    weights = reinforce.score_weights(choices, advantages, len(p), len(BINS))
    actual = jax.grad(lambda z: reinforce.policy_loss(z, batch, weights, 0.0)[0])(
        jnp.asarray(raw, jnp.float32)
    )
    wanted = np.zeros_like(raw)
    for first, n, bins, advantage in zip((0, 12), (12, 16), choices, advantages):
        for chosen, a in zip(bins, advantage):
            score = np.eye(len(BINS))[chosen] - p[first : first + n]
            wanted[first : first + n] -= a * score / (2 * 5 * np.sqrt(n) * 10)
    np.testing.assert_allclose(actual, wanted, atol=1e-7)


def test_samples_follow_the_probabilities():
    """Shares of bins over 20,000 draws, within five standard errors, for two heads that differ."""
    p = np.array([[0.1, 0.2, 0.3, 0.4, 0.0], [0.6, 0.1, 0.1, 0.1, 0.1]]).reshape(1, 1, 2, 5)
    drawn = sample(p, 20_000, np.random.default_rng(0))
    shares = np.stack([(drawn[:, 0, 0] == b).mean(axis=0) for b in range(5)], axis=1)
    np.testing.assert_allclose(shares, p[0, 0], atol=5 * np.sqrt(0.25 / 20_000))


def test_stages_and_rates():
    c = config()
    assert [reinforce.stage_at(c, s) for s in (0.0, 59.9, 60.0, 99.0, 500.0)] == [0, 0, 1, 1, 1]
    assert reinforce.rate_at(c, 10.0) == c.rate and reinforce.rate_at(c, 60.0) == pytest.approx(
        c.later_rate
    )
    assert reinforce.rate_at(c, 100.0) == pytest.approx(c.last_rate)


@pytest.mark.parametrize("model", ["gnn", pytest.param("gas", marks=pytest.mark.slow)])
def test_a_training_goes_on_to_the_same_bits(instances, tmp_path, model):
    """Four steps in one go, and two, a file, two more in a fresh agent, across a change of stage;
    catches anything the future depends on that is not stored. Another configuration or other graphs
    are refused."""
    straight, first = (reinforce.ReinforceAgent(instances, config(model=model)) for _ in range(2))
    for agent, steps in ((straight, 4), (first, 2)):
        for step in range(steps):
            agent.spent = max(agent.spent, 70.0 if step > 2 else 0.0)
            agent.iterate(lambda: False)
    path = tmp_path / "state.npz"
    write_checkpoint(path, *first.state())
    second = reinforce.ReinforceAgent(instances, config(model=model))
    second.restore(*read_checkpoint(path), path)
    second.iterate(lambda: False)
    second.spent = max(second.spent, 70.0)
    row = second.iterate(lambda: False)
    assert row["stage"] == 1 and row["iteration"] == 4 and second.rollouts == straight.rollouts
    for one, other in zip(jax.tree.leaves(second._tree()), jax.tree.leaves(straight._tree())):
        np.testing.assert_array_equal(one, other)
    for other in (
        reinforce.ReinforceAgent(instances, config(seed=1, model=model)),
        reinforce.ReinforceAgent(instances[:2], config(model=model)),
    ):
        with pytest.raises(InputError):
            other.restore(*read_checkpoint(path), path)


@pytest.mark.parametrize("model", ["gnn", pytest.param("gas", marks=pytest.mark.slow)])
def test_a_run_cut_in_two_is_the_whole_run(instances, tmp_path, model):
    """Five steps, ended after any of them by the clock, within any by Ctrl-C or a kill, and gone on
    with."""

    class Ended(reinforce.ReinforceAgent):
        end, step = "", 0

        def choose(self, order):
            if self.end and self.iterations == self.step:
                if self.end == "kill":
                    raise Killed
                signal.raise_signal(signal.SIGINT)
            return super().choose(order)

    def run(path, end="", step=5):
        agent = Ended(instances, config(model=model))
        resume(agent, path)
        agent.end, agent.step = end, step
        with suppress(KeyboardInterrupt, Killed):
            train(
                agent,
                lambda: agent.iterations >= (5 if end else step),
                log=Log(None),
                checkpoint=path,
                every=1,
            )

    run(tmp_path / "whole.npz")
    for end in ("", "interrupt", "kill"):
        for step in (1, 2, 4):
            path = tmp_path / f"{end}{step}.npz"
            run(path, end, step)
            run(path)
            assert_same_state(path, tmp_path / "whole.npz")


def test_it_learns_what_pays(instances, monkeypatch):
    """With a reward for even ops on device 0 and odd ones on device 1 instead of a search, the mean
    reward of drawn laws rises from the middle to near the top: catches a gradient of the wrong sign
    or of the wrong ops' heads."""

    def searched(arrays, choices, bins, rng, evaluations):
        better = np.asarray(bins)[choices[:, :, 0, 0]] > 1
        level = np.arange(choices.shape[1]) < choices.shape[1] // 2
        return 2.0 - (better == level).mean(axis=1)

    monkeypatch.setattr("learned_mapping.regal.agent.reinforce.rollouts", searched)
    monkeypatch.setattr("learned_mapping.regal.agent.reinforce.uniform_cost", lambda *given: 1.0)
    for options in ({}, {"baseline": "network"}, {"model": "gas"}):
        agent = reinforce.ReinforceAgent(instances, config(**options))
        rewards = [agent.iterate(lambda: False)["reward"] for _ in range(40)]
        assert np.mean(rewards[-5:]) > np.mean(rewards[:5]) + 0.1


def test_the_papers_attributes_alone_stay_alone(instances):
    """Would catch a weight for another attribute that moves, or that the policy reads when it is
    used."""
    agent = reinforce.ReinforceAgent(instances, config(attributes="printed"))
    for _ in range(3):
        agent.iterate(lambda: False)
    for module, names in (
        ("node_encoder/mlp_0", NODE_FEATURES),
        ("edge_encoder/mlp_0", EDGE_FEATURES),
    ):
        moved = np.abs(np.asarray(agent.parameters[module]["w"])).sum(axis=1) > 0
        assert np.array_equal(moved, np.isin(names[:-1], PRINTED))
    batch = agent.batch([0])
    policy = Policy(jax.tree.map(np.asarray, agent.parameters), "runtime", "x", 0)
    seen = reinforce.probabilities(agent.parameters, batch)[: agent.sizes[0]]
    np.testing.assert_allclose(policy.probabilities(instances[0]), seen, atol=1e-4)


def test_a_network_for_links_sees_them(instances, tmp_path):
    """Its attributes say what a transfer takes, also when it is stored and used; a network that
    knows no links reads as it did, whatever they take."""
    slow = [
        dataclasses.replace(i, machine=Devices(link_bytes_per_s=1e6, link_latency_s=1e-3))
        for i in instances
    ]
    knows = reinforce.ReinforceAgent(slow, config(attributes="links"))
    knows.iterate(lambda: False)
    plain = reinforce.ReinforceAgent(instances, config())
    for agent, sees in ((knows, True), (plain, False)):
        parameters = jax.tree.map(np.asarray, agent.parameters)
        path = tmp_path / f"{sees}.npz"
        write_policy(path, Policy(parameters, "runtime", "x", 0), {"updates": 1})
        policy, _ = read_policy(path)
        free, costly = (policy.probabilities(i[0]) for i in (instances, slow))
        assert np.array_equal(free, costly) == (not sees)
        seen = reinforce.probabilities(agent.parameters, agent.batch([0]))[: agent.sizes[0]]
        np.testing.assert_allclose(costly if sees else free, seen, atol=1e-4)


def test_policies_are_stored(instances, tmp_path):
    """What is read is what was written, its NumPy forward pass is the trained network's, and a
    damaged file is refused in one line."""
    batch = make_batch([features(instances[0])], nodes=64, edges=128, graphs=4, sequence=1)
    parameters = jax.tree.map(np.asarray, random_parameters(batch, np.random.default_rng(2))[0])
    path = tmp_path / "reinforce-x.npz"
    write_policy(path, Policy(parameters, "runtime", "x", 2), {"updates": 5})
    actual, header = read_policy(path)
    assert header["updates"] == 5 and (actual.objective, actual.seed) == ("runtime", 2)
    own = actual.probabilities(instances[0])
    np.testing.assert_allclose(own, reinforce.probabilities(parameters, batch)[:12], atol=1e-4)
    law = actual.law(instances[0], np.random.default_rng(0))
    assert not law.in_initial and set(law.alpha) <= set(BINS) and len(law.alpha) == 36
    arrays, header = read_checkpoint(path)
    arrays["head_0_a/mlp_out:w"] = arrays["head_0_a/mlp_out:w"][:, :4].copy()
    write_checkpoint(path, arrays, header)
    with pytest.raises(InputError, match="do not fit each other"):
        read_policy(path)
