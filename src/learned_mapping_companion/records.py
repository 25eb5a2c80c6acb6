"""Records of runs: JSON lines, one file an artifact; each is on the disk before the next run
starts.

Of two lines with one digest the later counts. A line that was cut off, or is no record, counts as a
run not yet done. Every change of a file holds a lock on its folder, so that two processes may write
records of one artifact.
"""

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import (
    expect_schema,
    locked,
    parse_json,
    read_bytes,
    write_bytes,
)
from learned_mapping_companion.artifact import RUN, Run

SCHEMA = "learned-mapping/run/1"
Record = dict[str, Any]


def task_of(run: Run) -> Record:
    """A run as JSON: what a worker takes, and what its record says of it."""
    return {name: getattr(run, name) for name in RUN}


def record_of(run: Run, outcome: Record, fingerprint: str) -> Record:
    """The record of a finished run: the outcome of `worker.perform`, the method's fingerprint."""
    head = {"schema": SCHEMA, **task_of(run), "digest": run.digest, "fingerprint": fingerprint}
    head |= {"seconds": round(outcome["seconds"], 4), "peak_bytes": int(outcome["peak_bytes"])}
    head |= {name: outcome[name] for name in ("cpu", "rate") if name in outcome}
    return head | {"result": outcome["result"]}


def parse_record(line: bytes, source: object) -> Record:
    """The record in a line; raises `InputError` where the line is none, or its digest is another
    run's."""
    node = parse_json(line, source)
    expect_schema(node, "run")
    record = node.value
    try:
        if Run(*(record[name] for name in RUN)).digest != record["digest"]:
            raise InputError(source, "digest", f"{record['digest']!r} is another run's")
        whole = (
            isinstance(record["result"], dict)
            and record["result"]
            and isinstance(record["fingerprint"], str)
        )
        if not (whole and record["seconds"] >= 0 and record["peak_bytes"] >= 0):
            raise InputError(source, "result", "is not that of a whole run")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            source, "", f"is no record of a run ({type(error).__name__}: {error})"
        ) from None
    return record


def read_records(path: str | os.PathLike) -> dict[str, Record]:
    """Digest -> record, of every whole record of a file, not to be changed; none without a file."""
    path = Path(path)
    if not path.exists():
        return {}
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size, state.st_ino)


@functools.lru_cache(maxsize=8)
def _read(path: Path, *state: int) -> dict[str, Record]:
    records = {}
    for line in read_bytes(path).splitlines():
        try:
            record = parse_record(line, path)
        except InputError:
            continue
        records[record["digest"]] = record
    return records


def faults(path: str | os.PathLike) -> Iterator[InputError]:
    """The faults of a file's lines."""
    for number, line in enumerate(read_bytes(path).splitlines(), 1):
        try:
            parse_record(line, path)
        except InputError as error:
            yield InputError(
                path, f"line {number}{', ' * bool(error.field)}{error.field}", error.fault
            )


def read_record(path: str | os.PathLike, run: Run) -> Record | None:
    """The record of a run; None where there is none."""
    return read_records(path).get(run.digest)


def tidy_records(path: str | os.PathLike) -> None:
    """Rewrites a file as it would be had it been written at once: each run's last record, in the
    order of digests."""
    path = Path(path)
    if not path.exists():
        return
    with locked(path.parent):
        records = read_records(path)
        lines = (
            json.dumps(records[key], separators=(",", ":"), ensure_ascii=False)
            for key in sorted(records)
        )
        write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
