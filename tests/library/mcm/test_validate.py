"""Tests of the validator, of the quick checks, and that the two never disagree."""

import itertools

import numpy as np
import pytest

from by_hand import hand_graph
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.hardware.devices import Devices
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.rules import constraints
from learned_mapping.mcm.validate import longest_path, validate
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.validate import validate as judge_schedule

RULES = {"acyclic": "Eq. 2", "skipping": "Eq. 3", "triangle": "Eq. 4", "memory": "Eq. 5"}


@pytest.mark.parametrize("case", constraints.EXAMPLE_PARTITIONS)
def test_each_example_breaks_its_own_rule_only(case):
    """Catches a rule that is not checked, or one that fires where it should not."""
    partition = make_partition(constraints.EXAMPLE_PARTITIONS[case], 4)
    verdict = validate(
        constraints.example_graph(), partition, constraints.EXAMPLE_PACKAGE, memory=True
    )
    assert {v.rule[:5] for v in verdict.violations} == ({RULES[case]} if case in RULES else set())
    if case == "triangle":
        assert verdict.violations[0].culprits == ("a", "c")
    if case == "skipping":
        assert verdict.violations[0].culprits == ("chip 1",)


def test_everything_on_chip_0_is_valid():
    """Catches Eq. 3 read as "all chips must be used"."""
    assert validate(constraints.example_graph(), make_partition([0] * 6, 4)).valid


def test_bytes_that_an_op_does_not_touch_take_no_time():
    """Would catch a judge of paper 2 or 3 that charges a lookup for its table or a slice for what
    it is cut from."""
    graph = make_graph(
        name="parts",
        op_names=["x", "lookup", "slice"],
        op_kinds=["input", "gather", "slice"],
        op_flop=[0, 0, 0],
        op_weight_bytes=[0, 2**20, 0],
        op_untouched_bytes=[0, 2**20 - 64, 4000],
        tensor_names=["a", "b", "c"],
        tensor_producer=[0, 1, 2],
        tensor_bytes=[4096, 64, 96],
        tensor_is_output=[False, True, True],
        edge_tensor=[0, 0],
        edge_consumer=[1, 2],
    )
    assert graph.op_tensor_traffic.tolist() == [
        4096,
        4160,
        192,
    ] and graph.op_weight_traffic.tolist() == [0, 64, 0]
    package, f = ChipPackage(chips=2), np.array([0, 0, 0])
    expected = (
        4352 / package.sram_bytes_per_s
        + 64 / package.weight_bytes_per_s
        + 2 * package.op_overhead_s
    )
    assert ChipModel(graph, package).latencies(f)[0] == pytest.approx(expected)
    assert 1 / validate(graph, make_partition(f, 2), package).costs["throughput"] == pytest.approx(
        expected
    )
    machine, schedule = Devices(), Schedule.of(f, np.array([[0, -1], [1, -1], [2, -1]]), 2)
    expected = (4160 + 64 + 192) / machine.bytes_per_s
    assert Instance(graph).cost(schedule) == pytest.approx(expected)
    assert judge_schedule(graph, schedule, machine).costs["makespan_s"] == pytest.approx(expected)


def test_longest_paths_by_hand():
    """Catches shortest paths in place of longest."""
    edges = {(0, 1), (1, 2), (0, 2), (2, 3)}
    delta = {start: longest_path(edges, start) for start in range(4)}
    assert delta[0][2] == 2 and delta[0][3] == 3 and delta[3][0] == -np.inf and delta[1][1] == 0
    assert longest_path({(0, 1), (1, 0)}, 0) is None


def chips_as_ops(pairs):
    """A graph of four ops with these edges."""
    return hand_graph(4, pairs, op_flop=[1.0] * 4)


def test_triangle_is_transitive_reduction_on_all_small_chip_graphs():
    """Catches a gap between Eq. 4 as printed and the bit-set checks, over every graph of four
    chips."""
    pairs = list(itertools.combinations(range(4), 2))
    for bits in range(1 << len(pairs)):
        chosen = [p for i, p in enumerate(pairs) if bits >> i & 1]
        printed = all(longest_path(set(chosen), a)[b] == 1 for a, b in chosen)
        assert (
            constraints.obeys_triangle(np.arange(4), np.array(chosen, int).reshape(-1, 2))
            == printed
        )
        if chosen:
            verdict = validate(chips_as_ops(chosen), make_partition(range(4), 4))
            assert (not any(v.rule.startswith("Eq. 4") for v in verdict.violations)) == printed


def partitions(graph, rng, count):
    """Random ones of very different kinds: uniform, topological cuts, few chips, and one op
    moved."""
    rank = np.argsort(graph.topological_order)
    for i in range(count):
        chips = int(rng.integers(1, 7))
        if i % 4 == 0:
            yield rng.integers(0, chips, graph.num_ops)
            continue
        cuts = np.sort(rng.integers(0, graph.num_ops + 1, chips - 1))
        actual = np.searchsorted(cuts, rank, side="right")
        if i % 4 == 2:
            actual = np.unique(actual, return_inverse=True)[1]
        if i % 4 == 3:
            actual = np.unique(actual, return_inverse=True)[1]
            actual[rng.integers(graph.num_ops)] = rng.integers(0, chips)
        yield actual


def test_validator_and_quick_checks_agree_on_ten_thousand_partitions():
    """Catches any mismatch in validity or in cost between the validator and what the methods
    use."""
    rng = np.random.default_rng(1)
    valid = compared = 0
    for _ in range(8):
        for family in GRAPH_FAMILIES:
            graph = random_graph(rng, family, int(rng.integers(3, 14)))
            model = ChipModel(graph, ChipPackage(chips=7))
            actual = list(partitions(graph, rng, 250))
            for assignment in actual:
                verdict = validate(graph, make_partition(assignment, 7), model.package)
                assert verdict.valid == constraints.is_valid(assignment, graph.op_edges)
                if (
                    constraints.obeys_chain_rule(assignment, graph.op_edges)
                    and assignment.min() == 0
                ):
                    assert not any(
                        v.rule.startswith(("Eq. 2", "Eq. 4")) for v in verdict.violations
                    )
                if verdict.costs:
                    assert verdict.costs["runtime_s"] == pytest.approx(
                        model.runtime(assignment), rel=1e-9
                    )
                valid += verdict.valid
                compared += 1
            expected = sum(constraints.is_valid(a, graph.op_edges) for a in actual)
            assert constraints.valid_count(np.array(actual), graph.op_edges) == expected
    assert compared == 10_000
    assert 2000 < valid < 8000  # both answers occur often
