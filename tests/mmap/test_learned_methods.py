"""The methods that learn, by name: what an arm leaves out is left out."""

from __future__ import annotations

import numpy as np
from learned_mapping.mmap.learned_methods import ABLATIONS, solve

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap.ablation import ARMS
from learned_mapping.companion.mmap.runs import code_of, plan_run
from learned_mapping.mmap.searches.edit_search import checkpoints
from learned_mapping.mmap.searches.edit_search import search as edits
from learned_mapping.mmap.validate import validate
from mmap_games import hard_program


def test_from_scratch_means_a_new_network(monkeypatch):
    """Catches a flag that does not reach the agent, and one network for all seeds."""
    program, begun = hard_program(3, 60), []
    shipped = checkpoints.scorer_for(program.name).first

    def kept(search, rng, scorer):
        begun.append(scorer.first.copy())
        edit_search(search, rng, scorer)

    edit_search = edits.edit_search
    monkeypatch.setattr(edits, "edit_search", kept)
    found = [
        solve(program, m, seed=s, samples=30) for m, s in (("muzero", 0), ("muzero-scratch", 0), ("muzero-scratch", 1))
    ]
    assert np.array_equal(begun[0], shipped)
    assert not np.array_equal(begun[1], shipped) and not np.array_equal(begun[1], begun[2])
    assert all(validate(program, result.solution, exact=True).valid for result in found)
    again = solve(program, "muzero-scratch", seed=1, samples=30)
    assert np.array_equal(begun[3], begun[2]) and again.solution == found[2].solution


def test_its_record_rests_on_the_agent_and_on_no_checkpoint():
    """Catches a record that stays fresh when the edits change, or goes stale with a network it does not use."""
    codes = {method: code_of(Run("module:function", method, "one")) for method in ("muzero", "muzero-scratch")}
    assert codes["muzero"] == codes["muzero-scratch"]
    assert "checkpoint" in plan_run("muzero", "rnn_0", {}).config
    assert "checkpoint" not in plan_run("muzero-scratch", "rnn_0", {}).config


def test_figure_7_keeps_its_arms():
    """Catches the arm of another artifact run a second time."""
    assert set(ABLATIONS) - set(ARMS) == {"muzero-scratch"}
