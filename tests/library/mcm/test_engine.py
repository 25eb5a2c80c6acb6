"""Tests of the repair engine: always valid, equal to the plain engine, complete."""

import itertools
import os

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.cp_sat import CpSatSolver, cp_sat_batch, nearest_partition
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.repair.solver import ConstraintSolver, fix_repair, sample_repair
from learned_mapping.mcm.rules.constraints import is_valid, obeys_chain_rule
from learned_mapping.mcm.validate import validate
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph

CASES = int(os.environ.get("LEARNED_MAPPING_CASES", 12))
"""Graphs on which engines are compared; more by the environment variable."""
CONNECTED = ("series-parallel", "towers", "attention")


def nearest_repair(solver, order, candidate):
    """Each op in `order` takes the chip of its domain nearest to the candidate's, the lower of
    two."""
    i = 0
    while i < len(order):
        y = candidate[order[i]]
        domain = solver.get_domain(order[i])
        i = solver.set_domain(
            order[i], {min(domain, key=lambda c: (abs(c - y), c))} if domain else ()
        )
    return [solver.get_domain(u)[0] for u in range(len(order))]


def test_every_repair_is_valid():
    """Catches a repair that breaks a rule, in every mode, on graphs with many components too."""
    rng = np.random.default_rng(0)
    for family in GRAPH_FAMILIES:
        for size in (1, 2, 30):
            graph = random_graph(rng, family, size)
            arrays = repair_arrays(graph)
            for mode, chips in itertools.product(("sample", "fix", "nearest"), (1, 4, 9)):
                y = rng.integers(0, chips, (8, graph.num_ops))
                options = {} if mode == "sample" else {"candidates": y}
                for row in repair_batch(arrays, chips, mode=mode, rng=rng, count=8, **options):
                    assert validate(graph, make_partition(row, chips)).valid
                    assert obeys_chain_rule(row, graph.op_edges)


def test_ten_thousand_repairs_of_one_graph_are_valid():
    """Catches a rare failure of propagation."""
    rng = np.random.default_rng(3)
    graph = random_graph(rng, "attention", 60)
    arrays = repair_arrays(graph)
    y = rng.integers(0, 12, (10_000, graph.num_ops))
    for mode in ("sample", "fix"):
        options = {"candidates": y} if mode == "fix" else {"count": 10_000}
        actual = repair_batch(arrays, 12, mode=mode, rng=rng, **options)
        assert all(is_valid(row, graph.op_edges) for row in actual)


def all_chain_partitions(graph, chips):
    collected = set()
    for f in itertools.product(range(chips), repeat=graph.num_ops):
        if obeys_chain_rule(np.array(f), graph.op_edges) and is_valid(np.array(f), graph.op_edges):
            collected.add(f)
    return collected


@pytest.mark.parametrize("family", CONNECTED)
def test_sampling_reaches_every_partition_of_the_chain_rule(family):
    """Catches a domain that is cut too far: propagation must be complete, not only sound."""
    rng = np.random.default_rng(4)
    graph = random_graph(rng, family, 6)
    actual = repair_batch(repair_arrays(graph), 3, mode="sample", rng=rng, count=5000)
    assert {tuple(row) for row in actual.tolist()} == all_chain_partitions(graph, 3)


def test_a_valid_candidate_is_kept():
    """Catches a repair that changes what needs none."""
    rng = np.random.default_rng(5)
    for family in CONNECTED:
        graph = random_graph(rng, family, 30)
        arrays = repair_arrays(graph)
        valid = repair_batch(arrays, 6, mode="sample", rng=rng, count=50)
        for mode in ("fix", "nearest"):
            actual = repair_batch(arrays, 6, mode=mode, rng=rng, candidates=valid)
            np.testing.assert_array_equal(actual, valid)


@pytest.mark.parametrize("mode", ["sample", "fix", "nearest"])
def test_compiled_engine_equals_the_plain_one(mode):
    """Catches any difference in a domain: all take the same random numbers, so all chips must
    agree; CP-SAT's too."""
    rng = np.random.default_rng(6)
    for trial in range(CASES):
        graph = random_graph(rng, CONNECTED[trial % 3], int(rng.integers(3, 12)))
        chips, n = int(rng.integers(2, 6)), graph.num_ops
        order, weights = rng.permutation(n), rng.dirichlet(np.full(chips, 0.3), n)
        y = rng.integers(0, chips, n)
        options = {"weights": weights} if mode == "sample" else {"candidates": y}
        compiled = repair_batch(
            repair_arrays(graph),
            chips,
            mode=mode,
            rng=np.random.default_rng(trial),
            order=order,
            **options,
        )
        solver, same = ConstraintSolver(n, graph.op_edges, chips), np.random.default_rng(trial)
        if mode == "sample":
            plain = sample_repair(solver, order, weights, same)
        elif mode == "fix":
            plain = fix_repair(solver, order, y, same)
        else:
            plain = nearest_repair(solver, order, y)
        assert compiled[0].tolist() == plain
        if mode != "nearest":  # which is another question there
            same = np.random.default_rng(trial)
            assert cp_sat_batch(
                graph, chips, mode=mode, rng=same, order=order, **options
            ).tolist() == [plain]


