"""A method of the user's own, ``FILE.py:FUNCTION``, and a set of programs of one's own."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

import cli_files
import learned_mapping as lm
from learned_mapping.errors import InputError
from learned_mapping.mmap import bench
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import graph_to_json, program_to_json
from learned_mapping.programs.json_io import read_json, write_json
from learned_mapping.programs.synthetic import random_graph
from mmap_games import hard_program

MINE = '''
import numpy as np
import learned_mapping as lm
from learned_mapping.mmap import all_dropped
from learned_mapping.mmap.searches.search import Search

print("imported")

def nothing(program, rng, budget):
    """Leaves every buffer in slow memory: a return of 0."""
    budget.record(0.0)
    return all_dropped(program), {}

def first(program, rng, budget):
    search = Search(program, budget)
    search.play_preferences(np.tile([2.0, 1.0, 0.0], (program.num_buffers, 1)))
    return search.mapping(), {}

def one_chip(task, rng, budget):
    assignment = np.zeros(task.model.graph.num_ops, np.int32)
    budget.record(task.model.throughput(assignment))
    return task.partition(assignment), {}

def raises(task, rng, budget):
    raise SystemExit("no\\nmore")

number = 3
'''
GRAPH = random_graph(np.random.default_rng(0), "layered", 24)


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "mine.py")


@pytest.fixture
def folder(tmp_path):
    """A set of three: a program, a program and a graph, which becomes one."""
    place = tmp_path / "set"
    place.mkdir()
    for seed in (1, 2):
        program = replace(hard_program(seed, 12), name=f"program {seed}")
        write_json(place / f"{seed}.json", program_to_json(program))
    write_json(place / "graph.json", graph_to_json(GRAPH))
    names = ["1.json", "2.json", "graph.json"]
    write_json(place / "manifest.json", {"schema": "learned-mapping/set/1", "programs": names})
    return place


def test_a_users_function_is_a_method_in_python_and_on_the_command_line(mine, tmp_path, capsys):
    """One device's throughput is one over the sum of all times, whoever says so. Would catch a
    method that only `METHODS` can bring in, and a report with what the user's code prints in it."""
    result = lm.mcm.solve(GRAPH, f"{mine}:one_chip", chips=4)
    task = lm.mcm.PROBLEM.task(GRAPH, chips=4)
    assert result.metrics["throughput"] == pytest.approx(1 / task.model.op_seconds.sum(), rel=1e-12)
    write_json(tmp_path / "g.json", graph_to_json(GRAPH))
    out = tmp_path / "p.json"
    arguments = (
        "solve",
        "mcm",
        tmp_path / "g.json",
        "--method",
        f"{mine}:one_chip",
        "--chips",
        "4",
    )
    code, said, err = cli_files.run(capsys, *arguments, "--alone", "--json", "--out", out)
    assert code == 0, err
    assert json.loads(said)["method"] == f"{mine}:one_chip"
    assert read_json(out).value["made"]["method"] == f"{mine}:one_chip"


def test_a_changed_file_is_another_method(mine, tmp_path):
    """Would catch a notebook in which an edited method goes on as it was."""
    program = hard_program(1, 12)
    assert lm.mmap.solve(program, f"{mine}:nothing", samples=1).metrics["return"] == 0.0
    text = MINE.replace("all_dropped(program), {}", "all_dropped(program), {'edited': 1.0}")
    (tmp_path / "mine.py").write_text(text)
    os.utime(mine, (2e9, 2e9))
    assert lm.mmap.solve(program, f"{mine}:nothing", samples=1).metrics["edited"] == 1.0


@pytest.mark.parametrize("name, words", [
    ("raises", r"mine.py:raises: fails \(SystemExit: no\)$"),
    ("absent", "has no such function"),
    ("number", "is no function but int"),
])  # fmt: skip
def test_a_faulty_function_is_one_line(mine, name, words):
    with pytest.raises(InputError, match=words) as actual:
        lm.mmap.solve(hard_program(1, 12), f"{mine}:{name}", samples=1)
    assert "\n" not in str(actual.value)


def test_an_own_method_stands_in_a_table_over_an_own_set(mine, folder, capsys):
    """Returns are the validator's, means their means; the interval of one number is that number.
    Would catch a set in which a graph is skipped, or scores that went to another method."""
    methods = (f"{mine}:nothing", f"{mine}:first", "greedy")
    code, out, _ = cli_files.run(capsys, "bench", "run", *methods, "--set", folder, "--json")
    answer = json.loads(out)
    assert code == 0 and [mean["method"] for mean in answer["means"]] == list(methods)
    rows = {(row["method"], row["program"]): row["value"] for row in answer["programs"]}
    own = bench.own(folder)
    assert len(rows) == 9 and {program for _, program in rows} == set(own)
    for name, (standing, program) in own.items():
        for method in methods:
            solution = lm.mmap.solve(program, method, seconds=60).solution
            wanted = validate(program, solution).costs["return"]
            assert rows[method, name] == wanted <= standing.bound + 1e-9
    nothing, first, _ = answer["means"]
    assert (nothing["mean"], nothing["low"], nothing["high"]) == (0.0, 0.0, 0.0)
    values = [value for (method, _), value in rows.items() if method == methods[1]]
    assert first["mean"] == pytest.approx(np.mean(values), abs=1e-12)
    assert min(values) <= first["low"] <= first["mean"] <= first["high"] <= max(values)
    code, out, _ = cli_files.run(capsys, "bench", "run", *methods, "--set", folder)
    lines = out.splitlines()
    assert len(lines) == 1 + 3 + 3 and "BEST KNOWN" in lines[0] and " -  " in lines[1]


@pytest.mark.parametrize("programs, words", [
    (["gone.json"], "is no file of the folder"),
    (["1.json", "1.json"], "names another program too"),
    (["evil.py:run"], "is no file of the folder"),
    ([], "names no program"),
    ("1.json", "expected an array"),
])  # fmt: skip
def test_a_damaged_set_is_one_line_and_runs_nothing(folder, capsys, programs, words):
    """Would catch a stranger's manifest whose entry is taken for a function and executed."""
    (folder / "evil.py").write_text("raise SystemExit(7)\ndef run(): ...")
    value = {"schema": "learned-mapping/set/1", "programs": programs}
    write_json(folder / "manifest.json", value)
    code, out, err = cli_files.run(capsys, "bench", "run", "greedy", "--set", folder)
    assert code == 2 and not out and len(err.splitlines()) == 1
    assert words in err and "manifest.json" in err


def test_what_only_one_method_or_action_can_have_is_refused(folder, capsys):
    for arguments, words in (
        (("run", "greedy", "heuristic", "--out", "x"), "keeps the mappings of one method"),
        (("list", "--set", folder), "is for bench run"),
        (("run", "greedy", "--set", folder, "--instances", "rnn_0"), "is not of the set"),
    ):
        code, out, err = cli_files.run(capsys, "bench", *arguments)
        assert code == 2 and not out and words in err and len(err.splitlines()) == 1
