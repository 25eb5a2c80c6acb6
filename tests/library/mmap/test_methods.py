"""Methods: valid, repeatable, and better the more they may play."""

from dataclasses import replace

import numpy as np
import pytest
from learned_mapping_builders.synthetic_programs import random_program

from learned_mapping.budget import Budget
from learned_mapping.mmap.methods import METHODS, PLANS, PROBLEM, solve
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.searches.evolution import centred_ranks
from learned_mapping.mmap.searches.greedy import ThresholdRule
from learned_mapping.mmap.searches.search import Search
from learned_mapping.mmap.validate import validate
from mmap_games import hard_program

AGENT = (
    "muzero",
    "muzero-priced",
    "muzero-priced-frozen",
    "muzero-no-backup",
    "muzero-frozen",
    "search-only",
    "learning-only",
    "imitation",
    "ppo",
)
"""Held to the same in `tests/library/mmap/agent` and `tests/library/test_conformance.py`."""
CLASSICAL = [method for method in METHODS if method not in AGENT]


@pytest.mark.parametrize("method", CLASSICAL)
def test_solutions_are_valid_and_repeatable(method):
    """Catches a best game that is not the one returned, and randomness from outside the seed."""
    program = hard_program(7, 60)
    result = solve(program, method, seed=3, samples=120)
    verdict = validate(program, result.solution, exact=method not in PLANS)
    assert verdict.valid, str(verdict)
    for cost in ("return", "saving_s", "latency_s"):
        assert verdict.costs[cost] == pytest.approx(result.metrics[cost], rel=1e-9)
    assert (
        result.curve["y"][-1]
        == pytest.approx(result.metrics["return"], rel=1e-12)
        == max(result.curve["y"])
    )
    assert 0 < result.samples <= 120
    again = solve(program, method, seed=3, samples=120)
    assert again.solution == result.solution and again.curve["y"] == result.curve["y"]


def test_the_toy_is_solved():
    """The searches find its optimum, 2/3; greedy play does not have to."""
    for method in ("random", "evolution-logits", "edit-search"):
        assert solve(toy_program(), method, samples=400).metrics["return"] == pytest.approx(2 / 3)


def test_searches_improve_on_where_they_start():
    """One learning test: on a program with room for improvement each search beats what it starts
    from."""
    program = random_program(
        np.random.default_rng(1), 300, alias_fraction=0.2, fast_fraction=0.1, copy_ratio=2.0
    )
    values = {
        method: solve(program, method, seed=0, samples=1200).metrics["return"]
        for method in CLASSICAL
    }
    assert values["evolution-logits"] > values["random"]
    assert values["greedy-tuned"] > values["greedy"]
    assert values["edit-search"] > values["greedy-tuned"]


def test_a_rule_with_a_price_nobody_pays_places_nothing():
    """Catches a threshold on the wrong side, or one that applies to one action only."""
    program = hard_program(2, 60)
    search = Search(program, Budget(samples=10))
    assert search.play_linear_policy(ThresholdRule(price=1e6).weights()) == 0.0
    assert search.play_linear_policy(ThresholdRule(price=-1e6).weights()) > 0.0


def test_centred_ranks_by_hand():
    values = np.array([[3.0, 1.0], [1.0, 9.0]])
    assert centred_ranks(values) == pytest.approx(np.array([[1 / 6, -1 / 3], [-1 / 3, 0.5]]))
    assert centred_ranks(np.ones((2, 2))) == pytest.approx(np.zeros((2, 2)))


def test_a_mapping_that_loses_time_is_told():
    """Would catch silence where copies cost more than anything spares, and a word where they do
    not."""
    program = toy_program()
    flat = replace(program, latency_s=np.full(len(program.latency_s), 1e-6))
    actual = [solve(program, "random", seed=seed, samples=1).solution for seed in range(10)]
    assert any(
        "slower than leaving everything" in line for m in actual for line in PROBLEM.hints(flat, m)
    )
    assert PROBLEM.hints(program, solve(program, "edit-search", samples=50).solution) == []


@pytest.mark.parametrize("method", [*CLASSICAL, "muzero-no-backup", "ppo"])
def test_where_nothing_saves_time_nothing_is_placed(method):
    """Would catch copies that stall a program for no gain, and a return that divides by a saving of
    nothing."""
    program = toy_program()
    for latency_s in (
        1e-6 * (1 + np.arange(len(program.latency_s)) % 2),
        np.full(len(program.latency_s), 1e-6),
    ):
        worse = replace(program, latency_s=latency_s)
        assert worse.possible_saving_s == 0
        actual = solve(worse, method, seed=1, samples=5).solution
        verdict = validate(worse, actual)
        assert not actual.placed.any() and verdict.valid and verdict.costs["return"] == 0


@pytest.mark.parametrize("method", CLASSICAL)
def test_a_budget_that_is_spent_at_once_has_an_answer(method):
    """Catches a method that has nothing to return where no time is left."""
    program = hard_program(7, 60)
    assert validate(program, solve(program, method, seconds=1e-9).solution).valid


def test_ppo_computes_where_it_is_told():
    """Catches an option refused for a learner that has a network."""
    assert {"ppo", "muzero"} <= {*PROBLEM.users("device")} and "ppo" not in PROBLEM.users("size")
