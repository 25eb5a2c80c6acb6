"""Artifacts: what the profiles make of a full plan, and that the table of ids knows them all."""

import importlib

import pytest

from learned_mapping_companion.artifact import PACKAGE, TABLE, Artifact, Quick, Run, judged


def plan(seeds: int) -> list[Run]:
    config = {"samples": 100, "graphs": ["a", "b", "c"]}
    searches = [
        Run("m:f", method, instance, config | {"network": f"net-{seed}"}, seed, long=True)
        for instance in ("x", "y")
        for method in ("sa", "rl")
        for seed in range(seeds)
    ]
    return [Run("m:f", "rule", "x", {"samples": 1}), *searches]


def quick(seeds: int = 3, **fields) -> list[Run]:
    return Artifact("toy", list, plan, Quick(**fields)).runs("quick", seeds)


def test_quick_takes_what_it_says():
    """Catches a filter that is not applied, or applied to what it does not name."""
    assert {run.method for run in quick(methods=("sa", "rule"))} == {"sa", "rule"}
    assert {run.instance for run in quick(instances=1)} == {"x"}
    assert {run.instance for run in quick(instances=("y",))} == {"y"}
    assert {run.seed for run in quick(seeds=3)} == {0, 1, 2} and len(quick(networks=2)) == 1 + 8
    assert [run.seed for run in Artifact("toy", list, plan, Quick(seeds=1)).runs("quick", 3)] == [
        0
    ] * 5
    assert len(quick(only={"samples": (100,)})) == 12 and not quick(only={"samples": ()})


def test_quick_makes_settings_smaller_and_runs_short():
    """Catches a rule that gets a search's samples, and the same run twice."""
    runs = quick(config={"samples": 40, "graphs": 2, "size": "small"})
    assert [run.config["samples"] for run in runs] == [1] + [40] * 12
    assert all(run.config["graphs"] == ["a", "b"] for run in runs[1:])
    assert {run.config["size"] for run in runs} == {"small"} and not any(run.long for run in runs)
    named = quick(config={"graphs": ("c", "z")}, long=True)
    assert [run.config["graphs"] for run in named[1:]] == [["c"]] * 12 and named[1].long
    assert len(quick(config={"graphs": ("z",)})) == 1, "a run without a graph is none"
    twice = Quick(plan=lambda seeds: plan(1) + plan(1))
    assert len(Artifact("toy", list, plan, twice).runs("quick", 3)) == 5


def test_paper_is_a_factor():
    """Catches numbers that become of another type, which would be runs of other digests."""
    artifact = Artifact("toy", list, plan, paper={"samples": 2.5, "size": "paper"})
    runs = artifact.runs("paper", 1)
    assert [run.config["samples"] for run in runs] == [2, 250, 250, 250, 250]
    assert all(run.config["size"] == "paper" for run in runs) and runs[1].long
    assert artifact.runs("full", 1) == plan(1)


def test_every_solution_is_counted_once():
    """Catches an invalid solution among a run's graphs, one that is counted by its run, and one
    that nobody judged."""
    records = [
        {"result": {"graphs": {"a": {"valid": True}, "b": {"valid": False}, "c": {"cost": 1.0}}}},
        {"result": {"valid": 40, "validated": 3, "invalid": 1}},
        {"result": {"valid": True, "judged": False}},
        {"result": {"valid": 7}},
        {"result": {"valid": True, "broken": 1}},
    ]
    part = {"validated": 9, "invalid": 0}
    assert judged([], records, part) == {"rows": [], "validated": 7, "invalid": 3}
    assert judged([], [], part) == {"rows": [], **part}


@pytest.mark.parametrize("module", sorted({entry["module"] for entry in TABLE.values()}))
def test_the_table_has_every_artifact_of_a_module(module):
    """Catches an artifact that no command reaches."""
    items = vars(importlib.import_module(f"{PACKAGE}.{module}")).values()
    assert {item.id for item in items if isinstance(item, Artifact)} <= TABLE.keys()
