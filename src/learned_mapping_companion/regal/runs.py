"""Runs of paper 3: some graphs of a set are scheduled by one method; all schedules are
validated."""

import time
from collections.abc import Iterable

import numpy as np
from scipy.special import softmax

from learned_mapping.budget import Budget
from learned_mapping.hardware.devices import Devices
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.forward import logits
from learned_mapping.regal.agent.network import ROUNDS
from learned_mapping.regal.agent.policy import BINS, policy_for, sample
from learned_mapping.regal.bounds.cp_sat import cp_sat
from learned_mapping.regal.methods import floor, schedule_costs, schedule_fitness, solve
from learned_mapping.regal.rules.decode import decode, encode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.searches.brkga import TUNED_BRKGA, brkga, tables_of
from learned_mapping.regal.searches.local_search import TUNED_LOCAL_SEARCH, local_search
from learned_mapping.regal.searches.proposals import law_of
from learned_mapping.regal.validate import validate
from learned_mapping_companion.regal.graphs import load_graph
from learned_mapping_companion.regal.methods import asked
from learned_mapping_companion.table import Record

PARTS = ("features", "network", "tables", "search with laws", "search without")
"""The parts of a run of REGAL: what a network sees of a graph, its forward pass, tables of its
laws, and the search."""
RULES = ("gp-dfs", "gp-list", "list-scheduler")
WARM_STARTS = ("brkga", "local-search", *RULES)  # Whose best CP-SAT starts from.


def schedule_graphs(method: str, instance: str, config: Record, seed: int) -> Record:
    """Runs a method of `regal.methods.METHODS` on each of ``config["graphs"]`` of ``kind`` and
    ``split``, or with ``ops`` on one layered graph of each size; with ``limits``, to have the cost
    after fewer evaluations too.

    Returns:
      Graph name -> cost (seconds or bytes), CPU seconds, evaluations, whether the validator accepts
      it.
    """
    method = asked(method, config)
    _compile(method, config.get("objective", "runtime"))
    by_graph = {}
    for name, problem in _instances(config):
        result = solve(problem, method, seed=seed, samples=config["evaluations"], cpu=True)
        by_graph[name] = outcome(problem, result.solution, result.seconds) | {
            "samples": result.samples
        }
        if "limits" in config:
            by_graph[name]["costs"] = [
                _cost_after(result.curve, limit) for limit in config["limits"]
            ]
    return {"graphs": by_graph}


def _cost_after(curve: Record, limit: int) -> float:
    """The best fitness after at most so many evaluations: a search that stops there takes the same
    steps."""
    return min(value for value, samples in zip(curve["y"], curve["samples"]) if samples <= limit)


def split_seconds(method: str, instance: str, config: Record, seed: int) -> Record:
    """Graph name -> CPU seconds of each of `PARTS` of `method`, ``regal`` with its first network,
    on ``graphs``; the last is the same search with uniform mutants."""
    by_graph = {}
    _compile(asked(method, config), config["objective"])
    for name, problem in _instances(config):
        policy, rng, times = (
            policy_for(problem, config["network"]),
            np.random.default_rng(seed),
            [time.process_time()],
        )

        def note(value, times=times):
            times.append(time.process_time())
            return value

        seen = note(features(problem))
        bins = sample(note(softmax(logits(policy.parameters, seen, ROUNDS), axis=-1)), 1, rng)[0]
        law = law_of(np.asarray(BINS)[bins], in_initial=False)
        note(tables_of(law))
        for choice in (law, None):
            note(brkga(problem, np.random.default_rng(seed), _budget(config), law=choice))
        by_graph[name] = dict(zip(PARTS, np.diff(times).tolist()))
    return {"graphs": by_graph}


def long_search(method: str, instance: str, config: Record, seed: int) -> Record:
    """The best of a long evolution and of long climbs: from its result, from the best rule, from
    scratch.

    Each gets ``config["evaluations"]``; else as `schedule_graphs`.
    """
    by_graph = {}
    for name, problem in _instances(config):
        start, rng = time.process_time(), np.random.default_rng(seed)
        climb = TUNED_LOCAL_SEARCH[problem.objective]
        evolved = brkga(problem, rng, _budget(config), parameters=TUNED_BRKGA[problem.objective])
        rules = [solve(problem, rule, seed=seed).solution for rule in RULES]
        ruled = encode(problem, _best(problem, rules))
        candidates = [evolved]
        for origin in (evolved, ruled, None):
            candidates.append(
                local_search(problem, rng, _budget(config), parameters=climb, start=origin)
            )
        best = _best(problem, (decode(problem, chromosome) for chromosome in candidates))
        by_graph[name] = outcome(problem, best, time.process_time() - start)
    return {"graphs": by_graph}


