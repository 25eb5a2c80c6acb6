"""The row of chips shows the model's seconds and the graph's bytes."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch, Rectangle

from learned_mapping.companion.figures.mcm import LOAD, WIDEST_POINTS, package_drawing, traffic
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.rules.constraints import EXAMPLE_PACKAGE, EXAMPLE_PARTITIONS, example_graph


def test_traffic_by_hand():
    """a, b on 0, d on 2, c, e on 1, f on 3: a tensor counts once, up to its last user. 16 KiB each."""
    graph = example_graph()
    found = traffic(graph, np.array([0, 0, 1, 2, 1, 3]))
    kib = {pair: size // 1024 for pair, size in found.items()}
    assert kib == {(0, 1): 16, (0, 2): 16, (1, 3): 16, (2, 3): 16}
    assert traffic(graph, np.zeros(6, int)) == {}


def test_boxes_are_the_models_latencies():
    """Would catch loads of another partition or scale, and arcs that do not grow with the bytes."""
    graph = example_graph()
    shown = {
        "valid": make_partition([0, 0, 1, 1, 2, 2], 4),
        "memory": make_partition(EXAMPLE_PARTITIONS["memory"], 4),
    }
    figure = package_drawing(graph, shown, EXAMPLE_PACKAGE)
    model = ChipModel(graph, EXAMPLE_PACKAGE)
    times = [model.latencies(partition.assignment) for partition in shown.values()]
    longest = max(t.max() for t in times)
    largest = max(traffic(graph, shown["valid"].assignment).values())
    for axes, seconds, partition in zip(figure.axes, times, shown.values()):
        boxes = [p for p in axes.patches if isinstance(p, Rectangle)]
        filled = [boxes[3 * c].get_height() + boxes[3 * c + 1].get_height() for c in range(4)]
        np.testing.assert_allclose(filled, seconds * LOAD / longest)
        assert f"{seconds.max() * 1e6:,.4g} µs" in axes.get_title(loc="left")
        arcs = [p.get_linewidth() for p in axes.patches if isinstance(p, FancyArrowPatch)]
        sizes = traffic(graph, partition.assignment).values()
        assert sorted(arcs) == sorted(WIDEST_POINTS * size / largest for size in sizes)


def test_what_has_no_chips_times_is_refused():
    """Would catch a picture of a partition whose edges run back, and one over other chips."""
    graph = example_graph()
    for partition in (make_partition(EXAMPLE_PARTITIONS["acyclic"], 4), make_partition([0] * 6, 3)):
        with pytest.raises(InputError, match=r"Eq\. 2"):
            package_drawing(graph, {"x": partition}, EXAMPLE_PACKAGE)
