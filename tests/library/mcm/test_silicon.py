"""Tests of what runs on silicon: even cuts, near-balanced samples, the search over classes, the
judgement of memory."""

import dataclasses
import itertools

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import (
    MIB,
    OP_CLASSES,
    ChipModel,
    ChipPackage,
    op_classes,
)
from learned_mapping.hardware.silicon import Silicon, SiliconModel, SiliconParameters
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.engine import repair_arrays
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches.even_cut import (
    class_search,
    even_cut,
    near_balanced,
    random_order,
)
from learned_mapping.mcm.searches.stochastic import annealing, random_search
from learned_mapping.mcm.task import Task
from learned_mapping.mcm.validate import validate_on_silicon
from learned_mapping.programs.graph import late_order
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph


def line(seconds, kinds=None):
    """Ops one after another, each with a tensor of a byte for the next."""
    n = len(seconds)
    return hand_graph(n, chain_edges(n), op_kinds=kinds or ["add"] * n, op_seconds=seconds)


def test_an_even_cut_of_a_line_is_the_best_of_all_cuts():
    """Catches a fill that leaves the rest to the last chip, and a bisection that stops at the wrong
    end."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        seconds = rng.exponential(size=9)
        graph = line(seconds)
        actual = even_cut(seconds, late_order(graph), repair_arrays(graph), 3)
        cuts = itertools.combinations(range(1, 9), 2)
        best = min(max(part.sum() for part in np.split(seconds, cut)) for cut in cuts)
        assert np.bincount(actual, weights=seconds).max() == pytest.approx(best)


def test_orders_are_topological():
    """Catches an order that puts a consumer first, or the same order for every seed."""
    graph = random_graph(np.random.default_rng(0), "layered", 60)
    orders = [
        late_order(graph),
        *(random_order(graph, np.random.default_rng(seed)) for seed in range(3)),
    ]
    for order in orders:
        rank = np.argsort(order)
        assert sorted(order) == list(range(60))
        assert np.all(rank[graph.op_edges[:, 0]] < rank[graph.op_edges[:, 1]])
    assert not np.array_equal(orders[1], orders[2])


@pytest.mark.parametrize("family", GRAPH_FAMILIES)
def test_near_balanced_partitions_are_valid_and_vary(family):
    graph = random_graph(np.random.default_rng(3), family, 50)
    model, arrays = ChipModel(graph, ChipPackage(chips=4)), repair_arrays(graph)
    first, second = (near_balanced(model, arrays, np.random.default_rng(0), 6) for _ in range(2))
    assert np.array_equal(first, second)
    assert all(is_valid(row, graph.op_edges) for row in first)


def test_near_balanced_is_nearer_to_balance_than_uniform():
    graph = line(np.random.default_rng(0).exponential(size=200))
    task = Task(graph, ChipPackage(chips=8))
    model, arrays = task.model, task.arrays
    near = np.median(
        [model.runtime(row) for row in near_balanced(model, arrays, np.random.default_rng(0), 20)]
    )
    budget = Budget(samples=20)
    random_search(model, task.repair, np.random.default_rng(0), budget)
    assert near < 1 / budget.best and near < 1.6 * model.op_seconds.sum() / 8


def test_class_search_finds_a_hidden_slowdown():
    """Half of the ops are four times as slow as modelled: the model's own cut loses what the search
    wins back."""
    kinds = ["add"] * 60 + ["exp"] * 60
    graph = line(np.full(120, 1e-3), kinds)
    names = [name for name in OP_CLASSES if name != "matrix"]
    parameters = SiliconParameters(
        **{name: 4.0 if name == "transcendental" else 1.0 for name in names},
        half_efficiency_s=0.0, launch_s=0.0, switch_s=0.0, message_s=0.0, sync_s=0.0, noise=0.005,
    )  # fmt: skip
    silicon = Silicon(graph, ChipPackage(chips=6), parameters)
    arrays = repair_arrays(graph)
    model = SiliconModel(silicon, np.random.default_rng(1))
    best = class_search(model, arrays, np.random.default_rng(0), Budget(samples=120))
    own = even_cut(model.op_seconds, late_order(graph), arrays, 6)
    assert len(model.ran) == 120
    assert silicon.throughput(best) > 1.4 * silicon.throughput(own)
    assert set(np.unique(op_classes(graph))) == {2, 3}


@pytest.mark.parametrize("search", [random_search, annealing, class_search])
def test_searches_run_on_silicon_unchanged(search):
    """Catches a method that needs more of a model than `throughput`, or judges by more samples than
    it counts."""
    graph = random_graph(np.random.default_rng(1), "layered", 40)
    task = Task(graph, ChipPackage(chips=4))
    silicon = Silicon(graph, ChipPackage(chips=4, sram_bytes=256 * MIB))
    repairs = task.arrays if search is class_search else task.repair
    collected = []
    for _ in range(2):
        model, budget = SiliconModel(silicon, np.random.default_rng(5)), Budget(samples=30)
        collected.append(search(model, repairs, np.random.default_rng(2), budget))
        assert len(model.ran) == budget.samples == 30
    assert np.array_equal(*collected), "same seeds, same result"
    verdict = validate_on_silicon(make_partition(collected[0], 4), silicon)
    assert verdict.valid and verdict.costs["silicon_throughput"] == pytest.approx(
        silicon.throughput(collected[0])
    )


def test_too_little_memory_is_named_with_its_chip():
    """Catches a partition judged by the analytical model's memory: the buffers of links count here,
    weights do not."""
    graph = random_graph(np.random.default_rng(1), "layered", 40)
    assignment = near_balanced(
        ChipModel(graph, ChipPackage(chips=4)), repair_arrays(graph), np.random.default_rng(0), 1
    )[0]
    roomy = Silicon(graph, ChipPackage(chips=4))
    peaks = roomy.stages(assignment).needed_bytes
    silicon = Silicon(
        graph, dataclasses.replace(roomy.package, sram_bytes=float(np.sort(peaks)[-1] - 1))
    )
    verdict = validate_on_silicon(make_partition(assignment, 4), silicon)
    assert [v.culprits for v in verdict.violations] == [(f"chip {np.argmax(peaks)}",)]
    assert verdict.costs["silicon_throughput"] == 0.0 == silicon.throughput(assignment)
    backwards = make_partition(3 - assignment, 4)
    assert not validate_on_silicon(backwards, silicon).valid
