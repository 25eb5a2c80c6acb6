"""What the examples learn, at a fraction of their own length."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("gymnasium")
import gymnasium

from learned_mapping.gym import instances
from learned_mapping.mmap.bench import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_q_learning_without_masks_learns_alexnet():
    """Chance returns .28; 14,000 moves return more than .40. Catches a learner that is shown
    another position than it plays in, or credit that goes to what it named and not to what was
    played."""
    dqn = example("dqn")
    program = load("alexnet_train_batch_32")
    env = gymnasium.make("learned_mapping/MMap-v0", instance=program, legal="nearest")
    assert dqn.play(env, dqn.train(env, 14_000)) > 0.40


@pytest.mark.slow
def test_a_graph_network_carries_over_to_graphs_it_never_saw():
    """Forty updates on twenty graphs; on ten others it is ahead of chance in the mean, by one game
    and by the best of sixteen. Catches an observation that does not tell what a chip would cost."""
    ppo = example("ppo")
    table = ppo.judge(ppo.train(instances("Chips"), 40), instances("Chips", "test"))
    chance, policy, best_by_chance, best_of_policy, climb = table.mean(axis=0)
    assert chance < policy and best_by_chance < best_of_policy
    assert (table <= 1 + 1e-9).all() and (table > 0).all() and climb > chance
