import xml.etree.ElementTree

import numpy as np
import pytest

from by_hand import hand_graph
from learned_mapping.errors import InputError
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.draw import gantt, picture
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.searches.proposals import law_of
from learned_mapping.style import svg_text
from learned_mapping_companion.figures import regal as figures
from learned_mapping_companion.figures.schematics import schematic


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
    assert top == pytest.approx(memory.lines[2].get_ydata()[0]), (
        "the curves reach the dotted line of the peak"
    )


def test_a_broken_schedule_is_not_drawn(graph):
    with pytest.raises(InputError, match="every op once"):
        picture(graph, Schedule.of(np.zeros(30, int), np.zeros((0, 2), int), 2))


def test_extreme_graphs_are_drawn():
    """One op without tensors and without time; a thousand ops."""
    lone = make_graph(
        name="<lone> & co",
        op_names=["a"],
        op_kinds=["input"],
        op_flop=[0],
        tensor_names=[],
        tensor_producer=[],
        tensor_bytes=[],
        edge_tensor=[],
        edge_consumer=[],
    )
    assert "svg" in svg_text(picture(lone)) and "svg" in svg_text(
        picture(lone, Schedule.of([0], [(0, -1)], 2))
    )
    assert "svg" in svg_text(picture(random_graph(np.random.default_rng(0), "towers", 1000)))


def test_result_figures_show_what_the_rows_say():
    rows = [
        {
            "instance": d,
            "method": m,
            "metric": "gap_percent",
            "value": v,
            "low": v - 1,
            "high": v + 1,
        }
        for d in ("traced-runtime", "synthetic-runtime")
        for m, v in (("brkga", 12.3), ("random", 45.6))
    ]
    figure = figures.gap_bars(
        {"rows": rows, "paper": [{**rows[0], "value": 20.19}]}, ["brkga", "random"]
    )
    assert len(figure.axes) == 2
    assert {"12.3", "45.6"} <= {text.get_text() for text in figure.axes[0].texts}
    rows = [
        {
            "instance": f"{n} ops",
            "ops": n,
            "method": "brkga",
            "metric": "seconds_by_size",
            "value": n / 1e3,
        }
        for n in (100, 50)
    ]
    line = figures.seconds_by_size({"rows": rows, "paper": []}).axes[0].lines[0]
    assert line.get_xdata().tolist() == [50, 100]


def test_memory_falls_when_a_tensor_is_sent_away():
    """By hand: a makes x (8 bytes) on device 0; b runs there (y, 4 bytes, an output), then x is
    sent, and freed."""
    graph = hand_graph(
        3,
        [(0, 1), (0, 2)],
        op_seconds=[1.0, 4.0, 2.0],
        tensor_bytes=[8, 4, 2],
        tensor_is_output=[False, True, True],
    )
    order = [(0, -1), (1, -1), (0, 1), (2, -1)]
    memory = gantt(graph, Schedule.of([0, 0, 1], order, 2)).axes[1]
    curves = [list(zip(*(d.tolist() for d in line.get_data()))) for line in memory.lines[:2]]
    assert curves[0] == [(0, 0), (0, 8), (1, 8), (1, 12), (5, 12), (5, 12), (5, 4), (7, 4)]
    assert curves[1] == [(0, 0), (5, 8), (5, 8), (5, 10), (7, 2), (7, 2)]


def row(instance, name, value, **more):
    return {
        "instance": instance,
        "method": name,
        "metric": "improvement_percent",
        "value": value,
    } | more


def test_every_graph_is_in_the_histogram():
    """Catches edges that leave out the best or the worst graph, and a title of other numbers."""
    values = (-3.2, 0.0, 0.0, 41.0)
    rows = [
        row(str(i), name, value)
        for name in ("regal", "spectral-law")
        for i, value in enumerate(values)
    ]
    figure = figures.improvement_histogram({"rows": rows, "paper": [row("best", "regal", 54.3)]})
    for axes in figure.axes:
        assert sum(bar.get_height() for bar in axes.patches) == len(values)
    assert figure.axes[0].get_title(loc="left") == "regal\n-3.2 to +41.0 %"


