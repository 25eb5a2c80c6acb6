"""``--machine``: one machine for the three problems at the command line."""

import copy
import json
import os
import random

import pytest

from cli_files import GRAPH, MACHINE, answer, one_line, refusal, run
from learned_mapping.cli import main
from learned_mapping.hardware.machine import machine_of, machine_to_json
from learned_mapping.programs.json_io import Node

CASES = int(os.environ.get("LMAP_FUZZ", "500"))
METHODS = {"mmap": "greedy", "mcm": "greedy-careful", "regal": "list-scheduler"}


@pytest.mark.parametrize("paper", METHODS)
def test_a_solution_keeps_its_machine(capsys, folder, paper):
    """Would catch a judge who forgets the machine, and a graph of operations judged in place of
    the instructions."""
    line = ["--method", METHODS[paper], "--samples", "3", "--out", "s.json", "--json"]
    code, out, _ = run(capsys, "solve", paper, "graph.json", "--machine", "machine.json", *line)
    assert code == 0
    made = json.loads((folder / "s.json").read_text())["made"]["options"]
    assert machine_of(Node(made["machine"], "made")) == machine_of(Node(MACHINE, "machine"))
    assert made.get("fused", False) == (paper != "mmap")
    for words in ((), (paper,), ("--machine", "machine.json")):
        verdict = answer(capsys, "check", *words, "graph.json", "s.json")
        assert verdict["valid"] and verdict["costs"] == json.loads(out)["costs"]
    assert run(capsys, "show", "graph.json", "s.json", "--out", "s.svg")[0] == 0
    faster = copy.deepcopy(MACHINE)
    faster["devices"][0]["flop_per_s"] = 1e12
    (folder / "fast.json").write_text(json.dumps(faster))
    words = ("check", "graph.json", "s.json", "--machine", "fast.json")
    if paper == "mmap":  # a graph has other times there, so its program is another
        assert "digest" in refusal(capsys, *words)
    else:
        assert answer(capsys, *words)["costs"] != verdict["costs"]


def test_one_device_takes_the_same_time_in_three_problems(capsys, folder):
    """By the files of three commands, of one device. Would catch a rate that one of them lacks."""
    one = copy.deepcopy(MACHINE)
    one["devices"][0]["count"] = 1
    (folder / "one.json").write_text(json.dumps(one))
    costs = {}
    for paper, method in METHODS.items():
        line = ["--machine", "one.json", "--method", method, "--out", "s.json", "--json"]
        code, out, err = run(capsys, "solve", paper, "graph.json", *line, "--samples", "3")
        assert code == 0, err
        costs[paper] = json.loads(out)["costs"]
    slow = costs["mmap"]["latency_s"] + costs["mmap"]["saving_s"]  # nothing in fast memory
    assert costs["mcm"]["runtime_s"] == pytest.approx(slow, rel=1e-7)
    assert costs["regal"]["makespan_s"] == pytest.approx(slow, rel=1e-7)


def test_what_does_not_fit_is_no_answer(capsys, folder):
    """4,096 bytes of weights over two devices of 1,000. Would catch a partition called valid."""
    small = copy.deepcopy(MACHINE)
    small["devices"][0]["memory_bytes"] = 1000
    (folder / "small.json").write_text(json.dumps(small))
    for paper in ("mcm", "regal"):
        line = ["--machine", "small.json", "--method", METHODS[paper], "--out", "s.json"]
        code, _, err = run(capsys, "solve", paper, "graph.json", *line)
        said = err.splitlines()[-1]
        assert code == 1 and said.startswith("lmap: ") and not (folder / "s.json").exists()
    assert run(capsys, "solve", "regal", "graph.json", *line[2:])[0] == 0  # the paper's devices


