"""How fast 5,000 evaluations are, beside the public BRKGA package and against the size of the
graph."""

import heapq
import time
from collections.abc import Callable, Sequence

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.agent.policy import BINS
from learned_mapping.regal.agent.reinforce import ReinforceAgent, ReinforceConfig, Stage
from learned_mapping.regal.agent.rollouts import rollouts
from learned_mapping.regal.rules.decode import fitness_of, make_workspace
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import BrkgaParameters, brkga
from learned_mapping.regal.searches.random_numbers import stream

EVALUATIONS = 5000
BARS_S = {100: 0.1, 1000: 1.5}
"""Ops -> most CPU seconds of one core for `EVALUATIONS`."""
LAWS, ROLLOUT_EVALUATIONS, LEAST_ROLLOUTS = 64, 500, 400.0
"""Runs of a group, evaluations of each, and least runs per second, as a training of 100 ops needs
them."""
LEAST_SPEEDUP = 8.0
"""Over the public package with a decoder in Python, on the same graph in the same process."""


def instance_of(num_ops: int) -> Instance:
    """The benchmark's graph of this size: layered, the family with the most edges."""
    return Instance(random_graph(np.random.default_rng(num_ops), "layered", num_ops))


def benchmark(
    sizes: Sequence[int] = (50, 100, 200, 500, 1000, 2000, 5000), *, repeats: int = 3
) -> list[dict[str, str | float | None]]:
    """Rows with keys name, value, unit and bar (None where there is none); CPU seconds, best of
    `repeats`."""
    brkga(instance_of(10), np.random.default_rng(0), Budget(samples=200))  # compiles
    rows, measured = [], {}
    for size in sizes:
        instance = instance_of(size)
        measured[size] = best_of(repeats, lambda instance=instance: _ours(instance))
        rows.append(
            _row(
                f"BRKGA, {EVALUATIONS:,} evaluations, {size:,} ops",
                measured[size],
                "s",
                BARS_S.get(size),
            )
        )
    if 100 in measured:
        instance = instance_of(100)
        choices = np.random.default_rng(0).integers(0, len(BINS), (LAWS, 100, 3, 2))
        group = lambda: rollouts(instance.arrays, choices, BINS, stream(0), ROLLOUT_EVALUATIONS)  # noqa: E731
        name = f"rollouts of {ROLLOUT_EVALUATIONS} evaluations, 100 ops, {LAWS} laws a group"
        group()  # compiles
        rows.append(_row(name, LAWS / best_of(repeats, group), "1/s", LEAST_ROLLOUTS))
        rows.append(
            _row(
                "the same in steps of a training: laws drawn, runs, estimator, gradient",
                _training(),
                "1/s",
                None,
            )
        )
        python = best_of(1, lambda: peer(instance, PythonDecoder(instance)))
        compiled = best_of(1, lambda: peer(instance, _CompiledDecoder(instance)))
        rows.append(_row("brkga-mp-ipr, decoder in Python, 100 ops", python, "s", None))
        rows.append(_row("brkga-mp-ipr, our compiled decoder, 100 ops", compiled, "s", None))
        rows.append(
            _row(
                "speed over brkga-mp-ipr, decoder in Python",
                python / measured[100],
                "times",
                LEAST_SPEEDUP,
            )
        )
        rows.append(
            _row(
                "speed over brkga-mp-ipr, our compiled decoder",
                compiled / measured[100],
                "times",
                None,
            )
        )
    return rows


def _training() -> float:
    """Runs per second of REINFORCE's steps on graphs of 100 ops, after the first step, which
    compiles."""
    graphs = [random_graph(np.random.default_rng([100, i]), "layered", 100) for i in range(10)]
    stages = (Stage(1.0, ROLLOUT_EVALUATIONS, LAWS, len(graphs), 100),)
    agent = ReinforceAgent(
        [Instance(graph) for graph in graphs], ReinforceConfig(stages, seconds=1e6)
    )
    while agent.iterations < 2 or len(agent._uniform) < len(graphs):
        agent.iterate(lambda: False)
    before, started = agent.rollouts, time.process_time()
    agent.iterate(lambda: False)
    return (agent.rollouts - before) / (time.process_time() - started)


def _row(name: str, value: float, unit: str, bar: float | None) -> dict[str, str | float | None]:
    return {"name": name, "value": value, "unit": unit, "bar": bar}


