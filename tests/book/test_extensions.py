"""What the book's own extensions do to pages: names of figures, words for the search, icons, words
explained once."""

import re
import struct
from importlib.metadata import version
from pathlib import Path

import explorables
import figures
import glossary
import numbered
import offline_pages
import typography
from docutils import nodes
from docutils.utils import new_document

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"


def test_figures_and_tables_are_numbered_and_captioned():
    page = (
        '<h2>A &amp; B<a class="headerlink" href="#a">#</a></h2><div class="text_html"><svg'
        ' width="1"></svg></div><table><caption>C</caption></table><!--lm-caption what it'
        ' shows--><div class="output text_html"><svg'
        ' width="2"><metadata>x</metadata></svg></div><figure'
        ' class="lm-figure"><svg></svg><figcaption>D'
    )
    result = figures.finished(page)
    assert '<svg role="img" aria-label="A &amp; B" style="--lm-wide: 0px" width="1">' in result
    assert "<figcaption><b>Figure 1.</b> A &amp; B</figcaption>" in result
    assert "<caption><b>Table 1.</b> C</caption>" in result
    assert (
        'id="figure-2"' in result
        and "<b>Figure 2.</b> what it shows" in result
        and "metadata" not in result
    )
    assert result.endswith("<figcaption><b>Figure 3.</b> D")


def test_a_drawing_is_made_light_and_its_words_are_left_alone():
    drawn = (
        '<path d="M 1.23456 2.5 L 3 4.999999"/><text x="7.12345" transform="rotate(-0 7.12345'
        ' 8)">0.78251</text>'
    )
    assert figures.light(drawn) == '<path d="M 1.23 2.5 L 3 4.99"/><text x="7.12">0.78251</text>'


def test_a_figure_is_as_wide_as_its_smallest_text_asks_for():
    drawing = (
        '<svg viewBox="0 0 400 200"><text style="font: 8px x">a</text><text style="font: bold 10px'
        ' x">b</text></svg>'
    )
    assert figures.readable(drawing) == 503


def test_a_table_of_a_paper_keeps_its_number():
    """Catches one that is counted among ours, and one of ours that takes the number of a table in
    the next output."""
    ours = '<div class="output text_html"><caption>A</caption></div>'
    words = '<p class="lm-provenance"><code>mcm.table3</code>, full</p>'
    theirs = f'<div class="output text_html"><caption>B</caption>{words}</div>'
    result = figures.finished(ours + theirs + ours)
    assert re.findall(r"<caption><b>(.*?)</b>", result) == ["Table 1.", "P2 Table 3.", "Table 2."]


def test_two_figures_of_a_page_share_no_names():
    drawing = (
        '<svg><g id="figure_1"><path id="m1"/><use href="#m1"/><g clip-path="url(#c)"/><clipPath'
        ' id="c"/></g></svg>'
    )
    own = figures.own_identities(drawing, "f2")
    assert (
        own.count('id="') == 2
        and 'id="f2-m1"' in own
        and 'href="#f2-m1"' in own
        and "url(#f2-c)" in own
    )


def test_the_words_of_a_page_leave_out_markup():
    page = (
        "<nav>no</nav><article class='x'>one <script>no</script><b>two</b>"
        " &lt;3<svg><text>no</text></svg></article>"
    )
    assert offline_pages._words(page) == "one two <3"


def test_the_script_of_icons_goes_and_others_stay():
    page = (
        '<script defer src="_static/scripts/fontawesome.js?digest=1"></script><script'
        ' src="a.js"></script>'
    )
    assert offline_pages.ICONS.sub("", page) == '<script src="a.js"></script>'


def test_a_page_without_a_formula_does_not_load_mathjax():
    """Catches two megabytes that the front page loads for nothing, and a page of formulas without
    its script."""
    scripts = '<script>window.MathJax = {"options": {}}</script>\n'
    scripts += '<script defer src="../vendor/mathjax/tex-svg.js?v=5"></script>'
    plain, formula = (
        "<p>words</p>",
        '<p><span class="math notranslate nohighlight">\\(x\\)</span></p>',
    )
    assert offline_pages._formulas(scripts + plain).strip() == plain
    assert offline_pages._formulas(scripts + formula) == scripts + formula


def document(*paragraphs: str) -> nodes.document:
    result = new_document("page")
    for words in paragraphs:
        result += nodes.paragraph("", words)
    return result


