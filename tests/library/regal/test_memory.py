"""Memory as a part of what is valid: what each device holds against what it has, schedules that fit
where memory is tight, and proofs that none does."""

import dataclasses

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from learned_mapping.budget import Budget
from learned_mapping.hardware.devices import Devices
from learned_mapping.hardware.fitting import DoesNotFitError
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping.regal.bounds.cp_sat import cp_sat
from learned_mapping.regal.bounds.room import room_needed
from learned_mapping.regal.methods import METHODS, PROBLEM, solve
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import INFEASIBLE, Instance
from learned_mapping.regal.searches.list_schedule import list_scheduler, one_device
from learned_mapping.regal.validate import validate

FAMILIES = sorted(GRAPH_FAMILIES)


def weighty(rng, family, ops):
    """A graph of which some ops hold weights that weigh as much as its tensors."""
    graph = random_graph(rng, family, ops)
    weights = rng.integers(0, 4 * int(graph.tensor_bytes.mean()) + 2, ops) * (rng.random(ops) < 0.4)
    return dataclasses.replace(graph, op_weight_bytes=np.asarray(weights, np.int64))


def test_each_device_is_held_to_its_own_memory():
    """Catches one limit for all devices, the wrong device, and a fitness that is not graded: 200
    schedules on devices of different memories, by the validator."""
    rng, seen = np.random.default_rng(0), set()
    for k in range(200):
        d = int(rng.choice([2, 4]))
        graph = weighty(rng, FAMILIES[k % len(FAMILIES)], 20)
        roomy = Instance(graph, Devices(devices=d))
        chromosome = rng.random(roomy.chromosome_length)
        peaks = np.array(roomy.simulate(decode(roomy, chromosome)).peaks, float)
        machine = Devices(devices=d, memory_bytes=tuple(peaks * rng.uniform(0.8, 1.4, d) + 1))
        instance = Instance(graph, machine)
        schedule = decode(instance, chromosome)
        over = {f"device {i}" for i in range(d) if peaks[i] > machine.memory_bytes[i]}
        verdict = validate(graph, schedule, machine)
        assert {name for v in verdict.violations for name in v.culprits} == over
        share = (peaks / machine.memory_bytes).max()
        value = -PROBLEM.value(instance, schedule)
        assert value == pytest.approx(INFEASIBLE * share if over else verdict.costs["makespan_s"])
        seen.add(len(over))
    assert {0, 1, 2} <= seen


def test_local_search_ends_with_what_fits_where_memory_is_tight():
    """Catches a local search that begins where nothing fits: graphs with a fiftieth more memory
    than the smallest peak that is known, and none of them is passed over the budget."""
    rng = np.random.default_rng(1)
    for k in range(10):
        graph, d = weighty(rng, FAMILIES[k % len(FAMILIES)], 40), (2, 4)[k % 2]
        share, _ = room_needed(Instance(graph, Devices(devices=d, memory_bytes=1.0)))
        machine, budget = Devices(devices=d, memory_bytes=1.02 * share), Budget(samples=4000)
        run = METHODS["local-search"].run
        schedule, _ = run(Instance(graph, machine), np.random.default_rng(0), budget)
        assert validate(graph, schedule, machine).valid and budget.samples <= 4000


def test_the_list_scheduler_fits_where_its_order_for_memory_does():
    """Catches a rule that looks at time alone: as much memory as its schedule for memory takes."""
    rng, slower = np.random.default_rng(4), 0
    for k in range(10):
        graph = weighty(rng, FAMILIES[k % len(FAMILIES)], 40)
        memory = Instance(graph, objective="memory")
        machine = Devices(memory_bytes=memory.cost(list_scheduler(memory)))
        assert validate(graph, list_scheduler(Instance(graph, machine)), machine).valid
        slower += not validate(graph, list_scheduler(Instance(graph)), machine).valid
    assert slower >= 5


def test_one_device_is_one_that_has_room():
    """Catches the fastest device where everything does not fit, by hand: 10 weights of 10 bytes on
    a fast device of 50 and a slow one of 200."""
    graph = hand_graph(10, chain_edges(10), op_flop=[1e9] * 10, op_weight_bytes=[10] * 10)
    machine = Devices(memory_bytes=(50.0, 200.0), flop_per_s=(2e9, 1e9))
    assert set(one_device(Instance(graph, machine)).placement) == {1}
    assert set(one_device(Instance(graph, Devices(flop_per_s=(2e9, 1e9)))).placement) == {0}


