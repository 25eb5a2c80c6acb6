"""The words over tables and under figures: no field's name, and no work that was not done."""

import re
from pathlib import Path

from learned_mapping.companion import display, results
from learned_mapping.companion.artifact import read_table
from learned_mapping.companion.display import caption

BOOK = Path(__file__).resolve().parents[2] / "book"


def test_every_table_of_a_page_has_a_caption_in_words():
    """A field's name, such as "gap percent", tells a reader nothing."""
    shown, captions, usual = set(), read_table("captions.yml"), read_table("shown.yml")
    for page in BOOK.glob("*/*.md"):
        for name, options in re.findall(r"show(?:_result)?\(\"([\w.]+)\"(.*?)\)\n", page.read_text(), re.S):
            named = re.search(r"metrics=\[(.*?)\]", options, re.S)
            if named:
                shown |= set(re.findall(r"\"([\w-]+)\"", named[1]))
            elif name in usual:
                shown |= set(usual[name].get("table", {}).get("metrics", ()))
            else:
                shown |= {row["metric"] for row in (results.stored(name) or {"rows": []})["rows"]}
    assert len(shown) > 50 and [metric for metric in sorted(shown) if "_" in metric and metric not in captions] == []
    assert all("_" not in caption(metric) and caption(metric)[0].isupper() for metric in shown)


def test_a_drawing_claims_no_work():
    """Nothing was solved for it, so nothing is said of seconds and of solutions."""
    drawn = results.stored("mcm.fig1")
    assert drawn["validated"] == 0 and "validated" not in display.provenance_line(drawn)
    assert "validated" in display.provenance_line(results.stored("regal.test"))


def test_names_in_the_list_of_references():
    """No label made of TeX, no cut list of authors, and names of things keep their capitals."""
    from pybtex.database import parse_file
    from pybtex.style.labels.alpha import LabelStyle

    entries = parse_file(str(BOOK / "references.bib"), "bibtex").entries
    text = (BOOK / "references.bib").read_text()
    assert "and others" not in text and "{\\" not in text and "{Atari}, {Go}" in text
    labels = LabelStyle().format_labels(list(entries.values()))
    assert [label for label in labels if len(label) > 7] == []


def test_nothing_is_cut_at_1280_pixels(browser, tmp_path):
    """Code of 120 columns and a table of many cells in a column of 700 pixels; the words of a cell go on below."""
    style, page = (BOOK / "_static" / "book.css").as_uri(), tmp_path / "page.html"
    cells = "<td>what a layout keeps in fast memory<br><b>0.1234</b></td>" * 7
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="{style}"><div class="bd-article" '
        f'style="width: 700px"><div class="highlight-python"><pre>{"long_name(x, y) " * 8}</pre></div>'
        f'<div class="cell_output"><div class="lm-table"><table><tr>{cells}</tr></table></div></div></div>'
    )
    browser.size(1280)
    browser.open(page.as_uri())
    cut = "[...document.querySelectorAll('pre, .lm-table')].map((e) => e.scrollWidth - e.clientWidth)"
    assert browser.run(cut) == [0, 0]
