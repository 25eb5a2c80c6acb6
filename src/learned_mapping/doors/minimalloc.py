"""The files of MiniMalloc: buffers with given lifetimes, as a program whose buffers are worth their
bytes.

A CSV has a line for each buffer, ``id,lower,upper,size`` and if need be ``alignment`` and ``gaps``:
held over the times [lower, upper), so many bytes, except in the gaps, where others may lie. What is
read is stricter: all have the alignment that is a multiple of each, and none has a gap. The
capacity stands in the file's name,
``NAME.CAPACITY.csv``. A solution has a column ``offset`` more and a line for each buffer that is in
fast memory.
"""

import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from learned_mapping.errors import InputError, shown
from learned_mapping.programs.graph import MAX_BYTES
from learned_mapping.programs.json_io import MAX_NAME, read_bytes, utf8_text
from learned_mapping.programs.program import (
    MAX_INSTRUCTIONS,
    NO_ALIAS,
    Program,
    Step,
    program_of_steps,
)

ENDINGS = (".csv", ".csv.gz")
MAX_TIME = 10**15
LONGEST = MAX_NAME - len("make ")  # An instruction has the name of what it makes.
SECONDS_PER_BYTE = 1e-12
"""The saving of a byte in fast memory; a mapping's return is the share of the bytes that it places,
up to rounding."""
LASTS = 1e6  # Beside times that are longer yet a saving of some bytes would be lost to rounding.
SYNONYMS = {"begin": "lower", "start": "lower", "end": "upper", "buffer": "id", "buffer_id": "id"}
GAPS = re.compile(r"-?\d{1,18}--?\d{1,18}(@[\d:]+)?(\s+-?\d{1,18}--?\d{1,18}(@[\d:]+)?)*", re.ASCII)
REQUIRED, OPTIONAL = ("id", "lower", "upper", "size"), ("alignment", "hint", "gaps", "offset")


class Row(NamedTuple):
    """A buffer: held over the times [lower, upper), so many bytes, at an offset or None."""

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1
    offset: int | None = None
    gaps: str = ""


def capacity_of(path: str | os.PathLike) -> int:
    """Bytes of fast memory by a file's name; raises `InputError` where it does not say."""
    match = re.search(r"\.(\d{1,18})\.csv(\.gz)?$", Path(path).name, re.ASCII)
    if match is None or not 0 < int(match[1]) <= MAX_BYTES:
        fault = (
            f"the capacity stands before the ending, 1 to {MAX_BYTES} bytes, as in NAME.1048576.csv"
        )
        raise InputError(path, "file name", fault)
    return int(match[1])


def read_rows(path: str | os.PathLike, *, placed: bool = False) -> list[Row]:
    """The buffers of a file, in its order; raises `InputError` naming file, line and column.

    Args:
      placed: a solution, which has to have an offset in every line; else offsets that are there are
        not looked at.
    """
    lines = [line.removesuffix("\r") for line in utf8_text(read_bytes(path), path).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise InputError(path, "", "is empty")
    named = [name.strip() for name in lines[0].split(",")]
    head = [SYNONYMS.get(name, name) for name in named]
    for name in REQUIRED + ("offset",) * placed:
        if name not in head:
            raise InputError(
                path,
                "line 1",
                f"no column {name!r}, expected {','.join(REQUIRED)}[,alignment][,offset]",
            )
    for i, name in enumerate(head):
        if name in head[:i] or name not in REQUIRED + OPTIONAL:
            fault = "stands there twice" if name in head[:i] else "is not known"
            raise InputError(path, "line 1", f"column {shown(name)!r} {fault}")
    if len(lines) - 1 > MAX_INSTRUCTIONS // 2:
        raise InputError(
            path, "", f"{len(lines) - 1} buffers, at most {MAX_INSTRUCTIONS // 2} are supported"
        )
    # a column of this name holds the last time, upper the one after it
    closed = int("end" in named)
    rows: list[Row] = []
    lines_of: dict[str, int] = {}
    for number, line in enumerate(lines[1:], 2):
        where, cells = f"line {number}", [cell.strip() for cell in line.split(",")]
        if len(cells) != len(head):
            raise InputError(path, where, f"{len(cells)} cells, the head has {len(head)}")
        cell = dict(zip(head, cells))
        gaps = cell.get("gaps", "")
        if gaps and GAPS.fullmatch(gaps) is None:
            fault = f"expected times such as 3-5 with spaces between, got {shown(gaps)!r}"
            raise InputError(path, f"{where}: gaps", fault)
        name = cell["id"]
        if not 0 < len(name) <= LONGEST or not name.isprintable():
            raise InputError(path, f"{where}: id", f"expected 1 to {LONGEST} printable characters")
        if name in lines_of:
            raise InputError(
                path, f"{where}: id", f"{shown(name)!r} is that of line {lines_of[name]} too"
            )
        lines_of[name] = number

        def whole(column: str, low: int, high: int, cell=cell, where=where) -> int:
            text = cell[column]
            if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) is None or not low <= int(text) <= high:
                fault = f"expected a whole number from {low} to {high}, got {shown(text)!r}"
                raise InputError(path, f"{where}: {column}", fault)
            return int(text)

        lower, upper = (
            whole("lower", -MAX_TIME, MAX_TIME),
            whole("upper", -MAX_TIME, MAX_TIME) + closed,
        )
        if upper <= lower:
            raise InputError(path, f"{where}: upper", f"{upper} is not after lower, {lower}")
        alignment = whole("alignment", 1, MAX_BYTES) if "alignment" in cell else 1
        offset = whole("offset", 0, MAX_BYTES) if placed else None
        size = whole("size", 1, MAX_BYTES)
        rows.append(Row(name, lower, upper, size, alignment, offset, gaps))
    return rows


