"""What all tests share: JAX's compiled functions are kept in ``build/``, as numba keeps its own
beside the package; and the modules of ``data/builders`` can be imported, as
`learned_mapping_builders`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parents[1] / "build" / "jax-cache")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ["LEARNED_MAPPING_CALIBRATION_S"] = "0.1"
# Most of the time goes to XLA's compiling of what runs a few times; without optimising it takes two
# thirds as long.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0".strip()
)

import pytest

from cli_files import COSTGRAPH, VALID
from learned_mapping import compiling
from learned_mapping_companion.datasets.registry import builder

builder("topology")
signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell that starts the suite in its background has interrupts ignored."""

FIRST = (
    """
from learned_mapping.mmap import solve
from learned_mapping.mmap.rules.actions import toy_program
solve(toy_program(), "edit-search", samples=20)
""",
    """
import numpy; from learned_mapping import mcm, mmap, regal
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.programs.synthetic import random_graph
graph = random_graph(numpy.random.default_rng(0), "layered", 12)
[mcm.solve(graph, method, chips=3, samples=20) for method in ("random", "sa-balanced", "climb")]
[regal.solve(graph, method, samples=20) for method in ("brkga", "local-search", "spectral-law", "gp-dfs")]
mmap.solve(toy_program(), "packing", samples=20)
""",
)
"""What two processes compile at the same time, none of it twice."""


def pytest_sessionstart(session):
    """Where several workers are to begin with nothing compiled, each would compile the same for a
    minute."""
    compiled = any(Path(os.environ.get("NUMBA_CACHE_DIR", os.devnull)).rglob("*.nbc"))
    if getattr(session.config.option, "numprocesses", None) and not compiled:
        for process in [subprocess.Popen([sys.executable, "-c", code]) for code in FIRST]:
            process.wait()


@pytest.fixture(autouse=True)
def _silent_compiling(monkeypatch):
    """What a command says on stderr does not depend on which test compiled first; `test_wheel` sees
    the first use."""
    monkeypatch.setattr(compiling, "SILENT_S", 1e6)


@pytest.fixture
def own_folders(tmp_path, monkeypatch):
    """Folders of the test's own for data and builds."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LEARNED_MAPPING_BUILD", str(tmp_path / "build"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with one valid file of each kind."""
    for name, value in VALID.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    (tmp_path / "graph.pbtxt").write_text(COSTGRAPH)
    monkeypatch.chdir(tmp_path)
    return tmp_path
