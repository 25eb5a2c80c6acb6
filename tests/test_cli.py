"""The command line: what each command does, its exit codes, its arguments, and that it starts fast."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import time

import pytest

from cli_files import COSTGRAPH, GRAPH, MAPPING, PARTITION, PROGRAM, SCHEDULE, edited
from companion.toy import BROKEN, TOY, install
from learned_mapping.cli import main
from learned_mapping.problem import problem


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with one valid file of each kind and folders of its own for data and builds."""
    files = {"graph": GRAPH, "program": PROGRAM, "mapping": MAPPING, "partition": PARTITION, "schedule": SCHEDULE}
    for name, value in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    (tmp_path / "graph.pbtxt").write_text(COSTGRAPH)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LEARNED_MAPPING_BUILD", str(tmp_path / "build"))
    install(monkeypatch, TOY, BROKEN)
    return tmp_path


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def one_line(err: str) -> str:
    lines = err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("lmap: "), err
    return lines[0]


def test_help_starts_in_half_a_second():
    """A heavy import at the top of the command line would cost every call seconds."""
    script = "import sys; from learned_mapping.cli import main; main(['--help']); print(*sorted(sys.modules))"
    best = 9.0
    for _ in range(3):
        start = os.times()
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        end = os.times()
        best = min(best, end.children_user + end.children_system - start.children_user - start.children_system)
    modules = done.stdout.splitlines()[-1].split()
    assert not {"numpy", "jax", "numba", "matplotlib"} & set(modules)
    assert best < 0.5


