"""The sets ``regal-test`` and ``regal-fresh``: test graphs of paper 3, one part for each dataset.

Every topology of `regal-traced`'s test split with a noise of its augmentation, for running time and
for peak memory; and one in ten of `regal-synthetic`'s 1,000 test graphs. The first set has the
first noise and graphs 5, 15, 25; the second, opened after the networks got their skip, the second
noise and graphs 7, 17, 27.
"""

import dataclasses
from pathlib import Path

from learned_mapping_companion.datasets.manifest import Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress
from learned_mapping_companion.regal.graphs import DATASETS, FRESH, UNTOUCHED

from . import regal_synthetic_graphs as synthetic
from . import regal_traced_graphs as traced
from .building import Items

EVERY, OF = 10, 1000  # One synthetic graph in so many, of so many.


def build(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Writes every graph of ``regal-test`` into ``FOLDER/DATASET/NAME.json.gz``."""
    return _written(UNTOUCHED, folder, progress, noise=0, first=5)


def build_fresh(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """The same of ``regal-fresh``."""
    return _written(FRESH, folder, progress, noise=1, first=7)


def _written(
    name: str, folder: Path, progress: Progress | None, *, noise: int, first: int
) -> Manifest:
    names = traced.names("test")
    chosen, offset = range(first, OF, EVERY), noise * len(names)
    items = Items(folder, 2 * len(names) + len(chosen), progress)
    for dataset, (kind, _) in DATASETS.items():
        if kind == "traced":
            graphs = {m: traced.generate(dataset, "test", offset + i) for i, m in enumerate(names)}
        else:
            graphs = {str(i): synthetic.generate("test", i) for i in chosen}
        for member, graph in graphs.items():
            graph = dataclasses.replace(graph, name=f"{graph.name}-{dataset}")
            about = {"set": dataset, "member": member, "ops": graph.num_ops}
            items.add(f"{dataset}/{member}.json.gz", graph, **about)
    return Manifest(name, SETS[name].about, traced.SEED, tuple(items))
