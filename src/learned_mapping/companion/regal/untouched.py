"""Table 1 again, on test sets on which nothing was ever chosen, with intervals over graphs and runs.

All 98 topologies of `traced`'s test split, of five families that no training graph has, each with noise; one in ten
of the 1,000 test graphs of `synthetic`. The sixteen graphs of each kind in `regal.table1` were looked at while methods
were developed.
"""

from collections.abc import Iterator

import numpy as np
import pandas

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.regal import methods as regal_methods
from learned_mapping.companion.regal.graphs import DATASETS, best_entries, graph_names
from learned_mapping.companion.regal.methods import NETWORKS, training_seeds, updates_rows
from learned_mapping.companion.regal.tables import RULES, SEARCHES, best_known, config_of, costs_of, outcomes, runs_of
from learned_mapping.companion.statistics import drawn_tasks, percentiles, resampled_means
from learned_mapping.companion.table import Record, Row, assembled, row
from learned_mapping.regal.methods import EVALUATIONS

SEEDS = 2  # Of a search that asks no network; one with each network of a learner.
QUICK = {"graphs": 3, "methods": ("brkga", "spectral-law", "regal", "regal-imitation")}
BASELINES = ("brkga", "local-search", "spectral-law", "priority-law", "regal", "regal-average", "regal-untrained")
"""What every method is set against, graph by graph."""
Logs = dict[str, dict[str, list[float]]]  # Method -> graph -> logarithm of cost over the best known, of each run.


def plan_test(profile: str, seeds: int) -> list[Run]:
    """A run for each method, network or seed, over all graphs of a dataset."""
    runs, methods = [], (*SEARCHES, *RULES, *regal_methods.LEARNERS) if profile != "quick" else QUICK["methods"]
    for dataset, (_, objective) in DATASETS.items():
        graphs = graph_names(dataset)[: QUICK["graphs"] if profile == "quick" else None]
        config = config_of(dataset, objective, graphs, EVALUATIONS)
        for method in methods:
            count = 1 if method in NETWORKS or method in RULES or profile == "quick" else min(seeds, SEEDS)
            networks = 1 if profile == "quick" else None
            runs += runs_of("regal.schedule", [method], dataset, config, count, networks)
    return runs


def assemble_test(profile: str, records: list[Record]) -> Record:
    """Rows by dataset and method, with 95% intervals over graphs and runs drawn anew.

    ``gap_percent``, to the stored best schedule, so that a method that comes later moves no other's gap; ``gap_ratio``,
    that gap over a `BASELINES`' own; ``improvement_percent``, by how much the cost is below a `BASELINES`';
    ``training_percent``, the same of each training of `regal` alone, below BRKGA's.
    """
    found: list[Row] = []
    trained, table = training_seeds(records), outcomes(records)
    for dataset, here in table.groupby("instance", sort=False):
        found += [each | trained.get((dataset, each["method"]), {}) for each in _rows(dataset, here)]
    return assembled(found + updates_rows(records), valid=table.valid)


def _rows(dataset: str, table: pandas.DataFrame) -> Iterator[Row]:
    costs = costs_of(table)
    best, stored = best_known(costs), best_entries(dataset, DATASETS[dataset][1])
    best |= {graph: stored[graph]["cost"] for graph in best if graph in stored}
    graphs = list(best)
    logs: Logs = {
        method: {graph: np.log(np.array(known[graph]) / best[graph]).tolist() for graph in graphs}
        for method, known in costs.items()
    }
    tasks = drawn_tasks(len(graphs))
    mean = {method: float(np.mean(list(each.values()))) for method, each in logs.items()}
    drawn = {method: resampled_means(each, tasks, np.random.default_rng(1)) for method, each in logs.items()}
    for method in logs:
        about = {"n": len(graphs) * len(logs[method][graphs[0]]), "graphs": len(graphs)}
        gap, gaps = np.expm1(mean[method]), np.expm1(drawn[method])
        yield row(dataset, method, "gap_percent", 100 * gap, **_ends(100 * gaps), **about)
        for other in [name for name in BASELINES if name in logs and name != method]:
            base, bases = np.expm1(mean[other]), np.expm1(drawn[other])
            if bases.min() > 0:
                ends = _ends(gaps / bases)
                yield row(dataset, method, "gap_ratio", gap / base, baseline=other, **ends, **about)
            improved, all_improved = -np.expm1(mean[method] - mean[other]), -np.expm1(drawn[method] - drawn[other])
            ends = _ends(100 * all_improved)
            yield row(dataset, method, "improvement_percent", 100 * improved, baseline=other, **ends, **about)
    for training, runs in enumerate(zip(*logs.get("regal", {}).values())):
        saved = -np.expm1(np.mean(runs) - mean["brkga"])
        yield row(f"training {training}", "regal", "training_percent", 100 * saved, n=len(runs), dataset=dataset)


def _ends(values: np.ndarray) -> dict[str, float]:
    return dict(zip(("low", "high"), percentiles(values)))
