"""``lmap map``: five kinds of answers worked out by hand, and each number by the judge."""

import json
import re
import time

import pytest

from cli_files import answer, one_line, refusal, run
from learned_mapping import auto
from learned_mapping.budget import Budget
from learned_mapping.cli import answers
from learned_mapping.cli.answers import size, span
from learned_mapping.problem import problem
from learned_mapping.programs.formats import read_graph

MB = 10**6


def chain(count, weights=1000, kind="dot_general", **metadata):
    """Products in a row, 1e9 FLOP each, which hand on 1,000 bytes."""
    ops = [{"name": "x", "kind": "input", "flop": 0}]
    ops += [
        {"name": f"dot{i}", "kind": kind, "flop": 1e9, "weight_bytes": weights}
        for i in range(count)
    ]
    names = [op["name"] for op in ops]
    tensors = [
        {"name": f"t{i}", "producer": name, "bytes": 1000, "consumers": names[i + 1 : i + 2]}
        for i, name in enumerate(names)
    ]
    tensors[-1]["output"] = True
    content = {"schema": "learned-mapping/graph/1", "name": "chain", "ops": ops, "tensors": tensors}
    return content | {"metadata": metadata}


def machine(count, memory=10**9, link=1e9, **links):
    """Devices of 1e12 FLOP/s, so that a product of `chain` takes a millisecond."""
    device = {"flop_per_s": 1e12, "memory_bytes": memory, "memory_bytes_per_s": 1e12}
    links = {"topology": "row", "bytes_per_s": link, **links}
    content = {"schema": "learned-mapping/machine/1", "name": "bench", "links": links}
    return content | {"devices": [{"count": count, **device}], "source": "made up"}


def asked(capsys, folder, graph, hardware, *words):
    """Exit code, lines, stderr, and the same in JSON of `lmap map`."""
    (folder / "g.json").write_text(json.dumps(graph))
    (folder / "m.json").write_text(json.dumps(hardware))
    line = ["map", "g.json", "--machine", "m.json", "--seconds", "3", *words]
    code, out, _ = run(capsys, *line)
    again, content, _ = run(capsys, *line, "--json", "--out", "kept")
    assert again == code
    return code, out, json.loads(content)


def judged(capsys, content):
    """Whether every solution that was kept costs what the answer says, by the validator."""
    for row in (content["throughput"], content["latency"]):
        if row["out"] is not None:
            costs = answer(capsys, "check", "g.json", row["out"])["costs"]
            parted = row["unit"] == "s" or row["by"] != "whole copies"
            numbers = [costs.get("makespan_s"), costs.get("throughput")]
            assert not parted or any(n == pytest.approx(row["value"]) for n in numbers if n)


def test_one_device_is_best(capsys, folder):
    """3 ms a run, two copies give 2 / 3 ms; a chain is not split. Would catch a split that costs
    more than it saves, a copy that is not counted, and a bound that is not said."""
    code, out, content = asked(capsys, folder, chain(3), machine(2))
    assert code == 0
    assert "one device:  3 ms a run, 5 kB of 1 GB" in out
    assert "throughput:  666.7 runs/s by a whole copy on each of 2; no partition is faster" in out
    assert re.search("latency: +3 ms on one device; every split.*; the optimum", out)
    assert "fast memory: no device has one that a program fills itself" in out
    assert out.rstrip().endswith("the machine: made up")
    assert content["throughput"]["value"] == pytest.approx(2 / 3e-3)
    assert content["latency"]["proved"] == content["one_device"]["proved"] == "all"
    assert content["fast_memory"]["verdict"] == "not-asked"
    judged(capsys, content)


def test_what_fits_in_parts_alone(capsys, folder):
    """Three products of 100 MB on three devices of 150 MB: one each, 1 ms and two tensors of 1 us.
    Would catch memory that is no part of the answer."""
    code, out, content = asked(capsys, folder, chain(3, 100 * MB), machine(3, 150 * MB))
    assert code == 0
    assert "one device:  does not fit: 300 MB of 150 MB" in out
    assert "throughput:  998 runs/s on 3 of 3, fullest 100 MB of 150 MB; the optimum" in out
    assert content["one_device"]["verdict"] == "does-not-fit"
    assert content["throughput"]["value"] == pytest.approx(1 / 1.002e-3)
    assert content["latency"]["value"] == pytest.approx(3.002e-3)
    assert all(peak <= 150 * MB for peak in content["latency"]["peak_bytes"])
    judged(capsys, content)


