"""The set ``regal-test``: the test graphs of paper 3 on which nothing was ever chosen, one part for each dataset.

Every topology of `regal-traced`'s test split with the first noise of its augmentation, for running time and for peak
memory; and one in ten of `regal-synthetic`'s 1,000 test graphs, from the middle of each ten.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from learned_mapping.companion.datasets import registry
from learned_mapping.companion.datasets.manifest import Item, Manifest
from learned_mapping.companion.regal.graphs import DATASETS, UNTOUCHED
from learned_mapping.programs.formats import write_graph

from . import regal_synthetic_graphs as synthetic
from . import regal_traced_graphs as traced
from .building import stored_item

EVERY, OF = 10, 1000  # One synthetic graph in so many, of so many.


def build(folder: Path, *, progress: Callable[[int, int], None] | None = None) -> Manifest:
    """Writes every graph into ``FOLDER/DATASET/NAME.json.gz``."""
    items: list[Item] = []
    names = traced.names("test")
    chosen = range(EVERY // 2, OF, EVERY)
    for dataset, (kind, _) in DATASETS.items():
        for i, name in enumerate(names) if kind == "traced" else ((i, str(i)) for i in chosen):
            graph = traced.generate(dataset, "test", i) if kind == "traced" else synthetic.generate("test", i)
            graph = dataclasses.replace(graph, name=f"{graph.name}-{dataset}")
            file = f"{dataset}/{name}.json.gz"
            write_graph(Path(folder) / file, graph)
            items.append(stored_item(Path(folder), file, graph, set=dataset, member=name, ops=graph.num_ops))
            if progress is not None:
                progress(len(items), 2 * len(names) + len(chosen))
    return Manifest(UNTOUCHED, registry.SETS[UNTOUCHED].about, traced.SEED, tuple(items))
