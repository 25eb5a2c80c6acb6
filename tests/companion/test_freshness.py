"""What a result rests on: run by run, where methods should not make each other's records stale, and by its parts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from learned_mapping.companion import artifact as artifact_module
from learned_mapping.companion import ledger, provenance, results
from learned_mapping.companion.artifact import Artifact, Run
from learned_mapping.companion.runs import RunsMissingError

METHODS = ("greedy", "learned")


@pytest.fixture
def code(tmp_path, monkeypatch):
    """Module -> state of its code; what rests on it goes by these states."""
    states = {"learned_mapping.greedy": 1, "learned_mapping.learned": 1}
    monkeypatch.setattr(provenance, "source_digest", lambda modules: str([(m, states[m]) for m in sorted(modules)]))
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LEARNED_MAPPING_BUILD", str(tmp_path / "build"))
    return states


@pytest.fixture
def table(code, tmp_path, monkeypatch):
    """Two methods, each resting on a module of its own; and a figure drawn from the table's result."""

    def plan(profile: str, seeds: int) -> list[Run]:
        folders = {method: tmp_path / method for method in METHODS}
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
        function = "companion.run_functions:count"
        return [
            Run(function, method, "toy", {"folder": str(folder)}, seed)
            for method, folder in folders.items()
            for seed in range(seeds)
        ]

    def assemble(profile: str, records: list[dict]) -> dict:
        return {"rows": [], "paper": [], "validated": len(records), "invalid": 0}

    def redraw(profile: str, records: list[dict]) -> dict:
        return {"rows": [], "paper": [], "validated": results.load("toy.table", profile)["validated"], "invalid": 0}

    table = Artifact("toy.table", 1, "A table", plan, assemble, lambda run: (f"learned_mapping.{run.method}",))
    figure = Artifact("toy.figure", 1, "A figure", lambda profile, seeds: [], redraw, parts=("toy.table",))
    for module in (artifact_module, ledger):
        monkeypatch.setattr(module, "registry", lambda: {table.id: table, figure.id: figure})
    return table


def executions(folder: Path) -> int:
    return sum(len(log.read_text()) for log in folder.glob("*.log"))


def states() -> list[str]:
    return [row["state"] for row in ledger.entries()]


def test_changed_code_of_one_method_redoes_its_runs_only(table, code, tmp_path):
    """Hours of learning must not be lost to a change of a rule of thumb beside it."""
    results.make(table, "full", seeds=2, progress=False)
    assert states() == ["fresh", "not yet run"]
    code["learned_mapping.greedy"] = 2
    assert states()[0] == "stale"
    results.make(table, "full", seeds=2, progress=False)
    assert states()[0] == "fresh"
    assert (executions(tmp_path / "greedy"), executions(tmp_path / "learned")) == (4, 2)


def test_the_results_digest_is_over_those_of_its_runs(table):
    made = results.make(table, "quick", seeds=2, progress=False)
    each = [results.source_of(table, run) for run in table.plan("quick", 2)]
    assert len(set(each)) == 2 and made["source_digest"] == provenance.combined_digest(each)


def test_records_of_two_states_of_the_code_show_as_mixed(table, code):
    results.make(table, "full", seeds=2, progress=False)
    code["learned_mapping.learned"] = 2
    made = results.make(table, "full", seeds=2, reuse_stale=True, progress=False)
    assert made["source_digest"] == "mixed" and states()[0] == "stale"


def test_a_method_added_to_the_plan_makes_the_result_stale(table, monkeypatch):
    """A table that lacks a row of its plan is not the table."""
    made = results.make(table, "full", seeds=2, progress=False)
    fewer = Artifact("toy.table", 1, "A table", lambda *args: table.plan(*args)[:2], table.assemble, table.packages)
    assert results.is_fresh(table, made) and not results.is_fresh(fewer, made)


def test_a_figure_is_as_fresh_as_the_table_it_is_drawn_from(table, code, tmp_path):
    """Would catch a figure that shows as fresh over stale numbers, and one that drops --reuse-stale on the way."""
    made = results.make("toy.figure", "full", seeds=2, progress=False)
    assert made["validated"] == 4 and states() == ["fresh", "fresh"]
    code["learned_mapping.learned"] = 2
    assert states() == ["stale", "stale"]
    results.make("toy.figure", "full", reuse_stale=True, progress=False)
    assert states() == ["stale", "stale"] and executions(tmp_path / "learned") == 2
    results.make("toy.figure", "full", progress=False)
    assert states() == ["fresh", "fresh"] and executions(tmp_path / "learned") == 4
    assert results.load("toy.table")["seeds"] == 2, "a part keeps its seeds"


def test_the_parts_obey_the_limit_too(table, tmp_path):
    """Otherwise a figure of no runs of its own would take hours in spite of --minutes."""

    class Never:
        def learn(self, record):
            pass

        def allows(self, run):
            return False

    with pytest.raises(RunsMissingError, match=r"toy.table: 0 of 10 runs are there"):
        results.make("toy.figure", "full", limit=Never(), progress=False)
    assert results.stored("toy.figure") is None


def test_a_run_must_rest_on_something(table):
    """A record without sources could never become stale."""
    bare = Artifact("toy.table", 1, "A table", table.plan, table.assemble, lambda run: ())
    with pytest.raises(ValueError, match="'greedy' on 'toy'"):
        results.make(bare, "quick", seeds=1, progress=False)


def test_digests_combine_as_a_set():
    combined = provenance.combined_digest(["b", "a", "b"])
    assert combined == provenance.combined_digest({"a", "b"}) != provenance.combined_digest(["a", "c"])
    assert provenance.combined_digest(["a", "a"]) == "a", "stored results of one digest stay as they are"


def test_many_runs_cost_no_more_than_their_distinct_packages():
    """`lmap artifacts` asks for the digest of every run; following the imports anew for each would take seconds."""
    packages = {"brkga": ("learned_mapping.regal.searches.brkga",), "greedy": ("learned_mapping.mcm.searches.greedy",)}
    runs = [Run("m:f", method, "toy", {}, seed) for seed in range(2000) for method in packages]
    artifact = Artifact("toy.long", 1, "Long", lambda *args: runs, lambda *args: {}, lambda run: packages[run.method])
    start = time.process_time()
    results.artifact_digest(artifact, "full", 2000)
    assert time.process_time() - start < 2
