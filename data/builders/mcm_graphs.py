"""The sets of paper 2: ``mcm-graphs``, 87 convolutional and recurrent networks, and ``mcm-bert``,
the large graph.

Files hold the graphs as traced. ``chips`` and all measured facts are of the folded graphs, which
methods partition.
"""

from collections import Counter
from pathlib import Path

from learned_mapping_companion.datasets.manifest import Item, Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress

from . import zoo
from .building import Items
from .mcm_facts import facts
from .mcm_members import SPLITS, generate, members
from .topology import topology_digest

BERT = "bert_large_inference"
BERT_CHIPS = 36
"""The whole package (Section 5.1)."""
BERT_PAPER = {"ops": 2138, "parameters": 340_000_000}
"""What the paper says of its graph (Section 5.1); the parameters are "around 340 million"."""


def build(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Traces the table of `mcm_members` into ``FOLDER/SPLIT/NAME.json.gz``; there is no randomness.
    About a minute."""
    table = members()
    items = Items(folder, len(table), progress)
    for name, (split, family) in table.items():
        graph = generate(name)
        kind = SPLITS[split][family].kind
        measured = {
            "family": family,
            "kind": kind,
            **facts(graph),
            "topology": topology_digest(graph),
        }
        items.add(f"{split}/{name}.json.gz", graph, split=split, **measured)
    counts = Counter(item.split for item in items)
    totals = {f"graphs_{split}": counts[split] for split in SPLITS}
    return Manifest("mcm-graphs", SETS["mcm-graphs"].about, None, tuple(items), totals)


def build_bert(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Traces BERT (Section 5.3) and measures it; writes no file, which the set ``graphs`` has. No
    randomness."""
    graph = zoo.graph(BERT)
    bert_facts = {
        "family": "bert",
        "kind": "attention",
        **facts(graph, BERT_CHIPS),
        "topology": topology_digest(graph),
    }
    item = Item(BERT, graph.digest, None, None, None, bert_facts)
    if progress is not None:
        progress(1, 1)
    paper = {f"paper_{key}": value for key, value in BERT_PAPER.items()}
    return Manifest("mcm-bert", SETS["mcm-bert"].about, None, (item,), paper)
