"""Looks for the best schedules of paper 3's test graphs, and keeps the better of what was known and
what it finds.

In the folder ``data``, for each of `SETS` or for those named:

    python -m builders.regal_best [SET ...] [--seed S]

The laws that do best lead evolutions of `EVALUATIONS`; a climb of as many starts from the best
schedule; on graphs of at most `SOLVED_OPS` ops CP-SAT goes on from there. The bound stored is the
solver's or `floor`'s, of every entry anew with each call. A graph whose schedule is as cheap as its
bound is not searched again. An interrupted search goes on where it stopped.
"""

import argparse
import zlib
from typing import Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.programs.json_io import locked, write_json
from learned_mapping.regal.bounds.cp_sat import cp_sat
from learned_mapping.regal.methods import floor, schedule_fitness, solve
from learned_mapping.regal.rules.decode import decode, encode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.local_search import TUNED_LOCAL_SEARCH, local_search
from learned_mapping_companion.regal import graphs
from learned_mapping_companion.regal.graphs import DATASETS
from learned_mapping_companion.regal.runs import RULES, outcome

from .training.command import say

EVALUATIONS = 50_000
SOLVED_OPS, SOLVER_TIME = 120, 1.0
"""CP-SAT takes part up to this size, for so many of its own units of work."""
SETS = {
    f"{dataset}/{split}": (kind, split.replace("development", "test"), dataset)
    for split in ("fresh", "test", "development")
    for dataset, kind in (
        (name, of if split == "development" else name) for name, (of, _) in DATASETS.items()
    )
}
"""Name -> kind and split of graphs, and the dataset whose networks lead."""


def laws(dataset: str) -> tuple[str, ...]:
    """Methods whose laws lead an evolution."""
    return ("spectral-law", "priority-law", f"regal-imitation:{dataset}-0")


def search(problem: Instance, dataset: str, seed: int) -> tuple[dict, float]:
    """The best schedule found, as an entry of the file, and the solver's bound, 0 where it took no
    part."""
    solutions = {rule: solve(problem, rule, seed=seed).solution for rule in RULES}
    for method in laws(dataset):
        solutions[method] = solve(problem, method, seed=seed, samples=EVALUATIONS).solution
    best = min(solutions, key=lambda name: schedule_fitness(problem, solutions[name]))
    budget, climb = Budget(samples=EVALUATIONS), TUNED_LOCAL_SEARCH[problem.objective]
    start, rng = encode(problem, solutions[best]), np.random.default_rng(seed)
    climbed = f"{best}, local-search"
    solutions[climbed] = decode(
        problem, local_search(problem, rng, budget, parameters=climb, start=start)
    )
    best, bound = (
        min((climbed, best), key=lambda name: schedule_fitness(problem, solutions[name])),
        0.0,
    )
    if problem.graph.num_ops <= SOLVED_OPS:
        solved = cp_sat(problem, deterministic_time=SOLVER_TIME, seed=seed, start=solutions[best])
        bound = solved.bound
        if solved.schedule is not None and solved.cost < schedule_fitness(problem, solutions[best]):
            best, solutions["cp-sat"] = "cp-sat", solved.schedule
    judged = outcome(problem, solutions[best], 0.0)
    if not judged["valid"]:
        raise AssertionError(judged["fault"])
    return {
        "digest": problem.graph.digest,
        "cost": judged["cost"],
        "method": best,
        "devices": solutions[best].devices,
        "placement": solutions[best].placement.tolist(),
        "order": solutions[best].order.tolist(),
    }, bound


def proven(problem: Instance, cost: float, *bounds: float) -> float:
    """The highest of `floor` and some bounds; not above the cost of a schedule, as rounding may
    have it."""
    return min(max(floor(problem), *bounds), cost)


def joined(problem: Instance, *entries: dict[str, Any] | None) -> dict[str, Any] | None:
    """The cheapest of some entries, with the highest bound and the seeds of all; those of another
    graph, which had this name, do not count."""
    own = [e for e in entries if e is not None and e["digest"] == problem.graph.digest]
    if not own:
        return None
    best = min(own, key=lambda entry: entry["cost"])
    bound = proven(problem, best["cost"], *(entry["bound"] for entry in own))
    return best | {"bound": bound, "seeds": sorted({s for entry in own for s in entry["seeds"]})}


def main() -> None:
    parser = argparse.ArgumentParser(description="Search for the best schedules of test graphs.")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}")
    parser.add_argument(
        "--seed", type=int, default=0, help="a new one searches graphs that have an entry again"
    )
    chosen = parser.parse_args()
    for name in chosen.sets or SETS:
        kind, split, dataset = SETS[name]
        objective = DATASETS[dataset][1]
        known = dict(graphs.best_entries(kind, objective, split))
        for graph_name in graphs.graph_names(kind, split):
            graph = graphs.load_graph(kind, graph_name, split)
            problem = Instance(graph, objective=objective)
            old, found = joined(problem, known.get(graph_name)), None
            if old is None or not (chosen.seed in old["seeds"] or old["cost"] <= old["bound"]):
                seed = zlib.crc32(f"{chosen.seed} {graph_name}".encode()) & 0x7FFFFFFF
                found, bound = search(problem, dataset, seed)
                found |= {"bound": bound, "seeds": [chosen.seed]}
            path = graphs.best_path(kind, objective, split)
            with locked(path.parent):  # another process may have searched others meanwhile
                known = dict(graphs.best_entries(kind, objective, split))
                new = joined(problem, known.get(graph_name), found)
                if new == known.get(graph_name):
                    continue
                known[graph_name] = new
                schema = f"learned-mapping/{graphs.BEST_SCHEMA}/1"
                write_json(path, {"schema": schema, "graphs": known})
            say(f"{name} {graph_name} {new['cost']:.6g} {new['bound']:.6g} {new['method']}")


if __name__ == "__main__":
    main()
