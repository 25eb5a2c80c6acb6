import itertools

import numpy as np
import pytest

from by_hand import hand_graph
from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import TRANSFERS, Devices, simulate
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping.regal.agent.policy import REINFORCED
from learned_mapping.regal.bounds.cp_sat import (
    PHASES,
    SMALL_OPS,
    CpSatResult,
    _better,
    _phases,
    cp_sat,
)
from learned_mapping.regal.methods import METHODS, PROBLEM, floor, schedule_costs, solve
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.searches import brkga as brkga_module
from learned_mapping.regal.searches.list_schedule import depth_first
from learned_mapping.regal.searches.partition import bisect, cut_weight, partition
from learned_mapping.regal.validate import validate

QUICK = [name for name in METHODS if name not in ("cp-sat", "regal-vector", *REINFORCED)]
"""What REINFORCE trained is held to the same in `tests/library/test_conformance.py`."""


@pytest.mark.parametrize("method", QUICK)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_method_makes_valid_schedules_it_prices_rightly(method, objective, odd_graph):
    """Conformance over the registry: valid on odd graphs, both readings, equal seeds equal
    schedules."""
    rng = np.random.default_rng(0)
    for transfers in ("rendezvous", "free"):
        for num_ops in (1, 2, 9, 40):
            instance = Instance(odd_graph(rng, num_ops), Devices(transfers=transfers), objective)
            result = solve(instance, method, seed=5, samples=200)
            verdict = validate(instance.graph, result.solution, instance.machine)
            assert verdict.valid, verdict
            assert verdict.costs == {name: result.metrics[name] for name in verdict.costs}
            assert result.curve["y"][-1] == result.metrics[instance.cost_name]
            again = solve(instance, method, seed=5, samples=200)
            assert again.solution.order.tolist() == result.solution.order.tolist()


@pytest.mark.parametrize("method", ["gp-dfs", "gp-list", "list-scheduler", "brkga", "local-search"])
def test_three_devices(method):
    instance = Instance(random_graph(np.random.default_rng(1), "layered", 60), Devices(devices=3))
    result = solve(instance, method, samples=2000)
    assert validate(instance.graph, result.solution, instance.machine).valid
    assert len(set(result.solution.placement.tolist())) == 3 or method == "list-scheduler"


def exhaustive(instance):
    """The optimum, by trying every placement and every order."""
    graph = instance.graph
    best = np.inf
    for rest in itertools.product((0, 1), repeat=graph.num_ops - 1):
        placement = np.array((0, *rest))
        needs = {(op, -1): set() for op in range(graph.num_ops)}
        for tensor, consumer in zip(graph.edge_tensor.tolist(), graph.edge_consumer.tolist()):
            producer, target = int(graph.tensor_producer[tensor]), int(placement[consumer])
            if placement[producer] == target:
                needs[consumer, -1].add((producer, -1))
            else:
                needs.setdefault((tensor, target), set()).add((producer, -1))
                needs[consumer, -1].add((tensor, target))
        waiting = [((), frozenset())]
        while waiting:
            order, done = waiting.pop()
            if len(order) == len(needs):
                result = simulate(graph, placement, order, instance.machine)
                best = min(best, instance.fitness(result.makespan_s, result.peaks))
            for step, before in needs.items():
                if step not in done and before <= done:
                    waiting.append(((*order, step), done | {step}))
    return best


ALONE = [(name, (phase,)) for name in OBJECTIVES for phase in PHASES[name] if not phase.steps]
ALONE.append(("memory", tuple(phase for phase in PHASES["memory"] if phase.steps)))
"""Every phase alone; those by steps together, as one finds schedules and the other the bound."""


