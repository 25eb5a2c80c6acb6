"""What is learned from alternatives, against games played out one by one."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from learned_mapping.errors import InputError
from learned_mapping.mmap.agent import inside
from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
from learned_mapping.mmap.agent.alternatives import FIELDS, drawn, play_out
from learned_mapping.mmap.agent.config import AgentConfig, config_for
from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.agent.learner import difference_loss
from learned_mapping.mmap.agent.replay import Replay
from learned_mapping.mmap.agent.solve import solve
from mmap_games import hard_program

COUNT, UNIT = 64, 10.0
SMALL = AgentConfig(
    games=16, moves=16, cold_games=4, simulations=4, width=32, latent=16, id_width=4, batch=64, updates=8,
    unroll=2, replay=4000, evaluate_every=0, alternatives=8, alternative_batch=32,
)  # fmt: skip
WINDOWS = {"windows": 12, "own_windows": 4, "cold_games": 2, "moves": 6}


@pytest.fixture(scope="module")
def agent() -> MMapAgent:
    made = MMapAgent(hard_program(3, 40), dataclasses.replace(SMALL, **WINDOWS), 0)
    made.start(AgentBudget(samples=10_000))
    for _ in range(12):
        made.iterate(lambda: False)
    return made


def _tried(agent: MMapAgent) -> tuple[Guide, Replay]:
    guide, replay = Guide(agent.program), Replay(500, FIELDS)
    guide.follow(agent.best_actions)
    games, rng = Games(agent.program, COUNT), np.random.default_rng(1)
    replay.add(play_out(games, guide, UNIT, rng, agent.program.num_buffers))
    return guide, replay


def test_an_alternative_is_worth_what_the_game_comes_to_with_one_decision_changed(agent) -> None:
    """Would catch shares taken for units, the made decision tried, and an observation of another position."""
    guide, replay = _tried(agent)
    found, other = replay.fields, Guide(agent.program)
    assert replay.size == COUNT and len(set(zip(found["ids"][:COUNT, 0], found["action"][:COUNT]))) > 10
    games = Games(agent.program, 1)
    for row in range(COUNT):
        buffer, action, actions = int(found["ids"][row, 0]), int(found["action"][row]), guide.actions.copy()
        assert actions[buffer] == found["made"][row] != action
        games.start_at(guide, np.zeros(1, np.int64), np.array([buffer]))
        games.observe()
        assert games.legal[0, action] and (games.vector[0].astype(np.float16) == found["vector"][row]).all()
        actions[buffer] = action
        assert found["worth"][row] == pytest.approx(UNIT * (other.value_of(actions)[0] - guide.saved[-1]), abs=1e-5)


def test_the_loss_is_least_where_differences_of_q_are_exact(agent) -> None:
    """Would catch the two actions exchanged, a part of Q left out, and a loss that no gradient reaches."""
    _, replay = _tried(agent)
    networks, parameters = agent.networks, agent.learner.parameters
    pairs = drawn(replay, 48, np.random.default_rng(0))
    state = networks.represent(parameters, pairs.vector.astype(np.float32), pairs.ids)
    q = []
    for action in (pairs.action, pairs.made):
        following, reward = networks.dynamics(parameters, state, jnp.asarray(action, jnp.int32))
        q.append(
            networks.atoms.decode(reward) + 0.9 * networks.atoms.decode(networks.predict(parameters, following).value)
        )
    exact = pairs._replace(worth=np.asarray(q[0] - q[1]))
    assert float(difference_loss(networks, parameters, exact, 0.9)) == pytest.approx(0.0, abs=1e-9)
    assert float(difference_loss(networks, parameters, exact, 0.5)) > 1e-9
    loss = jax.jit(jax.value_and_grad(lambda p: difference_loss(networks, p, pairs, 0.9)))
    optimiser = optax.adam(3e-3)
    moments, first = optimiser.init(parameters), None
    for _ in range(150):
        value, gradient = loss(parameters)
        first = float(value) if first is None else first
        change, moments = optimiser.update(gradient, moments)
        parameters = optax.apply_updates(parameters, change)
    assert float(value) < 0.2 * first


def test_it_learns_from_both_games(agent) -> None:
    assert agent.play.own is agent.own and agent.differences.size >= 2 * 8 * 6
    told = inside.compared(inside.outcomes(agent, inside.along(agent, agent.best_actions)))
    assert told["rank_correlation"] is not None


@pytest.mark.parametrize("windows", [{}, WINDOWS, {"jax_games": True}], ids=["whole", "windows", "jax"])
def test_a_training_with_alternatives_resumes_to_the_same_bits(windows: dict, tmp_path) -> None:
    program, config = hard_program(3, 40), dataclasses.replace(SMALL, **windows)
    whole = solve(program, 5, config=dataclasses.replace(config, iterations=5))
    path = tmp_path / "state.npz"
    solve(program, 5, config=dataclasses.replace(config, iterations=3), checkpoint=path)
    resumed = solve(program, 5, config=dataclasses.replace(config, iterations=5), checkpoint=path)
    assert whole.solution == resumed.solution and whole.metrics["own_return"] == resumed.metrics["own_return"]
    without = solve(program, 5, config=dataclasses.replace(config, iterations=5, alternatives=0))
    assert whole.metrics["decisions"] > without.metrics["decisions"]


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="alternative_batch"):
        config_for(200, alternatives=4, alternative_batch=0)
    with pytest.raises(InputError, match="alternatives"):
        config_for(200, alternatives=-1)
