"""The agent in the paper's size, at tiny widths: it learns, plays legally, resumes to the same
bits; its settings."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from learned_mapping.cli import main
from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import read_checkpoint
from learned_mapping.mmap.agent import config, paper_network
from learned_mapping.mmap.agent.config import (
    PAPER,
    WHOLE,
    changes_from_json,
    config_for,
    config_to_json,
)
from learned_mapping.mmap.agent.games import Games
from learned_mapping.mmap.agent.learner import Learner, make_update
from learned_mapping.mmap.agent.network import Networks
from learned_mapping.mmap.agent.replay import Batch
from learned_mapping.mmap.agent.search import make_decide
from learned_mapping.mmap.agent.solve import solve
from learned_mapping.mmap.methods import METHODS, PAPER_METHODS, PROBLEM
from learned_mapping.mmap.observation import AHEAD, CELLS, PARTS, PROFILE
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import write_program
from learned_mapping.programs.json_io import parse_json
from mmap_games import hard_program

TINY = dataclasses.replace(
    PAPER,
    games=8,
    moves=8,
    cold_games=2,
    simulations=4,
    width=16,
    batch=16,
    updates=2,
    reanalyse=2,
    unroll=2,
    learning_rate=3e-3,
    replay=500,
    evaluate_every=0,
)


def test_every_learner_has_the_papers_size() -> None:
    """Catches a method whose settings do not go with those of the paper's size."""
    for method in PAPER_METHODS.values():
        if method.resumable:
            for buffers in (200, 5000):
                config = config_for(buffers, **method.run.args[0])
                assert config.network == "paper" and not config.patience


def test_settings_go_through_json_and_are_checked() -> None:
    text = json.dumps(config_to_json(TINY)).encode()
    assert config_for(200, **changes_from_json(parse_json(text, "x"))) == TINY
    for text, field in (
        ('{"network": "huge"}', "network"),
        ('{"network": 3}', "network"),
        ('{"width": 1.5}', "width"),
    ):
        with pytest.raises(InputError, match=field):
            changes_from_json(parse_json(text.encode(), "x"))
    for changes in ({"network": "huge"}, {"width": 0}, {"width": 10**9}):
        with pytest.raises(InputError, match=next(iter(changes))):
            config_for(200, size="paper", **changes)
    with pytest.raises(InputError, match="size"):
        config_for(200, size="big")


def test_the_image_shows_the_memory() -> None:
    """A cell's share, and the four finer ones under it, stand where the observation has them."""
    rng = np.random.default_rng(0)
    cells, profile = rng.random((2, PARTS["map"])), rng.random((2, PROFILE))
    image = np.asarray(
        paper_network.memory_image(cells.astype(np.float32), profile.astype(np.float32))
    )
    assert image.shape == (2, len(AHEAD), CELLS, 1 + PROFILE // CELLS)
    assert image[1, 3, 5, 0] == np.float32(cells[1, 3 * CELLS + 5])
    np.testing.assert_array_equal(image[1, 7, 5, 1:], profile[1, 20:24].astype(np.float32))


@pytest.mark.slow
def test_its_loss_falls_and_its_search_is_legal() -> None:
    program = hard_program(3, 40)
    networks = Networks(
        TINY, (program.num_buffers, program.num_tensors, program.num_alias_groups + 1)
    )
    learner = Learner(networks, *make_update(networks, TINY), np.random.default_rng(0))
    games, rng, steps = Games(program, TINY.batch), np.random.default_rng(1), TINY.unroll + 1
    for _ in range(4):
        games.step(np.argmax(np.where(games.legal, rng.random((TINY.batch, 3)), -1.0), axis=1))
    batch = Batch(
        games.vector.astype(np.float16),
        games.ids,
        rng.integers(0, 3, (TINY.batch, steps)).astype(np.int8),
        rng.dirichlet(np.ones(3) * 0.2, (TINY.batch, steps)).astype(np.float32),
        *rng.normal(size=(2, TINY.batch, steps)).astype(np.float32),
        np.ones((TINY.batch, steps), bool),
    )
    losses = [float(sum(jax.device_get(learner.step(batch)).values())) for _ in range(100)]
    assert losses[-1] < 0.7 * losses[0], losses[::20]
    ones = np.ones(TINY.batch, np.float32)
    actual = make_decide(networks, TINY)(
        learner.parameters, games.vector, games.ids, games.legal, 0, 0, ones
    )
    assert games.legal[np.arange(TINY.batch), np.asarray(actual.action)].all()
    np.testing.assert_allclose(np.asarray(actual.policy).sum(axis=1), 1.0, rtol=1e-5)
    assert not np.asarray(actual.policy)[~games.legal].any()


@pytest.mark.slow
def test_it_trains_resumes_to_the_same_bits_and_plays_valid_games(tmp_path) -> None:
    program, path = hard_program(3, 40), tmp_path / "state.npz"
    whole = solve(program, 5, config=dataclasses.replace(TINY, iterations=4))
    solve(program, 5, config=dataclasses.replace(TINY, iterations=2), checkpoint=path)
    resumed = solve(program, 5, config=dataclasses.replace(TINY, iterations=4), checkpoint=path)
    assert (
        whole.solution == resumed.solution
        and whole.metrics["own_return"] == resumed.metrics["own_return"]
    )
    for name in ("policy_loss", "entropy", "decisions"):
        assert [row[name] for row in whole.log[2:]] == [row[name] for row in resumed.log]
    assert validate(program, whole.solution, exact=True).valid


def test_the_profile_paper_makes_learners_of_the_papers_size() -> None:
    """And nothing else: would catch a light learner that changes with it, and a rule that does."""
    for name, method in PROBLEM.methods("paper").items():
        same = method == METHODS[name]
        assert same != method.resumable
    assert (
        config_for(200, **PROBLEM.methods("paper")["search-only"].settings).simulations
        == PAPER.simulations
    )
    changes = METHODS["muzero"].settings
    assert {*changes} == {"patience"} and config_for(200, **changes) == dataclasses.replace(
        WHOLE, **changes
    )


@pytest.mark.slow
def test_the_command_line_knows_size_and_device(tmp_path, monkeypatch, capsys) -> None:
    """Would catch an option that is read and not used: the checkpoint says whose it is."""
    monkeypatch.setattr(config, "PAPER", TINY)
    program, out, state = tmp_path / "p.json", tmp_path / "m.json", tmp_path / "s.npz"
    write_program(program, hard_program(3, 40))
    options = [
        "--size",
        "paper",
        "--device",
        "cpu",
        "--samples",
        "3",
        "--alone",
        "--checkpoint",
        str(state),
    ]
    assert (
        main(["solve", "mmap", str(program), "--method", "muzero", "--out", str(out), *options])
        == 0
    )
    capsys.readouterr()
    assert json.loads(out.read_text())["made"]["options"] == {"size": "paper", "device": "cpu"}
    assert read_checkpoint(state)[1]["identity"]["config"]["network"] == "paper"
    assert main(["check", "mmap", str(program), str(out)]) == 0
