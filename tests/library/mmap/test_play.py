"""Whole games: the policies do what they say, games repeat, rewinding leads back, solutions pass
the validator."""

from dataclasses import replace

import numpy as np
import pytest
from learned_mapping_builders.synthetic_programs import random_program

from by_hand import hand_program
from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.mmap.mapping import make_mapping
from learned_mapping.mmap.observation import tables_of
from learned_mapping.mmap.rules import play, policies
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, toy_program
from learned_mapping.mmap.rules.state import program_arrays
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import read_program
from learned_mapping.programs.program import Program
from mmap_games import hard_program, played


@pytest.fixture(scope="module")
def program():
    """120 buffers with alias groups, memory for a third of what is live."""
    return random_program(np.random.default_rng(3), 120, alias_fraction=0.3, alias_chain=0.7)


def games(program) -> dict[str, play.PlayedGame]:
    """One game by each policy."""
    rng = np.random.default_rng(7)
    preferences = rng.normal(size=(program.num_buffers, 3))
    weights = rng.normal(size=(2, play.NUM_FEATURES))
    return {
        "random": played(program, play.Game.play_random, rng),
        "preferences": played(program, play.Game.play_preferences, preferences),
        "linear": played(program, play.Game.play_linear_policy, weights),
    }


def same(one: play.PlayedGame, other: play.PlayedGame) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other))


def test_every_policy_ends_in_a_valid_mapping(program):
    """Catches a game that the independent judge does not accept, or whose return it computes
    otherwise."""
    for name, game in games(program).items():
        mapping = make_mapping(program, game.action, game.offset, game.start, game.end)
        verdict = validate(program, mapping, exact=True)
        assert verdict.valid, (name, str(verdict))
        assert verdict.costs["return"] == pytest.approx(game.value, abs=1e-12)


def test_games_repeat(program):
    """Catches a draw from anywhere but the generator, and state left over from an earlier game."""
    first, second = games(program), games(program)
    assert all(same(first[name], second[name]) for name in first)
    game = play.Game(program)
    game.play_random(np.random.default_rng(99))
    game.restart()
    game.play_preferences(np.random.default_rng(5).normal(size=(program.num_buffers, 3)))
    fresh = played(
        program,
        play.Game.play_preferences,
        np.random.default_rng(5).normal(size=(program.num_buffers, 3)),
    )
    assert same(game.played(), fresh)


def test_preferences_are_followed_where_legal(program):
    """Catches actions out of order: Drop preferred drops all; where NoCopy, then Copy is, Drop is
    the last resort."""
    drop_all = played(
        program, play.Game.play_preferences, np.tile([0.0, 0.0, 1.0], (program.num_buffers, 1))
    )
    assert set(drop_all.action.tolist()) == {DROP} and drop_all.value == 0.0
    game = play.Game(program)
    while not game.over:
        legal = game.legal
        expected = next(a for a in (NO_COPY, COPY, DROP) if legal[a])
        cursor = game.cursor
        game.play_preferences(np.tile([1.0, 2.0, 0.0], (program.num_buffers, 1)), stop=cursor + 1)
        if game.resets == 0:
            assert game.state.moves["action"][cursor] == expected


def test_random_play_is_uniform_over_legal_actions():
    """Catches a biased draw."""
    program, rng = toy_program(), np.random.default_rng(0)
    firsts = [played(program, play.Game.play_random, rng).action[0] for _ in range(2000)]
    drawn = np.bincount(firsts, minlength=3) / 2000
    assert drawn == pytest.approx([1 / 3] * 3, abs=0.04)


def test_a_threshold_is_a_linear_policy(program):
    """Catches features that mean something else than they say: a forbidding price drops everything,
    a price of nothing drops only where nothing else is legal."""
    weights = np.zeros((2, play.NUM_FEATURES))
    weights[:, policies.FEATURES.index("one")] = -1.0
    assert played(program, play.Game.play_linear_policy, weights).value == 0.0
    all_in = played(program, play.Game.play_linear_policy, -weights)
    copy_first = played(
        program, play.Game.play_preferences, np.tile([1.0, 1.0, 0.0], (program.num_buffers, 1))
    )
    assert same(all_in, copy_first)


