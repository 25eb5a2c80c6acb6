"""Reading JSON from strangers and writing files whole or not at all."""

import fcntl
import json
import os
import socket
import subprocess
import sys

import pytest

from learned_mapping.doors.costgraph import parse_costgraph
from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import (
    HALF,
    Node,
    check_writable,
    parse_json,
    read_json,
    write_bytes,
    write_json,
)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    """Would catch a write that truncates the target before it knows that it can finish."""
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_link_stays_and_the_file_that_it_names_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "there" / "result.json")
    for value in ({"a": 1}, {"a": 2}):
        write_json(tmp_path / "link.json", value)
        assert json.loads((tmp_path / "there" / "result.json").read_text()) == value
    assert (tmp_path / "link.json").is_symlink()


def test_unwritable_places_are_input_errors(tmp_path):
    """Would catch a traceback for an output path that is a folder or lies under a file."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "out.json", tmp_path / "folder"):
        with pytest.raises(InputError):
            write_bytes(path, b"x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_written_files_have_usual_permissions(tmp_path):
    """Would catch files that only their owner can read, the default of temporary files."""
    umask = os.umask(0o022)
    try:
        write_bytes(tmp_path / "x", b"")
    finally:
        os.umask(umask)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644


def test_nodes_say_where_they_stand():
    """Would catch an accessor that accepts a neighbouring type, or loses its place."""
    top = parse_json(b'{"a": [1, {"b": 2.5}], "c": true}', "f").object(("a", "c"))
    item = top["a"].elements(2)[1].object(("b",))["b"]
    assert item.number(0, 3) == 2.5 and item.field == "a[1].b"
    for attempt in (
        lambda: item.integer(0, 3),
        lambda: item.number(0, 2),
        lambda: item.string(),
        lambda: item.boolean(),
        lambda: item.elements(1),
        lambda: item.choice("x"),
        lambda: item.metadata(),
        lambda: item.mapping(1),
        lambda: top["c"].integer(0, 1),
        lambda: top["c"].number(0, 1),
        lambda: top["a"].elements(1),
    ):
        with pytest.raises(InputError):
            attempt()


def test_schema_is_checked(tmp_path):
    """Would catch a file of one kind read as another."""
    path = tmp_path / "x.json"
    path.write_text('{"schema": "learned-mapping/mapping/1"}')
    assert read_json(path, "mapping").value
    with pytest.raises(InputError, match="learned-mapping/graph/1"):
        read_json(path, "graph")


def test_long_values_are_shortened():
    """Would catch a message as long as the file."""
    with pytest.raises(InputError) as caught:
        Node("x" * 100_000, "f", "a").integer(0, 1)
    assert len(str(caught.value)) < 200


def test_limits_on_values_not_only_on_bytes():
    """Half a megabyte of packed empty objects reached thirteen gigabytes."""
    with pytest.raises(InputError, match="values, at most"):
        parse_json(b"[" + b"{}," * 5_000_000 + b"{}]", "bomb")
    with pytest.raises(InputError, match="fields, at most"):
        parse_costgraph("node{" + "input_info{}" * 600_000 + "}")


def test_numbers_that_are_none_name_their_field():
    with pytest.raises(InputError, match=r"ops\[1\]\.flop: NaN is not a finite number"):
        parse_json(b'{"ops": [{"flop": 1}, {"flop": NaN}]}', "graph")
    with pytest.raises(InputError, match="got null"):
        Node(None, "file", "name").string()


def test_stale_temporary_files_go_at_the_next_write(folder):
    """What a killed writer left stayed for good. Catches a file removed that a living one is at,
    that a writer on another machine left or writes, or that is a user's own, whatever number stands
    in its name."""
    kept = [
        ".out.json.99999999-notes.tmp",
        ".notes.tmp",
        f".out.json.lmap-{socket.gethostname()}2-abc.tmp",
    ]
    for name in (f".out.json{HALF}dead.tmp", f".out.json{HALF}alive.tmp", *kept):
        (folder / name).touch()
    with open(folder / f".out.json{HALF}alive.tmp") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        write_json(folder / "out.json", {})
    left = sorted(path.name for path in folder.glob(".*.tmp"))
    assert left == sorted([f".out.json{HALF}alive.tmp", *kept])


def test_a_file_is_on_the_disk_before_its_name_is(folder, monkeypatch):
    """Catches a checkpoint that is empty after a power cut: the name reached the disk, and what it
    names did not."""
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *given, name=name, real=real: calls.append(name) or real(*given)
        )
    write_json(folder / "out.json", {})
    assert calls == ["fsync", "replace"]


TWO_WRITERS = """
import fcntl, os, stat, sys, time
from pathlib import Path
from learned_mapping.programs.json_io import append_line, locked, read_json, write_json

folder, name, kind = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
lock = fcntl.flock

def of_files_alone(handle, how):
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        raise OSError(9, "Bad file descriptor")
    lock(handle, how)

if kind == "elsewhere":
    fcntl.flock = of_files_alone
(folder / name).touch()
while len(list(folder.glob("writer*"))) < 2:
    time.sleep(0.001)
for i in range(40):
    append_line(folder / "records.jsonl", [name, i, "x" * 3000])
    with locked(folder):
        path = folder / "table.json"
        table = read_json(path).value if path.exists() else {}
        write_json(path, {**table, f"{name}.{i}": i})
"""


@pytest.mark.parametrize("kind", ["here", "elsewhere"])
def test_two_writers_of_one_folder_lose_nothing(tmp_path, kind):
    """Catches a table that is read, extended and written while another process does so, lines that
    run into each other, and a lock that a file system of several hosts, which locks files alone,
    does not have."""
    given = [sys.executable, "-c", TWO_WRITERS, str(tmp_path)]
    writers = [subprocess.Popen([*given, f"writer{n}", kind]) for n in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    expected = sorted([f"writer{n}", i] for n in range(2) for i in range(40))
    assert sorted(line[:2] for line in lines) == expected
    assert len(json.loads((tmp_path / "table.json").read_text())) == 80


def test_a_folder_whose_name_no_file_system_has_is_one_line():
    """Catches a folder for outputs that is made before its name is looked at."""
    with pytest.raises(InputError, match="expected a file's name"):
        check_writable("\ud83d\ude00")
