"""``lmap solve regal`` on links that cost, on more devices, and on small graphs."""

import dataclasses

import numpy as np
import pytest

from cli_files import answer, run
from learned_mapping.hardware.devices import Devices
from learned_mapping.programs.formats import write_graph
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.bounds.cp_sat import cp_sat
from learned_mapping.regal.rules.instance import Instance


@pytest.fixture
def layered(folder):
    """A file with a graph of 70 ops, and the graph."""
    graph = random_graph(np.random.default_rng(70), "layered", 70)
    write_graph(folder / "layered.json", graph)
    return "layered.json", graph


@pytest.mark.parametrize("transfers", ["rendezvous", "free", "queued"])
@pytest.mark.parametrize("method", ["brkga", "local-search", "gp-dfs", "cut"])
def test_no_answer_takes_longer_than_one_device(capsys, layered, transfers, method):
    """Links so slow that every cut loses; what solve writes, check judges on the same links."""
    name, graph = layered
    seconds = Instance(graph).arrays.seconds
    slow = str(float(graph.tensor_bytes.mean() / seconds.sum()))
    options = ["--transfers", transfers, "--link-bytes-per-s", slow, "--devices", "4"]
    limit = ["--samples", "300", "--method", method, "--out", "s.json", "--json"]
    solved = answer(capsys, "solve", "regal", name, *options, *limit)
    rule = method == "gp-dfs"  # a rule is as it is
    assert rule or solved["costs"]["makespan_s"] <= seconds.sum() * (1 + 1e-12)
    verdict = answer(capsys, "check", "regal", name, "s.json")
    assert verdict["valid"] and verdict["costs"] == solved["costs"]
    free = answer(capsys, "check", "regal", name, "s.json", "--link-bytes-per-s", "1e300")
    assert free["costs"]["makespan_s"] <= solved["costs"]["makespan_s"]


def test_a_network_says_that_it_sees_no_links(capsys, layered):
    line = ["solve", "regal", layered[0], "--method", "regal", "--samples", "300"]
    code, _, said = run(capsys, *line, "--out", "s.json", "--link-latency-s", "1e-6")
    assert code == 0 and "trained for free links" in said
    assert "free links" not in run(capsys, *line, "--out", "t.json")[2]


@pytest.mark.parametrize("transfers", ["rendezvous", "free"])
def test_a_small_graph_gets_what_the_solver_finds(capsys, folder, transfers):
    """Graphs on which the decoder of the searches cannot say every schedule."""
    for seed in range(3):
        graph = random_graph(np.random.default_rng(seed), "layered", 12)
        graph = dataclasses.replace(graph, name=f"small-{seed}")
        write_graph(folder / "small.json", graph)
        line = ["solve", "regal", "small.json", "--method", "random", "--samples", "200"]
        line += ["--transfers", transfers, "--out", "s.json", "--json"]
        solved = answer(capsys, *line)
        optimum = cp_sat(Instance(graph, Devices(transfers=transfers)))
        assert optimum.optimal
        assert solved["costs"]["makespan_s"] == pytest.approx(optimum.cost, rel=1e-5)
