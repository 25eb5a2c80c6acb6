"""The set ``regal-synthetic`` of paper 3: generated graphs, made anew from the stored seeds in
milliseconds each."""

import dataclasses
import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph, frozen_array
from learned_mapping.programs.json_io import read_json
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping_companion.datasets.manifest import SPLITS
from learned_mapping_companion.datasets.registry import SETS

SEED = 2019  # First entry of every seed of the set.
FAMILIES = tuple(sorted(GRAPH_FAMILIES))  # Candidates take them in turn.
SMALLEST, LARGEST = 20, 120  # Ops of a candidate, uniform in the logarithm.
FITS, FASTER = "fits", "faster"
"""Conditions that keep a candidate: a long search alone fits the memory; both a short and a long
one fit, and the long one is faster by 20%."""
ACCEPTED = "accepted.json.gz"
SHORT = 16
"""Hexadecimal digits of a digest in `ACCEPTED`."""


class Accepted(NamedTuple):
    """A graph of the set, without the graph."""

    seed: int
    family: str
    ops: int
    condition: str  # `FITS` or `FASTER`.
    digest: str  # The first `SHORT` digits of the graph's.


def candidate(seed: int, *, name: str | None = None) -> ComputationGraph:
    """The graph of a seed of at least 0, which may have passed the filter or not.

    `random_graph` with its defaults, without weights (the paper's model knows tensors alone,
    Appendix A.1), running times rounded to nanoseconds, so that no machine's exponential function
    changes them.
    """
    rng = np.random.default_rng([SEED, seed])
    family = FAMILIES[seed % len(FAMILIES)]
    ops = round(SMALLEST * (LARGEST / SMALLEST) ** rng.random())
    graph = random_graph(rng, family, ops, name=name or f"{family}-{seed}")
    nanoseconds = np.round(graph.op_seconds * 1e9)
    return dataclasses.replace(
        graph,
        op_seconds=frozen_array([float(f"{int(value)}e-9") for value in nanoseconds], np.float64),
        op_flop=frozen_array(nanoseconds * 1e3, np.float64),
        op_weight_bytes=frozen_array(np.zeros(ops), np.int64),
        metadata=graph.metadata | {"seed": seed},
    )


def generate(split: str, index: int) -> ComputationGraph:
    """A graph of a split, by its index from 0, made from its seed.

    Raises:
      InputError: there is no such graph, the stored seeds are damaged, or the generator does not
        make the graph that passed the filter.
    """
    rows = accepted(split)
    if not 0 <= index < len(rows):
        raise InputError("index", "", f"{index} is outside [0, {len(rows) - 1}]")
    graph, expected = candidate(rows[index].seed, name=graph_name(split, index)), rows[index].digest
    if graph.digest[:SHORT] != expected:
        fault = f"digest {graph.digest[:SHORT]}, expected {expected}: another generator"
        raise InputError("set regal-synthetic", graph.name, fault)
    return graph


def graph_name(split: str, index: int) -> str:
    """The name of a graph in the manifest."""
    return f"{split}-{index:04d}"


def accepted(split: str) -> tuple[Accepted, ...]:
    """What is stored of a split, in order; raises `InputError` for an unknown split or a damaged
    file."""
    if split not in SPLITS:
        raise InputError("split", "", f"expected one of {', '.join(SPLITS)}, got {split!r}")
    return read_accepted(SETS["regal-synthetic"].path / ACCEPTED)[split]


@functools.lru_cache(maxsize=4)
def read_accepted(path: Path) -> dict[str, tuple[Accepted, ...]]:
    """Split -> its rows; raises `InputError` for a damaged file."""
    top = read_json(path, "accepted").object(("schema", "columns", *SPLITS))
    if top["columns"].value != list(Accepted._fields):
        top["columns"].fail(f"expected {', '.join(Accepted._fields)}")
    rows_of_split = {}
    for split in SPLITS:
        rows = []
        for row in top[split].elements(1_000_000):
            cells = row.elements(len(Accepted._fields))
            if len(cells) != len(Accepted._fields):
                row.fail(f"{len(cells)} entries, expected {len(Accepted._fields)}")
            seed, family, ops, condition, digest = cells
            rows.append(
                Accepted(
                    seed.integer(0, 2**31), family.choice(*FAMILIES), ops.integer(1, 100_000),
                    condition.choice(FITS, FASTER), digest.string(SHORT),
                )
            )  # fmt: skip
        rows_of_split[split] = tuple(rows)
    return rows_of_split