def test_what_does_not_fit_says_what_would(capsys, folder):
    """One product alone needs its 100 MB and 2,000 bytes. Would catch exit 0, and a least memory
    that is not said."""
    code, out, content = asked(capsys, folder, chain(3, 100 * MB), machine(3, 50 * MB))
    assert code == 1 and out.count("does not fit") == 3
    for row in (content["throughput"], content["latency"]):
        assert row["verdict"] == "does-not-fit" and row["value"] is None
        assert row["least_memory_bytes"] == 100 * MB + 2000


def test_a_bound_is_beside_what_is_not_proved(capsys, folder):
    """Forty pairs of products over four devices. Would catch an answer above one device's time, or
    a gap that is not from its own bound."""
    graph = chain(1)
    for i in range(80):
        graph["ops"].append({"name": f"p{i}", "kind": "dot_general", "flop": 1e9 * (1 + i % 7)})
        tensor = {"name": f"u{i}", "producer": f"p{i}", "bytes": 1000, "consumers": []}
        graph["tensors"] += [tensor | {"output": True}]
        graph["tensors"][0]["consumers"].append(f"p{i}")
    code, out, content = asked(capsys, folder, graph, machine(4, link=1e12, transfers="queued"))
    row, alone = content["latency"], content["one_device"]["value"]
    assert code == 0 and alone / 4 * (1 - 1e-9) <= row["bound"] <= row["value"] <= alone
    if row["proved"] == "none":
        gap = float(re.search("latency: .*at most (.*)% above", out)[1])
        assert gap < 20 and "on 4 of 4" in out and "% below one device" in out
    judged(capsys, content)


def test_unknown_costs_are_no_estimate(capsys, folder):
    """Would catch a time that looks like one."""
    many = chain(3, kind="einsum", unknown_ops={"einsum": 3})
    _, out, content = asked(capsys, folder, many, machine(1))
    assert "! 3 ops of unknown cost: einsum" in out
    assert "100% of the FLOP here: the times below are no estimate of this model" in out
    assert content["model"]["unknown_share"] == 1.0 and content["model"]["unknown"] == {"einsum": 3}
    few = chain(30)
    few["ops"][1]["kind"] = "einsum"
    few["metadata"] = {"unknown_ops": {"einsum": 1}}
    assert "the times below are at least so long" in asked(capsys, folder, few, machine(1))[1]


def test_the_fast_memory_is_one_of_the_problems(capsys, folder):
    """By the judge of paper 1, on a page that needs no network. Would catch pictures from
    elsewhere, and names that become markup."""
    hardware = machine(1)
    fast = {"bytes": 10**6, "bytes_per_s": 1e13, "copy_bytes_per_s": 1e12}
    hardware["devices"][0] |= {"fast_memory": fast, "flop_per_s": 1e15}
    graph = chain(3, 10**5) | {"name": "<b>chain"}
    words = ("--problem", "fast-memory", "--html", "p.html")
    code, out, content = asked(capsys, folder, graph, hardware, *words)
    assert code == 0 and "throughput" not in content and "of what 1 MB could save" in out
    row = content["fast_memory"]
    costs = answer(capsys, "check", "mmap", "g.json", row["out"])["costs"]
    assert costs["return"] == pytest.approx(row["value"]) and row["value"] <= row["bound"] + 1e-9
    page = (folder / "p.html").read_text()
    assert "<svg" in page and "<b>" not in page and "&lt;b&gt;chain" in page
    assert not re.search(r"(src|href)=.?https?:|@import|<script|<link", page)


def test_more_devices_than_schedules_take(capsys, folder):
    """Nine: would catch an error in place of the other answers."""
    code, out, content = asked(capsys, folder, chain(2), machine(9))
    assert code == 0 and "schedules are for at most 8 devices" in out
    assert content["latency"]["verdict"] == "not-asked"


def test_one_device_without_room(capsys, folder):
    """300 MB of weights on 150 MB fit by no means. Would catch a fault of ours where no second
    device is there to be compared with."""
    code, out, content = asked(capsys, folder, chain(3, 100 * MB), machine(1, 150 * MB))
    assert code == 1 and out.count("does not fit") == 3
    assert content["latency"]["value"] is None
    code, _, content = asked(capsys, folder, chain(3), machine(1, 4000))
    assert code == 1 and content["latency"]["verdict"] != "fits"


