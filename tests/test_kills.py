"""Processes that are killed while they write, solve, train or make: the next one ends as if nothing
had happened.

The suite kills writers; LMAP_KILLS=50 also kills so many commands at random moments.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cli_files import GRAPH, PROGRAM
from deaths import DIED, contents
from learned_mapping.programs.json_io import write_json

KILLS = int(os.environ.get("LMAP_KILLS", "0"))
WRITER = """
import sys
from learned_mapping.programs.json_io import write_bytes
print("begun", flush=True)
for i in range(10**9):
    write_bytes(sys.argv[1], bytes([i % 256]) * 20_000_000)
"""


def killed(arguments: list[str], seconds: float, folder: Path, **options) -> None:
    """Starts a process, lets it run so long, and kills it."""
    child = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, stderr=subprocess.DEVNULL, **options
    )
    if options.get("stdout") is subprocess.PIPE:
        child.stdout.readline()
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    child.wait()


def test_a_killed_writer_leaves_a_whole_file_and_nothing_for_long(tmp_path):
    """Catches a torn file, and what nobody ever removes."""
    rng, left = random.Random(0), 0
    for attempt in range(40):
        killed(
            ["-c", WRITER, "out.json"], 0.05 + rng.random() / 10, tmp_path, stdout=subprocess.PIPE
        )
        left += len(list(tmp_path.glob(".*.tmp")))
        if (tmp_path / "out.json").exists():
            data = (tmp_path / "out.json").read_bytes()
            assert len(data) == 20_000_000 and data.count(data[:1]) == len(data)
        subprocess.run(
            [sys.executable, "-c", WRITER.replace("10**9", "1"), "out.json"],
            cwd=tmp_path,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        assert not list(tmp_path.glob(".*.tmp"))
        if left and attempt >= 7:
            return
    pytest.fail("no kill met a write")


@pytest.mark.skipif(not KILLS, reason="minutes: LMAP_KILLS=50 says how many")
@pytest.mark.parametrize("what", ["partition", "training", "make"])
def test_killed_commands_end_as_whole_ones(tmp_path, what):
    """Catches state that a checkpoint or a record forgets."""
    write_json(tmp_path / "graph.json", GRAPH)
    write_json(tmp_path / "program.json", PROGRAM)
    commands = {
        "partition": [
            "solve",
            "mcm",
            "graph.json",
            "--method",
            "finetune",
            "--chips",
            "2",
            "--samples",
            "3000",
        ],
        "training": [
            "solve",
            "mmap",
            "program.json",
            "--method",
            "muzero",
            "--samples",
            "300",
            "--alone",
        ],
        "make": ["make", "mcm.repair"],
    }

    def run(folder: str, seconds: float | None) -> bytes | None:
        home = tmp_path / folder
        home.mkdir(exist_ok=True)
        solving = (
            ["--out", f"{folder}/out.json", "--checkpoint", f"{folder}/c.npz"]
            if what != "make"
            else []
        )
        arguments = ["-m", "learned_mapping", *commands[what], *solving]
        environment = os.environ | {"LEARNED_MAPPING_BUILD": str(home)}
        if seconds is not None:
            killed(arguments, seconds, tmp_path, env=environment, stdout=subprocess.DEVNULL)
            return None
        begin = time.monotonic()
        subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            check=True,
            capture_output=True,
        )
        run.seconds = time.monotonic() - begin
        assert not list(home.rglob(".*.tmp"))
        if what != "make":
            return (home / "out.json").read_bytes()
        result = json.loads(next(home.rglob("mcm.repair.json")).read_text())
        rows = [row for row in result["rows"] if not row["metric"].endswith(("seconds", "_per_s"))]
        return json.dumps([rows, result["runs"]]).encode()

    whole, rng = run("whole", None), random.Random(what)
    for _ in range(-(-KILLS // 3)):
        run("cut", rng.uniform(0.2, 1.0) * run.seconds)
    assert run("cut", None) == whole


@pytest.mark.parametrize("action", ["solve", "draw", "make", "build", "train"])
def test_a_process_that_dies_at_any_change_is_followed_by_a_whole_one(tmp_path, action):
    """Catches two files that are one thing and are written one after the other, a file that is torn,
    and what nobody removes. Death comes before each file opened, synced, renamed and removed."""
    begin = tmp_path / "begin"
    begin.mkdir()
    write_json(begin / "graph.json", GRAPH)
    write_json(begin / "program.json", PROGRAM)
    (begin / "set").mkdir()
    (begin / "set/README.md").write_text("The card.")
    step = 1 if KILLS else {"build": 1, "train": 1, "make": 5}.get(action, 17)
    arguments = [sys.executable, str(Path(__file__).with_name("deaths.py")), action, str(tmp_path)]
    done = subprocess.run([*arguments, "1", str(step)], capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) > 2 and {row["codes"][0] for row in rows[:-1]} == {DIED}
    for row in rows:
        assert row["codes"][1] == 0 and not row["torn"] and row["equal"], row


WRITES = {
    "solution": "solve regal graph.json --method list-scheduler --out out.json",
    "picture": "show regal graph.json --out out.svg",
    "page": "show mmap program.json --out out.html",
    "checkpoint": "solve mcm graph.json --method rl --chips 2 --samples 60 --checkpoint out.npz"
    " --out other.json",
}


@pytest.mark.parametrize("what", WRITES)
@pytest.mark.parametrize("fault", ["File too large", "Permission denied"])
def test_what_cannot_be_written_is_said_in_one_line(tmp_path, what, fault):
    """Catches half a file, the former one gone, and another cause than the true one."""
    if fault == "Permission denied" and not os.getuid():
        pytest.skip("no permission stops root")
    folder = tmp_path / "own"
    folder.mkdir()
    write_json(folder / "graph.json", GRAPH)
    write_json(folder / "program.json", PROGRAM)
    arguments = WRITES[what].split()
    out = folder / next(word for word in arguments if word.startswith("out."))
    if what != "checkpoint":
        out.write_bytes(b"former")
    before = contents(folder)

    def limit() -> None:
        if fault == "File too large":
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        else:
            os.chmod(folder, 0o555)

    done = subprocess.run(
        [sys.executable, "-m", "learned_mapping", *arguments],
        cwd=folder,
        preexec_fn=limit,
        capture_output=True,
        text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        check=False,
    )
    os.chmod(folder, 0o755)
    *_, line = done.stderr.splitlines()
    assert done.returncode == 2 and "cannot be written" in line
    assert fault.split()[0].lower() in line.lower()
    assert contents(folder) == before


def test_workers_end_with_their_parent(tmp_path):
    """D6. They lived on, and wrote tracebacks on what was their parent's stderr."""
    arguments = [sys.executable, "-m", "learned_mapping", "make", "mcm.repair", "--jobs", "2"]
    environment = os.environ | {"LEARNED_MAPPING_BUILD": str(tmp_path)}

    def workers_of(parent: int) -> list[psutil.Process]:
        return [
            item
            for item in psutil.Process(parent).children()
            if any("spawn_main" in a for a in item.cmdline())
        ]

    with open(tmp_path / "stderr", "w+b") as stderr:
        parent = subprocess.Popen(
            arguments, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=stderr
        )
        end = time.monotonic() + 60
        while len(workers := workers_of(parent.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(workers) == 2
        time.sleep(1.0)
        parent.kill()
        parent.wait()
        assert not psutil.wait_procs(workers, timeout=20)[1]
        stderr.seek(0)
        assert b"Traceback" not in stderr.read()
