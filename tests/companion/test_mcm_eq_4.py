"""The artifact of Eq. 4 itself: rows of hand-made records, and a run of a small graph."""

import pytest

from learned_mapping_companion.mcm import eq_4
from learned_mapping_companion.worker import perform


def record(name, throughput, most, proved):
    result = {"valid": True, "throughput": throughput, "chain": 2.0, "most": most}
    result |= {"proved": proved, "ops": 5, "chips": 8}
    return {"instance": name, "method": eq_4.METHOD, "config": {}, "seed": 0, "result": result}


def test_rows_by_hand():
    """Catches a ratio upside down, CP-SAT's rounding that counts as a gain, a bound below what is
    there, and a proof that is not one."""
    given = [record("a", 4.0, 4.0, True), record("b", 2.0 - 1e-9, 3.0, False)]
    result = eq_4.EQ_4.result(given)
    rows = {(row["instance"], row["metric"]): row["value"] for row in result["rows"]}
    assert rows["a", "over_chain"] == 2.0 and rows["b", "over_chain"] == 1.0
    assert rows["a", "over_chain_at_most"] == 2.0 and rows["b", "over_chain_at_most"] == 1.5
    assert rows["all", "over_chain"] == pytest.approx(2**0.5)
    assert rows["all", "most_over_chain"] == 2.0
    assert (rows["all", "graphs_above_chain"], rows["all", "graphs_proved"]) == (1, 1)
    assert (result["validated"], result["invalid"]) == (2, 0)


def test_a_run_of_branches_side_by_side():
    """Catches a start that Eq. 4's model refuses, and a partition that the validator does: six
    convolutions side by side share chips that the chain rule leaves empty."""
    config = {"chips": 4, "effort": 2.0}
    task = {"task": "mcm.eq_4", "method": eq_4.METHOD, "instance": "text_cnn", "seed": 0}
    result = perform(task | {"config": config})["result"]
    assert (
        result["valid"] and result["chain"] * 1.1 < result["throughput"] <= 1.001 * result["most"]
    )


def test_graphs_are_of_training():
    """Catches a test graph among those that were looked at."""
    instances = {run.instance for run in eq_4.EQ_4.runs("full", 5)}
    assert instances <= set(eq_4.graphs.names("train")) and len(instances) > 20
