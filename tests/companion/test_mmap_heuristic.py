"""The heuristic's table: what is run, validated and compared. Small programs stand for the compiled set."""

from __future__ import annotations

import pytest

from learned_mapping.companion import results
from learned_mapping.companion.datasets import compiled
from learned_mapping.companion.datasets.compiled import CHECKS
from learned_mapping.companion.figures.mmap_results import compiler_returns, copy_rules
from learned_mapping.companion.mmap import heuristic as table
from learned_mapping.mmap.searches.heuristic import Settings, heuristic
from learned_mapping.programs.json_io import write_json
from learned_mapping.style import svg_text
from learned_mapping.tpu.latency_tables import CLOCK_HZ
from mmap_games import hard_program, store_compiled


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Three programs under the names of the quick profile; a mapping of another heuristic stands for the compiler's."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    monkeypatch.setenv("LEARNED_MAPPING_BUILD", str(tmp_path / "build"))
    folder = tmp_path / "compiled"
    programs = {name: hard_program(seed, 50) for seed, name in enumerate(table.QUICK_PROGRAMS)}
    store_compiled(folder, {name: (each, heuristic(each, Settings(overlap=9.0))) for name, each in programs.items()})
    table.load.cache_clear()
    yield folder
    table.load.cache_clear()


def rows_of(result, **keys):
    return {row["instance"]: row["value"] for row in results.select(result, **keys)}


def test_the_table(stored):
    """Would catch a method left out, a mapping not validated, and a ratio the wrong way up."""
    made = results.make("mmap.heuristic", "quick", progress=False)
    names = set(table.QUICK_PROGRAMS)
    assert made["validated"] == len(names) * (len(table.METHODS) - 1) and made["invalid"] == 0
    for method in table.METHODS:
        assert set(rows_of(made, method=method, metric="return")) == names | {"all"}
    for name in names:
        program, _ = compiled.load(name)
        cell = {row["method"]: row["value"] for row in results.select(made, instance=name, metric="latency_s")}
        fast = {row["method"]: row["value"] for row in results.select(made, instance=name, metric="speedup_over_xla")}
        assert fast["xla"] == 1.0 and fast["greedy"] == pytest.approx(cell["xla"] / cell["greedy"])
        speedup = results.value(made, instance=name, method="greedy", metric="speedup")
        assert speedup == pytest.approx(program.slow_s.sum() / cell["greedy"])
        tuned = results.value(made, instance=name, method="greedy-tuned", metric="return")
        assert tuned >= results.value(made, instance=name, method="greedy", metric="return")
        relaxed = results.value(made, instance=name, method="xla", metric="latency_relaxed_s")
        assert relaxed <= results.value(made, instance=name, method="xla", metric="latency_contended_s") + 1e-9
    assert not results.select(made, metric="cycles_ratio")
    marks = compiler_returns(made["rows"]).axes[0].collections
    assert sum(len(each.get_offsets()) for each in marks[1:]) == 5 * len(names)
    assert svg_text(copy_rules(made["rows"])) == svg_text(copy_rules(made["rows"]))


def test_cycles_are_compared_where_they_are_known(stored):
    """Would catch ratios of the wrong mapping: cycles twice the table's are a ratio of a half."""
    name = table.QUICK_PROGRAMS[0]
    result = table.run_method("xla", name, {}, 0)
    inside = (result["slow_s"] - result["saving_s"]) * CLOCK_HZ
    check = {"compiled_cycles": 2 * inside, "compiled_slow_cycles": 4 * result["slow_s"] * CLOCK_HZ}
    unknown = {"compiled_cycles": None, "compiled_slow_cycles": None}
    programs = {name: check, table.QUICK_PROGRAMS[1]: unknown}
    write_json(stored / CHECKS, {"schema": "learned-mapping/checks/1", "programs": programs})
    records = [{"instance": each, "method": "xla", "result": result} for each in table.QUICK_PROGRAMS]
    rows = {(row["instance"], row["metric"]): row["value"] for row in table.cycle_rows(records)}
    assert {instance for instance, _ in rows} == {name}
    assert rows[name, "cycles_ratio_tables"] == pytest.approx(0.5)
    assert rows[name, "cycles_ratio_slow"] == pytest.approx(0.25)
    assert rows[name, "cycles_ratio"] == pytest.approx(0.5 * result["latency_s"] * CLOCK_HZ / inside)


def test_a_program_that_nothing_speeds_up_has_no_return(stored):
    """Would catch a zero for a share of nothing, which a mean then takes for a failure."""
    names = table.QUICK_PROGRAMS
    records = []
    for name in names:
        for method in table.METHODS:
            config = {"samples": 2, "program": "0" * 16}
            result = table.run_method(method, name, config, 0)
            records.append({"instance": name, "method": method, "config": config, "result": result})
    for record in records[: len(table.METHODS)]:
        record["result"]["possible_s"] = 0.0
    rows = table.assemble_heuristic("quick", records)["rows"]
    shown = [row for row in rows if row["metric"] == "return" and row["method"] == "greedy"]
    assert [row["instance"] for row in shown] == [*names[1:], "all"]
    assert shown[-1]["n"] == 2 and shown[-1]["value"] == pytest.approx((shown[0]["value"] + shown[1]["value"]) / 2)
