"""Tests of paper 2's figures and artifacts on small instances."""

import xml.etree.ElementTree

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch, Rectangle

from by_hand import hand_graph
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.draw import picture
from learned_mapping.mcm.methods import solve
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.rules.constraints import EXAMPLE_PACKAGE, EXAMPLE_PARTITIONS, example_graph
from learned_mapping.mcm.validate import validate
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.style import svg_text
from learned_mapping_companion.figures import mcm as figures


def test_show_is_svg_and_reproducible():
    """Catches a picture with a date or random ids in it, and one that fails on an invalid
    partition."""
    graph = random_graph(np.random.default_rng(0), "towers", 60)
    partition = solve(graph, "greedy-careful", chips=4).solution
    assert svg_text(picture(graph, partition)) == svg_text(picture(graph, partition))
    assert "<svg" in svg_text(picture(graph, partition))
    backwards = make_partition(np.arange(60) % 2, 2)
    assert "runs back" in svg_text(picture(graph, backwards))


def test_bars_end_at_the_slowest_chip():
    """Catches bars that do not add up to the model's latencies."""
    graph = example_graph()
    partition = make_partition(EXAMPLE_PARTITIONS["valid"], 4)
    bars = picture(graph, partition).axes[1]
    top = max(p.get_y() + p.get_height() for p in bars.patches)
    assert np.isclose(top, 1e3 * validate(graph, partition).costs["runtime_s"])


def test_cases_have_a_panel_each():
    cases = [
        {
            "metric": "verdict",
            "method": "x",
            "assignment": EXAMPLE_PARTITIONS["valid"],
            "value": "valid",
        }
    ] * 3
    assert (
        len([axes for axes in figures.broken_example({"rows": cases}).axes if axes.get_visible()])
        == 3
    )


def test_a_picture_is_well_formed_whatever_the_names():
    """Catches names that break the SVG, and drawings that fail on one op or without any time."""
    lone = make_graph(
        name="<lone> & co",
        op_names=["<a&b>"],
        op_kinds=["input"],
        op_flop=[0],
        tensor_names=[],
        tensor_producer=[],
        tensor_bytes=[],
        edge_tensor=[],
        edge_consumer=[],
    )
    for partition in (make_partition([0], 1), make_partition([1], 3)):
        assert xml.etree.ElementTree.fromstring(svg_text(picture(lone, partition))).tag.endswith(
            "svg"
        )


def test_transfers_are_drawn_as_the_model_has_them():
    """By hand: of a -> b one 3,200-byte tensor crosses one link of 32 GB/s, so 0.1 us on either
    side."""
    graph = hand_graph(2, [(0, 1)], op_seconds=[1e-6, 2e-6], tensor_bytes=[3200, 0])
    bars = picture(
        graph, make_partition([0, 1], 2), ChipPackage(chips=2, link_bytes_per_s=32e9)
    ).axes[1]
    operations, links = bars.containers
    assert np.allclose([patch.get_height() for patch in operations], [1e-3, 2e-3])
    assert np.allclose([patch.get_height() for patch in links], [1e-4, 1e-4])


def test_result_figures_show_what_the_rows_say():
    rows = [
        {
            "instance": name,
            "method": method,
            "metric": "gap_percent",
            "value": gap,
            "low": gap - 1,
            "high": gap + 2,
        }
        for name in ("bert", "resnet50-4")
        for method, gap in (("sa", 25.0), ("random", 110.0), ("optimum", 0.0))
    ]
    axes = figures.gap_bars({"rows": rows}, ["sa", "random"]).axes[0]
    assert {text.get_text() for text in axes.texts} == {"1.25", "2.10"}, (
        "the optimum itself has no bar"
    )
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bert", "resnet50-4"]
    assert len(figures.gap_bars({"rows": rows}, ["sa"]).axes[0].patches) == 2
    key = {"instance": "bert", "metric": "throughput"}
    curve = {"x": [1, 10], "y": [2.0, 4.0], "x_unit": "samples"}
    rows = [
        {**key, "method": "sa", "value": 4.0, "curve": curve},
        {**key, "method": "optimum", "value": 9.0},
    ]
    lines = {
        line.get_label(): line
        for line in figures.search_curves({"rows": rows}, "bert").axes[0].lines
    }
    assert list(lines["sa"].get_ydata()) == [2.0, 4.0] and set(lines["optimum"].get_ydata()) == {
        9.0
    }


