"""The words over tables and under figures: no field's name, and no work that was not done."""

import re
from pathlib import Path

from learned_mapping_companion import display, results
from learned_mapping_companion.artifact import read_table
from learned_mapping_companion.display import caption

BOOK = Path(__file__).resolve().parents[2] / "book"


def test_every_table_of_a_page_has_a_caption_in_words():
    """A field's name, such as "gap percent", tells a reader nothing."""
    shown, captions, usual = set(), read_table("captions.yml"), read_table("shown.yml")
    for page in BOOK.glob("*/*.md"):
        for name, options in re.findall(
            r"show(?:_result)?\(\"([\w.]+)\"(.*?)\)\n", page.read_text(), re.S
        ):
            named = re.search(r"metrics=\[(.*?)\]", options, re.S)
            if named:
                shown |= set(re.findall(r"\"([\w-]+)\"", named[1]))
            elif name in usual:
                shown |= set(usual[name].get("table", {}).get("metrics", ()))
            else:
                shown |= {row["metric"] for row in (results.stored(name) or {"rows": []})["rows"]}
    assert (
        len(shown) > 50
        and [metric for metric in sorted(shown) if "_" in metric and metric not in captions] == []
    )
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
    """Code of 120 columns and tables of many cells and of long names in a column of 700 pixels, as
    the theme nests them: in a box that scrolls, inside another. Catches a table that may be wider
    than the outer one, whose last digits then lie beyond its edge; and a check that asks the
    nearest box alone."""
    style, page = (BOOK / "_static" / "book.css").as_uri(), tmp_path / "page.html"
    cells = '<td><b>0.1234</b><br><span class="lm-interval">0.1140 to 0.1360</span></td>' * 7
    words = "<td>what a layout keeps in fast memory</td>" * 6
    head = '<th scope="row">tensor2tensor_<wbr>transformer_<wbr>bf16</th>'
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="{style}"><div'
        ' class="bd-article" '
        'style="width: 700px"><div'
        f' class="highlight-python"><pre>{"long_name(x, y) " * 8}</pre></div>'
        '<div class="cell_output"><div class="text_html" style="overflow: auto"><div'
        ' class="lm-table"><table>'
        f"<tr>{head}{cells}</tr><tr>{head}{words}</tr></table></div></div></div></div>"
    )
    checks = (Path(__file__).parent / "page_checks.js").read_text()
    for width in (1280, 1440):
        browser.size(width)
        browser.open(page.as_uri())
        browser.run(checks)
        assert browser.run("checks.cut()") == []
        assert browser.run("document.querySelector('th').clientWidth") > 80, (
            "no name is broken between its letters"
        )
    browser.run("document.querySelector('.lm-table').style.width = '760px'")
    browser.run("document.querySelector('table').style.width = '100%'")
    assert browser.run("checks.cut()") != [], (
        "the check has to see a table that is wider than the box around it"
    )