REFUSED = {
    "network": "solve regal graph.json --method regal --network none --out s.json",
    "option": "solve regal graph.json --method list-scheduler --links none --out s.json",
    "solution": "check graph.json machine.json",
    "full": "solve regal graph.json --method list-scheduler --out /dev/full/s.json",
    "method": "solve regal graph.json --method own.py:solve --out s.json",
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_is_one_line_whatever_was_to_be_said(capsys, folder, what):
    """Catches notes on what was read that stand before the refusal of what was read afterwards: of
    ops fused, of unknown cost, of parameters guessed. They are said with an answer."""
    guess = {"guessed_parameters": {"arguments": 2, "bytes": 4096}, "unknown_ops": {"x": 1}}
    (folder / "graph.json").write_text(json.dumps(GRAPH | {"metadata": guess}))
    (folder / "own.py").write_text("def solve(task, rng, budget):\n    return 3\n")
    refusal(capsys, *REFUSED[what].split(), "--machine", "machine.json")
    answered = "solve regal graph.json --method list-scheduler --out s.json".split()
    code, _, err = run(capsys, *answered, "--machine", "machine.json")
    assert code == 0 and len(err.splitlines()) == 3


def test_a_graph_is_fused_on_a_machine(capsys, folder):
    """Unless that is refused, or its ops have times or places of their own."""
    line = ["solve", "regal", "graph.json", "--method", "list-scheduler", "--out", "s.json"]
    code, _, err = run(capsys, *line, "--machine", "paper-3")
    assert code == 0 and err == "4 ops are 3 once fused (--no-fused)\n"
    assert run(capsys, *line, "--fused")[2] == err
    for words in (("--machine", "paper-3", "--no-fused"), ()):
        assert run(capsys, *line, *words)[::2] == (0, "")
    timed = copy.deepcopy(GRAPH)
    for op in timed["ops"]:
        op["seconds"] = 1e-6
    (folder / "graph.json").write_text(json.dumps(timed))
    code, _, err = run(capsys, *line, "--machine", "paper-3")
    assert code == 0 and "graph.json: ops[0].seconds: is said of an op" in err
    assert "nothing is fused" in refusal(capsys, *line, "--fused")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("mcm", "--chips", "2"), "--chips: is said by the machine"),
        (("regal", "--devices", "2"), "--devices: is said by the machine"),
        (("regal", "--link-latency-s", "1"), "--link-latency-s: is said by the machine"),
        (("regal", "--memory-gib", "1"), "--memory-gib: is gone: a machine file says"),
        (("regal", "--memory-gib"), "--memory-gib: is gone"),
        (("mcm", "--package=x.json"), "--package: is gone: a machine file says the chips"),
        (("mmap", "--fused"), "--fused: is for"),
    ],
)  # fmt: skip
def test_what_a_machine_says_is_said_once(capsys, folder, line, said):
    """Also of the options that a machine replaces."""
    paper, *words = line
    rest = ["--method", METHODS[paper], "--machine", "machine.json", "--out", "s.json"]
    assert said in refusal(capsys, "solve", paper, "graph.json", *rest, *words)


def test_files_of_retired_options_are_read(capsys, folder):
    """Would catch a stored solution that no judge takes any longer."""
    for kind, option in (
        ("partition", {"package": {"flop_per_s": 1e6}}),
        ("schedule", {"memory_gib": 1e-9}),
    ):
        solution = json.loads((folder / f"{kind}.json").read_text())
        plain = answer(capsys, "check", "graph.json", f"{kind}.json")
        solution["made"] = {"method": "m", "by": "m", "seed": 0, "samples": 1, "options": option}
        (folder / "old.json").write_text(json.dumps(solution))
        _, out, err = run(capsys, "check", "graph.json", "old.json", "--json")
        assert "does not fit" in err or not err
        assert err or json.loads(out) != plain


def test_a_program_is_traced_for_a_machine(capsys, folder):
    """Would catch a program written for the paper's memories, or a machine that nobody reads."""
    (folder / "f.py").write_text("def f(x): return x @ x + x\n")
    line = ["trace", "f.py:f", "--arg", "f32[64,64]", "--out", "t.json"]
    assert run(capsys, *line, "--program", "--machine", "machine.json")[0] == 0
    memory = json.loads((folder / "t.json").read_text())["memory"]
    assert memory == {"fast_bytes": 2048, "copy_bytes_per_s": 1e9}
    assert "--machine: is for --program" in refusal(capsys, *line, "--machine", "machine.json")


WRONG = (None, True, [], {}, [[]], "fast", "12GB", -1, 1e31, 10**300, "\u202e", "x" * 3000)


def damaged(rng: random.Random) -> bytes:
    """A machine that cannot be: a member lost, unknown or of another kind, or the text cut."""
    content = machine_to_json(machine_of(Node(copy.deepcopy(MACHINE), "machine")))
    places = {"": content, "links": content["links"], "device": content["devices"][0]}
    places["fast"] = content["devices"][0]["fast_memory"]
    for place in rng.sample(list(places), rng.randint(1, 3)):
        target = places[place]
        action = rng.randrange(3)
        if action == 0:
            target[rng.choice(["x" * rng.randrange(1, 99), "flops", "$\n", "<b>", "\u202e"])] = 1
        elif action == 1:
            lost = [
                n
                for n in target
                if n
                not in ("source", "count", "transfers", "latency_s", "op_overhead_s", "fast_memory")
            ]
            target.pop(rng.choice(lost)) if lost else target.update(wrong=1)
        else:
            name = rng.choice([n for n in target if n not in ("name", "source")] or ["wrong"])
            target[name] = rng.choice(WRONG)
    text = json.dumps(content, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.3:
        text = text[: rng.randrange(1, len(text) - 1)]
    return text.encode("utf-8", "surrogatepass")


def test_damaged_machines_are_one_line_each(capsys, folder):
    """Would catch a traceback, a code of ours, two lines, or a file that is taken as it is."""
    rng = random.Random(0)
    line = ["solve", "mcm", "graph.json", "--method", "greedy-careful", "--out", "s.json"]
    for case in range(CASES):
        data = damaged(rng)
        name = f"damaged{rng.choice(['.json', '.yml', ''])}"
        (folder / name).write_bytes(data)
        code = main([*line, "--machine", name])
        out, err = capsys.readouterr()
        assert code == 2 and out == "", (case, data)
        assert name in one_line(err) and len(err) < 12_000, (case, data)
