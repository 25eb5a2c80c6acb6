"""Files from strangers: every fault ends in exit code 2, one line that names file and field, and no
output."""

import gzip
import json

import pytest

from cli_files import (
    COSTGRAPH,
    GRAPH,
    MAPPING,
    PARTITION,
    PROGRAM,
    SCHEDULE,
    VALID,
    command,
    edited,
    refused,
    run,
)
from learned_mapping.cli import main

NAN, INF = float("nan"), float("inf")
JSON_FAULTS = [
    # kind, what is edited (path into the valid file), new value, what the line must name
    ("graph", ("schema",), "learned-mapping/graph/2", "schema"),
    ("graph", ("schema",), "learned-mapping/program/1", "schema"),
    ("graph", ("name",), "", "name"),
    ("graph", ("name",), "line\nbreak", "name"),
    ("graph", ("surplus",), 1, "surplus"),
    ("graph", ("ops",), {}, "ops"),
    ("graph", ("ops",), [], "no op is named"),
    ("graph", ("ops", 1, "name"), "a", "ops[1]"),
    ("graph", ("ops", 1, "flop"), -1, "ops[1].flop"),
    ("graph", ("ops", 1, "flop"), "many", "ops[1].flop"),
    ("graph", ("ops", 1, "weight_bytes"), 1.5, "ops[1].weight_bytes"),
    ("graph", ("ops", 1, "weight_bytes"), 2**70, "ops[1].weight_bytes"),
    ("graph", ("ops", 1, "untouched_bytes"), -1, "ops[1].untouched_bytes"),
    ("graph", ("ops", 1, "seconds"), 0.5, "ops"),
    ("graph", ("ops", 1, "seconds"), -0.5, "ops[1].seconds"),
    ("graph", ("ops", 1, "colour"), "red", "ops[1]"),
    ("graph", ("ops", 2), "tanh", "ops[2]"),
    ("graph", ("ops", 0, "kind"), None, "ops[0].kind"),
    ("graph", ("tensors", 0, "producer"), "nobody", "tensors[0].producer"),
    ("graph", ("tensors", 0, "consumers"), ["b", "b"], "tensors[0].consumers[1]"),
    ("graph", ("tensors", 0, "consumers"), ["z"], "tensors[0].consumers[0]"),
    ("graph", ("tensors", 3, "consumers"), ["a"], "cycle"),
    ("graph", ("tensors", 0, "consumers"), ["a"], "uses its own output"),
    ("graph", ("tensors", 0, "bytes"), -1, "tensors[0].bytes"),
    ("graph", ("tensors", 0, "bytes"), 10**60, "tensors[0].bytes"),
    ("graph", ("tensors", 0, "output"), "yes", "tensors[0].output"),
    ("graph", ("tensors", 1, "name"), "ta", "tensors[1]"),
    ("graph", ("metadata",), [1], "metadata"),
    ("program", ("memory",), None, "memory"),
    ("program", ("memory", "fast_bytes"), 0, "memory.fast_bytes"),
    ("program", ("memory", "fast_bytes"), 1000.5, "memory.fast_bytes"),
    ("program", ("memory", "speed"), 1, "speed"),
    ("program", ("memory", "copy_bytes_per_s"), 0, "memory.copy_bytes_per_s"),
    ("program", ("tensors", 0), "t", "tensors[0]"),
    ("program", ("tensors", 0, "parameter"), 1, "tensors[0].parameter"),
    ("program", ("tensors", 1, "name"), "p", "tensors[1]"),
    ("program", ("tensors", 1, "bytes"), "1K", "tensors[1].bytes"),
    ("program", ("instructions",), [], "instructions"),
    ("program", ("instructions", 1, "name"), "i0", "instructions[1]"),
    (
        "program",
        ("instructions", 0, "buffers", 0, "tensor"),
        "q",
        "instructions[0].buffers[0].tensor",
    ),
    (
        "program",
        ("instructions", 0, "buffers", 0, "role"),
        "inout",
        "instructions[0].buffers[0].role",
    ),
    ("program", ("instructions", 0, "buffers", 0, "alias"), -1, "instructions[0].buffers[0].alias"),
    ("program", ("instructions", 0, "buffers"), "all", "instructions[0].buffers"),
    ("program", ("instructions", 0, "varied"), [0], "instructions[0].latency_s"),
    ("program", ("instructions", 0, "varied"), [0, 0], "instructions[0].varied[1]"),
    ("program", ("instructions", 0, "varied"), [0, 9], "instructions[0].varied[1]"),
    ("program", ("instructions", 0, "varied"), list(range(9)), "instructions[0].varied"),
    ("program", ("instructions", 0, "latency_s"), [1e-6], "instructions[0].latency_s"),
    ("program", ("instructions", 0, "latency_s", 2), -1e-6, "instructions[0].latency_s[2]"),
    # a parameter is written
    ("program", ("instructions", 0, "buffers", 0, "role"), "output", "instructions[0]"),
    # read before it is written
    ("program", ("instructions", 1, "buffers", 0, "tensor"), "y", "instructions[1]"),
    ("mapping", ("decisions",), [], "decisions"),
    ("mapping", ("decisions", 1, "colour"), "red", "decisions[1]"),
    ("mapping", ("instance", "name"), [3], "instance.name"),
    ("mapping", ("decisions", 1, "action"), "hold", "decisions[1].action"),
    ("mapping", ("decisions", 1, "offset"), -1, "decisions[1].offset"),
    ("mapping", ("decisions", 1, "start"), 2**40, "decisions[1].start"),
    ("mapping", ("decisions", 0, "offset"), 0, "decisions[0]"),
    ("mapping", ("instance", "digest"), "0" * 64, "instance"),
    ("mapping", ("instance",), "two steps", "instance"),
    ("partition", ("digest",), "0" * 64, "instance"),
    ("partition", ("chips",), 0, "chips"),
    ("partition", ("assignment", "b"), 2, "assignment"),
    ("partition", ("assignment", "z"), 0, "assignment"),
    ("partition", ("assignment",), [0, 0, 0, 1], "assignment"),
    ("partition", ("extra",), 1, "extra"),
    ("schedule", ("digest",), 5, "digest"),
    ("schedule", ("placement",), [0, 0, 1, 0], "placement"),
    ("schedule", ("order", 0), {"op": "a", "to": 1}, "order[0]"),
    ("schedule", ("comment",), "hi", "comment"),
    ("schedule", ("digest",), "0" * 64, "instance"),
    ("schedule", ("devices",), 0, "devices"),
    ("schedule", ("placement", "d"), 2, "placement"),
    ("schedule", ("placement", "z"), 0, "placement"),
    ("schedule", ("order", 0), {"op": "z"}, "order[0]"),
    ("schedule", ("order", 0), {"transfer": "zz", "to": 1}, "order[0]"),
    ("schedule", ("order", 3), {"transfer": "tb", "to": 5}, "order[3]"),
    ("schedule", ("order", 3), {"transfer": "tb"}, "order[3]"),
    ("schedule", ("order",), "a b c d", "order"),
]
MISSING = [
    ("graph", ("ops",), "'ops'"),
    ("graph", ("ops", 1, "flop"), "ops[1]"),
    ("graph", ("tensors", 0, "consumers"), "tensors[0]"),
    ("program", ("memory",), "'memory'"),
    ("program", ("instructions", 0, "latency_s"), "instructions[0]"),
    ("mapping", ("instance", "digest"), "instance"),
    ("mapping", ("decisions", 1, "end"), "decisions[1]"),
    ("partition", ("assignment", "d"), "assignment"),
    ("partition", ("chips",), "'chips'"),
    ("schedule", ("placement", "d"), "placement"),
    ("schedule", ("order",), "'order'"),
]
good = json.dumps(GRAPH)
RAW_FAULTS = [
    ("graph", good[:-30].encode(), "line 1 column"),
    ("graph", b"", "is empty"),
    ("graph", b"\xff\xfe" + good.encode(), "UTF-16"),
    ("graph", b"[" * 200_000, "nested"),
    ("graph", good.replace('"flop": 0', '"flop": NaN').encode(), "NaN"),
    ("graph", good.replace('"flop": 0', '"flop": Infinity').encode(), "Infinity"),
    ("graph", good.replace('"flop": 0', '"flop": 1e999').encode(), "1e999"),
    ("graph", good.replace('"flop": 0', '"flop": ' + "9" * 5000).encode(), "5000 digits"),
    ("graph", good.replace('"flop": 0', '"flop": 0, "flop": 1').encode(), "twice"),
    ("graph", b"\x80\x04\x95\x0c\x00\x00\x00", "never opened"),  # a pickle
    (
        "graph",
        json.dumps(GRAPH | {"metadata": {"a": json.loads("[" * 40 + "]" * 40)}}).encode(),
        "nested deeper",
    ),
    ("graph", b"null", "top level"),
    ("graph", b'"learned-mapping/graph/1"', "top level"),
    ("program", json.dumps(MAPPING).encode(), "schema"),
    ("graph", json.dumps(PROGRAM).encode(), "schema"),
    ("mapping", json.dumps(SCHEDULE).encode(), "schema"),
    ("partition", json.dumps(MAPPING).encode(), "schema"),
    ("schedule", json.dumps(PARTITION).encode(), "schema"),
]
COSTGRAPH_FAULTS = [  # more of them in tests/library/doors/test_costgraph.py
    ("size: 1024", "size: -2", "size"),
    ("compute_cost: 5", "compute_kost: 5", "compute_kost"),
    ("id: 0 compute_cost: 5", "id: 0 control_input: 2", "cycle"),
    ("is_final: true }", "is_final: true", "line"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the instances that solutions belong to."""
    path = tmp_path_factory.mktemp("faults")
    (path / "graph.json").write_text(json.dumps(GRAPH))
    (path / "program.json").write_text(json.dumps(PROGRAM))
    return path


def complaint(capsys, arguments, path, folder) -> str:
    """Runs a command that must fail; returns its one line, having checked everything but the
    field."""
    before = sorted(folder.rglob("*"))
    code, out, err = run(capsys, *arguments)
    line = refused(code, err)
    assert out == "" and line.startswith(f"lmap: {path}: ") and "Traceback" not in line, line
    assert sorted(folder.rglob("*")) == before, "something was written"
    return line.removeprefix(f"lmap: {path}: ")


@pytest.mark.parametrize("kind", VALID)
def test_the_files_the_faults_are_made_from_are_valid(capsys, folder, tmp_path, kind):
    """Otherwise every fault below could be found for the wrong reason."""
    path = tmp_path / "file.json"
    path.write_text(json.dumps(VALID[kind]))
    for name in ("graph.json", "program.json"):
        (tmp_path / name).write_text((folder / name).read_text())
    assert main(command(kind, path, tmp_path)) == 0, capsys.readouterr().err


FAULTS = [
    *(
        (kind, json.dumps(edited(kind, *path, value=value)).encode(), field)
        for kind, path, value, field in JSON_FAULTS
    ),
    *(
        (kind, json.dumps(edited(kind, *path, drop=True)).encode(), field)
        for kind, path, field in MISSING
    ),
    *RAW_FAULTS,
    *(
        ("costgraph", COSTGRAPH.replace(old, new, 1).encode(), field)
        for old, new, field in COSTGRAPH_FAULTS
    ),
]


@pytest.mark.parametrize(("kind", "data", "field"), FAULTS)
def test_a_fault_is_named(capsys, folder, kind, data, field):
    """A wrong value, a missing field, what is no such file, and a faulty CostGraphDef."""
    file = folder / ("bad.pbtxt" if kind == "costgraph" else "bad.json")
    file.write_bytes(data)
    assert field in complaint(capsys, command(kind, file, folder), file, folder)


def test_a_valid_costgraph_is_solved(capsys, tmp_path):
    file = tmp_path / "good.pbtxt"
    file.write_text(COSTGRAPH)
    assert main(command("costgraph", file, tmp_path)) == 0, capsys.readouterr().err
    assert main(["check", "regal", str(file), str(tmp_path / "out.json")]) == 0


@pytest.mark.parametrize("damage", ["truncated", "not gzip", "wrong check sum"])
def test_broken_compression_is_named(capsys, folder, damage):
    data = gzip.compress(good.encode())
    file = folder / "bad.json.gz"
    if damage == "truncated":
        file.write_bytes(data[:-15])
    elif damage == "not gzip":
        file.write_bytes(good.encode())
    else:
        file.write_bytes(data[:-8] + bytes(4) + data[-4:])
    assert "gzip" in complaint(capsys, command("graph", file, folder), file, folder)


def test_a_file_that_is_not_there_a_folder_and_an_unreadable_name(capsys, folder):
    for path in (
        folder / "none.json",
        folder,
        folder / "graph.json" / "x.json",
        folder / ("n" * 400 + ".json"),
    ):
        assert complaint(
            capsys, ["check", "regal", str(path), str(folder / "none.json")], path, folder
        )


def test_a_bomb_of_a_file_is_refused_by_its_size(capsys, folder, monkeypatch):
    """Half a gigabyte of zeros compresses to half a megabyte."""
    from learned_mapping.programs import json_io

    file = folder / "bomb.json.gz"
    file.write_bytes(gzip.compress(b" " * 3_000_000))
    original = json_io.read_bytes
    monkeypatch.setattr(json_io, "read_bytes", lambda path, limit=10**6: original(path, limit))
    assert "more than" in complaint(capsys, command("graph", file, folder), file, folder)
