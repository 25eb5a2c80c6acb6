"""Old names of methods stand nowhere but in the one table that explains them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from learned_mapping.problem import RENAMED, problem

PROJECT = Path(__file__).resolve().parents[1]
OLD = sorted({name for names in RENAMED.values() for name in names} - {"gnn", "gumbel"}, key=len, reverse=True)
"""Not the two that are words of their own: a kind of network, and a distribution."""
PATTERN = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, OLD))})(?![\w-])")
TEXTS = [
    *PROJECT.glob("src/**/*.py"), *PROJECT.glob("book/*.md"), *PROJECT.glob("book/*/*.md"), *PROJECT.glob("book/*.yml"),
    *PROJECT.glob("data/**/README.md"), PROJECT / "README.md",
]  # fmt: skip


def test_no_text_has_an_old_name():
    found = {
        str(path.relative_to(PROJECT)): PATTERN.findall(path.read_text(encoding="utf-8"))
        for path in TEXTS
        if path.name != "problem.py" and "_build" not in path.parts
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_no_stored_result_has_an_old_name():
    for path in (PROJECT / "data" / "results").glob("*.json"):
        result = json.loads(path.read_text())
        methods = {row[key] for row in result["rows"] for key in ("method", "baseline") if row.get(key)}
        assert methods & set(OLD) == set(), path.name


@pytest.mark.parametrize("paper", sorted(RENAMED))
def test_an_old_name_leads_to_a_method_there_is(paper):
    own = problem(paper)
    known = own.methods()
    for old, new in RENAMED[paper].items():
        assert old not in known and new in known, old
        with pytest.raises(Exception, match=f"{old!r} is called {new!r} now"):
            own.method(old)
