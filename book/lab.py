"""Opens the pages in JupyterLab (`make lab`), as the notebooks that they download as, in
``build/lab``.

A notebook that the reader has changed stays, also where its page is another by now; delete it for
the page's own.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

BOOK = Path(__file__).resolve().parent
FOLDER = BOOK.parent / "build" / "lab"
sys.path.insert(0, str(BOOK / "_extensions"))

import nbformat  # noqa: E402
import notebooks  # noqa: E402

NOT_PAGES = {"_build", ".ipynb_checkpoints"}


def write(folder: Path = FOLDER) -> list[str]:
    """Writes every page that has changed as a notebook; returns those that stay because the reader
    has changed them."""
    kept = []
    for source in sorted(path for path in BOOK.rglob("*.md") if not NOT_PAGES & set(path.parts)):
        page = source.relative_to(BOOK).with_suffix("").as_posix()
        path, made = folder / f"{page}.ipynb", notebooks.notebook(page)
        made.metadata["learned_mapping"] = {"cells": _digest(made)}
        if path.exists():
            there = nbformat.read(path, as_version=4)
            if _digest(there) != there.metadata.get("learned_mapping", {}).get("cells"):
                kept.append(page)
                continue
            if _digest(there) == _digest(made):
                continue  # its outputs stay with it
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(made, path)
    return kept


def _digest(notebook: nbformat.NotebookNode) -> str:
    cells = [(cell.cell_type, cell.source) for cell in notebook.cells]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def main() -> None:
    for page in write():
        print(f"lab: {page}.ipynb has changes of yours and stays as it is", file=sys.stderr)
    jupyter = str(Path(sys.executable).parent / "jupyter")
    os.execv(
        jupyter,
        [jupyter, "lab", str(FOLDER / "index.ipynb"), "--notebook-dir", str(FOLDER), *sys.argv[1:]],
    )


if __name__ == "__main__":
    main()
