"""Tests of the paper's learners by name: honest about their start; `test_conformance` has the
rest."""

import numpy as np
import pytest

from cuts import assert_goes_on
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.agent import checkpoints
from learned_mapping.mcm.agent.config import SIZES, agent_config
from learned_mapping.mcm.agent.ppo import make_policy, new_learned
from learned_mapping.mcm.methods import POLICIES, all_methods, solve
from learned_mapping.mcm.searches.greedy import careful_greedy
from learned_mapping.programs.synthetic import random_graph


@pytest.fixture
def small_policy(tmp_path, monkeypatch):
    """Untrained policies in place of the shipped ones, small enough to compile fast."""
    monkeypatch.setattr(
        checkpoints,
        "checkpoint_path",
        lambda pretraining=0, policy="chips": tmp_path / f"{policy}.npz",
    )
    monkeypatch.setitem(SIZES, "quick", {"layers": 1, "width": 16})
    for policy, settings in POLICIES.items():
        config = agent_config("quick", **{"epochs": 2, **settings})
        parameters = new_learned(make_policy(config), np.random.default_rng(0)).parameters
        checkpoints.save_policy(checkpoints.checkpoint_path(policy=policy), config, parameters, {})


def test_start_is_the_first_sample_of_any_search(small_policy):
    """Catches a start that costs no sample, is lost, or goes to one method alone."""
    graph = random_graph(np.random.default_rng(1), "towers", 30)
    careful = ChipModel(graph, ChipPackage(chips=5))
    careful = careful.throughput(careful_greedy(careful))
    for method in ("random", "zeroshot", "sa"):
        result = solve(graph, method, chips=5, samples=1, start="greedy-careful")
        assert result.samples == 1 and result.metrics["throughput"] == pytest.approx(careful)


def test_faults_are_named():
    """Catches a traceback for a typing error."""
    graph = random_graph(np.random.default_rng(0), "towers", 8)
    faults = {"finetune": {"method": "magic"}}
    faults["start"] = {"method": "sa", "start": "luck"}
    for word, bad in faults.items():
        with pytest.raises(InputError, match=word):
            solve(graph, samples=1, **bad)


def test_policy_over_too_many_chips_says_what_to_do():
    """Catches an allocation of gigabytes in place of an error."""
    graph = random_graph(np.random.default_rng(0), "towers", 20_000)
    with pytest.raises(InputError, match="over costs"):
        solve(graph, "rl", chips=4096, samples=1)


RESUMABLE = [name for name, method in all_methods("quick").items() if method.resumable]


@pytest.mark.parametrize("method", RESUMABLE)
def test_a_run_cut_in_two_is_the_whole_run(small_policy, tmp_path, monkeypatch, method):
    """Catches an update that the cut run left out, a batch that it drew in part, and anything that
    is not kept."""
    graph = random_graph(np.random.default_rng(2), "towers", 24)

    def run(path, **limits):
        solve(graph, method, chips=4, profile="quick", checkpoint=str(path), **limits)

    places = {
        "samples": (20, 33, 60),
        "seconds": (1, 2, 4),
        "interrupt": (1, 27, 70),
        "kill": (5, 40, 79),
    }
    assert_goes_on(monkeypatch, tmp_path, run, places, samples=80)
