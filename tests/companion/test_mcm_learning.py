"""Tests of paper 2's learning experiments: levels by hand, one small run of each kind, rows that the claims name."""

from __future__ import annotations

import numpy as np
import pytest

from learned_mapping.companion.artifact import PROFILES
from learned_mapping.companion.figures.mcm import curves
from learned_mapping.companion.mcm import graphs
from learned_mapping.companion.mcm import learning as mcm_learning
from learned_mapping.companion.mcm import learning_bert as mcm_learning_bert
from learned_mapping.companion.mcm import silicon as mcm_memory
from learned_mapping.companion.mcm.learning_runs import silicon_run
from learned_mapping.companion.mcm.levels import best_so_far, level_row, log_curves, reached
from learned_mapping.companion.worker import perform
from learned_mapping.style import svg_text


def record(method, instance, throughput, **more):
    """A run whose first of three samples is half as good as its second."""
    curve = {"x": [0, 1, 2], "samples": [1, 2, 3], "y": [throughput / 2, throughput, throughput]}
    result = {"throughput": throughput, "valid": True, "samples": 3, "seconds": 1.0, "curve": curve, "ops": 5}
    return {"method": method, "instance": instance, "config": {}, "result": result | {"chips": 4} | more}


def test_levels_by_hand():
    """Catches an arithmetic mean over graphs, a count from 0, and a level never reached that counts as reached."""
    records = [record("rl", "a", 2.0), record("rl", "b", 8.0)]
    logs = log_curves(records, {"a": 1.0, "b": 2.0}, 3)
    np.testing.assert_allclose(np.exp(logs.mean((0, 1))), [2**0.5, 2 * 2**0.5, 2 * 2**0.5])
    assert reached(np.array([1.0, 2.0, 3.0]), 2.0) == 2 and reached(np.array([1.0]), 2.0) == 2
    assert level_row("rl", 2.5, "2.50", logs, "all")["value"] == 2
    missed = level_row("rl", 9.0, "9.00", logs, "all")
    assert missed["value"] is None and missed["censored"] == 4 and "low" not in missed
    np.testing.assert_allclose(best_so_far(records[0]["result"]["curve"], 5), [1, 2, 2, 2, 2])


def test_figure_5_by_hand():
    """Catches ratios over another rule, arithmetic means of ratios, and the optimum counted among searches."""
    records = [
        record(m, g, v) for g in "ab" for m, v in (("greedy-naive", 1.0), ("greedy-careful", 2.0), ("optimum", 4.0))
    ]
    records += [record("rl", "a", 3.0), record("rl", "b", 4.0), record("sa", "a", 6.0), record("sa", "b", 2.0)]
    found = mcm_learning.assemble_fig5("full", records)
    rows = {(r["instance"], r["method"], r["metric"], r.get("target")): r for r in found["rows"]}
    ratio = rows["all", "rl", "ratio", None]
    assert ratio["baseline"] == "sa" and ratio["value"] == pytest.approx(1.0)  # of 1/2 and 2
    assert (ratio["low"], ratio["high"]) == pytest.approx((0.5, 2.0)) and ratio["graphs"] == 2  # one graph drawn twice
    over = rows["all", "rl", "over_careful", None]
    assert [over[end] for end in ("low", "value", "high")] == pytest.approx([1.5, 3**0.5, 2.0])
    assert rows["all", "sa", "over_optimum", None]["value"] == pytest.approx(0.75**0.5)
    assert rows["all", "sa", "graphs_above_careful", None]["value"] == 1
    assert rows["all", "rl", "graphs_above_careful", None]["value"] == 2
    assert rows["a", "rl", "improvement", None]["value"] == 3 and rows["b", "rl", "over_optimum", None]["value"] == 1
    assert rows["all", "rl", "improvement", None]["value"] == pytest.approx(12**0.5)
    assert rows["all", "rl", "samples", "75%"]["value"] == 2  # 2 * 2 ** .75 = 3.36 < 3.46
    assert rows["all", "rl", "samples", "90%"]["value"] is None
    assert ("all", "optimum", "samples", "75%") not in rows and found["invalid"] == 0
    assert "<svg" in svg_text(curves(found, "improvement", "over", mcm_learning.RULES))


