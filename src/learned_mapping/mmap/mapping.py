"""Mapping: what was decided for every buffer of a program; the file
``learned-mapping/mapping/1``."""

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from learned_mapping.doors.minimalloc import ENDINGS, read_rows, shared_alignment
from learned_mapping.drawn import DrawnOn
from learned_mapping.errors import InputError, expect_type, shown
from learned_mapping.hardware.memory_hierarchy import placed_latency_s
from learned_mapping.mmap.rules.actions import DROP, NO_COPY, NO_OFFSET
from learned_mapping.programs.graph import MAX_BYTES, whole_array
from learned_mapping.programs.json_io import Node, expect_schema, read_json, write_json
from learned_mapping.programs.program import MAX_BUFFERS, Program

ACTION_WORDS = ("copy", "nocopy", "drop")  # The actions as they stand in files, by code.
MAX_STEP = 2**31 - 2
_FIELDS = (
    ("action", 0, 2, np.int8),
    ("offset", -1, MAX_BYTES, np.int64),
    ("start", -1, MAX_STEP, np.int32),
    ("end", -1, MAX_STEP, np.int32),
)


@dataclass(frozen=True, eq=False)
class Mapping(DrawnOn):
    """Offsets O and intervals I of all buffers (section 4.1), and the actions that led to them
    (section 4.2).

    A dropped buffer has offset, start and end -1. An input placed by NoCopy holds what it adds to
    its tensor's allocation: the interval (e', t]; where the allocation reaches t anyway the
    interval is empty, written [t + 1, t].

    Raises:
      InputError: a column is no integers of its type.
    """

    action: np.ndarray  # [B] int8: 0 Copy, 1 NoCopy, 2 Drop.
    offset: np.ndarray  # [B] int64, bytes from the start of fast memory; -1 for a buffer in HBM.
    start: np.ndarray  # [B] int32, first step of the buffer's allocation.
    end: np.ndarray  # [B] int32, last step of the buffer's allocation, included.

    def __post_init__(self):
        for name, _, _, kind in _FIELDS:
            object.__setattr__(self, name, whole_array(getattr(self, name), "mapping", name, kind))

    @property
    def placed(self) -> np.ndarray:
        """[B] bool: whether the buffer is in fast memory."""
        return self.action != DROP


def make_mapping(
    program: Program, action: Any, offset: Any, start: Any, end: Any, source: object = "mapping"
) -> Mapping:
    """A mapping of the right shape for `program`; whether it obeys the rules is for `mmap.validate`
    to say.

    Raises:
      InputError: a length is not the program's number of buffers, or a value is outside its type's
        range.
    """
    expect_type(program, Program, "program")
    mapping = Mapping(action, offset, start, end)
    for name, low, high, _ in _FIELDS:
        array = getattr(mapping, name)
        if array.shape != (program.num_buffers,):
            raise InputError(
                source, name, f"shape {array.shape}, expected ({program.num_buffers},)"
            )
        wrong = np.flatnonzero((array < low) | (array > high))
        if len(wrong):
            raise InputError(
                source, f"{name}[{wrong[0]}]", f"{array[wrong[0]]} is outside [{low}, {high}]"
            )
    return mapping.on(program)


def all_dropped(program: Program) -> Mapping:
    """The mapping that leaves everything in HBM: valid for every program, return 0."""
    nothing = np.full(program.num_buffers, NO_OFFSET)
    return make_mapping(program, np.full(program.num_buffers, DROP), nothing, nothing, nothing)


def claimed_share(program: Program, mapping: Mapping) -> float:
    """The saving of the instructions if every placed buffer is in fast memory when they run, valid
    or not: the sum of L_I({}) - L_I(S) as a share of the possible saving."""
    possible = program.possible_saving_s
    # Instruction by instruction, as the possible saving is summed: what is at most as much each is
    # so in all.
    saving = float(np.sum(program.slow_s - placed_latency_s(program, mapping.placed)))
    return saving / possible if possible > 0 else 0.0


def mapping_to_json(mapping: Mapping, program: Program) -> dict[str, Any]:
    """The JSON object of a mapping: the program it belongs to, and one decision per buffer in
    order."""
    decisions: list[dict[str, Any]] = []
    for action, *placed in zip(*(getattr(mapping, name).tolist() for name, *_ in _FIELDS)):
        where = {} if action == DROP else dict(zip(("offset", "start", "end"), placed))
        decisions.append({"action": ACTION_WORDS[action]} | where)
    return {
        "schema": "learned-mapping/mapping/1",
        "instance": {"name": program.name, "digest": program.digest},
        "decisions": decisions,
    }


