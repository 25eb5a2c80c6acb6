"""Self-play in one compiled loop plays what stepping plays: the same actions and rewards from the same seeds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
from learned_mapping.mmap.agent.config import AgentConfig
from mmap_games import hard_program

CONFIG = AgentConfig(
    games=6, moves=14, cold_games=2, simulations=6, width=24, latent=12, id_width=4, batch=16, updates=1, unroll=2,
    replay=2000, evaluate_every=0, evaluation_games=2, jax_games=True,
)  # fmt: skip


def _begun(config: AgentConfig, seed: int) -> MMapAgent:
    agent = MMapAgent(hard_program(3, 40), config, seed)
    agent.start(AgentBudget(samples=10**6))
    rng = np.random.default_rng(seed)  # heads that say something
    noisy = {
        part: {module: {name: leaf + 0.3 * rng.standard_normal(leaf.shape).astype(np.float32)
                        for name, leaf in arrays.items()} for module, arrays in modules.items()}
        for part, modules in agent.learner.average.items()
    }  # fmt: skip
    agent.learner.average = noisy
    return agent


@pytest.mark.parametrize("size", ["light", pytest.param("paper", marks=pytest.mark.slow)])
def test_the_loop_plays_what_stepping_plays(size: str) -> None:
    """Over six iterations, in which games end and begin anew; and what a kernel makes of the actions is the return."""
    config = dataclasses.replace(CONFIG, network=size, channels=2, image_blocks=1, blocks=1)
    looped, stepped = _begun(config, 1), _begun(config, 1)
    ended = 0
    for _ in range(6):
        one = looped.play.play(looped.decide, looped.rng, lambda: False, looped._play_on)
        other = stepped.play.play(stepped.decide, stepped.rng, lambda: False)
        assert looped.searches == stepped.searches
        np.testing.assert_array_equal(one.columns["action"], other.columns["action"])
        for name in ("ids", "legal", "left"):
            np.testing.assert_array_equal(one.columns[name], other.columns[name])
        for name in ("vector", "policy", "reward", "target"):
            np.testing.assert_allclose(one.columns[name], other.columns[name], rtol=1e-3, atol=1e-4)
        for game, same in zip(one.whole, other.whole, strict=True):
            assert (game.value, game.cold, game.resets) == (same.value, same.cold, same.resets)
            np.testing.assert_array_equal(game.actions, same.actions)
            np.testing.assert_array_equal(game.saved_before, same.saved_before)
            value, _ = looped.best.value_of(game.actions)
            assert value == pytest.approx(game.value, abs=1e-12) and game.saved_before[-1] == pytest.approx(value)
        ended += len(one.whole)
        for name in ("cursor", "saved", "resets"):
            np.testing.assert_array_equal(getattr(looped.games, name), getattr(stepped.games, name))
    assert ended > 6 and not bool(looped.games._states.overflow.any())


def test_a_stop_leaves_the_games_where_they_were() -> None:
    """Would catch an iteration that is cut short and half counted."""
    agent, calls = _begun(CONFIG, 0), []

    def stop() -> bool:
        calls.append(0)
        return len(calls) > 2

    before = agent.games.cursor.copy()
    assert agent.play.play(agent.decide, agent.rng, stop, agent._play_on) is None
    np.testing.assert_array_equal(agent.games.cursor, before)


def test_an_iteration_makes_no_single_step() -> None:
    """Would catch a return to a Python call per decision."""
    agent = _begun(CONFIG, 0)
    agent.games.step = None
    assert agent.iterate(lambda: False)["decisions"] == CONFIG.games * CONFIG.moves
