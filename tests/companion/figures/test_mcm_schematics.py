"""Paper 2's schematics: each number in them is one of the code."""

import dataclasses

import numpy as np
import pytest
from learned_mapping_builders.training import pretrain

from learned_mapping.learning.checkpoint import read_checkpoint
from learned_mapping.mcm.agent.checkpoints import checkpoint_path
from learned_mapping.mcm.agent.config import agent_config
from learned_mapping.mcm.agent.network import ChipPolicy
from learned_mapping.style import svg_text
from learned_mapping_companion.artifact import reported
from learned_mapping_companion.figures.schematics import schematic
from learned_mapping_companion.mcm import graphs
from learned_mapping_companion.mcm import schematics as mcm_schematics


def text_of(figure) -> str:
    return "\n".join(text.get_text() for axes in figure.axes for text in axes.texts)


def value(result, instance, metric):
    (row,) = [
        r
        for r in result["rows"]
        if (r["instance"], r["metric"]) == (instance, metric) and "module" not in r
    ]
    return row["value"]


def test_the_method_is_that_of_the_configuration(monkeypatch):
    """Would catch a number that is typed: another default must reach rows and picture."""
    changed = dataclasses.replace(
        agent_config("full"), rollouts=28, minibatches=7, clip=0.35, mode="sample"
    )
    monkeypatch.setattr(mcm_schematics, "agent_config", lambda profile: changed)
    result = mcm_schematics.FIG1.result([])
    assert value(result, "full", "rollouts") == 28 and value(result, "full", "mode") == "sample"
    shown = text_of(schematic("mcm.fig1", result["rows"]))
    assert (
        "28 partitions" in shown
        and "7 mini-batches" in shown
        and "ε = 0.35" in shown
        and "SAMPLE" in shown
    )
    assert "FIX" not in shown


def test_the_network_is_the_one_that_learns():
    """Would catch weights of another network, a module that no box counts, and sizes of another
    profile."""
    result = mcm_schematics.FIG3.result([])
    for profile in ("full", "paper"):
        parameters = ChipPolicy(agent_config(profile)).new_parameters(np.random.default_rng(1))
        total = sum(array.size for arrays in parameters.values() for array in arrays.values())
        assert value(result, profile, "parameters_total") == total
    shown = text_of(schematic("mcm.fig3", result["rows"]))
    counts = [
        int(word.replace(",", ""))
        for word, unit in zip(shown.split(), shown.split()[1:])
        if unit == "weights"
    ]
    assert sum(counts) == value(result, "full", "parameters_total")
    assert f"{value(result, 'full', 'layers')} ({value(result, 'paper', 'layers')}) layers" in shown


def test_the_workers_are_those_of_the_training(monkeypatch):
    """Would catch counts that are typed rather than those of the data set and of the training."""
    monkeypatch.setattr(pretrain, "FINE_TUNE_SAMPLES", 123)
    monkeypatch.setitem(pretrain.SAMPLES, "full", 4321)
    monkeypatch.setitem(pretrain.SNAPSHOTS, "full", 11)
    result = mcm_schematics.FIG4.result([])
    assert value(result, "full", "iterations") == 4321 // value(result, "full", "rollouts")
    shown = text_of(schematic("mcm.fig4", result["rows"]))
    assert (
        f"{len(graphs.names('train'))} graphs" in shown
        and f"{len(graphs.names('validation'))} graphs" in shown
    )
    assert "11 (200) copies" in shown and "123 a graph" in shown and "4,321 (20,000)" in shown


def test_every_figure_draws_itself():
    """Would catch rows that lack what the pictures need, and a picture that differs each time."""
    for figure in ("FIG1", "FIG3", "FIG4"):
        rows = getattr(mcm_schematics, figure).result([])["rows"]
        once, again = (svg_text(schematic(f"mcm.{figure.lower()}", rows)) for _ in range(2))
        assert once == again


def test_the_papers_sizes_are_those_of_its_profile():
    """Where the paper gives a number, the profile `paper` must have it."""
    for figure in ("FIG1", "FIG3", "FIG4"):
        result = getattr(mcm_schematics, figure).result([])
        for row in reported(f"mcm.{figure.lower()}"):
            assert value(result, "paper", row["metric"]) == row["value"], row["metric"]


def test_the_shipped_policy_was_trained_so():
    """Would catch constants that have changed since, so that the picture is of another training."""
    if not checkpoint_path().exists():
        pytest.skip("no trained policy")
    facts = read_checkpoint(checkpoint_path())[1]["facts"]
    assert facts["samples"] == pretrain.SAMPLES["full"]
    for name, number in pretrain.SETTINGS.items():
        assert facts[name] == number
    scores = facts["scores"]
    assert len(scores) == pretrain.SNAPSHOTS["full"] + 1
    assert sum("finetune" in row for row in scores) == pretrain.FINALISTS["full"] + 1
    result = mcm_schematics.FIG4.result([])
    for name in ("samples", "learning_rate", "entropy"):
        assert value(result, "full", name) == facts[name]
    assert value(result, "full", "iterations") == scores[-1]["iteration"]
