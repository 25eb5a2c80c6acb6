"""The rules of the MMapGame on instances worked by hand, played on the kernel."""

import itertools

import numpy as np
import pytest

from by_hand import hand_program
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, toy_program
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program


def build(
    steps: list[str], sizes: dict[str, int], fast_bytes: int, supply_s: float = 1.0
) -> Program:
    """A program of one-letter tensors. A step reads "a b > c d": a capital letter is a parameter,
    and ``c=1`` puts a buffer in alias group 1. One byte takes 1 s to copy; each buffer in fast
    memory saves 1 s."""
    uses, aliases = [], {}
    for t, text in enumerate(steps):
        reads, _, writes = text.partition(">")
        for word, is_output in [(word, False) for word in reads.split()] + [
            (word, True) for word in writes.split()
        ]:
            name, _, alias = word.partition("=")
            aliases[len(uses)] = int(alias or -1)
            uses.append((t, name, is_output))
    return hand_program(
        uses,
        sizes=sizes,
        parameters=[name for name in sizes if name.isupper()],
        aliases=aliases,
        best_s=[supply_s] * len(steps),
        fast_bytes=fast_bytes,
        copy_bytes_per_s=1.0,
    )


class Scripted:
    """A game by a list of moves, and what it says on the way."""

    def __init__(self, program: Program):
        self.game = Game(program)

    def outcome(self, action: int) -> tuple[int, int, int] | None:
        """(start, end, offset) of an action on the current buffer; None if it is illegal."""
        actual = self.game.outcomes[action]
        return (
            (int(actual["start"]), int(actual["end"]), int(actual["offset"]))
            if self.game.legal[action]
            else None
        )

    def play(self, *actions: int) -> "Scripted":
        for action in actions:
            self.game.step(action)
        return self

    @property
    def supply_s(self) -> list[float]:
        return self.game.state.supply_s.tolist()


def test_copy_walks_to_the_latest_start_and_leaves_the_rest_there():
    """Rule 1, Eq. 5: 3 bytes before step 4 at 0.8 s a step need steps 0 to 3 and leave 0.2 s at
    step 0."""
    game = Scripted(
        build(
            ["> e", "e > f", "f > g", "g > h", "W h >"],
            dict(e=0, f=0, g=0, h=0, W=3),
            3,
            supply_s=0.8,
        )
    )
    game.play(*[DROP] * 7)
    assert game.outcome(COPY) == (0, 4, 0)
    assert game.outcome(NO_COPY) is None
    game.play(COPY)
    assert game.supply_s == pytest.approx([0.2, 0.0, 0.0, 0.0, 0.8])


def test_two_copies_share_one_end_and_no_more():
    """Rule 1, Eq. 6: after a copy over [1, 2] with 0.5 s left at step 1, 1 byte for step 3 cannot
    come (step 2 is empty and joined to step 1), nor may a copy out of step 0 pass step 1; half of
    that fits step 1."""
    steps = ["> a", "> e", "> f", "U V"]
    sizes = dict(a=1, e=0, f=0, U=3, V=2)
    game = Scripted(build(steps, sizes, 100, supply_s=2.0)).play(DROP, DROP, DROP)
    assert game.outcome(COPY) == (1, 3, 0)
    game.play(COPY)
    assert game.supply_s == [2.0, 1.0, 0.0, 2.0]
    assert game.outcome(COPY) is None, "the walk would have to go from step 2 to step 1"
    game = Scripted(build(steps, sizes, 100, supply_s=2.0))
    assert game.outcome(COPY) == (0, 1, 0)
    game.play(COPY, DROP, DROP)
    assert game.outcome(COPY) == (1, 3, 1), (
        "takes step 2 and the 1 s that the copy out left at step 1"
    )
    assert game.play(COPY).supply_s == [2.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("action", "expected"),
    [(DROP, (2, 4, 0)), (COPY, (3, 4, 0)), (NO_COPY, None)],
)
def test_source_of_a_copy(action, expected):
    """Rule 2: x, written at 1 and read at 4, is in HBM after 1 if dropped, after the copy out over
    step 2 if copied, never if kept. (Copied out, its allocation covers steps 1 and 2 only, so a
    copy in over step 3 is free to come.)"""
    demand = 2 if action == DROP else 1
    steps = ["> e", "> x", "> f", "> g", "x"]
    game = Scripted(build(steps, dict(e=0, x=demand, f=0, g=0), 10)).play(DROP, action, DROP, DROP)
    assert game.outcome(COPY) == expected


def test_a_copy_before_the_data_is_in_hbm_is_illegal():
    """Rule 2: 3 s of copying before step 4 would start at step 1, when x is still being written."""
    steps = ["> e", "> x", "> f", "> g", "x"]
    assert (
        Scripted(build(steps, dict(e=0, x=3, f=0, g=0), 10))
        .play(DROP, DROP, DROP, DROP)
        .outcome(COPY)
        is None
    )


def test_no_copy_of_a_resident_tensor():
    """Rules 1 and 4: a tensor kept for its whole life costs nothing to read and cannot be copied in
    again."""
    game = Scripted(build(["> x", "> e", "x"], dict(x=1, e=0), 10))
    assert game.outcome(NO_COPY) == (0, 2, 0), "rule 5: the live range"
    game.play(NO_COPY, DROP)
    assert game.outcome(NO_COPY) == (3, 2, 0), "rule 4: the empty interval"
    assert game.outcome(COPY) is None


