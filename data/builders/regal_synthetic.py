"""The set ``regal-synthetic``: 12,000 generated graphs that leave a search room, as in paper 3's
released set.

The notes of that release (deepmind-research/regal) keep a graph where BRKGA with few evaluations
breaks the hardware's limits and BRKGA with many does not, or where many make the running time 20%
better than few. They print neither the two numbers of evaluations nor the limits; those here are
ours. What is stored are the seeds that passed, and the graphs of the test part.
"""

import fcntl
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.folders import build_folder
from learned_mapping.hardware.devices import Devices, simulate
from learned_mapping.programs.formats import write_graph
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import file_sha256, write_json
from learned_mapping.regal.rules.instance import INFEASIBLE, Instance
from learned_mapping.regal.searches.brkga import BrkgaParameters, brkga
from learned_mapping_companion.datasets.manifest import SPLITS, Item, Manifest
from learned_mapping_companion.datasets.registry import SETS

from . import regal_synthetic_graphs as graphs
from .regal_synthetic_graphs import SEED, candidate
from .topology import topology_digest

NAME = "regal-synthetic"
COUNTS: Mapping[str, int] = MappingProxyType({"train": 10_000, "validation": 1_000, "test": 1_000})
"""Graphs by split, as in the authors' release; candidates that pass fill the splits in this
order."""
LOW_EVALUATIONS = 500  # Evaluations of the short search: the first generation and five more.
HIGH_EVALUATIONS = 5000
"""Evaluations of the long search, as in the paper's experiments (Section 3.2)."""
RUNTIME_RATIO = 0.8  # The long search's running time over the short one's, at most: 20% better.
MEMORY_SHARE = 0.25
"""Where a device's memory lies between what the largest op needs and what running all on one device
needs."""
PARAMETERS = BrkgaParameters(population=100, elite_fraction=0.2, mutant_fraction=0.15, bias=0.7)

TOO_LARGE, NO_ROOM = "too large", "no room"
"""Verdicts that keep no graph: neither search fits the memory; both fit and the long one is not
faster by 20%."""
SAME_TOPOLOGY = "same topology"
"""Outcome of a candidate that is shaped as one kept before; any other outcome is a verdict."""
KEPT = (graphs.FITS, graphs.FASTER)
JOURNAL = 1
"""Raised by hand when the generator or the filter changes, so that no build goes on from verdicts
of before."""


class Outcome(NamedTuple):
    """What became of a candidate."""

    seed: int
    outcome: str
    ops: int
    edges: int
    topology: str  # `topology_digest` of the graph.
    digest: str  # The graph's.


@dataclass(frozen=True)
class Room:
    """What the two searches found."""

    verdict: str
    low: float
    """Fitness after `LOW_EVALUATIONS`: seconds, or at least `INFEASIBLE` where the memory limit is
    broken."""
    high: float  # The same after `HIGH_EVALUATIONS`.


def memory_limit(graph: ComputationGraph) -> int:
    """Bytes of memory of each device for which a graph is judged.

    limit = floor + `MEMORY_SHARE` (one - floor): ``floor`` is the largest sum of an op's inputs and
    outputs, which some device must hold at once; ``one`` is the peak of one device that runs all
    ops in the graph's topological order.
    """
    floor = int((graph.op_input_bytes + graph.op_output_bytes).max())
    order = [(op, -1) for op in graph.topological_order.tolist()]
    one = simulate(graph, np.zeros(graph.num_ops, np.int64), order, Devices()).peak_bytes
    return floor + int(MEMORY_SHARE * (one - floor))


def room(graph: ComputationGraph, rng: np.random.Generator) -> Room:
    """Searches for the shortest running time within `memory_limit` and judges.

    The short search is the beginning of the long one: with the same seed BRKGA's first generations
      are the same.
    """
    budget = Budget(samples=HIGH_EVALUATIONS)
    pair = Devices(memory_bytes=float(memory_limit(graph)))
    brkga(Instance(graph, pair, "runtime"), rng, budget, parameters=PARAMETERS)
    high = budget.curve_best[-1]
    low = [
        best
        for samples, best in zip(budget.curve_samples, budget.curve_best)
        if samples <= LOW_EVALUATIONS
    ][-1]
    if high >= INFEASIBLE:
        return Room(TOO_LARGE, low, high)
    if low >= INFEASIBLE:
        return Room(graphs.FITS, low, high)
    return Room(graphs.FASTER if high <= RUNTIME_RATIO * low else NO_ROOM, low, high)


def search_rng(seed: int) -> np.random.Generator:
    """The randomness of the search that judges a candidate."""
    return np.random.default_rng([SEED, seed, 1])


