"""Pages as notebooks: they install what they need, hold nothing that only the book can show, and
run; knobs turn."""

import contextlib
import functools
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import types
import venv
from pathlib import Path

import classroom
import execute_notebooks
import lab
import nbformat
import notebooks
import pytest

from learned_mapping_companion import knobs as knobs_module
from learned_mapping_companion.knobs import STATIC, knobs

BOOK = Path(__file__).resolve().parents[2] / "book"

SOURCES = [p for p in BOOK.rglob("*.md") if not {"_build", ".ipynb_checkpoints"} & set(p.parts)]
PAGES = sorted(p.relative_to(BOOK).with_suffix("").as_posix() for p in SOURCES)
COMPUTING = [
    page
    for page in PAGES
    if re.search(
        r"^\W*(?:\w+ = )?solve\(|quick\(|Game\(|lm\.", (BOOK / f"{page}.md").read_text(), re.M
    )
]
WITHOUT_KNOBS = {
    # show stored results
    "mmap/results",
    "mmap/speedups",
    "mmap/parts",
    "mmap/compiler",
    "regal/test",
    "mmap/bench",
    "your-model",  # run on the command line
    "regal/generalisation",  # its live table is the stored one, made smaller
    "your-agent",  # is code to be changed, not turned
    "api",
    "formats",
    "rerun",
    "trust",  # have no cells
}


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
        assert result.cells[0].source == notebooks.first_cell("")
        compile("\n".join(code_of(page)), page, "exec")


def test_the_lab_opens_converted_notebooks(tmp_path):
    """Catches pages opened as they are written, with raw roles and directives between the words;
    and a start that takes a reader's changes away, or leaves an old page where there are none."""
    assert lab.write(tmp_path) == []
    made = sorted(
        path.relative_to(tmp_path).with_suffix("").as_posix() for path in tmp_path.rglob("*.ipynb")
    )
    raw = re.compile(r"\{[a-zA-Z:_-]+\}`|^\s*(?:```|~~~|:::+)\s*\{|^\([\w-]+\)=$|^\+\+\+", re.M)
    cells = [cell for page in made for cell in nbformat.read(tmp_path / f"{page}.ipynb", 4).cells]
    assert made == PAGES and not [
        raw.findall(c.source) for c in cells if c.cell_type == "markdown" and raw.search(c.source)
    ]
    said = subprocess.run(
        ["make", "-n", "lab"], cwd=BOOK.parent, capture_output=True, text=True
    ).stdout
    assert "book/lab.py" in said and "--notebook-dir book" not in said
    mine, old = (
        nbformat.read(tmp_path / "mmap/play.ipynb", 4),
        nbformat.read(tmp_path / "mmap/agent.ipynb", 4),
    )
    mine.cells[-1].source += "# mine"
    old.cells[-1].source += "# of an older page"
    old.metadata["learned_mapping"] = {"cells": lab._digest(old)}
    for page, notebook in (("mmap/play", mine), ("mmap/agent", old)):
        nbformat.write(notebook, tmp_path / f"{page}.ipynb")
    assert lab.write(tmp_path) == ["mmap/play"]
    assert nbformat.read(tmp_path / "mmap/play.ipynb", 4).cells == mine.cells
    assert (
        nbformat.read(tmp_path / "mmap/agent.ipynb", 4).cells
        == notebooks.notebook("mmap/agent").cells
    )


def test_binder_installs_the_lock_and_writes_the_notebooks():
    """Catches a lock that has moved, another Python than the lock's, and a script that would not
    run."""
    folder = BOOK.parent / ".binder"
    named = (folder / "requirements.txt").read_text().removeprefix("-r ").strip()
    assert (folder / named).resolve() == BOOK.parent / "requirements.lock"
    version = (folder / "runtime.txt").read_text().strip().removeprefix("python-")
    assert f"--python-version {version}" in (BOOK.parent / "Makefile").read_text()
    script = folder / "postBuild"
    assert os.access(script, os.X_OK) and "lab.write()" in script.read_text()
    subprocess.run(["bash", "-n", script], check=True)