def test_rules_are_named_on_their_lines_where_fewer_curves_are():
    """Catches three dotted lines that only a legend tells apart, and a name between the curves'
    ends."""
    curve = {"x": [1, 10], "y": [0.5, 1.75], "x_unit": "samples"}
    rows = [row("sa", "improvement", 1.75, curve=curve)]
    rows += [row("optimum", "improvement", 1.8), row("greedy-naive", "improvement", 0.6)]
    rules = ("optimum", "greedy-naive")
    (axes,) = figures.curves({"rows": rows}, "improvement", "over", rules=rules).axes
    assert [(t.get_text(), t.get_ha()) for t in axes.texts] == [
        ("optimum", "left"),
        ("greedy-naive", "right"),
    ]
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["sa"]


def row(method, metric, value, **more):
    return {"instance": "bert", "method": method, "metric": metric, "value": value, "n": 1, **more}


def test_the_scatter_has_the_valid_partitions_normalised():
    """Catches invalid partitions drawn as infinitely fast, and a normalisation by the invalid
    ones."""
    scatter = {"predicted": [4.0, 1.0, 2.0], "measured": [9.0, 0.0, 3.0]}
    figure = figures.predicted_against_measured(
        {"rows": [row("near-balanced", "pearson", 0.9, scatter=scatter)]}
    )
    points = figure.axes[0].lines[0]
    np.testing.assert_allclose(points.get_xdata(), [2.0, 1.0])
    np.testing.assert_allclose(points.get_ydata(), [3.0, 1.0])
    assert "2 of a seed's 3 run" in figure.axes[0].get_title()


def test_bars_say_what_does_not_fit():
    rows = [
        row("optimum", "over_optimum", 1.0, low=1.0, high=1.0),
        row("class-search", "over_optimum", 1.07, low=1.05, high=1.08) | {"n": 5},
        row("sa", "over_optimum", 0.0, low=0.0, high=0.0),
    ]
    axes = figures.method_bars({"rows": rows}).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "optimum",
        "class-search",
        "sa",
    ]
    assert [text.get_text() for text in axes.texts] == ["1.000", "1.070", "does not run"]


def test_traffic_by_hand():
    """a, b on 0, d on 2, c, e on 1, f on 3: a tensor counts once, up to its last user. 16 KiB
    each."""
    graph = example_graph()
    actual = figures.traffic(graph, np.array([0, 0, 1, 2, 1, 3]))
    kib = {pair: size // 1024 for pair, size in actual.items()}
    assert kib == {(0, 1): 16, (0, 2): 16, (1, 3): 16, (2, 3): 16}
    assert figures.traffic(graph, np.zeros(6, int)) == {}


def test_boxes_are_the_models_latencies():
    """Would catch loads of another partition or scale, and arcs that do not grow with the bytes."""
    graph = example_graph()
    shown = {
        "valid": make_partition([0, 0, 1, 1, 2, 2], 4),
        "memory": make_partition(EXAMPLE_PARTITIONS["memory"], 4),
    }
    figure = figures.package_drawing(graph, shown, EXAMPLE_PACKAGE)
    model = ChipModel(graph, EXAMPLE_PACKAGE)
    times = [model.latencies(partition.assignment) for partition in shown.values()]
    longest = max(t.max() for t in times)
    largest = max(figures.traffic(graph, shown["valid"].assignment).values())
    for axes, seconds, partition in zip(figure.axes, times, shown.values()):
        boxes = [p for p in axes.patches if isinstance(p, Rectangle)]
        filled = [boxes[3 * c].get_height() + boxes[3 * c + 1].get_height() for c in range(4)]
        np.testing.assert_allclose(filled, seconds * figures.LOAD / longest)
        assert f"{seconds.max() * 1e6:,.4g} µs" in axes.get_title(loc="left")
        arcs = [p.get_linewidth() for p in axes.patches if isinstance(p, FancyArrowPatch)]
        sizes = figures.traffic(graph, partition.assignment).values()
        assert sorted(arcs) == sorted(figures.WIDEST_POINTS * size / largest for size in sizes)


def test_what_has_no_chips_times_is_refused():
    """Would catch a picture of a partition whose edges run back, and one over other chips."""
    graph = example_graph()
    for partition in (make_partition(EXAMPLE_PARTITIONS["acyclic"], 4), make_partition([0] * 6, 3)):
        with pytest.raises(InputError, match=r"Eq\. 2"):
            figures.package_drawing(graph, {"x": partition}, EXAMPLE_PACKAGE)