def test_python_m_is_lmap():
    done = subprocess.run([sys.executable, "-m", "learned_mapping", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("lmap ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("frobnicate", "invalid choice"),
        ("", "COMMAND"),
        ("make", "artifact ids, or --all"),
        ("make toy.table --all", "artifact ids, or --all"),
        ("make toy.nothing", "toy.nothing"),
        ("make toy.table --profile huge", "--profile"),
        ("make toy.table --seeds 0", "--seeds"),
        ("make toy.table --jobs -1", "--jobs"),
        ("make toy.table --jobs 2 --cluster x:1", "--cluster"),
        ("make toy.table --minutes 0", "--minutes"),
        ("make toy.table --only random,,magic", "--only"),
        ("make toy.table --only magic", "--only: no run has the method 'magic'"),
        ("make --all --only random", "go with one artifact"),
        ("solve mmap program.json --method random", "--out"),
        ("solve tsp program.json --method random --out o.json", "invalid choice: 'tsp'"),
        ("solve mmap program.json --method magic --out o.json", "'magic'"),
        ("solve regal graph.json --method magic --out o.json", "'magic'"),
        ("solve mcm graph.json --method magic --chips 2 --out o.json", "'magic'"),
        ("solve mmap program.json --method random --out o.json --seconds -1", "--seconds"),
        ("solve mmap program.json --method random --out o.json --seconds nan", "--seconds"),
        ("solve mmap program.json --method random --out o.json --seconds 1e99", "--seconds"),
        ("solve mmap program.json --method random --out o.json --samples 0", "--samples"),
        ("solve mmap program.json --method random --out o.json --samples many", "--samples"),
        ("solve mmap program.json --method random --out o.json --seed -3", "--seed"),
        ("solve mcm graph.json --method random --out o.json --chips 0", "--chips"),
        ("solve mcm graph.json --method random --out o.json --chips 99999", "--chips"),
        ("solve regal graph.json --method random --out o.json --devices 0", "--devices"),
        ("solve regal graph.json --method random --out o.json --objective x", "--objective"),
        ("solve regal graph.json --method random --out o.json --memory-gib 0", "--memory-gib"),
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
        ("trace json:dumps --arg 'f32[2]' --unroll-limit 0 --out g.json", "--unroll-limit"),
    ],
)
def test_bad_usage_is_exit_2_and_one_line(capsys, folder, arguments, said):
    before = sorted(folder.rglob("*"))
    code, out, err = run(capsys, *shlex.split(arguments))
    assert code == 2 and out == ""
    assert said in one_line(err)
    assert sorted(folder.rglob("*")) == before, "something was written"


def test_extract_without_its_extra_says_so(capsys, folder, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "libtpu" else found(name, *rest)
    )
    code, _out, err = run(capsys, "extract", "json:dumps", "--out", "p.json")
    assert code == 2 and "'.[tpu]'" in one_line(err)


def test_cluster_without_ray_says_so(capsys, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _out, err = run(capsys, "make", "toy.table", "--cluster", "127.0.0.1:1")
    assert code == 2 and "'.[cluster]'" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("paper", "instance", "method"),
    [
        ("mmap", "program.json", "greedy"),
        ("mcm", "graph.json", "greedy-careful"),
        ("regal", "graph.json", "gp-dfs"),
    ],
)
def test_what_solve_writes_check_accepts(capsys, folder, paper, instance, method):
    arguments = ["--seconds", "0.2", "--out", "new/solution.json.gz", "--json"]
    arguments += ["--chips", "2"] if paper == "mcm" else []
    code, out, err = run(capsys, "solve", paper, instance, "--method", method, *arguments)
    assert code == 0, err
    solved = json.loads(out)
    code, out, err = run(capsys, "check", paper, instance, "new/solution.json.gz", "--json")
    assert code == 0 and json.loads(out) == {"valid": True, "costs": solved["costs"], "violations": []}
    for named in ((), (paper,)):
        code, out, err = run(capsys, "show", *named, instance, "new/solution.json.gz", "--out", "picture.svg")
        assert code == 0 and (folder / "picture.svg").read_text().lstrip().startswith(("<svg", "<?xml"))


def test_a_mapping_is_seen_beside_a_rule_and_a_bound(capsys, folder):
    """Would catch a return above what no mapping exceeds, and a user who is told neither."""
    arguments = ["--method", "greedy", "--samples", "5", "--alone", "--out", "s.json", "--json"]
    found = json.loads(run(capsys, "solve", "mmap", "program.json", *arguments)[1])
    assert set(found["beside"]) == {"greedy-tuned", "no mapping is above"}
    assert found["costs"]["return"] <= found["beside"]["no mapping is above"] + 1e-9


def test_a_solution_says_how_it_was_made_and_check_believes_it(capsys, folder):
    made_with = ["--method", "brkga", "--samples", "200", "--transfers", "free", "--out", "s.json", "--json"]
    code, out, err = run(capsys, "solve", "regal", "graph.json", *made_with)
    assert code == 0, err
    solved, made = json.loads(out), json.loads((folder / "s.json").read_text())["made"]
    assert made["options"] == {"transfers": "free"} and made["samples"] == solved["samples"] and made["by"] == "brkga"
    assert set(solved["beside"]) == {"brkga, 4,980 evaluations", "no schedule is below"}
    words = (), ("regal",), ("--transfers", "rendezvous")
    judged = [json.loads(run(capsys, "check", *each, "graph.json", "s.json", "--json")[1])["costs"] for each in words]
    assert judged[0] == judged[1] == solved["costs"]
    plain = json.loads((folder / "s.json").read_text())
    del plain["made"]
    (folder / "plain.json").write_text(json.dumps(plain))
    assert json.loads(run(capsys, "check", "graph.json", "plain.json", "--json")[1])["costs"] == judged[2]
    plain["made"] = made | {"options": {"transfers": "sometimes"}}
    (folder / "bad.json").write_text(json.dumps(plain))
    code, out, err = run(capsys, "check", "graph.json", "bad.json")
    assert code == 2 and "bad.json: made.options" in one_line(err)


@pytest.mark.parametrize("paper", ["mmap", "mcm", "regal"])
def test_help_has_a_line_for_each_method(capsys, paper):
    code, out, _ = run(capsys, "solve", paper, "--help")
    assert code == 0
    lines = out.splitlines()
    for name, method in problem(paper).methods().items():
        assert any(line.split()[:1] == [name] and method.description in line for line in lines)


def test_folding_frees_chips_and_check_knows_which_graph_was_meant(capsys, folder):
    """A cheap op that every layer uses ties all of them to two chips, unless it is replicated."""
    layers = [{"name": f"layer{i}", "kind": "dot_general", "flop": 1e9} for i in range(8)]
    tensors = [
        {"name": f"x{i}", "producer": f"layer{i}", "bytes": 1024, "consumers": [f"layer{i + 1}"] if i < 7 else []}
        for i in range(8)
    ]
    mask = {"name": "m", "producer": "mask", "bytes": 64, "consumers": [layer["name"] for layer in layers]}
    ops = [{"name": "mask", "kind": "mul", "flop": 16}, *layers]
    graph = {"schema": "learned-mapping/graph/1", "name": "masked", "ops": ops, "tensors": [mask, *tensors]}
    (folder / "masked.json").write_text(json.dumps(graph))
    used = {}
    for fold in ((), ("--fold",)):
        arguments = ["masked.json", "--method", "greedy-careful", "--chips", "4", "--out", "p.json", "--json", *fold]
        code, out, err = run(capsys, "solve", "mcm", *arguments)
        assert code == 0, err
        used[fold] = json.loads(out)["costs"]["chips_used"]
        code, out, err = run(capsys, "check", "mcm", "masked.json", "p.json", "--json")
        assert code == 0 and json.loads(out)["costs"]["chips_used"] == used[fold], err
    assert used[()] == 2 and used[("--fold",)] == 4
    code, _, err = run(capsys, "solve", "regal", "graph.json", "--method", "brkga", "--fold", "--out", "s.json")
    assert code == 2 and "--fold" in one_line(err) and not (folder / "s.json").exists()


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


def test_same_seed_same_file(capsys, folder):
    for name in ("one.json", "two.json"):
        arguments = ["--method", "random", "--samples", "50", "--seed", "4", "--out", name]
        assert run(capsys, "solve", "regal", "graph.json", *arguments)[0] == 0
    assert (folder / "one.json").read_bytes() == (folder / "two.json").read_bytes()


@pytest.mark.parametrize("extra", [[], ["schedule.json"], ["partition.json"]])
def test_show_draws_graphs(capsys, folder, extra):
    code, _out, err = run(capsys, "show", "graph.json", *extra, "--out", "picture.svg")
    assert code == 0 and "<svg" in (folder / "picture.svg").read_text(), err


def test_trace_makes_files_that_solve_reads(capsys, folder):
    (folder / "mymodel.py").write_text(
        "import jax.numpy as jnp\nprint('imported')\n"
        "def forward(w, x):\n    print('traced')\n    return jnp.tanh(x @ w) @ w.T\n"
    )
    arguments = ["mymodel.py:forward", "--arg", "f32[64,64]", "--arg", "f32[256,64]", "--parameters", "0"]
    code, out, err = run(capsys, "trace", *arguments, "--out", "g.json", "--json")
    assert code == 0 and json.loads(out)["ops"] >= 3 and "imported" in err and "traced" in err
    code, out, err = run(capsys, "trace", *arguments, "--program", "--out", "p.json")
    assert code == 0 and "traced" not in out, err
    for paper, instance, method in (("mmap", "p", "greedy"), ("mcm", "g", "greedy-naive"), ("regal", "g", "gp-dfs")):
        options = ["--method", method, "--seconds", "0.2", "--out", "s.json"] + ["--chips", "2"] * (paper == "mcm")
        assert run(capsys, "solve", paper, f"{instance}.json", *options)[0] == 0
        assert run(capsys, "check", paper, f"{instance}.json", "s.json")[0] == 0


def test_artifacts_and_make(capsys, folder):
    code, out, _err = run(capsys, "artifacts", "--json")
    assert code == 0 and [row["state"] for row in json.loads(out)["artifacts"]] == ["not yet run"] * 2
    code, out, _err = run(capsys, "make", "toy.table", "--profile", "full", "--json", "--seeds", "2")
    assert code == 0 and json.loads(out)["made"][0]["runs"] == 6
    code, out, _err = run(capsys, "artifacts")
    assert "toy.table" in out and "fresh" in out


def test_a_failing_artifact_does_not_stop_the_others_and_is_exit_1(capsys, folder):
    code, out, err = run(capsys, "make", "--all", "--json")
    report = json.loads(out)
    assert code == 1 and [made["id"] for made in report["made"]] == ["toy.table"]
    assert "1 of 2 artifacts failed: toy.broken" in err.splitlines()[-1]


def test_a_series_that_is_not_complete_is_exit_4_and_goes_on(capsys, folder):
    """A script that loops until exit 0 must neither stop early nor take a partial table for a whole one."""
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
    code, out, _err = run(capsys, *make, "--minutes", "5")
    assert code == 0 and json.loads(out)["made"][0]["runs"] == 15


def test_an_interrupt_is_exit_130_and_writes_nothing(capsys, folder, monkeypatch):
    from learned_mapping.cli import solutions

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(solutions, "solve_task", interrupted)
    code, _out, err = run(capsys, "solve", "regal", "graph.json", "--method", "brkga", "--out", "o.json")
    assert code == 130 and one_line(err) == "lmap: interrupted" and not (folder / "o.json").exists()


def test_a_fault_of_ours_is_exit_3_and_one_line(capsys, folder, monkeypatch):
    from learned_mapping.cli import solutions

    monkeypatch.setattr(solutions, "solve_task", lambda *arguments, **options: 1 / 0)
    code, _out, err = run(capsys, "solve", "regal", "graph.json", "--method", "brkga", "--out", "o.json")
    assert code == 3 and "ZeroDivisionError" in one_line(err)


def test_an_invalid_answer_of_a_solver_is_never_written(capsys, folder, monkeypatch):
    """The independent validator stands between every solver and the file."""
    from learned_mapping.cli import solutions
    from learned_mapping.regal.schedule import Schedule

    class Wrong:
        solution = Schedule.of([0, 0, 0, 0], [[3, -1], [0, -1], [1, -1], [2, -1]], 2)
        metrics, samples, seconds = {}, 1, 0.0

    monkeypatch.setattr(solutions, "solve_task", lambda *arguments, **options: Wrong)
    code, _out, err = run(capsys, "solve", "regal", "graph.json", "--method", "brkga", "--out", "o.json")
    assert code == 1 and "no valid solution" in one_line(err) and not (folder / "o.json").exists()


def test_show_says_that_a_solution_is_invalid(capsys, folder):
    """Would catch a picture of overlapping buffers that looks as good as any."""
    for changed, said in ((None, ""), (3, "is drawn as it is, but invalid")):
        mapping = MAPPING if changed is None else edited("mapping", "decisions", 1, "end", value=changed)
        (folder / "one.json").write_text(json.dumps(mapping))
        code, _out, err = run(capsys, "show", "program.json", "one.json", "--out", "picture.svg")
        assert code == 0 and err.count("\n") == bool(said) and said in err


MADE = {"method": "rl", "by": "rl", "seed": 0, "samples": 1, "options": {}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"network": 5}, "made.network"),
        ({"network": {"name": "n", "sha256": 1}}, "made.network.sha256"),
        ({"options": {"zzz": 1}}, "made.options['zzz']"),
        ({"options": {"chips": "x"}}, "made.options['chips']"),
        ({"options": {"fold": 5}}, "made.options['fold']"),
    ],
)
def test_what_made_a_solution_is_checked(capsys, folder, change, field):
    """Would catch a wrong type that nobody reads."""
    (folder / "one.json").write_text(json.dumps(PARTITION | {"made": MADE | change}))
    code, _out, err = run(capsys, "check", "mcm", "graph.json", "one.json")
    assert code == 2 and err.count("\n") == 1 and field in err


