"""Memory as a part of what is valid: every partition of small graphs is judged by the validator,
and what the methods find and prove is held to that."""

import dataclasses
import itertools
import time

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_memory import memory_between, memory_of
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage, chip_memory
from learned_mapping.hardware.fitting import DoesNotFitError
from learned_mapping.mcm.bounds import room
from learned_mapping.mcm.bounds.optimum import ideals_of, least_memory, lower_bound
from learned_mapping.mcm.methods import METHODS, all_methods
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import obeys_chain_rule
from learned_mapping.mcm.rules.cp_sat import fastest_partition
from learned_mapping.mcm.task import Task
from learned_mapping.mcm.validate import validate
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph

FAMILIES = sorted(GRAPH_FAMILIES)


def weighty(rng, family, ops):
    """A graph of which half the ops hold weights that weigh as much as its tensors."""
    graph = random_graph(rng, family, ops)
    weights = rng.integers(0, 4 * int(graph.tensor_bytes.mean()) + 2, ops) * (rng.random(ops) < 0.5)
    return dataclasses.replace(graph, op_weight_bytes=np.asarray(weights, np.int64))


def chains(graph, chips):
    """All partitions that obey the chain rule and Eq. 3."""
    for f in itertools.product(range(chips), repeat=graph.num_ops):
        f = np.array(f, np.int32)
        if len(set(f.tolist())) == f.max() + 1 and obeys_chain_rule(f, graph.op_edges):
            yield f


def judged(graph, package):
    """(fullest share of its memory that a chip needs, seconds) of every chain, by the validator."""
    rows = []
    has = package.each("sram_bytes")
    for f in chains(graph, package.chips):
        costs = validate(graph, make_partition(f, package.chips), package).costs
        share = (chip_memory(graph, f, package.chips) / has).max()
        rows.append((share, costs["runtime_s"]))
    return np.array(rows)


def cases():
    """30 graphs on three chips, with the least memory of a chip that some partition needs."""
    rng = np.random.default_rng(0)
    for k in range(30):
        graph = weighty(rng, FAMILIES[k % len(FAMILIES)], int(rng.integers(6, 9)))
        one = judged(graph, ChipPackage(chips=3, sram_bytes=1.0, link_bytes_per_s=2e9))
        yield graph, one


@pytest.fixture(scope="module")
def judged_cases():
    return list(cases())


def test_the_kernels_hold_what_the_plain_function_says():
    """Catches a tensor freed too early, an arrival left out or a last use in the wrong order, in
    either kernel: 480 partitions, and each chip of them between the ideals that bound it."""
    rng, seen = np.random.default_rng(3), 0
    for k in range(24):
        chips = int(rng.integers(2, 6))
        graph = weighty(rng, FAMILIES[k % len(FAMILIES)], int(rng.integers(8, 60)))
        model = ChipModel(graph, ChipPackage(chips=chips), memory=True)
        rows = repair_batch(repair_arrays(graph), chips, mode="sample", rng=rng, count=20)
        for y in rows:
            expected = chip_memory(graph, y, chips)
            np.testing.assert_array_equal(model.memory(y), expected)
            bits = [np.packbits(y < c, bitorder="little") for c in range(chips + 1)]
            freed = np.zeros(graph.num_ops, np.int64)
            between = [memory_between(model.held, *bits[c : c + 2], freed) for c in range(chips)]
            assert between == expected.tolist()
            seen += 1
    assert seen == 480
    backwards = np.zeros(graph.num_ops, np.int64)
    assert memory_of(model.held, backwards, 1).tolist() == chip_memory(graph, backwards, 1).tolist()


