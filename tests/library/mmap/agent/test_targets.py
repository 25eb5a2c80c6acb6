"""TD(lambda), unrolls and the loss against closed forms."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.learner import unrolled_loss
from learned_mapping.mmap.agent.network import Atoms, Networks
from learned_mapping.mmap.agent.replay import FIELDS, Replay, decisions_left, lambda_returns
from learned_mapping.mmap.observation import SEEN, WIDTH
from mmap_games import SMALL

RNG = np.random.default_rng(0)
REWARD, VALUE = RNG.standard_normal((6, 2)), RNG.standard_normal((6, 2))
NEVER, ALWAYS, REST = np.zeros((6, 2), bool), np.ones((6, 2), bool), np.array([3.0, -2.0])


def _n_step(m: int, n: int, discount: float) -> np.ndarray:
    """r_m + g r_(m+1) + ... + g^n v_(m+n), with `REST` for the value after the last decision."""
    n = min(n, len(REWARD) - m)
    value = np.concatenate([VALUE, REST[None]])[m + n]
    return sum(discount**i * REWARD[m + i] for i in range(n)) + discount**n * value


def test_lambda_zero_is_one_step() -> None:
    z = lambda_returns(REWARD, VALUE, NEVER, ALWAYS, REST, 0.9, 0.0)
    np.testing.assert_allclose(z, [_n_step(m, 1, 0.9) for m in range(6)])


def test_lambda_one_sums_to_the_end_of_the_chunk() -> None:
    z = lambda_returns(REWARD, VALUE, NEVER, ALWAYS, REST, 0.9, 1.0)
    np.testing.assert_allclose(z, [_n_step(m, 9, 0.9) for m in range(6)])


def test_lambda_return_is_the_mixture_of_n_step_returns() -> None:
    trace, left = 0.7, 6 - 2
    mixture = sum((1 - trace) * trace ** (n - 1) * _n_step(2, n, 0.9) for n in range(1, left))
    mixture += trace ** (left - 1) * _n_step(2, left, 0.9)
    np.testing.assert_allclose(
        lambda_returns(REWARD, VALUE, NEVER, ALWAYS, REST, 0.9, trace)[2], mixture
    )


def test_nothing_follows_the_end_of_a_game() -> None:
    ended = NEVER.copy()
    ended[3, 0] = True
    z = lambda_returns(REWARD, VALUE, ended, ALWAYS, REST, 1.0, 1.0)
    np.testing.assert_allclose(z[:4, 0], np.cumsum(REWARD[3::-1, 0])[::-1])
    assert z[4, 0] == pytest.approx(REWARD[4:, 0].sum() + REST[0])
    np.testing.assert_array_equal(
        decisions_left(ended, ALWAYS), [[3, 5], [2, 4], [1, 3], [0, 2], [1, 1], [0, 0]]
    )


def test_a_window_that_stops_early_keeps_its_length() -> None:
    ended, active = NEVER.copy(), ALWAYS.copy()
    ended[2, 1], active[3:, 1] = True, False
    z = lambda_returns(REWARD, VALUE, ended, active, REST, 0.9, 0.5)
    np.testing.assert_array_equal(z[3:, 1], 0.0)
    assert z[2, 1] == REWARD[2, 1]
    np.testing.assert_array_equal(decisions_left(ended, active)[:3, 1], [2, 1, 0])


@pytest.mark.parametrize("log", [False, True])
def test_atoms_keep_the_mean(log: bool) -> None:
    atoms = Atoms(50.0, 41, log)
    x = np.array([-60.0, -3.3, 0.0, 0.4, 17.0], np.float32)
    probabilities = np.asarray(atoms.encode(x))
    np.testing.assert_allclose(probabilities.sum(-1), 1.0, atol=1e-5)
    assert (np.count_nonzero(probabilities > 1e-4, axis=-1) <= 2).all()
    decoded = np.asarray(atoms.decode(np.log(probabilities + 1e-30)))
    np.testing.assert_allclose(decoded, np.clip(x, -50.0, 50.0), rtol=1e-4, atol=1e-4)


def _columns(count: int, left: list[int]) -> dict[str, np.ndarray]:
    columns = {name: np.zeros((count, *shape), kind) for name, (shape, kind) in FIELDS.items()}
    columns["target"] = np.arange(count, dtype=np.float32)
    columns["left"] = np.array(left)
    return columns


def test_replay_unrolls_within_a_chunk_and_across_the_ring() -> None:
    replay = Replay(5)
    replay.add(_columns(3, [2, 1, 0]))
    replay.add(_columns(4, [3, 2, 1, 0]))
    batch = replay.batch(np.array([3, 2]), 2)
    np.testing.assert_array_equal(batch.target, [[0, 1, 2], [2, 2, 2]])
    np.testing.assert_array_equal(batch.inside, [[True] * 3, [True, False, False]])
    assert replay.size == 5


def test_replay_draws_evenly_from_what_is_there() -> None:
    replay = Replay(6)
    replay.add(_columns(4, [0] * 4))
    drawn = np.bincount(replay.rows(4000, np.random.default_rng(0)), minlength=6)
    assert drawn[4:].sum() == 0 and drawn[:4] == pytest.approx(1000, rel=0.1)


def test_a_damaged_replay_is_refused() -> None:
    replay = Replay(4)
    replay.add(_columns(4, [0] * 4))
    with pytest.raises(InputError, match="does not fit"):
        Replay(2).restore(replay.arrays("r"), "r", "file")


def test_fresh_networks_lose_what_uniform_heads_lose() -> None:
    """The heads start at 0, so each policy costs ln 3, weighted 1 + K * 1 / K, and values cost the
    start's logits."""
    config = AgentConfig(width=16, unroll=4)
    networks = Networks(config, (5, 4, 1))
    parameters = networks.init(np.random.default_rng(0))
    columns = _columns(6, [5, 4, 3, 2, 1, 0])
    columns["policy"] = np.full((6, 3), [1.0, 0.0, 0.0], np.float32)
    columns["target"] = np.zeros(6, np.float32)
    replay = Replay(6)
    replay.add(columns)
    total, parts = unrolled_loss(networks, parameters, replay.batch(np.array([0]), 4))
    start = networks.atoms.start()
    zero = float(jax.nn.logsumexp(jnp.array(start)) - start[len(start) // 2])
    assert float(parts["policy_loss"]) == pytest.approx(2 * np.log(3), rel=1e-5)
    assert float(parts["value_loss"]) == pytest.approx(2 * zero, rel=1e-4)
    assert float(parts["reward_loss"]) == pytest.approx(zero, rel=1e-4)
    assert float(total) == pytest.approx(2 * np.log(3) + 3 * zero, rel=1e-4)
    _, short = unrolled_loss(networks, parameters, replay.batch(np.array([3]), 4))
    assert float(short["policy_loss"]) == pytest.approx((1 + 2 / 4) * np.log(3), rel=1e-5)
    assert parameters["representation"]["first"]["w"].shape == (WIDTH + 6, 16)


def test_a_fresh_network_plays_by_the_prior() -> None:
    """Its policy is what the prices say, and of a position only imagined it knows no prior; catches
    a prior that is an input alone, and one that is carried along."""
    networks = Networks(dataclasses.replace(SMALL, priced=True, windows=12), (5, 5, 1))
    parameters = networks.init(np.random.default_rng(0))
    seen = np.random.default_rng(1).standard_normal((4, SEEN)).astype(np.float32)
    state = networks.represent(parameters, seen, np.zeros((4, 3), np.int32))
    np.testing.assert_allclose(networks.predict(parameters, state).policy, seen[:, -3:], atol=1e-6)
    after, _ = networks.dynamics(parameters, state, np.zeros(4, np.int32))
    np.testing.assert_allclose(networks.predict(parameters, after).policy, 0.0, atol=1e-6)
    without = Networks(SMALL, (5, 5, 1))
    plain = without.init(np.random.default_rng(0))
    blind = [
        without.represent(plain, numbers, np.zeros((4, 3), np.int32))
        for numbers in (seen, np.where(np.arange(SEEN) < WIDTH, seen, 0.0))
    ]
    np.testing.assert_array_equal(blind[0][:, :-3], blind[1][:, :-3])
