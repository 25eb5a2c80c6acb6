"""The command line: what each command does, its exit codes, its arguments, and that it starts
fast."""

import contextlib
import copy
import importlib.util
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from cli_files import MAPPING, PROGRAM, SCHEDULE, answer, edited, one_line, refusal, refused, run
from companion.toy import BROKEN, TOY, install
from learned_mapping import compiling
from learned_mapping.cli import main
from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import read_checkpoint


@pytest.fixture
def folder(folder, own_folders, monkeypatch):
    """Beside the valid files: folders of its own for data and builds, and two toys for
    artifacts."""
    install(monkeypatch, TOY, BROKEN)
    return folder


def test_help_starts_in_half_a_second():
    """A heavy import at the top of the command line would cost every call seconds."""
    script = (
        "import sys; from learned_mapping.cli import main; main(['--help']);"
        " print(*sorted(sys.modules))"
    )
    best = 9.0
    for _ in range(3):
        start = os.times()
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        end = os.times()
        best = min(
            best,
            end.children_user + end.children_system - start.children_user - start.children_system,
        )
    modules = done.stdout.splitlines()[-1].split()
    assert not {"numpy", "jax", "numba", "matplotlib"} & set(modules)
    assert best < 0.5


def test_python_m_is_lmap():
    done = subprocess.run(
        [sys.executable, "-m", "learned_mapping", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.startswith("lmap ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("frobnicate", "invalid choice"),
        ("make", "artifact ids, or --all"),
        ("make toy.table --all", "artifact ids, or --all"),
        ("make toy.nothing", "toy.nothing"),
        ("make toy.table --profile huge", "--profile"),
        ("make toy.table --seeds 0", "--seeds"),
        ("make toy.table --jobs 2 --cluster x:1", "--cluster"),
        ("make toy.table --only random,,magic", "--only"),
        ("make toy.table --only magic", "--only: no run has the method 'magic'"),
        ("make --all --only random", "go with one artifact"),
        ("solve mmap program.json --method random", "--out"),
        ("solve tsp program.json --method random --out o.json", "invalid choice: 'tsp'"),
        ("solve mmap program.json --method magic --out o.json", "'magic'"),
        ("solve mmap program.json --method random --out o.json --seconds -1", "--seconds"),
        ("solve mmap program.json --method random --out o.json --seconds nan", "--seconds"),
        ("solve mmap program.json --method random --out o.json --samples 0", "--samples"),
        ("solve mmap program.json --method random --out o.json --samples many", "--samples"),
        ("solve mcm graph.json --method random --out o.json --chips 99999", "--chips"),
        ("solve regal graph.json --method random --out o.json --objective x", "--objective"),
        ("solve regal graph.json --method random --chips 2 --out o.json", "--chips: is for mcm"),
        ("solve mmap program.json --method random --objective memory --out o.json", "--objective"),
        ("solve mcm graph.json --method random --size paper --out o.json", "--size: is for mmap"),
        ("solve mmap program.json --method muzero --size big --out o.json", "--size"),
        ("solve mmap program.json --method greedy --size paper --out o.json", "--size: is for"),
        ("solve mmap program.json --method greedy --device cpu --out o.json", "--device: is"),
        (
            "solve mmap program.json --method muzero --device abacus --out o.json",
            "--device: JAX has no platform 'abacus' here; it has cpu",
        ),
        ("solve mmap program.json --method muzero --device '' --out o.json", "--device"),
        ("solve regal graph.json --method random --out o.txt", "o.txt"),
        ("solve regal graph.json --method random --out graph.json", "overwrite"),
        ("solve regal graph.json --method random --out graph.json/o.json", "graph.json/o.json"),
        ("check program.json mapping.json mapping.json", "SOLUTION"),
        ("check program.json graph.json", "graph.json: schema"),
        ("check mmap graph.json mapping.json mapping.json", "SOLUTION"),
        ("check mmap schedule.json mapping.json", "schedule.json: schema"),
        ("check regal graph.json mapping.json", "mapping.json: schema"),
        ("check mmap graph.json mapping.json", "mapping.json: instance"),
        ("show program.json --out picture.gif", ".svg"),
        ("show program.json graph.json --out picture.svg", "graph.json: schema"),
        ("show program.json schedule.json --out picture.svg", "program.json: schema"),
        ("show mapping.json --out picture.svg", "mapping.json: schema"),
        ("trace nowhere:f --out g.json", "nowhere"),
        ("trace json:dumps --arg 'f32[' --out g.json", "--arg"),
        ("trace json --out g.json", "MODULE:FUNCTION"),
        ("trace json:dumps --arg 'f32[2]' --parameters x --out g.json", "--parameters"),
        ("trace json:dumps --arg 'f32[2]' --parameters 3-1 --out g.json", "--parameters"),
        (
            "trace jax.numpy:sin --arg 'f32[2]' --parameters 99 --out g.json",
            "no argument has position 99",
        ),
        ("trace json:dumps --arg 'f32[2]' --unroll-limit 0 --out g.json", "--unroll-limit"),
        ("trace json:dumps --arg 'f8_x[2]' --out g.json", "unknown element type 'f8_x', known are"),
        ("bench run random --by me", "--by: is for bench submit"),
        ("bench --seed 0", "--seed: is for bench run"),
    ],
)
def test_bad_usage_is_exit_2_and_one_line(capsys, folder, arguments, said):
    before = sorted(folder.rglob("*"))
    code, out, err = run(capsys, *shlex.split(arguments))
    assert code == 2 and out == ""
    assert said in one_line(err)
    assert sorted(folder.rglob("*")) == before, "something was written"


def test_extract_without_its_extra_says_so(capsys, folder, monkeypatch):
    actual = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "libtpu" else actual(name, *rest),
    )
    assert "'.[tpu]'" in refusal(capsys, "extract", "json:dumps", "--out", "p.json")


