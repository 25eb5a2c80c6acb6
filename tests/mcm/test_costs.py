"""Tests of the searches over corrected costs."""

from __future__ import annotations

import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import OP_CLASSES, ChipModel, ChipPackage, op_classes
from learned_mapping.mcm.searches.costs import CLASS_LATENTS, NUM_LATENTS, cross_entropy, random_costs, realise
from learned_mapping.mcm.searches.order_cut import cut_arrays
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import random_graph


class Skewed(ChipModel):
    """A package whose products are far slower than the analytical model says."""

    def throughput(self, assignment):
        slow = op_classes(self.graph) == OP_CLASSES.index("attention")
        load = np.bincount(assignment, self.op_seconds * np.where(slow, 6.0, 1.0), minlength=self.package.chips)
        return 1.0 / float((load + self.link_seconds(assignment)).max())


def test_zero_corrections_keep_the_model_and_true_ones_help():
    """Catches latents that are wired to the wrong class: the judge's own factor, given by hand, must help."""
    n = 8
    graph = make_graph(
        name="chain", op_names=[str(i) for i in range(n)], op_kinds=["dot_general"] * 4 + ["add"] * 4, op_flop=[0] * n,
        op_seconds=[1.0] * n, tensor_names=[f"t{i}" for i in range(n)], tensor_producer=range(n), tensor_bytes=[0] * n,
        edge_tensor=range(n - 1), edge_consumer=range(1, n),
    )  # fmt: skip
    model = Skewed(graph, ChipPackage(chips=2))
    plain, corrected = np.zeros(NUM_LATENTS), np.zeros(NUM_LATENTS)
    # Products without weights are of class attention; the factor is exp(0.3 * 4) = 3.3.
    corrected[CLASS_LATENTS.start + OP_CLASSES.index("attention")] = 4.0
    found = [realise(model, cut_arrays(model), op_classes(graph), z, np.zeros(n)) for z in (plain, corrected)]
    assert found[0].tolist() == [0] * 4 + [1] * 4
    assert found[1].tolist() == [0] * 3 + [1] * 5
    assert model.throughput(found[1]) == pytest.approx(1 / 18)


def test_searches_begin_alike_and_learn_from_what_they_measure():
    """Catches a head start, and a search that moves away from its elite."""
    graph = random_graph(np.random.default_rng(0), "towers", 40)
    model = Skewed(graph, ChipPackage(chips=5))
    first, second = (s(model, np.random.default_rng(3), Budget(samples=1)) for s in (random_costs, cross_entropy))
    zero = realise(model, cut_arrays(model), op_classes(graph), np.zeros(NUM_LATENTS), np.zeros(graph.num_ops))
    assert first.tolist() == second.tolist() == zero.tolist()
    best = {}
    for search in (random_costs, cross_entropy):
        found = [search(model, np.random.default_rng(seed), Budget(samples=200)) for seed in range(3)]
        best[search] = np.mean([model.throughput(row) for row in found])
    assert best[cross_entropy] >= best[random_costs] >= model.throughput(zero)
