"""Replay: targets against their definition, and what is forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.learning.replay import Replay

FIELDS = {"reward": np.float32(0), "value": np.float32(0), "name": np.zeros(2, np.int32)}


def game(rng: np.random.Generator, number: int, length: int) -> dict[str, np.ndarray]:
    """Random rewards and values; every decision is named (game, index)."""
    names = np.stack([np.full(length, number), np.arange(length)], axis=-1).astype(np.int32)
    rewards, values = rng.normal(size=(2, length)).astype(np.float32)
    return {"reward": rewards, "value": values, "name": names}


def filled(capacity: int, lengths: list[int]) -> tuple[Replay, list[dict[str, np.ndarray]]]:
    rng = np.random.default_rng(0)
    games = [game(rng, number, length) for number, length in enumerate(lengths)]
    replay = Replay(capacity, FIELDS)
    for one in games:
        replay.add(one)
    return replay, games


@pytest.mark.parametrize("n", [0, 1, 3, 50])
def test_targets_are_n_step_returns(n):
    """Every position of rings that have wrapped: catches targets that leak into another game or miss its end."""
    replay, games = filled(20, [7, 9, 3, 6, 8])
    discount, steps = 0.9, 4
    where = replay.sample(300, steps, np.random.default_rng(1))
    values, rewards = replay.value_targets(where, n, discount), replay.reward_targets(where)
    kept = set()
    for row in range(300):
        number, index = replay.fields["name"][where.index[row, 0]].tolist()
        one = games[number]
        kept.add(number)
        for k in range(steps + 1):
            tail = one["reward"][index + k :]
            assert where.inside[row, k] == (len(tail) > 0)
            expected = sum(discount**i * r for i, r in enumerate(tail[: n or None]))
            if n and len(tail) > n:
                expected += discount**n * one["value"][index + k + n]
            assert values[row, k] == pytest.approx(expected, abs=1e-5)
            assert rewards[row, k] == (tail[0] if len(tail) else 0.0)
            if len(tail):
                assert replay.fields["name"][where.index[row, k]].tolist() == [number, index + k]
    assert kept == {2, 3, 4}


def test_the_oldest_games_go_first_and_whole():
    replay, _ = filled(20, [7, 9, 3])
    assert len(replay) == 19 and replay.lengths == [7, 9, 3]
    replay.add(game(np.random.default_rng(0), 9, 2))
    assert len(replay) == 14 and replay.lengths == [9, 3, 2]
    replay.add(game(np.random.default_rng(0), 10, 45))
    assert replay.lengths == [20]
    assert sorted(replay.fields["name"][:, 1].tolist()) == list(range(25, 45))


def test_a_restored_replay_is_the_same():
    """Rows too, so that samples after a restart are those without one."""
    replay, _ = filled(20, [7, 9, 3, 6])
    other = Replay(20, FIELDS)
    other.restore(replay.arrays())
    one, two = (r.sample(50, 3, np.random.default_rng(4)) for r in (replay, other))
    np.testing.assert_array_equal(one.index, two.index)
    np.testing.assert_array_equal(replay.value_targets(one, 2, 0.9), other.value_targets(two, 2, 0.9))
    replay.add(game(np.random.default_rng(5), 5, 8))
    other.add(game(np.random.default_rng(5), 5, 8))
    assert replay.lengths == other.lengths and replay.first == other.first


def test_wrong_use_is_refused():
    replay, games = filled(20, [7])
    with pytest.raises(InputError, match="expected"):
        replay.add({"reward": np.zeros(2)})
    with pytest.raises(InputError, match="differ in length"):
        replay.add({**games[0], "value": np.zeros(2, np.float32)})
    with pytest.raises(InputError, match="empty"):
        Replay(3, FIELDS).sample(1, 1, np.random.default_rng(0))
    for damage in ({"lengths": np.array([99])}, {"field.reward": np.zeros(3)}, {"first": np.array(70)}):
        with pytest.raises(InputError, match="fit"):
            Replay(20, FIELDS).restore({**replay.arrays(), **damage})
    with pytest.raises(InputError, match="missing"):
        Replay(20, FIELDS).restore({})
    with pytest.raises(InputError, match="reward"):
        Replay(3, {"value": 0.0})