def test_cluster_without_ray_says_so(capsys, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _out, err = run(capsys, "make", "toy.table", "--cluster", "127.0.0.1:1")
    assert code == 2 and "'.[cluster]'" in err.splitlines()[-1]


def test_an_invalid_solution_is_exit_1_with_rule_and_culprits(capsys, folder):
    """Chip 1 feeds chip 0; and op d runs before its inputs have arrived."""
    backwards = edited("partition", "assignment", value={"a": 1, "b": 0, "c": 0, "d": 0})
    (folder / "bad.json").write_text(json.dumps(backwards))
    code, out, err = run(capsys, "check", "mcm", "graph.json", "bad.json")
    assert code == 1 and err == "" and "Eq. 2" in out and "a" in out
    early = edited("schedule", "order", value=[SCHEDULE["order"][i] for i in (5, 0, 1, 2, 3, 4)])
    (folder / "bad.json").write_text(json.dumps(early))
    code, out, err = run(capsys, "check", "regal", "graph.json", "bad.json", "--json")
    verdict = json.loads(out)
    assert code == 1 and not verdict["valid"] and "d" in verdict["violations"][0]["culprits"]


def test_artifacts_and_make(capsys, folder):
    code, out, _err = run(capsys, "artifacts", "--json")
    assert (
        code == 0 and [row["state"] for row in json.loads(out)["artifacts"]] == ["not yet run"] * 2
    )
    assert (
        answer(capsys, "make", "toy.table", "--profile", "full", "--seeds", "2")["made"][0]["runs"]
        == 6
    )
    code, out, _err = run(capsys, "artifacts")
    assert "toy.table" in out and "stale" in out  # nobody has a fingerprint of it


def test_a_failing_artifact_does_not_stop_the_others_and_is_exit_1(capsys, folder):
    code, out, err = run(capsys, "make", "--all", "--json")
    report = json.loads(out)
    assert code == 1 and [result["id"] for result in report["made"]] == ["toy.table"]
    assert "1 of 2 artifacts failed: toy.broken" in err.splitlines()[-1]


def test_a_series_that_is_not_complete_is_exit_4_and_goes_on(capsys, folder):
    """A script that loops until exit 0 must neither stop early nor take a partial table for a whole
    one."""
    make = ("make", "toy.table", "--profile", "full", "--json")
    code, out, err = run(capsys, *make, "--minutes", "1e-9")
    assert code == 4 and one_line(err) == "lmap: toy.table: 0 of 15 runs are there"
    assert json.loads(out) == {
        "made": [],
        "failed": [],
        "unfinished": [{"id": "toy.table", "fault": "toy.table: 0 of 15 runs are there"}],
    }
    code, _out, err = run(capsys, *make, "--instances", "toy0, toy1", "--only", "random")
    assert code == 4 and one_line(err) == "lmap: toy.table: 10 of 15 runs are there"
    assert answer(capsys, *make, "--minutes", "5")["made"][0]["runs"] == 15


def test_an_interrupt_is_exit_130_and_writes_nothing(capsys, folder, monkeypatch):
    from learned_mapping.cli import solve as command

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "solve_task", interrupted)
    code, _out, err = run(
        capsys, "solve", "regal", "graph.json", "--method", "brkga", "--out", "o.json"
    )
    assert code == 130 and one_line(err) == "lmap: interrupted" and not (folder / "o.json").exists()


