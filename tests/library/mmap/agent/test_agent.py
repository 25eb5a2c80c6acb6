"""The agent as a whole: the same seed gives the same training, a killed one resumes to the same
bits, and it learns."""

import dataclasses
import json
import math

import jax
import numpy as np
import pytest

from cuts import assert_goes_on
from learned_mapping.errors import InputError
from learned_mapping.mmap import methods
from learned_mapping.mmap.agent import selfplay
from learned_mapping.mmap.agent.config import RANGES, AgentConfig, changes_from_json, config_for
from learned_mapping.mmap.agent.network import Networks
from learned_mapping.mmap.agent.rounds import round_config
from learned_mapping.mmap.agent.search import make_decide
from learned_mapping.mmap.agent.solve import solve
from learned_mapping.mmap.observation import SEEN
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.json_io import parse_json
from mmap_games import SMALL, hard_program, random_returns

WINDOWS = dataclasses.replace(SMALL, windows=12, cold_games=2, moves=6, imitation=0.1)


def _same(first, second) -> None:
    assert first.solution == second.solution
    times = ("cpu_s",)
    for one, other in zip(first.log, second.log, strict=True):
        assert {k: v for k, v in one.items() if k not in times} == {
            k: v for k, v in other.items() if k not in times
        }
    assert first.metrics["own_return"] == second.metrics["own_return"]
    assert first.stages == second.stages


@pytest.mark.parametrize("config", [SMALL, WINDOWS], ids=["whole", "windows"])
def test_same_seed_same_training_and_resumes_to_the_same_bits(
    config: AgentConfig, tmp_path
) -> None:
    program = hard_program(3, 40)
    whole = solve(program, 5, config=dataclasses.replace(config, iterations=5))
    path, log = tmp_path / "state.npz", tmp_path / "log.jsonl"
    solve(
        program,
        5,
        config=dataclasses.replace(config, iterations=3),
        checkpoint=path,
        log=log,
        every=2,
    )
    resumed = solve(
        program, 5, config=dataclasses.replace(config, iterations=5), checkpoint=path, log=log
    )
    _same(whole, resumed)
    assert validate(program, whole.solution, exact=True).valid
    with pytest.raises(InputError, match="identity"):
        solve(program, 6, config=dataclasses.replace(config, iterations=5), checkpoint=path)


