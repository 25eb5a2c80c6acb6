"""Tests of the figures of silicon."""

from __future__ import annotations

import numpy as np

from learned_mapping.companion.figures.mcm import svg_text
from learned_mapping.companion.figures.mcm_silicon import method_bars, predicted_against_measured


def row(method, metric, value, **more):
    return {"instance": "bert", "method": method, "metric": metric, "value": value, "n": 1, **more}


def test_the_scatter_has_the_valid_partitions_normalised():
    """Catches invalid partitions drawn as infinitely fast, and a normalisation by the invalid ones."""
    scatter = {"predicted": [4.0, 1.0, 2.0], "measured": [9.0, 0.0, 3.0]}
    figure = predicted_against_measured({"rows": [row("near-balanced", "pearson", 0.9, scatter=scatter)]})
    points = figure.axes[0].lines[0]
    np.testing.assert_allclose(points.get_xdata(), [2.0, 1.0])
    np.testing.assert_allclose(points.get_ydata(), [3.0, 1.0])
    assert "2 of 3 partitions run" in figure.axes[0].get_title() and "<svg" in svg_text(figure)


def test_bars_say_what_does_not_fit():
    rows = [
        row("optimum", "over_optimum", 1.0, low=1.0, high=1.0),
        row("class-search", "over_optimum", 1.07, low=1.05, high=1.08) | {"n": 5},
        row("sa", "over_optimum", 0.0, low=0.0, high=0.0),
    ]
    axes = method_bars({"rows": rows}).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["optimum", "class-search", "sa"]
    assert [text.get_text() for text in axes.texts] == ["1.000", "1.070", "does not fit"]
