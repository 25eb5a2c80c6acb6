"""The set ``regal-synthetic``: 12,000 generated graphs that leave a search room, as in paper 3's released set.

`regal_candidates` generates, `regal_room` filters; what is stored are the seeds that passed. A graph is made anew from
its seed in milliseconds, without the filter; the test part is stored as files too.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from learned_mapping.companion.datasets import regal_room
from learned_mapping.companion.datasets.manifest import SPLITS, Item, Manifest, file_sha256
from learned_mapping.companion.datasets.regal_candidates import (
    FAMILIES,
    LARGEST,
    SAME_TOPOLOGY,
    SEED,
    SMALLEST,
    Outcome,
    candidate,
    outcomes,
)
from learned_mapping.compiled import code_digest
from learned_mapping.errors import InputError
from learned_mapping.folders import build_folder, data_folder
from learned_mapping.programs.formats import write_graph
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import read_json, write_json

NAME = "regal-synthetic"
FOLDER = "regal/synthetic"
"""Relative to the data folder."""
ABOUT = "Generated graphs that leave BRKGA room for improvement, for paper 3: stored as seeds, the test part as files."
COUNTS: Mapping[str, int] = MappingProxyType({"train": 10_000, "validation": 1_000, "test": 1_000})
"""Graphs by split, as in the authors' release; candidates that pass fill the splits in this order."""
ACCEPTED = "accepted.json.gz"
SHORT = 16
"""Hexadecimal digits of a digest in `ACCEPTED`."""


class Accepted(NamedTuple):
    """A graph of the set, without the graph."""

    seed: int
    family: str
    ops: int
    condition: str
    """`regal_room.FITS` or `regal_room.FASTER`."""
    digest: str
    """The first `SHORT` digits of the graph's."""


def generate(split: str, index: int) -> ComputationGraph:
    """A graph of the set, from its seed.

    Args:
      split: ``train``, ``validation`` or ``test``.
      index: from 0.

    Raises:
      InputError: there is no such graph, the stored seeds are damaged, or the generator does not make the graph that
        passed the filter.
    """
    rows = accepted(split)
    if not 0 <= index < len(rows):
        raise InputError("index", "", f"{index} is outside [0, {len(rows) - 1}]")
    graph = candidate(rows[index].seed, name=graph_name(split, index))
    if graph.digest[:SHORT] != rows[index].digest:
        raise InputError(
            f"set {NAME}",
            graph.name,
            f"digest {graph.digest[:SHORT]}, expected {rows[index].digest}: another generator",
        )
    return graph


def graph_name(split: str, index: int) -> str:
    """The name of a graph in the manifest."""
    return f"{split}-{index:04d}"


def accepted(split: str) -> tuple[Accepted, ...]:
    """What is stored of a split, in order; raises `InputError` for an unknown split or a damaged file."""
    if split not in SPLITS:
        raise InputError("split", "", f"expected one of {', '.join(SPLITS)}, got {split!r}")
    return _read(data_folder() / FOLDER / ACCEPTED)[split]


@functools.lru_cache(maxsize=4)
def _read(path: Path) -> dict[str, tuple[Accepted, ...]]:
    node = read_json(path, "accepted")
    top = node.object(("schema", "columns", *SPLITS))
    if top["columns"].value != list(Accepted._fields):
        top["columns"].fail(f"expected {', '.join(Accepted._fields)}")
    found = {}
    for split in SPLITS:
        rows = []
        for row in top[split].array(1_000_000):
            cells = row.array(len(Accepted._fields))
            if len(cells) != len(Accepted._fields):
                row.fail(f"{len(cells)} entries, expected {len(Accepted._fields)}")
            seed, family, ops, condition, digest = cells
            rows.append(
                Accepted(
                    seed.integer(0, 2**31), family.choice(*FAMILIES), ops.integer(1, 100_000),
                    condition.choice(*regal_room.KEPT), digest.string(SHORT),
                )
            )  # fmt: skip
        found[split] = tuple(rows)
    return found


def build(folder: Path, *, progress: Callable[[int, int], None] | None = None) -> Manifest:
    """Generates and filters candidates until the set is full, and writes it: about 25 minutes of one core.

    The verdicts go to a journal in the build folder as they come: an interrupted build goes on where it stopped, and
    one after a change of the code the verdicts rest on starts anew.
    """
    journal = build_folder() / NAME / f"{code_digest()}.jsonl"
    judged = list(outcomes(sum(COUNTS.values()), journal, progress=progress))
    return write(Path(folder), judged, COUNTS)


def write(folder: Path, judged: list[Outcome], counts: Mapping[str, int]) -> Manifest:
    """Writes the set of the candidates that passed.

    Args:
      folder: the set's.
      judged: all candidates up to the last that is needed, in order of their seeds.
      counts: graphs by split.
    """
    kept = [each for each in judged if each.outcome in regal_room.KEPT]
    items: list[Item] = []
    stored: dict[str, Any] = {"schema": "learned-mapping/accepted/1", "columns": list(Accepted._fields)}
    for split in SPLITS:
        start = len(items)
        part = kept[start : start + counts[split]]
        stored[split] = [[o.seed, _family(o), o.ops, o.outcome, o.digest[:SHORT]] for o in part]
        for index, outcome in enumerate(part):
            name, file, sha256 = graph_name(split, index), None, None
            if split == "test":
                file = f"test/{index:04d}.json.gz"
                write_graph(folder / file, candidate(outcome.seed, name=name))
                sha256 = file_sha256(folder / file)
            facts = {"family": _family(outcome), "ops": outcome.ops, "edges": outcome.edges}
            items.append(Item(name, outcome.digest, split, file, sha256, facts))
    write_json(folder / ACCEPTED, stored)
    _read.cache_clear()
    facts = _facts(judged, counts) | {"accepted_file": ACCEPTED, "accepted_sha256": file_sha256(folder / ACCEPTED)}
    return Manifest(NAME, ABOUT, SEED, tuple(items), facts)


def _family(outcome: Outcome) -> str:
    return FAMILIES[outcome.seed % len(FAMILIES)]


def _facts(judged: list[Outcome], counts: Mapping[str, int]) -> dict[str, Any]:
    """The filter and what it did, by family."""
    what = (*regal_room.KEPT, regal_room.NO_ROOM, regal_room.TOO_LARGE, SAME_TOPOLOGY)
    tally = Counter((_family(each), each.outcome) for each in judged)
    table = {family: {outcome: tally[family, outcome] for outcome in what} for family in FAMILIES}
    table["all"] = {outcome: sum(row[outcome] for row in table.values()) for outcome in what}
    for row in table.values():
        total = sum(row.values())
        row["candidates"] = total
        row["kept_percent"] = round(100 * sum(row[condition] for condition in regal_room.KEPT) / max(total, 1), 1)
    return {
        "graphs": dict(counts),
        "ops_smallest": SMALLEST,
        "ops_largest": LARGEST,
        "low_evaluations": regal_room.LOW_EVALUATIONS,
        "high_evaluations": regal_room.HIGH_EVALUATIONS,
        "runtime_ratio_at_most": regal_room.RUNTIME_RATIO,
        "memory_share": regal_room.MEMORY_SHARE,
        "brkga": dict(vars(regal_room.PARAMETERS)),
        "candidates_by_family": table,
    }