def test_figure_6_with_what_never_runs():
    """Catches a logarithm of 0, a search that seems to run before every seed does, and budgets mixed up."""
    records = [record(m, "bert_large_inference", v, fits=True, ran=3, naive=1.0) for m, v in
               (("greedy-naive", 1.0), ("optimum", 2.0), ("finetune", 2.2))]  # fmt: skip
    broken = record("random", "bert_large_inference", 0.0, fits=False, ran=0, naive=1.0)
    early = record("finetune", "bert_large_inference", 2.1, fits=True, ran=3, naive=1.0)
    early["config"] = {"samples": mcm_learning_bert.EARLY_SAMPLES}
    found = mcm_learning_bert.assemble_fig6("full", [*records, broken, early])
    rows = {(r["method"], r["metric"], r.get("target")): r for r in found["rows"]}
    assert rows["finetune", "over_optimum", None]["value"] == pytest.approx(1.1)
    assert rows["random", "measured_over_optimum", None]["curve"]["y"] == [0.0, 0.0, 0.0]
    assert rows["random", "samples", "2.55"]["value"] is None
    assert rows["finetune", "samples", "105% of the optimum"]["value"] == 2


def test_headroom_has_the_runs_of_figure_5_on_graphs_of_its_own():
    """Catches a method left out, other samples, and a quick run that opens the set."""
    runs, before = mcm_learning.plan_headroom("full", 5), mcm_learning.plan_fig5("full", 5)
    assert {r.instance for r in runs} == set(graphs.names(of=graphs.HEADROOM))
    assert not {r.instance for r in runs} & {r.instance for r in before}
    kinds = [{(r.task, r.method, str(r.config), r.seed) for r in each} for each in (runs, before)]
    assert kinds[0] == kinds[1] and len(runs) == len(before) == 16 * (3 + 10 * 5)
    quick = mcm_learning.plan_headroom("quick", 1)
    assert quick == mcm_learning.plan_fig5("quick", 1) and {r.instance for r in quick} <= set(graphs.names())


def test_headroom_tells_every_method_by_hand():
    """Catches rows that the page or its sentence asks for and the assembly lacks."""
    values = {"greedy-naive": 1.0, "greedy-careful": 2.0, "optimum": 4.0}
    values |= {method: 2.0 + i / 4 for i, method in enumerate(mcm_learning.SEARCHES)}
    records = [record(m, g, v, chips=8) for g in "ab" for m, v in values.items()]
    for each in records:
        each["config"] = {"network": "quick"}
    found = mcm_learning.assemble_headroom("full", records)
    rows = {(r["method"], r["metric"], r.get("baseline")): r for r in found["rows"] if r["instance"] == "all"}
    for method, value in values.items():
        assert rows[method, "over_careful", None]["value"] == pytest.approx(value / 2)
        assert rows[method, "over_optimum", None]["value"] == pytest.approx(value / 4)
        assert rows[method, "graphs_above_careful", None]["value"] == (2 if value > 2 else 0)
    assert {(m, "ratio", other) for m, other in mcm_learning.CONTRASTS} <= set(rows)
    assert found["validated"] == len(records) and found["invalid"] == 0


def test_iterations_at_equal_samples_and_at_equal_time_by_hand():
    """Catches a longer run that is read at its own end, and one that is compared with another graph's or seed's."""
    records = []
    for seed, turns, ends in ((0, 1, (1.0, 2.0)), (1, 1, (1.0, 4.0)), (0, 2, (1.5, 3.0)), (1, 2, (6.0, 6.0))):
        made = record("rl", "resnet_18", ends[1], chips=8, seconds=10.0 * turns)
        made["seed"], made["config"] = seed, {"iterations": turns, "network": "quick", "samples": 40}
        made["result"] |= {
            "samples": 40,
            "curve": {"x": [5.0, 15.0, 20.0], "samples": [1, 2, 2], "y": [*ends, ends[1]]},
        }
        records.append(made)
    found = mcm_learning.assemble_iterations("full", records)["rows"]
    ratio = {r["equal"]: r["value"] for r in found if r["metric"] == "ratio" and r["iterations"] == 2}
    assert ratio == {"samples": pytest.approx(4.5 / 3.0), "seconds": pytest.approx(3.75 / 3.0)}
    assert mcm_learning.plan_iterations("full", 5)[0].config["iterations"] == 1