def best_of(repeats: int, function: Callable[[], object]) -> float:
    """The least CPU seconds of several calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def _ours(instance: Instance) -> None:
    brkga(instance, np.random.default_rng(0), Budget(samples=EVALUATIONS))


def peer(instance: Instance, decoder: object) -> float:
    """Runs brkga-mp-ipr (Andrade et al. 2021, plain BRKGA by its parameters) for `EVALUATIONS`; its
    best fitness."""
    from brkga_mp_ipr.algorithm import BrkgaMpIpr
    from brkga_mp_ipr.enums import Sense
    from brkga_mp_ipr.types import BrkgaParams

    ours = BrkgaParameters()
    params = BrkgaParams()
    params.population_size = ours.population
    params.elite_percentage, params.mutants_percentage = ours.elite_fraction, ours.mutant_fraction
    params.num_elite_parents, params.total_parents, params.num_independent_populations = 1, 2, 1
    algorithm = BrkgaMpIpr(decoder, Sense.MINIMIZE, 0, instance.chromosome_length, params)
    # Two parents, and the elite one's share of the entries is our bias.
    algorithm.set_bias_custom_function(lambda rank: ours.bias if rank == 1 else 1 - ours.bias)
    algorithm.initialize()
    algorithm.evolve((EVALUATIONS - ours.population) // (ours.population - ours.elites))
    return algorithm.get_best_fitness()


class _CompiledDecoder:
    """Our kernel behind the package's interface."""

    def __init__(self, instance: Instance):
        self.instance, self.work = instance, make_workspace(instance)

    def decode(self, chromosome, rewrite: bool) -> float:
        return fitness_of(self.instance.arrays, np.array(chromosome), self.work)


class PythonDecoder:
    """Decoder and simulator as one would write them in Python: lists, a heap, no arrays. Two
    devices, rendezvous."""

    def __init__(self, instance: Instance):
        graph = instance.graph
        self.instance, self.graph = instance, graph
        self.seconds, self.weights = (
            instance.arrays.seconds.tolist(),
            graph.op_weight_bytes.tolist(),
        )
        self.bytes, self.is_output = graph.tensor_bytes.tolist(), graph.tensor_is_output.tolist()
        self.producer = graph.tensor_producer.tolist()
        self.consumers = [graph.consumers(t).tolist() for t in range(graph.num_tensors)]
        self.inputs: list[list[int]] = [[] for _ in range(graph.num_ops)]
        self.outputs: list[list[int]] = [[] for _ in range(graph.num_ops)]
        for tensor, consumer in zip(graph.edge_tensor.tolist(), graph.edge_consumer.tolist()):
            self.inputs[consumer].append(tensor)
        for tensor, producer in enumerate(self.producer):
            self.outputs[producer].append(tensor)

    def decode(self, chromosome, rewrite: bool) -> float:
        n = len(self.seconds)
        place = [int(chromosome[2 * op + 1] > chromosome[2 * op]) for op in range(n)]
        waiting = [len(tensors) for tensors in self.inputs]
        uses = []
        for tensor, consumers in enumerate(self.consumers):
            away = sum(place[c] for c in consumers)
            both = [len(consumers) - away, away]
            home = place[self.producer[tensor]]
            both[home] += both[1 - home] > 0
            uses.append(both)
        held = [0, 0]
        for op, weight in enumerate(self.weights):
            held[place[op]] += weight
        peak, clock = list(held), [0.0, 0.0]
        heap = [(-chromosome[2 * n + op], op) for op in range(n) if not waiting[op]]
        heapq.heapify(heap)
        while heap:
            _, item = heapq.heappop(heap)
            if item < n:
                device = place[item]
                clock[device] += self.seconds[item]
                arrived = self.outputs[item]
                held[device] += sum(self.bytes[t] for t in arrived)
                peak[device] = max(peak[device], held[device])
                for tensor in self.inputs[item]:
                    self._use(tensor, device, uses, held, place)
                for tensor in arrived:
                    if not uses[tensor][device] and not self.is_output[tensor]:
                        held[device] -= self.bytes[tensor]
                    elif uses[tensor][1 - device]:
                        transfer = n + 2 * tensor + 1 - device
                        heapq.heappush(heap, (-chromosome[2 * n + transfer], transfer))
            else:
                tensor, device = divmod(item - n, 2)
                clock[0] = clock[1] = max(clock)
                arrived = [tensor]
                held[device] += self.bytes[tensor]
                peak[device] = max(peak[device], held[device])
                self._use(tensor, 1 - device, uses, held, place)
            for tensor in arrived:
                for op in self.consumers[tensor]:
                    if place[op] == device:
                        waiting[op] -= 1
                        if not waiting[op]:
                            heapq.heappush(heap, (-chromosome[2 * n + op], op))
        return self.instance.fitness(max(clock), peak)

    def _use(self, tensor, device, uses, held, place) -> None:
        uses[tensor][device] -= 1
        if not uses[tensor][device] and not (
            self.is_output[tensor] and place[self.producer[tensor]] == device
        ):
            held[device] -= self.bytes[tensor]
