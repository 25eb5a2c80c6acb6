"""Figure 8: which program and tensor are shown follows from the rules, and what is said of them
from the mappings."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from learned_mapping.errors import InputError
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.style import INK
from learned_mapping_companion import results
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.figures.mmap import layouts as draw
from learned_mapping_companion.mmap import speedup as layouts

BUFFERS = [
    # tensor, output?, action, start, end
    (0, 0, COPY, 0, 1),
    (0, 0, NO_COPY, 2, 4),
    (0, 0, NO_COPY, 5, 4),
    (0, 0, COPY, 5, 6),
    (0, 0, DROP, -1, -1),
    (1, 1, NO_COPY, 0, 6),
    (1, 0, NO_COPY, 7, 6),
    (2, 0, COPY, 0, 0),
    (2, 0, COPY, 2, 2),
    (2, 0, COPY, 4, 4),
    (3, 1, COPY, 1, 2),
    (3, 0, COPY, 4, 6),
]


def by_hand() -> tuple[SimpleNamespace, Mapping]:
    """Tensors 0 to 3: two stays that touch; one; three, but too small to be seen; two, and as large
    as tensor 0."""
    tensor, output, action, start, end = (np.array(column) for column in zip(*BUFFERS))
    sizes = np.array([10, 50, 1, 10])
    program = SimpleNamespace(
        buffer_tensor=tensor,
        buffer_is_output=output.astype(bool),
        tensor_bytes=sizes,
        fast_bytes=100,
        num_tensors=4,
    )
    return program, Mapping(action, np.where(action == DROP, -1, 8), start, end)


def test_a_load_begins_a_stay_and_nocopy_extends_it():
    """Catches stays that touch taken for one, an empty interval taken for a stay, and a load that
    is a write."""
    program, mapping = by_hand()
    actual = {tensor: layouts.stays(program, mapping, tensor) for tensor in range(4)}
    told = {
        tensor: [(stay.start, stay.end, stay.loaded) for stay in item]
        for tensor, item in actual.items()
    }
    assert told[0] == [(0, 4, True), (5, 6, True)] and told[1] == [(0, 6, False)]
    assert told[3] == [(1, 2, False), (4, 6, True)]


def test_the_tensor_of_most_stays_is_marked():
    """Catches one too small to be seen, and a tie that the size does not break."""
    program, mapping = by_hand()
    assert layouts.marked_tensor(program, mapping) == 0
    program.tensor_bytes[3] = 11
    assert layouts.marked_tensor(program, mapping) == 3
    program.tensor_bytes[2] = 2
    assert layouts.marked_tensor(program, mapping) == 2
    program.tensor_bytes[:] = 1
    assert layouts.marked_tensor(program, mapping) == 2


def test_the_agents_best_seed_is_shown(monkeypatch):
    """Catches the first seed taken for the best, and a table that has not run."""
    actual = {0: 0.7, 2: 0.8}

    def read(folder, run):
        assert (run.method, run.instance) == ("muzero", layouts.FIG8_PROGRAM)
        return (
            {"seed": run.seed, "result": {"costs": {"return": actual[run.seed]}}}
            if run.seed in actual
            else None
        )

    monkeypatch.setattr(layouts, "read_record", read)
    assert layouts.best_game(layouts.FIG8_PROGRAM)["seed"] == 2
    actual.clear()
    with pytest.raises(InputError, match="muzero: is not yet run"):
        layouts.best_game(layouts.FIG8_PROGRAM)


def test_the_marked_stays_are_drawn_in_both_panels():
    """Catches an outline in the other's panel, and one that is not where the stay is."""
    rows = results.load("mmap.fig8")["rows"]
    figure, shown = (
        draw(compiled.load(layouts.FIG8_PROGRAM)[0], rows),
        [row for row in rows if "mapping" in row],
    )
    assert len(figure.axes) == len(shown) == 2 and shown[0]["stays"]
    for axes, row in zip(figure.axes, shown):
        outlines = [
            p for p in axes.patches if not p.get_fill() and p.get_edgecolor() == to_rgba(INK)
        ]
        drawn = [(p.get_x(), p.get_x() + p.get_width() - 1) for p in outlines]
        assert drawn == [(start, end) for start, end, _ in row["stays"]]
        assert [text.get_text() for text in axes.texts] == ["T"] * len(row["stays"])
