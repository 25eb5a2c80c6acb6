"""What the chain rule costs on real graphs: the fastest partition under Eq. 4 itself, by CP-SAT,
over the fastest under the chain rule."""

from collections.abc import Sequence

import numpy as np

from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.rules.cp_sat import fastest_partition
from learned_mapping.mcm.task import Task
from learned_mapping.mcm.validate import validate
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.datasets.registry import stored_manifest
from learned_mapping_companion.mcm import graphs
from learned_mapping_companion.statistics import geometric_mean
from learned_mapping_companion.table import Record, Row, assembled, of_profile, row, rows, sweep

METHOD, INSTANCE = "eq-4", "all"
EFFORT = {"quick": 2.0, "full": 20.0}
QUICK_GRAPHS = ("lenet", "text_cnn")
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


def plan_eq_4(profile: str, seeds: int) -> list[Run]:
    """Training graphs of at most `LARGEST` ops whose optimum dynamic programming proves."""
    items = stored_manifest(graphs.PLAIN).split("train")
    names = [
        item.name
        for item in items
        if item.facts["ops_folded"] <= LARGEST and item.facts["proof"] == "ideals"
    ]
    runs = []
    for name in QUICK_GRAPHS if profile == "quick" else names:
        chips = max(LEAST_CHIPS, graphs.chips(name))
        config = {"effort": of_profile(EFFORT, profile), "chips": chips}
        runs += sweep("mcm.eq_4", [METHOD], [name], config)
    return runs


def assemble_eq_4(profile: str, records: Sequence[Record]) -> Record:
    """By graph the throughput over the chain rule's best, and what no partition is above; over all
    the geometric mean, the number of graphs on which Eq. 4 allows a faster one, and of those on
    which CP-SAT proves how much."""
    table_rows: list[Row] = []
    gains, proved = [], []
    for record in records:
        result = record["result"]
        gain = result["throughput"] / result["chain"]
        gains.append(max(gain, 1.0) if gain < 1.0 + MORE else gain)
        most = max(result["most"] / result["chain"], gains[-1])
        proved.append(result["proved"])
        ends = {"over_chain": gains[-1], "over_chain_at_most": most}
        about = {"ops": result["ops"], "chips": result["chips"]}
        table_rows += rows(record["instance"], METHOD, ends, n=1, **about)
    count = {"graphs": len(records)}
    above = int((np.array(gains) > 1.0 + MORE).sum())
    table_rows += rows(
        INSTANCE,
        METHOD,
        {"over_chain": geometric_mean(gains), "most_over_chain": max(gains)},
        n=1,
        **count,
    )
    table_rows.append(row(INSTANCE, METHOD, "graphs_above_chain", above, n=1, **count))
    table_rows.append(row(INSTANCE, METHOD, "graphs_proved", sum(proved), n=1, **count))
    return assembled(table_rows, valid=(record["result"]["valid"] for record in records))
