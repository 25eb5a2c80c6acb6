"""Notebooks for a class (`make class`), in build/class: the exercises of each paper for students,
without the solutions, and for whoever teaches, with them and a plan of the hour."""

import re
import sys
from pathlib import Path

import nbformat

BOOK = Path(__file__).resolve().parent
sys.path.insert(0, str(BOOK / "_extensions"))

import notebooks  # noqa: E402

from learned_mapping_companion.exercises import MARKS  # noqa: E402

PLAN = "#" + (BOOK / "teaching.md").read_text(encoding="utf-8")


def for_students(exercises: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The exercises with an open answer in the place of each solution."""
    for cell in exercises.cells:
        prompt = cell.metadata.get("mystnb", {}).get("code_prompt_show")
        if prompt == "Solution":
            name = re.search(r'check\("([\w-]+)"', cell.source)[1]
            wanted = " ".join(MARKS[name].__doc__.split())
            cell.source = (
                "from learned_mapping_companion.pages import check\n\n"
                f'answer = ...  # {wanted}\ncheck("{name}", answer)'
            )
            cell.metadata = {}
    return exercises


def write(folder: Path) -> list[Path]:
    """Both notebooks of each paper; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for paper in ("mmap", "mcm", "regal"):
        taught = notebooks.notebook(f"{paper}/exercises")
        taught.cells.insert(1, nbformat.v4.new_markdown_cell(PLAN, id="plan"))
        asked = for_students(notebooks.notebook(f"{paper}/exercises"))
        for whose, notebook in (("instructor", taught), ("student", asked)):
            written.append(folder / f"{paper}-{whose}.ipynb")
            nbformat.write(notebook, written[-1])
    return written


if __name__ == "__main__":
    for path in write(BOOK.parent / "build" / "class"):
        print(path.relative_to(BOOK.parent))
