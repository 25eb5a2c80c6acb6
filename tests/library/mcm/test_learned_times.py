"""Learning op times from the chips' seconds: the posterior by dense algebra, the plans that follow,
and what a run of the method keeps to."""

import dataclasses

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage, op_classes
from learned_mapping.hardware.silicon import (
    Silicon,
    SiliconModel,
    SiliconParameters,
    silicon_package,
)
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.mcm.searches import learned_room as module_room
from learned_mapping.mcm.searches import learned_times as module
from learned_mapping.mcm.searches.even_cut import balanced_start, even_cut
from learned_mapping.mcm.searches.learned_room import Room
from learned_mapping.mcm.searches.learned_times import (
    Believed,
    costs,
    learned_times,
    relieved,
)
from learned_mapping.mcm.searches.moves import move_arrays
from learned_mapping.mcm.silicon import PROBLEM
from learned_mapping.mcm.validate import validate_on_silicon
from learned_mapping.problem import solve
from learned_mapping.programs.graph import late_order
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph


def small(ops=14, chips=3, family="layered"):
    """A graph with ops of several classes, as a model and what repairs it."""
    rng = np.random.default_rng(4)
    graph = random_graph(rng, family, ops)
    kinds = tuple(rng.choice(["dot_general", "add", "exp", "reshape"], ops))
    graph = dataclasses.replace(graph, op_kinds=kinds)
    return ChipModel(graph, ChipPackage(chips=chips)), repair_arrays(graph)


def measurements(model, arrays, count, truth, wait, each):
    """Random partitions with their links' seconds and the chips' exact ones by the linear model."""
    rng = np.random.default_rng(7)
    chips = model.package.chips
    rows = repair_batch(arrays, chips, mode="sample", rng=rng, count=count)
    for y in rows:
        links = model.link_seconds(y)
        yield y, links, np.bincount(y, truth, chips) + wait * links + each


def dense(model, told):
    """([N + 2] mean, covariance) of the posterior, all measurements at once, by the inverse of the
    precision."""
    m, n = model.op_seconds, model.graph.num_ops
    same_class = op_classes(model.graph)[:, None] == op_classes(model.graph)
    prior = np.zeros((n + 2, n + 2))
    prior[:n, :n] = 0.25 * np.outer(m, m) * same_class + np.diag(0.25 * m**2 + (m.mean() / 10) ** 2)
    prior[n, n], prior[n + 1, n + 1] = 1.0, m.mean() ** 2
    precision = np.linalg.inv(prior)
    vector = precision @ np.concatenate([m, [1.0, 0.0]])
    for y, links, seconds in told:
        used = np.unique(y)
        rows = np.array([[*(y == d), links[d], 1.0] for d in used], float)
        t = seconds[used]
        weight = np.linalg.inv(1e-4 * np.outer(t, t) + 1e-4 * t.max() ** 2 * np.eye(len(t)))
        precision = precision + rows.T @ weight @ rows
        vector = vector + rows.T @ weight @ t
    return np.linalg.solve(precision, vector), np.linalg.inv(precision)


