"""Pictures of paper 1's results: what is drawn is what the rows say, and the same twice."""

from __future__ import annotations

import pytest
from matplotlib.patches import Rectangle

from learned_mapping.companion.figures.mmap_network import network
from learned_mapping.companion.figures.mmap_results import (
    curves,
    drop_backup,
    return_against_latency,
    returns,
    scaling,
    speedups,
)
from learned_mapping.style import svg_text


def row(instance: str, method: str, metric: str, value: float, **extra) -> dict:
    return {"instance": instance, "method": method, "metric": metric, "value": value,
            "low": value, "high": value, "n": 3, **extra}  # fmt: skip


def test_bars_start_at_one_and_the_fastest_is_on_top():
    """Would catch a slowdown drawn as a gain, and programs in the order of the rows."""
    rows = []
    for name, agent in (("slow", 0.5), ("fast", 1.25)):
        rows += [row(name, "muzero", "speedup", agent), row(name, "prod", "speedup", max(agent, 1.0))]
    figure = speedups(rows)
    (axes,) = figure.axes
    bars = [(bar.get_y() + bar.get_height() / 2, bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert bars == [(0, 1, 0.25), (1, 1, -0.5)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fast", "slow"]
    (marks,) = [c for c in axes.collections if len(c.get_offsets()) == 2]
    assert marks.get_offsets().tolist() == [[1.25, 0], [1.0, 1]]
    assert svg_text(figure) == svg_text(speedups(rows))


def test_every_solution_is_a_dot():
    """Would catch axes that are swapped, seconds drawn as milliseconds, and a group in the other's row."""
    rows = []
    for name, group in (("a", "best"), ("b", "worst")):
        rows += [row(name, m, "latency_s", 0.002 * i, group=group, **{"return": 0.1 * i}) for i, m in
                 enumerate(("random", "greedy", "muzero"), 1)]  # fmt: skip
        rows += [row(name, "mixed", "correlation", -0.5, group=group)]
        rows += [row(name, "mixed", "rank_correlation", None, group=group)]
    figure = return_against_latency(rows)
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    for axes in figure.axes:
        dots = sorted(tuple(c.get_offsets()[0].tolist()) for c in axes.collections)
        assert dots == [pytest.approx((0.1 * i, 2.0 * i)) for i in (1, 2, 3)]
        assert [text.get_text() for text in axes.texts] == ["r -0.50"]


def test_curves_over_games_are_not_those_over_seconds():
    def curve(last: float, unit: str) -> dict:
        return {"x": [1, last], "y": [0.2, 0.4], "low": [0.1, 0.3], "high": [0.3, 0.5], "x_unit": unit}

    rows = [row("one", "muzero", "return", 0.4, curve=curve(60.0, "s"))]
    rows += [row("one", "muzero", "return_by_games", 0.4, curve=curve(5000, "games"))]
    for metric, last in (("return", 60.0), ("return_by_games", 5000)):
        (axes,) = curves(rows, metric=metric, x_label="x").axes
        assert [line.get_xdata()[-1] for line in axes.lines] == [last]


def test_a_single_run_goes_on_as_a_level():
    curve = {"x": [1.0, 2.0], "y": [0.2, 0.4], "low": [0.2, 0.4], "high": [0.2, 0.4], "x_unit": "s"}
    long = {**curve, "x": [1.0, 60.0]}
    rows = [
        {**row("one", "greedy", "return", 0.4, curve=curve), "n": 1},
        row("one", "muzero", "return", 0.4, curve=long),
    ]
    (axes,) = curves(rows).axes
    assert [list(line.get_xdata()) for line in axes.lines] == [[1, 2], [2, 60], [1, 60]]


def test_a_negative_return_has_no_length():
    bars = [p for p in returns([row("one", "muzero", "return", -0.2)]).axes[0].patches if isinstance(p, Rectangle)]
    assert [bar.get_width() for bar in bars] == [0.0]


def test_the_network_is_drawn_from_its_shapes():
    """Would catch a box with a number that is typed."""
    shapes = {"map_in_0": [3, 3, 4, 6], "map_0_0_conv_0": [3, 3, 6, 6], "map_flat": [96, 7], "profile": [64, 7],
              "supply": [5, 7], "buffer_0": [10, 9], "buffer_out": [9, 2], "buffers": [22, 7], "actions": [26, 7],
              "join_0": [35, 11], "join_out": [11, 13]}  # fmt: skip
    rows = [
        row("p", "muzero-paper", "parameters", 1000 + i, part="representation", module=name, shapes={"w": shape})
        for i, (name, shape) in enumerate(shapes.items())
    ]
    seen = {"window": 8, "profile": 64, "supply": 5, "next_buffers": 5, "same_tensor_buffers": 5}
    rows.append(row("p", "muzero-paper", "parameters_total", 99_999, representation=seen, block=2))
    text = svg_text(network(rows, "p"))
    for expected in ("conv 3 x 3, 4 to 6 + 1 residual", "linear 96 to 7", "linear 10 to 9", "linear 22 to 7", "64 bits",
                     "linear 35 to 11", "linear 11 to 13", "11 of 10 features", "99,999", "26 numbers"):  # fmt: skip
        assert expected in text


def test_drop_backup_shows_dead_ends_where_there_are_any():
    curve = {"x": [1, 9], "y": [0.1, 0.4], "low": [0.1, 0.3], "high": [0.1, 0.5], "x_unit": "games"}
    rows = [row("met", "random-no-backup", "lost", 0.25), row("none", "random-no-backup", "lost", 0.0)]
    rows += [row("met", m, "mean_return", 0.4, curve=curve) for m in ("muzero-paper", "muzero-no-backup")]
    figure = drop_backup(rows)
    left, right = figure.axes
    assert [bar.get_height() for bar in left.patches] == [0.25] and "1 of 2" in left.get_title()
    assert len(right.lines) == 2


def test_scaling_has_a_panel_per_unit():
    rows = []
    for size in (100, 10):
        rows += [
            row("p", "random", "step_us", 2.0, buffers=size),
            row("p", "muzero-paper", "train_ms", 5.0, buffers=size),
        ]
        rows += [row("p", "muzero", "games_per_s", 50.0, buffers=size)]
    figure = scaling(rows, {"train_ms": "a training step"})
    assert [[line.get_xdata().tolist() for line in axes.lines] for axes in figure.axes] == [[[10, 100]]] * 3
