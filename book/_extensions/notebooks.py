"""Every page as a notebook that runs elsewhere: its first cell installs the package, and no cell
needs this book.

What the book's own directives show is written out as plain Markdown, in which Jupyter shows it:
sentences with their numbers, code of the package, citations, links to the other notebooks.
"""

import functools
import gzip
import hashlib
import re
import tarfile
from pathlib import Path
from typing import Any

import claim_links
import explorables
import jupytext
import nbformat
import sentences
import values
from glossary import WORDS
from pybtex.database import parse_file
from sphinx.config import Config
from sphinx.directives.code import LiteralIncludeReader

BOOK = Path(__file__).resolve().parents[1]
FORMAT = {"extension": ".md", "format_name": "myst"}
ARCHIVE = "learned-mapping.tar.gz"
"""Code and stored results, from which a notebook installs the package; it lies where the book's
notebooks lie."""
IN_ARCHIVE = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "requirements.lock",
    "src",
    "data",
)
INSTALL = f"""\
# Installs the package where it is not there yet, and the packages of its lock file, each by its hash: from
# {ARCHIVE}, which was built with this notebook and lies beside it or one folder above, or from a
# checkout that LEARNED_MAPPING_SOURCE names. Stored results lie there too.
import hashlib
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tarfile

if importlib.util.find_spec("learned_mapping") is None:
    here = pathlib.Path.cwd()
    source = pathlib.Path(os.environ.get("LEARNED_MAPPING_SOURCE") or "learned-mapping").resolve()
    if not os.environ.get("LEARNED_MAPPING_SOURCE"):
        archives = [folder / "{ARCHIVE}" for folder in (here, here.parent)]
        archives = [path for path in archives if path.is_file()]
        if not archives:
            raise SystemExit(
                f"Learned Mapping is not installed, LEARNED_MAPPING_SOURCE is not set, and there is no {ARCHIVE} "
                f"in {{here}} or in the folder above. Download it from the book."
            )
        data = archives[0].read_bytes()
        if hashlib.sha256(data).hexdigest() != "{{digest}}":
            raise SystemExit(f"{{archives[0]}} is not the archive of this notebook: download both from the same book.")
        if source.exists():
            raise SystemExit(f"{{source}} is there already: remove it, or name it in LEARNED_MAPPING_SOURCE.")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(source, filter="data")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--require-hashes", "-r", str(source / "requirements.lock")], check=True)
    subprocess.run([*pip, "--no-build-isolation", "-e", str(source)], check=True)
    sys.path.insert(0, str(source / "src"))  # this kernel started before the package was there"""
"""The first cell, with ``{digest}`` where the SHA-256 of the archive goes."""
LEFT_OUT = {"__pycache__", "learned_mapping.egg-info"}
BLOCK = re.compile(r"^```\{([a-z-]+)\} ?(.*?)\n(.*?)^```$", re.S | re.M)
ROLE = re.compile(r"\{([a-z:]+)\}`([^`]+)`")
LINK = re.compile(r"\]\((?!https?:)([\w./-]+)\.(?:md|html)(#[\w-]*)?\)")


def notebook(page: str, digest: str = "") -> nbformat.NotebookNode:
    """The page, such as ``mmap/play``, as a notebook without outputs; `digest`, the SHA-256 of the
    archive that its first cell takes: without one, none."""
    book_page = jupytext.reads((BOOK / f"{page}.md").read_text(encoding="utf-8"), fmt=FORMAT)
    for cell in book_page.cells:
        tags = set(cell.metadata.get("tags", ()))
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source, page)
        elif tags & {"hide-input", "remove-input", "hide-cell", "remove-cell"}:
            hidden = {"source_hidden": True} | (
                {"outputs_hidden": True} if "hide-cell" in tags else {}
            )
            cell.metadata["jupyter"] = hidden
    if any(cell.cell_type == "code" for cell in book_page.cells):
        hidden = {"jupyter": {"source_hidden": True}}
        book_page.cells.insert(0, nbformat.v4.new_code_cell(first_cell(digest), metadata=hidden))
    book_page.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    for number, cell in enumerate(book_page.cells):
        cell["id"] = f"cell-{number}"
    return book_page


