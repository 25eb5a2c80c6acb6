"""What pages import from one place: names that are there, and artifacts as they are shown."""

import inspect
from importlib import import_module

import pytest

from learned_mapping_companion import pages
from learned_mapping_companion.artifact import PACKAGE, TABLE, read_table

SHOWN = [
    (name, place, usual)
    for name, entry in read_table("shown.yml").items()
    for place, usual in entry.items()
    if place != "table"
]


def test_every_name_is_there():
    assert [name for name in pages.NAMES if getattr(pages, name, None) is None] == []


@pytest.mark.parametrize(("artifact_id", "place", "usual"), SHOWN)
def test_what_is_shown_takes_what_it_is_given(artifact_id, place, usual):
    """Would catch a function that moved, and a setting that it no longer has."""
    module, _, name = place.partition(":")
    wanted = inspect.signature(getattr(import_module(f"{PACKAGE}.{module}"), name)).parameters
    assert artifact_id in TABLE
    assert set(usual) - {"methods"} <= set(wanted) or "options" in wanted


def test_a_figure_a_table_and_rows_of_some_methods():
    assert (
        pages.show("mcm.fig5").axes and pages.show("mmap.fig4", name="mmap.fig4 paper network").axes
    )
    assert "Samples to a level" in pages.show("mcm.table2") and "lm-provenance" in pages.show(
        "mcm.table2"
    )
    assert "its control" in pages.show("mmap.table2", "crossed_rows")
    table = pages.show("mcm.optimum", metrics=["gap_percent"], methods=["sa"])
    assert "sa</th>" in table and "random" not in table
    legend = pages.show("mcm.credit", methods=["rl", "climb"]).legends[0]
    assert {text.get_text() for text in legend.get_texts()} == {"rl", "climb"}
