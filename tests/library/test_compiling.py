"""No budget pays for compiling, and whoever waits for it is told."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from learned_mapping import compiling
from learned_mapping.problem import problem
from learned_mapping.programs.formats import graph_to_json
from learned_mapping.programs.json_io import write_json
from learned_mapping.programs.synthetic import random_graph
from learned_mapping_companion import fingerprints

JUMP = 1000.0
"""Seconds that one event of compiling takes by the clock of `clocked`."""
SECONDS = {"optimum": 4.0}
"""CPU seconds of a method's run, half a second where none are said."""
REPRESENTATIVES = ("regal/regal", "mcm/zeroshot", "mmap/evolution-policy")
BESIDE_RULES = ("mmap/muzero+", "mmap/edit-search+", "mcm/zeroshot+", "regal/regal+")
"""As a user has them who does not say --alone."""

ALL = [f"{name}/{method}" for name in fingerprints.INSTANCES for method in problem(name).methods()]


def clocked(
    key: str, seconds: float, jump: float = 0.0, place: int = 0, file: object = None, **caches: str
) -> dict:
    """The account of a run in a process of its own, see `clocked`."""
    name, _, method = key.partition("/")
    stored, options = fingerprints.INSTANCES[name][place]
    path = fingerprints.path().parent / stored if file is None else file
    given = [name, method, str(path), str(seconds), json.dumps(options), str(jump)]
    script = Path(__file__).parents[1] / "clocked.py"
    done = subprocess.run(
        [sys.executable, script, *given],
        capture_output=True,
        text=True,
        env={**os.environ, **caches},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def instances(key: str) -> list[int]:
    """The places of the instances that a method can play."""
    key = key.rstrip("+")
    only = fingerprints._TABLE["only"].get(fingerprints.SAME_CODE.get(key, key))
    return [0, 1] if only is None else [only]


def uncharged(key: str) -> None:
    method = key.partition("/")[2]
    for place in instances(key):
        run = clocked(key, SECONDS.get(method, 0.5), JUMP, place)
        assert run["seconds"] < JUMP, (key, place, run["events"])


@pytest.mark.parametrize("key", REPRESENTATIVES)
def test_no_budget_pays_for_compiling(key):
    """Catches a kernel, a network or an import that comes within the time of a search: `zeroshot`
    made 20 samples in ten seconds instead of 3,000 in three, `regal` 100 instead of 300,000."""
    uncharged(key)


def test_fixed_ops_are_no_reason_to_compile(tmp_path):
    """Catches a toy without the task's options: `unconstrained` repairs nothing, but where ops are
    fixed it asks."""
    graph = graph_to_json(random_graph(np.random.default_rng(3), "layered", 60))
    graph["ops"][0]["chip"] = 0
    write_json(tmp_path / "fixed.json", graph)
    run = clocked("mcm/unconstrained", 0.5, JUMP, file=tmp_path / "fixed.json")
    assert run["seconds"] < JUMP, run["events"]


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted({*ALL, *BESIDE_RULES}.difference(REPRESENTATIVES)))
def test_no_budget_of_any_method_pays_for_compiling(key):
    """The same of every method."""
    uncharged(key)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["regal/regal", "mcm/zeroshot", "mmap/random"])
def test_a_first_use_is_worth_a_later_one(tmp_path, key):
    """Catches what compiles beyond the events that the clock of `clocked` knows; CPU seconds, two
    of them."""
    caches = {"NUMBA_CACHE_DIR": str(tmp_path), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    first, later = (clocked(key, 2.0, **caches) for _ in range(2))
    assert 0.5 < first["samples"] / later["samples"] < 2.0
    assert first["wall"] > later["wall"] and max(first["seconds"], later["seconds"]) < 3.0


def test_one_line_of_each_stretch_that_lasts(monkeypatch):
    """Catches a line for each stretch inside another, and one of a stretch that was short."""
    said, lines = threading.Event(), []
    monkeypatch.setattr(compiling, "SILENT_S", 0.05)

    def tell(line):
        lines.append(line)
        said.set()

    with compiling.told(tell):
        for count in (1, 2):
            with compiling.compiling(), compiling.compiling():
                assert said.wait(30)
                said.clear()
            assert lines == [compiling.LINE] * count
        monkeypatch.setattr(compiling, "SILENT_S", 30)
        with compiling.compiling():
            pass
    monkeypatch.setattr(compiling, "SILENT_S", 0.05)
    with compiling.compiling():  # nobody listens
        assert not said.wait(0.5)
    assert len(lines) == 2