def test_copy_out_beyond_the_program_is_illegal_and_beyond_the_last_use_is_not():
    """Rule 3: from step 0, 2 s need steps 1 and 2 though x is last read at 1; 3 s would need a step
    too many."""
    steps = ["> x", "x", "> e"]
    assert Scripted(build(steps, dict(x=2, e=0), 10)).outcome(COPY) == (0, 2, 0)
    assert Scripted(build(steps, dict(x=3, e=0), 10)).outcome(COPY) is None


def test_an_extension_needs_its_own_bytes_free():
    """Rule 4: U, in for step 1, may stay until step 3 unless y took its place at step 2; y
    elsewhere does no harm."""
    steps = ["> e", "U", "> y", "U"]
    game = Scripted(build(steps, dict(e=0, U=1, y=2), 2)).play(DROP, COPY, DROP)
    assert game.outcome(NO_COPY) == (2, 3, 0)
    blocked = Scripted(build(steps, dict(e=0, U=1, y=2), 2)).play(DROP, COPY, NO_COPY)
    assert blocked.outcome(NO_COPY) is None
    beside = Scripted(build(["> y", "U", "y", "U"], dict(U=1, y=2), 3)).play(NO_COPY, COPY, NO_COPY)
    assert beside.outcome(NO_COPY) == (2, 3, 2)


def test_the_lowest_gap_that_fits_is_taken():
    """Rule 7: with a (3 bytes), b (2) and c (1) stacked and a and b gone, up to 5 bytes go below c
    and 6 above it."""
    for size, offset in ((3, 0), (4, 0), (5, 0), (6, 6)):
        game = Scripted(build(["> a b c", "> d", "c"], dict(a=3, b=2, c=1, d=size), 12)).play(
            *[NO_COPY] * 3
        )
        assert game.outcome(NO_COPY) == (1, 1, offset)


def test_in_place_update_overlaps_at_its_step_only():
    """Rule 7: v replaces u at step 1 at the same bytes. With u read again at step 2 that is
    impossible: a dead end."""
    in_place = Scripted(build(["> u", "u=1 > v=1", "v"], dict(u=2, v=2), 2)).play(NO_COPY, NO_COPY)
    assert in_place.outcome(NO_COPY) == (1, 2, 0)
    assert in_place.outcome(DROP) is None
    stranger = Scripted(build(["> u", "u > v", "v"], dict(u=2, v=2), 2)).play(NO_COPY, NO_COPY)
    assert stranger.outcome(NO_COPY) is None, "without the alias group the step is not shared"


def test_dead_end_goes_back_to_the_backup_and_forces_the_group():
    """Rule 8 and Drop-backup: u is needed at step 2, so v cannot take its bytes at step 1. The game
    returns to where the group was not open yet, and there u may only be dropped."""
    game = Scripted(build(["> u", "u=1 > v=1", "u v"], dict(u=2, v=2), 2))
    game.play(NO_COPY, NO_COPY)
    assert game.game.cursor == game.game.resets == 1
    assert (
        game.outcome(COPY) is None
        and game.outcome(NO_COPY) is None
        and game.outcome(DROP) is not None
    )
    game.play(DROP)
    assert game.outcome(NO_COPY) is None, "v belongs to the forced group"
    game.play(DROP)
    assert game.outcome(NO_COPY) == (3, 2, 0), (
        "u is still kept for step 2, as decided before the backup"
    )


def test_a_dropped_group_stays_dropped():
    """Rule 8: after Drop of the first member the others may not be placed."""
    game = Scripted(build(["> u", "u=1 > v=1", "v=1"], dict(u=2, v=2), 8)).play(NO_COPY, DROP)
    for _ in range(2):
        assert game.outcome(COPY) is None and game.outcome(NO_COPY) is None
        game.play(DROP)


def test_toy_optimum():
    """The optimum that the docstring of `toy_program` states, by trying every sequence of moves."""
    program = toy_program()
    best = 0.0
    for actions in itertools.product((COPY, NO_COPY, DROP), repeat=program.num_buffers):
        game = Game(program)
        if all(game.legal[action] and game.step(action) is not None for action in actions):
            best = max(best, game.value * program.possible_saving_s)
    assert best == pytest.approx(4.0)
    game = Game(program)
    for action in (NO_COPY, NO_COPY, DROP, DROP, COPY, NO_COPY):
        game.step(action)
    assert game.value == pytest.approx(best / program.possible_saving_s) == pytest.approx(2 / 3)


def test_rewards_telescope():
    """Rule 9: the rewards of an instruction sum to L({}) - L(B'), here with a table that is not
    additive."""
    program = build(["A B C"], dict(A=0, B=0, C=0), 4)
    rng = np.random.default_rng(0)
    table = rng.random(8)
    object.__setattr__(program, "latency_s", table)
    for actions in itertools.product((COPY, DROP), repeat=3):
        game = Game(program)
        total = sum(game.step(action) for action in actions)
        subset = sum(1 << bit for bit, action in enumerate(actions) if action == COPY)
        assert total == pytest.approx(table[0] - table[subset], abs=1e-15)
