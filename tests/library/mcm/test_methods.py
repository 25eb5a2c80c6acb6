"""Tests of the methods: valid, never better than the exact optimum, which constraint programming
confirms."""

import itertools
import time

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from learned_mapping import problem
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.bounds.optimum import (
    TooManyIdealsError,
    _reach_ideals,
    bisection,
    ideals_of,
    optimum,
)
from learned_mapping.mcm.methods import PROBLEM, solve
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.rules.constraints import is_valid, obeys_chain_rule
from learned_mapping.mcm.rules.cp_sat import Rules, fastest_partition
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.mcm.searches.greedy import careful_greedy, naive_greedy
from learned_mapping.mcm.validate import validate
from learned_mapping.mcm.validate import validate as validate_partition
from learned_mapping.programs.formats import graph_from_json, graph_to_json
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.json_io import Node
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph


def graphs(count, low, high, seed=0):
    rng = np.random.default_rng(seed)
    for i in range(count):
        yield random_graph(
            rng, list(GRAPH_FAMILIES)[i % len(GRAPH_FAMILIES)], int(rng.integers(low, high))
        )


def most_chips(graph, chips, strength):
    """The most of `chips` chips a valid partition can use, by CP-SAT."""
    rules = Rules(graph, chips, strength)
    used = [rules.model.new_bool_var("") for _ in range(chips)]
    for c in range(chips):
        rules.model.add_bool_or([~used[c], *(rules.on[u][c] for u in range(graph.num_ops))])
    rules.model.maximize(sum(used))
    return rules.solve(10.0, None, 0)[1]


def enumerated(model):
    """The least run time on three chips, by trying every partition."""
    edges = model.graph.op_edges
    partitions = map(np.array, itertools.product(range(3), repeat=model.graph.num_ops))
    return min(
        model.runtime(f) for f in partitions if obeys_chain_rule(f, edges) and is_valid(f, edges)
    )


def test_optimum_equals_enumeration():
    """Catches a dynamic programme that misses a partition or a cost: every partition of six ops is
    tried."""
    for graph in graphs(10, 5, 7):
        model = ChipModel(graph, ChipPackage(chips=3, link_bytes_per_s=2e9))
        assert model.runtime(optimum(model)) == pytest.approx(enumerated(model), rel=1e-8)


