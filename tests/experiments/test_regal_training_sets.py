from __future__ import annotations

import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.experiments import regal_choices, regal_training_sets
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.brkga import brkga
from learned_mapping.regal.instance import Instance
from learned_mapping.regal.laws import spectral_law
from learned_mapping.regal.learned_methods import best_spectral_law
from learned_mapping.regal.learner import variant_from, variant_to


@pytest.fixture
def one_graph(monkeypatch, tmp_path):
    """A training set of one small graph, and a cache of its own."""
    instance = Instance(random_graph(np.random.default_rng(3), "layered", 30))
    monkeypatch.setattr(regal_training_sets, "training_instances", lambda dataset: [instance])
    monkeypatch.setattr(regal_training_sets, "_folder", lambda: tmp_path)
    return instance


def test_elites_of_the_chosen_law(one_graph, tmp_path):
    """Catches elites of the several vectors in the place of the chosen law's, and a cache that mixes the two up."""
    several = regal_training_sets.examples("traced-runtime")[0].elites
    chosen = regal_training_sets.examples("traced-runtime", from_chosen=True)[0].elites
    budget = Budget(samples=regal_training_sets.ELITE_EVALUATIONS)
    brkga(one_graph, np.random.default_rng(1), budget, law=best_spectral_law(one_graph))
    assert len(several.costs) > 1 and chosen.costs.tolist() == [budget.best]
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = regal_training_sets.examples("traced-runtime", from_chosen=True)[0].elites
    assert np.array_equal(again.devices, chosen.devices)
    assert files == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


def test_points_of_the_grids_make_their_laws(one_graph):
    """Catches an order that a point names and its law lacks, and a point that does not survive the record's JSON."""
    seen = regal_training_sets.features(one_graph)
    ordered = [point for point in regal_choices.SPECTRAL_GRID if "transfers" in point]
    assert 2 * len(ordered) == len(regal_choices.SPECTRAL_GRID)
    for point in ordered:
        law = regal_choices._law(one_graph, spectral_law, point, seen)
        assert law.alpha[-1] == 1 + point["transfers"] and law.alpha[60:90].max() > 10
    variants = regal_choices.VARIANT_GRID
    assert [variant_from(variant_to(each)) for each in variants] == variants
    assert len(set(variants)) == len(variants)
