"""Pictures of paper 1's results: what is drawn is what the rows say, and the same twice."""

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.patches import Rectangle

from learned_mapping.style import svg_text
from learned_mapping_companion import results
from learned_mapping_companion.figures import mmap_results as figures
from learned_mapping_companion.figures.charts import method_colour
from learned_mapping_companion.figures.schematics import schematic
from learned_mapping_companion.mmap.facts import FIG4

METHODS = ("edit-search", "edit-search-prod")


def row(instance: str, method: str, metric: str, value: float, **extra) -> dict:
    return {"instance": instance, "method": method, "metric": metric, "value": value,
            "low": value, "high": value, "n": 3, **extra}  # fmt: skip


def test_bars_start_at_one_and_the_fastest_is_on_top():
    """Would catch a slowdown drawn as a gain, and programs in the order of the rows: the faster half
    is on the left."""
    rows = []
    for name, agent in (("slow", 0.5), ("fast", 1.25)):
        rows += [
            row(name, "edit-search", "speedup", agent),
            row(name, "edit-search-prod", "speedup", max(agent, 1.0)),
        ]
    figure = figures.speedups(rows, methods=METHODS)
    for axes, name, gain, mark in zip(figure.axes, ("fast", "slow"), (0.25, -0.5), (1.25, 1.0)):
        (bar,) = axes.patches
        assert (bar.get_y() + bar.get_height() / 2, bar.get_x(), bar.get_width()) == (0, 1, gain)
        assert [label.get_text() for label in axes.get_yticklabels()] == [name]
        (marks,) = [c for c in axes.collections if isinstance(c, PathCollection)]
        assert marks.get_offsets().tolist() == [[mark, 0]]
    assert svg_text(figure) == svg_text(figures.speedups(rows, methods=METHODS))


def test_the_rule_at_prices_is_ahead_on_most_programs_and_the_mean_is_no_program():
    """Catches a caption that its figure does not bear out, and a row over all drawn as one of the
    sixty."""
    rows = results.load("mmap.table3")["rows"]
    speed = {(r["method"], r["instance"]): r["value"] for r in rows if r["metric"] == "speedup"}
    names = [name for method, name in speed if method == "muzero" and name != "all"]
    ahead = sum(speed["priced", name] > speed["muzero", name] for name in names)
    panels = figures.speedups(rows, methods=("priced", "muzero")).axes
    drawn = [label.get_text() for axes in panels for label in axes.get_yticklabels()]
    assert sorted(drawn) == sorted(names) and ahead > 0.75 * len(names) == 45


def test_every_game_is_a_dot():
    """Would catch axes that are swapped, cycles drawn as millions of them, and a group in the
    other's row."""
    rows = []
    for name, group in (("a", "best"), ("b", "worst")):
        rows += [
            row(name, "muzero", "cycles", 2e6 * i, group=group, **{"return": 0.1 * i})
            for i in (1, 2, 3)
        ]
        rows += [row(name, "muzero", "correlation", -0.5, group=group)]
        rows += [
            row(name, "muzero", "near_correlation", None, group=group),
            row(name, "muzero", "games", 9.0),
        ]
    figure = figures.return_against_latency(rows)
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    for axes in figure.axes:
        (dots,) = axes.collections
        assert dots.get_offsets().tolist() == [pytest.approx((0.1 * i, 2.0 * i)) for i in (1, 2, 3)]
        assert [text.get_text() for text in axes.texts] == ["r -0.50"]


def test_curves_over_games_are_not_those_over_seconds():
    def curve(last: float, unit: str) -> dict:
        return {
            "x": [1, last],
            "y": [0.2, 0.4],
            "low": [0.1, 0.3],
            "high": [0.3, 0.5],
            "x_unit": unit,
        }

    rows = [row("one", "muzero", "return", 0.4, curve=curve(60.0, "s"))]
    rows += [row("one", "muzero", "return_by_games", 0.4, curve=curve(5000, "games"))]
    for metric, last in (("return", 60.0), ("return_by_games", 5000)):
        (axes,) = figures.curves(rows, metric=metric, x_label="x").axes
        assert [line.get_xdata()[-1] for line in axes.lines] == [last] and axes.get_xlim()[
            1
        ] == last


def test_a_single_run_goes_on_as_a_level():
    curve = {"x": [1.0, 2.0], "y": [0.2, 0.4], "low": [0.2, 0.4], "high": [0.2, 0.4], "x_unit": "s"}
    long = {**curve, "x": [1.0, 60.0]}
    rows = [
        {**row("one", "greedy", "return", 0.4, curve=curve), "n": 1},
        row("one", "muzero", "return", 0.4, curve=long),
    ]
    (axes,) = figures.curves(rows).axes
    assert [list(line.get_xdata()) for line in axes.lines] == [[1, 2], [2, 60], [1, 60]]


def test_a_negative_return_has_no_length():
    bars = [
        p
        for p in figures.returns([row("one", "muzero", "return", -0.2)]).axes[0].patches
        if isinstance(p, Rectangle)
    ]
    assert [bar.get_width() for bar in bars] == [0.0]