@pytest.mark.parametrize("size", [2**33, 2**41, 2**50])
def test_optimum_with_a_tensor_that_dwarfs_the_rest(size):
    """Catches sums that keep a rest of what was taken away again, and a search that then never
    ends."""
    for graph in graphs(6, 6, 7, seed=2):
        data = graph_to_json(graph)
        for i, op in enumerate(data["ops"]):
            op["seconds"] = 1e-9 * (i % 5 + 1)
        data["tensors"][len(data["tensors"]) // 2]["bytes"] = size
        model = ChipModel(graph_from_json(Node(data, "made")), ChipPackage(chips=3))
        assert model.runtime(optimum(model)) == pytest.approx(enumerated(model), rel=1e-8)


def test_times_that_no_number_can_hold_are_refused():
    """Catches a partition that is called valid with an infinite run time."""
    with pytest.raises(InputError, match="longer on these chips"):
        ChipModel(next(graphs(1, 6, 7)), ChipPackage(chips=3, link_bytes_per_s=1e-305))


def test_a_rule_that_is_valid_takes_the_place_of_what_is_not():
    """Catches a tie at no time at all that an invalid partition wins."""
    data = graph_to_json(next(graphs(1, 12, 13)))
    for op in data["ops"]:
        op["seconds"] = 0.0
    task = PROBLEM.task(graph_from_json(Node(data, "made")), chips=7)
    actual = problem.solve(PROBLEM, task, "unconstrained", samples=5, alone=False).solution
    assert PROBLEM.validate(task, actual).valid


def test_optimum_equals_cp_sat():
    """Catches an optimum that is not one, on graphs too large to enumerate."""
    for graph in graphs(5, 10, 14, seed=1):
        model = ChipModel(graph, ChipPackage(chips=4))
        exact = fastest_partition(model)
        assert exact.optimal
        assert model.runtime(optimum(model)) == pytest.approx(exact.value, rel=1e-6)


def test_chain_of_equal_ops_is_split_evenly():
    """A hand-worked optimum: 12 ops of 1 s, no transfers, four chips, 3 s each. Catches an
    off-by-one in the fill."""
    n = 12
    graph = hand_graph(n, chain_edges(n), op_seconds=[1.0] * n, tensor_bytes=[0] * n)
    model = ChipModel(graph, ChipPackage(chips=4))
    for rule in (optimum, careful_greedy, naive_greedy):
        assert rule(model).tolist() == [i // 3 for i in range(n)]
    assert most_chips(graph, 5, "general") == 5


def test_naive_greedy_leaves_the_rest_to_the_last_chip():
    """Catches a fill that overflows its share: 5 ops of 1 s on 2 chips are cut at 2.5 s."""
    n = 5
    graph = hand_graph(n, chain_edges(n), op_seconds=[1.0] * n, tensor_bytes=[0] * n)
    assert naive_greedy(ChipModel(graph, ChipPackage(chips=2))).tolist() == [0, 0, 1, 1, 1]


def independent(n):
    """A graph of ops that do not depend on each other."""
    return hand_graph(n, [], op_flop=[1] * n)


def test_wide_graph_is_refused_by_the_dynamic_programme():
    """Catches a memory explosion in place of an error: 30 independent ops have 2^30 ideals."""
    graph = independent(30)
    with pytest.raises(TooManyIdealsError, match="wide"):
        ideals_of(ChipModel(graph, ChipPackage()), max_ideals=1000)
    with pytest.raises(TooManyIdealsError, match="in this time"):
        ideals_of(ChipModel(graph, ChipPackage()), stop=lambda: True)


@pytest.mark.parametrize("looks", [0, 1, 3, 10])
def test_a_bisection_that_is_stopped_keeps_its_best_and_what_it_proved(looks, monkeypatch):
    """Catches an exact phase that does not look at its clock, within a pass over the ideals too,
    and a bound that was not proved; without a stop, wherever it starts, the result is the optimum
    and so is its bound."""
    monkeypatch.setattr("learned_mapping.mcm.bounds.optimum._reach_ideals", _reach_in_steps)
    for graph in graphs(4, 12, 20, seed=3):
        model = ChipModel(graph, ChipPackage(chips=3))
        ideals, least = ideals_of(model), model.runtime(optimum(model))
        asked = iter([False] * looks + [True] * 1000)
        proven = bisection(model, ideals, stop=lambda asked=asked: next(asked))
        assert next(asked) and is_valid(proven.assignment, graph.op_edges)
        assert proven.low_s <= least * (1 + 1e-9) <= model.runtime(proven.assignment) * (1 + 2e-9)
        whole = bisection(model, ideals, start=naive_greedy(model), low_s=0.9 * least)
        assert model.runtime(whole.assignment) == pytest.approx(least, rel=2e-9) == whole.low_s


def _reach_in_steps(*given):
    """`_reach_ideals`, which looks up after every step between ideals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("learned_mapping.mcm.bounds.optimum.LOOKS", 3)
        return REACH_IDEALS.py_func(*given)


REACH_IDEALS = _reach_ideals


@pytest.mark.parametrize("seconds", [0.05, 1.0])
def test_the_optimum_keeps_to_its_time(seconds):
    """Catches a bisection of a minute after an enumeration in time: 20,000 ideals and a tenth of a
    second."""
    graph = random_graph(np.random.default_rng(2), "towers", 150)
    begin = time.perf_counter()
    try:
        result = solve(graph, "optimum", chips=4, seconds=seconds)
    except TooManyIdealsError:
        assert time.perf_counter() - begin < seconds + 2.0
        return
    assert result.seconds < seconds + 2.0 and validate(graph, result.solution).valid
    assert (
        result.metrics["bound_s"] <= result.metrics["chain_bound_s"] <= result.metrics["runtime_s"]
    )


def test_a_very_wide_graph_is_refused_before_it_fills_the_memory():
    """Catches ideals whose ready ops are listed by the thousand, 400,000 times."""
    graph = independent(3000)
    begin = time.monotonic()
    with pytest.raises(TooManyIdealsError, match="wide"):
        ideals_of(ChipModel(graph, ChipPackage()))
    assert time.monotonic() - begin < 60.0


def test_cp_sat_takes_a_graph_that_takes_no_time():
    graph = hand_graph(2, [(0, 1)], tensor_bytes=[0, 0])
    result = solve(graph, "cp-sat", package=ChipPackage(chips=2, op_overhead_s=0.0), samples=5)
    assert validate(graph, result.solution).valid and result.metrics["bound_s"] == 0.0


def test_cp_sat_proves_a_bound():
    """Catches times that are rounded up, and a tensor that nobody reads and that makes the unit of
    time coarse."""
    graph = make_graph(
        name="unread",
        op_names=list("wabcde"),
        op_kinds=["x"] * 6,
        op_flop=[0] * 6,
        op_seconds=[0.0, 1.949214e-4, 5.664684e-5, 2.916784e-4, 1.593852e-4, 1.914030e-4],
        tensor_names=["unread", "t"],
        tensor_producer=[0, 2],
        tensor_bytes=[2**50, 0],
        tensor_is_output=[True, False],
        edge_tensor=[1],
        edge_consumer=[3],
    )
    for item in (graph, *graphs(6, 12, 20, seed=9)):
        result = solve(item, "cp-sat", chips=2, seed=0, seconds=5)
        metrics = result.metrics
        assert (
            0.0
            < metrics["bound_s"]
            <= metrics["chain_bound_s"] * (1 + 1e-6)
            <= metrics["runtime_s"] * (1 + 2e-6)
        )
        assert result.metrics["optimal"] == 1.0
        assert result.metrics["runtime_s"] == pytest.approx(
            ChipModel(item, ChipPackage(chips=2)).runtime(
                optimum(ChipModel(item, ChipPackage(chips=2)))
            ),
            rel=1e-6,
        )


def test_cp_sat_has_no_time_for_its_model():
    """Catches a time limit that begins once the model is made."""
    graph = random_graph(np.random.default_rng(5), "towers", 300)
    result = solve(graph, "cp-sat", chips=36, seconds=1e-3)
    assert validate(graph, result.solution).valid and result.seconds < 1.0
    assert "chain_bound_s" not in result.metrics and "optimal" not in result.metrics


def test_a_partition_of_other_ops_is_refused():
    """Catches a user's method whose chips are too few: an index out of range, in code that is not
    the user's."""
    task = PROBLEM.task(random_graph(np.random.default_rng(5), "towers", 40), chips=4)
    for shape in ((39,), (41,), (1, 40), ()):
        with pytest.raises(InputError, match=r"partition: assignment: shape .*, expected \(40,\)"):
            task.partition(np.zeros(shape, np.int32))


def test_unconstrained_search_admits_defeat():
    """Catches an invalid partition that is given a throughput."""
    graph = random_graph(np.random.default_rng(5), "towers", 40)
    result = solve(graph, "unconstrained", chips=36, samples=50)
    assert result.metrics["throughput"] == 0 and result.metrics["valid"] == 0
    assert not validate(graph, result.solution).valid


def masked_layers(layers=6):
    """A chain of layers that all use one cheap mask, itself made of an input."""
    ops = ["mask_in", "mask"] + [f"layer{i}" for i in range(layers)]
    return make_graph(
        name="masked",
        op_names=ops,
        op_kinds=["input", "mul"] + ["dot_general"] * layers,
        op_flop=[0, 10] + [1e9] * layers,
        tensor_names=[f"t_{op}" for op in ops],
        tensor_producer=range(len(ops)),
        tensor_bytes=[8, 8] + [100] * layers,
        tensor_is_output=[False] * (len(ops) - 1) + [True],
        edge_tensor=[0] + [1] * layers + list(range(2, layers + 1)),
        edge_consumer=[1] + list(range(2, layers + 2)) + list(range(3, layers + 2)),
    )


def test_folding_frees_the_chips():
    """Catches a fold that loses work, changes on repetition, or leaves the mask in the way."""
    graph = masked_layers()
    folded = fold_cheap_sources(graph)
    assert folded.op_names == tuple(f"layer{i}" for i in range(6))
    assert folded.op_flop.tolist() == [1e9 + 10] * 6
    assert fold_cheap_sources(folded) is folded
    assert most_chips(graph, 6, "chain") == 3
    assert most_chips(folded, 6, "chain") == 6


def test_parts_of_a_graph_get_chips_of_their_own():
    """Two training steps side by side went over the same two chips: 1.9 times the optimum."""
    rng, n = np.random.default_rng(0), 12
    edges, steps = [], 2 * n
    for first in (0, steps):
        ops = range(first, first + steps)
        edges += [(a, a + 1) for a in ops[:-1]] + [
            (a, first + steps - 1 - (a - first)) for a in ops[: n - 1]
        ]
    flop = rng.lognormal(20, 0.8, 2 * steps)
    graph = hand_graph(2 * steps, edges, op_flop=flop, tensor_bytes=[1000] * 2 * steps)
    model = ChipModel(graph, ChipPackage(chips=8))
    actual = careful_greedy(model)
    assert validate_partition(graph, make_partition(actual, 8)).valid
    assert model.runtime(actual) <= 1.05 * model.runtime(optimum(model))
