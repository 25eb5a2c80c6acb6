"""Chips and links that differ: the model, the validator and the second checker agree, exact methods
find the best of all partitions, bounds are below it, and what is for alike chips says so."""

import dataclasses
import itertools
import json

import jax
import numpy as np
import pytest

import learned_mapping as lm
from by_hand import chain_edges, hand_graph
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import (
    ChipModel,
    ChipPackage,
    graph_work,
    package_of,
)
from learned_mapping.hardware.in_jax import chip_latencies
from learned_mapping.mcm.bounds.optimum import bisection, ideals_of, lower_bound, optimum
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.methods import METHODS, solve
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.rules.constraints import obeys_chain_rule
from learned_mapping.mcm.rules.cp_sat import fastest_partition
from learned_mapping.mcm.searches.greedy import careful_greedy
from learned_mapping.mcm.silicon import PROBLEM as SILICON
from learned_mapping.mcm.validate import validate
from learned_mapping.programs.json_io import read_json
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from second_checkers import partition_costs

FAMILIES = sorted(GRAPH_FAMILIES)
PAIR = ChipPackage(chips=2, flop_per_s=(1e9, 3e9), op_overhead_s=0.0, link_bytes_per_s=1e9)


def untimed(rng, family, ops):
    """A graph without times of its own, on which arithmetic and streaming weigh about the same."""
    graph = random_graph(rng, family, ops)
    flop = rng.integers(1, 10**8, ops).astype(float)
    return dataclasses.replace(graph, op_seconds=None, op_flop=flop)


def unlike(rng, chips, link=2e11):
    """A package of which every chip and every link is another."""

    def row(low, high, unit):
        return tuple((rng.uniform(low, high, chips) * unit).tolist())

    return ChipPackage(
        chips=chips,
        flop_per_s=row(0.2, 2, 4e12),
        sram_bytes_per_s=row(0.3, 2, 512e9),
        weight_bytes_per_s=row(0.3, 2, 512e9),
        link_bytes_per_s=row(0.3, 2, link),
        op_overhead_s=row(0.5, 2, 5e-7),
    )


def small(count, seed):
    rng = np.random.default_rng(seed)
    for k in range(count):
        ops = int(rng.integers(5, 9))
        graph, chips = untimed(rng, FAMILIES[k % len(FAMILIES)], ops), 3 if ops > 6 else 4
        yield graph, unlike(rng, chips)


def least(graph, package):
    """The least seconds of all partitions under the chain rule, by the validator."""
    best = np.inf
    for f in itertools.product(range(package.chips), repeat=graph.num_ops):
        f = np.array(f, np.int32)
        if len(set(f.tolist())) == f.max() + 1 and obeys_chain_rule(f, graph.op_edges):
            costs = validate(graph, make_partition(f, package.chips), package).costs
            best = min(best, costs["runtime_s"])
    return best


def test_times_by_hand():
    """Catches an op that takes another chip's time, and a link with its neighbour's rate: two ops
    of 3e9 FLOP on chips of 1e9 and 3e9 a second, and 500 bytes between them."""
    graph = hand_graph(2, [(0, 1)], op_flop=[3e9, 3e9], tensor_bytes=[500, 0])
    package = dataclasses.replace(PAIR, link_bytes_per_s=(1e3, 1e9))
    model = ChipModel(graph, package)
    np.testing.assert_allclose(model.latencies(np.array([0, 1])), [3.5, 1.5])
    np.testing.assert_allclose(model.latencies(np.array([0, 0])), [6.0, 0.0])
    assert validate(graph, make_partition([0, 1], 2), package).costs["runtime_s"] == 3.5
    np.testing.assert_allclose(model.chip_seconds, [[3.0, 3.0], [1.0, 1.0]])


def test_model_validator_and_second_checker_agree():
    """Catches a rate read from another chip or link: 300 partitions, the third time in exact
    arithmetic."""
    rng = np.random.default_rng(1)
    for k in range(300):
        chips = int(rng.choice([2, 4, 8]))
        graph = untimed(rng, FAMILIES[k % len(FAMILIES)], int(rng.integers(8, 40)))
        package, arrays = unlike(rng, chips, 32e9), repair_arrays(graph)
        y = repair_batch(arrays, chips, mode="sample", rng=rng)[0]
        partition = make_partition(y, chips)
        told = validate(graph, partition, package).costs["runtime_s"]
        assert told == pytest.approx(ChipModel(graph, package).runtime(y), rel=1e-12)
        if k % 10 == 0:
            assert told == pytest.approx(partition_costs(graph, partition, package)[0], rel=1e-12)


def test_links_may_take_no_time():
    """Catches 0 times infinity, on one chip and on chips of which some links are free: a pair of
    ops, 500 bytes, by hand."""
    graph = hand_graph(2, [(0, 1)], op_flop=[3e9, 3e9], tensor_bytes=[500, 0])
    free = float("inf")
    one = ChipPackage(chips=1, flop_per_s=1e9, op_overhead_s=0.0, link_bytes_per_s=free)
    assert ChipModel(graph, one).runtime(np.array([0, 0])) == 6.0
    for links, seconds in ((free, 3.0), ((free, 1e3), 3.0), ((1e3, free), 3.5)):
        package = dataclasses.replace(PAIR, flop_per_s=1e9, link_bytes_per_s=links)
        for memory in (False, True):
            model = ChipModel(graph, package, memory)
            assert model.runtime(np.array([0, 1])) == seconds
            assert model.runtime(optimum(model)) == seconds
            assert model.runtime(fastest_partition(model).assignment) == seconds
        assert validate(graph, make_partition([0, 1], 2), package).costs["runtime_s"] == seconds