def test_links_lead_to_notebooks():
    plain = notebooks.plain(
        "{doc}`problem`, {doc}`the list <../ambiguities>`, [x](methods.md#y),"
        " [z](https://a.org/b.md)",
        "mmap/play",
    )
    assert (
        "[Which buffers live in fast memory?](problem.ipynb), [the list](../ambiguities.ipynb)"
        in plain
    )
    assert plain.endswith("[x](methods.ipynb#y), [z](https://a.org/b.md)")


def test_every_chapter_that_computes_has_knobs():
    without = {
        page
        for page in COMPUTING
        if "knobs(" not in (BOOK / f"{page}.md").read_text() and "exercises" not in page
    }
    assert without <= WITHOUT_KNOBS


@pytest.mark.parametrize("page", ["mcm/exercises", "mmap/exercises", "regal/exercises"])
def test_there_are_four_exercises_with_solutions(page):
    """Four tasks, each with a hint and a solution that its check accepts; students' notebooks have
    an open answer in the place of the solution."""
    text = (BOOK / f"{page}.md").read_text()
    counts = [text.count(f'"{prompt}", code') for prompt in ("Hint", "Solution")]
    assert [*counts, len(re.findall("^## ", text, re.M))] == [4, 4, 4]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec("\n".join(code_of(page)[1:]), {})
    paper = page.partition("/")[0]
    marked = re.findall(r"^([\w-]+): right\.", said.getvalue(), re.M)
    assert marked == [f"{paper}-{number}" for number in (1, 2, 3, 4)]
    asked = classroom.for_students(notebooks.notebook(page))
    code = [cell.source for cell in asked.cells if cell.cell_type == "code"][1:]
    assert [source.count("answer = ...") for source in code] == [0, 1] * 4
    compile("\n".join(code), page, "exec")


def test_a_class_has_two_notebooks_a_paper(tmp_path):
    """Catches a student's notebook that still holds a solution, and a teacher's without one."""
    made = classroom.write(tmp_path)
    assert len(made) == 6
    for path in made:
        nbformat.validate(nbformat.read(path, 4))
        assert ("An hour" in path.read_text()) == ("assert " in path.read_text())
        assert ("An hour" in path.read_text()) == ("instructor" in path.name)


def test_the_first_game_prints_the_seconds_that_the_page_counts_by_hand():
    """Catches a share of the possible saving that is printed as seconds: the first code that a
    reader runs."""
    text = (BOOK / "mmap" / "problem.md").read_text()
    number = {
        word: i for i, word in enumerate("no one two three four five six seven eight".split())
    }
    saved, possible = (
        number[word.lower()]
        for word in re.search(r"(\w+) of (\w+) seconds are saved", text).groups()
    )
    cells, said = code_of("mmap/problem")[1:], io.StringIO()
    last = next(i for i, cell in enumerate(cells) if "print(" in cell)
    with contextlib.redirect_stdout(said):
        exec("\n".join(cells[: last + 1]), {})
    assert said.getvalue() == f"saves {saved} of {possible} s\n"


def test_a_notebook_runs_elsewhere(tmp_path):
    path = tmp_path / "exercises.ipynb"
    nbformat.write(notebooks.notebook("mcm/exercises"), path)
    assert execute_notebooks.execute(path)[1] == ""