def shared_alignment(rows: Iterable[Row]) -> int:
    """The least number of bytes that is a multiple of every buffer's alignment."""
    return math.lcm(*{row.alignment for row in rows})


def read_minimalloc(path: str | os.PathLike) -> Program:
    """The program of a file: an instruction that makes each buffer, and one that uses it last.

    All times together last a second, or `LASTS` times the possible saving where that is less.
    Nothing can be copied, and a buffer in fast memory saves `SECONDS_PER_BYTE` for each byte, half
    of it where it is made and half at its last use. With an alignment, sizes are rounded up and the
    capacity down to its multiples. ``metadata["buffers"]`` are the file's `Row`s.
    """
    capacity, rows = capacity_of(path), read_rows(path)
    if not rows:
        raise InputError(path, "", "holds no buffers")
    unit = shared_alignment(rows)
    if capacity < unit:
        raise InputError(
            path, "file name", f"a capacity of {capacity} bytes is less than the alignment {unit}"
        )
    sizes = [-(-row.size // unit) * unit for row in rows]
    ends = [(row.upper, 0, i) for i, row in enumerate(rows)]
    starts = [(row.lower, 1, i) for i, row in enumerate(rows)]
    events = sorted(ends + starts)
    lasts_s = min(1.0, LASTS * SECONDS_PER_BYTE * sum(sizes))
    steps, unit_s = [], lasts_s / (events[-1][0] - events[0][0])
    for (time, starting, i), after in zip(events, [*events[1:], events[-1]]):
        buffer, lasts_s = [(i, bool(starting), NO_ALIAS)], (after[0] - time) * unit_s
        saves_s = 0.5 * SECONDS_PER_BYTE * sizes[i]
        verb = "make" if starting else "use"
        steps.append(Step(f"{verb} {rows[i].id}", verb, buffer, [0], [lasts_s + saves_s, lasts_s]))
    return program_of_steps(
        steps,
        name=re.sub(r"\.\d+\.csv(\.gz)?$", "", Path(path).name) or "buffers",
        fast_bytes=capacity // unit * unit,
        copy_bytes_per_s=1e-9,
        tensor_names=[row.id for row in rows],
        tensor_bytes=sizes,
        tensor_is_parameter=[False] * len(rows),
        tensor_is_output=[False] * len(rows),
        metadata={"buffers": tuple(rows)} | _stricter(rows),
        source=path,
    )


def _stricter(rows: Sequence[Row]) -> dict[str, int]:
    """What metadata say where the program asks for more than the file: how many buffers are held
    through gaps, and how many have an alignment that others' makes larger."""
    unit = shared_alignment(rows)
    counted = {
        "held_through_gaps": sum(bool(row.gaps) for row in rows),
        "aligned_as_others": sum(row.alignment != unit for row in rows),
    }
    return {fact: count for fact, count in counted.items() if count}


def offsets_csv(path: str | os.PathLike, offsets: dict[str, int]) -> str:
    """The text of a solution of the file `path`: its lines of the buffers in `offsets`, with their
    offsets in bytes."""
    rows = read_rows(path)
    aligned = any(row.alignment != 1 for row in rows)
    lines = [[*REQUIRED, *["alignment"] * aligned, "offset"]]
    for row in rows:
        if row.id in offsets:
            numbers = [row.lower, row.upper, row.size, *[row.alignment] * aligned, offsets[row.id]]
            lines.append([row.id, *map(str, numbers)])
    return "".join(",".join(line) + "\n" for line in lines)