def test_copies_pass_the_bound_of_partitions(capsys, folder):
    """One product of a millisecond: in parts 1,000 runs a second at most, three copies give 3,000.
    Would catch a bound below its value."""
    row = asked(capsys, folder, chain(1), machine(3))[2]["throughput"]
    assert row["value"] == pytest.approx(3000) == row["bound"] and row["proved"] == "all"


def test_what_was_assumed_is_said(capsys, folder):
    """Would catch weights that are taken for data in silence, and op times that look as if they
    were of this machine."""
    out = asked(capsys, folder, chain(3, 0), machine(2))[1]
    assert "no argument is taken for weights" in out
    timed = chain(3)
    for op in timed["ops"]:
        op["seconds"] = 1e-3
    out = asked(capsys, folder, timed, machine(2))[1]
    assert "the file says the time of each op: the same on every device" in out
    assert "no argument" not in asked(capsys, folder, chain(3), machine(2))[1]


def test_compiling_takes_none_of_the_time(monkeypatch, tmp_path):
    """Compiling twice as long as the limit, before each method. Would catch searches that a first
    use leaves out."""
    (tmp_path / "g.json").write_text(json.dumps(chain(40)))
    paper, ran = problem("regal"), []
    task, measured = paper.task(read_graph(tmp_path / "g.json")), auto.measured

    def noted(problem, task, name, outcome, budget):
        ran.append(name)
        return measured(problem, task, name, outcome, budget)

    monkeypatch.setattr(auto, "warm_up", lambda *_: time.sleep(1.0))
    monkeypatch.setattr(auto, "measured", noted)
    monkeypatch.setattr(auto, "_proved", lambda *_: auto.NONE)
    auto.answer(paper, task, Budget(seconds=0.5))
    assert ran == ["one-device", "list-scheduler", "local-search"]


def test_what_is_left_is_shared_by_what_is_to_come(monkeypatch, capsys, folder):
    """Two problems, for there is no fast memory. Would catch a third of the time that nobody
    takes, and one limit for each of them."""
    shares, answered = [], answers.answer

    def noted(paper, task, clock, share, **options):
        shares.append((paper.name, share, clock.limit_s))
        return answered(paper, task, clock, share, **options)

    monkeypatch.setattr(answers, "answer", noted)
    asked(capsys, folder, chain(3), machine(2))
    assert shares[:2] == [("mcm", 0.5, 3.0), ("regal", 1.0, 3.0)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("map", "graph.json"), "--machine"),
        (("map", "none.json", "--machine", "paper-2"), "no such file"),
        (("map", "graph.json", "--machine", "paper-9"), "did you mean paper-"),
        (("map", "graph.json", "--machine", "paper-2", "--html", "x.txt"), ".html"),
        (("map", "graph.json", "--machine", "paper-2", "--problem", "speed"), "invalid choice"),
        (("map", "program.json", "--machine", "paper-2"), "expected learned-mapping/graph/1"),
    ],
)
def test_bad_usage_is_one_line(capsys, folder, words, said):
    assert said in refusal(capsys, *words)


@pytest.mark.parametrize("paper", ["mmap", "mcm", "regal"])
def test_solve_chooses_a_method(capsys, folder, paper):
    """Would catch an answer that no judge saw, and one that a rule alone beats."""
    line = ["--method", "auto", "--seconds", "2", "--out", "s.json", "--json"]
    code, out, _ = run(capsys, "solve", paper, "graph.json", *line)
    solved = json.loads(out)
    assert code == 0 and solved["method"] != "auto"
    assert answer(capsys, "check", "graph.json", "s.json")["costs"] == solved["costs"]
    said = refusal(capsys, "solve", paper, "graph.json", *line, "--samples", "3")
    assert "--samples: is for one method" in said


def test_auto_says_what_does_not_fit(capsys, folder):
    (folder / "m.json").write_text(json.dumps(machine(2, 5000)))
    line = ["--machine", "m.json", "--method", "auto", "--seconds", "1", "--out", "s.json"]
    code, _, err = run(capsys, "solve", "mcm", "graph.json", *line)
    assert code == 1 and "does not fit" in one_line(err.splitlines(keepends=True)[-1])


def test_sizes_and_times_in_words():
    assert [size(n) for n in (0, 999, 1000, 2.19e9)] == ["0 B", "999 B", "1 kB", "2.19 GB"]
    assert [span(s) for s in (0.0, 2e-9, 3.14e-3, 12.5)] == ["0 ns", "2 ns", "3.14 ms", "12.5 s"]


