"""The agent whole: valid solutions, ablations, and runs that go on as if nothing had happened."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import read_checkpoint
from learned_mapping.learning.loop import Log, read_log, resume, train
from learned_mapping.mmap import methods
from learned_mapping.mmap.learned_methods import LEARNED_METHODS
from learned_mapping.mmap.learned_methods import solve as solve_by_name
from learned_mapping.mmap.muzero.agent import MuZeroAgent
from learned_mapping.mmap.muzero.config import PAPER, PROFILES, MuZeroConfig, improved_config, paper_config
from learned_mapping.mmap.muzero.curve import ROW, ResumableBudget
from learned_mapping.mmap.muzero.demonstrations import demonstrate, wanted_actions
from learned_mapping.mmap.muzero.learner import make_learner
from learned_mapping.mmap.muzero.position import Position
from learned_mapping.mmap.muzero.reanalyse import make_batch
from learned_mapping.mmap.muzero.solve import _result, solve
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.validate import validate
from mmap_games import hard_program
from muzero_small import IMPROVED, SMALL

PROGRAM = hard_program(7, 60)


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        IMPROVED,
        dataclasses.replace(SMALL, search="none"),
        dataclasses.replace(SMALL, search="exact", simulations=8),
        dataclasses.replace(SMALL, drop_backup=False),
    ],
    ids=["puct", "improved", "policy-only", "search-only", "no-drop-backup"],
)
def test_solutions_are_valid_and_repeatable(config):
    """Catches a best game that is not the one returned, and randomness from outside the seed."""
    result = solve(PROGRAM, 3, games=9, config=config)
    verdict = validate(PROGRAM, result.solution, exact=True)
    assert verdict.valid, str(verdict)
    for cost in ("return", "saving_s", "latency_s"):
        assert verdict.costs[cost] == pytest.approx(result.metrics[cost], rel=1e-9)
    assert result.curve["y"][-1] == result.metrics["return"] > 0
    assert 0 < result.samples <= 9
    again = solve(PROGRAM, 3, games=9, config=config)
    assert again.solution == result.solution and again.curve["y"] == result.curve["y"]
    for row in result.log:
        assert set(row) == set(ROW)


class Killed(Exception):
    """Stands for the kill of the process."""


def run(folder, until: int, kill_after: int | None = None) -> MuZeroAgent:
    """Trains to an iteration, with a checkpoint after each; `kill_after` so many questions whether to stop it dies."""
    agent = MuZeroAgent(PROGRAM, IMPROVED, 1, ResumableBudget(samples=10_000))
    resume(agent, folder / "agent.npz")
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        if asked == kill_after:
            raise Killed
        return agent.iterations >= until

    train(agent, stop, log=Log(folder / "log.jsonl", agent.iterations), checkpoint=folder / "agent.npz", every=1)
    return agent


def test_an_interrupted_run_ends_with_the_same_bits(tmp_path):
    """Six iterations at once, and six in pieces, killed at random moments in play and in training."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "pieces").mkdir()
    whole = run(tmp_path / "whole", 6)
    rng = np.random.default_rng(0)
    kills = 0
    while kills < 4:
        try:
            run(tmp_path / "pieces", 3, kill_after=int(rng.integers(2, 40)))
        except Killed:
            kills += 1
        else:
            break
    run(tmp_path / "pieces", 3)
    with pytest.raises(Killed):
        run(tmp_path / "pieces", 6, kill_after=9)
    pieces = run(tmp_path / "pieces", 6)
    assert kills > 0 and pieces.iterations == whole.iterations == 6
    one, two = (read_checkpoint(tmp_path / name / "agent.npz") for name in ("whole", "pieces"))
    assert one[0].keys() == two[0].keys()
    for name, array in one[0].items():
        np.testing.assert_array_equal(array, two[0][name], err_msg=name)
    for header in (one[1], two[1]):
        del header["budget"]["seconds"], header["budget"]["curve"][0]
    assert one[1] == two[1]
    rows = [read_log(tmp_path / name / "log.jsonl") for name in ("whole", "pieces")]
    for row in (*rows[0], *rows[1]):
        del row["seconds"]
    assert rows[0] == rows[1] and len(rows[0]) == 6


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    path = tmp_path / "agent.npz"
    solve(PROGRAM, 1, games=5, config=IMPROVED, checkpoint=path, every=1)
    assert path.exists()
    for program, seed, config in ((PROGRAM, 2, IMPROVED), (hard_program(8, 60), 1, IMPROVED), (PROGRAM, 1, SMALL)):
        with pytest.raises(InputError, match=r"agent\.npz: (seed|program|config)"):
            solve(program, seed, games=5, config=config, checkpoint=path)


