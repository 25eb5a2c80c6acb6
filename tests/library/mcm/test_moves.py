"""Single moves and the credit that they give: differences of the model itself, by brute force."""

import dataclasses

import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.hardware.silicon import Silicon, SiliconModel, silicon_package
from learned_mapping.mcm.agent.credit import flow_gains, spread
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import is_valid, obeys_chain_rule, uses_prefix
from learned_mapping.mcm.searches.even_cut import balanced_start, starts
from learned_mapping.mcm.searches.moves import (
    LEAST_GAIN,
    POWER,
    best_push,
    climb,
    move_arrays,
    pushed,
    pushes,
    single_moves,
)
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph


def smooth(latencies, share):
    return -np.log(((latencies / share) ** POWER).sum()) / POWER


@pytest.mark.parametrize("family", sorted(GRAPH_FAMILIES))
def test_a_move_is_worth_what_the_model_says_of_the_moved_partition(family):
    """Catches a link counted on the wrong side, a use that is forgotten, and a move that the rules
    forbid."""
    rng, chips = np.random.default_rng(0), 5
    graph = random_graph(rng, family, 25)
    model = ChipModel(graph, ChipPackage(chips=chips))
    share = model.op_seconds.sum() / chips
    for y in repair_batch(repair_arrays(graph), chips, mode="sample", rng=rng, count=4):
        latencies = model.latencies(y)
        gains, allowed = single_moves(move_arrays(model), y, latencies)
        assert allowed[:, 1].all() and not gains[:, 1].any()
        for op in range(graph.num_ops):
            for side in (-1, 1):
                moved = y.copy()
                moved[op] += side
                fine = 0 <= moved[op] < chips and obeys_chain_rule(moved, graph.op_edges)
                assert allowed[op, side + 1] == fine
                if fine:
                    difference = smooth(model.latencies(moved), share) - smooth(latencies, share)
                    assert gains[op, side + 1] == pytest.approx(difference, abs=1e-12)


def forced(graph, y, op, side):
    """The least set that holds `op` and keeps the chain rule when it moves, edge by edge until
    nothing is broken; all broken edges have one end that has moved."""
    moved = {op}
    while True:
        after = y.copy()
        after[list(moved)] += side
        broken = [(u, v) for u, v in graph.op_edges.tolist() if not 0 <= after[v] - after[u] <= 1]
        if not broken:
            return moved, after
        moved |= {end for edge in broken for end in edge}


@pytest.mark.parametrize("family", sorted(GRAPH_FAMILIES))
def test_a_push_is_the_least_closed_set_and_worth_what_the_model_says(family):
    """Catches an op left behind or taken along for nothing, a gain that misses a link, and a push
    off the row or out of a chip that must not be empty."""
    rng, chips = np.random.default_rng(0), 5
    graph = random_graph(rng, family, 25)
    model = ChipModel(graph, ChipPackage(chips=chips))
    arrays, largest = move_arrays(model), 0
    for y in repair_batch(repair_arrays(graph), chips, mode="sample", rng=rng, count=4):
        latencies = model.latencies(y)
        gains, sizes = pushes(arrays, y, latencies, np.arange(25), 25)
        single, allowed = single_moves(arrays, y, latencies)
        few = pushes(arrays, y, latencies, np.arange(25), 2)[1]
        np.testing.assert_array_equal(few, np.where(sizes <= 2, sizes, 0))
        for op in range(25):
            for way, side in enumerate((-1, 1)):
                moved, after = forced(graph, y, op, side)
                possible = 0 <= after.min() and after.max() < chips and uses_prefix(after)
                assert sizes[op, way] == (len(moved) if possible else 0)
                if not possible:
                    continue
                assert is_valid(after, graph.op_edges)
                np.testing.assert_array_equal(pushed(arrays, y, op, side, chips, 25), after)
                difference = smooth(model.latencies(after), 1.0) - smooth(latencies, 1.0)
                assert gains[op, way] == pytest.approx(difference, abs=1e-11)
                if len(moved) == 1:
                    assert allowed[op, 1 + side]
                    assert gains[op, way] == pytest.approx(single[op, 1 + side], abs=1e-11)
                largest = max(largest, len(moved))
    assert largest > 3, "pushes of several ops are tried at all"


def test_a_fixed_op_pushes_nothing_and_is_pushed_by_nothing():
    """Catches a push that takes an op off its chip."""
    graph = random_graph(np.random.default_rng(2), "layered", 30)
    pinned = np.where(np.arange(30) == graph.topological_order[15], 1, -1).astype(np.int32)
    graph = dataclasses.replace(graph, op_chip=pinned)
    model, arrays = ChipModel(graph, ChipPackage(chips=4)), repair_arrays(graph)
    budget = Budget(samples=300)
    best = climb(model, arrays, np.random.default_rng(0), budget)
    assert best[pinned == 1] == 1 and is_valid(best, graph.op_edges)


