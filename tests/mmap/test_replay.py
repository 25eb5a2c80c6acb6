"""Mappings made under other rules, played under the game's."""

from __future__ import annotations

import numpy as np
import pytest

from learned_mapping.mmap.compiler import replay
from learned_mapping.mmap.mapping import claimed_share, make_mapping
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, toy_program
from learned_mapping.mmap.validate import validate
from mmap_games import as_mapping, games, hard_program


def wanted(program, actions):
    nothing = np.full(program.num_buffers, -1)
    return make_mapping(program, actions, nothing, nothing, nothing)


@pytest.mark.parametrize("seed", range(8))
def test_a_game_replays_as_it_was_played(seed):
    """Would catch preferences that prefer something else; games with dead ends may end otherwise, and are left out."""
    program = hard_program(seed)
    kept = 0
    for game in games(program, seed):
        if game.resets == 0:
            again = replay(program, as_mapping(program, game))
            assert again.mapping == as_mapping(program, game) and again.changed == {} and again.kept == 1.0
            assert again.value == pytest.approx(game.value) == pytest.approx(claimed_share(program, again.mapping))
            kept += 1
    assert kept


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_wanted_becomes_valid(seed):
    """Would catch a replay that breaks a rule to keep a decision."""
    program = hard_program(seed)
    actions = np.random.default_rng(seed).integers(0, 3, program.num_buffers)
    again = replay(program, wanted(program, actions))
    verdict = validate(program, again.mapping, exact=True)
    assert verdict.valid and verdict.costs["return"] == pytest.approx(again.value)
    assert sum(again.changed.values()) == np.count_nonzero(again.mapping.action != actions)


def test_what_gives_in_the_toy_game():
    """By hand: NoCopy of all. x holds 4 of the 8 bytes to the end, so y, 8 bytes, finds no room, nor can it be copied
    between its producer and the next instruction; w has no allocation to extend, but a copy has room over step 1."""
    again = replay(toy_program(), wanted(toy_program(), [NO_COPY] * 6))
    assert again.mapping.action.tolist() == [NO_COPY, NO_COPY, DROP, DROP, COPY, NO_COPY]
    assert again.changed == {"NoCopy to Copy": 1, "NoCopy to Drop": 2} and again.kept == pytest.approx(0.5)
    assert again.value == pytest.approx(2 / 3)


def test_claims_count_placements_only():
    program = toy_program()
    assert claimed_share(program, wanted(program, [COPY] * 6)) == 1.0
    assert claimed_share(program, wanted(program, [DROP] * 6)) == 0.0
    assert claimed_share(program, wanted(program, [DROP] * 5 + [NO_COPY])) == pytest.approx(1 / 6)
