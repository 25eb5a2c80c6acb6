"""What the best game does, learned in positions of the agent's own games."""

import dataclasses

import numpy as np

from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
from learned_mapping.mmap.agent.following import CONFIDENCE, SHARE, labels
from mmap_games import SMALL, hard_program

FOLLOWING = dataclasses.replace(SMALL, windows=12, cold_games=2, moves=6, imitation=0.1)


def test_labels_are_the_nearest_legal_actions() -> None:
    """Would catch an action that is not legal, and one of another buffer. 0 copies, 1 places
    without, 2 drops."""
    actions = np.array([0, 1, 2])
    ids = np.array([[2, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]])
    legal = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1], [1, 1, 0]], bool)
    rest = 1.0 - CONFIDENCE
    expected = [
        [rest / 2, rest / 2, CONFIDENCE],
        [0, CONFIDENCE, rest],
        [0, 0, CONFIDENCE],
        [rest, CONFIDENCE, 0],
    ]
    np.testing.assert_allclose(labels(actions, ids, legal), expected, atol=1e-7)


def test_it_learns_in_its_own_games_what_the_best_one_does() -> None:
    """Would catch positions of windows of the best game, labels of an earlier best game, and a
    batch without them."""
    agent = MMapAgent(hard_program(3, 60), FOLLOWING, 0)
    agent.start(AgentBudget(samples=10**9))
    agent.iterate(lambda: False)
    whole_games = (FOLLOWING.games - FOLLOWING.windows) * FOLLOWING.moves
    # before there is a cold game that windows begin at
    assert agent.followed.size == whole_games < agent.replay.size
    for _ in range(40):
        agent.iterate(lambda: False)
    assert agent.play.own_guide is not None
    agent.followed.renew(agent.play.best.actions)
    fields = {name: store[: agent.followed.size] for name, store in agent.followed.fields.items()}
    expected = labels(agent.play.best.actions, fields["ids"], fields["legal"])
    np.testing.assert_allclose(fields["policy"], expected)
    batch = agent._batch(FOLLOWING.imitation)
    assert len(batch.action) == FOLLOWING.batch
    copied = round(FOLLOWING.batch * FOLLOWING.imitation)
    followed = batch.policy[copied : copied + round(FOLLOWING.batch * SHARE), 0]
    np.testing.assert_allclose(followed.max(axis=1), CONFIDENCE, atol=1e-6)
    assert len(agent._batch(1.0).action) == FOLLOWING.batch


def test_it_is_part_of_the_agent_in_windows_alone() -> None:
    program = hard_program(3, 20)
    assert MMapAgent(program, FOLLOWING, 0).followed is not None
    assert MMapAgent(program, SMALL, 0).followed is None
