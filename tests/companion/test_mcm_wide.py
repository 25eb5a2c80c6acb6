"""The artifact of wide graphs: rows of hand-made records, plans, and a run of a small graph."""

import pytest

from learned_mapping_companion.mcm import wide
from learned_mapping_companion.worker import perform


def records(value):
    """A record for every run of the quick plan, with a throughput by method and task."""
    made = []
    for run in wide.WIDE.runs("quick", 2):
        result = {"valid": True, "throughput": value(run), "seconds": 2.0}
        if run.task == "mcm.wide_solver":
            result["most"] = 80.0
        made.append(
            {"method": run.method, "instance": run.instance, "config": run.config}
            | {"seed": run.seed, "result": result}
        )
    return made


def one(rows, **cells):
    (found,) = [row for row in rows if cells.items() <= row.items()]
    return found


def test_rows_by_hand(monkeypatch):
    """Catches a share upside down, silicon's throughputs among the model's, and the solver's bound
    taken for ours."""
    monkeypatch.setattr(wide, "bound_of", lambda name: 40.0)

    def value(run):
        if run.task == "silicon.chips":
            return 300.0 if run.method == "learned-times" else 200.0
        return {"rl-balanced": 30.0, "rl-balanced-frozen": 20.0}.get(run.method, 10.0)

    result = wide.WIDE.result(records(value))
    rows, name = result["rows"], "gru_writer_1x6"
    assert one(rows, instance=name, method="rl-balanced", metric="of_bound")["value"] == 0.75
    assert one(rows, instance="all", method="climb", metric="of_bound")["value"] == 0.25
    assert one(rows, metric="its_bound")["value"] == 2.0
    ratio = {"metric": "ratio", "method": "rl-balanced", "baseline": "rl-balanced-frozen"}
    assert one(rows, **ratio)["value"] == pytest.approx(1.5)
    silicon = {"metric": "ratio_on_silicon", "method": "learned-times", "spread": wide.SPREAD}
    assert one(rows, baseline="random-balanced", **silicon)["value"] == pytest.approx(1.5)
    assert (result["validated"], result["invalid"]) == (len(records(value)), 0)


def test_quick_opens_no_test_graph_and_searches_get_equal_samples():
    """Catches a set opened before its table, and a search that may try more."""
    assert {run.instance for run in wide.WIDE.runs("quick", 1)} == {"gru_writer_1x6"}
    runs = wide.WIDE.runs("full", 5)
    assert {run.instance for run in runs} == set(wide.graphs.names("test", wide.graphs.WIDE))
    searches = [run for run in runs if run.task == "mcm.wide" and run.method in wide.SEARCHES]
    assert {run.config["samples"] for run in searches} == {500}


@pytest.mark.parametrize("method", ["random-balanced", "climb"])
def test_runs_of_a_small_graph(method):
    """Catches a method of silicon that the model's tasks cannot run, and another graph's chips."""
    config = {"samples": 5, "network": "quick"}
    task = {"task": "mcm.wide", "method": method, "instance": "lenet", "seed": 0}
    result = perform(task | {"config": config})["result"]
    assert result["valid"] and 0 < result["throughput"]


def test_the_solver_is_never_below_its_start():
    """Catches a partition that the solver found and that is not the better one of the two."""
    task = {"task": "mcm.wide_solver", "method": "cp-sat", "instance": "lenet", "seed": 0}
    solved = perform(task | {"config": {"effort": 1.0}})["result"]
    task = {"task": "mcm.wide", "method": "greedy-careful", "instance": "lenet", "seed": 0}
    start = perform(task | {"config": {"samples": 1, "network": "quick"}})["result"]
    assert solved["valid"] and solved["throughput"] >= start["throughput"] * (1 - 1e-9)
    assert solved["most"] >= solved["throughput"] * (1 - 1e-6)
