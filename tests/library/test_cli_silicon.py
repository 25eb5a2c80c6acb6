"""`lmap solve mcm` and `lmap check mcm` on silicon."""

import json

import pytest

from cli_files import GRAPH, PARTITION, SLOW, answer, run
from learned_mapping.budget import Budget
from learned_mapping.problem import problem
from learned_mapping.programs.formats import read_graph


@pytest.mark.parametrize("method", ["class-search", "random", "greedy-careful"])
def test_what_solve_writes_check_accepts(capsys, folder, method):
    """Catches an option that never reaches the method, and a solve and a check that judge by
    different chips."""
    arguments = [
        "graph.json",
        "--method",
        method,
        "--chips",
        "2",
        "--samples",
        "20",
        "--hardware",
        "silicon",
        "--json",
    ]
    solved = answer(capsys, "solve", "mcm", *arguments, "--out", "p.json")
    assert solved["samples"] == (1 if method == "greedy-careful" else 20)
    metrics, costs = solved["metrics"], solved["costs"]
    assert metrics["silicon_throughput"] == costs["silicon_throughput"] < costs["throughput"]
    assert "throughput" not in metrics
    assert run(capsys, "solve", "mcm", *arguments, "--out", "q.json")[0] == 0
    assert (folder / "p.json").read_bytes() == (folder / "q.json").read_bytes()
    check = ("check", "mcm", "graph.json", "p.json")
    assert answer(capsys, *check, "--hardware", "silicon")["costs"] == solved["costs"]
    assert answer(capsys, *check)["costs"] == solved["costs"], "the file says silicon"
    assert "silicon_throughput" not in answer(capsys, *check, "--hardware", "analytical")["costs"]


@pytest.mark.parametrize(
    ("method", "sees"),
    [
        *(
            (method, False)
            for method in ("greedy-naive", "greedy-careful", "optimum", "cp-sat", "even-cut")
        ),
        *(
            (method, True)
            for method in (
                "climb",
                "random",
                "sa",
                "unconstrained",
                "random-balanced",
                "class-search",
            )
        ),
    ],
)
def test_a_method_that_does_not_see_silicon_says_so(capsys, folder, method, sees):
    """Catches a user who takes what the other cost's optimum is for what silicon's best is: a
    method that measures no partition but what it ends with, its start beside it, cannot see the
    chips."""
    arguments = [
        "graph.json",
        "--method",
        method,
        "--chips",
        "2",
        "--samples",
        "20",
        "--alone",
        "--out",
        "p.json",
    ]
    code, _, err = run(capsys, "solve", "mcm", *arguments, "--hardware", "silicon")
    told = [line for line in err.splitlines() if "never sees the simulated chips" in line]
    assert code == 0 and len(told) == (not sees), err
    silicon = problem("silicon")
    task, rng = silicon.begin(silicon.task(read_graph("graph.json"), chips=2), 0)
    silicon.method(method).run(task, rng, Budget(samples=20))
    assert (len(task.model.ran) > 2) == sees


def test_peak_bytes_are_the_same_whoever_judges(capsys, folder):
    """Catches two things under one name. By hand, chip 0 of this partition holds the weights of b,
    4,096 bytes, and when c runs what it reads and makes, 1,024 each, and tb, 2,048, which waits for
    its link."""
    (folder / "p.json").write_text(json.dumps(PARTITION))
    check = ("check", "mcm", "graph.json", "p.json", "--hardware")
    model, silicon = (
        answer(capsys, *check, hardware)["costs"] for hardware in ("analytical", "silicon")
    )
    assert model["peak_bytes"] == silicon["peak_bytes"] == 8192
    assert "needed_bytes" not in model and silicon["needed_bytes"] % 2 == 0


def test_what_fits_no_chip_is_not_written(capsys, folder):
    """A partition whose tensors exceed the memory breaks no static rule; silicon refuses it."""
    heavy = json.loads(json.dumps(GRAPH))
    heavy["tensors"][1]["bytes"] = 2**28
    (folder / "graph.json").write_text(json.dumps(heavy))
    arguments = ["graph.json", "--method", "greedy-careful", "--chips", "2", "--out", "p.json"]
    code, _, err = run(capsys, "solve", "mcm", *arguments, "--hardware", "silicon")
    assert code == 1 and "Eq. 5" in err and not (folder / "p.json").exists()
    assert run(capsys, "solve", "mcm", *arguments)[0] == 0
    code, out, _ = run(capsys, "check", "mcm", "graph.json", "p.json", "--hardware", "silicon")
    assert code == 1 and "Eq. 5 on silicon" in out and "chip" in out


@pytest.mark.parametrize("hardware", [[], ["--hardware", "silicon"]])
def test_a_start_is_for_the_analytical_model(capsys, folder, hardware):
    """Catches a start that is taken and never used."""
    arguments = [
        "graph.json",
        "--method",
        "random",
        "--samples",
        "5",
        "--chips",
        "2",
        "--out",
        "p.json",
    ]
    code, _, err = run(capsys, "solve", "mcm", *arguments, "--start", "greedy-careful", *hardware)
    assert (code, "--start" in err) == ((2, True) if hardware else (0, False)), err
    assert (folder / "p.json").exists() == (not hardware)


@pytest.mark.parametrize("hardware", ["analytical", "silicon"])
def test_a_machine_of_ones_own(capsys, folder, hardware):
    """Catches a file that is read and not used, and a judge who forgets it."""
    (folder / "slow.json").write_text(SLOW)
    arguments = [
        "graph.json",
        "--method",
        "greedy-careful",
        "--hardware",
        hardware,
        "--json",
        "--out",
        "p.json",
    ]
    costs = []
    for chosen in (["--chips", "2"], ["--machine", "slow.json"]):
        costs.append(answer(capsys, "solve", "mcm", *arguments, *chosen)["costs"])
    assert costs[1]["runtime_s"] > 10 * costs[0]["runtime_s"]
    assert answer(capsys, "check", "graph.json", "p.json", "--json")["costs"] == costs[1]
