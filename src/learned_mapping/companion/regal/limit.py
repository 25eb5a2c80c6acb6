"""Where memory binds: running time under a limit on each device's memory that the order without a view of it breaks.

The paper gives both devices 16 GiB, which no graph here fills. Here the limit of a graph lies between the least peak
that a search for memory finds and the peak of the fastest list schedule, a `SHARE` of the way up.
"""

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.regal.graphs import graph_names, load_graph
from learned_mapping.companion.regal.methods import NETWORKS, asked, brought, training_seeds, updates_rows
from learned_mapping.companion.regal.runs import RULES, outcome
from learned_mapping.companion.regal.tables import QUICK_GRAPHS, outcomes
from learned_mapping.companion.table import Record, Row, assembled, gap_row, summary_row
from learned_mapping.hardware.device_pair import DevicePair
from learned_mapping.regal.methods import EVALUATIONS, schedule_costs, solve
from learned_mapping.regal.rules.instance import Instance

SHARE = 0.25
ROOM = 1.05  # A graph takes part where the peak of the list schedule is so many times the least one.
METHODS = (
    *RULES, "random", "local-search", "brkga", "brkga-tuned", "spectral-law", "priority-law", "regal-untrained",
    "regal", "regal-imitation",
)  # fmt: skip
QUICK_METHODS = ("list-scheduler", "brkga", "regal")
SEEDS = 3
DATASET = "synthetic-runtime"


def plan_limit(profile: str, seeds: int) -> list[Run]:
    quick = profile == "quick"
    names = [name for name in graph_names("synthetic") if not quick or name in QUICK_GRAPHS["synthetic"]]
    config = {"graphs": names, "share": SHARE, "evaluations": EVALUATIONS}
    return [
        Run("regal.limit", method, DATASET, config | more, seed)
        for method in (QUICK_METHODS if quick else METHODS)
        for more in brought(method, DATASET)[: 1 if quick else None]
        for seed in range(1 if quick or method in NETWORKS or method in RULES else min(seeds, SEEDS))
    ]


def limits(problem: Instance, evaluations: int) -> tuple[float, float]:
    """The least peak found and that of the list schedule, in bytes; always the same."""
    lean = solve(Instance(problem.graph, problem.pair, "memory"), "brkga", samples=evaluations).solution
    fast = solve(problem, "list-scheduler").solution
    return tuple(schedule_costs(problem, schedule)["peak_bytes"] for schedule in (lean, fast))


def schedule_limited(method: str, instance: str, config: Record, seed: int) -> Record:
    """Runs `method` on the graphs that leave `ROOM`, each under its own limit.

    Args:
      config: ``graphs``, ``share``, ``evaluations``, and ``network`` of a method that asks one.

    Returns:
      Graph name -> what `runs.outcome` says, and whether the schedule keeps the limit; one that does not is no
      invalid schedule, and counts by its share.
    """
    method, found = asked(method, config), {}
    for name in config["graphs"]:
        plain = Instance(load_graph("synthetic", name))
        least, most = limits(plain, config["evaluations"])
        if most < ROOM * least:
            continue
        limit = int(least + config["share"] * (most - least))
        problem = Instance(plain.graph, DevicePair(memory_bytes=limit))
        schedule = solve(problem, method, seed=seed, samples=config["evaluations"]).solution
        fits = schedule_costs(problem, schedule)["peak_bytes"] <= limit
        about = outcome(problem if fits else plain, schedule, 0.0)
        found[name] = about | {"fits": fits, "limit_bytes": limit, "over_least": limit / least}
    return {"graphs": found}


def assemble_limit(profile: str, records: list[Record]) -> Record:
    """``feasible_percent``, of runs that keep the limit; ``gap_percent`` of those, to the best known of them."""
    table, found = outcomes(records), list[Row]()
    kept = table[table.fits.astype(bool)]
    best = kept.groupby("graph").cost.min()
    trained = training_seeds(records)
    for method, runs in table.groupby("method", sort=False):
        more = {"graphs": runs.graph.nunique()} | trained.get((DATASET, method), {})
        share = {graph: (100.0 * each.fits.astype(float)).tolist() for graph, each in runs.groupby("graph")}
        found.append(summary_row(DATASET, method, "feasible_percent", share, statistic=np.mean, **more))
        keeping = runs[runs.fits.astype(bool)].groupby("graph")
        if ratios := {graph: (each.cost / best[graph]).tolist() for graph, each in keeping}:
            found.append(gap_row(DATASET, method, "gap_percent", ratios, **more))
    return assembled(found + updates_rows(records), valid=table.valid)
