"""`lmap solve mcm` and `lmap check mcm` on silicon."""

import json

import pytest

from cli_files import GRAPH, answer, refusal, run


@pytest.mark.parametrize("method", ["class-search", "random", "greedy-careful"])
def test_what_solve_writes_check_accepts(capsys, folder, method):
    """Catches an option that never reaches the method, and a solve and a check that judge by different chips."""
    arguments = ["graph.json", "--method", method, "--chips", "2", "--samples", "20", "--hardware", "silicon", "--json"]
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
    arguments = ["graph.json", "--method", "random", "--samples", "5", "--chips", "2", "--out", "p.json"]
    code, _, err = run(capsys, "solve", "mcm", *arguments, "--start", "greedy-careful", *hardware)
    assert (code, "--start" in err) == ((2, True) if hardware else (0, False)), err
    assert (folder / "p.json").exists() == (not hardware)


@pytest.mark.parametrize("hardware", ["analytical", "silicon"])
def test_a_package_of_ones_own(capsys, folder, hardware):
    """Catches a file that is read and not used, and a judge who forgets it."""
    (folder / "slow.json").write_text('{"schema": "learned-mapping/package/1", "chips": 2, "flop_per_s": 1e6}')
    arguments = ["graph.json", "--method", "greedy-careful", "--hardware", hardware, "--json", "--out", "p.json"]
    costs = []
    for chosen in (["--chips", "2"], ["--package", "slow.json"]):
        costs.append(answer(capsys, "solve", "mcm", *arguments, *chosen)["costs"])
    assert costs[1]["runtime_s"] > 10 * costs[0]["runtime_s"]
    assert answer(capsys, "check", "graph.json", "p.json", "--json")["costs"] == costs[1]


@pytest.mark.parametrize(
    ("package", "options", "said"),
    [
        ({"chips": 0}, [], "chips"), ({"flops": 1}, [], "flops"), ({"link_bytes_per_s": 0}, [], "link_bytes_per_s"),
        ({"schema": "learned-mapping/graph/1"}, [], "schema"), ({"op_overhead_s": "fast"}, [], "op_overhead_s"),
        ({"chips": 2}, ["--chips", "3"], "--chips"),
        ({"chips": 2}, ["--method", "magic", "--hardware", "silicon"], "class-search"),
    ],
)  # fmt: skip
def test_a_package_that_cannot_be_is_named(capsys, folder, package, options, said):
    """Also chips said twice, and an unknown method."""
    (folder / "odd.json").write_text(json.dumps({"schema": "learned-mapping/package/1"} | package))
    arguments = ["graph.json", "--method", "greedy-careful", "--package", "odd.json", "--out", "p.json", *options]
    line = refusal(capsys, "solve", "mcm", *arguments)
    assert said in line and (options or "odd.json" in line) and not (folder / "p.json").exists()
