"""What is said of a trained network, against games played out one by one."""

import dataclasses

import numpy as np
import pytest

from learned_mapping.learning.loop import Log, train
from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
from learned_mapping.mmap.agent.games import Guide
from learned_mapping.mmap.rules.actions import NUM_ACTIONS
from learned_mapping_companion.mmap import insight
from mmap_games import SMALL, hard_program


@pytest.fixture(scope="module")
def agent() -> MMapAgent:
    program = hard_program(3, 40)
    result = MMapAgent(program, dataclasses.replace(SMALL, iterations=30), 0)
    result.start(AgentBudget(samples=10_000))
    train(result, result.budget.spent, log=Log(None))
    return result


@pytest.fixture(scope="module")
def along(agent) -> insight.Along:
    return insight.along_best(agent)


def test_exact_outcomes_are_those_of_the_game_with_one_action_changed(agent, along):
    """Would catch a deviation at another buffer, units taken for shares, and the best game's own
    action listed."""
    actual = insight.outcomes(agent, along)
    other = Guide(agent.program)
    assert len(actual) > 20 and len({(item["buffer"], item["action"]) for item in actual}) == len(
        actual
    )
    for item in actual:
        actions = along.guide.actions.copy()
        assert actions[item["buffer"]] != item["action"]
        actions[item["buffer"]] = item["action"]
        value, _ = other.value_of(actions)
        assert item["exact"] == pytest.approx(
            agent.play.unit * (value - along.guide.saved[-1]), abs=1e-6
        )
    told = insight.compared(actual)
    assert told["alternatives"] == len(actual)
    assert sum(told[f"share_{name}"] for name in ("gain", "same", "cost")) == pytest.approx(1.0)
    perfect = insight.compared(
        [{**item, "q": item["exact"], "logit": -item["exact"]} for item in actual]
    )
    assert perfect["rank_correlation"] == pytest.approx(1.0) == -perfect["logit_rank_correlation"]
    assert perfect["scatter"] == pytest.approx(0.0, abs=1e-9)


def test_imagined_rewards_stand_beside_those_of_the_game(agent, along):
    steps = insight.unroll(agent, along, 3)
    reward = along.game.fields["reward"]
    for k, item in enumerate(steps):
        true = np.array(item["pairs"])[:, 0]
        assert true == pytest.approx(reward[along.rows[: len(true)] + k], abs=1e-4)
        assert len(true) == len(along.rows) - k and item["step"] == k + 1
        assert item["error"] == pytest.approx(
            np.abs(np.diff(np.array(item["pairs"]), axis=1)).mean(), abs=1e-4
        )
    assert steps[0]["error"] < steps[0]["size"]  # It has learned something.


def test_the_tree_is_that_of_one_search(agent, along):
    tree = insight.searched(agent, along)
    nodes = tree["nodes"]
    assert nodes[0]["visits"] == SMALL.simulations + 1 == len(nodes)
    for n, node in enumerate(nodes):
        below = [other for other in nodes if other["parent"] == n]
        assert node["visits"] == 1 + sum(other["visits"] for other in below)
        assert (node["parent"] < n) and (n == 0 or 0.0 < node["prior"] <= 1.0)
    for action in range(NUM_ACTIONS):
        assert (tree["exact"][action] is not None) == tree["legal"][action]
    assert tree["exact"][tree["made"]] == 0.0 and sum(tree["policy"]) == pytest.approx(1.0)


@pytest.mark.slow
def test_whole_games_with_the_search_and_without(agent):
    actual, actions = insight.played(agent, 6, 0.25)
    assert {name: len(values) for name, values in actual.items()} == {
        "search": 6,
        "more": 6,
        "head": 6,
    }
    assert (
        len({tuple(values) for values in actual.values()}) == 3
        and max(map(max, actual.values())) <= 1.0
    )
    assert actual == insight.played(agent, 6, 0.25)[0]
    assert insight.along(agent, actions).guide.saved[-1] == pytest.approx(actual["head"][0])