OWN = """
import jax, jax.numpy as jnp, numpy as np
def foreign(x):
    return jnp.tanh(jax.pure_callback(np.sin, x, x)) @ x
def product(x):
    return jnp.tanh(x @ x)
"""


@pytest.mark.parametrize("options", [[], ["--program"]])
def test_trace_names_what_it_cannot_cost(capsys, folder, options):
    """Would catch a guess without a word, in a graph as in a program, and a word where there is no guess."""
    (folder / "own.py").write_text(OWN)
    code, _, err = run(capsys, "trace", "own.py:foreign", "--arg", "f32[64,64]", *options, "--out", "g.json")
    assert (code, err) == (0, "1 op of unknown cost: pure_callback; charged 1 FLOP per element\n")
    assert json.loads((folder / "g.json").read_text())["metadata"]["unknown_ops"] == {"pure_callback": 1}
    assert run(capsys, "trace", "own.py:product", "--arg", "f32[64,64]", *options, "--out", "g.json")[2] == ""


def test_trace_is_checked_against_xla(capsys, folder):
    """Would catch a comparison that is not printed, or one whose ratio is of something else."""
    (folder / "own.py").write_text(OWN)
    arguments = ["trace", "own.py:product", "--arg", "f32[64,64]", "--check", "--out", "g.json"]
    flop = json.loads(run(capsys, *arguments, "--json")[1])["check"]["flop"]
    assert (flop["ours"], flop["xla"]) == (2 * 64**3 + 10 * 64**2, 2 * 64**3) and flop["explained"] == 1.0
    _, out, err = run(capsys, *arguments)
    assert (
        "ratio 1.0781; 1.0000 without the differences of\n  tanh +40,960 (XLA counts transcendental" in out and not err
    )
    code, _, err = run(capsys, *[a.replace("product", "none").replace("f32", "f9") for a in arguments])
    assert code == 2 and one_line(err)


