"""What makes a result stale: a method of it that behaves differently, or its data; and its
parts."""

import json
from pathlib import Path

import pytest

from companion.toy import install
from learned_mapping.cli import main
from learned_mapping.errors import InputError
from learned_mapping.folders import project_folder
from learned_mapping.learning.loop import read_log
from learned_mapping_companion import fingerprints, ledger, results
from learned_mapping_companion.artifact import TABLE, Artifact, Run, find_artifact
from learned_mapping_companion.claims import read_claims
from learned_mapping_companion.runs import RunsMissingError

METHODS = ("greedy", "learned")


@pytest.fixture
def code(own_folders, monkeypatch):
    """Method -> what it does; its fingerprint."""
    states = {"mmap/greedy": "1", "mmap/learned": "1"}
    monkeypatch.setattr(fingerprints, "current", lambda: dict(states))
    monkeypatch.setattr(fingerprints, "key_of", lambda run: f"mmap/{run.method}")
    return states


@pytest.fixture
def table(code, tmp_path, monkeypatch):
    """Two methods, and a figure drawn from the table's result."""

    def plan(seeds: int) -> list[Run]:
        folders = {method: tmp_path / method for method in METHODS}
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
        function = "companion.run_functions:count"
        return [
            Run(function, method, "toy", {"folder": str(folder)}, seed)
            for method, folder in folders.items()
            for seed in range(seeds)
        ]

    def assemble(records: list[dict]) -> dict:
        return {"rows": [], "validated": len(records), "invalid": 0}

    def redraw(records: list[dict], part: dict) -> dict:
        return {"rows": [], "validated": part["validated"], "invalid": 0}

    table, figure = Artifact("toy.table", assemble, plan), Artifact("toy.figure", redraw)
    install(monkeypatch, table, figure, parts={"toy.figure": ["toy.table"]})
    return table


def executions(folder: Path) -> int:
    return sum(len(log.read_text()) for log in folder.glob("*.log"))


def states() -> list[str]:
    return [row["state"] for row in ledger.entries()]


def test_changed_behaviour_of_one_method_redoes_its_runs_only(table, code, tmp_path):
    """Hours of learning must not be lost to a change of a rule of thumb beside it."""
    results.make(table, "full", seeds=2, progress=False)
    assert states() == ["fresh", "not yet run"]
    code["mmap/greedy"] = "2"
    assert states()[0] == "stale"
    results.make(table, "full", seeds=2, progress=False)
    assert states()[0] == "fresh"
    assert (executions(tmp_path / "greedy"), executions(tmp_path / "learned")) == (4, 2)


def test_a_record_of_other_behaviour_shows(table, code):
    results.make(table, "full", seeds=2, progress=False)
    code["mmap/learned"] = "2"
    result = results.make(table, "full", seeds=2, reuse_stale=True, progress=False)
    assert (
        result["fingerprints"] == {"mmap/greedy": "1", "mmap/learned": "1"}
        and states()[0] == "stale"
    )


def test_every_run_of_the_tables_has_a_fingerprint():
    """Would catch a task or a method of a table that nobody would see change; which command stores
    it is said."""
    plans = [find_artifact(name).runs("full", 1) for name in TABLE]
    keys = {fingerprints.key_of(run) for plan in plans for run in plan}
    without = sorted(keys - set(fingerprints.entries()) - set(fingerprints.NO_METHOD))
    assert not without, f"no fingerprint: run `lmap fingerprint {' '.join(without)}`"


def test_changed_data_makes_a_result_stale(table, monkeypatch):
    monkeypatch.setitem(results.DATA, "toy", ("compiled",))
    monkeypatch.setattr(results, "data_digest", lambda name: "a")
    result = results.make(table, "full", seeds=1, progress=False)
    assert not results.staleness(result) and result["data"] == {"compiled": "a"}
    monkeypatch.setattr(results, "data_digest", lambda name: "b")
    assert results.staleness(result) == ["compiled"]


