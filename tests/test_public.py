"""What `import learned_mapping as lm` shows."""

from __future__ import annotations

import subprocess
import sys

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


def test_the_front_door_imports_nothing_heavy():
    """Would cost every call of the command line seconds."""
    script = "import sys, learned_mapping; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "numba", "jax"} & set(found)
