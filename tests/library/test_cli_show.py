"""``lmap show``: pictures of instances and solutions, whatever their names and sizes."""

import json

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from cli_files import GRAPH, MAPPING, PROGRAM, SLOW, edited, run
from learned_mapping.mcm import draw as chips
from learned_mapping.mcm.partition import make_partition, partition_to_json
from learned_mapping.programs.formats import write_graph
from learned_mapping.programs.json_io import write_json
from learned_mapping.regal import draw as devices
from learned_mapping.regal.schedule import Schedule, schedule_to_json


@pytest.mark.parametrize(
    "files", ["graph", "mcm graph", "regal graph", "graph schedule", "graph partition"]
)
def test_show_draws_graphs(capsys, folder, files):
    named = [name if name in ("mcm", "regal") else f"{name}.json" for name in files.split()]
    code, _out, err = run(capsys, "show", *named, "--out", "picture.svg")
    assert code == 0 and "<svg" in (folder / "picture.svg").read_text(), err


def test_show_says_that_a_solution_is_invalid(capsys, folder):
    """Would catch a picture of overlapping buffers that looks as good as any."""
    for changed, said in ((None, ""), (3, "is drawn as it is, but invalid")):
        mapping = (
            MAPPING if changed is None else edited("mapping", "decisions", 1, "end", value=changed)
        )
        (folder / "one.json").write_text(json.dumps(mapping))
        code, _out, err = run(capsys, "show", "program.json", "one.json", "--out", "picture.svg")
        assert code == 0 and err.count("\n") == bool(said) and said in err


@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf", ".html"])
@pytest.mark.parametrize("name", ["$\\frac{$", "名前 <b>&amp;", "x" * 1000])
def test_names_are_text_in_pictures(folder, capsys, name, ending):
    """A dollar was a formula, and a font without the letters four lines of warnings."""
    for kind, value in (("graph", GRAPH), ("program", PROGRAM)):
        renamed = json.loads(
            json.dumps(value).replace('"a"', json.dumps(name)).replace('"p"', json.dumps(name))
        )
        write_json(f"{kind}2.json", renamed | {"name": name})
        code, _, err = run(capsys, "show", f"{kind}2.json", "--out", f"picture{ending}")
        assert code == 0 and err == "" and (folder / f"picture{ending}").stat().st_size > 1000


def test_large_inputs_are_drawn_small(folder, capsys):
    """1,689 ops on 16 chips and hundreds of transfers were a black page of megabytes."""

    graph = hand_graph(1700, chain_edges(1700), tensor_bytes=[1000] * 1700)
    write_graph("g.json", graph)
    write_json("p.json", partition_to_json(make_partition(np.arange(1700) * 16 // 1700, 16), graph))
    place = np.arange(1700) % 2
    order = [(0, -1)]
    for i in range(1, 1700):
        order += [(i - 1, int(place[i])), (i, -1)]
    write_json("s.json", schedule_to_json(Schedule.of(place, order, 2), graph))
    for solution, said in (("p.json", "in all"), ("s.json", "bundled")):
        assert run(capsys, "show", "g.json", solution, "--out", "x.svg")[0] == 0
        text = (folder / "x.svg").read_text()
        assert said in text and len(text) < 1_000_000


def test_a_picture_shows_the_hardware_that_its_solution_was_made_for(folder, capsys, monkeypatch):
    """A partition for slow chips, and a schedule with free transfers, were drawn on the default
    hardware."""

    shown = []
    for module in (chips, devices):
        monkeypatch.setattr(
            module,
            "picture",
            lambda *given, draw=module.picture: shown.append(given) or draw(*given),
        )
    (folder / "slow.json").write_text(SLOW)
    for paper, options in (("mcm", ["--machine", "slow.json"]), ("regal", ["--transfers", "free"])):
        method = {"mcm": "greedy-careful", "regal": "list-scheduler"}[paper]
        assert (
            run(
                capsys,
                "solve",
                paper,
                "graph.json",
                "--method",
                method,
                *options,
                "--out",
                "s.json",
            )[0]
            == 0
        )
        assert run(capsys, "show", "graph.json", "s.json", "--out", "s.svg")[0] == 0
    assert shown[0][2].flop_per_s == 1e6 and shown[0][2].chips == 2
    assert shown[1][2].transfers == "free"


def test_options_of_another_paper_are_passed_over_alike(folder, capsys):
    """By the judge, as they always were, and by the picture."""
    for field, kind in (("program", "mapping"), ("graph", "schedule")):
        solution = json.loads((folder / f"{kind}.json").read_text())
        options = {"package": {}, "objective": "memory", "chips": 3}
        solution["made"] = {"method": "m", "by": "m", "seed": 0, "samples": 1, "options": options}
        (folder / "other.json").write_text(json.dumps(solution))
        assert run(capsys, "check", f"{field}.json", "other.json")[0] == 0
        code, _, err = run(capsys, "show", f"{field}.json", "other.json", "--out", "o.svg")
        assert (code, err) == (0, "")


def of_two(first, last, tables, **memory):
    """A program of two instructions: a parameter of `first` bytes, an array between them, an output
    of `last`."""
    tensors = [{"name": "a", "bytes": first, "parameter": True}, {"name": "b", "bytes": 2 * last}]
    tensors.append({"name": "c", "bytes": first, "output": True})
    ends = [("a", "b"), ("b", "c")]
    buffers = [[{"tensor": x, "role": "input"}, {"tensor": y, "role": "output"}] for x, y in ends]
    fields = [
        {"name": f"i{i}", "kind": "f", "buffers": buffers[i], "latency_s": tables[i]}
        for i in (0, 1)
    ]
    return PROGRAM | {
        "memory": memory | {"copy_bytes_per_s": 10.0},
        "tensors": tensors,
        "instructions": fields,
    }


def test_a_program_of_one_size_has_a_picture(folder, capsys, recwarn):
    """Its axis of bytes has a length: nothing is said on the way, and there are numbers on it."""
    large = of_two(4, 2**49, [[4, 3, 2, 1]] * 2, fast_bytes=2**50)
    (folder / "large.json").write_text(json.dumps(large))
    assert run(capsys, "show", "large.json", "--out", "o.svg")[0] == 0 and not recwarn.list
    assert "ytick_1" in (folder / "o.svg").read_text()
