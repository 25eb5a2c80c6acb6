"""Processes that are killed while they write, solve, train or make: the next one ends as if nothing
had happened.

The suite kills writers; LMAP_KILLS=50 also kills so many commands at random moments.
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from cli_files import GRAPH, PROGRAM
from deaths import DIED, contents
from learned_mapping.cli import main
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
    arguments = [
        sys.executable,
        str(Path(__file__).parents[1] / "deaths.py"),
        action,
        str(tmp_path),
    ]
    kept = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax")}
    kept["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"  # compiled once, for all processes
    done = subprocess.run(
        [*arguments, "1", str(step)],
        capture_output=True,
        text=True,
        env=os.environ | kept,
        check=True,
    )
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


def unwritten(code: int, err: str, cause: str) -> None:
    """Fails unless a command has ended in one line with this cause."""
    *_, line = err.splitlines()
    assert code == 2 and "cannot be written" in line and cause in line.lower(), err


@pytest.mark.parametrize("what", WRITES)
def test_what_is_too_large_to_be_written_is_said_in_one_line(tmp_path, what):
    """Catches half a file, the former one gone, and another cause than the true one."""
    write_json(tmp_path / "graph.json", GRAPH)
    write_json(tmp_path / "program.json", PROGRAM)
    arguments = WRITES[what].split()
    out = tmp_path / next(word for word in arguments if word.startswith("out."))
    if what != "checkpoint":
        out.write_bytes(b"former")
    before = contents(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "learned_mapping", *arguments],
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        capture_output=True,
        text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path.parent)},
        check=False,
    )
    unwritten(done.returncode, done.stderr, "file too large")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("what", ["solution", "picture", "page"])
def test_what_another_user_may_not_write_is_said_in_one_line(capfd, what):
    """Catches a traceback, and a cause that is none. Root may write everywhere and is made somebody
    else, in a process that has loaded all it needs."""
    folder = Path(tempfile.mkdtemp())  # the folders of pytest are closed to others
    out = next(word for word in WRITES[what].split() if word.startswith("out."))
    try:
        write_json(folder / "graph.json", GRAPH)
        write_json(folder / "program.json", PROGRAM)
        with contextlib.chdir(folder):
            assert main(WRITES[what].split()) == 0
            before = contents(folder)
            folder.chmod(0o555)
            capfd.readouterr()
            child = os.fork()
            if not child:
                if not os.getuid():
                    os.setuid(65534)
                os._exit(main(WRITES[what].split()))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        unwritten(code, capfd.readouterr().err, "permission")
        assert contents(folder) == before and out in before
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


FULL = """
mount -t tmpfs -o size=64k none full && cp graph.json program.json full && cd full || exit 77
echo former > out.json; echo former > out.svg; echo former > out.html; cp -r . ../before
head -c 100000 /dev/zero > rest 2> /dev/null
"$@"
code=$?; rm rest; cp -a . ../after; exit $code
"""


def test_a_full_disk_is_said_in_one_line(tmp_path):
    """Catches half a file, and the former one gone, where the disk has no room."""
    write_json(tmp_path / "graph.json", GRAPH)
    write_json(tmp_path / "program.json", PROGRAM)
    (tmp_path / "full").mkdir()
    command = [sys.executable, "-m", "learned_mapping", *WRITES["page"].split()]
    if shutil.which("unshare") is None:
        pytest.skip("nobody here can mount")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", FULL, "sh", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    if not (tmp_path / "before").exists():
        pytest.skip("nobody here can mount")
    unwritten(done.returncode, done.stderr, "no space left on device")
    assert contents(tmp_path / "after") == contents(tmp_path / "before")


def test_a_file_that_is_replaced_while_it_is_read_is_the_one_or_the_other(tmp_path, capsys):
    """Catches a file that is opened twice, and half a file that is taken for a whole one."""
    path, ended = tmp_path / "graph.json", threading.Event()
    large = GRAPH | {"metadata": {str(i): "x" * 900 for i in range(300)}}
    write_json(path, GRAPH)

    def replace() -> None:
        while not ended.is_set():
            for value in (large, GRAPH):
                write_json(path, value)  # under another inode
            path.write_text(json.dumps(large))  # in place, bit by bit

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        codes = []
        for _ in range(300):
            codes.append(main(["check", str(path)]))
            err = capsys.readouterr().err
            if codes[-1] == 2:
                assert err.count("\n") == 1 and err[:-1].isprintable()
    finally:
        ended.set()
        writer.join()
    assert set(codes) <= {0, 2} and codes.count(0) > 5


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
