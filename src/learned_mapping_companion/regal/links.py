"""Devices as they are: what each method's schedules take over everything on one device.

The paper's transfers take no time. Here they take latency and bytes over bandwidth, as of a GPU's
link and of a TPU's interconnect, both numbers round; devices wait for each other as in the paper.
The networks were trained for two devices and free links. The same weights serve four and eight
devices: halves, then halves of halves. Two more, `WITH_LINKS`, are trained in the run, as in
`regal.network`: one for free links, and one on links, which sees what a transfer takes.
"""

import itertools

import numpy as np

from learned_mapping.regal.methods import EVALUATIONS
from learned_mapping_companion import statistics
from learned_mapping_companion.artifact import Artifact, Quick, Run, Runs
from learned_mapping_companion.regal.gaps import (
    config_of,
    costs_of,
    outcomes,
    runs_of,
    with_trainings,
)
from learned_mapping_companion.regal.graphs import DATASETS, graph_names
from learned_mapping_companion.regal.live import LINKS as LINKED
from learned_mapping_companion.regal.methods import NETWORKS, WITH_LINKS, trainings_of
from learned_mapping_companion.regal.network import SECONDS
from learned_mapping_companion.regal.network import SEEDS as TRAININGS
from learned_mapping_companion.table import Records, Rows, by, row

MACHINES = {
    "free": {},
    "450 GB/s": LINKED[0],
    "70 GB/s": LINKED[1],
    "4 devices": {"devices": 4},
    "8 devices": {"devices": 8},
}
"""Name -> fields of `Devices`."""
METHODS = (
    "one-device",
    "list-scheduler",
    "brkga",
    "local-search",
    "cut",
    "spectral-law",
    "regal",
)
EVERY = 2  # One fresh graph in so many.
SEEDS = 2  # Of a search that asks no network; one with each network of a learner.
BASELINES = ("brkga", "cut", "local-search", "regal", WITH_LINKS[0])


def plan_links(seeds: int) -> Runs:
    """A run for each machine, method, and network or seed, over fresh graphs, for running time."""
    for dataset in [name for name, (_, objective) in DATASETS.items() if objective == "runtime"]:
        graphs = graph_names(dataset, "fresh")[::EVERY]
        for name, fields in MACHINES.items():
            machine = {"split": "fresh", "called": name, "machine": fields}
            config = config_of(dataset, "runtime", graphs, EVALUATIONS, **machine)
            once = (*NETWORKS, "one-device", "list-scheduler")
            yield from runs_of("regal.schedule", METHODS, dataset, config, SEEDS, once)
    graphs = [
        f"{dataset}/{name}"
        for dataset, (_, objective) in DATASETS.items()
        if objective == "runtime"
        for name in graph_names(dataset, "fresh")[::EVERY]
    ]
    two = {name: fields for name, fields in MACHINES.items() if "devices" not in fields}
    config = {"graphs": graphs, "evaluations": EVALUATIONS, "machines": two, "seconds": SECONDS}
    for method in WITH_LINKS:
        for seed in range(min(seeds, TRAININGS)):
            yield Run("regal.network", method, "runtime", config, seed)


@with_trainings
def assemble_links(records: Records) -> Rows:
    """Rows named ``dataset/machine`` by method: ``over_one_device``, a geometric mean of ratios;
    ``slower_percent``, of the graphs on which the mean run is slower than one device; and
    ``improvement_percent``, by how much the cost is below a `BASELINES`'. Intervals draw trainings,
    graphs and runs anew."""
    trained = [record for record in records if "machines" in record["config"]]
    placed = by((r for r in records if r not in trained), "instance")
    for dataset, there in placed.items():
        called = {record["config"]["called"] for record in there}
        for name in [name for name in MACHINES if name in called]:
            ran = [record for record in there if record["config"]["called"] == name]
            costs = costs_of(outcomes(ran))
            for graph, method in itertools.product(costs["one-device"], WITH_LINKS):
                key = f"{dataset}/{graph}@{name}"
                found = [r["result"]["graphs"] for r in trained if r["method"] == method]
                if found and key in found[0]:
                    values = [each[key]["cost"] for each in found]
                    costs.setdefault(method, {})[graph] = values
            yield from _rows(f"{dataset}/{name}", dataset, costs)


LINKS = Artifact(
    "regal.links",
    assemble_links,
    plan_links,
    Quick(("one-device", "brkga", "cut", "regal"), seeds=1, networks=1, config={"graphs": 3}),
)


def _rows(name: str, dataset: str, costs: dict[str, dict[str, list[float]]]) -> Rows:
    alone = {graph: np.log(runs[0]) for graph, runs in costs["one-device"].items()}
    logs = {
        method: {graph: np.log(runs) - alone[graph] for graph, runs in of_graph.items()}
        for method, of_graph in costs.items()
    }
    tasks, drawn = statistics.drawn_tasks(len(alone)), {}
    for method, log in logs.items():
        lists = {graph: values.tolist() for graph, values in log.items()}
        behind = trainings_of(method, dataset, len(next(iter(lists.values()))))
        rng = np.random.default_rng(1)
        drawn[method] = statistics.resampled_means(lists, tasks, rng, behind)
    for method, log in logs.items():
        means = np.array([values.mean() for values in log.values()])
        cells = {"n": sum(map(len, log.values())), "graphs": len(log)}
        low, high = statistics.percentiles(np.exp(drawn[method]))
        over = float(np.exp(means.mean()))
        yield row(name, method, "over_one_device", over, low=low, high=high, **cells)
        slower = 100 * float((means > 1e-9).mean())
        yield row(name, method, "slower_percent", slower, **cells)
        for other in [base for base in BASELINES if base in logs and base != method]:
            base = np.array([values.mean() for values in logs[other].values()])
            saved = -100 * float(np.expm1(means.mean() - base.mean()))
            ends = statistics.percentiles(-100 * np.expm1(drawn[method] - drawn[other]))
            interval = dict(zip(("low", "high"), ends))
            yield row(
                name, method, "improvement_percent", saved, baseline=other, **interval, **cells
            )