def test_the_network_is_drawn_from_its_shapes():
    """Would catch a box with a number that is typed."""
    weights = {
        ("representation", "first"): [545, 11],
        ("representation", "second"): [11, 12],
        ("dynamics", "first"): [13, 14],
        ("dynamics", "second"): [14, 15],
        ("dynamics", "reward_out"): [15, 16],
        ("prediction", "first"): [17, 18],
        ("prediction", "policy_out"): [18, 3],
        ("prediction", "value_out"): [18, 19],
    }
    shapes = {key: {"w": shape} for key, shape in weights.items()}
    tables = {"buffer_id": [21, 5], "tensor_id": [22, 5], "group_id": [23, 5], "place": [21, 12]}
    shapes["representation", "~"] = {f"{name}_table": shape for name, shape in tables.items()}
    rows = [
        row("p", "network", "parameters", 1000, part=part, module=name, shapes=shape)
        for (part, name), shape in shapes.items()
    ]
    rows.append(row("p", "network", "parameters_total", 99_999, sees={"map": 128, "live": 40}))
    text = svg_text(schematic("mmap.fig4 network", rows))
    for expected in (
        "545 to 11",
        "11 to 12",
        "reward: 15 to 16",
        "policy: 18 to 3",
        "value: 18 to 19",
        "168 numbers",
        "map 128",
        "tensor: 22 x 5",
        "place: 21 x 12",
        "3,000 parameters",
        "99,999",
    ):
        assert expected in text


def test_the_papers_network_is_drawn_from_its_modules():
    """Would catch a box with a number that is typed, and the light network in its place."""
    rows = FIG4.result([])["rows"]
    total = next(
        r["value"]
        for r in rows
        if (r["method"], r["metric"]) == ("paper network", "parameters_total")
    )
    text = svg_text(schematic("mmap.fig4 paper network", rows))
    for expected in (
        f"{total:,}",
        "10 convolutions, 5 to 32",
        "3 residual blocks: 256, 512, 256",
        "policy: 512 to 3",
    ):
        assert expected in text, expected
    assert svg_text(schematic("mmap.fig4 network", rows)) != text


def test_drop_backup_shows_dead_ends_where_there_are_any():
    rows = [
        row("met", "random-no-backup", "lost", 0.25),
        row("none", "random-no-backup", "lost", 0.0),
    ]
    (axes,) = figures.drop_backup(rows).axes
    assert [bar.get_height() for bar in axes.patches] == [0.25] and "1 of 2" in axes.get_title()


def test_a_training_is_a_line_beside_what_does_not_learn():
    """Would catch a panel that holds another program's training, and a row without a game drawn as
    0."""
    curve = [{"cpu_s": 1.0, "cold": None, "best": 0.2}, {"cpu_s": 9.0, "cold": 0.5, "best": 0.6}]
    actual = [
        {"program": name, "method": "muzero", "seed": seed, "curve": curve}
        for name in "ab"
        for seed in (0, 1)
    ]
    figure = figures.learning(actual, {"a": {"bound": 0.9}})
    assert [len(axes.lines) for axes in figure.axes] == [5, 4]
    assert [line.get_ydata().tolist() for line in figure.axes[1].lines[:2]] == [[0.5], [0.2, 0.6]]
    assert figure.axes[0].lines[-1].get_ydata()[0] == 0.9 and figure.axes[0].get_xscale() == "log"


def test_a_bar_per_workload_with_its_number():
    """Would catch a bar that is not its workload's, a number left out, and a picture that differs
    from run to run."""
    rows = [
        {"instance": "small", "value": 200, "family": "b"},
        {"instance": "large", "value": 9000, "family": "a"},
    ]
    paper = [
        {"instance": n, "value": v}
        for n, v in (("smallest", 169), ("largest", 16_490), ("large", 9084))
    ]
    figure = figures.buffers(rows, paper)
    (axes,) = figure.axes
    assert [patch.get_width() for patch in axes.patches if patch.get_height() == 0.72] == [
        200,
        9000,
    ]
    assert [text.get_text() for text in axes.texts] == ["200", "9,000"]
    assert axes.get_xscale() == "log" and axes.get_xlim()[0] < 169 and axes.get_xlim()[1] > 16_490
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    text = svg_text(figure)
    assert text == svg_text(figure) and "16,490" in text


def test_shares_end_at_one():
    """Would catch a curve that is not the share of members at most that large."""
    figure = figures.sizes_figure({"train": np.array([40, 10, 20, 10])})
    x, y = figure.axes[0].lines[0].get_data()
    assert list(x) == [10, 10, 10, 20, 40] and list(y) == [0, 0.25, 0.5, 0.75, 1.0]


def test_no_two_arms_of_a_figure_have_one_colour():
    """Catches a method without a colour of its own, which takes that of another."""
    for artifact in ("mmap.fig7", "mmap.table2"):
        rows = [
            row
            for row in results.load(artifact)["rows"]
            if row["metric"] == "return" and "curve" in row
        ]
        methods = {row["method"] for row in rows}
        assert len({method_colour(method) for method in methods}) == len(methods) > 3, artifact
