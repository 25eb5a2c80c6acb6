"""Generalisation of REGAL's networks: gains over BRKGA by distance from the graphs they were
trained on.

At the end stand graphs that are not of the project's making: a user brings one of another tool, of
whose kind no network has seen any. `outside_graphs` of ``data/builders`` makes twenty, in both
documented formats, on which nothing was chosen.
"""

from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices
from learned_mapping.regal.agent.policy import REINFORCED, SERVES
from learned_mapping.regal.methods import EVALUATIONS, solve
from learned_mapping.regal.rules.instance import Instance
from learned_mapping_companion.artifact import Artifact, Quick, Run, Runs
from learned_mapping_companion.datasets.registry import builder
from learned_mapping_companion.regal.gaps import mean_costs, outcomes
from learned_mapping_companion.regal.graphs import graph_of, members
from learned_mapping_companion.regal.methods import (
    asked,
    brought,
    network_named,
    training_seeds,
    updates_rows,
)
from learned_mapping_companion.regal.runs import outcome
from learned_mapping_companion.table import Record, Records, Rows, by, gap_row, row, sweep

METHODS = ("brkga", "spectral-law", "regal", "regal-imitation")
MORE_DEVICES = 4
DISTANCES: dict[str, dict[str, str]] = {
    "trained": {"traced-runtime": "traced-trained", "synthetic-runtime": "synthetic-trained"},
    "new-noise": {"traced-runtime": "traced-noise", "synthetic-runtime": "synthetic-redrawn"},
    "larger": {"traced-runtime": "traced-larger", "synthetic-runtime": "synthetic-larger"},
    "new-topology": {
        "traced-runtime": "traced-topology",
        "synthetic-runtime": "synthetic-topology",
    },
    "new-family": {"traced-runtime": "traced-family"},
    "other-kind": {"traced-runtime": "synthetic-topology", "synthetic-runtime": "traced-topology"},
    "four-devices": {
        "traced-runtime": "traced-topology",
        "synthetic-runtime": "synthetic-topology",
    },
}
"""Distance, from near to far -> dataset of the network -> set of graphs. All synthetic families are
trained on."""
GRAPHS = 8  # Of each set, from the first on.
SEEDS = 3  # Of the search, at most.
# Where BRKGA comes this close to what no schedule can beat nothing can be gained, as in training.
ROOM = 1.002


def plan_distance(seeds: int) -> Runs:
    """A run per set, number of devices, method, network and seed; BRKGA's serves all networks of a
    set."""
    runs: dict[str, Run] = {}
    for distance, sets in DISTANCES.items():
        for dataset, name in sets.items():
            config = {
                "set": name,
                "members": list(members(name)[:GRAPHS]),
                "objective": "runtime",
                "devices": _devices(distance),
                "transfers": "rendezvous",
                "evaluations": EVALUATIONS,
            }
            for method in METHODS:
                for network in brought(method, dataset):
                    for seed in range(min(seeds, SEEDS)):
                        run = Run(
                            "regal.distance",
                            method,
                            _instance(distance, name),
                            config | network,
                            seed,
                        )
                        runs.setdefault(run.digest, run)
    return list(runs.values())


def _devices(distance: str) -> int:
    return MORE_DEVICES if distance == "four-devices" else Devices().devices


def _instance(distance: str, name: str) -> str:
    return f"{name}-{_devices(distance)}-devices"


def schedule_set(method: str, instance: str, config: Record, seed: int) -> Record:
    """Runs `method`, with ``config["network"]`` where it asks one, on each member of a set.

    Returns:
      ``graphs``: graph name -> cost in seconds, floor in seconds, ops, whether the validator
      accepts the schedule; ``refused``: what the method said where it takes no such instance, else
      empty.
    """
    method = asked(method, config)
    machine = Devices(devices=config["devices"], transfers=config["transfers"])
    outcomes_of: Record = {}
    try:
        for member in config["members"]:
            problem = Instance(graph_of(config["set"], member), machine, config["objective"])
            result = solve(problem, method, seed=seed, samples=config["evaluations"])
            graph = problem.graph
            outcomes_of[graph.name] = outcome(problem, result.solution, result.seconds) | {
                "ops": graph.num_ops
            }
    except InputError as error:
        if config["devices"] == Devices().devices:
            raise
        return {"graphs": {}, "refused": str(error)}
    return {"graphs": outcomes_of, "refused": ""}


def assemble_distance(records: Records) -> Rows:
    """Rows by distance and network, named ``network's dataset/distance``, over the graphs that
    leave BRKGA room.

    ``improvement_percent`` over BRKGA with as many evaluations; ``over_spectral_percent``, the
    network's over the law that has learned nothing; ``gap_percent`` to the best cost any of the
    methods found: geometric means, with intervals over the graphs. ``refused`` where a method takes
    no such instance.
    """
    for distance, sets in DISTANCES.items():
        for dataset, name in sets.items():
            serving = by(records, "instance").get(_instance(distance, name), ())
            serving = [record for record in serving if _serves(record, dataset)]
            yield from _rows(f"{dataset}/{distance}", serving)
    yield from updates_rows(records)