@pytest.mark.parametrize("share", [1.0, 1.1, 1.3])
def test_optimum_is_the_fastest_that_fits(judged_cases, share):
    """Catches a dynamic programme that misses a partition that fits, or returns one that does not:
    30 graphs with as much memory as the least that fits, and some more."""
    for graph, rows in judged_cases:
        limit = float(np.floor(rows[:, 0].min() * share))
        package = ChipPackage(chips=3, sram_bytes=limit, link_bytes_per_s=2e9)
        best = rows[rows[:, 0] <= limit, 1].min()
        task = Task(graph, package, memory=True)
        solution, extra = METHODS["optimum"].run(task, np.random.default_rng(0), Budget(samples=1))
        verdict = validate(graph, solution, package, memory=True)
        assert verdict.valid and verdict.costs["runtime_s"] == pytest.approx(best, rel=1e-8)
        assert lower_bound(task.model) <= extra["chain_bound_s"] * (1 + 1e-8)
        assert extra["chain_bound_s"] == pytest.approx(best, rel=1e-8)


def test_the_least_memory_is_that_of_all_partitions(judged_cases):
    """Catches a search for the least memory that ends a byte too high or too low, and a proof of
    *does not fit* of what fits; with a byte less than the least, the answer names it."""
    for graph, rows in judged_cases:
        least = int(rows[:, 0].min())
        package = ChipPackage(chips=3, sram_bytes=float(2 * least), link_bytes_per_s=2e9)
        model = ChipModel(graph, package, memory=True)
        share, proved = least_memory(model, ideals_of(model))
        assert proved and share * 2 * least == pytest.approx(least)
        short = dataclasses.replace(package, sram_bytes=least - 0.5)
        with pytest.raises(DoesNotFitError) as caught:
            task = Task(graph, short, memory=True)
            METHODS["optimum"].run(task, np.random.default_rng(0), Budget(samples=1))
        assert caught.value.least_bytes.max() <= least
        if caught.value.proof == "chain":
            assert caught.value.least_bytes.tolist() == [least] * 3
            assert f"{least:,} bytes a chip does, nothing less" in str(caught.value)
            assert "proved under the chain rule" in str(caught.value)


@pytest.mark.parametrize("share", [1.0, 1.1, 1.3])
def test_cp_sat_keeps_memory_exactly_on_small_graphs(judged_cases, share):
    """Catches a row that forbids what fits or allows what does not: what a chip holds while each
    op runs, at its first op and after its last."""
    for graph, rows in judged_cases:
        limit = float(np.floor(rows[:, 0].min() * share))
        model = ChipModel(
            graph, ChipPackage(chips=3, sram_bytes=limit, link_bytes_per_s=2e9), memory=True
        )
        outcome = fastest_partition(model)
        assert outcome.optimal and model.excess(outcome.assignment) <= 1.0
        best = rows[rows[:, 0] <= limit, 1].min()
        assert model.runtime(outcome.assignment) == pytest.approx(best, rel=1e-6)
        assert outcome.bound <= best * (1 + 1e-9)
        if share == 1.0:
            short = dataclasses.replace(model.package, sram_bytes=limit - 0.5)
            assert fastest_partition(ChipModel(graph, short, memory=True)).infeasible


def test_cp_sat_names_the_least_memory_where_nothing_fits(judged_cases, monkeypatch):
    """Catches an answer that names the memory there is, or more than is needed: with a byte less
    than the least, over all ideals and, where those are too many, by CP-SAT."""
    for graph, rows in judged_cases:
        least = int(rows[:, 0].min())
        package = ChipPackage(chips=3, sram_bytes=least - 0.5, link_bytes_per_s=2e9)
        task = replaced_task(graph, package)
        if task is None:  # by arithmetic
            continue
        for ideals in (20_000, 1):
            monkeypatch.setattr(room, "MAX_IDEALS", ideals)
            with pytest.raises(DoesNotFitError, match=f"{least:,} bytes a chip does, nothing less"):
                METHODS["cp-sat"].run(task, np.random.default_rng(0), Budget(samples=1))


