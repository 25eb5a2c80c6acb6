"""Pages as notebooks: they install what they need, hold nothing that only the book can show, and run; knobs turn."""

import contextlib
import functools
import io
import os
import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import execute_notebooks
import nbformat
import notebooks
import pytest

from learned_mapping.companion import knobs as knobs_module
from learned_mapping.companion.knobs import STATIC, knobs

BOOK = Path(__file__).resolve().parents[2] / "book"

SOURCES = [p for p in BOOK.rglob("*.md") if not {"_build", ".ipynb_checkpoints"} & set(p.parts)]
PAGES = sorted(p.relative_to(BOOK).with_suffix("").as_posix() for p in SOURCES)
COMPUTING = [
    page
    for page in PAGES
    if re.search(r"^\W*(?:\w+ = )?solve\(|quick\(|Game\(|lm\.", (BOOK / f"{page}.md").read_text(), re.M)
]
WITHOUT_KNOBS = {
    "mmap/results", "mmap/speedups", "mmap/parts", "mmap/compiler", "regal/test",  # show stored results
    "mmap/bench",  # runs on the command line
    "regal/generalisation",  # its live table is the stored one, made smaller
    "your-agent",  # is code to be changed, not turned
    "api", "formats", "rerun", "trust",  # have no cells
}  # fmt: skip


def code_of(page: str) -> list[str]:
    return [cell.source for cell in notebooks.notebook(page).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_becomes_a_notebook(page):
    """Plain Markdown and code alone; where there is code, the first cell installs the package."""
    result = notebooks.notebook(page)
    nbformat.validate(result)
    words = "\n".join(cell.source for cell in result.cells if cell.cell_type == "markdown")
    assert not re.findall(r"\{[a-z:]+\}`|^```\{", words, re.M)
    if code_of(page):
        assert result.cells[0].source == notebooks.INSTALL
        compile("\n".join(code_of(page)), page, "exec")


def test_links_lead_to_notebooks():
    plain = notebooks.plain(
        "{doc}`problem`, {doc}`the list <../ambiguities>`, [x](methods.md#y), [z](https://a.org/b.md)", "mmap/play"
    )
    assert "[Which buffers live in fast memory?](problem.ipynb), [the list](../ambiguities.ipynb)" in plain
    assert plain.endswith("[x](methods.ipynb#y), [z](https://a.org/b.md)")


def test_every_chapter_that_computes_has_knobs():
    without = {
        page for page in COMPUTING if "knobs(" not in (BOOK / f"{page}.md").read_text() and "exercises" not in page
    }
    assert without <= WITHOUT_KNOBS


@pytest.mark.parametrize("page", ["mcm/exercises", "mmap/exercises", "regal/exercises"])
def test_there_are_three_exercises_with_solutions(page):
    """Three tasks, each with a solution whose assertions hold; the first page's as a notebook of its own."""
    text = (BOOK / f"{page}.md").read_text()
    assert (
        len(re.findall("^## ", text, re.M)) == text.count(":tags: [hide-cell]") == text.count('"Solution", code') == 3
    )
    if page == "mcm/exercises":
        return
    with contextlib.redirect_stdout(io.StringIO()):
        exec("\n".join(code_of(page)[1:]), {})


def test_a_notebook_runs_elsewhere(tmp_path):
    path = tmp_path / "exercises.ipynb"
    nbformat.write(notebooks.notebook("mcm/exercises"), path)
    assert execute_notebooks.execute(path)[1] == ""


@pytest.mark.slow
def test_a_stranger_installs_from_the_archive(tmp_path):
    """An environment without the package, a folder with the notebook and the archive alone; the first cell, and then a
    stored table. Without the archive one line says what was tried."""
    code = (
        notebooks.INSTALL
        + "\nfrom learned_mapping.companion.display import show_result\nprint(show_result('mcm.table1'))"
    )
    venv.create(tmp_path / "fresh", with_pip=True)
    python = tmp_path / "fresh" / "bin" / "python"
    (packages,) = (tmp_path / "fresh" / "lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")  # all packages but this one
    shutil.rmtree(packages / "setuptools", ignore_errors=True)  # older than ours
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    offline = {k: v for k, v in os.environ.items() if not k.startswith(("LEARNED_MAPPING", "PYTHON"))}
    offline |= {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1"}
    run = functools.partial(
        subprocess.run, [python, "-c", code], cwd=place, env=offline, capture_output=True, text=True
    )
    missing = run()
    assert missing.returncode == 1 and notebooks.ARCHIVE in missing.stderr and len(missing.stderr.splitlines()) == 1
    notebooks.write_archive(tmp_path / "a" / notebooks.ARCHIVE)
    done = run()
    assert done.returncode == 0 and "Valid partitions" in done.stdout, done.stderr
    assert (tmp_path / "a" / "learned-mapping" / "src" / "learned_mapping").is_dir()


def test_one_that_fails_is_reported(tmp_path):
    path = tmp_path / "wrong.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")], metadata={}), path)
    assert "ZeroDivisionError" in execute_notebooks.execute(path)[1]


class Place:
    """Where something was displayed."""

    def __init__(self, piece):
        self.shown = [piece]

    def update(self, piece):
        self.shown.append(piece)


def test_knobs_turn(monkeypatch):
    shown = []

    def display(*pieces, display_id=False):
        shown.extend(Place(piece) if display_id else piece for piece in pieces)
        return shown[-1]

    monkeypatch.setattr(knobs_module, "display", display)
    monkeypatch.delenv(STATIC, raising=False)
    knobs(
        lambda size=3, kind="a", other=7: (f"{size}{kind}{other}", "end" if 12 // size else ""),
        size=(0, 9, 1),
        kind=["a", "b"],
    )
    size, kind, back, place, end, before, place_before, end_before = shown
    assert place.shown == ["3a7"] and (size.min, size.max, size.value, kind.options) == (
        0,
        9,
        3,
        (("a", "a"), ("b", "b")),
    )
    size.value, kind.value = 5, "b"
    assert place.shown == ["3a7", "5a7", "5b7"] and end.shown == ["end"] * 3
    size.value = 0
    assert "No answer here" in place.shown[-1].data
    assert before.shown[-1].data == "*Before, with size 5, kind b:*"
    assert place_before.shown[-1] == "5b7" and end_before.shown[-1] == "end"
    back.click()  # one answer, not one for each knob
    assert (size.value, kind.value) == (3, "a") and place.shown[-1] == "3a7" and len(place.shown) == 5
    with pytest.raises(TypeError, match="no parameters with a default: wrong"):
        knobs(lambda size=3: size, wrong=[1])


def test_the_rendered_book_shows_the_defaults(monkeypatch):
    shown = []
    monkeypatch.setattr(knobs_module, "display", lambda *pieces: shown.extend(pieces))
    monkeypatch.setenv(STATIC, "1")
    knobs(lambda size=3: size * 2, size=(0, 9, 1))
    assert shown[0] == 6 and "size" in shown[1].data and len(shown) == 2
    assert STATIC in (BOOK / "build.py").read_text() and os.environ[STATIC]
