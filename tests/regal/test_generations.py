"""A population looked at after every generation is the one that the search has."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.companion.figures.regal_stepthrough import CHILD, DRAWN, KEPT, generations
from learned_mapping.errors import InputError
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.methods import schedule_fitness
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import BrkgaParameters, brkga
from learned_mapping.regal.searches.proposals import law_of

COUNT = 12


@pytest.fixture(scope="module")
def instance():
    return Instance(random_graph(np.random.default_rng(3), "towers", 30))


def laws(instance):
    """None; one that feeds all; one that feeds half of the mutants alone."""
    parameters = np.ones((30, 3, 2))
    parameters[:15, 0, 0] = 4.0
    yield None
    for options in ({}, {"in_initial": False, "mutant_share": 0.5}):
        yield law_of(parameters, **options)


def test_generations_are_those_of_the_search(instance):
    """Catches other randomness, another law or another order of steps: every generation's best must be the search's."""
    for law in laws(instance):
        found = generations(instance, np.random.default_rng(7), COUNT, law=law)
        budget = Budget(samples=found[-1].evaluations)
        brkga(instance, np.random.default_rng(7), budget, law=law)
        assert budget.samples == found[-1].evaluations
        for one in found:
            curve = budget.curve()
            reached = [y for y, s in zip(curve["y"], curve["samples"]) if s <= one.evaluations]
            assert one.best_fitness == min(reached)


def test_a_generation_is_of_one_piece(instance):
    """Catches elites or a best schedule of another generation, and origins that are out of place."""
    parameters = BrkgaParameters(population=40)
    found = generations(instance, np.random.default_rng(1), COUNT, parameters=parameters)
    assert [one.number for one in found] == list(range(COUNT + 1))
    assert (found[0].origin == DRAWN).all() and found[0].evaluations == 40
    for one in found:
        assert schedule_fitness(instance, one.best) == one.best_fitness
        np.testing.assert_array_equal(one.elite_devices[0], one.best.placement)
        assert one.elite_devices.shape == (parameters.elites, 30)
    for before, after in itertools.pairwise(found):
        counts = np.bincount(after.origin, minlength=3).tolist()
        assert counts == [parameters.elites, parameters.mutants, 40 - parameters.elites - parameters.mutants]
        kept = np.sort(after.fitness[after.origin == KEPT])
        np.testing.assert_array_equal(kept, np.sort(before.fitness)[: parameters.elites])
        assert (after.origin == CHILD).sum() == after.evaluations - before.evaluations - parameters.mutants


def test_a_negative_count_is_refused(instance):
    with pytest.raises(InputError, match="at least 0"):
        generations(instance, np.random.default_rng(0), -1)
