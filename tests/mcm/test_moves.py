"""Single moves and the credit that they give: differences of the model itself, by brute force."""

import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.hardware.silicon import Silicon, SiliconModel, silicon_package
from learned_mapping.mcm.agent.credit import flow_gains, spread
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import is_valid, obeys_chain_rule
from learned_mapping.mcm.searches.moves import POWER, climb, move_arrays, single_moves
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