LEARNERS = {
    "whole": SMALL,
    "windows": WINDOWS,
    "rounds": dataclasses.replace(SMALL, patience=8),
    "reanalysed": dataclasses.replace(SMALL, reanalyse=2, evaluate_every=2),
    "learning-only": dataclasses.replace(SMALL, simulations=0),
    "priced": dataclasses.replace(WINDOWS, priced=True),
    "imitating": dataclasses.replace(SMALL, imitation=0.1),
}
"""Settings that change what an iteration is made of."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        if name in ("windows", "rounds", "priced")
        else name
        for name in LEARNERS
    ],
)
def test_a_run_cut_in_two_is_the_whole_run(tmp_path, monkeypatch, name) -> None:
    """Catches updates that a budget in seconds cut off for good, and anything the future depends on
    that is not kept; some of the places are within self-play, some within the updates."""
    monkeypatch.setattr("learned_mapping.learning.loop.LONGEST_S", -1.0)
    program = hard_program(3, 40)

    def run(path, samples=None, seconds=None) -> None:
        solve(program, 5, config=LEARNERS[name], games=samples, seconds=seconds, checkpoint=path)

    places = {
        "samples": (5, 11, 20),
        "seconds": (9, 45, 70),
        "interrupt": (3, 9, 20),
        "kill": (2, 10, 21),
    }
    assert_goes_on(monkeypatch, tmp_path, run, places, samples=24)


@pytest.mark.slow
def test_a_round_that_stands_still_ends_and_learning_starts_anew(tmp_path) -> None:
    """Until then it is the training without patience; each round has its own settings; what was
    found is kept; it resumes within any round."""
    program, path, log = hard_program(3, 40), tmp_path / "state.npz", tmp_path / "log.jsonl"
    config = dataclasses.replace(SMALL, patience=8)
    whole = solve(program, 5, config=dataclasses.replace(config, iterations=24))
    rounds = whole.metrics["rounds"]
    assert 4 <= rounds <= 1 + whole.metrics["updates"] / config.patience
    once = solve(program, 5, config=dataclasses.replace(SMALL, iterations=8))
    assert once.metrics["rounds"] == 1
    alike = [one["policy_loss"] == other["policy_loss"] for one, other in zip(whole.log, once.log)]
    first = alike.index(False)
    assert first >= config.patience // SMALL.updates and not any(alike[first:])
    best = [row["best"] for row in whole.log if row["best"] is not None]
    assert best == sorted(best) and best[-1] == pytest.approx(whole.metrics["return"])
    actual = [row["best_found"] for row in whole.log]
    assert min(np.diff(actual)) < 0.0 and whole.metrics["best_found"] == max(actual)
    in_windows = [row["updates"] for row in whole.log if row["equal"] > 0.0]
    assert min(np.diff(in_windows)) == round_config(config, 2).updates > SMALL.updates
    for stop in range(first, 24, 8):
        solve(
            program,
            5,
            config=dataclasses.replace(config, iterations=stop),
            checkpoint=path,
            log=log,
        )
    resumed = solve(
        program, 5, config=dataclasses.replace(config, iterations=24), checkpoint=path, log=log
    )
    _same(whole, resumed)
    assert resumed.metrics["rounds"] == rounds
    assert resumed.metrics["recent_return"] == whole.metrics["recent_return"]
    with pytest.raises(InputError, match="patience"):
        config_for(200, patience=100, frozen=True)


def test_it_learns() -> None:
    """Whole games of the agent after training are better than random games, by more than the spread
    of their mean."""
    program = hard_program(3, 40)
    values = random_returns(program, 500)
    actual = solve(program, 0, config=dataclasses.replace(SMALL, iterations=60))
    assert actual.metrics["updates"] == 480
    assert actual.metrics["own_return"] > values.mean() + 2.0 * values.std()
    assert (
        actual.metrics["best_found"]
        >= actual.metrics["return"]
        >= actual.metrics["own_return"] - 1e-9
    )
    numbers, returns, *_ = zip(*actual.stages)
    assert (
        len(numbers) > 5 and list(numbers) == sorted(set(numbers)) and numbers[-1] <= actual.samples
    )
    assert max(returns) <= actual.metrics["return"] and returns[-1] > returns[0]


def test_whole_games_beside_windows_keep_pace(monkeypatch) -> None:
    """However long the program, a game ends about as many iterations after it began as it shall."""
    program, ends = hard_program(3, 200), []
    for pace in (1000, 2):
        monkeypatch.setattr(selfplay, "PACE", pace)
        ends.append(solve(program, 0, config=dataclasses.replace(WINDOWS, moves=2, iterations=6)))
    (slow, fast), games = ends, WINDOWS.games - WINDOWS.windows
    assert slow.samples == 0 and 2 * games <= fast.samples <= 4 * games


def test_controls_do_what_they_say() -> None:
    """The frozen control makes no update; imitation alone has no search."""
    program, settings = hard_program(3, 40), dataclasses.replace(WINDOWS, iterations=2)
    frozen = solve(program, 0, config=dataclasses.replace(settings, frozen=True))
    assert frozen.metrics["updates"] == 0
    assert frozen.log[-1]["policy_loss"] is None
    changes = {"simulations": 0, "unroll": 0, "imitation": 1.0}
    imitated = solve(program, 0, config=dataclasses.replace(settings, **changes))
    assert imitated.metrics["updates"] == 2 * WINDOWS.updates
    assert imitated.log[-1]["reward_loss"] == 0.0


def test_with_prices_it_begins_at_the_rules_game() -> None:
    """And never returns less, nor less than the best game it has met; its control as well."""
    program = hard_program(3, 40)
    rule = methods.solve(program, "priced", samples=60).metrics["return"]
    for changes in ({}, {"frozen": True}):
        config = dataclasses.replace(WINDOWS, priced=True, iterations=3, **changes)
        actual = solve(program, 0, config=config)
        assert actual.curve["y"][0] == pytest.approx(rule)
        assert actual.metrics["return"] == pytest.approx(actual.metrics["best_found"])
        assert actual.metrics["return"] >= rule - 1e-12
        assert validate(program, actual.solution, exact=True).valid
    for buffers in (200, 5000):
        assert config_for(buffers, priced=True).windows > 0
    with pytest.raises(InputError, match="priced"):
        config_for(5000, priced=True, windows=0)


def test_a_policy_improves_without_a_search() -> None:
    """The head plays; its target is moved by what each action brings in the model, a nat at most;
    and it learns."""
    config = dataclasses.replace(SMALL, simulations=0, value_scale=2.0)
    networks = Networks(config, (40, 40, 3))
    parameters = networks.init(np.random.default_rng(0), 0.0)
    rng = np.random.default_rng(1)
    seen, ids, legal = (
        rng.standard_normal((6, SEEN)).astype(np.float32),
        np.ones((6, 3), np.int32),
        np.ones((6, 3), bool),
    )
    legal[0, 1] = False
    parameters = jax.tree.map(lambda leaf: leaf + rng.normal(0.0, 0.2, leaf.shape), parameters)
    state = networks.represent(parameters, seen, ids)
    head = networks.predict(parameters, state)
    value, decode = networks.atoms.decode(head.value), networks.atoms.decode
    worth = []
    for action in range(3):
        after, reward = networks.dynamics(parameters, state, np.full(6, action))
        worth.append(
            decode(reward) + config.discount * decode(networks.predict(parameters, after).value)
        )
    gain = np.clip(
        config.value_scale * (np.stack(worth, 1) - np.asarray(value)[:, None]), -1.0, 1.0
    )
    expected = jax.nn.softmax(np.where(legal, head.policy + gain, -np.inf))
    actual = make_decide(networks, config)(
        parameters, seen, ids, legal, 0, 0, np.full(6, 1e-4, np.float32)
    )
    np.testing.assert_allclose(actual.policy, expected, atol=1e-5)
    assert np.ptp(gain) > 0.0
    np.testing.assert_array_equal(
        actual.action, np.argmax(np.where(legal, head.policy, -np.inf), axis=1)
    )
    program = hard_program(3, 40)
    values = random_returns(program, 500)
    trained = solve(program, 0, config=dataclasses.replace(config, iterations=60))
    assert trained.metrics["own_return"] > values.mean() + 2.0 * values.std()


def test_the_search_in_the_game_itself() -> None:
    """Without learning it plays better than at random."""
    program = hard_program(3, 40)
    values = random_returns(program, 500)
    true = dataclasses.replace(SMALL, true_dynamics=True, frozen=True)
    alone = solve(program, 0, config=dataclasses.replace(true, iterations=12))
    assert alone.metrics["updates"] == 0 and validate(program, alone.solution, exact=True).valid
    assert alone.metrics["recent_return"] > values.mean() + 3.0 * values.std() / np.sqrt(
        alone.samples
    )


def test_settings_are_checked() -> None:
    for buffers, changes in ((200, {}), (5000, {"frozen": True})):
        with pytest.raises(InputError, match="true_dynamics"):
            config_for(buffers, true_dynamics=True, **changes)
    assert config_for(5000).windows > 0 == config_for(200).windows
    assert changes_from_json(parse_json(b'{"updates": 3, "ids": false}', "x")) == {
        "updates": 3,
        "ids": False,
    }
    with pytest.raises(InputError, match="updates"):
        changes_from_json(parse_json(json.dumps({"updates": "many"}).encode(), "x"))
    with pytest.raises(InputError, match="windows"):
        config_for(200, windows=100)
    alone = {"true_dynamics": True, "frozen": True, "simulations": 0}
    wrong = [
        {"cold_games": 65},
        {"patience": 9, "potential": False},
        alone,
        {"atoms": 1},
    ]
    for changes in (*wrong, *({name: bad} for name in RANGES for bad in (-2e3, math.nan, "2"))):
        with pytest.raises(InputError, match=next(iter(changes))):
            config_for(200, **changes)
    numbers = {
        field.name for field in dataclasses.fields(AgentConfig) if field.type in (int, float)
    }
    assert set(RANGES) == numbers
    with pytest.raises(InputError, match="backup"):
        config_for(5000, backup=False)
