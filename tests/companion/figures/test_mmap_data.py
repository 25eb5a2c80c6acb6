"""Pictures of the data: what stands in them is what was given."""

from __future__ import annotations

import numpy as np
import pytest

from learned_mapping.companion.figures.mmap import to_svg
from learned_mapping.companion.figures.mmap_data import buffers_figure, sizes_figure, xla_layout

MIB = 2**20


def layout(**changed):
    values = {"start": [0, 2], "end": [3, 5], "offset": [0, MIB], "size": [MIB, 2 * MIB], "colour_key": [1, 1]}
    return xla_layout(*(np.array(each) for each in (values | changed).values()), capacity=4 * MIB)


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
    text = to_svg(figure)
    assert text == to_svg(figure) and "16,490" in text


def test_shares_end_at_one():
    """Would catch a curve that is not the share of members at most that large."""
    figure = sizes_figure({"train": np.array([40, 10, 20, 10])})
    x, y = figure.axes[0].lines[0].get_data()
    assert list(x) == [10, 10, 10, 20, 40] and list(y) == [0, 0.25, 0.5, 0.75, 1.0]


def test_a_rectangle_per_stay():
    """Would catch a stay drawn a step too short: both ends are included."""
    (axes,) = layout().axes
    boxes = [path.get_extents().extents.tolist() for path in axes.collections[0].get_paths()]
    assert boxes == [[0, 0, 4, 1], [2, 1, 6, 3]]
    first, second = axes.collections[0].get_facecolor()
    assert (first == second).all()
    assert axes.get_xlim() == (0, 6) and axes.get_ylabel().endswith("(MiB)")


@pytest.mark.parametrize("changed", [{"end": [3]}, {"end": [3, 1]}, {"start": [[0, 2]]}])
def test_arrays_that_do_not_fit_are_refused(changed):
    with pytest.raises(ValueError, match=r"one length|stay 1"):
        layout(**changed)
