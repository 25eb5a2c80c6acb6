"""Tests of orders and cuts: valid, best for their order, complete."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.rules.constraints import is_valid, obeys_chain_rule
from learned_mapping.mcm.searches.order_cut import NUM_KEYS, best_cut, cut_arrays, cut_one, keys_of, order_by
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph


def models(count, low, high, chips, seed=0, **package):
    rng = np.random.default_rng(seed)
    for i in range(count):
        graph = random_graph(rng, list(GRAPH_FAMILIES)[i % len(GRAPH_FAMILIES)], int(rng.integers(low, high)))
        yield ChipModel(graph, ChipPackage(chips=chips, **package))


def test_places_grow_along_edges():
    """Catches a key that would put a consumer before its producer."""
    for model in models(5, 20, 40, 4):
        keys = keys_of(cut_arrays(model), model.op_seconds)
        edges = model.graph.op_edges
        assert keys.shape == (NUM_KEYS, model.graph.num_ops) and keys.min() >= 0 and keys.max() <= 1 + 1e-12
        assert np.all(keys[:, edges[:, 0]] <= keys[:, edges[:, 1]] + 1e-12)


def test_order_is_topological_whatever_the_key():
    """Catches an order that trusts its key."""
    for model in models(5, 20, 40, 4, seed=1):
        order = order_by(cut_arrays(model), np.random.default_rng(0).random(model.graph.num_ops))
        place = np.argsort(order)
        assert sorted(order) == list(range(model.graph.num_ops))
        assert np.all(place[model.graph.op_edges[:, 0]] < place[model.graph.op_edges[:, 1]])


def test_cut_equals_enumeration():
    """Catches a dynamic programme that misses a cut or a cost: every cut of nine ops into at most three is tried."""
    for model in models(8, 8, 10, 3, seed=2, link_bytes_per_s=2e9):
        arrays, n = cut_arrays(model), model.graph.num_ops
        order = order_by(arrays, keys_of(arrays, model.op_seconds)[4])
        place = np.argsort(order)
        least = np.inf
        for a, b in itertools.combinations_with_replacement(range(1, n + 1), 2):
            chips = ((place >= a).astype(np.int32) + (place >= b)).astype(np.int32)
            if is_valid(chips, model.graph.op_edges) and obeys_chain_rule(chips, model.graph.op_edges):
                least = min(least, model.runtime(chips))
        found = best_cut(arrays, order, model.op_seconds, model.tensor_seconds, 3)
        assert model.runtime(found) == pytest.approx(least, rel=2e-3)


def test_some_order_gives_the_optimum():
    """Catches a cut that cannot express the optimum: the order of an optimal partition is given."""
    for model in models(5, 15, 25, 4, seed=3):
        arrays, best = cut_arrays(model), optimum(model)
        order = order_by(arrays, best + keys_of(arrays, model.op_seconds)[4] / 2)
        found = best_cut(arrays, order, model.op_seconds, model.tensor_seconds, 4)
        assert model.runtime(found) == pytest.approx(model.runtime(best), rel=2e-3)


def test_every_cut_is_valid():
    """Catches an invalid partition from unusual costs, zeros and more chips than ops among them."""
    rng = np.random.default_rng(4)
    for chips in (1, 2, 7, 64):
        for model in models(4, 10, 40, chips, seed=5):
            arrays, n = cut_arrays(model), model.graph.num_ops
            for seconds in (model.op_seconds, np.zeros(n), np.exp(3 * rng.standard_normal(n))):
                found = cut_one(arrays, rng.dirichlet(np.ones(NUM_KEYS)), seconds, model.tensor_seconds, chips)
                assert found.max() < chips and is_valid(found, model.graph.op_edges)
                assert obeys_chain_rule(found, model.graph.op_edges)
