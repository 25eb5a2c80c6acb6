"""Mapping: what was decided for every buffer of a program; the file ``learned-mapping/mapping/1``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from learned_mapping.drawn import DrawnOn
from learned_mapping.errors import InputError
from learned_mapping.mmap.rules.actions import DROP, NO_OFFSET
from learned_mapping.programs.graph import MAX_BYTES, frozen_array
from learned_mapping.programs.json_io import Node, expect_schema, read_json, write_json
from learned_mapping.programs.program import MAX_BUFFERS, Program

ACTION_WORDS = ("copy", "nocopy", "drop")
"""The actions as they stand in files, by code."""


@dataclass(frozen=True, eq=False)
class Mapping(DrawnOn):
    """Offsets O and intervals I of all buffers (section 4.1), and the actions that led to them (section 4.2).

    A dropped buffer has offset, start and end -1. An input placed by NoCopy holds what it adds to its tensor's
    allocation: the interval (e', t]; where the allocation reaches t anyway the interval is empty, written [t + 1, t].
    """

    action: np.ndarray
    """[B] int8: 0 Copy, 1 NoCopy, 2 Drop."""
    offset: np.ndarray
    """[B] int64, bytes from the start of fast memory; -1 for a buffer in HBM."""
    start: np.ndarray
    """[B] int32, first step of the buffer's allocation."""
    end: np.ndarray
    """[B] int32, last step of the buffer's allocation, included."""

    @property
    def placed(self) -> np.ndarray:
        """[B] bool: whether the buffer is in fast memory."""
        return self.action != DROP

    def __eq__(self, other: object) -> bool:
        names = ("action", "offset", "start", "end")
        return isinstance(other, Mapping) and all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)

    __hash__ = None


def make_mapping(
    program: Program, action: Any, offset: Any, start: Any, end: Any, source: object = "mapping"
) -> Mapping:
    """A mapping of the right shape for `program`; whether it obeys the rules is for `mmap.validate` to say.

    Raises:
      InputError: a length is not the program's number of buffers, or a value is outside its type's range.
    """
    arrays = {}
    limits = {"action": (0, 2), "offset": (-1, MAX_BYTES), "start": (-1, 2**31 - 2), "end": (-1, 2**31 - 2)}
    for name, values in (("action", action), ("offset", offset), ("start", start), ("end", end)):
        array = np.asarray(values)
        if array.shape != (program.num_buffers,):
            raise InputError(source, name, f"shape {array.shape}, expected ({program.num_buffers},)")
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise InputError(source, name, f"expected integers, got {array.dtype}")
        low, high = limits[name]
        wrong = np.flatnonzero((array < low) | (array > high))
        if len(wrong):
            raise InputError(source, f"{name}[{wrong[0]}]", f"{array[wrong[0]]} is outside [{low}, {high}]")
        arrays[name] = array
    return Mapping(
        action=frozen_array(arrays["action"], np.int8),
        offset=frozen_array(arrays["offset"], np.int64),
        start=frozen_array(arrays["start"], np.int32),
        end=frozen_array(arrays["end"], np.int32),
    ).on(program)


def all_dropped(program: Program) -> Mapping:
    """The mapping that leaves everything in HBM: valid for every program, return 0."""
    nothing = np.full(program.num_buffers, NO_OFFSET)
    return make_mapping(program, np.full(program.num_buffers, DROP), nothing, nothing, nothing)


def mapping_to_json(mapping: Mapping, program: Program) -> dict[str, Any]:
    """The JSON object of a mapping: the program it belongs to, and one decision per buffer in order."""
    decisions: list[dict[str, Any]] = []
    columns = (mapping.action.tolist(), mapping.offset.tolist(), mapping.start.tolist(), mapping.end.tolist())
    for action, offset, start, end in zip(*columns):
        decision: dict[str, Any] = {"action": ACTION_WORDS[action]}
        if action != DROP:
            decision |= {"offset": offset, "start": start, "end": end}
        decisions.append(decision)
    return {
        "schema": "learned-mapping/mapping/1",
        "instance": {"name": program.name, "digest": program.digest},
        "decisions": decisions,
    }


def mapping_from_json(node: Node, program: Program) -> Mapping:
    """The mapping a JSON value describes; raises `InputError` naming file and field."""
    expect_schema(node, "mapping")
    top = node.object(("schema", "instance", "decisions"))
    instance = top["instance"].object(("name", "digest"))
    name, digest = instance["name"].string(), instance["digest"].string()
    if digest != program.digest:
        top["instance"].fail(
            f"made for {name!r} with digest {digest[:12]}..., {program.name!r} has {program.digest[:12]}..."
        )
    decisions = top["decisions"].array(MAX_BUFFERS)
    if len(decisions) != program.num_buffers:
        top["decisions"].fail(f"{len(decisions)} decisions for {program.num_buffers} buffers")
    rows = np.full((program.num_buffers, 4), -1, np.int64)
    for i, item in enumerate(decisions):
        decision = item.object(("action",), ("offset", "start", "end"))
        action = ACTION_WORDS.index(decision["action"].choice(*ACTION_WORDS))
        rows[i, 0] = action
        if action == DROP:
            if len(decision) > 1:
                item.fail("a dropped buffer has no offset, start or end")
            continue
        for column, (field, high) in enumerate((("offset", MAX_BYTES), ("start", 2**31 - 2), ("end", 2**31 - 2)), 1):
            if field not in decision:
                item.fail(f"missing field {field!r}")
            rows[i, column] = decision[field].integer(0, high)
    return make_mapping(program, rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], node.source)


def read_mapping(path: str | os.PathLike, program: Program) -> Mapping:
    """Reads a mapping of `program`; raises `InputError` naming file and field."""
    return mapping_from_json(read_json(path), program)


def write_mapping(path: str | os.PathLike, mapping: Mapping, program: Program) -> None:
    """Writes a mapping file, whole or not at all."""
    write_json(path, mapping_to_json(mapping, program))