def test_what_the_chain_rule_costs_by_hand():
    """Catches a ratio the wrong way round, and graphs mixed up."""
    records = []
    for name, chain, general in (("a", 2.0, 3.0), ("b", 8.0, 8.0)):
        for strength, value in (("chain", chain), ("general", general)):
            records.append(record("random", name, value) | {"config": {"strength": strength, "samples": 3}})
    found = mcm_learning.assemble_strength("full", records)["rows"]
    ratio = {r["instance"]: r["value"] for r in found if r["metric"] == "ratio"}
    assert ratio == {"all": pytest.approx(1.5**0.5), "a": pytest.approx(1.5), "b": pytest.approx(1.0)}


@pytest.mark.parametrize("plan", [mcm_learning.plan_fig5, mcm_learning_bert.plan_fig6, mcm_memory.plan_memory])
def test_searches_of_a_plan_get_equal_samples(plan):
    """Catches a search that may try more."""
    for profile in PROFILES:
        runs = plan(profile, 2)
        searches = [r for r in runs if r.method in (*mcm_learning.SEARCHES, *mcm_learning_bert.SEARCHES)]
        early = mcm_learning_bert.EARLY_SAMPLES if plan is mcm_learning_bert.plan_fig6 else None
        whole = [r for r in searches if r.config["samples"] != early]
        assert len({r.config["samples"] for r in whole}) <= 1
        assert {r.method for r in searches} == {r.method for r in whole}


def test_runs_repeat_and_count_their_samples():
    """Catches hidden randomness and a search that takes more than it is given."""
    for task, method, config in (
        ("mcm.solve", "costs-cem", {"samples": 20}),
        ("mcm.mode", "rl", {"samples": 20, "mode": "sample", "credit": "repaired", "network": "quick"}),
    ):
        run = {"task": task, "method": method, "instance": "resnet_14", "config": config, "seed": 1}
        first, second = (perform(run)["result"] for _ in range(2))
        assert first["valid"] and first["samples"] == 20 and first["throughput"] == second["throughput"]
    run |= {"task": "mcm.share", "method": "unconstrained", "config": {"samples": 60}}
    assert perform(run)["result"]["samples"] == 60


def test_who_fits_a_small_memory():
    """Catches memories mixed up, and a search that never ran counted as if its first sample had."""
    records = []
    for memory, ran in ((64.0, None), (66.0, 2)):
        for method in ("optimum", "costs-cem"):
            throughput = 0.0 if ran is None else 2.0
            made = record(method, "bert_large_inference", throughput, fits=ran is not None, ran=0, first_ran=ran)
            records.append(made | {"config": {"sram_mib": memory}})
    found = mcm_memory.assemble_memory("full", records)
    rows = {(r["method"], r["sram_mib"], r["metric"]): r["value"] for r in found["rows"]}
    assert rows["costs-cem", 64.0, "first_ran"] == 4 and rows["costs-cem", 66.0, "first_ran"] == 2
    assert rows["optimum", 64.0, "fits_percent"] == 0 and rows["optimum", 66.0, "throughput"] == 2
    assert ("optimum", 64.0, "first_ran") not in rows


def test_less_memory_is_what_a_run_has():
    """Catches a run that ignores its memory: the static optimum of BERT needs more than 64 MiB and less than 67."""
    runs = {r.config["sram_mib"]: r for r in mcm_memory.plan_memory("full", 1) if r.method == "optimum"}
    fits = {
        m: silicon_run(run.method, run.instance, run.config, run.seed)["fits"]
        for m, run in runs.items()
        if m in (64, 67)
    }
    assert fits == {64.0: False, 67.0: True}
