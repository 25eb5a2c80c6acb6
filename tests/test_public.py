"""What `import learned_mapping as lm` shows."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import learned_mapping as lm


@pytest.mark.parametrize("paper", ["mmap", "mcm", "regal"])
def test_each_paper_shows_the_same_names(paper):
    room = getattr(lm, paper)
    for name in room.__all__:
        assert getattr(room, name) is not None
    assert {"solve", "validate", "METHODS", "PROBLEM", "env"} <= set(room.__all__) <= set(dir(room))
    assert callable(room.solve) and callable(room.validate)
    with pytest.raises(AttributeError, match="nothing"):
        room.nothing  # noqa: B018


def test_the_page_of_public_names_has_them_all_and_few_others():
    """Would catch a public name that nobody can look up, and a page that grows into a listing of the package."""
    page = (Path(__file__).resolve().parents[1] / "book" / "api.md").read_text()
    listed = re.findall(r"auto(?:class|function):: (learned_mapping\S+)", page)
    assert len(listed) <= 40 and len(set(listed)) == len(listed)
    for name in listed:
        module, _, attribute = name.rpartition(".")
        assert getattr(import_module(module), attribute).__doc__, name
    for paper in ("mmap", "mcm", "regal"):
        room = getattr(lm, paper)
        for name in set(room.__all__) - {"METHODS", "PROBLEM", "env"}:
            public = getattr(room, name)
            assert f"{public.__module__}.{public.__qualname__}" in listed
