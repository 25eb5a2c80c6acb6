"""The compiler's placements within the game's rules, and how far two mappings agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from learned_mapping.mmap.compiler import legalise
from learned_mapping.mmap.mapping import make_mapping
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, toy_program
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.validate import validate
from mmap_games import as_mapping, games, hard_program, played


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_wanted_becomes_valid(seed):
    """Would catch a rule broken to keep a decision, for decisions and offsets from nowhere."""
    program = hard_program(seed)
    rng = np.random.default_rng(seed)
    offset = rng.integers(0, program.fast_bytes + 1, program.num_buffers)
    wanted = make_mapping(program, rng.integers(0, 3, program.num_buffers), offset, offset * 0, offset * 0)
    kept = legalise(program, wanted)
    verdict = validate(program, kept)
    assert verdict.valid, verdict.violations[0]
    assert not np.any(kept.placed & ~wanted.placed)


@pytest.mark.parametrize("seed", range(20))
def test_a_valid_mapping_stays_nearly_as_it_is(seed):
    """Would catch a legaliser that gives up what needs not give. What a game played in order places may move where
    copies are laid out in another order, so a little is allowed to; most games lose nothing."""
    program = hard_program(seed)
    for game in games(program, seed):
        mapping = as_mapping(program, game)
        kept = legalise(program, mapping)
        assert np.mean(kept.placed == mapping.placed) > 0.8
        assert np.mean(kept.offset == mapping.offset) > 0.8


def test_a_mapping_without_copies_stays_exactly():
    """Without copies nothing depends on the order."""
    program = hard_program(1)
    random = played(program, Game.play_random, np.random.default_rng(0))
    copied = np.isin(program.buffer_tensor, program.buffer_tensor[random.action == COPY])
    assert (~copied & (random.action == NO_COPY)).any()
    drop = copied | np.isin(program.buffer_alias, program.buffer_alias[copied & (program.buffer_alias >= 0)])
    while True:  # whole tensors and whole groups
        more = np.isin(program.buffer_tensor, program.buffer_tensor[drop])
        more |= np.isin(program.buffer_alias, program.buffer_alias[more & (program.buffer_alias >= 0)])
        if (more == drop).all():
            break
        drop = more
    mapping = as_mapping(program, random)
    wanted = replace(
        mapping,
        action=np.where(drop, DROP, mapping.action),
        offset=np.where(drop, -1, mapping.offset),
        start=np.where(drop, -1, mapping.start),
        end=np.where(drop, -1, mapping.end),
    )
    assert legalise(program, wanted) == wanted


def test_what_gives_in_the_toy_game():
    """By hand: NoCopy of all. By benefit for the root of the size x comes first, 3 s of 4 bytes, at the offset wanted;
    then y, 2 s of 8 bytes, without room; then w, which has nothing to extend and is copied."""
    program = toy_program()
    wanted = make_mapping(program, [NO_COPY] * 6, [4, 4, 0, 0, 0, 4], [0] * 6, [3] * 6)
    kept = legalise(program, wanted)
    assert kept.action.tolist() == [NO_COPY, NO_COPY, DROP, DROP, COPY, NO_COPY]
    assert kept.offset.tolist() == [4, 4, -1, -1, 0, 4]
