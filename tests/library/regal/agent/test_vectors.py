"""The choice of a cut for a whole graph, and the race that is its control."""

import dataclasses

import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import write_checkpoint
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.agent.features import NODE_FEATURES, features
from learned_mapping.regal.agent.vectors import (
    FACTS,
    HIDDEN,
    VECTORS,
    VectorPolicy,
    cut_facts,
    inputs,
)
from learned_mapping.regal.methods import best_spectral_law, checkpoint_folder, solve
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.race import DRAWN, race, winner
from learned_mapping.regal.validate import validate


@pytest.fixture(scope="module")
def instance():
    return Instance(random_graph(np.random.default_rng(3), "series-parallel", 60))


def test_what_a_cut_looks_like(odd_graph, instance):
    """Finite on odd graphs; shares within 0 and 1; a vector that cuts nothing has no share."""
    rng = np.random.default_rng(0)
    for graph in (odd_graph(rng, 1), odd_graph(rng, 2), odd_graph(rng, 30)):
        odd = Instance(graph)
        assert np.isfinite(cut_facts(odd, features(odd))).all()
    facts = cut_facts(instance, seen := features(instance))
    assert (
        facts.shape == (len(VECTORS), len(FACTS))
        and (facts[:, :3] >= 0).all()
        and (facts[:, :2] <= 1).all()
    )
    whole = seen._replace(nodes=np.where(np.isin(NODE_FEATURES, VECTORS), 1.0, seen.nodes))
    assert (cut_facts(instance, whole)[:, :2] == 0).all()


def test_a_race_counts_its_samples_and_knows_the_better_law(instance):
    """Against a law that puts all on one device the cut wins; catches scores of the best so far for
    each chromosome."""
    one = best_spectral_law(instance)
    bad = type(one)(np.where(np.arange(len(one.alpha)) % 2, 1.0, 99.0), np.ones(len(one.alpha)))
    budget = Budget(samples=1000)
    scores, best = race(instance, np.random.default_rng(0), budget, [bad, one])
    assert (
        winner(scores) == 1
        and budget.samples == 2 * DRAWN
        and len(best) == instance.chromosome_length
    )
    assert budget.best == pytest.approx(np.exp(scores[:, 2].min())) and (np.diff(scores) < 0).all()
    short = Budget(samples=DRAWN + 3)
    cut_short, _ = race(instance, np.random.default_rng(0), short, [bad, one, one])
    assert (
        short.samples == DRAWN + 3
        and np.isinf(cut_short[2]).all()
        and np.isfinite(cut_short[:2]).all()
    )
    free = Instance(
        dataclasses.replace(instance.graph, op_seconds=np.zeros(instance.graph.num_ops))
    )
    with np.errstate(
        divide="raise", invalid="raise"
    ):  # a network reads the scores, which no cost of 0 may make infinite
        assert np.isfinite(
            race(free, np.random.default_rng(0), Budget(samples=100), [bad, one])[0]
        ).all()


def test_the_network_decides(instance, monkeypatch, tmp_path):
    """A policy that wants one vector gets it; another budget than the race's is left to the search.
    Catches a choice that is not the network's, and a race that is free."""
    best_spectral_law(instance)  # reads what was chosen, once, from the folder that has it
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    size = inputs(np.zeros((7, len(FACTS))), np.zeros((7, 3))).shape[-1]
    parameters = {
        "w": np.zeros((size, HIDDEN)),
        "b": np.zeros(HIDDEN),
        "v": np.zeros(HIDDEN),
        "linear": np.zeros(size),
    }
    costs = {}
    for wanted in (0, 4):
        parameters["linear"] = np.eye(size)[size - 7 + wanted]
        assert (
            VectorPolicy(parameters, np.zeros(size), np.ones(size)).choice(
                instance, np.zeros((7, 3))
            )
            == wanted
        )
        checkpoint_folder().mkdir(parents=True, exist_ok=True)
        arrays = parameters | {"mean": np.zeros(size), "scale": np.ones(size)}
        write_checkpoint(checkpoint_folder() / f"vector-x-{wanted}.npz", arrays, {})
        result = solve(instance, f"regal-vector:x-{wanted}", samples=2000, seed=1)
        assert validate(instance.graph, result.solution).valid and result.samples <= 2000
        costs[wanted] = result.metrics["makespan_s"]
    assert costs[0] != costs[4]
    with pytest.raises(InputError, match="running time alone"):
        solve(Instance(instance.graph, objective="memory"), "regal-vector:x-0", samples=500)
    with pytest.raises(InputError, match="there are: x-0, x-4"):
        solve(instance, "regal-vector:other", samples=500)