def planted(path, mark):
    """An archive whose build would leave a mark; its SHA-256."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (("setup.py", f"open({str(mark)!r}, 'w')"), ("requirements.lock", "")):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


NOBODY = "import importlib.util\nimportlib.util.find_spec = lambda name: None\n"
"""The package is not installed."""


@pytest.mark.parametrize("above", [0, 1, 2, 3])
def test_only_the_notebooks_own_archive_is_taken(tmp_path, above):
    """Would catch an archive that somebody else has put into a folder far above, one in reach that
    is another, and a folder in place of the one that the archive is unpacked into: what would be
    installed then runs as the reader."""
    place = tmp_path / "a" / "b" / "c" / "d"
    place.mkdir(parents=True)
    digest = planted([place, *place.parents][above] / notebooks.ARCHIVE, tmp_path / "mark")
    environment = {k: v for k, v in os.environ.items() if k != "LEARNED_MAPPING_SOURCE"} | {
        "PIP_NO_INDEX": "1"
    }

    def told(expected):
        code = NOBODY + notebooks.first_cell(expected)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=place, env=environment, capture_output=True, text=True
        )
        assert (
            done.returncode == 1
            and not (tmp_path / "mark").exists()
            and len(done.stderr.splitlines()) == 1
        )
        return done.stderr

    if above > 1:
        assert "there is no" in told(digest)
        return
    assert "is not the archive of this notebook" in told("0" * 64) and "is not the archive" in told(
        ""
    )
    assert not (place / "learned-mapping").exists()
    (place / "learned-mapping").mkdir()
    assert "is there already" in told(digest)


def test_the_digest_in_the_cell_is_that_of_the_archive(tmp_path):
    """Would catch cells that are written before the archive, and an archive that is another at the
    next build."""
    app = types.SimpleNamespace(
        builder=types.SimpleNamespace(name="html"),
        env=types.SimpleNamespace(found_docs={"mcm/play"}),
        outdir=tmp_path,
    )
    digests = []
    for _ in range(2):
        notebooks._write(app, None)
        digests.append(
            hashlib.sha256((tmp_path / "_sources" / notebooks.ARCHIVE).read_bytes()).hexdigest()
        )
        assert digests[-1] in (tmp_path / "_sources" / "mcm" / "play.ipynb").read_text()
    assert digests[0] == digests[1]


@pytest.mark.slow
def test_a_stranger_installs_from_the_archive(tmp_path):
    """An environment without the package, a folder with the notebook and the archive alone; the
    first cell, and then a stored table. Without the archive one line says what was tried."""
    notebooks.write_archive(tmp_path / notebooks.ARCHIVE)
    digest = hashlib.sha256((tmp_path / notebooks.ARCHIVE).read_bytes()).hexdigest()
    code = (
        notebooks.first_cell(digest) + "\nfrom learned_mapping_companion.display import"
        " show_result\nprint(show_result('mcm.table1'))"
    )
    venv.create(tmp_path / "fresh", with_pip=True)
    python = tmp_path / "fresh" / "bin" / "python"
    (packages,) = (tmp_path / "fresh" / "lib").glob("python*/site-packages")
    # all packages but this one
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    for older in packages.glob("setuptools*"):
        shutil.rmtree(older)
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    offline = {
        k: v for k, v in os.environ.items() if not k.startswith(("LEARNED_MAPPING", "PYTHON"))
    }
    offline |= {"PIP_NO_INDEX": "1"}
    run = functools.partial(
        subprocess.run, [python, "-c", code], cwd=place, env=offline, capture_output=True, text=True
    )
    missing = run()
    assert (
        missing.returncode == 1
        and notebooks.ARCHIVE in missing.stderr
        and len(missing.stderr.splitlines()) == 1
    )
    shutil.move(tmp_path / notebooks.ARCHIVE, tmp_path / "a")
    done = run()
    assert done.returncode == 0 and "Valid partitions" in done.stdout, done.stderr
    assert (place / "learned-mapping" / "src" / "learned_mapping").is_dir()


def test_one_that_fails_is_reported(tmp_path):
    path = tmp_path / "wrong.ipynb"
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")], metadata={}), path
    )
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

    def answer(size=3, kind="a", other=7):
        if not size:
            raise ValueError("<b>")
        return f"{size}{kind}{other}", "end" if 12 // size else ""

    knobs(
        answer,
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
    assert "No answer here: &lt;b&gt;" in place.shown[-1]
    assert before.shown[-1].data == "*Before, with size 5, kind b:*"
    assert place_before.shown[-1] == "5b7" and end_before.shown[-1] == "end"
    back.click()  # one answer, not one for each knob
    assert (
        (size.value, kind.value) == (3, "a") and place.shown[-1] == "3a7" and len(place.shown) == 5
    )
    with pytest.raises(TypeError, match="no parameters with a default: wrong"):
        knobs(lambda size=3: size, wrong=[1])


def test_the_rendered_book_shows_the_defaults(monkeypatch):
    shown = []
    monkeypatch.setattr(knobs_module, "display", lambda *pieces: shown.extend(pieces))
    monkeypatch.setenv(STATIC, "1")
    knobs(lambda size=3: size * 2, size=(0, 9, 1))
    assert shown[0] == 6 and "size" in shown[1].data and len(shown) == 2
    assert STATIC in (BOOK / "build.py").read_text() and os.environ[STATIC]
