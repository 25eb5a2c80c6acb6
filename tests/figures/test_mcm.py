"""Tests of paper 2's figures and artifacts on small instances."""

from __future__ import annotations

import numpy as np

from learned_mapping.experiments.mcm import ARTIFACTS, EXAMPLE_PARTITIONS, example_run
from learned_mapping.figures.mcm import broken_rules, partition_drawing, show
from learned_mapping.mcm.example import example_graph
from learned_mapping.mcm.methods import solve
from learned_mapping.mcm.partition import make_partition
from learned_mapping.programs.synthetic import random_graph


def test_show_is_svg_and_reproducible():
    """Catches a picture with a date or random ids in it, and one that fails on an invalid partition."""
    graph = random_graph(np.random.default_rng(0), "towers", 60)
    partition = solve(graph, "greedy-careful", chips=4).solution
    assert show(graph, partition) == show(graph, partition)
    assert "<svg" in show(graph)
    backwards = make_partition(np.arange(60) % 2, 2)
    assert "runs back" in show(graph, backwards)


def test_bars_end_at_the_slowest_chip():
    """Catches bars that do not add up to the model's latencies."""
    graph = example_graph()
    partition = make_partition(EXAMPLE_PARTITIONS["valid"], 4)
    bars = partition_drawing(graph, partition).axes[1]
    top = max(p.get_y() + p.get_height() for p in bars.patches)
    assert np.isclose(top, 1e3 / solve_throughput(graph, partition))


def solve_throughput(graph, partition):
    from learned_mapping.mcm.validate import validate

    return validate(graph, partition).costs["throughput"]


def test_example_artifact_assembles():
    """Catches rows that do not say which rule each case breaks."""
    artifact = next(a for a in ARTIFACTS if a.id == "mcm.fig2")
    records = [
        {"method": r.method, "instance": r.instance, "config": r.config, "result": example_run(r.method, "", {}, 0)}
        for r in artifact.plan("quick", 1)
    ]
    rows = artifact.assemble("quick", records)["rows"]
    broken = {r["method"]: r["value"] for r in rows if r["metric"] == "broken_rules"}
    assert broken == {"valid": 0, "acyclic": 1, "skipping": 1, "triangle": 1, "memory": 1}
    cases = [{"title": "x", "assignment": EXAMPLE_PARTITIONS["valid"], "rule": ""}] * 3
    assert len(broken_rules(example_graph(), cases, 4).axes) == 4
