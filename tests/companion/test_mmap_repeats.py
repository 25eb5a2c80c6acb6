"""Edit-search with and without decisions taken over, from records."""

import pytest

from learned_mapping_companion import results
from learned_mapping_companion.mmap import repeats


def test_both_are_compared_program_by_program():
    """Would catch a gain of the wrong sign, and a tie that is counted."""
    plan = repeats.BY_REPEATS.runs("full", 5)
    assert len(plan) == 120 and not any(run.long for run in plan)
    gains = {"alexnet_train_batch_32": 0.1, "rnn_0": -0.02, "rnn_1": 0.0005}
    records = [
        {
            "method": run.method,
            "instance": run.instance,
            "config": run.config,
            "seed": 0,
            "result": {
                "costs": {"return": 0.5 + gains[run.instance] * (run.method == repeats.REPEATS)},
                "judged": True,
                "valid": True,
            },
        }
        for run in plan
        if run.instance in gains
    ]
    result = repeats.BY_REPEATS.result(records)
    rows = {
        row["metric"]: row for row in results.select(result, instance="all", method=repeats.REPEATS)
    }
    assert rows["difference"]["value"] == pytest.approx(sum(gains.values()) / 3)
    assert (
        rows["difference"]["low"] < 0 < rows["difference"]["high"] and rows["difference"]["n"] == 3
    )
    assert rows["ahead"]["value"] == rows["behind"]["value"] == 1
    assert result["validated"] == 6 and not result["invalid"]