@pytest.mark.parametrize("objective, phases", ALONE)
def test_cp_sat_finds_the_exhaustive_optimum(objective, phases, odd_graph, monkeypatch):
    """Each phase alone, and from a known schedule, whose cost becomes a limit.

    Catches a constraint too many (worse than the optimum) and one too few (a bound above the cost
    it reports).
    """
    monkeypatch.setitem(PHASES, objective, phases)
    rng = np.random.default_rng(5)
    tried = 0
    while tried < 6:
        graph = odd_graph(rng, int(rng.integers(3, 6)))
        if graph.num_edges < 3 or graph.num_ops + graph.num_tensors > 9:
            continue
        tried += 1
        instance = Instance(graph, Devices(), objective)
        optimum = exhaustive(instance)
        result = cp_sat(instance)
        assert result.optimal and result.cost == pytest.approx(optimum, rel=1e-5, abs=1e-9)
        assert result.bound <= optimum and result.bound >= 0.9999 * optimum
        assert validate(graph, result.schedule).valid
        again = cp_sat(instance, start=result.schedule)
        assert again.optimal and again.cost == pytest.approx(optimum, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("transfers", TRANSFERS)
@pytest.mark.parametrize("costly", [False, True])
def test_cp_sat_knows_links(transfers, costly, odd_graph):
    """The exhaustive optimum, and a bound that no search is below, where transfers take about as
    long as an op: catches a transfer that stops too much or too little, and a queue that is none."""
    rng = np.random.default_rng(9)
    tried = 0
    while tried < 6:
        graph = odd_graph(rng, int(rng.integers(3, 6)))
        if graph.num_edges < 3 or graph.num_ops + graph.num_tensors > 9:
            continue
        tried += 1
        mean = float(Instance(graph).arrays.seconds.mean())
        links = {"link_bytes_per_s": 2e7 / mean, "link_latency_s": 0.2 * mean} if costly else {}
        instance = Instance(graph, Devices(transfers=transfers, **links))
        optimum = exhaustive(instance)
        result = cp_sat(instance)
        assert result.optimal and result.cost == pytest.approx(optimum, rel=1e-5, abs=1e-9)
        assert 0.9999 * optimum <= result.bound <= optimum
        assert validate(graph, result.schedule, instance.machine).valid
        again = cp_sat(instance, start=result.schedule)
        assert again.optimal and again.cost == pytest.approx(optimum, rel=1e-5, abs=1e-9)
        larger = odd_graph(rng, 11)
        mean = float(Instance(larger).arrays.seconds.mean())
        links = {"link_bytes_per_s": 2e7 / mean, "link_latency_s": 0.2 * mean} if costly else {}
        instance = Instance(larger, Devices(transfers=transfers, **links))
        found = solve(instance, "brkga", samples=4000).metrics["makespan_s"]
        result = cp_sat(instance, deterministic_time=1.0)
        assert floor(instance) <= found and result.bound <= found * (1 + 1e-9)
        assert result.cost <= found * (1 + 1e-6) or not result.optimal


@pytest.mark.parametrize("objective, phases", ALONE)
def test_no_search_beats_a_proven_bound(objective, phases, odd_graph, monkeypatch):
    """Catches a redundant constraint that is none: it cuts off schedules, and a search finds one
    below the bound."""
    monkeypatch.setitem(PHASES, objective, phases)
    rng = np.random.default_rng(8)
    for num_ops in range(6, 13):
        instance = Instance(odd_graph(rng, num_ops), Devices(), objective)
        actual = min(
            solve(instance, "brkga", seed=s, samples=4000).metrics[instance.cost_name]
            for s in range(2)
        )
        result = cp_sat(instance, deterministic_time=2.0)
        assert result.bound <= actual * (1 + 1e-9)
        assert result.cost <= actual * (1 + 1e-6) or not result.optimal


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_two_models_prove_the_same_optimum(objective, monkeypatch):
    """Catches a dominance rule, of barriers or of steps, that loses every best schedule of some
    larger graph."""
    rng = np.random.default_rng(3)
    first, *rest = ALONE[0 if objective == "runtime" else -1][1], *PHASES[objective][-2:]
    for family in GRAPH_FAMILIES:
        instance = Instance(random_graph(rng, family, 12), Devices(), objective)
        results = []
        for phases in (first, tuple(rest)):
            monkeypatch.setitem(PHASES, objective, phases)
            results.append(cp_sat(instance))
        assert all(result.optimal for result in results)
        assert results[0].cost == pytest.approx(results[1].cost, rel=1e-4)
        assert results[0].bound == pytest.approx(results[1].bound, rel=1e-4)


def test_steps_do_not_call_a_schedule_optimal_that_costs_more_than_their_bound(monkeypatch):
    """Sends that cross between two ops hold more than the steps show.

    Catches `optimal` on the solver's word alone, and a bound of the search that lets tensors go one
    way only.
    """
    steps, one_way, *exact = PHASES["memory"]
    instance = Instance(random_graph(np.random.default_rng(158), "towers", 5), Devices(), "memory")
    results = []
    for phases in ((steps,), (steps, one_way), (one_way,), exact):
        monkeypatch.setitem(PHASES, "memory", phases)
        results.append(cp_sat(instance))
    relaxed, both, restricted, right = results
    assert right.optimal and not relaxed.optimal and relaxed.cost > 1.1 * relaxed.bound
    assert relaxed.bound <= right.cost <= relaxed.cost
    assert both.bound == relaxed.bound and both.optimal == (both.cost <= 1.0001 * both.bound)
    assert restricted.bound == 0.0 and not restricted.optimal and restricted.cost >= right.bound


def test_larger_graphs_skip_the_phases_of_small_ones():
    """Catches a model of ops times tensors built for hundreds of ops, and shares that do not fill
    the time."""
    for objective in OBJECTIVES:
        for num_ops in (SMALL_OPS, SMALL_OPS + 1):
            graph = random_graph(np.random.default_rng(0), "layered", num_ops)
            phases = _phases(Instance(graph, Devices(), objective))
            assert sum(phase.share for phase in phases) == pytest.approx(1.0)
            assert any(phase.barriers or phase.steps for phase in phases) == (num_ops == SMALL_OPS)


def test_a_second_phase_keeps_what_the_first_found():
    """Catches a schedule or a bound lost by a phase that finds none, and a proof of the second that
    is dropped."""
    first, none = CpSatResult("a", 10.0, 8.0, False), CpSatResult(None, np.inf, 9.0, False)
    assert _better(first, none) == CpSatResult("a", 10.0, 9.0, False)
    assert _better(none, first) == CpSatResult("a", 10.0, 9.0, False)
    assert _better(first, CpSatResult("b", 9.5, 9.5, True)) == CpSatResult("b", 9.5, 9.5, True)


def test_cp_sat_method_improves_on_its_start_and_proves_it():
    instance = Instance(random_graph(np.random.default_rng(2), "attention", 14))
    result = solve(instance, "cp-sat", samples=200)
    assert validate(instance.graph, result.solution).valid and result.metrics["optimal"] == 1.0
    others = [solve(instance, name, samples=5000).metrics["makespan_s"] for name in QUICK]
    assert result.metrics["bound"] <= result.metrics["makespan_s"] <= min(others) * (1 + 1e-6)


@pytest.mark.parametrize("objective", ["runtime", "memory"])
def test_cp_sat_is_never_below_the_bound_that_needs_no_solver(objective):
    """Catches a bound of 0 where the solver had no time for a better one: what the largest op
    holds, or the longest op takes, needs none."""
    graph = random_graph(np.random.default_rng(4), "layered", 150)
    instance = Instance(graph, objective=objective)
    result = solve(instance, "cp-sat", seconds=0.5)
    held = (graph.op_input_bytes + graph.op_output_bytes + graph.op_weight_bytes).max()
    least = held if objective == "memory" else instance.arrays.seconds.sum() / 2
    assert 0 < least * (1 - 1e-12) <= result.metrics["bound"] <= result.metrics[instance.cost_name]
    assert result.metrics["optimal"] == (
        result.metrics[instance.cost_name] <= result.metrics["bound"] * (1 + 1e-9)
    )


def test_a_memory_limit_takes_the_proof_away():
    """The model knows no limit; catches an optimum claimed for a schedule that it did not find."""
    graph = random_graph(np.random.default_rng(3), "layered", 8)
    free = solve(Instance(graph), "cp-sat", seed=0, samples=200)
    assert free.metrics["optimal"] == 1.0
    limit = Devices(memory_bytes=0.999 * free.metrics["peak_bytes"])
    limited = solve(Instance(graph, limit), "cp-sat", seed=0, samples=200)
    best = limited.metrics["makespan_s"] <= free.metrics["makespan_s"] * (1 + 1e-6)
    assert limited.metrics["optimal"] == float(
        best and limited.metrics["peak_bytes"] <= limit.memory_bytes
    )


def test_cp_sat_refuses_what_it_does_not_model(diamond):
    one_way = ((1e9, 1e9), (1e8, 1e9))
    for machine in (
        Devices(devices=3),
        Devices(flop_per_s=(1e9, 2e9)),
        Devices(link_bytes_per_s=one_way),
    ):
        with pytest.raises(InputError, match="modelled"):
            cp_sat(Instance(diamond, machine))


def test_bisection_finds_a_planted_cut():
    """Two dense communities joined by three edges: any decent partitioner finds the cut of
    three."""
    rng = np.random.default_rng(0)
    n = 200
    adjacency = [{} for _ in range(n)]
    for u, v in rng.integers(0, n, (3000, 2)).tolist():
        if u != v and u // 100 == v // 100:
            adjacency[u][v] = adjacency[v][u] = 1.0
    for k in range(3):
        adjacency[k][150 + k] = adjacency[150 + k][k] = 1.0
    side = bisect(adjacency, np.ones(n), 0.5, rng)
    assert cut_weight(adjacency, side) == 3.0 and abs(side.sum() - 100) <= 3


@pytest.mark.parametrize("family", sorted(GRAPH_FAMILIES))
def test_partitions_are_balanced(family):
    """Catches refinement that trades the balance for the cut."""
    graph = random_graph(np.random.default_rng(3), family, 300)
    adjacency = [{} for _ in range(graph.num_ops)]
    for u, v in graph.op_edges.tolist():
        adjacency[u][v] = adjacency[v][u] = 1.0
    for parts in (2, 3, 4):
        side = partition(adjacency, graph.op_seconds, parts, np.random.default_rng(0))
        load = np.bincount(side, weights=graph.op_seconds, minlength=parts)
        assert load.max() <= 1.15 * graph.op_seconds.sum() / parts + graph.op_seconds.max()
        random_cut = np.mean(
            [side[u] != v for u, v in zip(range(300), np.random.default_rng(1).permutation(side))]
        )
        assert cut_weight(adjacency, side) / len(graph.op_edges) < 0.5 * random_cut


def test_depth_first_keeps_a_chain_together():
    """On two chains joined at the end, depth first finishes one chain before it starts the
    other."""
    edges, sizes = [(0, 1), (1, 2), (3, 4), (4, 5), (2, 6), (5, 6)], [100, 10, 1, 100, 10, 2, 0]
    graph = hand_graph(7, edges, op_seconds=[1.0] * 7, tensor_bytes=sizes)
    instance = Instance(graph, objective="memory")
    schedule = depth_first(instance, np.zeros(7, int))
    assert schedule.order[:, 0].tolist() in ([0, 1, 2, 3, 4, 5, 6], [3, 4, 5, 0, 1, 2, 6])
    breadth = Schedule.of(np.zeros(7, int), [(op, -1) for op in (0, 3, 1, 4, 2, 5, 6)], 2)
    assert (
        schedule_costs(instance, schedule)["peak_bytes"]
        < schedule_costs(instance, breadth)["peak_bytes"]
    )


def test_help_says_for_which_objective_there_is_a_network():
    """Would catch a user who learns only from a refusal that no network was trained for memory."""
    notes = {name: PROBLEM.note_of(name) for name in METHODS}
    assert notes["regal"] == "; a network for runtime, none for memory"
    assert notes["regal-cloned"] == "; a network for memory, none for runtime"
    assert notes["idrs"] == notes["regal-imitation"] == "; a network for runtime and memory"
    assert notes["brkga"] == notes["regal-untrained"] == ""


def test_what_no_schedule_is_below_counts_weights():
    """Catches a bound on memory that leaves out the weights, which lie on a device throughout."""
    graph = make_graph(
        name="one",
        op_names=["x", "y"],
        op_kinds=["input", "dot"],
        op_flop=[0, 1],
        op_weight_bytes=[0, 100],
        tensor_names=["a", "b"],
        tensor_producer=[0, 1],
        tensor_bytes=[10, 10],
        tensor_is_output=[False, True],
        edge_tensor=[0],
        edge_consumer=[1],
    )
    instance = Instance(graph, objective="memory")
    assert floor(instance) == 120 == solve(instance, "brkga", samples=200).metrics["peak_bytes"]
    for seed in range(20):
        instance = Instance(
            random_graph(np.random.default_rng(seed), "layered", 12), objective="memory"
        )
        assert (
            floor(instance)
            <= solve(instance, "brkga", samples=300, seed=seed).metrics["peak_bytes"]
        )


def test_nothing_is_left_to_compile_when_the_clock_starts(monkeypatch):
    """Catches a warm-up that ends within the first population: the generations were compiled on the
    user's seconds."""
    generations = []
    evolve = brkga_module._evolve
    monkeypatch.setattr(
        brkga_module, "_evolve", lambda *given: generations.append(1) or evolve(*given)
    )
    graph = random_graph(np.random.default_rng(0), "layered", 12)
    assert solve(graph, "brkga", samples=1).samples == 1 and generations
