import numpy as np
import pytest

from by_hand import hand_graph
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.agent import features as module
from learned_mapping.regal.agent.features import (
    EDGE_FEATURES,
    NODE_FEATURES,
    cost_rank,
    features,
    smooth_vectors,
)
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance
from learned_mapping.regal.rules.levels import freed_bytes, levels, rank_share


def column(seen, name):
    return seen.nodes[:, NODE_FEATURES.index(name)]


@pytest.fixture(scope="module")
def ladder():
    """Two chains of 12 ops from one source, joined at the end: which chain an op is on is all there
    is to know."""
    names = ["source", *(f"a{i}" for i in range(12)), *(f"b{i}" for i in range(12)), "join"]
    before = {1: [0], 13: [0], 25: [12, 24]} | {i: [i - 1] for i in [*range(2, 13), *range(14, 25)]}
    edges = [(p, c) for c, ps in before.items() for p in ps]
    return hand_graph(26, edges, op_names=names, op_seconds=[1.0] * 26, tensor_bytes=[8] * 26)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_shapes_and_finite_on_odd_graphs(odd_graph, objective):
    """Catches divisions by an empty total: no edges, no bytes, no seconds, one op."""
    rng = np.random.default_rng(0)
    for ops in (1, 2, 3, 5, 40):
        instance = Instance(odd_graph(rng, ops), objective=objective)
        seen = features(instance)
        assert seen.nodes.shape == (ops, len(NODE_FEATURES))
        assert seen.edges.shape == (instance.graph.num_edges, len(EDGE_FEATURES))
        assert np.isfinite(seen.nodes).all() and np.isfinite(seen.edges).all()
        assert column(seen, "pinned").sum() == 1


def test_balanced_vectors_tell_the_chains_apart(ladder):
    """The vector orthogonal to depth separates what can run side by side."""
    for objective in OBJECTIVES:
        seen = features(Instance(ladder, objective=objective))
        rank = column(seen, "balanced_4_1")
        assert len(set(np.sign(rank[1:13]))) == 1 and np.array_equal(
            np.sign(rank[1:13]), -np.sign(rank[13:25])
        )


def test_vectors_obey_their_definition():
    """Unit length, orthogonal to the cosines, and no random vector of the same space is
    smoother."""
    instance = Instance(random_graph(np.random.default_rng(2), "layered", 60))
    depth, height, up, down = levels(instance)
    u, v = instance.graph.op_edges.T
    assert np.all(depth[v] > depth[u]) and np.all(height[u] > height[v])
    assert np.all((depth == 0) | np.isin(np.arange(60), v))
    seconds = instance.arrays.seconds
    assert np.all(up[u] >= up[v] + seconds[u]) and np.all(down[v] >= down[u] + seconds[v])
    depth = depth / depth.max()
    rng = np.random.default_rng(0)
    u, v = instance.graph.op_edges.T
    for windows, vectors in zip((0, *module.BALANCED), smooth_vectors(instance, depth)):
        left, size, _ = np.linalg.svd(
            np.cos(np.pi * depth[:, None] * np.arange(min(windows, 15) + 1))
        )
        basis = left[:, : (size > 1e-6).sum()]
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(vectors.shape[1]), atol=1e-8)
        assert np.abs(basis.T @ vectors).max() < 1e-6
        for _ in range(20):
            other = rng.standard_normal(60)
            other -= basis @ (basis.T @ other)
            other /= np.linalg.norm(other)
            assert ((vectors[u, 0] - vectors[v, 0]) ** 2).sum() <= (
                (other[u] - other[v]) ** 2
            ).sum()


def test_lanczos_agrees_with_the_dense_solver(monkeypatch):
    """Large graphs take another path to the same vectors."""
    instance = Instance(random_graph(np.random.default_rng(4), "towers", 90))
    dense = features(instance)
    monkeypatch.setattr(module, "DENSE_OPS", 0)
    sparse = features(instance)
    for name in ("eigenvector_2", "balanced_16_1"):
        difference = np.abs(column(dense, name) - column(sparse, name))
        assert (
            min(difference.max(), np.abs(column(dense, name) + column(sparse, name)).max()) < 0.05
        )


def test_same_on_every_call_and_signs_are_fixed_by_the_pinned_op():
    for ops in (60, 300):
        instance = Instance(random_graph(np.random.default_rng(5), "layered", ops))
        one, two = features(instance), features(instance)
        np.testing.assert_array_equal(one.nodes, two.nodes)
        assert column(one, "balanced_16_1")[one.pinned] > 0


def test_ranks_split_the_cost_in_halves():
    """Catches ranks by count: one op holds most of the cost."""
    rank = cost_rank(np.array([0.3, -1.0, 0.1, 2.0]), np.array([1.0, 6.0, 1.0, 2.0]))
    assert rank.tolist() == pytest.approx(
        [2 * 7.5 / 10 - 1, 2 * 3 / 10 - 1, 2 * 6.5 / 10 - 1, 2 * 9 / 10 - 1]
    )


def test_bytes_an_op_frees_by_hand():
    """a makes 10 bytes for b and c, who share them; b makes 4 that nobody frees; c makes 2 for d, d
    an output of 1."""
    outputs = [False, True, False, True]
    graph = hand_graph(
        4, [(0, 1), (0, 2), (2, 3), (1, 3)], tensor_bytes=[10, 4, 2, 1], tensor_is_output=outputs
    )
    instance = Instance(graph, objective="memory")
    assert freed_bytes(instance).tolist() == [-10.0, 5.0 - 4.0, 5.0 - 2.0, 2.0 - 1.0]
    assert rank_share(freed_bytes(instance)).tolist() == [0.125, 0.5, 0.875, 0.5]
    assert column(features(instance), "freed").tolist() == pytest.approx(
        [-1, 0.1**0.5, 0.3**0.5, 0.1**0.5]
    )
