"""The candidates of paper 3's synthetic set, one per seed, and their passage through the filter."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from learned_mapping.companion.datasets.regal_room import KEPT, room
from learned_mapping.companion.datasets.topology import topology_digest
from learned_mapping.programs.graph import ComputationGraph, frozen_array
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph

SEED = 2019
"""First entry of every seed of the set."""
FAMILIES = tuple(sorted(GRAPH_FAMILIES))
"""Candidates take them in turn."""
SMALLEST, LARGEST = 20, 120
"""Ops of a candidate, uniform in the logarithm."""
SAME_TOPOLOGY = "same topology"
"""Outcome of a candidate that is shaped as one kept before; any other outcome is a verdict of `regal_room`."""


class Outcome(NamedTuple):
    """What became of a candidate."""

    seed: int
    outcome: str
    ops: int
    edges: int
    topology: str
    """`topology_digest` of the graph."""
    digest: str
    """The graph's."""


def candidate(seed: int, *, name: str | None = None) -> ComputationGraph:
    """The graph of a seed: milliseconds, no filter.

    `random_graph` with its defaults, without weights (the paper's model knows tensors alone, Appendix A.1), running
    times rounded to nanoseconds, so that no machine's exponential function changes them.

    Args:
      seed: at least 0.
      name: the graph's name; by default family and seed.
    """
    rng = np.random.default_rng([SEED, seed])
    family = FAMILIES[seed % len(FAMILIES)]
    ops = round(SMALLEST * (LARGEST / SMALLEST) ** rng.random())
    graph = random_graph(rng, family, ops, name=name or f"{family}-{seed}")
    nanoseconds = np.round(graph.op_seconds * 1e9)
    return dataclasses.replace(
        graph,
        op_seconds=frozen_array([float(f"{int(each)}e-9") for each in nanoseconds], np.float64),
        op_flop=frozen_array(nanoseconds * 1e3, np.float64),
        op_weight_bytes=frozen_array(np.zeros(ops), np.int64),
        metadata=graph.metadata | {"seed": seed},
    )


def search_rng(seed: int) -> np.random.Generator:
    """The randomness of the search that judges a candidate."""
    return np.random.default_rng([SEED, seed, 1])


def outcomes(kept: int, journal: Path, *, progress: Callable[[int, int], None] | None = None) -> Iterator[Outcome]:
    """Candidates 0, 1, 2, ... until `kept` of them pass; about 25 minutes of one core for 12,000.

    Args:
      kept: how many are wanted.
      journal: a line per candidate goes to this file; what is in it is not judged again.
      progress: called with (kept so far, kept in all).
    """
    seen: set[str] = set()
    number = 0
    journal.parent.mkdir(parents=True, exist_ok=True)
    with open(journal, "a+b") as stream:
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