def test_a_push_of_several_ops_comes_where_no_single_move_gains():
    """Catches a rule that stops where single moves do, and one that leaps over them."""
    rng, several = np.random.default_rng(5), 0
    for family in sorted(GRAPH_FAMILIES):
        graph = random_graph(rng, family, 40)
        model, ops = ChipModel(graph, ChipPackage(chips=6)), np.arange(40)
        arrays = move_arrays(model)
        y = repair_batch(repair_arrays(graph), 6, mode="sample", rng=rng, count=1)[0]
        while y is not None:
            latencies = model.latencies(y)
            _, sizes = pushes(arrays, y, latencies, ops, 40)
            gains, allowed = single_moves(arrays, y, latencies)
            after = best_push(arrays, y, latencies, ops)
            # a single move may leave a chip empty, a push may not
            stuck = gains[allowed & np.c_[sizes[:, 0], ops, sizes[:, 1]].astype(bool)].max()
            if after is not None:
                assert (np.abs(after - y).sum() > 1) == (stuck <= LEAST_GAIN)
                several += np.abs(after - y).sum() > 1
                unit = latencies.max()
                assert smooth(model.latencies(after), unit) > smooth(latencies, unit)
            else:
                assert stuck <= LEAST_GAIN
            y = after
    assert several


def test_starts_begin_with_the_even_cut_and_go_by_turns():
    """Catches an even cut that is never judged, and orders that are all random: on a graph of many
    branches a random order's cut sends nearly everything over nearly every link."""
    graph = random_graph(np.random.default_rng(6), "attention", 120)
    model, arrays = ChipModel(graph, ChipPackage(chips=8)), repair_arrays(graph)
    drawn = [y for _, y in zip(range(41), starts(model, arrays, np.random.default_rng(0)))]
    np.testing.assert_array_equal(drawn[0], balanced_start(model, arrays))
    assert all(is_valid(y, graph.op_edges) for y in drawn)
    late, random = (np.median([model.throughput(y) for y in drawn[k::2]]) for k in (1, 2))
    assert late > 1.3 * random


def test_the_flow_of_a_move_is_the_difference_of_its_potential():
    """Catches a link one off, and a sign; three ops of one second on three chips, the middle one
    empty."""
    seconds, y, latencies = np.ones(3), np.array([[0, 0, 2]]), np.array([[2.0, 0.0, 1.0]])
    gains, possible = flow_gains(seconds, y, latencies)
    assert possible[0].tolist() == [[False, True, True], [False, True, True], [True, True, False]]

    def potential(load):
        return -(np.cumsum(np.array(load) - 1.0) ** 2).sum()

    plain = np.arctanh(gains[0])
    exact = [
        potential([1, 1, 1]) - potential([2, 0, 1]),
        potential([2, 1, 0]) - potential([2, 0, 1]),
    ]
    assert plain[0, 2] / plain[2, 0] == pytest.approx(exact[0] / exact[1])
    assert plain[0, 2] > 0 > plain[2, 0]
    assert not flow_gains(seconds, y, np.zeros((1, 3)))[1].any(), "what cannot run tells nothing"


def test_advantages_have_no_mean_under_the_policy():
    """Catches a baseline by other probabilities, and an op without a choice that weighs
    something."""
    gains, possible = (
        np.array([[[1.0, 0.0, -1.0], [5.0, 0.0, 0.0]]]),
        np.array([[[1, 1, 1], [0, 1, 0]]], bool),
    )
    p = np.array([[[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]])
    advantage, weight = spread(gains, possible, p, 3.0)
    np.testing.assert_allclose(weight[0, 0], 3.0 * p[0, 0], rtol=1e-6)
    assert (weight * advantage)[0, 0].sum() == pytest.approx(0.0, abs=1e-6) and not weight[
        0, 1
    ].any()


def test_a_climb_ends_where_no_move_gains_and_counts_what_it_judges():
    """Catches a climb that stops early, and one that returns a partition it has not judged."""
    graph = random_graph(np.random.default_rng(3), "towers", 40)
    model, arrays = ChipModel(graph, ChipPackage(chips=4)), repair_arrays(graph)
    budget = Budget(samples=60)
    best = climb(model, arrays, np.random.default_rng(0), budget)
    assert budget.samples == 60 and is_valid(best, graph.op_edges)
    assert model.throughput(best) == pytest.approx(budget.best)
    budget = Budget(samples=400)
    best = climb(model, arrays, np.random.default_rng(0), budget)
    gains, allowed = single_moves(move_arrays(model), best, model.latencies(best))
    assert np.where(allowed, gains, 0.0).max() < 0.02


def test_silicon_tells_the_latencies_of_the_run_it_measured():
    """Catches latencies without the measurement's noise, and of a partition that cannot run."""
    graph = random_graph(np.random.default_rng(1), "towers", 30)
    silicon = Silicon(graph, silicon_package(3))
    model = SiliconModel(silicon, np.random.default_rng(0))
    y = repair_batch(repair_arrays(graph), 3, mode="sample", rng=np.random.default_rng(0), count=1)[
        0
    ]
    throughput, latencies = model.judged(y)
    stages = silicon.stages(y)
    assert len(model.ran) == 1 and throughput != silicon.throughput(y)
    slowest = max(stages.chip_s.max(), stages.link_s.max())
    np.testing.assert_allclose(latencies, stages.chip_s / (throughput * slowest), rtol=1e-12)
    small = SiliconModel(Silicon(graph, silicon_package(3, 1.0)), np.random.default_rng(0))
    assert small.judged(y)[0] == 0.0 and not small.judged(y)[1].any()
