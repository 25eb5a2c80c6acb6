"""Tables of the pages on paper 2: the partitions that each rule leaves, the time of each chip, the
policies."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from IPython.display import Markdown

from learned_mapping.hardware.chip_package import ChipModel, ChipPackage, chip_memory
from learned_mapping.learning.checkpoint import read_checkpoint
from learned_mapping.mcm.agent.checkpoints import PRETRAININGS, checkpoint_path
from learned_mapping.mcm.methods import CHIPS, MOVES, PLAIN, solve
from learned_mapping.mcm.partition import Partition
from learned_mapping.mcm.repair.engine import repair_arrays
from learned_mapping.mcm.repair.solver import ConstraintSolver
from learned_mapping.mcm.rules.constraints import (
    obeys_acyclic,
    obeys_chain_rule,
    obeys_triangle,
    uses_prefix,
)
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.problem import Result
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping_companion import results
from learned_mapping_companion.datasets.registry import SETS
from learned_mapping_companion.display import Html, listing, provenance_line
from learned_mapping_companion.mcm import graphs
from learned_mapping_companion.table import Record


def rules_table(graph: ComputationGraph, chips: int) -> Html:
    """The number of partitions of a small graph that obey each rule, counted one by one."""
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
    """The seconds of each chip of a partition on operations and on links, its memory, and the
    throughput."""
    model, assignment = ChipModel(graph, package), partition.assignment
    total, links = model.latencies(assignment), model.link_seconds(assignment)
    peak = chip_memory(graph, assignment, package.chips)
    parts = [1e6 * (total - links), 1e6 * links, 1e6 * total]
    rows = [
        (f"chip {d}", *(f"{part[d]:.2f}" for part in parts), f"{peak[d] / 1024:.0f}")
        for d in range(package.chips)
    ]
    head = ["", "operations, \u00b5s", "links, \u00b5s", "together, \u00b5s", "memory, KiB"]
    words = (
        f"<p>The slowest chip takes {1e6 * max(total):.2f} µs, so the throughput is"
        f" {1 / max(total):,.0f} results per second. Each chip of this example has"
        f" {package.sram_bytes / 1024:.0f} KiB of memory.</p>"
    )
    return Html(listing("Time and memory", head, rows) + words)


def verdicts_table(live: Record) -> Html:
    """The validator's verdicts on the example's partitions, and whether the stored ``mcm.fig2``
    says the same."""
    stored = results.load("mcm.fig2")
    rows = [(row["method"], row["value"]) for row in results.select(live, metric="verdict")]
    same = [row["value"] for row in live["rows"]] == [row["value"] for row in stored["rows"]]
    words = (
        "The stored verdicts, drawn above, are the same."
        if same
        else "The stored verdicts above differ."
    )
    verdicts = listing("Verdicts, live", ["partition", "the validator says"], rows)
    return Html(f"{verdicts}<p>{words}</p>{provenance_line(stored, state=False)}")


def most_chips_table(names: Sequence[str]) -> Html:
    """The most chips that the chain rule can use on graphs of ``data/graphs``, as traced and with
    sources folded."""
    rows = []
    for name in names:
        raw = read_graph(SETS["graphs"].path / f"{name}.json.gz")
        both = raw, fold_cheap_sources(raw)
        most = [int(repair_arrays(graph).anchor_reach.max()) + 1 for graph in both]
        rows.append((name, *(graph.num_ops for graph in both), *most))
    head = ["graph", "operations", "folded", "chips", "chips, folded"]
    return listing("The most chips that the chain rule can use", head, rows)


def solved(name: str, methods: Sequence[str], samples: int) -> dict[str, Result]:
    """The results of methods on a graph of a set on its chips, by as many samples each."""
    graph, chips = graphs.load_graph(name), graphs.chips(name)
    return {
        method: solve(graph, method, chips=chips, samples=samples, seed=0, profile="quick")
        for method in methods
    }


def compared_words(name: str, outcomes: Mapping[str, Result], samples: int) -> Markdown:
    """The share of the throughput of ``optimum`` that methods reach; it and ``greedy-naive`` are
    among them."""
    rate = {method: value.metrics["throughput"] for method, value in outcomes.items()}
    reached = {method: f"{100 * value / rate['optimum']:.0f} %" for method, value in rate.items()}
    words = " and ".join(
        f"{m} reaches {reached[m]}" for m in outcomes if m not in ("greedy-naive", "optimum")
    )
    return Markdown(
        f"{name} has {graphs.load_graph(name).num_ops} operations and {graphs.chips(name)} chips."
        f" With {samples} samples each, {words} of the optimum's throughput; the naive greedy has"
        f" {reached['greedy-naive']}."
    )


def domains_table(
    graph: ComputationGraph, chips: int, decisions: Sequence[tuple[str, int]]
) -> Html:
    """The chips left to each operation by the chain rule, before and after each decision."""
    solver = ConstraintSolver(graph.num_ops, graph.op_edges, chips)

    def domains() -> list[str]:
        return [", ".join(map(str, solver.get_domain(op))) for op in range(graph.num_ops)]

    steps = [("nothing", *domains())]
    for name, chip in decisions:
        solver.set_domain(graph.op_names.index(name), {chip})
        steps.append((f"{name} on chip {chip}", *domains()))
    return listing(
        "Domains of the operations under the chain rule", ["decided", *graph.op_names], steps
    )


KINDS = {CHIPS: "over chips", PLAIN: "over chips, one credit a sample", MOVES: "of moves"}
SCORES = ("zeroshot", "finetune")
COLUMNS = (
    "policy",
    "samples",
    "updates of the chosen copy",
    "zero-shot",
    "fine-tuned",
    "untrained",
    "from scratch",
)


def trained_policies() -> Html:
    """A row per shipped policy: its training, and scores on the validation graphs beside those of
    random weights.

    A score is the geometric mean over the graphs of the best throughput so far, averaged over the
    samples, over the naive greedy's.
    """
    rows = []
    for policy, kind in KINDS.items():
        for pretraining in range(PRETRAININGS):
            path = checkpoint_path(pretraining, policy)
            if not path.exists():
                continue
            facts = read_checkpoint(path)[1]["facts"]
            scores = {row["iteration"]: row for row in facts["scores"]}
            cells = [f"{facts['samples']:,}", f"{facts['iteration']:,}"]
            cells += [
                f"{scores[which][score]:.3f}"
                for which in (facts["iteration"], 0)
                for score in SCORES
            ]
            rows.append((kind, *cells))
    return listing("Pre-trained policies on the validation graphs", COLUMNS, rows)