def test_an_interrupt_within_an_import_ends_the_process(tmp_path):
    """Catches an exception raised into a native module while it is loaded, which ends a program by
    a fault."""
    (tmp_path / "loaded.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nprint('went on')\n"
    )
    code = (
        "import signal, sys; sys.argv[1:] = ['data']; signal.signal(signal.SIGINT,"
        " signal.default_int_handler)\nfrom learned_mapping import cli\ndef run(options):\n    try:"
        " import loaded\n    finally: print('unwound')\ncli._options = lambda arguments: type('O',"
        " (), {'run': staticmethod(run)})()\nsys.exit(cli.main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "lmap: interrupted\n")


def test_an_interrupt_counts_where_a_shell_has_it_ignored(folder):
    """Catches a command, started with `&` by a script, that no Ctrl-C reaches; and a suite that
    fails there."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    code = (
        "import signal, sys; sys.argv[1:] = ['data']; signal.signal(signal.SIGINT,"
        " signal.SIG_IGN)\nfrom learned_mapping import cli\ndef run(options):"
        " signal.raise_signal(signal.SIGINT); return 0\ncli._options = lambda arguments: type('O',"
        " (), {'run': staticmethod(run)})()\nsys.exit(cli.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "lmap: interrupted\n")


def test_an_interrupted_search_writes_its_best_so_far(capsys, folder, monkeypatch):
    """Catches minutes of search lost to Ctrl-C, and an exit code that says the search came to its
    end."""
    from learned_mapping.cli import solve as command

    solve_task, presses = command.solve_task, [signal.SIGINT]

    def pressed(*arguments, progress, **limits):
        def seen(*now):
            if presses:
                signal.raise_signal(presses.pop())
            return progress(*now)

        return solve_task(*arguments, progress=seen, **limits)

    monkeypatch.setattr(command, "solve_task", pressed)
    begun = time.monotonic()
    line = (
        "solve",
        "regal",
        "graph.json",
        "--method",
        "brkga",
        "--seconds",
        "200",
        "--out",
        "o.json",
    )
    code, out, err = run(capsys, *line)
    assert code == 130 and err.splitlines()[-1] == "lmap: interrupted" and "o.json" in out
    assert "best so far" in err and time.monotonic() - begun < 100 and not presses
    assert run(capsys, "check", "regal", "graph.json", "o.json")[0] == 0


def test_a_fault_of_ours_is_exit_3_and_one_line(capsys, folder, monkeypatch):
    from learned_mapping.cli import solve as command

    monkeypatch.setattr(command, "solve_task", lambda *arguments, **options: 1 / 0)
    code, _out, err = run(
        capsys, "solve", "regal", "graph.json", "--method", "brkga", "--out", "o.json"
    )
    assert code == 3 and "ZeroDivisionError" in one_line(err)


def test_whoever_waits_for_compiling_is_told(capsys, folder, monkeypatch):
    """Catches three minutes of silence at the second method, and a line where nobody waits."""
    line = ("solve", "regal", "graph.json", "--out", "o.json", "--samples", "20", "--method")
    assert run(capsys, *line, "random")[2] == ""
    monkeypatch.setattr(compiling, "SILENT_S", 0.01)
    monkeypatch.setattr("learned_mapping.problem.warm_up", lambda *_: time.sleep(0.5))
    for method in ("random", "brkga"):
        assert set(run(capsys, *line, method)[2].splitlines()) == {f"lmap: {compiling.LINE}"}


@pytest.mark.parametrize(
    "option", ["--seconds", "--samples", "--evaluations", "--seed", "--method", "--link-latency-s"]
)
def test_two_dashes_are_no_value(folder, capsys, option):
    """Some ended in a TypeError, the seed in success."""
    arguments = [
        "solve",
        "regal",
        "graph.json",
        "--method",
        "gp-dfs",
        "--out",
        "o.json",
        f"{option}=--",
    ]
    assert option in refusal(capsys, *arguments)


def lmap(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "learned_mapping", *arguments], text=True, check=False, **options
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_and_closed_streams_have_their_codes(folder):
    """A full stdout was a fault of ours, a full stderr another code, a closed stderr wrote to
    stdout."""
    good = ["check", "graph.json"]
    wrong = copy.deepcopy(MAPPING)
    wrong["decisions"][1]["offset"] = 2**40  # beyond fast memory
    (folder / "wrong.json").write_text(json.dumps(wrong))
    with open("/dev/full", "w") as full:
        done = lmap(*good, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 2 and refused(2, done.stderr)
        assert lmap("check", "none.json", stderr=full, stdout=subprocess.PIPE).returncode == 2
    closed = lmap("check", "none.json", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    assert closed.returncode == 2 and closed.stdout == ""
    # whose reader has gone: the answer stands, and so does what was asked for
    for unbuffered in ("", "1"):
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        read, write = os.pipe()
        os.close(read)
        late = lmap("check", "mmap", "program.json", "wrong.json", env=environment, stdout=write)
        if unbuffered:
            environment |= {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
            arguments = ["solve", "regal", "graph.json", "--method", "gp-dfs", "--out", "名.json"]
            silent = lmap(*arguments, env=environment, stdout=subprocess.PIPE, stderr=write)
            assert silent.returncode == 0 and (folder / "名.json").exists()
        os.close(write)
        assert late.returncode == 1


def test_an_instance_alone_is_checked(folder, capsys):
    code, out, _ = run(capsys, "check", "graph.json")
    assert code == 0 and "4 ops" in out
    assert run(capsys, "check", "mmap", "program.json", "--json")[0] == 0
    (folder / "graph.json").write_text("{}")
    refusal(capsys, "check", "graph.json")


def test_help_says_whom_to_trust():
    """And no hint names a package on an index that is not ours."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["--help"]) == 0
    assert "password" in out.getvalue() and "never executed" in out.getvalue()


def test_an_interrupt_while_memory_is_tidied_up_is_not_lost():
    """Python drops an exception raised there; the run went on for as long as it had been given."""
    code = (
        "import signal, sys, time; sys.argv[1:] = ['data']; signal.signal(signal.SIGINT,"
        " signal.default_int_handler)\nfrom learned_mapping import cli\nclass Tidied:\n    def"
        " __del__(self): raise KeyboardInterrupt\ndef run(options):\n    Tidied(); time.sleep(20);"
        " return 0\ncli._options = lambda arguments: type('O', (), {'run':"
        " staticmethod(run)})()\nsys.exit(cli.main())\n"
    )
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        130,
        "lmap: interrupted\n",
    ) and time.monotonic() - begun < 15


