"""A game move by move: what the frames say is what the game does, and the page needs nothing from elsewhere."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from learned_mapping.companion.figures.mmap_stepthrough import frames, liveliest, stepthrough, window
from learned_mapping.errors import InputError
from learned_mapping.mmap.methods import solve
from learned_mapping.mmap.rules.actions import COPY
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.synthetic import random_program

MOVES = 12


@pytest.fixture(scope="module")
def played():
    program = random_program(np.random.default_rng(5), 120, alias_fraction=0.2, fast_fraction=0.2, copy_ratio=2.0)
    return program, solve(program, "greedy", samples=2).solution.action


class Page(HTMLParser):
    """Collects tags with their attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def test_as_many_frames_as_moves_and_nothing_from_elsewhere(played):
    """Would catch a move without a frame, and whatever a browser would fetch."""
    program, actions = played
    text = stepthrough(program, frames(program, actions, liveliest(program, actions, MOVES), MOVES))
    page = Page(text)
    assert [a["data-frame"] for _, a in page.tags if "data-frame" in a] == [str(i) for i in range(MOVES)]
    assert sum(tag == "svg" for tag, _ in page.tags) == MOVES
    assert sum(tag == "button" for tag, _ in page.tags) == 2
    assert text.count("(taken)") == MOVES
    assert not re.search(r"https?:|//|url\(|@import", text.replace("</", ""))
    assert not any(name in attributes for _, attributes in page.tags for name in ("src", "href", "xlink:href"))


def test_frames_follow_the_game(played):
    """Would catch a look ahead that leaves a trace, and consequences of another state: each frame's taken action must
    lead to the next frame's return and supply."""
    program, actions = played
    shown = frames(program, actions, 20, MOVES)
    assert [frame.buffer for frame in shown] == list(range(20, 20 + MOVES))
    for frame, after in itertools.pairwise(shown):
        taken = frame.consequences[frame.taken]
        gained = taken.reward_s / program.possible_saving_s
        assert taken.legal and after.value == pytest.approx(frame.value + gained)
        np.testing.assert_array_equal(taken.supply_s, after.supply_s)
    game = Game(program)
    for action in actions[:20]:
        game.step(int(action))
    assert [each.legal for each in shown[0].consequences] == game.legal.tolist()
    placed = [each for frame in shown for each in frame.consequences if each.legal and each.end >= each.start >= 0]
    low, high = window(program, shown)
    assert placed and all(low <= each.start and each.end <= high for each in placed)


def test_a_copy_takes_its_demand_from_the_supply(played):
    program, actions = played
    copies = 0
    for frame in frames(program, actions, 0, program.num_buffers):
        each = frame.consequences[COPY]
        if each.legal and not each.dead_end:
            assert (frame.supply_s - each.supply_s).sum() == pytest.approx(each.copy_s)
            copies += each.copy_s > 0
    assert copies > 5


def test_the_game_ends_where_it_ends(played):
    program, actions = played
    assert len(frames(program, actions, program.num_buffers - 3, MOVES)) == 3


@pytest.mark.parametrize(("first", "count"), [(-1, 3), (10**6, 3), (0, 0)])
def test_moves_that_are_not_there_are_refused(played, first, count):
    program, actions = played
    with pytest.raises(InputError):
        frames(program, actions, first, count)
