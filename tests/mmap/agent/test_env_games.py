"""The JAX environment behind the agent's interface plays the kernel's games and sees what the
kernel sees."""

import numpy as np
import pytest

from learned_mapping.errors import LearnedMappingError
from learned_mapping.mmap.agent import env_games
from learned_mapping.mmap.agent.env_games import EnvGames
from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.rules.actions import DROP
from mmap_games import hard_program


def test_both_play_and_see_the_same() -> None:
    program, rng = hard_program(3, 40), np.random.default_rng(3)
    kernel, device = Games(program, 4), EnvGames(program, 4)
    for _ in range(60):
        np.testing.assert_array_equal(device.cursor, kernel.cursor)
        np.testing.assert_array_equal(device.legal, kernel.legal)
        np.testing.assert_array_equal(device.ids, kernel.ids)
        np.testing.assert_allclose(device.vector, kernel.vector, atol=1e-5)
        np.testing.assert_allclose(device.saved, kernel.saved, atol=1e-12)
        over = np.flatnonzero(kernel.over)
        if len(over):
            np.testing.assert_array_equal(device.played(over[0]), kernel.played(over[0]))
            np.testing.assert_allclose(
                device.saved_before(over[0]), kernel.saved_before(over[0]), atol=1e-12
            )
            for games in (kernel, device):
                games.restart(over)
                games.observe()
            continue
        actions = np.argmax(np.where(kernel.legal, rng.random((4, 3)), -1.0), axis=1)
        kernel.step(actions)
        device.step(actions)
    np.testing.assert_array_equal(device.resets, kernel.resets)
    assert not bool(device._states.overflow.any())


@pytest.mark.parametrize("quiet", [3, 40])
def test_windows_begin_and_end_the_same(quiet) -> None:
    """Catches states of another game, a buffer too far, an end that is not the guide's; with two
    guides in turn."""
    program, rng = hard_program(3, 40), np.random.default_rng(7)
    kernel, device, guides = (
        Games(program, 6),
        EnvGames(program, 6),
        [Guide(program), Guide(program)],
    )
    for turn in range(4):
        guide = guides[turn % 2]
        guide.follow(rng.integers(0, 3, program.num_buffers))
        at = np.array([1, 2, 5])
        starts = rng.choice(guide.decisions, len(at))
        for games in (kernel, device):
            games.start_at(guide, at, starts)
            games.observe()
        np.testing.assert_array_equal(device.cursor[at], starts)
        for _ in range(3):
            np.testing.assert_array_equal(device.legal, kernel.legal)
            np.testing.assert_allclose(device.vector, kernel.vector, atol=1e-5)
            actions = np.argmax(np.where(kernel.legal, rng.random((6, 3)), -1.0), axis=1)
            for games in (kernel, device):
                games.step(np.where(kernel.over, -1, actions))
        values = [games.end_like(guide, at, quiet) for games in (kernel, device)]
        np.testing.assert_allclose(*values, atol=1e-12)
        kernel.restart(range(6))
        device.restart(range(6))


def test_a_game_that_needs_more_slots_than_there_are_ends_the_training(monkeypatch):
    """Catches rewards that may be wrong and are learned from."""
    monkeypatch.setattr(env_games.env, "capacity_for", lambda program: 2)
    games = EnvGames(hard_program(5, 20), 2)
    with pytest.raises(LearnedMappingError, match="2 slots"):
        for _ in range(40):
            games.step(np.argmax(games.legal, axis=1))


def test_compiling_makes_no_move():
    """Catches a game that is a move on, and a first move whose compilation a budget pays for."""
    games = EnvGames(hard_program(5, 20), 3)
    games.compile()
    compiled, fresh = env_games._step_all._cache_size(), EnvGames(hard_program(5, 20), 3)
    np.testing.assert_array_equal(games.cursor, fresh.cursor)
    np.testing.assert_array_equal(games.vector, fresh.vector)
    games.step(np.full(3, DROP))
    assert env_games._step_all._cache_size() == compiled