def first_cell(digest: str) -> str:
    """`INSTALL` for the archive of this SHA-256."""
    return INSTALL.replace("{digest}", digest)


def plain(text: str, page: str) -> str:
    """MyST Markdown with the book's directives and roles as Markdown that Jupyter shows."""
    text = BLOCK.sub(lambda match: _block(page, *match.groups()), text)
    text = ROLE.sub(lambda match: _role(page, match[1], match[2]), text)
    return LINK.sub(lambda match: f"]({match[1]}.ipynb{match[2] or ''})", text)


def _block(page: str, name: str, argument: str, body: str) -> str:
    if name == "math":
        return f"$$\n{body.strip()}\n$$"
    if name == "sentence":
        return sentences.say(argument, sentences.read()[argument])
    if name == "explorable":
        return f"*In the book there is something to play with here: {explorables.TITLES[argument]}*"
    if name == "literalinclude":
        options = {
            key: value.strip('"') for key, value in re.findall(r"^:([a-z-]+): ?(.*)$", body, re.M)
        }
        options |= {"dedent": int(options["dedent"])} if "dedent" in options else {}
        path = (BOOK / page).parent / argument
        shown = LiteralIncludeReader(str(path), options, Config({})).read()[0]
        return f"```python\n{shown.rstrip()}\n```"
    if name == "glossary-of-the-book":
        return "\n".join(f"- **{word}**: {meaning}" for word, meaning in sorted(WORDS.items()))
    if name == "bibliography":
        titles = {
            key: re.sub(r"\\.|[{}]", "", entry.fields["title"]) for key, entry in _entries().items()
        }
        return "\n".join(f"- {_cited(key)}: {title}" for key, title in titles.items())
    return "*See the page in the book.*"


def _role(page: str, name: str, text: str) -> str:
    if name == "math":
        return f"${text}$"
    if name == "said":
        return sentences.say(text, sentences.read()[text])
    if name == "value":
        return values.text_of(text)
    if name == "claim":
        return claim_links.parts_of(text)[0]
    if name == "state":
        return explorables.parts_of(text)[0]
    if name.startswith("cite"):
        said = "; ".join(_cited(key) for key in text.split(","))
        return said if name == "cite:t" else f"({said})"
    if name == "doc":
        titled = re.fullmatch(r"(.+?) <(.+)>", text)
        words, target = (
            (titled[1], titled[2]) if titled else (_title((BOOK / page).parent / text), text)
        )
        return f"[{words}]({target}.ipynb)"
    return text


@functools.cache
def _entries() -> dict[str, Any]:
    return dict(parse_file(str(BOOK / "references.bib")).entries)


def _cited(key: str) -> str:
    entry = _entries()[key]
    people = [str(person.last_names[-1]) for person in entry.persons["author"]]
    return f"{people[0]}{' et al.' if len(people) > 1 else ''}, {entry.fields['year']}"


def _title(path: Path) -> str:
    return re.search(r"^# (.+)$", path.with_suffix(".md").read_text(encoding="utf-8"), re.M)[1]


def _write(app, exception) -> None:
    if exception is not None or app.builder.name != "html":
        return
    sources = Path(app.outdir) / "_sources"
    write_archive(sources / ARCHIVE)
    digest = hashlib.sha256((sources / ARCHIVE).read_bytes()).hexdigest()
    for page in sorted(app.env.found_docs):
        path = sources / f"{page}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook(page, digest), path)


def write_archive(path: Path) -> None:
    """Packs the files of `IN_ARCHIVE`, and what the book knows of claims and sentences; equal
    files, equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = [
        file
        for name in IN_ARCHIVE
        for file in sorted([BOOK.parent / name, *(BOOK.parent / name).rglob("*")])
    ]
    listed += sorted(BOOK.glob("*.yml"))
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for file in listed:
                if file.is_file() and not LEFT_OUT & set(file.parts[len(BOOK.parent.parts) :]):
                    entry = tarfile.TarInfo(file.relative_to(BOOK.parent).as_posix())
                    entry.size, entry.mode = file.stat().st_size, 0o644
                    with open(file, "rb") as content:
                        archive.addfile(entry, content)


def setup(app) -> dict:
    app.connect("build-finished", _write, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