NEAR_AND_FAR = Artifact(
    "regal.distance",
    assemble_distance,
    plan_distance,
    Quick(seeds=1, networks=1, config={"members": 2, "evaluations": 1_000}),
)


def _serves(record: Record, dataset: str) -> bool:
    """Whether a record has no network, or one of this dataset."""
    network = record["config"].get("network")
    return network is None or network.rpartition("-")[0] == dataset


def _rows(instance: str, records: Records) -> Rows:
    table = outcomes(records)
    mean, facts = mean_costs(table), table.drop_duplicates("graph", keep="last").set_index("graph")
    refused = {r["method"]: r["result"]["refused"] for r in records if r["result"]["refused"]}
    leaves = mean.brkga > ROOM * facts.floor[mean.index]
    common = {"graphs": int(leaves.sum()), "without_room": int((~leaves).sum())}
    mean, best = mean[leaves], table.groupby("graph").cost.min()
    common |= {"median_ops": float(facts.ops[mean.index].median())} if len(mean) else {}
    trained = {method: seeds for (_, method), seeds in training_seeds(records).items()}
    for method in METHODS:
        cells = common | trained.get(method, {})
        if method in refused:
            yield row(instance, method, "refused", True, says=refused[method], **cells)
        elif len(mean) and method in mean:
            yield gap_row(instance, method, "gap_percent", mean[method] / best[mean.index], **cells)
            baselines = {"improvement_percent": "brkga", "over_spectral_percent": "spectral-law"}
            for metric, baseline in baselines.items():
                learned = method in trained or metric == "improvement_percent"
                if method != "brkga" and learned and baseline in mean:
                    yield gap_row(
                        instance, method, metric, mean[method] / mean[baseline], below=True, **cells
                    )


OUTSIDE = {
    "runtime": ("brkga", "regal", "regal-imitation"),
    "memory": ("brkga", "regal-cloned", "regal-imitation"),
}
"""Objective -> what is run, each with the network that serves it."""


def plan_outside(seeds: int) -> Runs:
    """A run per objective, method and seed; of the paper's learner with the network that serves the
    objective."""
    for objective, methods in OUTSIDE.items():
        for method in methods:
            network = network_named(method, SERVES[objective]) if method in REINFORCED else {}
            config = {"evaluations": EVALUATIONS, **network}
            yield from sweep("regal.outside", [method], [objective], config, seeds)


def schedule_outside(method: str, instance: str, config: Record, seed: int) -> Record:
    """`method`, as it is, on the twenty graphs, whose objective is `instance`: graph name -> what
    `runs.outcome` says, and whether the graph is connected."""
    outcomes_of = {}
    for graph in builder("outside_graphs").outside_graphs():
        problem = Instance(graph, objective=instance)
        result = solve(problem, asked(method, config), seed=seed, samples=config["evaluations"])
        first, second = graph.op_edges.T
        links = coo_array(
            ([True] * len(first), (first, second)), shape=(graph.num_ops, graph.num_ops)
        )
        whole = connected_components(links, directed=False)[0] == 1
        outcomes_of[graph.name] = outcome(problem, result.solution, 0.0) | {"connected": whole}
    return {"graphs": outcomes_of}


def assemble_outside(records: Records) -> Rows:
    """``improvement_percent`` of cost over BRKGA's, geometric means over graphs and seeds, with
    intervals over graphs: of all graphs, of connected ones and of those in parts; and graph by
    graph ``graph_improvement_percent``."""
    table = outcomes(records)
    for objective, of_objective in table.groupby("instance", sort=False):
        mean, whole = (
            mean_costs(of_objective),
            of_objective.drop_duplicates("graph").set_index("graph").connected,
        )
        for method in mean.columns.drop("brkga"):
            ratios = mean[method] / mean.brkga
            seeds = int(of_objective[of_objective.method == method].groupby("graph").size().iloc[0])
            parts = {"all": ratios, "connected": ratios[whole], "parts": ratios[~whole]}
            for name, part in parts.items():
                cells = {"below": True, "graphs": len(part), "seeds": seeds}
                yield gap_row(f"{objective}/{name}", method, "improvement_percent", part, **cells)
            for graph, ratio in ratios.items():
                yield row(
                    f"{objective}/{graph}",
                    method,
                    "graph_improvement_percent",
                    100 * (1 - ratio),
                )
    yield from updates_rows(records)


OTHER_MAKERS = Artifact(
    "regal.outside", assemble_outside, plan_outside, Quick(seeds=1, config={"evaluations": 500})
)
