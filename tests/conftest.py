"""What all tests share: JAX's compiled functions are kept in ``build/``, as numba keeps its own beside the package; and
the modules of ``data/builders`` can be imported, as `learned_mapping_builders`."""

from __future__ import annotations

import json
import os
from pathlib import Path

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parents[1] / "build" / "jax-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

import pytest

from cli_files import COSTGRAPH, VALID
from learned_mapping.cli import output
from learned_mapping.companion.datasets.registry import builder

builder("topology")


@pytest.fixture(autouse=True)
def _not_the_first_use(monkeypatch):
    """What a command says on stderr does not depend on which test compiled first; `test_wheel` sees the first use."""
    monkeypatch.setattr(output, "is_compiled", lambda: True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with one valid file of each kind."""
    for name, value in VALID.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    (tmp_path / "graph.pbtxt").write_text(COSTGRAPH)
    monkeypatch.chdir(tmp_path)
    return tmp_path