def test_long_runs_are_performed_only_where_asked_for(table, tmp_path):
    """Hours of training must not start because somebody wants the table."""

    def plan(seeds):
        short, long = table.plan(1)
        return [
            short,
            Run(long.task, long.method, long.instance, long.config, long.seed, long=True),
        ]

    partly = Artifact("toy.table", table.assemble, plan)
    assert results.make(partly, "full", seeds=1, progress=False)["validated"] == 1
    assert results.make(partly, "full", seeds=1, long=True, progress=False)["validated"] == 2
    assert results.make(partly, "full", seeds=1, progress=False)["validated"] == 2
    assert executions(tmp_path / "learned") == 1


def test_a_figure_is_as_fresh_as_the_table_it_is_drawn_from(table, code, tmp_path):
    """Would catch a figure that shows as fresh over stale numbers, and one that drops --reuse-stale
    on the way."""
    result = results.make("toy.figure", "full", seeds=2, progress=False)
    assert result["validated"] == 4 and states() == ["fresh", "fresh"]
    code["mmap/learned"] = "2"
    assert states() == ["stale", "stale"]
    results.make("toy.figure", "full", reuse_stale=True, progress=False)
    assert states() == ["stale", "stale"] and executions(tmp_path / "learned") == 2
    results.make("toy.figure", "full", progress=False)
    assert states() == ["fresh", "fresh"] and executions(tmp_path / "learned") == 4
    assert results.load("toy.table")["seeds"] == 2, "a part keeps its seeds"
    results.make("toy.table", "full", seeds=3, progress=False)
    assert states() == ["fresh", "stale"], "its part counts more solutions now"
    assert ledger.entries()[1]["changed"] == ["toy.table"]
    results.make("toy.figure", "full", seeds=1, progress=False)
    assert states() == ["fresh", "fresh"]
    assert results.load("toy.table")["seeds"] == 1, "but where others are asked for"
    assert ledger.entries()[0]["command"].endswith("--seeds 1")
    results.result_path("toy.table").write_text("{")
    assert results.make("toy.figure", "full", progress=False)["validated"] > 2, (
        "a damaged part is made again"
    )


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


def stored(tmp_path, monkeypatch):
    """A data folder with two stored results, and the path of the first."""

    (tmp_path / "results").mkdir()
    for name in ("mcm.fig1", "mcm.fig3"):
        text = (project_folder() / "data" / "results" / f"{name}.json").read_text()
        (tmp_path / "results" / f"{name}.json").write_text(text)
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    return tmp_path / "results" / "mcm.fig1.json"


@pytest.mark.parametrize("damage", ["zone", "torn"])
def test_a_damaged_result_is_named_and_hides_no_other(tmp_path, monkeypatch, capsys, damage):
    """A date without a zone was a fault of ours, and one torn file left the list empty."""
    path = stored(tmp_path, monkeypatch)
    value = json.loads(path.read_text())
    value["created"] = "2026-01-31T12:00:00"
    path.write_text(json.dumps(value) if damage == "zone" else path.read_text()[:200])
    code = main(["artifacts"])
    out = capsys.readouterr().out
    assert (
        code == 0
        and next(line for line in out.splitlines() if line.startswith("mcm.fig3 ")).split()[1]
        == "full"
    )
    assert "damaged" in next(line for line in out.splitlines() if line.startswith("mcm.fig1 "))


def test_damaged_files_of_our_own_are_one_line(tmp_path):
    """Claims and learning logs let other exceptions through."""

    for read, texts in (
        (read_claims, (b"\xff\xfe", b"- [", b"claims: 3", b"claims: [{id: 1}]", b"&a [*a]")),
        (read_log, (b"\xff\n", b"[1]\n", b'{"iteration": 1e999}\n', b"[" * 100_000 + b"\n")),
    ):
        for text in texts:
            (tmp_path / "file").write_bytes(text)
            with pytest.raises(InputError) as caught:
                read(tmp_path / "file")
            assert "\n" not in str(caught.value)