def test_a_word_is_explained_at_its_first_use_only():
    page = document("The elites of BRKGA stay.", "Elites? The elites.")
    page += nodes.paragraph("", "", nodes.reference("", "makespan"))
    glossary._explain(None, page, "page")
    actual = [(node.astext(), node["explanation"]) for node in page.findall(nodes.abbreviation)]
    assert actual == [(word, glossary.WORDS[word]) for word in ("elites", "BRKGA")]
    assert page.astext() == "The elites of BRKGA stay.\n\nElites? The elites.\n\nmakespan"


def test_part_of_a_longer_word_is_not_explained():
    page = document("returned, mis-return and chain-rules")
    glossary._explain(None, page, "page")
    assert not list(page.findall(nodes.abbreviation))


def test_every_explorable_has_scripts_a_title_and_a_picture():
    for name, scripts in explorables.SCRIPTS.items():
        assert name in explorables.TITLES and name in explorables.PICTURES
        assert all((BOOK / "extra" / "explorables" / f"{script}.js").exists() for script in scripts)
    for name in explorables.primers.PICTURES:
        drawn = explorables.PICTURES[name](None, explorables.TITLES[name])
        assert drawn.startswith("<svg") and 'role="img"' in drawn


def test_numbers_of_open_points_become_links():
    parts = numbered.linked("as M3 and M99 say (P1)", {"M3", "P1"}, "../ambiguities.html")
    assert "".join(part.astext() for part in parts) == "as M3 and M99 say (P1)"
    links = [part["refuri"] for part in parts if isinstance(part, nodes.reference)]
    assert links == ["../ambiguities.html#m3", "../ambiguities.html#p1"]


def test_every_number_in_the_book_has_an_entry():
    text = "".join(path.read_text() for path in BOOK.glob("*/*.md") if "_build" not in path.parts)
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    assert set(numbered.NUMBER.findall(prose)) <= numbered.entries()


def test_long_tables_are_folded_and_short_ones_are_not():
    table = (
        '<div class="lm-table" style=""><table class="table"><caption>C</caption>{}</table></div>'
    )
    short, long = table.format("<tr></tr>" * 3), table.format("<tr></tr>" * 8)
    assert offline_pages._folded(f"<p>{short}</p>") == f"<p>{short}</p>"
    folded = '<details class="lm-fold"><summary>{}</summary>{}</details>'
    assert offline_pages._folded(f"<p>{long}</p>") == f"<p>{folded.format('Table: C', long)}</p>"
    assert offline_pages._folded(short * 3) == folded.format("3 tables: C, C, C", short * 3)


def test_numbers_are_set_in_type_and_code_is_not():
    page = new_document("page")
    page += nodes.paragraph(
        "", "", nodes.Text("-3.2 % [-4.4, -2.1] of 1-2, --x -y "), nodes.literal("", "-1 %")
    )
    typography._on_resolved(None, page, "page")
    assert page.astext() == "\u22123.2\u00a0% [\u22124.4, \u22122.1] of 1-2, --x -y -1 %"


def test_a_page_says_in_its_head_what_it_is_about():
    """Catches a description with markup in it, one that ends within a word, and a footer that leads
    nowhere."""
    words = "A <em>long</em> &amp; winding sentence " * 12
    page = (
        "<head><title>Play &#8212;"
        f" Book</title></head><article><h1>Play</h1><p>{words}</p></article>"
    )
    page += '<p class="component-author">\nBy somebody\n</p>'
    result = offline_pages.described(page, "../")
    said = re.search(r'<meta name="description" content="(.*?)"/>', result)[1]
    assert said.startswith("A long &amp; winding sentence A long") and said.endswith(" …")
    assert len(said.replace("&amp;", "&")) <= offline_pages.LONGEST + 2
    assert (
        'href="../bibliography.html#how-to-cite-this-book"' in result
        and "By somebody" not in result
    )


def test_the_version_to_cite_is_the_packages():
    said = version("learned-mapping")
    assert f"version = {{{said}}}" in (ROOT / "book" / "bibliography.md").read_text()
    assert f"version: {said}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_picture_of_a_link_has_the_usual_size(tmp_path):
    offline_pages.draw_picture(tmp_path / "picture.png")
    head = (tmp_path / "picture.png").read_bytes()[:24]
    assert struct.unpack(">II", head[16:24]) == (1200, 630)
