from __future__ import annotations

import xml.etree.ElementTree

import numpy as np
import pytest

from learned_mapping.companion.figures.regal import gap_bars, seconds_by_size
from learned_mapping.errors import InputError
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.draw import gantt, picture
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.style import svg_text


@pytest.fixture(scope="module")
def graph():
    return random_graph(np.random.default_rng(0), "layered", 30)


@pytest.fixture(scope="module")
def schedule(graph):
    instance = Instance(graph)
    return decode(instance, np.random.default_rng(1).random(instance.chromosome_length))


def test_a_picture_is_the_same_each_time_and_well_formed(graph, schedule):
    """Catches a date or a random id in the SVG, which would change the book at every build."""
    for solution in (None, schedule):
        text = svg_text(picture(graph, solution))
        assert text == svg_text(picture(graph, solution))
        assert xml.etree.ElementTree.fromstring(text).tag.endswith("svg")


def test_the_chart_holds_every_op_and_the_peak(graph, schedule):
    figure = gantt(graph, schedule)
    chart, memory = figure.axes
    assert sum(len(bars.get_paths()) for bars in chart.collections) == graph.num_ops
    top = max(line.get_ydata().max() for line in memory.lines[:2])
    assert top == pytest.approx(memory.lines[2].get_ydata()[0]), "the curves reach the dotted line of the peak"


def test_a_broken_schedule_is_not_drawn(graph):
    with pytest.raises(InputError, match="every op once"):
        picture(graph, Schedule.of(np.zeros(30, int), np.zeros((0, 2), int), 2))


def test_extreme_graphs_are_drawn():
    """One op without tensors and without time; a thousand ops."""
    lone = make_graph(name="<lone> & co", op_names=["a"], op_kinds=["input"], op_flop=[0], tensor_names=[],
                      tensor_producer=[], tensor_bytes=[], edge_tensor=[], edge_consumer=[])  # fmt: skip
    assert "svg" in svg_text(picture(lone)) and "svg" in svg_text(picture(lone, Schedule.of([0], [(0, -1)], 2)))
    assert "svg" in svg_text(picture(random_graph(np.random.default_rng(0), "towers", 1000)))


def test_result_figures_show_what_the_rows_say():
    rows = [
        {"instance": d, "method": m, "metric": "gap_percent", "value": v, "low": v - 1, "high": v + 1}
        for d in ("traced-runtime", "synthetic-runtime")
        for m, v in (("brkga", 12.3), ("random", 45.6))
    ]
    figure = gap_bars({"rows": rows, "paper": [{**rows[0], "value": 20.19}]}, ["brkga", "random"])
    assert len(figure.axes) == 2
    assert {"12.3", "45.6"} <= {text.get_text() for text in figure.axes[0].texts}
    rows = [
        {"instance": f"{n} ops", "ops": n, "method": "brkga", "metric": "seconds_by_size", "value": n / 1e3}
        for n in (100, 50)
    ]
    line = seconds_by_size({"rows": rows, "paper": []}).axes[0].lines[0]
    assert line.get_xdata().tolist() == [50, 100]


def test_memory_falls_when_a_tensor_is_sent_away():
    """By hand: a makes x (8 bytes) on device 0; b runs there (y, 4 bytes, an output), then x is sent, and freed."""
    graph = make_graph(
        name="fork", op_names=["a", "b", "c"], op_kinds=["op"] * 3, op_flop=[0] * 3, op_seconds=[1.0, 4.0, 2.0],
        tensor_names=["x", "y", "z"], tensor_producer=[0, 1, 2], tensor_bytes=[8, 4, 2],
        tensor_is_output=[False, True, True], edge_tensor=[0, 0], edge_consumer=[1, 2],
    )  # fmt: skip
    order = [(0, -1), (1, -1), (0, 1), (2, -1)]
    memory = gantt(graph, Schedule.of([0, 0, 1], order, 2)).axes[1]
    curves = [list(zip(*(d.tolist() for d in line.get_data()))) for line in memory.lines[:2]]
    assert curves[0] == [(0, 0), (0, 8), (1, 8), (1, 12), (5, 12), (5, 12), (5, 4), (7, 4)]
    assert curves[1] == [(0, 0), (5, 8), (5, 8), (5, 10), (7, 2), (7, 2)]
