"""Paper 1's artifacts: plans that are complete, rows that say what the records say."""

from __future__ import annotations

import pytest

from learned_mapping.errors import InputError
from learned_mapping.experiments import mmap
from learned_mapping.mmap.methods import METHODS


def record(instance: str, method: str, seed: int, value: float, valid: bool = True) -> dict:
    return {
        "instance": instance,
        "method": method,
        "seed": seed,
        "config": {"seconds": 1.0, "program": "0" * 16},
        "result": {
            "valid": valid,
            "costs": {"return": value, "saving_s": value, "latency_s": 2.0 - value},
            "speedup": 2.0 / (2.0 - value),
            "resets": 0.0,
            "samples": 10,
            "seconds": 1.0,
            "curve": {"x": [0.1, 1.0], "samples": [1, 10], "y": [value / 2, value], "x_unit": "s"},
        },
    }


def test_every_search_gets_every_seed():
    """Catches a method left out of the table, and rules run five times for nothing."""
    plan = mmap.plan_table2("quick", 3)
    counts = {
        method: sum(run.method == method and run.instance == mmap.QUICK_WORKLOADS[0] for run in plan)
        for method in METHODS
    }
    assert counts == {method: 3 if METHODS[method].random else 1 for method in METHODS}
    assert len({run.digest for run in plan}) == len(plan)
    assert len({run.config["seconds"] for run in plan}) == 1


def test_rows_follow_the_records():
    records = [record("one", method, seed, 0.1 * i) for i, method in enumerate(METHODS, 1) for seed in range(3)]
    assembled = mmap.assemble_table2("full", records)
    assert (assembled["validated"], assembled["invalid"]) == (len(records), 0)
    rows = {(row["instance"], row["method"], row["metric"]): row for row in assembled["rows"]}
    for i, method in enumerate(METHODS, 1):
        assert rows["one", method, "return"]["value"] == pytest.approx(0.1 * i)
        assert rows["one", method, "return"]["curve"]["y"][-1] == pytest.approx(0.1 * i)
    assert rows["all", "random", "improvement"]["value"] == 0.0
    assert rows["all", "greedy-tuned", "improvement"]["value"] == 0.5
    assert rows["all", "segment-search", "improvement"]["value"] == 1.0
    assert len(assembled["paper"]) == 12


def test_invalid_solutions_are_counted():
    """The store refuses a result with any; catches a count that looks away."""
    records = [record("one", method, 0, 0.5, valid=method != "random") for method in METHODS]
    assert mmap.assemble_table2("full", records)["invalid"] == 1


def test_a_run_is_a_validated_mapping():
    result = mmap.run_method("greedy-tuned", "alexnet_train_batch_32", {"samples": 20, "keep": True}, 0)
    assert result["valid"] and 0 < result["costs"]["return"] < 1 and result["speedup"] > 1
    assert len(result["mapping"]["action"]) == mmap.workload("alexnet_train_batch_32").num_buffers
    linear = mmap.run_bound("bound-lp", "alexnet_train_batch_32", {}, 0)
    whole = mmap.run_bound("bound", "alexnet_train_batch_32", {"seconds": 20.0}, 0)
    assert result["costs"]["return"] < whole["return"] <= linear["return"] < 1


def test_results_of_another_program_are_noticed():
    """A stored result outlives the file it was made from; the digest in its rows tells."""
    name = "alexnet_train_batch_32"
    row = {"instance": name, "program": mmap.workload(name).digest[:16]}
    assert mmap.of_other_programs({"rows": [row, {"instance": "all"}]}) == []
    assert mmap.of_other_programs({"rows": [{**row, "program": "0" * 16}]}) == [name]


def test_unknown_workloads_are_refused():
    with pytest.raises(InputError, match="no such file"):
        mmap.workload("no-such-program")
