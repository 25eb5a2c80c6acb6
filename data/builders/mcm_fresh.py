"""The set ``mcm-fresh``: sixteen test graphs of paper 2, by families and sizes alone, opened once.

No value of any method decides: a candidate only has to have an optimum that is proven by the
dynamic programme over at most `MAX_IDEALS` ideals, so that every result can be put beside it. How
far a rule is from the optimum is as it comes.

- Traced: architectures of which no graph of `mcm-graphs` or `mcm-headroom` is, forward passes of a
  training step with its loss; of each the `SIZES` largest of its sizes that have such an optimum.
- Generated: for each number of ops in turn the families of `random_graph` in turn, the first copy
  of each that has such an optimum, until there are sixteen in all.
"""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.bounds.optimum import TooManyIdealsError, ideals_of
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.synthetic import GRAPH_FAMILIES
from learned_mapping_companion.datasets.manifest import Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress

from .building import Items
from .mcm_chips import chip_count
from .mcm_facts import MAX_IDEALS, facts
from .mcm_headroom import TRACED, generated
from .topology import topology_digest

NAME = "mcm-fresh"
COUNT = 16
FAMILIES = ("alphatensor", "dlrm", "language_model", "seq2seq", "super_resolution")
SIZES = 2
"""Of a traced architecture, at most."""
OPS, COPIES = (120, 90, 60, 40), range(100, 110)
"""Of the generated graphs; `mcm-headroom` has copies 0 to 9."""
RECURRENT = ("seq2seq",)
"""Stacked recurrent networks, in which few single moves keep the rules; told apart."""

Candidate = tuple[str, ComputationGraph]


def has_proven_optimum(graph: ComputationGraph) -> bool:
    """Whether the exact optimum is at hand."""
    folded = fold_cheap_sources(graph)
    try:
        ideals_of(ChipModel(folded, ChipPackage(chips=chip_count(folded))), MAX_IDEALS)
    except TooManyIdealsError:
        return False
    return True


def _traced() -> Iterator[Candidate]:
    for family in FAMILIES:
        graphs = (make() for make in TRACED[family].values())
        yield from ((family, graph) for graph in islice(filter(has_proven_optimum, graphs), SIZES))


def _generated() -> Iterator[Candidate]:
    for ops in OPS:
        for family in GRAPH_FAMILIES:
            graphs = (generated(family, ops, copy) for copy in COPIES)
            yield from ((family, graph) for graph in islice(filter(has_proven_optimum, graphs), 1))


def chosen() -> Iterator[Candidate]:
    """Family and graph of the set, in its order."""
    yield from islice(chain(_traced(), _generated()), COUNT)


def build(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Writes the set into ``FOLDER/NAME.json.gz``. Some minutes."""
    items = Items(folder, COUNT, progress)
    for family, graph in chosen():
        kind = "generated" if family in GRAPH_FAMILIES else "traced"
        about = facts(graph) | {
            "recurrent": family in RECURRENT,
            "topology": topology_digest(graph),
        }
        items.add(f"{graph.name}.json.gz", graph, split="test", family=family, kind=kind, **about)
    kinds = [item.facts["kind"] for item in items]
    counts = {f"graphs_{kind}": kinds.count(kind) for kind in ("traced", "generated")}
    return Manifest(NAME, SETS[NAME].about, COPIES.start, tuple(items), counts)
