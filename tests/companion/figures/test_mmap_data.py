"""Pictures of the data: what stands in them is what was given."""

from __future__ import annotations

import numpy as np

from learned_mapping.companion.figures.mmap_results import buffers_figure, sizes_figure
from learned_mapping.style import svg_text


def test_a_bar_per_workload_with_its_number():
    """Would catch a bar that is not its workload's, a number left out, and a picture that differs from run to run."""
    figure = buffers_figure(
        ["small", "large"], [200, 9000], ["b", "a"], paper_range=(169, 16_490), paper_buffers={"large": 9084}
    )
    (axes,) = figure.axes
    assert [patch.get_width() for patch in axes.patches if patch.get_height() == 0.72] == [200, 9000]
    assert [text.get_text() for text in axes.texts] == ["200", "9,000"]
    assert axes.get_xscale() == "log" and axes.get_xlim()[0] < 169 and axes.get_xlim()[1] > 16_490
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    text = svg_text(figure)
    assert text == svg_text(figure) and "16,490" in text


def test_shares_end_at_one():
    """Would catch a curve that is not the share of members at most that large."""
    figure = sizes_figure({"train": np.array([40, 10, 20, 10])})
    x, y = figure.axes[0].lines[0].get_data()
    assert list(x) == [10, 10, 10, 20, 40] and list(y) == [0, 0.25, 0.5, 0.75, 1.0]
