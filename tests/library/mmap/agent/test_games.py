"""The batched games against the single one, and the observation against brute force."""

import numpy as np
import pytest

from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.agent.priced_view import priced_view
from learned_mapping.mmap.observation import (
    AHEAD,
    CELLS,
    LIVE_NUMBERS,
    PARTS,
    PRIOR,
    PROFILE,
    SEEN,
    WIDTH,
)
from learned_mapping.mmap.rules.actions import DROP, toy_program
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program
from mmap_games import awkward_program, dead_end_program, hard_program

STARTS = dict(zip(PARTS, np.concatenate([[0], np.cumsum(list(PARTS.values()))]).tolist()))


def _part(vector: np.ndarray, name: str) -> np.ndarray:
    return vector[STARTS[name] : STARTS[name] + PARTS[name]]


def _settle(game: Game) -> None:
    while not game.over and game.legal.sum() == 1:
        game.step(int(np.argmax(game.legal)))


def _random_actions(legal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    choice = np.argmax(np.where(legal, rng.random(legal.shape), -1.0), axis=1)
    return np.where(legal.any(axis=1), choice, -1)


@pytest.mark.parametrize(
    "program", [*map(hard_program, range(3)), *map(dead_end_program, (2, 3, 24))]
)
def test_batched_games_are_single_games(program: Program) -> None:
    """Catches any state that leaks between games, and a Drop-backup settled otherwise than in
    `Game`."""
    rng = np.random.default_rng(0)
    games, singles = Games(program, 5), [Game(program) for _ in range(5)]
    for game in singles:
        _settle(game)
    while not games.over.all():
        np.testing.assert_array_equal(games.cursor, [game.cursor for game in singles])
        np.testing.assert_array_equal(
            games.legal, [game.legal & (not game.over) for game in singles]
        )
        actions = _random_actions(games.legal, rng)
        games.step(actions)
        for game, action in zip(singles, actions):
            if action >= 0:
                game.step(int(action))
                _settle(game)
    np.testing.assert_allclose(games.saved, [game.value for game in singles], rtol=1e-12)
    np.testing.assert_array_equal(games.resets, [game.resets for game in singles])
    for g, game in enumerate(singles):
        np.testing.assert_array_equal(games.played(g), game.played().action)


def test_a_dead_end_takes_back_what_was_saved() -> None:
    """Drop-backup's local negative reward: the return so far falls where a game goes back, and
    nowhere else."""
    rng, falls = np.random.default_rng(0), 0
    games = Games(dead_end_program(3), 8)
    while not games.over.all():
        resets, cursor, saved = games.resets.copy(), games.cursor.copy(), games.saved.copy()
        games.step(_random_actions(games.legal, rng))
        fell = games.saved < saved - 1e-12
        assert (games.resets[fell] > resets[fell]).all()
        assert (games.resets[games.cursor < cursor] > resets[games.cursor < cursor]).all()
        falls += int(fell.sum())
    assert falls > 0


def test_a_dead_end_without_drop_backup_loses_the_game() -> None:
    """Until the first dead end the games are the same, then one is over with nothing; catches one
    that goes on, and one that starts anew with what the lost game left."""
    rng, program = np.random.default_rng(0), dead_end_program(3)
    games, lost = Games(program, 8, backup=False), 0
    for _ in range(4):
        saved, others = np.zeros(8), Games(program, 8)
        while not games.over.all():
            actions = _random_actions(games.legal, rng)
            others.step(np.where(others.resets == 0, actions, -1))
            games.step(actions)
            saved = np.where(others.resets == 0, others.saved, 0.0)
            np.testing.assert_allclose(games.saved, saved, atol=1e-12)
            assert (games.over == (others.over | (others.resets > 0))).all()
        assert (games.resets == (others.resets > 0)).all()
        assert all((games.played(g) == DROP).all() for g in np.flatnonzero(games.resets))
        lost += int(games.resets.sum())
        games.restart(range(8))
        games.observe()
    assert 0 < lost < 32


def _memory(game: Game) -> list[tuple[int, int, int]]:
    """(offset, top, last step) of every allocation of the game so far, from its moves alone."""
    actual, of_tensor = [], {}
    buffers = game.program.buffers
    for b in range(game.cursor):
        move, buffer = game.state.moves[b], buffers[b]
        if move["action"] == DROP or move["end"] < move["start"] or buffer["bytes"] == 0:
            continue
        extends = move["action"] == 1 and not buffer["is_output"]
        if extends:
            actual[of_tensor[int(buffer["tensor"])]][2] = int(move["end"])
        else:
            of_tensor[int(buffer["tensor"])] = len(actual)
            actual.append(
                [int(move["offset"]), int(move["offset"] + buffer["bytes"]), int(move["end"])]
            )
    return [tuple(entry) for entry in actual]


@pytest.mark.parametrize("seed", range(4))
def test_observation_is_what_brute_force_draws(seed: int) -> None:
    """Catches live rectangles that are missing, stale or drawn at a wrong step."""
    program, rng = hard_program(seed, 50), np.random.default_rng(seed)
    games = Games(program, 1)
    single = Game(program)
    _settle(single)
    fast = float(program.fast_bytes)
    while not games.over[0]:
        now = int(program.buffer_instruction[games.cursor[0]])
        alive = sorted(entry for entry in _memory(single) if entry[2] >= now)
        vector = games.vector[0]
        assert vector.shape == (SEEN,) and not vector[WIDTH:].any()
        offsets = _part(vector, "live").reshape(-1, LIVE_NUMBERS)
        count = min(len(alive), len(offsets))
        shown = np.reshape([entry[:2] for entry in alive[:count]], (-1, 2))
        np.testing.assert_allclose(offsets[:count, 1:3] * fast, shown, rtol=1e-5)
        assert offsets[:, 0].sum() == count
        used = [sum(top - low for low, top, end in alive if end >= now + a) / fast for a in AHEAD]
        np.testing.assert_allclose(_part(vector, "bytes"), used, atol=1e-5)
        drawn = _part(vector, "map").reshape(len(AHEAD), CELLS)
        edges = np.arange(CELLS + 1) / CELLS
        for k, ahead in enumerate(AHEAD):
            cells = np.zeros(CELLS)
            for low, top, end in alive:
                if end >= now + ahead:
                    overlap = np.minimum(edges[1:], top / fast) - np.maximum(edges[:-1], low / fast)
                    cells += CELLS * np.maximum(overlap, 0.0)
            np.testing.assert_allclose(drawn[k], cells, atol=1e-5)
        assert _part(vector, "profile").sum() / PROFILE == pytest.approx(used[0], abs=1e-4)
        np.testing.assert_array_equal(
            _part(vector, "actions").reshape(3, -1)[:, 0] > 0, games.legal[0]
        )
        action = int(_random_actions(games.legal, rng)[0])
        games.step(np.array([action]))
        single.step(action)
        _settle(single)


def test_a_loss_is_seen_as_one() -> None:
    """Savings keep their sign, by the latency tables themselves; catches a placement that costs
    time and looks like one that saves nothing."""
    losses, rng = 0, np.random.default_rng(0)
    for seed in range(12):
        program = awkward_program(np.random.default_rng(seed))
        games, first = Games(program, 1), program.latency_offsets
        bits, steps = program.buffer_bit, program.buffer_instruction
        alone = [
            program.latency_s[first[t]] - program.latency_s[first[t] + (1 << bit)]
            if bit >= 0
            else 0.0
            for t, bit in zip(steps, bits)
        ]
        unit = np.maximum(alone, 0.0).mean()
        unit = unit if unit > 0.0 else program.possible_saving_s / max(len(alone), 1)
        while unit > 0.0 and not games.over[0]:
            b, placed = int(games.cursor[0]), 0
            for k in range(b):
                if steps[k] == steps[b] and bits[k] >= 0 and games.played(0)[k] != DROP:
                    placed |= 1 << bits[k]
            own = placed | (1 << bits[b] if bits[b] >= 0 else 0)
            table = program.latency_s[first[steps[b]] : first[steps[b] + 1]]
            saved = (table[placed] - table[own]) / unit
            shown = _part(games.vector[0], "actions").reshape(3, -1)[:2, -1][games.legal[0, :2]]
            np.testing.assert_allclose(shown, np.sign(saved) * np.log1p(abs(saved)), atol=1e-5)
            static = _part(games.vector[0], "buffers")[6]
            assert static == pytest.approx(
                np.sign(alone[b]) * np.log1p(abs(alone[b]) / unit) / 2.0, abs=1e-5
            )
            losses += saved < 0.0
            games.step(_random_actions(games.legal, rng))
    assert losses > 20


@pytest.mark.parametrize("seed", range(4))
def test_the_prior_plays_like_the_rule(seed: int) -> None:
    """The likeliest action at every position is the rule's, so its game comes out again; catches
    prices of another scale, a value of another action, and what is left of a finished game."""
    program = hard_program(seed, 60)
    best, prices = priced_view(program)
    games = Games(program, 2)
    games.prices = prices
    games.observe()
    while not games.over.all():
        prior = games.vector[:, WIDTH + PRIOR :]
        assert (prior[games.legal] <= 0.0).all() and prior.max() == 0.0
        action = np.argmax(np.where(games.legal, prior, -np.inf), axis=1)
        games.step(np.where(games.over, -1, action))
    np.testing.assert_allclose(games.saved, best.value)
    assert not games.vector[:, WIDTH:].any()


@pytest.mark.parametrize("seed", range(4))
def test_windows_begin_and_end_like_the_guide(seed: int) -> None:
    program, rng = hard_program(seed, 60), np.random.default_rng(seed)
    games, guide = Games(program, 4), Guide(program)
    game = Game(program)
    game.play_random(rng)
    value = guide.follow(game.played().action)
    assert value == pytest.approx(game.value)
    assert guide.saved[-1] == pytest.approx(game.value)
    starts = rng.choice(guide.decisions, 4)
    games.start_at(guide, np.arange(4), starts)
    games.observe()
    np.testing.assert_array_equal(games.cursor, starts)
    np.testing.assert_allclose(games.saved, guide.saved[starts])
    np.testing.assert_allclose(games.end_like(guide, np.arange(4), 10**9), value)
    games.start_at(guide, np.arange(4), starts)
    games.observe()
    games.step(_random_actions(games.legal, rng))
    prefixes = [games.played(g)[: games.cursor[g]] for g in range(4)]
    finals = games.end_like(guide, np.arange(4), 10**9)
    for prefix, final in zip(prefixes, finals):
        actions = np.concatenate([prefix, guide.actions[len(prefix) :]])
        assert guide.value_of(actions)[0] == pytest.approx(final, abs=1e-12)


def test_the_toy_program_has_its_optimum() -> None:
    """4 of 6 seconds, as `rules.toy_program` says."""
    assert Guide(toy_program()).value_of(np.array([1, 1, 2, 2, 0, 1]))[0] == pytest.approx(2 / 3)