def test_training_fits_a_batch():
    """The learning test of the loss: on one batch all its parts fall, and the policy learns what is legal."""
    agent = MuZeroAgent(PROGRAM, SMALL, 0, ResumableBudget(samples=10_000))
    while len(agent.replay) < 60:
        agent.iterate(lambda: False)
    batch = make_batch(agent.replay, SMALL, agent.rng, agent._search, agent.infer)
    init, update = make_learner(SMALL)
    learner = init(np.random.default_rng(5))
    rows = []
    for _ in range(60):
        learner, metrics = update(learner, batch)
        rows.append({name: float(value) for name, value in metrics.items()})
    assert rows[-1]["value_loss"] < 0.8 * rows[0]["value_loss"]
    assert rows[-1]["reward_loss"] < 0.8 * rows[0]["reward_loss"]
    assert rows[-1]["policy_loss"] < 0.9 * rows[0]["policy_loss"] == pytest.approx(0.9 * np.log(3), rel=0.2)


def test_the_toy_is_solved():
    """A whole agent finds the optimum of 2/3."""
    assert solve(toy_program(), 0, games=60, config=SMALL).metrics["own_return"] == pytest.approx(2 / 3)


def test_demonstrations_count_and_teach():
    """Any mapping: the random one given here is replayed exactly, and the result is not below it."""
    mapping = methods.solve(PROGRAM, "random", samples=20).solution
    value = validate(PROGRAM, mapping).costs["return"]
    result = solve(PROGRAM, 0, games=4, config=SMALL, demonstrations=[mapping])
    assert result.metrics["return"] >= value - 1e-12
    agent = MuZeroAgent(PROGRAM, SMALL, 0, ResumableBudget(samples=100), [mapping])
    agent._prepare()
    columns = agent.replay.arrays()
    total = columns["field.reward"].sum() / SMALL.network.value_scale
    assert total == pytest.approx(value, rel=1e-4)
    assert (columns["field.policy"].argmax(axis=-1) == columns["field.action"]).all()
    doubtful = demonstrate(Position(PROGRAM), wanted_actions(mapping), agent.observer, 1.0, confidence=0.7)
    policy, legal = np.stack(doubtful.policy), np.stack(doubtful.legal)
    np.testing.assert_allclose(policy.sum(axis=-1), 1.0, rtol=1e-6)
    assert (policy[~legal] == 0).all() and (policy[legal] > 0.1).all()
    np.testing.assert_allclose(policy[np.arange(len(policy)), doubtful.position.actions], 0.7, rtol=1e-6)


def test_without_a_complete_game_everything_is_dropped():
    """Without Drop-backup every game may be lost: the answer is valid all the same, and worth nothing."""
    budget = ResumableBudget(samples=1)
    budget.record(0.0)
    result = _result(PROGRAM, None, budget, {"own_return": 0.0}, ())
    assert validate(PROGRAM, result.solution).valid and not result.solution.placed.any()
    assert result.metrics["return"] == result.curve["y"][-1] == 0.0 and result.samples == 1


def test_a_budget_in_seconds_too_short_for_a_game_still_gives_one():
    result = solve(PROGRAM, 0, seconds=1e-3, config=SMALL)
    assert result.samples == 1 and validate(PROGRAM, result.solution, exact=True).valid


def test_methods_by_name():
    """Methods that do not learn are passed through, and the paper's agent has nothing that the paper does not."""
    for name in ("random", "greedy"):
        one, two = solve_by_name(PROGRAM, name, samples=4), methods.solve(PROGRAM, name, samples=4)
        assert one.solution == two.solution
    assert set(LEARNED_METHODS) == {"muzero-paper", "gumbel", "muzero"}
    for profile in PROFILES:
        paper, improved = paper_config(profile), improved_config(profile)
        assert (paper.search, paper.demonstrations, paper.shaped) == ("puct", "none", False)
        assert (improved.search, improved.demonstrations, improved.shaped) == ("gumbel", "greedy-tuned", True)


def test_configurations():
    """Table 6 of the paper, and numbers that make no sense."""
    assert (PAPER.discount, PAPER.simulations, PAPER.init_temperature, PAPER.temperature_decay_steps) == (
        0.9999, 400, 1.0, 400_000,
    )  # fmt: skip
    assert (PAPER.final_temperature, PAPER.noise_fraction, PAPER.noise_alpha) == (0.2, 0.25, 0.03)
    assert (PAPER.training_steps, PAPER.batch_size, PAPER.learning_rate) == (1_000_000, 512, 2e-4)
    assert (PAPER.weight_decay, PAPER.replay_size, PAPER.reanalyse_fraction) == (1e-4, 20_000, 0.5)
    for wrong in ({"search": "magic"}, {"simulations": 0}, {"discount": 0.0}, {"shaped": True}, {"batch_size": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            MuZeroConfig(**wrong)
    with pytest.raises(InputError, match="none of quick, full, paper"):
        paper_config("huge")
    with pytest.raises(InputError, match="muzero"):
        solve_by_name(toy_program(), "magic")