def mapping_from_json(node: Node, program: Program) -> Mapping:
    """The mapping a JSON value describes; raises `InputError` naming file and field."""
    expect_schema(node, "mapping")
    top = node.object(("schema", "instance", "decisions"), ("made",))
    instance = top["instance"].object(("name", "digest"))
    name, digest = instance["name"].name(), instance["digest"].string()
    if digest != program.digest:
        top["instance"].fail(
            f"made for {name!r} with digest {digest[:12]}..., {program.name!r} has"
            f" {program.digest[:12]}..."
        )
    decisions = top["decisions"].elements(MAX_BUFFERS)
    if len(decisions) != program.num_buffers:
        top["decisions"].fail(f"{len(decisions)} decisions for {program.num_buffers} buffers")
    rows = np.full((program.num_buffers, 4), -1, np.int64)
    for i, item in enumerate(decisions):
        decision = item.object(("action",), ("offset", "start", "end"))
        rows[i, 0] = ACTION_WORDS.index(decision["action"].choice(*ACTION_WORDS))
        if rows[i, 0] == DROP:
            if len(decision) > 1:
                item.fail("a dropped buffer has no offset, start or end")
            continue
        for column, (field, _, high, _) in enumerate(_FIELDS[1:], 1):
            if field not in decision:
                item.fail(f"missing field {field!r}")
            rows[i, column] = decision[field].integer(0, high)
    action, offset, start, end = rows.T
    return make_mapping(program, action, offset, start, end, node.source)


def offsets_of(program: Program, mapping: Mapping) -> dict[str, int]:
    """Name -> offset in bytes of the tensors that are in fast memory from their making on."""
    outputs = np.flatnonzero(program.buffer_is_output & mapping.placed)
    return {
        program.tensor_names[program.buffer_tensor[b]]: int(mapping.offset[b])
        for b in outputs.tolist()
    }


def mapping_of_offsets(path: str | os.PathLike, program: Program) -> Mapping:
    """The mapping of a program of MiniMalloc that a solution's CSV describes; raises `InputError`
    naming the line."""
    tensors, buffers = (
        {name: n for n, name in enumerate(program.tensor_names)},
        program.metadata.get("buffers"),
    )
    # in JSON no tuples are
    buffers = {buffer.id: buffer for buffer in buffers} if isinstance(buffers, tuple) else {}
    shared = shared_alignment(buffers.values())
    offset = np.full(program.num_tensors, NO_OFFSET)
    for number, row in enumerate(read_rows(path, placed=True), 2):
        n = tensors.get(row.id)
        if n is None:
            raise InputError(
                path, f"line {number}: id", f"{program.name} has no buffer {shown(row.id)!r}"
            )
        buffer = buffers.get(row.id, row)
        if row[1:3] != buffer[1:3]:
            fault = (
                f"{row.lower} to {row.upper}, in {program.name} the buffer lives {buffer.lower} to"
                f" {buffer.upper}"
            )
            raise InputError(path, f"line {number}: lower", fault)
        unit = math.lcm(row.alignment, shared)
        assert row.offset is not None
        if row.offset % unit:
            raise InputError(
                path,
                f"line {number}: offset",
                f"{row.offset} is no multiple of the alignment {unit}",
            )
        size = -(-row.size // unit) * unit
        if size != program.tensor_bytes[n]:
            fault = f"{row.size}, in {program.name} the buffer has {program.tensor_bytes[n]} bytes"
            raise InputError(path, f"line {number}: size", fault)
        offset[n] = row.offset
    return mapping_at(program, offset, path)


def mapping_at(program: Program, offset: np.ndarray, source: object = "mapping") -> Mapping:
    """The mapping that holds each tensor from its making to its last use at an offset [N] in bytes,
    `NO_OFFSET` for none, without a copy."""
    at, step = offset[program.buffer_tensor], program.buffer_instruction
    placed, is_output = at != NO_OFFSET, program.buffer_is_output
    start = np.where(is_output, step, step + 1)
    end = np.where(is_output, program.tensor_live[program.buffer_tensor, 1], step)
    start, end = np.where(placed, start, -1), np.where(placed, end, -1)
    return make_mapping(program, np.where(placed, NO_COPY, DROP), at, start, end, source)


def read_mapping(path: str | os.PathLike, program: Program) -> Mapping:
    """Reads a mapping of `program`, of one that came as CSV also as CSV; raises `InputError` naming
    file and field."""
    if str(path).endswith(ENDINGS):
        return mapping_of_offsets(path, program)
    return mapping_from_json(read_json(path), program)


def write_mapping(path: str | os.PathLike, mapping: Mapping, program: Program) -> None:
    """Writes a mapping file, whole or not at all."""
    write_json(path, mapping_to_json(mapping, program))
