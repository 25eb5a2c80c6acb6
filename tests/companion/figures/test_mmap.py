"""Pictures of mappings: what is drawn is what the mapping says."""

import numpy as np

from learned_mapping.mmap.draw import layout, picture, tensor_colour
from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.draw import live_bytes
from learned_mapping.programs.program import Program
from learned_mapping.style import byte_unit, svg_text
from learned_mapping_companion.figures.mmap import actions_figure, moves_figure, tradeoff_figure
from learned_mapping_companion.figures.mmap_results import curves, returns


def toy_game() -> tuple[Program, Mapping]:
    """The optimum of the toy: x held over [0, 3] at 0, w over [1, 2] at 4."""
    program = toy_program()
    game = Game(program)
    for action in (1, 1, 2, 2, 0, 1):
        game.step(action)
    played = game.played()
    return program, make_mapping(program, played.action, played.offset, played.start, played.end)


def rectangles(figure) -> list[tuple[float, float, float, float]]:
    return sorted(extent for extent in drawn(figure.axes[0]))


def drawn(axes) -> list[tuple[float, float, float, float]]:
    """(x, y, width, height) of every path of the collections."""
    extents = [
        path.get_extents() for collection in axes.collections for path in collection.get_paths()
    ]
    return [(box.x0, box.y0, box.width, box.height) for box in extents]


def test_layout_draws_each_allocation_where_it_is():
    """Catches swapped axes, an interval that misses its last step, and buffers drawn that hold
    nothing new."""
    program, mapping = toy_game()
    assert rectangles(layout(program, mapping)) == [(0, 0, 4, 4), (1, 4, 2, 4)]


def test_axes_are_labelled_with_units():
    program, mapping = toy_game()
    for figure in (layout(program, mapping), moves_figure(program, mapping, [1, 3, 6])):
        text = svg_text(figure)
        assert "bytes" in text and ("logical time" in text or "step" in text)
    assert byte_unit(64 * 2**20) == (2**20, "MiB") and byte_unit(8) == (1.0, "bytes")


def test_tradeoffs_are_those_of_the_game():
    """x written at step 0: Copy holds [0, 1] and uses step 1's supply, NoCopy holds [0, 3], Drop
    nothing."""
    figure = tradeoff_figure(toy_program(), [])
    held = [
        [(x, y, width) for x, y, width, height in drawn(axes) if height == 4]
        for axes in figure.axes[:3]
    ]
    assert held == [[(0, 0, 2)], [(0, 0, 4)], []]
    left = [[bar.get_height() for bar in axes.patches[4:]] for axes in figure.axes[3:]]
    assert left == [[1, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]


def test_what_an_action_would_hold_is_outlined():
    """A panel for each action that places: the interval and the offset of the stored row, over what
    is decided."""
    program = toy_program()
    copy = {
        "method": "copy",
        "steps": 2,
        "start": 1,
        "end": 2,
        "offset": 4,
        "bytes": 4,
        "copy_s": 1e-6,
    }
    keep = {
        "method": "nocopy",
        "steps": 3,
        "start": 0,
        "end": 2,
        "offset": 4,
        "bytes": 4,
        "copy_s": 0.0,
    }
    drop = {
        "method": "drop",
        "steps": 0,
        "start": -1,
        "end": -1,
        "offset": -1,
        "bytes": 4,
        "copy_s": 0.0,
    }
    figure = actions_figure(program, [{**copy, "moves": [1, 1, 2, 2]}, keep, drop])
    assert [axes.get_title() for axes in figure.axes] == [
        "Copy: 2 steps, 1.0 µs of copying",
        "NoCopy: 3 steps",
    ]
    outlined = [[patch.get_bbox().bounds for patch in axes.patches] for axes in figure.axes]
    assert outlined == [[(1, 4, 2, 4)] * 2, [(0, 4, 3, 4)] * 2]
    assert all(drawn(axes) == [(0, 0, 4, 4)] for axes in figure.axes)


def test_show_is_svg_and_repeatable():
    """With and without a mapping; twice the same text."""
    program, mapping = toy_game()
    for arguments in ((program,), (program, mapping)):
        text = svg_text(picture(*arguments))
        assert text.startswith("<svg") and text.rstrip().endswith("</svg>")
        assert svg_text(picture(*arguments)) == text


def test_live_bytes_by_hand():
    """x (4 bytes) lives over [0, 3], y (8) over [1, 2], the parameter w (4) over [0, 2]."""
    assert live_bytes(toy_program()).tolist() == [8, 16, 16, 4]


def test_neighbouring_tensors_differ_in_colour():
    for tensor in range(200):
        difference = np.array(tensor_colour(tensor)) - np.array(tensor_colour(tensor + 1))
        assert np.abs(difference).max() > 0.15


def test_result_figures_hold_every_method():
    """Catches a method that falls out of a legend or a panel that is missing."""
    curve = {
        "x": [0.1, 1.0, 2.0],
        "y": [0.2, 0.3, 0.4],
        "low": [0.1, 0.2, 0.3],
        "high": [0.3, 0.4, 0.5],
        "x_unit": "s",
    }
    rows = []
    for instance in ("one", "two"):
        for method in ("random", "greedy-tuned", "edit-search"):
            row = {
                "instance": instance,
                "method": method,
                "value": 0.4,
                "low": 0.3,
                "high": 0.5,
                "n": 5,
            }
            rows.append({**row, "metric": "return", "curve": curve})
            rows.append({**row, "metric": "gap_percent"})
    for figure in (curves(rows, {"one": 0.9}), returns(rows, [], {"one": 0.9})):
        text = svg_text(figure)
        for name in ("one", "two", "random", "greedy-tuned", "edit-search"):
            assert name in text
