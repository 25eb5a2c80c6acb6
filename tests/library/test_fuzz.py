"""Hostile files and options against the command line: every format, every kind of damage.

The suite runs 2,000 cases of a fixed seed; ``make fuzz`` sets LMAP_FUZZ for more, and others each
time. Whatever comes in, the exit code is 0, 1, 2 or 4, a refusal is one printable line, and no
output is left half-written.
"""

import contextlib
import copy
import gzip
import io
import json
import os
import random
import string
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_files import COSTGRAPH, VALID, command
from learned_mapping.cli import main
from learned_mapping.cli.parser import make_parser
from learned_mapping.learning.checkpoint import write_checkpoint

CASES, SAME = int(os.environ.get("LMAP_FUZZ", "2000")), "LMAP_FUZZ" not in os.environ
CODES = (0, 1, 2, 4)
SECONDS, BYTES = 10.0, 2**30
NAMES = [
    "$\\frac{$",
    "a$b",
    "<script>&",
    "名前",
    "x" * 900,
    "%s{}",
    "\u202e\u2066",
    "-",
    "a\tb",
    "\x1b[31m",
    "\ud83d\ude00",
]
NUMBERS = [
    0,
    1,
    -1,
    2**31,
    2**50,
    2**53 + 1,
    2**63,
    10**60,
    0.5,
    100.0,
    1e308,
    -0.0,
    float("nan"),
    float("inf"),
]
ANYTHING = [
    None,
    True,
    "",
    [],
    {},
    [[]],
    {"op": 1},
    "drop",
    "copy",
    "input",
    "output",
    *NAMES,
    *NUMBERS,
]
OPTIONS = (
    "--seconds --samples --seed --chips --devices --machine --method --objective --out"
    " --transfers --hardware --fold --alone --json --all --checkpoint --start --size --device"
).split()
VALUES = [
    *"-- 0 -1 1 2 1e9 nan inf $x$ runtime memory free silicon list-scheduler greedy-naive greedy"
    " random".split(),
    *["", "x" * 100_000, "\x1b[2J", "none.json", "/", "/dev/full", "a.npz"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    for kind, value in VALID.items():
        (folder / f"{kind}.json").write_text(json.dumps(value))
    yield folder
    for path in folder.rglob(".*.tmp"):
        raise AssertionError(f"half-written: {path}")


def places(value, path=()):
    if path:
        yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from places(item, (*path, key))


def damaged_json(rng: random.Random, kind: str) -> bytes:
    """A valid file of a kind with values replaced, dropped, repeated or renamed, or its text cut or
    flipped."""
    value = copy.deepcopy(VALID[kind])
    for _ in range(rng.randint(0, 3)):
        path = rng.choice(list(places(value)))
        target = value
        for key in path[:-1]:
            target = target[key]
        action = rng.randrange(4)
        if action == 0 and isinstance(target, list):
            target.insert(path[-1], copy.deepcopy(rng.choice(target)))
        elif action == 1:
            del target[path[-1]]
        elif action == 2 and isinstance(target, dict):
            target[rng.choice(NAMES)] = target.pop(path[-1])
        else:
            target[path[-1]] = copy.deepcopy(rng.choice(ANYTHING))
        if not list(places(value)):
            break
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.2:
        text = text.replace(
            rng.choice(["a", "p", "two steps", "diamond"]), json.dumps(rng.choice(NAMES))[1:-1]
        )
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(max(len(data), 1))
            data[place : place + rng.randrange(3)] = rng.choice(
                [b"", b"[", b"}", b"\xff", b"\0", b"9" * 30, b'"', b","]
            )
    return bytes(data[: rng.randrange(max(len(data), 1))] if rng.random() < 0.1 else data)


def run(arguments: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


def judge(arguments: list[str], out) -> None:
    """Runs a command and holds it to its promises."""
    out.unlink(missing_ok=True)
    begin = time.process_time()
    code, _, err = run(arguments)
    assert code in CODES, (arguments, code, err[:2000])
    assert "Traceback" not in err and time.process_time() - begin < SECONDS
    if code == 2:
        lines = err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("lmap: ") and lines[0].isprintable(), (
            arguments,
            err[:2000],
        )
        assert len(lines[0]) < 12_000 and not out.exists()
    if out.exists() and out.suffix == ".json":
        json.loads(out.read_text())
    out.unlink(missing_ok=True)


@settings(
    max_examples=CASES,
    deadline=None,
    derandomize=SAME,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**62))
def test_whatever_comes_in_is_accepted_or_named(folder, seed):
    """Catches a traceback, a code of ours, more than one line, an endless line, and half an
    output."""
    rng = random.Random(seed)
    kind = rng.choice([*VALID, "costgraph"])
    if kind == "costgraph":
        start = rng.randrange(len(COSTGRAPH))
        new = "".join(rng.choices(string.printable, k=rng.randrange(8)))
        data, ending = (
            (COSTGRAPH[:start] + new + COSTGRAPH[start + rng.randrange(20) :]).encode(),
            ".pbtxt",
        )
    else:
        data, ending = damaged_json(rng, kind), ".json"
    if rng.random() < 0.1:
        packed, ending = bytearray(gzip.compress(data)), ending + ".gz"
        if rng.random() < 0.7:
            packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
        data = bytes(packed)
    file = folder / f"damaged{ending}"
    file.write_bytes(data)
    out = folder / "out.json"
    arguments = command(kind, file, folder)
    choice = rng.random()
    if choice < 0.03 and kind in ("graph", "program", "costgraph"):
        out = folder / rng.choice(["p.svg", "p.html"])
        arguments = ["show", str(file), "--out", str(out)]
    elif choice < 0.2 and kind in ("graph", "program", "costgraph"):
        arguments = [
            "check",
            *([] if rng.random() < 0.5 else [rng.choice(["mmap", "mcm", "regal"])]),
            str(file),
        ]
    elif choice < 0.35 and kind in ("graph", "costgraph"):
        method = rng.choice(["greedy-naive", "greedy-careful", "random"])
        arguments = [
            "solve",
            "mcm",
            str(file),
            "--method",
            method,
            "--chips",
            "3",
            "--samples",
            "3",
            "--out",
            str(out),
        ]
    if rng.random() < 0.2:
        for _ in range(rng.randint(1, 2)):
            option, value = rng.choice(OPTIONS), rng.choice(VALUES)
            if (option, value) in (
                ("--samples", "1e9"),
                ("--seconds", "2"),
                ("--out", "none.json"),
            ):
                continue
            arguments += rng.choice([[option], [option, value], [f"{option}={value}"]])
        arguments += ["--samples", "1"] if arguments[0] == "solve" else []
    with contextlib.chdir(folder):
        judge(arguments, out)


BEGUN = {
    "solve": [
        "regal graph.json --method list-scheduler --samples 3 --seconds 1 --out out.json",
        "mcm graph.json --method random --samples 3 --seconds 1 --chips 2 --out out.json",
        "mmap program.json --method greedy --samples 3 --seconds 1 --out out.json",
    ],
    "check": ["graph.json", "mcm graph.json partition.json", "mmap program.json mapping.json"],
    "show": ["graph.json --out out.json", "regal graph.json schedule.json --out out.svg"],
    "trace": ["none.mlir --out out.json", "none:f --arg f32[2] --out out.json"],
    "map": ["graph.json --machine paper-2 --problem throughput --seconds 0.1"],
    "bench": ["list", "submit mapping.json --by me", "run greedy --set none"],
    "artifacts": [""],
    "make": ["none"],
    "verify": ["--sample none"],
    "fingerprint": ["none --check"],
    "data": ["list", "verify none"],
    "extract": ["none:f --out out.json"],
    "price": ["program.json none.json"],
}
"""Command -> arguments that end within a moment."""


@settings(
    max_examples=CASES,
    deadline=None,
    derandomize=SAME,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**62))
def test_whatever_a_command_is_given_is_accepted_or_named(folder, seed):
    """Catches an option that reaches code which does not expect it, of any command."""
    rng = random.Random(seed)
    name = rng.choice(list(BEGUN))
    arguments = [name, *rng.choice(BEGUN[name]).split()]
    flags = [f for action in PARSERS[name]._actions for f in action.option_strings if f != "--all"]
    for _ in range(rng.randint(1, 3)):
        flag, value = rng.choice([*flags, *OPTIONS]), rng.choice([*VALUES, *NAMES])
        if flag in ("--samples", "--evaluations", "--seconds", "--iterations", "--minutes"):
            value = rng.choice([v for v in VALUES if v not in ("1e9", "2")])
        given = rng.choice([[flag], [flag, value], [f"{flag}={value}"], [value]])
        place = rng.randint(1, len(arguments))
        arguments[place:place] = given
    with contextlib.chdir(folder):
        judge(arguments, folder / "out.json")


PARSERS = next(a for a in make_parser()._actions if isinstance(a.choices, dict)).choices


def test_damaged_checkpoints_are_one_line(folder):
    """Catches an exception of zip, npy or a compressor that comes through; every bit of the head,
    then some."""
    from learned_mapping.errors import InputError
    from learned_mapping.learning.checkpoint import read_checkpoint

    path = folder / "good.npz"
    write_checkpoint(
        path, {"weights": np.arange(12.0), "bias": np.zeros((2, 2), np.float32)}, {"kind": "fuzz"}
    )
    data, rng, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(300):
        changed = bytearray(data)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        (folder / "bad.npz").write_bytes(
            changed[: rng.randrange(len(changed))] if rng.random() < 0.3 else changed
        )
        try:
            read_checkpoint(folder / "bad.npz")
        except InputError as error:
            refused += str(error).isprintable()
    assert refused > 150


BOMBS = {
    "objects.json.gz": lambda: b"{" + b'"a":[' + b"{}," * 20_000_000 + b"{}]}",
    "lists.json.gz": lambda: b"[" * 30_000_000,
    "wide.json": lambda: b'{"schema":"' + "\U0001f600".encode() + b"a" * 60_000_000 + b'"}',
    "values.json": lambda: (
        b'{"schema":"learned-mapping/graph/1","ops":[' + b"{}," * 3_900_000 + b"{}]}"
    ),
    "inputs.pbtxt.gz": lambda: b'node{name:"a" ' + b"input_info{}" * 1_800_000 + b"}",
    "name.pbtxt.gz": lambda: b'node{id:1 name:"' + b"n" * (60 << 20) + b'"}',
    "device.pbtxt.gz": lambda: (
        b"node{id:1 name:'a' device:'" + b"d" * (60 << 20) + b"' input_info{preceding_node:7}}"
    ),
    "escapes.pbtxt.gz": lambda: b'node{name:"' + b"\\n" * (30 << 20) + b'"}',
    "strings.pbtxt.gz": lambda: b'node{name:"a" device:' + b'"d"\n' * (15 << 20) + b"}",
    "late.pbtxt": lambda: (
        b'node{name:"a"}\nnode{name:"b" id:1 '
        + b"control_input:0\n" * 150_000
        + b"input_info{preceding_node:9}}"
    ),
}


def test_no_bomb_takes_a_gigabyte_or_ten_seconds(tmp_path):
    """Catches a limit on bytes alone: small files whose values need many times their size."""
    script = (
        "import sys, time, json, re\nfrom learned_mapping.cli import main\nimport"
        " learned_mapping.regal.methods\nfound = []\nfor path in sys.argv[1:]:\n    begin ="
        " time.process_time()\n    code = main(['solve', 'regal', path, '--method',"
        " 'list-scheduler', '--out', path + '.out.json'])\n    peak ="
        " int(re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1]) * 1024\n   "
        " found.append((path, code, time.process_time() - begin, peak))\nprint(json.dumps(found))\n"
    )
    for name, make in BOMBS.items():
        (tmp_path / name).write_bytes(gzip.compress(make(), 1) if name.endswith(".gz") else make())
    paths = [str(tmp_path / name) for name in BOMBS]
    done = subprocess.run(
        [sys.executable, "-c", script, *paths], capture_output=True, text=True, check=True
    )
    for path, code, seconds, peak in json.loads(done.stdout):
        assert code == 2 and seconds < SECONDS and peak < BYTES, (path, code, seconds, peak)
    assert len(done.stderr.splitlines()) == len(BOMBS) and len(list(tmp_path.iterdir())) == len(
        BOMBS
    )
