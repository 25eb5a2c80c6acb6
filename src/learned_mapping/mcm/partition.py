"""Partition: which chip runs each op, and its file ``learned-mapping/partition/1``."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from learned_mapping.drawn import DrawnOn
from learned_mapping.errors import InputError, expect_whole
from learned_mapping.hardware.chip_package import MAX_CHIPS
from learned_mapping.programs.formats import placed_ops
from learned_mapping.programs.graph import ComputationGraph, whole_array
from learned_mapping.programs.json_io import read_json


@dataclass(frozen=True, eq=False)
class Partition(DrawnOn):
    """The function f of paper 2: V -> {0, ..., C - 1}. It may break the rules; `mcm.validate` says
    whether it does.

    Raises:
      InputError: the chips of the ops are no integers of 32 bits, or the number of chips is none.
    """

    assignment: np.ndarray  # [N] int32 chip of each op, in the graph's order.
    chips: int  # C, the number of chips there are.

    def __post_init__(self):
        object.__setattr__(
            self, "assignment", whole_array(self.assignment, "partition", "assignment", np.int32)
        )
        object.__setattr__(
            self, "chips", expect_whole(self.chips, "partition", "chips", 1, MAX_CHIPS)
        )

    @property
    def chips_used(self) -> int:
        return len(np.unique(self.assignment))


def make_partition(assignment: Any, chips: int) -> Partition:
    """A partition of N chip ids; raises `InputError` where one is not in 0..chips-1, or no
    integer."""
    partition = Partition(assignment, chips)
    array = partition.assignment
    bad = np.flatnonzero((array < 0) | (array >= chips))
    if len(bad):
        raise InputError(
            "partition", f"assignment[{bad[0]}]", f"{array[bad[0]]} is outside [0, {chips - 1}]"
        )
    return partition


def partition_to_json(partition: Partition, graph: ComputationGraph) -> dict[str, Any]:
    """The JSON object of a partition of `graph`."""
    return {
        "schema": "learned-mapping/partition/1",
        "graph": graph.name,
        "digest": graph.digest,
        "chips": partition.chips,
        "assignment": {name: int(chip) for name, chip in zip(graph.op_names, partition.assignment)},
    }


def read_partition(path: str | os.PathLike, graph: ComputationGraph) -> Partition:
    """Reads a partition of `graph`; raises `InputError` naming file and field."""
    fields = ("schema", "graph", "digest", "chips", "assignment")
    top = read_json(path, "partition").object(fields, ("made",))
    chips = top["chips"].integer(1, MAX_CHIPS)
    return make_partition(placed_ops(top, graph, "assignment", chips), chips).on(graph)