@pytest.mark.parametrize(
    "error", ["RuntimeError('no compiled object yet')", "errors.InputError('x', '', 'signal 2')"]
)
def test_a_failure_after_an_interrupt_is_the_interrupt(error):
    """Catches one that a compiler lost on its way, told as a fault of ours or of a file."""
    code = (
        "import signal, sys; sys.argv[1:] = ['data']; signal.signal(signal.SIGINT,"
        " signal.default_int_handler)\nfrom learned_mapping import cli, errors\ndef"
        " run(options):\n    try: signal.raise_signal(signal.SIGINT)\n    except"
        f" KeyboardInterrupt: pass\n    raise {error}\ncli._options = lambda arguments: type('O',"
        " (), {'run': staticmethod(run)})()\nsys.exit(cli.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "lmap: interrupted\n")


def test_the_file_at_fault_is_named(folder, capsys):
    """An input's name that is too long, an output that is no file, and a solution without its
    instance."""
    (folder / "o.json").write_text("{}")
    name = "a" * 300
    code, _, err = run(capsys, "solve", "mmap", name, "--method", "greedy", "--out", "o.json")
    assert refused(code, err).startswith(f"lmap: {name[:100]}") and "o.json" not in err
    os.mkfifo("pipe.json")
    code, _, err = run(
        capsys, "solve", "mmap", "program.json", "--method", "greedy", "--out", "pipe.json"
    )
    assert refused(code, err) == "lmap: pipe.json: is not a regular file"
    assert "is a mapping: name the instance" in refusal(capsys, "check", "mapping.json")


def test_odd_files_and_numbers_say_what_they_are(folder, capsys):
    """A byte order mark is read; an array named like a checkpoint, a position in nothing, a capacity of
    nothing."""
    (folder / "bom.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(PROGRAM).encode())
    assert answer(capsys, "check", "mmap", "bom.json")["valid"]
    with open("array.npz", "wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(InputError, match="no zip file of arrays"):
        read_checkpoint("array.npz")
    nothing = {"name": "i", "kind": "f", "buffers": [], "varied": [0], "latency_s": [1]}
    (folder / "n.json").write_text(json.dumps(PROGRAM | {"tensors": [], "instructions": [nothing]}))
    assert "has no buffers" in refusal(capsys, "check", "mmap", "n.json")
    (folder / "z.json").write_text(
        json.dumps(PROGRAM | {"memory": {"fast_bytes": 0, "copy_bytes_per_s": 1.0}})
    )
    assert "must be above 0" in refusal(capsys, "check", "mmap", "z.json")
    arguments = ("program.json", "--method", "greedy", "--out", "o.json", "--seconds", "5e-324")
    assert "--seconds: 5e-324 is outside" in refusal(capsys, "solve", "mmap", *arguments)