def test_limits_come_in_order():
    """Catches points in the order of the rows, and datasets drawn in one panel."""
    rows = [
        row(str(limit), name, limit / scale, low=0.0, high=99.0, dataset=dataset)
        for dataset, scale in (("traced-memory", 1e3), ("traced-runtime", 1e2))
        for name in ("brkga", "regal")
        for limit in (9000, 500)
    ]
    one, two = figures.improvement_by_limit({"rows": rows}).axes
    assert one.lines[0].get_xdata().tolist() == [500, 9000] and one.lines[
        0
    ].get_ydata().tolist() == [0.5, 9.0]
    assert two.lines[0].get_ydata().tolist() == [5.0, 90.0]
    assert "500 evaluations" in one.get_ylabel()


def test_the_paint_is_the_law():
    """By hand: device 1 certain for op 1, device 0 for op 0, nothing known of the others."""
    graph = random_graph(np.random.default_rng(0), "layered", 20)
    affinity = np.ones((20, 3, 2))
    affinity[1, 1] = affinity[0, 0] = (1e6, 1.0)
    affinity[1, 0] = affinity[0, 1] = (1.0, 1e6)
    law = law_of(affinity)
    assert figures.preference(graph, law) == pytest.approx([0.0, 1.0] + [0.5] * 18, abs=1e-5)
    assert svg_text(figures.painted_law(graph, law)) == svg_text(figures.painted_law(graph, law))


def test_the_method_shows_the_weights():
    names = {
        "node_encoder": 10,
        "edge_encoder": 2000,
        "message_forward": 3,
        "message_backward": 4,
        "node_update": 5,
        "head_0_a": 6,
        "head_0_b": 7,
    }
    rows = [{"instance": k, "metric": "parameters", "value": v} for k, v in names.items()]
    figure = schematic(
        "regal.fig1", [*rows, {"instance": "rounds", "metric": "rounds", "value": 5}]
    )
    text = " ".join(t.get_text() for t in figure.axes[0].texts)
    assert (
        "messages: 7 weights" in text
        and "2,000" in text
        and "priority: 13 weights" in text
        and "5 rounds" in text
    )


FAR = ("trained", "new-family", "four-devices")


def test_dots_and_refusals():
    """Catches a dot at another distance, one panel's dots in the other, and a refusal drawn as no
    gain."""
    rows = []
    for k, network in enumerate(figures.NETWORK_TITLES):
        for i, distance in enumerate(FAR[:2]):
            row = {
                "instance": f"{network}/{distance}",
                "method": "regal",
                "metric": "improvement_percent",
            }
            if (k, i) != (1, 1):
                rows.append(row | {"value": 10.0 * k + i, "low": -1.0, "high": 30.0})
        rows.append(
            {
                "instance": f"{network}/four-devices",
                "method": "regal",
                "metric": "refused",
                "value": True,
            }
        )
    figure = figures.gains_by_distance({"rows": rows})
    first, second = figure.axes
    lines = [panel.containers[0].lines[0] for panel in figure.axes]
    assert list(zip(*(d.tolist() for d in lines[0].get_data()))) == [(0.0, 0.0), (1.0, 1.0)]
    assert list(zip(*(d.tolist() for d in lines[1].get_data()))) == [(10.0, 0.0)]
    assert [label.get_text() for label in first.get_yticklabels()] == [
        "trained",
        "new family",
        "four devices",
    ]
    for panel in (first, second):
        assert [(text.get_text(), text.get_position()[1]) for text in panel.texts] == [
            ("regal refuses", 2.0)
        ]


def test_machines_stand_in_the_order_of_the_table():
    """Catches a method's dots at another machine, and a method that is drawn without rows."""
    rows = [
        {
            "instance": f"{kind}-runtime/{machine}", "method": method, "metric": "over_one_device",
            "value": value + shift, "low": value + shift - 0.1, "high": value + shift + 0.2,
        }
        for kind, shift in (("traced", 0.0), ("synthetic", 0.01))
        for machine, value in (("free", 0.5), ("70 GB/s", 0.9))
        for method in ("regal", "brkga")
    ]  # fmt: skip
    panels = figures.over_one_device({"rows": rows}).axes
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["free", "70 GB/s"]
    (brkga, regal) = (container.lines[0].get_data() for container in panels[1].containers)
    assert brkga[0].tolist() == regal[0].tolist() == pytest.approx([0.51, 0.91])
    assert (regal[1] - brkga[1]).tolist() == pytest.approx([0.13, 0.13])
