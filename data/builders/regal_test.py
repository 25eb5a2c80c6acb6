"""The set ``regal-test``: the test graphs of paper 3 on which nothing was ever chosen, one part for
each dataset.

Every topology of `regal-traced`'s test split with the first noise of its augmentation, for running
time and for peak memory; and one in ten of `regal-synthetic`'s 1,000 test graphs, from the middle
of each ten.
"""

import dataclasses
from pathlib import Path

from learned_mapping_companion.datasets.manifest import Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress
from learned_mapping_companion.regal.graphs import DATASETS, UNTOUCHED

from . import regal_synthetic_graphs as synthetic
from . import regal_traced_graphs as traced
from .building import Items

EVERY, OF = 10, 1000  # One synthetic graph in so many, of so many.


def build(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Writes every graph into ``FOLDER/DATASET/NAME.json.gz``."""
    names = traced.names("test")
    chosen = range(EVERY // 2, OF, EVERY)
    items = Items(folder, 2 * len(names) + len(chosen), progress)
    for dataset, (kind, _) in DATASETS.items():
        for i, name in enumerate(names) if kind == "traced" else ((i, str(i)) for i in chosen):
            graph = (
                traced.generate(dataset, "test", i)
                if kind == "traced"
                else synthetic.generate("test", i)
            )
            graph = dataclasses.replace(graph, name=f"{graph.name}-{dataset}")
            items.add(
                f"{dataset}/{name}.json.gz", graph, set=dataset, member=name, ops=graph.num_ops
            )
    return Manifest(UNTOUCHED, SETS[UNTOUCHED].about, traced.SEED, tuple(items))