def test_the_posterior_is_that_of_dense_algebra():
    """Catches an update with a wrong gain, a prior of other deviations than the docstring says, and
    an error that chips do not share."""
    model, arrays = small()
    truth = model.op_seconds * np.random.default_rng(1).uniform(0.5, 2.0, 14)
    told = list(measurements(model, arrays, 4, truth, 0.4, 1e-6))
    believed = Believed(model, np.random.default_rng(0))
    for y, links, seconds in told:
        believed.learn(y, links, np.unique(y), seconds[np.unique(y)])
    mean, covariance = dense(model, told)
    np.testing.assert_allclose(believed.mean, mean, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(believed.covariance, covariance, rtol=1e-5, atol=1e-6 * mean[0] ** 2)


def test_draws_are_of_the_posterior():
    """Catches draws that measurements do not move, and mixtures of the wrong size."""
    model, arrays = small()
    truth = model.op_seconds * np.random.default_rng(1).uniform(0.5, 2.0, 14)
    told = list(measurements(model, arrays, 3, truth, 0.4, 1e-6))
    draws = []
    for seed in range(600):
        believed = Believed(model, np.random.default_rng(seed))
        for y, links, seconds in told:
            believed.learn(y, links, np.unique(y), seconds[np.unique(y)])
        draws.append(believed.draw())
    mean, covariance = dense(model, told)
    deviation = np.sqrt(np.diag(covariance))
    apart = (np.array(draws) - mean) / deviation
    assert np.abs(apart.mean(axis=0)).max() < 0.2  # of 600: one standard error is .04
    np.testing.assert_allclose(apart.std(axis=0), 1.0, atol=0.15)
    together = (np.array(draws) @ np.ones(16) - mean.sum()) / np.sqrt(covariance.sum())
    assert together.std() == pytest.approx(1.0, abs=0.15), "correlations are kept"


def test_enough_exact_measurements_tell_what_any_chip_takes():
    """Catches a belief that stays with its prior: ops up to four times as slow as modelled, whose
    sums are known in the end."""
    model, arrays = small(ops=30, chips=4)
    truth = model.op_seconds * np.random.default_rng(2).uniform(0.5, 4.0, 30)
    *told, last = measurements(model, arrays, 81, truth, 0.4, 1e-6)
    believed = Believed(model, np.random.default_rng(0))
    for y, links, seconds in told:
        believed.learn(y, links, np.unique(y), seconds[np.unique(y)])
    y, links, seconds = last
    expected = np.bincount(y, believed.mean[:-2], 4) + believed.mean[-2] * links + believed.mean[-1]
    used = np.unique(y)
    assert np.abs(expected - seconds)[used].max() < 0.02 * seconds.max()
    modelled = model.latencies(y)
    assert np.abs(modelled - seconds)[used].max() > 0.2 * seconds.max()


@pytest.mark.parametrize("family", sorted(GRAPH_FAMILIES))
def test_plans_are_valid_and_no_slower_than_the_even_cut(family):
    """Catches a push that breaks a rule, times of other ops, and pushes that are not undone where
    they lose: by V, they may not."""
    model, arrays = small(ops=40, chips=5, family=family)
    seconds = model.op_seconds * np.random.default_rng(3).uniform(0.3, 3.0, 40)
    moves, cut = move_arrays(model), even_cut(seconds, late_order(model.graph), arrays, 5)
    plan = relieved(model, moves, seconds, 0.5, cut)
    assert is_valid(plan, model.graph.op_edges)

    def smooth(y):
        t = np.bincount(y, seconds, 5) + 0.5 * model.link_seconds(y)
        return ((t / seconds.sum()) ** 8).sum()

    assert smooth(plan) <= smooth(cut) * (1 + 1e-9)
    one = relieved(model, moves, seconds, 0.5, cut, 1)
    assert smooth(plan) <= smooth(one) * (1 + 1e-9) and smooth(one) <= smooth(cut) * (1 + 1e-9)


def test_costs_are_never_below_what_can_be():
    """Catches an op that a draw has at less than nothing, and a link that saves time."""
    model, _ = small()
    seconds, wait = costs(model, np.full(16, -1.0))
    np.testing.assert_allclose(seconds, model.op_seconds / 1000)
    assert wait == 0.0


@pytest.mark.parametrize("each", [True, False])
def test_it_learns_chips_that_no_class_tells(each):
    """Catches a method that measures more than its budget, that depends on more than its seeds, and
    one that ends below the model's own cut on chips with a factor for every op."""
    graph = random_graph(np.random.default_rng(0), "layered", 120)
    silicon = Silicon(graph, silicon_package(8), SiliconParameters(op_spread=0.5, op_seed=1))
    arrays, found = repair_arrays(graph), []
    for _ in range(2):
        model, budget = SiliconModel(silicon, np.random.default_rng(5)), Budget(samples=40)
        rng = np.random.default_rng(2)
        found.append(learned_times(model, arrays, rng, budget, of_each_chip=each))
        assert len(model.ran) == budget.samples == 40
    np.testing.assert_array_equal(*found)
    assert validate_on_silicon(
        make_partition(found[0], 8).on(graph, silicon.package), silicon
    ).valid
    own = silicon.throughput(balanced_start(model, arrays))
    assert silicon.throughput(found[0]) > (1.1 if each else 1.0) * own


def test_what_cannot_run_teaches_nothing_and_ends():
    """Catches a division by a throughput of 0, and a loop that waits for a run that never comes."""
    graph = random_graph(np.random.default_rng(1), "towers", 30)
    task = PROBLEM.task(graph, package=silicon_package(3, 1.0))
    result = solve(PROBLEM, task, "learned-times", samples=9)
    assert result.samples == 9 and result.metrics["silicon_throughput"] == 0.0


def test_plans_stay_near_what_ran_where_memory_binds(monkeypatch):
    """Catches a method that measures one plan that does not fit after another: with a fifth less
    memory than the even cut asks for, hardly any free plan runs."""
    graph = random_graph(np.random.default_rng(0), "series-parallel", 120)
    roomy, arrays = Silicon(graph, silicon_package(8)), repair_arrays(graph)
    needed = roomy.stages(balanced_start(ChipModel(graph, roomy.package), arrays)).needed_bytes
    parameters = SiliconParameters(op_spread=0.5, op_seed=1)
    silicon = Silicon(graph, silicon_package(8, 0.8 * needed.max()), parameters)
    ran, reached = [], []
    for near in (module.NEAR, 0.0):
        monkeypatch.setattr(module, "NEAR", near)
        model = SiliconModel(silicon, np.random.default_rng(5))
        best = learned_times(model, arrays, np.random.default_rng(2), Budget(samples=40))
        ran.append(sum(model.ran))
        reached.append(silicon.throughput(best))
    assert ran[0] >= 10 > 3 >= ran[1] and reached[0] > 1.1 * reached[1] > 0


def test_room_lies_between_what_ran_and_what_did_not():
    """Catches a limit above what failed, and one below all that ran: by the bytes of three
    partitions of a chain of four ops, 10 bytes between any two, by hand."""
    graph = hand_graph(4, chain_edges(4), tensor_bytes=[10, 10, 10, 0], op_weight_bytes=[99] * 4)
    learned = Room(ChipModel(graph, ChipPackage(chips=2)))
    # while an op runs what it reads and what it makes; and once more what is on the link
    assert learned.needed(np.zeros(4, int)) == 20.0
    assert learned.needed(np.array([0, 0, 1, 1])) == learned.needed(np.array([0, 1, 1, 1])) == 30.0
    assert learned.limit == np.inf
    learned.learn(np.array([0, 0, 1, 1]), False)
    assert learned.limit == module_room.LESS * 30.0
    learned.learn(np.zeros(4, int), True)
    assert learned.limit == 25.0
    learned.learn(np.array([0, 1, 1, 1]), True)
    assert learned.limit == module_room.LESS * 30.0, "as many bytes ran as failed"


@pytest.mark.slow
def test_cp_sat_plans_what_fits_where_a_cut_by_times_does_not():
    """Catches a planner that does not see bytes: ten worlds, each with as much memory as lies
    halfway between the least that 4,000 random partitions need and what the even cut of the chips'
    own times needs; and an answer that the validator refuses."""
    ran, alone = [], []
    for world in range(10):
        family = sorted(GRAPH_FAMILIES)[world % 5]
        graph = random_graph(np.random.default_rng(world), family, 40)
        parameters, arrays = SiliconParameters(op_spread=0.5, op_seed=world), repair_arrays(graph)
        roomy = Silicon(graph, silicon_package(5), parameters)
        rows = repair_batch(arrays, 5, mode="sample", rng=np.random.default_rng(0), count=4000)
        cut = even_cut(roomy.op_seconds, late_order(graph), arrays, 5)
        needs = [roomy.stages(y).needed_bytes.max() for y in (cut, *rows)]
        package = silicon_package(5, (needs[0] + min(needs)) / 2)
        silicon = Silicon(graph, package, parameters)
        assert silicon.throughput(cut) == 0.0
        for terms, found in ((module_room.MAX_TERMS, ran), (0, alone)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(module_room, "MAX_TERMS", terms)
                model = SiliconModel(silicon, np.random.default_rng(1))
                budget = Budget(samples=10)
                best = learned_times(model, arrays, np.random.default_rng(0), budget)
            found.append(sum(model.ran))
            verdict = validate_on_silicon(make_partition(best, 5), silicon)
            assert verdict.valid or not any(model.ran)
    assert np.count_nonzero(ran) >= 9, ran
    assert np.mean(ran) > np.mean(alone) + 1, (ran, alone)


def test_too_many_ops_are_refused(monkeypatch):
    """Catches a covariance that fills the memory instead of one line."""
    monkeypatch.setattr(module, "MAX_OPS", 10)
    with pytest.raises(InputError, match="14 ops: at most 10 are supported"):
        Believed(small()[0], np.random.default_rng(0))