def test_a_rule_without_a_limit_is_as_it_was():
    """Catches a limit that is not near and changes a schedule: two memories, both far away."""
    rng = np.random.default_rng(2)
    for family in FAMILIES:
        graph = weighty(rng, family, 30)
        orders = [
            list_scheduler(Instance(graph, Devices(memory_bytes=size))).order.tolist()
            for size in (2.0**34, 2.0**50)
        ]
        assert orders[0] == orders[1]


def test_what_arithmetic_refuses_is_refused_at_once():
    """Catches a search for what cannot be: weights of 100 bytes on two devices of 49, and an op of
    30 on devices of 29 and less; a byte more each is not refused."""
    graph = hand_graph(10, chain_edges(10), op_weight_bytes=[10] * 10)
    with pytest.raises(
        DoesNotFitError, match="100 bytes of weights; 50 bytes a device is the least"
    ):
        solve(Instance(graph, Devices(memory_bytes=49.0)), "brkga", samples=1)
    assert PROBLEM.task(graph, machine=Devices(memory_bytes=50.0)).arrays.counts_memory
    large = hand_graph(2, [(0, 1)], tensor_bytes=[20, 10])
    with pytest.raises(DoesNotFitError, match="op o1 alone needs 30 bytes") as caught:
        PROBLEM.task(large, machine=Devices(memory_bytes=(29.0, 5.0)))
    assert caught.value.proof == "arithmetic" and caught.value.share == pytest.approx(30 / 29)


def test_cp_sat_proves_that_nothing_fits_and_names_the_least_that_does():
    """Catches *nothing found* in place of a proof, and a least memory that is not the smallest
    peak: with a byte less than it, and with as much."""
    rng, proved = np.random.default_rng(3), 0
    for k in range(6):
        graph = weighty(rng, FAMILIES[k % len(FAMILIES)], 7)
        graph = dataclasses.replace(
            graph,
            tensor_bytes=graph.tensor_bytes % 97 + 1,
            op_weight_bytes=rng.integers(0, 300, 7),
        )
        smallest = cp_sat(Instance(graph, objective="memory"))
        assert smallest.optimal
        least = int(smallest.cost)
        fits = solve(Instance(graph, Devices(memory_bytes=float(least))), "cp-sat", samples=300)
        assert fits.metrics["peak_bytes"] <= least
        with pytest.raises(DoesNotFitError) as caught:
            solve(Instance(graph, Devices(memory_bytes=least - 1.0)), "cp-sat", samples=300)
        assert caught.value.least_bytes.max() <= least
        if caught.value.proof == "all":
            proved += 1
            assert f"{least} bytes a device does, nothing less" in str(caught.value)
    assert proved >= 3


def test_the_larger_device_may_be_either():
    """Catches a solver whose first op is on the first device, where only the second has room for
    what goes with it."""
    weights = [1000, 400, 300, 400, 300, 200]
    graph = make_graph(
        name="uneven",
        op_names=[f"o{i}" for i in range(6)],
        op_kinds=["add"] * 6,
        op_flop=[0.0] * 6,
        op_seconds=[1e-3] * 6,
        op_weight_bytes=weights,
        tensor_names=[],
        tensor_producer=[],
        tensor_bytes=[],
        tensor_is_output=[],
        edge_tensor=[],
        edge_consumer=[],
    )
    for memory in ((1000.0, 1700.0), (1700.0, 1000.0)):
        instance = Instance(graph, Devices(memory_bytes=memory))
        result = solve(instance, "cp-sat", samples=200)
        assert validate(graph, result.solution, machine=instance.machine).valid
        assert result.metrics["makespan_s"] == pytest.approx(3e-3)


def test_whole_bytes_are_not_rounded():
    """Catches a peak called the least that is a few bytes above it, on graphs of a few bytes."""
    rng, claimed = np.random.default_rng(1), 0
    for _ in range(40):
        n = int(rng.integers(6, 10))
        edges = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.35]
        sizes = rng.integers(1, 9, n).tolist()
        graph = make_graph(
            name="small",
            op_names=[f"o{i}" for i in range(n)],
            op_kinds=["add"] * n,
            op_flop=[1.0] * n,
            op_weight_bytes=[0] * n,
            tensor_names=[f"t{i}" for i in range(n)],
            tensor_producer=range(n),
            tensor_bytes=sizes,
            tensor_is_output=[False] * n,
            edge_tensor=[i for i, _ in edges],
            edge_consumer=[j for _, j in edges],
        )
        instance = Instance(graph, objective="memory")
        hasty = cp_sat(instance, deterministic_time=0.004 * float(rng.random()))
        if hasty.optimal:
            claimed += 1
            assert hasty.cost <= cp_sat(instance, deterministic_time=1.0).cost
    assert claimed