@pytest.mark.parametrize(
    ("gap", "chain_gap", "sentence"),
    [
        (None, None, ""),
        (0.0, None, "the optimum"),
        (0.25, None, "at most 25% above the optimum's cost"),
        (0.523, 0.0, "the optimum under the chain rule; at most 52.3% above any partition"),
        (0.523, 0.01, "at most 1% above the optimum under the chain rule; at most 52.3% above any partition"),
        (None, 0.0, "the optimum under the chain rule"),
        (0.0, 0.0, "the optimum of all partitions"),
    ],
)
def test_a_sentence_says_which_optimum(gap, chain_gap, sentence):
    """Would catch the bound of one set of partitions printed as that of another."""
    from learned_mapping.cli.solutions import _proved

    assert _proved(gap, chain_gap) == sentence


def test_an_unstated_output_is_told(capsys, folder):
    """Would catch a reader that guesses what an edge carries and does not say so."""
    (folder / "port.pbtxt").write_text('node { name: "a" }\nnode { name: "b" id: 1 input_info { preceding_port: 1 } }')
    answer = (0, "1 output is used but not stated: an order of ops, of 0 bytes\n")
    assert run(capsys, "check", "port.pbtxt")[::2] == answer
    assert run(capsys, "solve", "regal", "port.pbtxt", "--method", "gp-dfs", "--out", "s.json")[::2] == answer


def test_the_first_use_is_announced_only_where_it_makes_one_wait(capsys, monkeypatch):
    from learned_mapping.cli import output

    monkeypatch.setattr(output, "is_compiled", lambda: False)
    with output.first_use(after=60.0):
        pass
    assert capsys.readouterr().err == ""
    with output.first_use(after=0.0):
        time.sleep(0.2)
    assert "the first use compiles" in one_line(capsys.readouterr().err)
