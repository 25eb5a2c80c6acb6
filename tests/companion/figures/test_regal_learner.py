from __future__ import annotations

import numpy as np
import pytest

from learned_mapping.companion.figures.regal import (
    improvement_by_limit,
    improvement_histogram,
    painted_law,
    preference,
)
from learned_mapping.companion.figures.schematics import schematic
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.searches.proposals import law_of
from learned_mapping.style import svg_text


def row(instance, name, value, **more):
    return {"instance": instance, "method": name, "metric": "improvement_percent", "value": value} | more


def test_every_graph_is_in_the_histogram():
    """Catches edges that leave out the best or the worst graph, and a title of other numbers."""
    values = (-3.2, 0.0, 0.0, 41.0)
    rows = [row(str(i), name, value) for name in ("regal", "spectral-law") for i, value in enumerate(values)]
    figure = improvement_histogram({"rows": rows, "paper": [row("best", "regal", 54.3)]})
    for axes in figure.axes:
        assert sum(bar.get_height() for bar in axes.patches) == len(values)
    assert figure.axes[0].get_title(loc="left") == "regal: -3.2 to +41.0 %"


def test_limits_come_in_order():
    """Catches points in the order of the rows, and datasets drawn in one panel."""
    rows = [
        row(str(limit), name, limit / scale, low=0.0, high=99.0, dataset=dataset)
        for dataset, scale in (("traced-memory", 1e3), ("traced-runtime", 1e2))
        for name in ("brkga", "regal")
        for limit in (9000, 500)
    ]
    one, two = improvement_by_limit({"rows": rows}).axes
    assert one.lines[0].get_xdata().tolist() == [500, 9000] and one.lines[0].get_ydata().tolist() == [0.5, 9.0]
    assert two.lines[0].get_ydata().tolist() == [5.0, 90.0]
    assert "500 evaluations" in one.get_ylabel()


def test_the_paint_is_the_law():
    """By hand: device 1 certain for op 1, device 0 for op 0, nothing known of the others."""
    graph = random_graph(np.random.default_rng(0), "layered", 20)
    affinity = np.ones((20, 3, 2))
    affinity[1, 1] = affinity[0, 0] = (1e6, 1.0)
    affinity[1, 0] = affinity[0, 1] = (1.0, 1e6)
    law = law_of(affinity)
    assert preference(graph, law) == pytest.approx([0.0, 1.0] + [0.5] * 18, abs=1e-5)
    assert svg_text(painted_law(graph, law)) == svg_text(painted_law(graph, law))


def test_the_method_shows_the_weights():
    names = {"node_encoder": 10, "edge_encoder": 2000, "message_forward": 3, "message_backward": 4, "node_update": 5,
             "head_0_a": 6, "head_0_b": 7}  # fmt: skip
    rows = [{"instance": k, "metric": "parameters", "value": v} for k, v in names.items()]
    figure = schematic("regal.fig1", [*rows, {"instance": "rounds", "metric": "rounds", "value": 5}])
    text = " ".join(t.get_text() for t in figure.axes[0].texts)
    assert "messages: 7 weights" in text and "2,000" in text and "priority: 13 weights" in text and "5 rounds" in text
