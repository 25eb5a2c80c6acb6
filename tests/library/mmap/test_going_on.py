"""What goes on from a learner's game where rules are allowed beside it."""

import numpy as np
import pytest

from learned_mapping import problem
from learned_mapping.mmap import methods
from learned_mapping.mmap.mapping import all_dropped
from learned_mapping.mmap.validate import validate
from learned_mapping.problem import Result
from mmap_games import hard_program


@pytest.fixture
def poor_agent(monkeypatch):
    """A learner that has learned nothing: it drops everything; the budgets that it was given."""
    budgets = []

    def learn(changes, program, rng, budget):
        budgets.append(budget)
        mapping = all_dropped(program)
        metrics = methods.PROBLEM.metrics(program, mapping) | {"updates": 3.0}
        return Result(mapping, metrics, budget.curve(), 7, 0.5)

    monkeypatch.setattr(methods, "_learn", learn)
    return budgets


def test_searches_go_on_from_the_best_and_are_named(poor_agent):
    """Would catch a learner that ends behind a rule beside it, and a search's mapping under the
    learner's name."""
    program = hard_program(1, 30)
    start = methods.solve(program, "greedy-tuned").solution
    _, rng = problem.problem("mmap").begin(program, 0)
    result = methods.METHODS["muzero"].go_on(program, rng, problem.Budget(samples=2000), [start])
    assert result.by in methods.GOING_ON and result.metrics["updates"] == 3.0
    assert methods.PROBLEM.value(program, result.solution) >= methods.PROBLEM.value(program, start)
    assert validate(program, result.solution).valid
    assert result.metrics["return"] == pytest.approx(
        validate(program, result.solution).costs["return"]
    )
    shares = sum(methods.GOING_ON.values())
    assert poor_agent[0].limit_samples == int((1.0 - shares) * 2000) and result.samples > 7


def test_nothing_found_leaves_the_learner_its_game(poor_agent):
    """Would catch a name for what nobody found."""
    program = hard_program(1, 30).with_memory(fast_bytes=1)
    rng = np.random.default_rng(0)
    result = methods.METHODS["muzero"].go_on(program, rng, problem.Budget(samples=50), [])
    assert result.by == "" and not result.solution.placed.any()
