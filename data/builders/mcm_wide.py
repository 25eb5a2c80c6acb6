"""The set ``mcm-wide``: graphs of paper 2 that 36 chips can share, too wide for an exact method.

Nothing but the graph decides: under the chain rule it has to reach over `CHIPS` chips, these have
to be worth it by the rule of `mcm_chips`, and it must have more than `bounds.optimum.MAX_IDEALS`
ideals. A skip keeps all that it spans on two chips, so that no U-net and no training step is here.

Graphs are generated, each op a cell, an expert, a column's stage or a tile. Each family gives a
graph for each of `SIZES`, the first copy that fulfils the rule.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.bounds.min_cut import min_cut_bound
from learned_mapping.mcm.bounds.optimum import TooManyIdealsError, ideals_of, lower_bound
from learned_mapping.mcm.bounds.windows import window_bound
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.mcm.searches.greedy import careful_greedy, naive_greedy
from learned_mapping.programs.graph import ComputationGraph, make_graph
from learned_mapping_companion.datasets.manifest import Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress

from .building import Items
from .mcm_chips import chip_count, longest_chain
from .topology import topology_digest

NAME = "mcm-wide"
CHIPS = 36
SEED = 2028  # First entry of every seed; the family's place, width, length and copy follow.
COPIES = 10
MEDIAN_NANOSECONDS = 100_000  # Of an op on a chip.
MEDIAN_BYTES = 2**18  # Of a tensor: 8 microseconds of a link.
SPREAD = 0.5  # Standard deviation of the logarithms of both.

Producers = list[set[int]]  # For each op those whose tensors it reads, all before it.


def recurrence(width: int, length: int) -> Producers:
    """A stacked recurrence, `width` layers by `length` steps: a cell reads the layer below at its
    step and its own layer a step before."""
    cells = [(layer, step) for step in range(length) for layer in range(width)]
    place = {cell: op for op, cell in enumerate(cells)}
    before = [((layer - 1, step), (layer, step - 1)) for layer, step in cells]
    return [{place[cell] for cell in pair if cell in place} for pair in before]


def experts(width: int, length: int) -> Producers:
    """`length` layers of a mixture of experts (after Eigen et al. 2013): a router that weighs what
    each of `width` experts of three ops reads, and their sum."""
    made: Producers = [set()]
    for _ in range(length):
        made.append({len(made) - 1})
        router, ends = len(made) - 1, set()
        for _ in range(width):
            made += [{router}, {len(made)}, {len(made) + 1}]
            ends.add(len(made) - 1)
        made.append(ends)
    return made


def columns(width: int, length: int) -> Producers:
    """A network of `width` columns of `length` stages; every third stage reads the next column
    too."""
    made: Producers = [set()]
    last = [0] * width
    for stage in range(length):
        reads = [{last[i], last[(i + 1) % width]} if stage % 3 == 2 else {last[i]}
                 for i in range(width)]  # fmt: skip
        last = [len(made) + i for i in range(width)]
        made += reads
    return [*made, set(last)]


def tiles(width: int, length: int) -> Producers:
    """`length` convolutions, each in `width` tiles: a tile reads its own and its neighbours' before
    it."""
    made: Producers = [set() for _ in range(width)]
    for layer in range(1, length):
        start = (layer - 1) * width
        made += [{start + j for j in (i - 1, i, i + 1) if 0 <= j < width} for i in range(width)]
    return made


FAMILIES: dict[str, Callable[[int, int], Producers]] = {
    "recurrence": recurrence,
    "experts": experts,
    "columns": columns,
    "tiles": tiles,
}
SIZES = {
    "recurrence": ((8, 32), (9, 30), (12, 36), (10, 32), (8, 36), (9, 36), (10, 40)),
    "experts": ((8, 11), (9, 12), (12, 12), (10, 11), (8, 12), (9, 14), (10, 13)),
    "columns": ((8, 36), (9, 40), (12, 42), (10, 38), (8, 40), (9, 46), (10, 42)),
    "tiles": ((10, 40), (11, 42), (12, 44), (10, 42), (10, 44), (11, 46), (12, 40)),
}
"""Family -> (width, length) of its graphs: three to train, one to validate, three to test."""
SPLITS = ("train", "train", "train", "validation", "test", "test", "test")


def generated(family: str, width: int, length: int, copy: int) -> ComputationGraph:
    """A candidate. Times are whole nanoseconds, so that no machine's exponential function changes
    them."""
    producers = FAMILIES[family](width, length)
    count = len(producers)
    rng = np.random.default_rng([SEED, list(FAMILIES).index(family), width, length, copy])
    nanoseconds, sizes = (
        np.maximum(np.round(median * np.exp(SPREAD * rng.standard_normal(count))), 1.0)
        for median in (MEDIAN_NANOSECONDS, MEDIAN_BYTES)
    )
    edges = [(u, v) for v, before in enumerate(producers) for u in sorted(before)]
    used = {u for u, _ in edges}
    return make_graph(
        name=f"{family}_{width}x{length}_{copy}",
        op_names=[f"op.{op}" for op in range(count)],
        op_kinds=["map"] * count,
        op_flop=nanoseconds * 1e3,
        op_weight_bytes=np.zeros(count, np.int64),
        op_seconds=nanoseconds * 1e-9,
        tensor_names=[f"op.{op}:0" for op in range(count)],
        tensor_producer=list(range(count)),
        tensor_bytes=sizes.astype(np.int64),
        tensor_is_output=[op not in used for op in range(count)],
        edge_tensor=[u for u, _ in edges],
        edge_consumer=[v for _, v in edges],
        metadata={"generator": NAME, "family": family},
    )


def is_wide(graph: ComputationGraph) -> bool:
    """Whether 36 chips can share a graph, which has too many ideals for the exact optimum."""
    folded = fold_cheap_sources(graph)
    if longest_chain(folded) < CHIPS or chip_count(folded) < CHIPS:
        return False
    try:
        ideals_of(ChipModel(folded, ChipPackage(chips=CHIPS)))
    except TooManyIdealsError:
        return True
    return False


def facts(graph: ComputationGraph) -> dict[str, Any]:
    """Plain names to numbers, of the folded graph on `CHIPS` chips: three bounds that no partition
    under the chain rule is below, each at least the one before, and how far above the last the
    greedy rules are, in per cent."""
    folded = fold_cheap_sources(graph)
    model = ChipModel(folded, ChipPackage(chips=CHIPS))
    bounds = {"bound_s": lower_bound, "cut_bound_s": min_cut_bound, "chain_bound_s": window_bound}
    seconds = {name: float(f"{bound(model):.6g}") for name, bound in bounds.items()}
    rules = {"greedy_naive": naive_greedy(model), "greedy_careful": careful_greedy(model)}
    floor = seconds["chain_bound_s"]
    return {
        "ops": graph.num_ops,
        "ops_folded": folded.num_ops,
        "edges": graph.num_edges,
        "longest_chain_chips": longest_chain(folded),
        "chips": CHIPS,
        "one_chip_s": float(f"{model.op_seconds.sum():.6g}"),
        "largest_op_share": round(float(model.op_seconds.max() / model.op_seconds.sum()), 4),
        **seconds,
        **{
            f"{rule}_above_percent": round(100 * (model.runtime(partition) / floor - 1), 2)
            for rule, partition in rules.items()
        },
    }


def chosen() -> Iterator[tuple[str, str, ComputationGraph]]:
    """Split, family and graph of the set, in its order."""
    for family, sizes in SIZES.items():
        for split, (width, length) in zip(SPLITS, sizes, strict=True):
            copies = (generated(family, width, length, copy) for copy in range(COPIES))
            yield split, family, next(filter(is_wide, copies))


def build(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Writes the set into ``FOLDER/SPLIT/NAME.json.gz``. Some minutes."""
    items = Items(folder, len(SIZES) * len(SPLITS), progress)
    for split, family, graph in chosen():
        about = facts(graph) | {"topology": topology_digest(graph)}
        file = f"{split}/{graph.name}.json.gz"
        items.add(file, graph, split=split, family=family, kind="generated", **about)
    counts = {
        f"graphs_{split}": SPLITS.count(split) * len(SIZES) for split in dict.fromkeys(SPLITS)
    }
    return Manifest(NAME, SETS[NAME].about, SEED, tuple(items), counts)
