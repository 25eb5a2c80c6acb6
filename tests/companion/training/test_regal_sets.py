import numpy as np
import pytest
from learned_mapping_builders import regal_choices
from learned_mapping_builders.training import regal_sets as regal_training_sets

from learned_mapping.budget import Budget
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.agent.learner import variant_from, variant_to
from learned_mapping.regal.methods import best_spectral_law
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import brkga
from learned_mapping.regal.searches.proposals import spectral_law


@pytest.fixture
def one_graph(monkeypatch, tmp_path):
    """A training set of one small graph, and a cache of its own."""
    instance = Instance(random_graph(np.random.default_rng(3), "layered", 30))
    monkeypatch.setattr(regal_training_sets, "training_instances", lambda dataset: [instance])
    monkeypatch.setattr(regal_training_sets, "_folder", lambda: tmp_path)
    return instance


def test_elites_of_the_chosen_law(one_graph, tmp_path):
    """Catches elites of several vectors in the place of the chosen law's, a cache that mixes the
    two up, and a training that goes on from another's state."""
    several = regal_training_sets.examples("traced-runtime")[0].elites
    chosen = regal_training_sets.examples("traced-runtime", from_chosen=True)[0].elites
    budget = Budget(samples=regal_training_sets.ELITE_EVALUATIONS)
    brkga(one_graph, np.random.default_rng(1), budget, law=best_spectral_law(one_graph))
    assert len(several.costs) > 1 and chosen.costs.tolist() == [budget.best]
    digest = regal_training_sets.elites_digest
    assert digest(regal_training_sets.examples("traced-runtime")) != digest(
        regal_training_sets.examples("traced-runtime", from_chosen=True)
    )
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = regal_training_sets.examples("traced-runtime", from_chosen=True)[0].elites
    assert np.array_equal(again.devices, chosen.devices)
    assert files == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


def test_points_of_the_grids_make_their_laws(one_graph):
    """Catches an order that a point names and its law lacks, and a point that does not survive the
    record's JSON."""
    seen = regal_training_sets.features(one_graph)
    ordered = [point for point in regal_choices.SPECTRAL_GRID if "transfers" in point]
    assert 2 * len(ordered) == len(regal_choices.SPECTRAL_GRID)
    for point in ordered:
        law = regal_choices._law(one_graph, spectral_law, point, seen)
        assert law.alpha[-1] == 1 + point["transfers"] and law.alpha[60:90].max() > 10
    variants = regal_choices.VARIANT_GRID
    assert [variant_from(variant_to(item)) for item in variants] == variants
    assert len(set(variants)) == len(variants)


def test_a_final_ranks_by_runs_that_the_grid_has_not_seen(one_graph, monkeypatch):
    """Catches a final over the grid's own seeds, one that looks at one network only, and points
    left out of it."""
    cost = {
        "lucky": lambda seed: 1.0 if seed < 2 else 3.0,
        "good": lambda seed: 2.0,
        "poor": lambda seed: 9.0,
    }
    seen = []

    def search(instance, law, seed):
        name, network = law
        seen.append((name, network, seed))
        return cost[name](seed) * (network if name == "good" else 1.0)

    def make(network):
        return lambda instance, seed, name: (name, network)

    monkeypatch.setattr(regal_choices, "search", search)
    monkeypatch.setattr(regal_choices, "FINALISTS", 2)
    memory = Instance(one_graph.graph, objective="memory")
    points, best = [{"name": name} for name in cost], np.ones(1)
    rows = regal_choices.grid(points, [memory], best, make(1.0), range(2))
    assert [row["gap_percent"] for row in rows] == [0.0, 100.0, 800.0]
    seen.clear()
    actual = regal_choices.finals(rows, [memory], best, [make(1.0), make(1.2)], 2)
    assert actual["chosen"] == {"name": "good"} and actual["grid"] == rows
    assert [row["gap_percent"] for row in actual["finalists"]] == pytest.approx([200.0, 120.0])
    assert {seed for _, _, seed in seen} == set(range(2, 2 + regal_choices.FINAL_SEEDS))
    assert {(name, network) for name, network, _ in seen} == {
        (n, w) for n in ("lucky", "good") for w in (1.0, 1.2)
    }
    assert regal_choices.finals(rows, [one_graph], best, [make(1.0)], 2)["chosen"] == {
        "name": "lucky"
    }


def test_siblings_are_the_networks_of_all_training_seeds():
    """Catches a final that takes another model's or dataset's networks."""
    folder = regal_choices.checkpoint_folder()
    names = [path.name for path in regal_choices.siblings(folder / "traced-memory-0.npz")]
    assert names == [f"traced-memory-{seed}.npz" for seed in range(3)]