def test_links_listed_pair_by_pair(capsys, folder):
    """Would catch one device with the links of all of them, which was refused."""
    table = [[0, 1e9, 2e9], [1e9, 0, 1e9], [2e9, 1e9, 0]]
    hardware = machine(3, link=table, topology="pairs")
    code, out, content = asked(capsys, folder, chain(3), hardware)
    assert code == 0 and "one device:  3 ms a run" in out
    assert content["throughput"]["value"] == pytest.approx(1e3)


def test_whole_copies_read_weights_at_their_own_rate(capsys, folder):
    """Three copies are the bound where weights are near. Would catch a copy priced with its weights
    in memory, a split that is said to be best, and no word where the rate is not used."""
    graph = chain(8, 10**6, kind="add")
    for op in graph["ops"]:
        op["flop"] = 1e6 if op["kind"] != "input" else 0
    hardware = machine(3, link=1e11)
    hardware["devices"][0] |= {"memory_bytes_per_s": 1e11, "weight_bytes_per_s": 1e13}
    code, out, content = asked(capsys, folder, graph, hardware)
    row = content["throughput"]
    assert code == 0 and row["by"] == "whole copies" and "no partition is faster" in out
    assert row["value"] == pytest.approx(row["bound"])
    assert "latency count weights at memory_bytes_per_s" in out


def test_ops_that_are_tied_to_a_chip(capsys, folder):
    """Would catch an error after the first rows for a graph that schedules do not know."""
    graph = chain(3)
    graph["ops"][1]["chip"] = 0
    code, out, content = asked(capsys, folder, graph, machine(2))
    assert code == 0 and content["latency"]["verdict"] == "not-asked"
    assert "an op has a chip or a group" in out and content["throughput"]["value"]


def test_auto_has_nothing_beside_it(capsys, folder):
    (folder / "g.json").write_text(json.dumps(chain(3)))
    line = ["solve", "mcm", "g.json", "--method", "auto", "--alone", "--out", "o.json"]
    code, _, err = run(capsys, *line)
    assert code == 2 and "--alone: is for one method" in err


def test_a_partition_comes_in_as_many_copies_as_alike_devices_take(capsys, folder):
    """Two products of a millisecond whose weights need a device each: 1,000 runs/s on two of four,
    and as many on the other two. Catches half of a machine that idles at what is called best."""
    code, out, content = asked(capsys, folder, chain(2, 600_000), machine(4, MB))
    row = content["throughput"]
    assert code == 0 and "by 2 copies of a partition over 2 devices" in out
    assert row["value"] == pytest.approx(2000, rel=1e-2) and row["proved"] == "none"
    assert row["value"] <= row["bound"] == pytest.approx(2000, rel=1e-2)
    assert [held > 0 for held in row["peak_bytes"]] == [True] * 4
    _, _, content = asked(capsys, folder, chain(4, 600_000), machine(4, MB))
    assert content["throughput"]["proved"] != "none"  # all weights need three devices


def test_weights_that_several_ops_use_prove_nothing(capsys, folder):
    """Catches a model that is proved not to fit since a weight counts for each of its uses."""
    graph = chain(3, 6 * MB, parameter_bytes=6 * MB)
    code, out, content = asked(capsys, folder, graph, machine(1, 10 * MB))
    for name in ("one_device", "throughput", "latency"):
        assert content[name]["verdict"] == answers.NOTHING and "not proved" in content[name]["text"]
        assert content[name]["least_memory_bytes"] is None
    assert code == 1 and "proved whatever" not in out
    assert (
        "18 MB of weights, of 6 MB of parameters"
        in run(capsys, "map", "g.json", "--machine", "m.json", "--seconds", "1")[1]
    )


def test_what_takes_no_time_has_no_rate(capsys, folder):
    """Catches a number of runs that is one over the smallest number there is."""
    graph = chain(1)
    graph["ops"][1] |= {"kind": "input", "flop": 0, "weight_bytes": 0}
    graph["ops"] = graph["ops"][:1]
    graph["tensors"] = [graph["tensors"][0] | {"consumers": [], "output": True}]
    _, out, content = asked(capsys, folder, graph, machine(1))
    assert "takes no time by this model" in out and content["throughput"]["value"] is None
