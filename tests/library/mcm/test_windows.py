"""Bounds for graphs of too many ideals, and CP-SAT where it begins and under Eq. 4 itself."""

import itertools

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.bounds.min_cut import min_cut_bound
from learned_mapping.mcm.bounds.optimum import lower_bound, optimum
from learned_mapping.mcm.bounds.windows import window_bound
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.rules.cp_sat import fastest_partition
from learned_mapping.mcm.searches.greedy import careful_greedy
from learned_mapping.mcm.validate import validate
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph

LINK = 32e9  # Bytes a second of the default package.


def grid(layers, steps, seed=0):
    """A stacked recurrence of lognormal times, a cell an op."""
    rng = np.random.default_rng(seed)
    cells = list(itertools.product(range(steps), range(layers)))
    place = {cell: op for op, cell in enumerate(cells)}
    pairs = [((t - 1, k), (t, k)) for t, k in cells if t] + [
        ((t, k - 1), (t, k)) for t, k in cells if k
    ]
    edges = [(place[a], place[b]) for a, b in pairs]
    times = np.exp(rng.standard_normal(len(cells)) / 2)
    sizes = (LINK * 0.1 * times).astype(int)
    return hand_graph(len(cells), edges, op_seconds=times, tensor_bytes=sizes)


def test_a_bound_by_hand():
    """Catches links that are left out or counted once. Eight ops of 1 s in a row on two chips, a
    tensor of 1 s between any two: whoever shares them pays 1 s on both chips, (8 + 2) / 2 = 5 s in
    all, where an even share is 4 s and the cheapest chip with an op takes 3."""
    graph = hand_graph(8, chain_edges(8), op_seconds=[1.0] * 8, tensor_bytes=[int(LINK)] * 8)
    model = ChipModel(graph, ChipPackage(chips=2))
    assert model.runtime(optimum(model)) == 5.0 and min_cut_bound(model) == pytest.approx(4.0)
    assert 5.0 * (1 - 2e-3) <= window_bound(model) <= 5.0


@pytest.mark.parametrize("count", [2, 4])
def test_several_tensors_from_one_op_to_another_bound_as_one(count):
    """Catches a cut whose weights wrap around where arcs meet."""
    bounds = []
    for tensors in (1, count):
        producers = [i for i in range(5) for _ in range(tensors)]
        graph = make_graph(
            name="row",
            op_names=[f"o{i}" for i in range(6)],
            op_kinds=["add"] * 6,
            op_flop=[4e9] * 6,
            op_weight_bytes=[0] * 6,
            tensor_names=[f"t{k}" for k in range(len(producers))],
            tensor_producer=producers,
            tensor_bytes=[16_000_000 // tensors] * len(producers),
            tensor_is_output=[False] * len(producers),
            edge_tensor=range(len(producers)),
            edge_consumer=[i + 1 for i in producers],
        )
        bounds.append(min_cut_bound(ChipModel(graph, ChipPackage(chips=6))))
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)


def test_no_partition_is_below_a_bound():
    """Catches an op kept from a chip that it can be on: optima of fifty graphs, by dynamic
    programming."""
    rng, sharper = np.random.default_rng(3), 0
    for k in range(50):
        family = sorted(GRAPH_FAMILIES)[k % len(GRAPH_FAMILIES)]
        graph = random_graph(rng, family, int(rng.integers(8, 22)))
        link = float(10 ** rng.uniform(9, 11))
        package = ChipPackage(chips=int(rng.integers(2, 7)), link_bytes_per_s=link)
        model = ChipModel(graph, package)
        least = model.runtime(optimum(model))
        cut, bound = min_cut_bound(model), window_bound(model)
        assert lower_bound(model) <= cut <= bound <= least * (1 + 1e-6)
        sharper += bound > 1.01 * cut
    assert sharper >= 5, "or it adds nothing"


def test_the_solver_begins_where_it_is_told():
    """Catches hints that leave variables open: of 96 cells on 12 chips the solver, given next to no
    time, has at least the partition it was given."""
    model = ChipModel(grid(6, 16), ChipPackage(chips=12))
    start = careful_greedy(model)
    outcome = fastest_partition(model, effort=1.0, start=start)
    assert outcome.assignment is not None
    assert model.runtime(outcome.assignment) <= model.runtime(start) * (1 + 1e-6)


def test_eq_4_itself_by_hand():
    """Catches the chain rule in place of Eq. 4. Three ops of 1 s read one: under the chain rule they
    are on its chip or the next, two chips of 2 s; under Eq. 4 each has a chip, 1 s, as no two of
    them are joined."""
    edges = [(0, 1), (0, 2), (0, 3)]
    graph = hand_graph(4, edges, op_seconds=[1.0] * 4, tensor_bytes=[0] * 4)
    model = ChipModel(graph, ChipPackage(chips=4))
    chain = fastest_partition(model)
    assert chain.optimal and chain.value == pytest.approx(2.0)
    free = fastest_partition(model, start=chain.assignment, strength="general")
    assert free.optimal and free.value == pytest.approx(1.0)
    told = validate(graph, make_partition(free.assignment, 4), model.package)
    assert told.valid and told.costs["runtime_s"] == pytest.approx(1.0)
