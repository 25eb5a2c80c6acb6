from __future__ import annotations

import pytest

from learned_mapping.companion import provenance, results
from learned_mapping.companion.artifact import Run
from learned_mapping.companion.regal import figures as regal_figures
from learned_mapping.companion.regal import tables as regal
from learned_mapping.companion.regal.methods import (
    CHOSEN,
    LEARNERS,
    NETWORKS,
    TRAINING_SEEDS,
    brought,
    code_of,
)
from learned_mapping.companion.regal.runs import _cost_after
from learned_mapping.regal.methods import METHODS, chosen


def test_networks_do_not_make_the_searches_stale():
    """Catches a search whose records rest on a network's code, and a learner whose records do not."""
    learned = "learned_mapping.regal.methods"
    for method in (*regal.SEARCHES, *regal.RULES, "long-search", "cp-sat"):
        assert learned not in provenance.module_closure(code_of(Run("a:b", method, "x")))
    for method in LEARNERS:
        assert method in METHODS and learned in provenance.module_closure(code_of(Run("a:b", method, "x")))


def test_a_run_is_keyed_by_what_was_learned():
    """Another network, another choice, another dataset: another run."""
    for method in NETWORKS:
        found = [*brought(method, "traced-runtime"), *brought(method, "synthetic-runtime")]
        assert found[0]["network"] == "traced-runtime-0" and len(found[0]["weights"]) == 16
        assert len({each["weights"] for each in found}) == 2 * len(TRAINING_SEEDS)
        assert all(("variant" in each) == (method in CHOSEN) for each in found)
    for law in ("spectral-law", "priority-law"):
        assert brought(law, "traced-memory")[0]["law"] == chosen()[law]["memory"]["chosen"]
    assert brought("brkga", "traced-memory") == [{}]


def test_the_cost_after_fewer_evaluations():
    """The last value that was reached in time, not the next one."""
    curve = {"y": [5.0, 4.0, 3.0, 3.0], "samples": [100, 500, 1010, 2000]}
    assert [_cost_after(curve, limit) for limit in (100, 999, 1010, 5000)] == [5.0, 4.0, 3.0, 3.0]


def test_improvements_by_hand(monkeypatch):
    """BRKGA 50% above the best and REGAL 20% above: 20% less. Catches gaps that are divided as they stand."""
    rows = [
        {"instance": "traced-memory/unet", "method": m, "metric": "graph_gap_percent", "value": v, "n": 5}
        for m, v in (("brkga", 50.0), ("regal", 20.0), ("spectral-law", 80.0))
    ]
    table = {"rows": rows, "validated": 3, "invalid": 0}
    monkeypatch.setattr(results, "load", lambda *_: table)
    found = regal_figures.assemble_fig2_left("full", [])["rows"]
    values = {(r["instance"], r["method"]): r["value"] for r in found}
    assert values["unet", "regal"] == pytest.approx(20.0) and values["unet", "spectral-law"] == pytest.approx(-20.0)
    assert values["all", "regal"] == 1.0 and values["all", "spectral-law"] == 0.0


def test_limits_by_hand():
    """Two graphs: BRKGA halves one by the last limit; improvements are geometric means over the first."""
    limits = regal_figures.LIMITS["full"]
    flat = [10.0] * len(limits)

    def record(dataset, method, costs):
        graphs = {name: {"costs": each, "valid": True} for name, each in costs.items()}
        return {"method": method, "instance": dataset, "result": {"graphs": graphs}}

    records = []
    for dataset in regal_figures.LIMIT_DATASETS:
        records.append(record(dataset, "brkga", {"a": [10.0, 10.0, 10.0, 5.0], "b": flat}))
        records.append(record(dataset, "regal", {"a": [5.0] * 4, "b": [5.0] * 4}))
        flat = [1e9] * len(limits)  # of the second dataset, which must not mix with the first
    rows = regal_figures.assemble_fig2_right("full", records)["rows"]
    values = {(r["method"], r["instance"]): r["value"] for r in rows if r["dataset"] == regal_figures.MEMORY}
    assert values["brkga", "5000"] == pytest.approx(0.0) and values["regal", "5000"] == pytest.approx(50.0)
    assert values["brkga", "50000"] == pytest.approx(100 * (1 - 0.5**0.5))
