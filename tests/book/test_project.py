"""The book's build: what it refuses, what makes it build anew, and that its pages are all there."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from learned_mapping_companion.artifact import TABLE
from learned_mapping_companion.ledger import page_of

PROJECT = Path(__file__).resolve().parents[2]
BOOK = PROJECT / "book"


def load(path: Path):
    """A module of the book, which is no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(BOOK / "_extensions"))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BOOK / "_extensions"))
    return module


page_check = load(BOOK / "_extensions" / "page_check.py")
execution_cache = load(BOOK / "_extensions" / "execution_cache.py")


@pytest.mark.parametrize(
    "markup",
    [
        '<script src="https://cdn.example/x.js"></script>',
        "<script src='//cdn.example/x.js'></script>",
        '<link rel="stylesheet" href="https://fonts.example/css">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<img src="http://example/p.png">',
        '<img srcset="a.png 1x, https://example/b.png 2x">',
        '<iframe src="https://example"></iframe>',
        "<style>@import 'https://example/x.css';</style>",
        "<style>@font-face { src: url(https://example/f.woff) }</style>",
        '<p style="background: url(//example/b.png)">x</p>',
        '<svg><image href="https://example/i.png"/></svg>',
    ],
)
def test_whatever_a_page_would_load_from_elsewhere_is_found(tmp_path, markup):
    (tmp_path / "page.html").write_text(f"<html><body>{markup}</body></html>")
    (fault,) = page_check.external_resources(tmp_path)
    assert fault.startswith("page.html: loads ") and "example" in fault


@pytest.mark.parametrize(
    "markup",
    [
        '<a href="https://example.org">a link is not fetched</a>',
        '<img src="data:image/png;base64,AAAA">',
        '<script src="_static/x.js"></script>',
        '<svg xmlns="http://www.w3.org/2000/svg"></svg>',
        "<style>a { background: url(data:image/png;base64,AA) }</style>",
        "<p>https://example.org in the text</p>",
    ],
)
def test_what_a_page_does_not_load_is_no_fault(tmp_path, markup):
    (tmp_path / "page.html").write_text(f"<html><body>{markup}</body></html>")
    assert page_check.external_resources(tmp_path) == []


def test_style_sheets_are_checked_too(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "x.css").write_text("@import url('https://fonts.example/css');")
    assert page_check.external_resources(tmp_path) == [
        "_static/x.css: loads https://fonts.example/css from elsewhere"
    ]


def test_a_link_to_nothing_is_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#part">b</a> <a href="c%20d.html">c</a> <a href="#x">x</a>'
    )
    (tmp_path / "c d.html").write_text("")
    assert page_check.broken_links(tmp_path) == ["a.html: b.html#part is not there"]


def test_the_cache_key_notices_code_and_data_and_ignores_litter(tmp_path, monkeypatch):
    """The notebook cache alone would show the output of older code."""
    monkeypatch.setattr(execution_cache, "PROJECT", tmp_path)
    (tmp_path / "src" / "p").mkdir(parents=True)
    (tmp_path / "src" / "p" / "a.py").write_text("x = 1")
    (tmp_path / "lock").write_text("1")
    names = ("src", "lock")
    key = execution_cache.digest_of(names)
    (tmp_path / "src" / "p" / "__pycache__").mkdir()
    (tmp_path / "src" / "p" / "__pycache__" / "a.pyc").write_text("litter")
    (tmp_path / "src" / "p" / ".swp").write_text("litter")
    assert execution_cache.digest_of(names) == key
    (tmp_path / "src" / "p" / "a.py").write_text("x = 2")
    changed = execution_cache.digest_of(names)
    assert changed != key
    (tmp_path / "src" / "p" / "a.py").rename(tmp_path / "src" / "p" / "b.py")
    assert execution_cache.digest_of(names) not in (key, changed)


def test_every_artifact_is_shown_on_a_page():
    """None is found in the ledger alone."""
    assert [name for name in TABLE if page_of(name).startswith("ledger")] == []


def test_every_page_of_the_contents_is_there_and_none_is_forgotten():
    contents = yaml.safe_load((BOOK / "_toc.yml").read_text())
    listed = {
        contents["root"],
        *(c["file"] for part in contents["parts"] for c in part["chapters"]),
    }
    there = {
        p.relative_to(BOOK).with_suffix("").as_posix()
        for p in BOOK.rglob("*.md")
        if "_build" not in p.parts
    }
    assert listed == there


def test_mathjax_comes_from_the_installed_wheel():
    """Formulas have to be readable without a network, and nothing is vendored."""
    build = load(BOOK / "build.py")
    build.copy_mathjax()
    script = BOOK / "extra" / "vendor" / "mathjax" / "tex-svg.js"
    assert script.stat().st_size > 1_000_000
    ignored = subprocess.run(["git", "check-ignore", str(script)], cwd=PROJECT, capture_output=True)
    assert ignored.returncode in (0, 128), "outside a git checkout git cannot say"


def test_a_failing_cell_is_reported_with_its_traceback(tmp_path):
    build = load(BOOK / "build.py")
    head = (
        "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name:"
        " myst\nkernelspec:\n"
    )
    head += "  display_name: Python 3\n  language: python\n  name: python3\n---\n\n# Page\n\n"
    page = tmp_path / "page.md"
    page.write_text(head + "```{code-cell} ipython3\n1 / 0\n```\n")
    seconds, fault = build.execute_chapter(page, tmp_path / "cache")
    assert "ZeroDivisionError" in fault
    page.write_text(head + "```{code-cell} ipython3\n1 / 1\n```\n")
    seconds, fault = build.execute_chapter(page, tmp_path / "cache")
    assert fault == "" and seconds > 0
    assert build.execute_chapter(page, tmp_path / "cache") == (0.0, "")
