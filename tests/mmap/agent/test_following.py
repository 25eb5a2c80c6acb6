"""What the best game does, learned in the agent's own games; windows that end once memory is as in the guide."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from learned_mapping.companion.datasets import compiled
from learned_mapping.errors import InputError
from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
from learned_mapping.mmap.agent.config import AgentConfig, config_for
from learned_mapping.mmap.agent.following import CONFIDENCE, STRETCHES, labels, losses, weak_starts
from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.agent.solve import solve
from learned_mapping.mmap.rules.play import Game
from mmap_games import hard_program

SMALL = AgentConfig(
    games=16, windows=12, own_windows=4, cold_games=2, moves=6, simulations=4, width=32, latent=16, id_width=4,
    batch=64, updates=4, unroll=2, imitation=0.1, follow=0.3, replay=4000, evaluate_every=0, evaluation_games=2,
)  # fmt: skip


def test_labels_are_the_nearest_legal_actions():
    """Would catch an action that is not legal, and one of another buffer. 0 copies, 1 places without, 2 drops."""
    actions = np.array([0, 1, 2])
    ids = np.array([[2, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]])
    legal = np.array([[True, True, True], [False, True, True], [False, False, True], [True, True, False]])
    rest = 1.0 - CONFIDENCE
    expected = [[rest / 2, rest / 2, CONFIDENCE], [0, CONFIDENCE, rest], [0, 0, CONFIDENCE], [rest, CONFIDENCE, 0]]
    np.testing.assert_allclose(labels(actions, ids, legal), expected, atol=1e-7)


def test_it_learns_in_its_own_games_what_the_best_one_does():
    """Would catch positions of windows of the best game, labels of an earlier best game, and a batch without them."""
    program = hard_program(3, 60)
    agent = MMapAgent(program, SMALL, 0)
    agent.start(AgentBudget(samples=10**9))
    agent.iterate(lambda: False)
    of_whole_games = (SMALL.games - SMALL.windows) * SMALL.moves
    assert agent.followed.size == of_whole_games < agent.replay.size  # before there is a cold game to begin windows at
    for _ in range(40):
        agent.iterate(lambda: False)
    assert agent.play.own is not None
    agent.followed.renew(agent.best_actions)
    seen = {name: agent.followed.fields[name][: agent.followed.size] for name in ("ids", "legal", "policy")}
    np.testing.assert_allclose(seen["policy"], labels(agent.best_actions, seen["ids"], seen["legal"]))
    batch = agent._batch(SMALL.imitation)
    assert len(batch.action) == SMALL.batch
    copied, followed = round(SMALL.batch * SMALL.imitation), round(SMALL.batch * SMALL.follow)
    np.testing.assert_allclose(batch.policy[copied : copied + followed, 0].max(axis=1), CONFIDENCE, atol=1e-6)


def test_a_training_that_follows_resumes_to_the_same_bits(tmp_path):
    program, path = hard_program(3, 40), tmp_path / "state.npz"
    whole = solve(program, 5, config=dataclasses.replace(SMALL, iterations=30))
    for stop in (7, 21, 30):
        resumed = solve(program, 5, config=dataclasses.replace(SMALL, iterations=stop), checkpoint=path)
    assert resumed.solution == whole.solution and resumed.metrics["own_return"] == whole.metrics["own_return"]


def test_windows_end_exactly():
    """On a real program, where a change may come back long after nothing has changed."""
    program, _ = compiled.load("dcgan_train_batch_256")
    guide, games, rng = Guide(program), Games(program, 64), np.random.default_rng(0)
    guide.follow(np.zeros(program.num_buffers, np.int64))
    every, starts = np.arange(64), rng.choice(guide.decisions, 64)

    def finals(quiet: int | None) -> np.ndarray:
        draws = np.random.default_rng(1)
        games.start_at(guide, every, starts)
        games.observe()
        for _ in range(8):
            actions = np.argmax(games.legal * draws.random(games.legal.shape), axis=1)
            games.step(np.where(games.over, -1, actions))
        return games.end_like(guide, every, quiet)

    exact = finals(10**9)
    np.testing.assert_allclose(finals(None), exact, atol=1e-12)
    assert np.ptp(exact) > 0.0 and np.abs(finals(50) - exact).max() > 1e-3


def test_windows_begin_where_the_own_game_loses():
    """Would catch a loss in the wrong stretch, and gains that count as losses."""
    program, rng = hard_program(3, 80), np.random.default_rng(0)
    own, best = Guide(program), Guide(program)
    for guide in (own, best):
        game = Game(program)
        game.play_random(rng)
        guide.follow(game.played().action)
    lost = losses(Games(program, STRETCHES), own, best)
    bounds = np.linspace(0, len(own.decisions) - 1, STRETCHES + 1).astype(int)
    starts = [int(own.decisions[i]) for i in bounds[:-1]]
    values = [best.value_of(np.append(own.actions[:start], best.actions[start:]))[0] for start in starts]
    values.append(own.saved[-1])
    np.testing.assert_allclose(lost, np.maximum(-np.diff(values), 0.0), atol=1e-9)
    assert lost.any()
    only = np.where(np.arange(STRETCHES) == 20, 1.0, 0.0)
    drawn = weak_starts(only, own.decisions, 50, rng)
    assert {*drawn} <= {*own.decisions[bounds[20] : max(bounds[21], bounds[20] + 1)]}


def test_settings_are_checked():
    for changes in ({"follow": 1.5}, {"follow": -0.1}, {"follow": 0.95, "imitation": 0.1}):
        with pytest.raises(InputError, match="follow"):
            config_for(2000, **changes)
