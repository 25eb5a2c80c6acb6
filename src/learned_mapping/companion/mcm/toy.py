"""Tables of the page on paper 2's problem: the partitions that each rule leaves, and the time of each chip."""

import itertools
from collections.abc import Sequence

import numpy as np

from learned_mapping.companion.display import Html, listing
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage, chip_memory
from learned_mapping.mcm.partition import Partition
from learned_mapping.mcm.repair.solver import ConstraintSolver
from learned_mapping.mcm.rules.constraints import obeys_acyclic, obeys_chain_rule, obeys_triangle, uses_prefix
from learned_mapping.programs.graph import ComputationGraph


def rules_table(graph: ComputationGraph, chips: int) -> Html:
    """How many of all partitions of a small graph obey each rule, counted one by one."""
    edges = graph.op_edges
    everything = map(np.array, itertools.product(range(chips), repeat=graph.num_ops))
    ordered = [f for f in everything if obeys_acyclic(f, edges)]
    prefix = [f for f in ordered if uses_prefix(f)]
    counts = {
        "any": chips**graph.num_ops,
        "Eq. 2": len(ordered),
        "Eq. 2 and 3": len(prefix),
        "Eq. 2 and 4": sum(obeys_triangle(f, edges) for f in ordered),
        "Eq. 2, 3 and 4": sum(obeys_triangle(f, edges) for f in prefix),
        "Eq. 3 and the chain rule": sum(obeys_chain_rule(f, edges) for f in prefix),
    }
    title = f"Partitions of {graph.num_ops} operations on {chips} chips"
    return listing(title, ["that obey", "number"], counts.items())


def chips_table(graph: ComputationGraph, partition: Partition, package: ChipPackage) -> Html:
    """What each chip of a partition spends on operations and on links, and the memory it needs."""
    model, assignment = ChipModel(graph, package), partition.assignment
    total, links = model.latencies(assignment), model.link_seconds(assignment)
    peak = chip_memory(graph, assignment, package.chips)
    parts = [1e6 * (total - links), 1e6 * links, 1e6 * total]
    rows = [(f"chip {d}", *(f"{part[d]:.2f}" for part in parts), f"{peak[d] / 1024:.0f}") for d in range(package.chips)]
    head = ["", "operations, \u00b5s", "links, \u00b5s", "together, \u00b5s", "memory, KiB"]
    return listing("Time and memory", head, rows)


def domains_table(graph: ComputationGraph, chips: int, decisions: Sequence[tuple[str, int]]) -> Html:
    """The chips left to each operation by the chain rule, before and after each decision."""
    solver = ConstraintSolver(graph.num_ops, graph.op_edges, chips)

    def domains() -> list[str]:
        return [", ".join(map(str, solver.get_domain(op))) for op in range(graph.num_ops)]

    steps = [("nothing", *domains())]
    for name, chip in decisions:
        solver.set_domain(graph.op_names.index(name), {chip})
        steps.append((f"{name} on chip {chip}", *domains()))
    return listing("Domains of the operations under the chain rule", ["decided", *graph.op_names], steps)