def test_optimum_and_bounds_against_all_partitions():
    """Catches a programme that takes chips for alike, and a bound above the best: 24 graphs."""
    for graph, package in small(24, 0):
        model, best = ChipModel(graph, package), least(graph, package)
        proven = bisection(model, ideals_of(model), start=np.zeros(graph.num_ops, np.int32))
        assert proven.exact and model.runtime(proven.assignment) == pytest.approx(best, rel=1e-8)
        assert lower_bound(model) <= best * (1 + 1e-12)
        assert model.runtime(careful_greedy(model)) >= best * (1 - 1e-12)


def test_cp_sat_against_all_partitions():
    """Catches an op that weighs the same on all chips, which gives wrong proofs: 24 graphs."""
    for graph, package in small(24, 7):
        outcome, best = fastest_partition(ChipModel(graph, package)), least(graph, package)
        assert outcome.optimal and outcome.bound <= best * (1 + 1e-9)
        found = ChipModel(graph, package).runtime(outcome.assignment)
        assert found == pytest.approx(best, rel=1e-6)


def test_alike_chips_have_the_same_optimum_chip_by_chip():
    """Catches a layer that forgets what fewer chips can hold: the programme for unlike chips on
    alike ones."""
    rng = np.random.default_rng(2)
    for family in FAMILIES:
        model = ChipModel(untimed(rng, family, 14), ChipPackage(chips=4, link_bytes_per_s=2e11))
        best = model.runtime(optimum(model))
        model.alike = False
        assert model.runtime(optimum(model)) == pytest.approx(best, rel=1e-8)


def test_one_number_for_all_is_the_number():
    """Catches a package of equal numbers that is another than that of the number: results and
    fingerprints are by its content."""
    rows = {name: (7.0,) * 3 for name in ("flop_per_s", "sram_bytes", "link_bytes_per_s")}
    one = {name: 7.0 for name in rows}
    assert ChipPackage(chips=3, **rows) == ChipPackage(chips=3, **one)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_without_a_network_takes_them(method):
    """Catches a method that stops at a tuple, and one that ends with an invalid partition."""
    graph, package = next(small(1, 3))
    result = solve(graph, method, package=package, samples=60)
    verdict = validate(graph, result.solution, package)
    assert method == "unconstrained" or verdict.valid
    if verdict.valid:
        assert result.metrics["throughput"] == pytest.approx(verdict.costs["throughput"])


def test_rules_fill_by_each_chips_own_times():
    """Catches a rule that cuts by mean times: 12 equal ops in a row on chips of one and three times
    the speed are best at three to nine, by hand, and both rules find that."""
    graph = hand_graph(12, chain_edges(12), op_flop=[1e9] * 12)
    for method in ("greedy-careful", "greedy-naive"):
        partition = solve(graph, method, package=PAIR, samples=1).solution
        assert np.bincount(partition.assignment).tolist() == [3, 9], method


def test_networks_jax_and_silicon_refuse_them_in_one_line():
    """Catches a network that sees mean chips, a JAX twin that fails inside a sum, and a simulator
    with the first chip's rates."""
    rng = np.random.default_rng(0)
    graph, package = untimed(rng, "layered", 8), unlike(rng, 3)
    model, refusal = ChipModel(graph, package), "differs from chip to chip: .* alike chips only"
    with pytest.raises(InputError, match=refusal):
        solve(graph, "rl", package=package, samples=20, profile="quick")
    with pytest.raises(InputError, match=refusal):
        PartitionEnv(model)
    with pytest.raises(InputError, match=refusal):
        jax.jit(chip_latencies)(graph_work(graph), np.zeros(8, np.int32), package)
    with pytest.raises(InputError, match=refusal):
        SILICON.task(graph, package=package)
    uneven = ChipPackage(chips=2, sram_bytes=(1e9, 2e9))
    with pytest.raises(InputError, match=refusal):
        SILICON.task(graph, package=uneven)
    grouped = dataclasses.replace(graph, op_group=("a", "a", *[""] * 6))
    with pytest.raises(InputError, match="groups are for chips that are alike"):
        solve(grouped, "random", package=package)


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("flop_per_s", [1e9], "flop_per_s: expected a number or 2, one a chip, got 1"),
        ("flop_per_s", [1e9, 0], r"flop_per_s\[1\]: must be above 0"),
        ("link_bytes_per_s", [1e9, "x"], r"link_bytes_per_s\[1\]"),
        ("op_overhead_s", [0, -1], r"op_overhead_s\[1\]"),
    ],
)
def test_bad_rows_are_one_line(tmp_path, field, value, fault):
    """Catches a row of another length, and a bad entry that is not named, in a file and a call."""
    path = tmp_path / "package.json"
    path.write_text(json.dumps({"schema": "learned-mapping/package/1", "chips": 2, field: value}))
    with pytest.raises(InputError, match=fault):
        package_of(read_json(str(path), "package"))
    with pytest.raises(InputError, match=fault):
        ChipPackage(chips=2, **{field: tuple(value)})


def test_a_file_of_unlike_chips_is_read_as_written(tmp_path):
    """Catches a row that becomes a list, which no package can be compared by."""
    package = unlike(np.random.default_rng(5), 4)
    content = {"schema": "learned-mapping/package/1", **dataclasses.asdict(package)}
    path = tmp_path / "package.json"
    path.write_text(json.dumps(content))
    assert package_of(read_json(str(path), "package")) == package
    assert lm.mcm.ChipPackage is ChipPackage