def prove(method: str, instance: str, config: Record, seed: int) -> Record:
    """CP-SAT from the best of `WARM_STARTS`, for ``config["solver_time"]`` of its own units of
    work.

    Adds to each graph the bound, whether the optimum is proven, and the cost it started from.
    """
    by_graph = {}
    for name, problem in _instances(config):
        start = time.process_time()
        limit = {"seed": seed, "samples": config["evaluations"], "cpu": True}
        best = _best(problem, [solve(problem, other, **limit).solution for other in WARM_STARTS])
        solved = cp_sat(problem, deterministic_time=config["solver_time"], seed=seed, start=best)
        started_from = problem.cost(best)
        if solved.schedule is not None:
            best = _best(problem, (solved.schedule, best))
        proved = outcome(problem, best, time.process_time() - start)
        # Of a solver that stops at once on an easy bound, rounding may leave the bound a hair
        # above.
        bound = min(solved.bound, proved["cost"])
        by_graph[name] = proved | {
            "bound": bound,
            "optimal": solved.optimal,
            "started_from": started_from,
        }
    return {"graphs": by_graph}


def _best(problem: Instance, schedules: Iterable[Schedule]) -> Schedule:
    return min(schedules, key=lambda schedule: schedule_fitness(problem, schedule))


def _budget(config: Record) -> Budget:
    return Budget(samples=config["evaluations"], cpu=True)


# Where memory binds a graph takes part if the list schedule's peak is so many times the least.
LIMITED_ROOM = 1.05


def limits(problem: Instance, evaluations: int) -> tuple[float, float]:
    """The least peak found and that of the list schedule, in bytes; always the same."""
    lean = solve(
        Instance(problem.graph, problem.machine, "memory"), "brkga", samples=evaluations
    ).solution
    fast = solve(problem, "list-scheduler").solution
    return tuple(schedule_costs(problem, schedule)["peak_bytes"] for schedule in (lean, fast))


def schedule_limited(method: str, instance: str, config: Record, seed: int) -> Record:
    """Runs `method` on those of ``graphs`` that leave `LIMITED_ROOM`, each under its own limit on a
    device's memory, at ``share`` of the way up.

    Returns:
      Graph name -> what `outcome` says, and whether the schedule keeps the limit; one that does not
      is no invalid schedule, and counts by its share.
    """
    method, by_graph = asked(method, config), {}
    for name in config["graphs"]:
        plain = Instance(load_graph("synthetic", name))
        least, most = limits(plain, config["evaluations"])
        if most < LIMITED_ROOM * least:
            continue
        limit = int(least + config["share"] * (most - least))
        problem = Instance(plain.graph, Devices(memory_bytes=limit))
        schedule = solve(problem, method, seed=seed, samples=config["evaluations"]).solution
        fits = schedule_costs(problem, schedule)["peak_bytes"] <= limit
        costs = outcome(problem if fits else plain, schedule, 0.0)
        by_graph[name] = costs | {"fits": fits, "limit_bytes": limit, "over_least": limit / least}
    return {"graphs": by_graph}


def _instances(config: Record) -> Iterable[tuple[str, Instance]]:
    for ops in config.get("ops", ()):
        yield str(ops), Instance(random_graph(np.random.default_rng(ops), "layered", ops))
    if "graphs" not in config:
        return
    machine = Devices(transfers=config["transfers"], **config.get("machine", {}))
    for name in config["graphs"]:
        graph = load_graph(config["kind"], name, config["split"])
        yield name, Instance(graph, machine, config["objective"])


def _compile(method: str, objective: str) -> None:
    """Two short calls, so that no run is charged for the compiler or for the first use of a
    library.

    A small and a large graph: their eigenvectors come from a dense and from a sparse solver.
    """
    for ops in (5, 300):
        graph = random_graph(np.random.default_rng(0), "layered", ops)
        solve(Instance(graph, objective=objective), method, samples=300)


def outcome(problem: Instance, schedule: Schedule, seconds: float) -> Record:
    """The cost as the independent validator has it, and its `floor`, seconds or bytes; an invalid
    schedule is reported with its first violation."""
    verdict = validate(problem.graph, schedule, problem.machine)
    fault = "" if verdict.valid else str(verdict.violations[0])
    cost = verdict.costs.get(problem.cost_name, problem.cost(schedule))
    return {
        "cost": cost,
        "seconds": seconds,
        "valid": verdict.valid,
        "fault": fault,
        "floor": floor(problem),
    }