def test_rewinding_leads_back(program):
    """Catches state that a rewind leaves behind: playing on gives the same game again."""
    preferences = np.random.default_rng(2).normal(size=(program.num_buffers, 3))
    game = play.Game(program)
    game.play_preferences(preferences)
    first = game.played()
    for prefix in (100, 50, 3, 0):
        game.rewind(prefix)
        for action in first.action[game.cursor :].tolist():
            game.step(action)
        again = game.played()
        assert same(again._replace(moves=0, resets=0), first._replace(moves=0, resets=0))


def test_wrong_use_is_refused(program):
    """Catches a kernel run on the wrong shapes, an illegal move that goes through, a solution of
    half a game."""
    game = play.Game(program)
    with pytest.raises(InputError, match="expected shape"):
        game.play_preferences(np.zeros((3, 3)))
    with pytest.raises(InputError, match="expected shape"):
        played(program, play.Game.play_linear_policy, np.zeros((2, 2)))
    with pytest.raises(InputError, match="decided"):
        game.played()
    illegal = next(a for a in (COPY, NO_COPY) if not game.legal[a])
    with pytest.raises(InputError, match="not legal"):
        game.step(illegal)
    with pytest.raises(InputError, match="not legal"):
        game.step(7)
    for wrong in ("x", None, 1.0):
        with pytest.raises(InputError, match="expected 0, 1 or 2"):
            game.step(wrong)
    for wrong in ([5] * program.num_buffers, [0.5] * program.num_buffers):
        with pytest.raises(InputError, match="expected 0, 1 or 2"):
            game.play_actions(wrong)
    with pytest.raises(InputError, match="program: expected a Program"):
        play.Game("program")
    game.play_random(np.random.default_rng(0))
    with pytest.raises(InputError, match="over"):
        game.step(DROP)


def _mean_saving(program: Program) -> float:
    """By the latency tables alone: the mean over buffers of what each saves placed first, a loss as
    0."""
    savings = []
    for b in range(program.num_buffers):
        table = program.latency_s[program.latency_offsets[program.buffer_instruction[b]] :]
        bit = int(program.buffer_bit[b])
        savings.append(max(table[0] - table[1 << bit], 0.0) if bit >= 0 else 0.0)
    return float(np.mean(savings))


def _losing(program: Program, rng: np.random.Generator) -> Program:
    """The same with latencies that placements raise as often as they lower, by as much."""
    moved = program.latency_s * rng.uniform(0.2, 1.8, len(program.latency_s))
    return replace(
        program, latency_s=np.where(rng.random(len(moved)) < 0.5, moved, program.latency_s)
    )


def test_benefits_are_measured_by_what_they_are():
    """Catches a unit of one second on a program whose placements lose more than they save: whoever
    plays by benefits is blind then. On every program here, and on 200 random ones, it is at most
    five times the mean saving of a buffer, or a fifth of it; where two placements save only
    together it is an equal share of that."""
    rng = np.random.default_rng(0)
    files = [
        p
        for folder in ("compiled", "programs")
        for p in sorted((data_folder() / folder).glob("*.json.gz"))
    ]
    stored = [
        read_program(p) for p in files if p.name.count(".") == 2 and p.name != "prices.json.gz"
    ]
    drawn = [_losing(hard_program(seed), rng) for seed in range(200)]
    assert len(stored) >= 75 and sum(p.initial_benefit_s.mean() < 0 for p in drawn) > 20
    for program in [*stored, *drawn]:
        mean, (unit, _) = _mean_saving(program), play.Game(program).scale
        assert 0.2 * mean <= unit <= 5.0 * mean, program.name
        assert unit == pytest.approx(1.0 / tables_of(program_arrays(program)).reward_scale)
    joint = hand_program(
        [(0, "A", False), (0, "B", False)],
        sizes=dict(A=1, B=1),
        parameters=["A", "B"],
        fast_bytes=2,
        copy_bytes_per_s=1.0,
        best_s=[1.0],
    )
    joint = replace(joint, latency_s=np.array([3.0, 3.0, 4.0, 1.0]))
    assert (
        play.Game(joint).scale[0] == 1.0
        and play.Game(replace(joint, latency_s=np.ones(4))).scale[0] == 1.0
    )
    assert play.Game(replace(joint, latency_s=np.array([3.0, 3.0, 4.0, 2.0]))).scale[0] == 0.5
