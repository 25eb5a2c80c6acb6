"""Tests of paper 2's learning experiments: levels by hand, one small run of each kind, rows that
the claims name."""

import numpy as np
import pytest

from learned_mapping.style import svg_text
from learned_mapping_companion.artifact import PROFILES
from learned_mapping_companion.figures.mcm import curves
from learned_mapping_companion.mcm import graphs
from learned_mapping_companion.mcm import learning as mcm_learning
from learned_mapping_companion.mcm import learning_bert as mcm_learning_bert
from learned_mapping_companion.mcm.levels import best_so_far, level_row, log_curves, reached
from learned_mapping_companion.worker import perform


def record(method, instance, throughput, **more):
    """A run whose first of three samples is half as good as its second."""
    curve = {"x": [0, 1, 2], "samples": [1, 2, 3], "y": [throughput / 2, throughput, throughput]}
    result = {
        "throughput": throughput,
        "valid": True,
        "samples": 3,
        "seconds": 1.0,
        "curve": curve,
        "ops": 5,
    }
    return {
        "method": method,
        "instance": instance,
        "config": {},
        "result": result | {"chips": 4} | more,
    }


def test_levels_by_hand():
    """Catches an arithmetic mean over graphs, a count from 0, and a level never reached that counts
    as reached."""
    records = [record("rl", "a", 2.0), record("rl", "b", 8.0)]
    logs = log_curves(records, {"a": 1.0, "b": 2.0}, 3)
    np.testing.assert_allclose(np.exp(logs.mean((0, 1))), [2**0.5, 2 * 2**0.5, 2 * 2**0.5])
    assert reached(np.array([1.0, 2.0, 3.0]), 2.0) == 2 and reached(np.array([1.0]), 2.0) == 2
    assert level_row("rl", 2.5, "2.50", logs, "all")["value"] == 2
    missed = level_row("rl", 9.0, "9.00", logs, "all")
    assert missed["value"] is None and missed["censored"] == 4 and "low" not in missed
    np.testing.assert_allclose(best_so_far(records[0]["result"]["curve"], 5), [1, 2, 2, 2, 2])


def test_figure_5_by_hand():
    """Catches ratios over another rule, arithmetic means of ratios, and the optimum counted among
    searches."""
    records = [
        record(m, g, v)
        for g in "ab"
        for m, v in (("greedy-naive", 1.0), ("greedy-careful", 2.0), ("optimum", 4.0))
    ]
    records += [
        record("rl", "a", 3.0),
        record("rl", "b", 4.0),
        record("sa", "a", 6.0),
        record("sa", "b", 2.0),
    ]
    actual = mcm_learning.FIG5.result(records)
    rows = {(r["instance"], r["method"], r["metric"], r.get("target")): r for r in actual["rows"]}
    ratio = rows["all", "rl", "ratio", None]
    assert ratio["baseline"] == "sa" and ratio["value"] == pytest.approx(1.0)  # of 1/2 and 2
    # one graph drawn twice
    assert (ratio["low"], ratio["high"]) == pytest.approx((0.5, 2.0)) and ratio["graphs"] == 2
    over = rows["all", "rl", "over_careful", None]
    assert [over[end] for end in ("low", "value", "high")] == pytest.approx([1.5, 3**0.5, 2.0])
    assert rows["all", "sa", "over_optimum", None]["value"] == pytest.approx(0.75**0.5)
    assert rows["all", "sa", "graphs_above_careful", None]["value"] == 1
    assert rows["all", "rl", "graphs_above_careful", None]["value"] == 2
    assert (
        rows["a", "rl", "improvement", None]["value"] == 3
        and rows["b", "rl", "over_optimum", None]["value"] == 1
    )
    assert rows["all", "rl", "improvement", None]["value"] == pytest.approx(12**0.5)
    assert rows["all", "rl", "samples", "75%"]["value"] == 2  # 2 * 2 ** .75 = 3.36 < 3.46
    assert rows["all", "rl", "samples", "90%"]["value"] is None
    assert ("all", "optimum", "samples", "75%") not in rows and actual["invalid"] == 0
    assert "<svg" in svg_text(curves(actual, "improvement", "over", mcm_learning.RULES))


def test_headroom_has_the_runs_of_figure_5_on_graphs_of_its_own():
    """Catches an untrained method left out, other samples, and a quick run that opens the set."""
    runs, before = mcm_learning.HEADROOM.runs("full", 5), mcm_learning.FIG5.runs("full", 5)
    assert {r.instance for r in runs} == set(graphs.names(of=graphs.HEADROOM))
    assert not {r.instance for r in runs} & {r.instance for r in before}
    kinds = [{(r.task, r.method, str(r.config), r.seed) for r in item} for item in (runs, before)]
    trained = {run for run in kinds[1] if run[1].startswith(("zeroshot", "finetune"))}
    assert kinds[0] == kinds[1] - trained and len({run[1] for run in trained}) == 6
    assert len(runs) == 16 * (3 + 8 * 5) and len(before) == 16 * (3 + 14 * 5)
    quick = mcm_learning.HEADROOM.runs("quick", 1)
    assert set(quick) <= set(mcm_learning.FIG5.runs("quick", 1)) and {
        r.instance for r in quick
    } <= set(graphs.names())


@pytest.mark.parametrize("artifact", [mcm_learning.FIG5, mcm_learning_bert.FIG6])
def test_searches_of_a_plan_get_equal_samples(artifact):
    """Catches a search that may try more."""
    for profile in PROFILES:
        runs = artifact.runs(profile, 2)
        searches = [
            r for r in runs if r.method in (*mcm_learning.SEARCHES, *mcm_learning_bert.SEARCHES)
        ]
        counts = {r.config["samples"] for r in searches}
        assert len(counts) == 1 + (artifact is mcm_learning_bert.FIG6 and profile != "quick")
        whole = [r for r in searches if r.config["samples"] == max(counts)]
        assert {r.method for r in searches} == {r.method for r in whole}


def test_runs_repeat_and_count_their_samples():
    """Catches hidden randomness and a search that takes more than it is given."""
    for task, method, config in (
        ("mcm.solve", "sa-balanced", {"samples": 20}),
        (
            "mcm.mode",
            "rl",
            {"samples": 20, "mode": "sample", "credit": "sample", "network": "quick"},
        ),
    ):
        run = {"task": task, "method": method, "instance": "resnet_14", "config": config, "seed": 1}
        first, second = (perform(run)["result"] for _ in range(2))
        assert (
            first["valid"]
            and first["samples"] == 20
            and first["throughput"] == second["throughput"]
        )
