"""Figure 8: which program and tensor are shown follows from the rules, and what is said of them from the mappings."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from learned_mapping.companion import results
from learned_mapping.companion.artifact import reported
from learned_mapping.companion.figures.mmap import layouts as draw
from learned_mapping.companion.mmap import speedup as layouts
from learned_mapping.companion.mmap.speedup import OURS
from learned_mapping.errors import InputError
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY
from learned_mapping.style import INK, svg_text
from mmap_games import as_mapping, games, hard_program
from results_page import shown

SECTION = "Two layouts side by side"

BUFFERS = [
    # tensor, output?, action, start, end
    (0, 0, COPY, 0, 1), (0, 0, NO_COPY, 2, 4), (0, 0, NO_COPY, 5, 4), (0, 0, COPY, 5, 6), (0, 0, DROP, -1, -1),
    (1, 1, NO_COPY, 0, 6), (1, 0, NO_COPY, 7, 6),
    (2, 0, COPY, 0, 0), (2, 0, COPY, 2, 2), (2, 0, COPY, 4, 4),
    (3, 1, COPY, 1, 2), (3, 0, COPY, 4, 6),
]  # fmt: skip


def by_hand() -> tuple[SimpleNamespace, Mapping]:
    """Tensors 0 to 3: two stays that touch; one; three, but too small to be seen; two, and as large as tensor 0."""
    tensor, output, action, start, end = (np.array(column) for column in zip(*BUFFERS))
    sizes = np.array([10, 50, 1, 10])
    program = SimpleNamespace(
        buffer_tensor=tensor, buffer_is_output=output.astype(bool), tensor_bytes=sizes, fast_bytes=100, num_tensors=4
    )
    return program, Mapping(action, np.where(action == DROP, -1, 8), start, end)


def test_a_load_begins_a_stay_and_nocopy_extends_it():
    """Catches stays that touch taken for one, an empty interval taken for a stay, and a load that is a write."""
    program, mapping = by_hand()
    found = {tensor: layouts.stays(program, mapping, tensor) for tensor in range(4)}
    told = {tensor: [(stay.start, stay.end, stay.loaded) for stay in each] for tensor, each in found.items()}
    assert told[0] == [(0, 4, True), (5, 6, True)] and told[1] == [(0, 6, False)]
    assert told[3] == [(1, 2, False), (4, 6, True)]
    assert [layouts.held_steps(each) for each in found.values()] == [7, 7, 3, 5]


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
    found = {0: 0.7, 2: 0.8}

    def read(folder, run):
        assert (run.method, run.instance) == ("muzero", layouts.FIG8_PROGRAM)
        return {"seed": run.seed, "result": {"costs": {"return": found[run.seed]}}} if run.seed in found else None

    monkeypatch.setattr(layouts, "read_record", read)
    assert layouts.best_game(layouts.FIG8_PROGRAM)["seed"] == 2
    found.clear()
    with pytest.raises(InputError, match="muzero: is not yet run"):
        layouts.best_game(layouts.FIG8_PROGRAM)
    assert [run.method for run in layouts.plan_fig8("quick", 3)] == ["xla", OURS]


def made_from(monkeypatch):
    """A result assembled from two games of a program: the agent at 2 s, the compiler at 3."""
    program = hard_program(11, 70)
    agent, compiler = (as_mapping(program, game) for game in (games(program, 5)[2], games(program, 6)[1]))
    monkeypatch.setattr(layouts, "load", lambda name: (program, compiler))
    records = []
    for method, seconds in (("xla", 3.0), (OURS, 2.0)):
        costs = {"return": 1 / seconds, "latency_s": seconds}
        found = {"judged": method != "xla", "valid": True, "costs": costs, "slow_s": 9.0}
        if method == OURS:
            found["mapping"] = {field: getattr(agent, field).tolist() for field in layouts.FIELDS}
        records.append(
            {"instance": "one", "method": method, "config": {"program": "", "seconds": 1.0}, "result": found}
        )
    return (
        program,
        {OURS: agent, "xla": compiler},
        {"id": "mmap.fig8", "paper": reported("mmap.fig8"), **layouts.assemble_fig8("full", records)},
    )


def test_numbers_are_those_of_the_mappings(monkeypatch):
    """Catches one method's numbers under the other's name, a ratio upside down, and steps counted twice."""
    program, mappings, made = made_from(monkeypatch)
    assert results.value(made, method=OURS, metric="speedup") == pytest.approx(1.5)
    shown = [row for row in made["rows"] if "mapping" in row]
    assert [(row["method"], row["value"]) for row in shown] == [(OURS, 1 / 2.0), ("xla", 1 / 3.0)]
    tensor = program.tensor_names.index(shown[0]["tensor"])
    assert shown[1]["tensor"] == shown[0]["tensor"]
    for method, mapping in mappings.items():
        own = (program.buffer_tensor == tensor) & mapping.placed
        held = np.zeros(program.num_instructions, bool)
        for start, end in zip(mapping.start[own], mapping.end[own]):
            held[start : end + 1] = True
        byte_steps = results.value(made, method=method, metric="held_byte_steps")
        assert byte_steps == held.sum() * program.tensor_bytes[tensor]
        loads = own & ~program.buffer_is_output & (mapping.action == COPY)
        assert results.value(made, method=method, metric="loads") == loads.sum()
    assert (made["validated"], made["invalid"]) == (1, 0)


def test_the_marked_stays_are_drawn_in_both_panels(monkeypatch):
    """Catches an outline in the other's panel, and one that is not where the stay is."""
    program, _, made = made_from(monkeypatch)
    figure = draw(program, made["rows"])
    shown = [row for row in made["rows"] if "mapping" in row]
    assert len(figure.axes) == 2 and shown[0]["stays"]
    for axes, row in zip(figure.axes, shown):
        outlines = [p for p in axes.patches if not p.get_fill() and p.get_edgecolor() == to_rgba(INK)]
        drawn = [(p.get_x(), p.get_x() + p.get_width() - 1) for p in outlines]
        assert drawn == [(start, end) for start, end, _ in row["stays"]]
        assert [text.get_text() for text in axes.texts] == ["T"] * len(row["stays"])
    assert svg_text(figure) == svg_text(draw(program, made["rows"]))


def test_the_page_draws_the_rows(monkeypatch):
    """Catches a page that fails, and a picture of other rows."""
    program, _, made = made_from(monkeypatch)
    names = {"show_result": lambda *_, **__: "", "load": lambda name: (program, None)}
    text = shown(SECTION, results=SimpleNamespace(load=lambda name: made), **names)
    assert text.count("<svg") == 1 and svg_text(draw(program, made["rows"])) in text
