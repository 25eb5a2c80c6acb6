"""The cells of a section of the agent's results page, run without a kernel."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "book" / "mmap" / "results.md"
CELL = re.compile(r"```\{code-cell\} ipython3\n(?::[^\n]*\n)*\n(.*?)```", re.S)


def run(cell: str, names: dict[str, Any]) -> str:
    """What a cell shows, as text."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(PAGE), "exec"), names)
    shown = None if last is None else eval(compile(ast.Expression(last.value), str(PAGE), "eval"), names)
    if hasattr(shown, "savefig"):
        return shown._repr_html_()
    return "" if shown is None else str(getattr(shown, "data", shown))


def shown(title: str, **names: Any) -> str:
    """All that a section of the page shows, after the page's first cell; `names` replace what that cell defines."""
    text = PAGE.read_text()
    known: dict[str, Any] = {"bounds": {}}
    run(CELL.findall(text)[0], known)
    known |= names
    (section,) = [part for part in text.split("\n## ") if part.startswith(title)]
    return "\n".join(run(cell, known) for cell in CELL.findall(section))
