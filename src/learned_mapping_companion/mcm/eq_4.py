"""What the chain rule costs on real graphs: the fastest partition under Eq. 4 itself, by CP-SAT,
over the fastest under the chain rule."""

import numpy as np

from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.rules.cp_sat import fastest_partition
from learned_mapping.mcm.task import Task
from learned_mapping.mcm.validate import validate
from learned_mapping_companion.artifact import Artifact, Quick, Run, Runs
from learned_mapping_companion.datasets.registry import stored_manifest
from learned_mapping_companion.mcm import graphs
from learned_mapping_companion.statistics import geometric_mean
from learned_mapping_companion.table import Record, Records, Rows, rows

METHOD, INSTANCE = "eq-4", "all"
EFFORT = 20.0
LEAST_CHIPS = 8
"""The number of chips of a graph goes by the chain rule; on four, its least, Eq. 4 allows little
more."""
LARGEST = 150
"""Ops: of larger graphs on many chips Eq. 4, a clause for each edge and two chips, takes long to
state."""
MORE = 1e-6  # CP-SAT rounds times: a closer ratio to 1 is one.


def eq_4_run(method: str, instance: str, config: Record, seed: int) -> Record:
    """The optimum under the chain rule, what CP-SAT finds under Eq. 4 from there, and its bound, in
    results per second; judged by the validator, which knows Eq. 4 alone."""
    graph, package = graphs.load_graph(instance), ChipPackage(chips=config["chips"])
    task = Task(graph, package)
    chain = optimum(task.model)
    outcome = fastest_partition(
        task.model, effort=config["effort"], seed=seed, start=chain, strength="general"
    )
    found = chain if outcome.assignment is None else outcome.assignment
    verdict = validate(graph, task.partition(found), package)
    return {
        "valid": verdict.valid,
        "throughput": verdict.costs.get("throughput", 0.0),
        "chain": task.model.throughput(chain),
        "most": 1.0 / max(outcome.bound, 1e-30),
        "proved": outcome.optimal,
        "ops": graph.num_ops,
        "chips": package.chips,
    }


def plan_eq_4(seeds: int) -> Runs:
    """Training graphs of at most `LARGEST` ops whose optimum dynamic programming proves."""
    return [
        Run(
            "mcm.eq_4",
            METHOD,
            item.name,
            {"effort": EFFORT, "chips": max(LEAST_CHIPS, graphs.chips(item.name))},
        )
        for item in stored_manifest(graphs.PLAIN).split("train")
        if item.facts["ops_folded"] <= LARGEST and item.facts["proof"] == "ideals"
    ]


def assemble_eq_4(records: Records) -> Rows:
    """By graph the throughput over the chain rule's best, and what no partition is above; over all
    the geometric mean, the number of graphs on which Eq. 4 allows a faster one, and of those on
    which CP-SAT proves how much."""
    gains, proved = [], []
    for record in records:
        result = record["result"]
        gain = result["throughput"] / result["chain"]
        gains.append(max(gain, 1.0) if gain < 1.0 + MORE else gain)
        most = max(result["most"] / result["chain"], gains[-1])
        proved.append(result["proved"])
        ends = {"over_chain": gains[-1], "over_chain_at_most": most}
        cells = {"ops": result["ops"], "chips": result["chips"]}
        yield from rows(record["instance"], METHOD, ends, n=1, **cells)
    above = int((np.array(gains) > 1.0 + MORE).sum())
    whole = {"over_chain": geometric_mean(gains), "most_over_chain": max(gains)}
    whole |= {"graphs_above_chain": above, "graphs_proved": sum(proved)}
    yield from rows(INSTANCE, METHOD, whole, n=1, graphs=len(records))


EQ_4 = Artifact(
    "mcm.eq_4",
    assemble_eq_4,
    plan_eq_4,
    Quick(instances=("lenet", "text_cnn"), config={"effort": 2.0}),
)
