"""Tests of the ties with the static optimum on silicon."""

from __future__ import annotations

import pytest

from learned_mapping.companion.mcm import silicon as mcm_silicon_ties
from learned_mapping.companion.worker import perform


def test_rows_by_hand():
    """Catches ratios over something else than the optimum's own throughput, and budgets thrown together."""
    tied = {"over_optimum": [0.75, 1.0, 1.25, 1.5], "optimum_throughput": 2.0, "broken": 1}
    records = [{"method": "tied-with-optimum", "config": {}, "result": tied}]
    for samples, throughput in ((10, 3.0), (20, 4.0)):
        result = {"throughput": throughput, "valid": samples == 10}
        records.append({"method": "class-search", "config": {"samples": samples}, "result": result})
    baseline = {"method": "random-balanced", "config": {"samples": 10}, "result": {"throughput": 1.5, "valid": True}}
    records.append(baseline)
    assembled = mcm_silicon_ties.assemble_ties("full", records)
    rows = {(r["method"], r["metric"], r.get("samples")): r["value"] for r in assembled["rows"]}
    found = [rows["tied-with-optimum", f"{name}_over_optimum", None] for name in ("worst", "median", "best")]
    assert found == [0.75, 1.125, 1.5] and rows["tied-with-optimum", "partitions", None] == 4
    assert [rows["class-search", "over_optimum", n] for n in (10, 20)] == [1.5, 2.0]
    assert rows["class-search", "ratio", 10] == 2.0 and ("class-search", "ratio", 20) not in rows
    assert (assembled["validated"], assembled["invalid"]) == (3, 2)


def test_ties_of_a_small_graph():
    """The optimum is among its ties, and the run is the seed's alone."""
    task = {"task": "silicon.ties", "method": "tied-with-optimum", "seed": 1}
    task |= {"instance": "resnet_14", "config": {"chips": 3, "partitions": 20}}
    first, second = (perform(task) for _ in range(2))
    assert first["result"] == second["result"], first
    assert 1.0 in first["result"]["over_optimum"] and first["result"]["broken"] == 0
    assert first["result"]["over_optimum"] == pytest.approx(sorted(first["result"]["over_optimum"]))