@pytest.mark.parametrize("mode", ["sample", "fix"])
def test_by_cp_sat_a_call_gives_what_the_engine_gives(mode):
    """Catches orders or chips from other random numbers: bounds are complete under the chain rule,
    so both repairs are one distribution, and from equal generators every partition of a batch must
    be equal. Under Eq. 4 not all are."""
    rng = np.random.default_rng(11)
    graph, chips = random_graph(rng, "towers", 12), 4
    y = rng.integers(0, chips, (4, 12))
    options = (
        {"weights": rng.dirichlet(np.full(chips, 0.3), (4, 12))}
        if mode == "sample"
        else {"candidates": y}
    )
    engine = repair_batch(
        repair_arrays(graph), chips, mode=mode, rng=np.random.default_rng(0), **options
    )
    solved = [
        cp_sat_batch(
            graph, chips, mode=mode, rng=np.random.default_rng(0), strength=strength, **options
        )
        for strength in ("chain", "general")
    ]
    assert np.array_equal(engine, solved[0]) and not np.array_equal(engine, solved[1])


def test_plain_engine_backtracks_under_eq_4():
    """Catches a plain engine that gives up, or returns an invalid partition, where Eq. 4 closes a
    branch."""
    rng = np.random.default_rng(7)
    for trial in range(8):
        graph = random_graph(rng, CONNECTED[trial % 3], 8)
        solver = ConstraintSolver(graph.num_ops, graph.op_edges, 4, "general")
        actual = fix_repair(solver, rng.permutation(8), rng.integers(0, 4, 8), rng)
        assert is_valid(np.array(actual), graph.op_edges)


def test_cp_sat_repairs_obey_eq_4():
    """Catches a domain of CP-SAT that no partition completes: then a decision would be undone, and
    the rest redrawn."""
    rng = np.random.default_rng(9)
    for trial in range(2):
        graph = random_graph(rng, CONNECTED[trial], 9)
        y = rng.integers(0, 4, (1, 9))
        for mode in ("sample", "fix", "nearest"):
            given = {} if mode == "sample" else {"candidates": y}
            actual = cp_sat_batch(
                graph, 4, mode=mode, rng=rng, count=1, strength="general", **given
            )
            assert all(is_valid(row, graph.op_edges) for row in actual)
        solver = CpSatSolver(graph, 4, "general")
        for decision, op in enumerate(rng.permutation(9).tolist(), 1):
            domain = solver.get_domain(op)
            assert domain and solver.set_domain(op, {int(rng.choice(domain))}) == decision


def test_no_repair_is_nearer_than_cp_sat_allows():
    """Catches rules that differ between the engine and the solver: none may come nearer to y than
    the optimum."""
    rng = np.random.default_rng(8)
    for family in CONNECTED:
        graph = random_graph(rng, family, 10)
        arrays = repair_arrays(graph)
        for strength in ("chain", "general"):
            y = rng.integers(0, 4, graph.num_ops)
            nearest, proven = nearest_partition(graph, 4, y, strength)
            distance = (nearest != y).sum()
            assert proven and is_valid(nearest, graph.op_edges)
            least = (
                (repair_batch(arrays, 4, mode="fix", rng=rng, candidates=y, count=300) != y)
                .sum(axis=1)
                .min()
            )
            assert least >= distance
            if strength == "chain":
                assert least <= distance + 1  # 300 orders come close on so small a graph


def test_weights_are_followed():
    """Catches SAMPLE ignoring its distribution: a valid partition with all the weight comes out as
    it is."""
    rng = np.random.default_rng(10)
    graph = random_graph(rng, "towers", 25)
    arrays = repair_arrays(graph)
    target = repair_batch(arrays, 5, mode="sample", rng=rng)[0]
    actual = repair_batch(arrays, 5, mode="sample", rng=rng, weights=np.eye(5)[target], count=10)
    assert np.all(actual == target)


def test_bad_arguments_are_refused():
    """Catches a crash inside the compiled code."""
    arrays = repair_arrays(random_graph(np.random.default_rng(0), "towers", 8))
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="mode"):
        repair_batch(arrays, 3, mode="guess", rng=rng)
    with pytest.raises(InputError, match="candidates"):
        repair_batch(arrays, 3, mode="fix", rng=rng)
