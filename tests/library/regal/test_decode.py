import dataclasses
import heapq

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices, device_seconds, simulate
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping.regal.rules.decode import decode, encode, evaluate, fitness_of, make_workspace
from learned_mapping.regal.rules.instance import INFEASIBLE, Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.validate import validate


def decode_reference(instance, chromosome):
    """The decoder in plain Python, slow on purpose: what the compiled one is held to."""
    graph, d = instance.graph, instance.machine.devices
    n = graph.num_ops
    affinity = np.asarray(chromosome[: n * d]).reshape(n, d)
    priority = [float(p) for p in chromosome[n * d :]]
    placement = [int(np.argmax(row)) for row in affinity]
    predecessors: dict[int, set[int]] = {op: set() for op in range(n)}
    for tensor in range(graph.num_tensors):
        producer = int(graph.tensor_producer[tensor])
        for consumer in graph.consumers(tensor).tolist():
            if placement[consumer] == placement[producer]:
                predecessors[consumer].add(producer)
            else:
                transfer = n + tensor * d + placement[consumer]
                predecessors.setdefault(transfer, set()).add(producer)
                predecessors[consumer].add(transfer)
    successors: dict[int, list[int]] = {item: [] for item in predecessors}
    for item, before in predecessors.items():
        for predecessor in before:
            successors[predecessor].append(item)
    ready = [(-priority[item], item) for item, before in predecessors.items() if not before]
    heapq.heapify(ready)
    items = []
    while ready:
        _, item = heapq.heappop(ready)
        items.append(item)
        for successor in successors[item]:
            predecessors[successor].discard(item)
            if not predecessors[successor]:
                heapq.heappush(ready, (-priority[successor], successor))
    order = [(item, -1) if item < n else ((item - n) // d, (item - n) % d) for item in items]
    return Schedule.of(placement, order, d)


def assert_agreement(instance, chromosome):
    """Kernel, plain decoder, plain simulator and validator say the same of one chromosome, to the
    last bit."""
    work = make_workspace(instance)
    makespan, peak, steps = evaluate(instance.arrays, chromosome, work)
    plain = decode_reference(instance, chromosome)
    compiled = decode(instance, chromosome)
    assert compiled.order.tolist() == plain.order.tolist() and steps == len(plain.order)
    assert compiled.placement.tolist() == plain.placement.tolist()
    simulation = simulate(instance.graph, plain.placement, plain.order.tolist(), instance.machine)
    verdict = validate(instance.graph, plain, instance.machine)
    assert verdict.valid, verdict
    assert makespan == simulation.makespan_s == verdict.costs["makespan_s"]
    assert peak == simulation.peak_bytes == verdict.costs["peak_bytes"]


def compare(odd_graph, graphs, seed):
    """`assert_agreement` on five chromosomes of each of so many random graphs; returns how many."""
    rng = np.random.default_rng(seed)
    for trial in range(graphs):
        machine = Devices(
            devices=int(rng.integers(1, 4)), transfers=("rendezvous", "free", "queued")[trial % 3]
        )
        instance = Instance(odd_graph(rng, int(rng.integers(1, 16))), machine)
        for draw in range(5):
            chromosome = rng.random(instance.chromosome_length)
            # Rounded ones are full of ties.
            assert_agreement(instance, np.round(chromosome, 1) if draw % 2 else chromosome)
    return 5 * graphs


def test_ten_thousand_random_schedules_without_a_mismatch(odd_graph):
    """Catches any difference between the compiled decoder and simulator, their plain versions, and
    the validator."""
    assert compare(odd_graph, 2000, 0) == 10_000


def machine_of(rng, devices, transfers, seconds):
    """Unlike devices and links whose transfers take about as long as an op of `seconds`."""
    byte_s = seconds / 1e6
    return Devices(
        devices=devices,
        transfers=transfers,
        memory_bytes=tuple(rng.uniform(1e12, 2e12, devices)),
        flop_per_s=tuple(rng.uniform(0.5, 2.0, devices) * 1e9),
        bytes_per_s=tuple(rng.uniform(0.5, 2.0, devices) / byte_s),
        link_bytes_per_s=tuple(map(tuple, rng.uniform(0.2, 5.0, (devices, devices)) / byte_s)),
        link_latency_s=tuple(map(tuple, rng.uniform(0.0, seconds, (devices, devices)))),
        op_overhead_s=tuple(rng.uniform(0.0, seconds, devices)),
    )


def events(instance, schedule):
    """Seconds of a schedule by events: what starts next is what can start first."""
    graph, machine = instance.graph, instance.machine
    placement, steps = schedule.placement.tolist(), schedule.order.tolist()
    times = device_seconds(graph, machine)
    speed, latency = machine.links
    there, end, resource_free = {}, [None] * len(steps), {}

    def needs(step):
        what, target = steps[step]
        if target < 0:
            return [(t, placement[what]) for t in graph.op_inputs[what]]
        return [(what, placement[graph.tensor_producer[what]])]

    def resources(step):
        what, target = steps[step]
        if target < 0:
            return [placement[what]]
        home = placement[graph.tensor_producer[what]]
        return {
            "rendezvous": [home, target],
            "free": [],
            "queued": [(home, target)],
        }[machine.transfers]

    while None in end:
        choices, taken = [], set()
        for step in range(len(steps)):
            if end[step] is not None:
                continue
            used = resources(step)
            if not taken & set(used) and all(need in there for need in needs(step)):
                start = [there[n] for n in needs(step)] + [resource_free.get(r, 0.0) for r in used]
                choices.append((max(start, default=0.0), step))
            taken |= set(used)
        start, step = min(choices)
        what, target = steps[step]
        if target < 0:
            end[step] = start + times[what, placement[what]]
            for tensor in graph.op_outputs[what]:
                there[tensor, placement[what]] = end[step]
        else:
            link = placement[graph.tensor_producer[what]], target
            end[step] = start + latency[link] + graph.tensor_bytes[what] / speed[link]
            there[what, target] = end[step]
        for resource in resources(step):
            resource_free[resource] = end[step]
    devices = [e for e, (_, target) in zip(end, steps) if target < 0]
    if machine.transfers == "rendezvous":
        devices = end
    return max(devices, default=0.0)


@pytest.mark.parametrize("transfers", ["rendezvous", "free", "queued"])
@pytest.mark.parametrize("devices", [2, 4, 8])
def test_links_and_unlike_devices_cost_the_same_everywhere(odd_graph, devices, transfers):
    """Decoder, simulator, validator and a simulator by events, on links that cost and devices that
    differ: catches a link priced by its other end, a speed of another device, a queue jumped."""
    rng = np.random.default_rng(devices)
    for trial in range(112):
        graph = odd_graph(rng, int(rng.integers(1, 24)))
        if trial % 2:
            graph = dataclasses.replace(graph, op_seconds=None)
        plain = Instance(graph, Devices(devices=devices))
        mean = float(plain.arrays.seconds.mean()) or 1.0
        instance = Instance(graph, machine_of(rng, devices, transfers, mean))
        chromosome = rng.random(instance.chromosome_length)
        assert_agreement(instance, chromosome)
        schedule = decode(instance, chromosome)
        assert instance.simulate(schedule).makespan_s == pytest.approx(
            events(instance, schedule), rel=1e-12
        )


@pytest.mark.parametrize("family", sorted(GRAPH_FAMILIES))
def test_every_family_at_a_hundred_ops(family):
    rng = np.random.default_rng(1)
    instance = Instance(random_graph(rng, family, 100))
    for _ in range(20):
        assert_agreement(instance, rng.random(instance.chromosome_length))


def test_a_schedule_survives_encoding(odd_graph):
    """Catches an encoding that does not reach every schedule the decoder can make."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        instance = Instance(odd_graph(rng, 12))
        schedule = decode(instance, rng.random(instance.chromosome_length))
        again = decode(instance, encode(instance, schedule))
        assert again.order.tolist() == schedule.order.tolist()
        assert again.placement.tolist() == schedule.placement.tolist()


def test_priorities_by_hand(diamond):
    """The transfer goes between b and c as its priority says; equal priorities go to the lower
    number."""
    instance = Instance(diamond)
    affinity = [1, 0, 1, 0, 0, 1, 1, 0]
    ops = [0.5, 0.9, 0.5, 0.5]
    for x_to_1, expected in ((0.95, [0, "x", 1, 2, "z", 3]), (0.1, [0, 1, "x", 2, "z", 3])):
        transfers = [0, x_to_1, 0, 0, 0, 0, 0, 0]
        order = decode(instance, np.array([*affinity, *ops, *transfers], float)).order
        actual = [
            what if target < 0 else diamond.tensor_names[what] for what, target in order.tolist()
        ]
        assert actual == expected


def test_relabelling_the_devices_changes_nothing(odd_graph):
    rng = np.random.default_rng(3)
    for _ in range(50):
        instance = Instance(odd_graph(rng, 14))
        n, m = instance.graph.num_ops, instance.graph.num_tensors
        chromosome = rng.random(instance.chromosome_length)
        flipped = chromosome.copy()
        flipped[: 2 * n] = chromosome[: 2 * n].reshape(n, 2)[:, ::-1].ravel()
        flipped[3 * n :] = chromosome[3 * n :].reshape(m, 2)[:, ::-1].ravel()
        work = make_workspace(instance)
        first = evaluate(instance.arrays, chromosome, work)
        assert evaluate(instance.arrays, flipped, work) == first


def test_infeasible_is_worse_than_any_feasible(diamond):
    """Catches a fitness that trades running time against memory."""
    rng = np.random.default_rng(4)
    tight = Instance(diamond, Devices(memory_bytes=13))
    actual = {True: [], False: []}
    for _ in range(200):
        chromosome = rng.random(tight.chromosome_length)
        work = make_workspace(tight)
        makespan, peak, _ = evaluate(tight.arrays, chromosome, work)
        value = fitness_of(tight.arrays, chromosome, work)
        assert value == tight.fitness(makespan, work.peak)
        actual[peak <= 13].append((value, peak))
    assert actual[True] and actual[False]
    assert (
        max(value for value, _ in actual[True])
        < INFEASIBLE
        <= min(value for value, _ in actual[False])
    )
    assert sorted(actual[False]) == sorted(actual[False], key=lambda machine: machine[::-1]), (
        "more bytes too many is worse"
    )


def test_unknown_objective(diamond):
    with pytest.raises(InputError, match="objective"):
        Instance(diamond, objective="energy")
