"""Five hundred random pairs of instance and damaged solution per problem: validator and second
checker agree."""

import time

import numpy as np
import pytest

from by_hand import hand_graph
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.hardware.devices import Devices
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.validate import validate as validate_partition
from learned_mapping.mmap.mapping import make_mapping
from learned_mapping.mmap.validate import validate as validate_mapping
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.validate import validate as validate_schedule
from learned_mapping.verdict import LISTED
from mmap_games import games, hard_program
from second_checkers import mapping_is_valid, partition_costs, partition_is_valid, schedule_is_valid

PAIRS = 500
FAMILIES = list(GRAPH_FAMILIES)


def test_mappings():
    """A game's mapping with up to four decisions changed, by a little or to those of other
    buffers."""
    rng, valid, judged = np.random.default_rng(0), 0, 0
    while judged < PAIRS:
        program = hard_program(int(rng.integers(1000)), int(rng.integers(4, 40)))
        for game in games(program, judged):
            columns = [
                np.array(getattr(game, name)) for name in ("action", "offset", "start", "end")
            ]
            for _ in range(int(rng.integers(0, 5))):
                b, column = int(rng.integers(program.num_buffers)), int(rng.integers(1, 5))
                if column == 4:
                    other = int(rng.integers(program.num_buffers))
                    for values in columns:
                        values[b] = values[other]
                elif columns[0][b] != 2:
                    columns[column][b] = max(columns[column][b] + int(rng.integers(-2, 3)), 0)
            columns[3] = np.minimum(columns[3], program.num_instructions - 1)
            mapping = make_mapping(program, *columns)
            verdict = validate_mapping(program, mapping)
            assert verdict.valid == mapping_is_valid(program, mapping), (
                f"{program.digest}: {verdict}"
            )
            valid, judged = valid + verdict.valid, judged + 1
    assert PAIRS / 10 < valid < PAIRS * 9 / 10


def large(graph, rng):
    """The same graph with tensors as large as files may have, so that sums pass 2^53."""
    sizes = rng.integers(2**49, 2**50, graph.num_tensors)
    return make_graph(
        name=graph.name,
        op_names=graph.op_names,
        op_kinds=graph.op_kinds,
        op_flop=graph.op_flop,
        tensor_names=graph.tensor_names,
        tensor_producer=graph.tensor_producer,
        tensor_bytes=sizes,
        tensor_is_output=graph.tensor_is_output,
        edge_tensor=graph.edge_tensor,
        edge_consumer=graph.edge_consumer,
    )


def test_partitions():
    """Cuts of the topological order, some with a few ops moved; times in exact fractions, bytes to
    the last one."""
    rng, valid = np.random.default_rng(1), 0
    for i in range(PAIRS):
        graph = random_graph(rng, FAMILIES[i % len(FAMILIES)], int(rng.integers(3, 12)))
        graph = large(graph, rng) if i % 5 == 0 else graph
        chips = int(rng.integers(1, 6))
        assignment = np.empty(graph.num_ops, int)
        assignment[graph.topological_order] = np.unique(
            np.sort(rng.integers(0, chips, graph.num_ops)), True, True
        )[2]
        for op in rng.integers(0, graph.num_ops, int(rng.integers(0, 3))):
            assignment[op] = rng.integers(chips)
        partition = make_partition(assignment, chips)
        verdict = validate_partition(graph, partition)
        assert verdict.valid == partition_is_valid(graph, partition), verdict
        if verdict.valid:
            seconds, most = partition_costs(graph, partition, ChipPackage(chips=chips))
            assert verdict.costs["runtime_s"] == pytest.approx(seconds, rel=1e-12)
            assert verdict.costs["peak_bytes"] == float(most)
        valid += verdict.valid
    assert PAIRS / 5 < valid < PAIRS * 9 / 10


def test_schedules():
    """A schedule that sends as late as it can, with steps swapped, dropped, repeated or put to
    another device."""
    rng, valid = np.random.default_rng(2), 0
    for i in range(PAIRS):
        graph = random_graph(rng, FAMILIES[i % len(FAMILIES)], int(rng.integers(2, 12)))
        machine = Devices(devices=int(rng.integers(1, 4)))
        place = rng.integers(0, machine.devices, graph.num_ops)
        order, sent = [], set()
        for op in graph.topological_order.tolist():
            for tensor in graph.edge_tensor[graph.edge_consumer == op].tolist():
                key = (tensor, int(place[op]))
                if place[graph.tensor_producer[tensor]] != place[op] and key not in sent:
                    sent.add(key)
                    order.append(key)
            order.append((op, -1))
        for _ in range(int(rng.integers(0, 3))):
            a, b = rng.integers(0, len(order), 2)
            kind = rng.integers(4)
            if kind == 0:
                order[a], order[b] = order[b], order[a]
            elif kind == 1 and len(order) > 1:
                del order[a]
            elif kind == 2:
                order.insert(a, order[b % len(order)])
            else:
                place[rng.integers(graph.num_ops)] = rng.integers(machine.devices)
        schedule = Schedule.of(place, order, machine.devices)
        verdict = validate_schedule(graph, schedule, machine)
        assert verdict.valid == schedule_is_valid(graph, schedule, machine), verdict
        valid += verdict.valid
    assert PAIRS / 10 < valid < PAIRS * 9 / 10


def quick(seconds, judge, *arguments, **options):
    begin = time.process_time()
    verdict = judge(*arguments, **options)
    assert time.process_time() - begin < seconds
    return verdict


def test_validators_take_seconds_for_thousands():
    """Three thousand chips, and six thousand equal transfers of a tensor with six thousand uses."""
    rng, n = np.random.default_rng(0), 6000
    edges = sorted(
        {
            (i, int(j))
            for i in range(n - 1)
            for j in [i + 1, *rng.integers(i + 1, min(n, i + 40), 3)]
        }
    )
    graph = hand_graph(n, edges, tensor_bytes=np.full(n, 1000))
    assert not quick(2, validate_partition, graph, make_partition(np.arange(n) // 2, n // 2)).valid
    uses = {
        "tensor_names": ["t"],
        "tensor_producer": [0],
        "edge_tensor": [0] * n,
        "edge_consumer": range(1, n + 1),
    }
    star = hand_graph(n + 1, [], tensor_bytes=[8], **uses)
    order = [(0, -1), *[(0, 1)] * n, *((i, -1) for i in range(1, n + 1))]
    verdict = quick(2, validate_schedule, star, Schedule.of([0] + [1] * n, order, 2))
    assert len(verdict.violations) == LISTED + 1
