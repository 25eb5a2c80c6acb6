"""Search: what is legal, what is masked, and that the exact one finds an optimum."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from learned_mapping.mmap.muzero.config import PAPER
from learned_mapping.mmap.muzero.exact_search import exact_visits
from learned_mapping.mmap.muzero.learner import make_learner
from learned_mapping.mmap.muzero.position import Position
from learned_mapping.mmap.muzero.representation import Observer
from learned_mapping.mmap.muzero.search import make_decide, temperature_at
from learned_mapping.mmap.rules.actions import toy_program
from mmap_games import hard_program
from muzero_small import IMPROVED, SMALL


@pytest.mark.parametrize("config", [SMALL, IMPROVED, dataclasses.replace(SMALL, search="none")])
def test_illegal_actions_are_never_chosen_nor_taught(config):
    """By every search, for every set of two or three legal actions."""
    program = hard_program(1, 60)
    position = Position(program)
    parameters = make_learner(config)[0](np.random.default_rng(0)).parameters
    observation = Observer(program, position.game.scale, config.representation)([position] * 4)
    legal = np.array([[True, True, False], [False, True, True], [True, False, True], [True, True, True]])
    chosen = np.zeros((4, 3), int)
    for seed in range(30):
        found = make_decide(config)(parameters, observation, legal, jax.random.key(seed), np.ones((4, 1)))
        chosen[np.arange(4), np.asarray(found.action)] += 1
        np.testing.assert_allclose(np.asarray(found.policy).sum(axis=-1), 1.0, rtol=1e-5)
        assert (np.asarray(found.policy)[~legal] == 0).all()
    assert (chosen[~legal] == 0).all() and (chosen[legal] > 0).all()


def test_the_temperature_falls_to_its_end():
    assert temperature_at(PAPER, 0) == 1.0
    assert temperature_at(PAPER, 200_000) == pytest.approx(0.6)
    assert temperature_at(PAPER, 400_000) == temperature_at(PAPER, 900_000) == pytest.approx(0.2)


def test_search_with_the_true_dynamics_finds_the_optimum():
    """The toy's optimum is 2/3, and random play on average far below; a search that reads rewards or walks the tree
    wrongly does not get there by the most visited actions."""
    config = dataclasses.replace(SMALL, simulations=300, noise_fraction=0.0)
    rng = np.random.default_rng(0)
    position = Position(toy_program())
    while not position.over:
        position.step(int(np.argmax(exact_visits(position, config, rng))))
    assert position.value == pytest.approx(2 / 3)


COMPARED = {
    "game": None,
    "supply_s": None,
    "outcomes": None,
    "groups": None,
    "steps": ["joined", "placed"],
    "tensors": ["end", "offset", "in_hbm_from"],
}
"""Parts of the state, and which of their fields: lists of rectangles may stand in another order."""


@pytest.mark.parametrize("drop_backup", [True, False])
def test_search_leaves_the_game_as_it_was(drop_backup):
    """A game with searches in between is the game without: catches moves that are not taken back."""
    program = hard_program(3, 70)
    config = dataclasses.replace(SMALL, simulations=40, drop_backup=drop_backup)
    rng, noise = np.random.default_rng(0), np.random.default_rng(1)
    plain, searched = (Position(program, drop_backup=drop_backup) for _ in range(2))
    while not plain.over:
        visits = exact_visits(searched, config, noise)
        assert visits.sum() == 40 and (visits[~searched.legal] == 0).all()
        action = int(rng.choice(np.flatnonzero(plain.legal)))
        assert plain.step(action) == searched.step(action)
        for name, fields in COMPARED.items():
            one, two = getattr(plain.state, name), getattr(searched.state, name)
            one, two = (one, two) if fields is None else (one[fields], two[fields])
            np.testing.assert_array_equal(one, two, err_msg=name)