def replaced_task(graph, package):
    """The task, or None where arithmetic refuses it."""
    try:
        return Task(graph, package, memory=True)
    except DoesNotFitError as error:
        assert error.proof == "arithmetic"
        return None


def test_what_does_not_fit_is_worth_less_than_all_that_fits_and_by_how_much(judged_cases):
    """Catches a value of 0, or one that all that do not fit share, and one above a slow partition
    that fits."""
    for graph, rows in judged_cases[:6]:
        limit = float(np.ceil(rows[:, 0].max()) - 1)
        package = ChipPackage(chips=3, sram_bytes=limit, link_bytes_per_s=2e9)
        model = ChipModel(graph, package, memory=True)
        values = np.array([model.throughput(f) for f in chains(graph, 3)])
        fits = rows[:, 0] <= limit
        np.testing.assert_allclose(values[fits], 1 / rows[fits, 1])
        assert values[~fits].max() < values[fits].min()
        np.testing.assert_allclose(np.ptp(values[~fits] * rows[~fits, 0]), 0, atol=1e-9 * limit)
        # a learner sees it in 32 bits beside what fits
        assert values[~fits].min() > 1e-6 * values[fits].max()


def test_searches_look_for_room_by_what_a_partition_lacks(judged_cases):
    """Catches a value of 0 for all that does not fit, and a climb by seconds alone: with a tenth
    more memory than the least, methods find what fits where the same without memory hardly do."""
    found = dict.fromkeys(itertools.product(("random", "sa", "climb"), (False, True)), 0)
    for graph, rows in judged_cases[:12]:
        limit = float(np.floor(rows[:, 0].min() * 1.1))
        package = ChipPackage(chips=3, sram_bytes=limit, link_bytes_per_s=2e9)
        for method, memory in found:
            task = Task(graph, package, memory=memory)
            budget = Budget(samples=200)
            solution, _ = METHODS[method].run(task, np.random.default_rng(0), budget)
            found[method, memory] += validate(graph, solution, package, memory=True).valid
    for method in ("random", "sa", "climb"):
        assert found[method, True] >= found[method, False] + 5, found
    assert found["climb", True] == 12, found


@pytest.mark.parametrize("family", ["attention", "towers"])
def test_the_policy_looks_for_room(family):
    """Catches a learner whose reward says nothing of what does not fit: with a fifth more memory
    than the least, PPO ends with what fits, and without memory in its reward with what does not."""
    graph = weighty(np.random.default_rng(5), family, 40)
    one = ChipModel(graph, ChipPackage(chips=4, sram_bytes=1.0), memory=True)
    least, proved = room.room_needed(one)
    package = ChipPackage(chips=4, sram_bytes=float(np.floor(1.2 * least)))
    assert proved
    for memory in (False, True):
        task, run = Task(graph, package, memory=memory), all_methods("quick")["rl"].run
        solution, _ = run(task, np.random.default_rng(0), Budget(samples=200))
        assert validate(graph, solution, package, memory=True).valid == memory


def test_a_large_graph_is_refused_by_arithmetic_at_once():
    """Catches a search before the sum of the weights: 10,667 ops, and 8 bytes more than there are;
    with as many bytes it is not refused."""
    n, weight = 10_667, 3_000
    graph = hand_graph(n, chain_edges(n), op_weight_bytes=[weight] * n, tensor_bytes=[8] * n)
    has = n * weight / 8
    since = time.process_time()
    with pytest.raises(DoesNotFitError) as caught:
        Task(graph, ChipPackage(chips=8, sram_bytes=has - 1), memory=True)
    assert time.process_time() - since < 1.0
    assert caught.value.proof == "arithmetic" and caught.value.least_bytes[0] == np.ceil(has)
    assert "32,001,000 bytes of weights; 4,000,125 bytes a chip is the least" in str(caught.value)
    assert Task(graph, ChipPackage(chips=8, sram_bytes=has), memory=True).model.limit is not None
