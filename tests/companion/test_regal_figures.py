import numpy as np

from learned_mapping.learning.checkpoint import write_checkpoint
from learned_mapping.regal.methods import METHODS, checkpoint_folder, chosen
from learned_mapping_companion.regal.methods import (
    CHOSEN,
    LEARNERS,
    REINFORCED,
    TRAINING_SEEDS,
    brought,
    updates_rows,
)
from learned_mapping_companion.regal.runs import _cost_after


def test_a_run_is_keyed_by_what_was_learned():
    """Another network, another choice, another dataset: another run."""
    assert set(LEARNERS) <= set(METHODS)
    for method in CHOSEN:
        actual = [*brought(method, "traced-runtime"), *brought(method, "synthetic-runtime")]
        assert actual[0]["network"] == "traced-runtime-0" and len(actual[0]["weights"]) == 16
        assert len({item["weights"] for item in actual}) == 2 * len(TRAINING_SEEDS)
        assert all("variant" in item for item in actual)
    for law in ("spectral-law", "priority-law"):
        assert brought(law, "traced-memory")[0]["law"] == chosen()[law]["memory"]["chosen"]
    assert brought("brkga", "traced-memory") == [{}]


def test_what_was_not_trained_is_not_run(monkeypatch, tmp_path):
    """Catches a run of the paper's learner without its checkpoint, networks of another dataset, a
    control of weights that no training started from, and updates that are not the least of its
    networks."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    assert all(
        brought(method, "traced-runtime") == []
        for method in REINFORCED
        if method != "regal-untrained"
    )
    for seed, updates in ((0, 2000), (2, 1500)):
        arrays, header = {"a": np.full(1, seed, np.float32)}, {"updates": updates}
        write_checkpoint(
            checkpoint_folder() / f"reinforce-traced-runtime-{seed}.npz", arrays, header
        )
    assert brought("regal", "synthetic-runtime") == []
    actual = {method: brought(method, "traced-runtime") for method in REINFORCED}
    assert [item["network"] for item in actual["regal"]] == ["traced-runtime-0", "traced-runtime-2"]
    assert (
        actual["regal-average"] == actual["regal"]
        and len({item["weights"] for item in actual["regal"]}) == 2
    )
    assert actual["regal-untrained"] == [{"network": str(seed)} for seed in TRAINING_SEEDS]
    assert actual["gas"] == actual["regal-cloned"] == [] and actual["idrs"] == actual["regal"]
    records = [
        {"instance": "traced-runtime", "method": m, "config": c} for m in actual for c in actual[m]
    ]
    rows = {row["method"]: row for row in updates_rows(records)}
    assert set(rows) == {"regal", "regal-average", "idrs"}
    assert rows["regal"]["value"] == 1500 and rows["regal"]["training_seeds"] == 2


def test_the_cost_after_fewer_evaluations():
    """The last value that was reached in time, not the next one."""
    curve = {"y": [5.0, 4.0, 3.0, 3.0], "samples": [100, 500, 1010, 2000]}
    assert [_cost_after(curve, limit) for limit in (100, 999, 1010, 5000)] == [5.0, 4.0, 3.0, 3.0]