def outcomes(
    kept: int, journal: Path, *, progress: Callable[[int, int], None] | None = None
) -> Iterator[Outcome]:
    """Candidates 0, 1, 2, ... until `kept` of them pass; about 25 minutes of one core for 12,000.
    The file `journal` gets a line per candidate; what is in it is not judged again."""
    seen: set[str] = set()
    number = 0
    journal.parent.mkdir(parents=True, exist_ok=True)
    with open(journal, "a+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # another build goes on from what this one finds
        stream.seek(0)
        text = stream.read()
        whole = text.rfind(b"\n") + 1  # the writing may have stopped within a line
        stream.truncate(whole)
        done = text[:whole].splitlines()
        for seed in range(10**9):
            if number == kept:
                return
            if seed < len(done):
                result = Outcome(*json.loads(done[seed]))
            else:
                result = _judged(seed, seen)
                stream.write(json.dumps(result).encode() + b"\n")
                stream.flush()
            if result.outcome in KEPT:
                seen.add(result.topology)
                number += 1
                if progress is not None:
                    progress(number, kept)
            yield result


def _judged(seed: int, seen: set[str]) -> Outcome:
    graph = candidate(seed)
    topology = topology_digest(graph)
    outcome = SAME_TOPOLOGY if topology in seen else room(graph, search_rng(seed)).verdict
    return Outcome(seed, outcome, graph.num_ops, graph.num_edges, topology, graph.digest)


def build(folder: Path, *, progress: Callable[[int, int], None] | None = None) -> Manifest:
    """Generates and filters candidates until the set is full, and writes it: about 25 minutes of
    one core.

    The verdicts go to a journal in the build folder as they come: an interrupted build goes on
    where it stopped, one of another `JOURNAL` starts anew.
    """
    journal = build_folder() / NAME / f"{JOURNAL}.jsonl"
    judged = list(outcomes(sum(COUNTS.values()), journal, progress=progress))
    return write(Path(folder), judged, COUNTS)


def write(folder: Path, judged: list[Outcome], counts: Mapping[str, int]) -> Manifest:
    """Writes the set of those candidates that passed, so many a split, of all in order of their
    seeds."""
    kept = [graph for graph in judged if graph.outcome in KEPT]
    items: list[Item] = []
    stored: dict[str, Any] = {
        "schema": "learned-mapping/accepted/1",
        "columns": list(graphs.Accepted._fields),
    }
    for split in SPLITS:
        start = len(items)
        part = kept[start : start + counts[split]]
        stored[split] = [
            [o.seed, _family(o), o.ops, o.outcome, o.digest[: graphs.SHORT]] for o in part
        ]
        for index, outcome in enumerate(part):
            name, file, sha256 = graphs.graph_name(split, index), None, None
            if split == "test":
                file = f"test/{index:04d}.json.gz"
                write_graph(folder / file, candidate(outcome.seed, name=name))
                sha256 = file_sha256(folder / file)
            facts = {"family": _family(outcome), "ops": outcome.ops, "edges": outcome.edges}
            items.append(Item(name, outcome.digest, split, file, sha256, facts))
    write_json(folder / graphs.ACCEPTED, stored)
    graphs.read_accepted.cache_clear()
    facts = _facts(judged, counts)
    facts |= {
        "accepted_file": graphs.ACCEPTED,
        "accepted_sha256": file_sha256(folder / graphs.ACCEPTED),
    }
    return Manifest(NAME, SETS[NAME].about, SEED, tuple(items), facts)


def _family(outcome: Outcome) -> str:
    return graphs.FAMILIES[outcome.seed % len(graphs.FAMILIES)]


def _facts(judged: list[Outcome], counts: Mapping[str, int]) -> dict[str, Any]:
    """The filter and what it did, by family."""
    what = (*KEPT, NO_ROOM, TOO_LARGE, SAME_TOPOLOGY)
    tally = Counter((_family(graph), graph.outcome) for graph in judged)
    table = {
        family: {outcome: tally[family, outcome] for outcome in what} for family in graphs.FAMILIES
    }
    table["all"] = {outcome: sum(row[outcome] for row in table.values()) for outcome in what}
    for row in table.values():
        total = sum(row.values())
        row["candidates"] = total
        row["kept_percent"] = round(
            100 * sum(row[condition] for condition in KEPT) / max(total, 1), 1
        )
    return {
        "graphs": dict(counts),
        "ops_smallest": graphs.SMALLEST,
        "ops_largest": graphs.LARGEST,
        "low_evaluations": LOW_EVALUATIONS,
        "high_evaluations": HIGH_EVALUATIONS,
        "runtime_ratio_at_most": RUNTIME_RATIO,
        "memory_share": MEMORY_SHARE,
        "brkga": dict(vars(PARAMETERS)),
        "candidates_by_family": table,
    }
