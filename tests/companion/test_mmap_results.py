"""Paper 1's further tables and figures: rows worked out by hand from small records, and tiny runs."""

from __future__ import annotations

import numpy as np
import pytest

from learned_mapping.companion import provenance, results
from learned_mapping.companion.mmap import ablation as mmap_ablation
from learned_mapping.companion.mmap import correlation as mmap_correlation
from learned_mapping.companion.mmap import drop_backup as mmap_drop_backup
from learned_mapping.companion.mmap import network as mmap_network
from learned_mapping.companion.mmap import runs as mmap_runs
from learned_mapping.companion.mmap import scaling as mmap_scaling
from learned_mapping.companion.mmap import speedup as mmap_speedup
from learned_mapping.companion.mmap import table2 as mmap_table2
from learned_mapping.companion.mmap import tables as mmap
from learned_mapping.mmap.muzero.position import Position


def record(instance: str, method: str, seed: int, latency: float, value: float = 0.5, **config) -> dict:
    return {
        "instance": instance,
        "method": method,
        "seed": seed,
        "config": {"program": "0" * 16, "seconds": 1.0, **config},
        "result": {
            "judged": method != "xla",
            "valid": method != "xla",
            "costs": {"return": value, "latency_s": latency},
            "slow_s": 4.0,
            "stalls": {"drain_s": 0.25, "contention_s": 0.25},
            "samples": 10,
            "seconds": 1.0,
            "curve": {"x": [0.5, 1.0], "samples": [1, 10], "y": [value / 2, value], "x_unit": "s"},
        },
    }


def table3() -> dict:
    """Two programs: the agent takes 1 and 4 s on one, 5 on the other; the compiler 2, within the rules 2.5."""
    records = []
    for name, times in (("one", (1.0, 4.0)), ("two", (5.0,))):
        records += [record(name, "xla", 0, 2.0), record(name, "xla-kept", 0, 2.5)]
        records += [record(name, "muzero", seed, time) for seed, time in enumerate(times)]
    return {"id": "mmap.table3", **mmap_speedup.assemble_table3("full", records)}


def value(result: dict, **keys) -> float:
    return results.value(result, **keys)


@pytest.mark.parametrize("artifact", [a for a in mmap.ARTIFACTS if callable(a.packages)], ids=lambda a: a.id)
def test_plans_are_of_distinct_runs_that_name_their_code(artifact):
    """Catches a run planned twice, a method without modules, and a profile that cannot be planned."""
    for profile in ("quick", "full", "paper"):
        plan = artifact.plan(profile, 2)
        assert plan and len({run.digest for run in plan}) == len(plan)
        for packages in {artifact.packages_of(run) for run in plan}:
            assert provenance.module_closure(packages)


def test_prod_is_the_better_of_both_run_for_run():
    """Would catch a fallback applied to the mean of the seeds, and a ratio the wrong way up."""
    found = table3()
    assert value(found, instance="one", method="muzero", metric="speedup") == pytest.approx((2.0 + 0.5) / 2)
    assert value(found, instance="one", method="prod", metric="speedup") == pytest.approx((2.0 + 1.0) / 2)
    assert value(found, instance="one", method="prod", metric="speedup_kept") == pytest.approx((2.5 + 1.0) / 2)
    assert value(found, instance="two", method="prod", metric="speedup") == 1.0
    assert value(found, instance="two", method="muzero", metric="stall_s") == 0.5
    assert (found["validated"], found["invalid"]) == (5, 0)


def test_summaries_over_programs():
    found = table3()
    numbers = {row["metric"]: row["value"] for row in results.select(found, instance="all", method="muzero")}
    assert numbers["speedup"] == pytest.approx((1.25 + 0.4) / 2)
    assert (numbers["speedup_max"], numbers["speedup_min"], numbers["improved"]) == (1.25, pytest.approx(0.4), 1)
    prod = {row["metric"]: row["value"] for row in results.select(found, instance="all", method="prod")}
    assert prod["speedup_min"] == 1.0 and prod["improved"] == 1
    assert {row["metric"] for row in found["paper"]} <= set(numbers)


def test_the_ends_of_table_4(monkeypatch):
    """Would catch a program in both groups, and worst programs in the order of the best."""
    rows = []
    for i in range(5):
        for method in ("muzero", "prod"):
            for metric in ("speedup", "speedup_kept"):
                rows.append({"instance": f"p{i}", "method": method, "metric": metric, "value": 1.0 + 0.1 * i})
    table = {"id": "mmap.table3", "rows": rows, "validated": 5, "invalid": 0}
    monkeypatch.setattr(mmap_speedup.results, "load", lambda *_: table)
    made = mmap_speedup.assemble_table4("full", [])["rows"]
    groups = {group: [r["instance"] for r in made if r["group"] == group] for group in ("best", "worst")}
    assert list(dict.fromkeys(groups["best"])) == ["p4", "p3"]
    assert list(dict.fromkeys(groups["worst"])) == ["p0", "p1"]
    bars = mmap_speedup.assemble_fig10("full", [])["rows"]
    assert [r["instance"] for r in bars if (r["method"], r["metric"]) == ("prod", "speedup")] == [
        "p4", "p3", "p2", "p1", "p0",
    ]  # fmt: skip


def test_ten_solutions_and_their_correlation():
    """Latency falls as the return rises, but for one: Pearson and ranks by NumPy; two runs of one method both count."""
    values, times = [0.1, 0.2, 0.3, 0.9], [4.0, 3.0, 2.5, 2.6]
    records = [
        record("one", ("greedy", "random", "muzero", "muzero")[i], i, times[i], values[i], group="best")
        for i in range(4)
    ]
    rows = mmap_correlation.assemble_fig6("full", records)["rows"]
    assert sum(row["metric"] == "latency_s" for row in rows) == 4
    found = {row["metric"]: row["value"] for row in rows if row["method"] == "mixed"}
    assert found["correlation"] == pytest.approx(np.corrcoef(values, times)[0, 1])
    assert found["rank_correlation"] == pytest.approx(np.corrcoef([1, 2, 3, 4], [4, 3, 1, 2])[0, 1])
    assert mmap_correlation.pearson(np.ones(3), np.arange(3)) is None
    for profile, solutions in mmap_correlation.SOLUTIONS.items():
        assert len(solutions) == 10
        plan = mmap_correlation.plan_fig6(profile, 5)
        assert {len([r for r in plan if r.instance == name]) for name in {r.instance for r in plan}} == {10}


def test_programs_of_figure_6_are_the_ends_of_table_4(monkeypatch):
    def row(name: str, group: str) -> dict:
        return {"instance": name, "method": "muzero", "metric": "speedup", "value": 1.0, "group": group}

    rows = [row(f"b{i}", "best") for i in range(6)] + [row(f"w{i}", "worst") for i in range(6)]
    monkeypatch.setattr(mmap_correlation.results, "stored", lambda *_: {"id": "mmap.table4", "rows": rows})
    assert mmap_correlation.groups("full") == {
        **{f"b{i}": "best" for i in range(3)},
        **{f"w{i}": "worst" for i in range(3)},
    }


def test_arms_of_figure_7_stand_beside_table_2(monkeypatch):
    """Would catch an arm left out, and one that takes another program's row."""
    (name,) = mmap_ablation.workloads("quick")
    table_records = [record(name, method, 0, 1.0) for method in mmap_table2.METHODS]
    table = {"id": "mmap.table2", **mmap_table2.assemble_table2("quick", table_records)}
    monkeypatch.setattr(mmap_ablation.results, "load", lambda *_: table)
    arms = [record(run.instance, run.method, run.seed, 1.0, 0.3) for run in mmap_ablation.plan_fig7("quick", 1)]
    rows = mmap_ablation.assemble_fig7("quick", arms)["rows"]
    assert [row["method"] for row in rows] == [*mmap_ablation.FROM_TABLE2, *mmap_ablation.ARMS]
    assert {row["instance"] for row in rows} == {name}
    assert all(len(row["curve"]["x"]) == len(row["curve"]["y"]) and "games_curve" not in row for row in rows)


def test_random_play_with_and_without_drop_backup():
    """A game that meets a dead end is lost without Drop-backup: 0.2 + 0 + 0 over three."""
    found = {"returns": [0.2, 0.6, 0.4], "dead_ends": [0, 2, 1]}
    made = {"instance": "one", "method": "random", "config": {"program": "0" * 16}, "result": found}
    rows = {
        (r["method"], r["metric"]): r["value"] for r in mmap_drop_backup.assemble_drop_backup("full", [made])["rows"]
    }
    assert rows["random", "dead_ends"] == 1.0 and rows["random", "mean_return"] == pytest.approx(0.4)
    assert rows["random-no-backup", "lost"] == pytest.approx(2 / 3)
    assert rows["random-no-backup", "mean_return"] == pytest.approx(0.2 / 3)


def test_a_dead_end_loses_the_game_that_drop_backup_saves():
    """The share of lost games is that of games without Drop-backup; catches a count of dead ends that misses some."""
    name = mmap_drop_backup.LEARNING_PROGRAMS[0]
    games = 60
    met = np.array(mmap_drop_backup.run_random("random", name, {"games": games}, 0)["dead_ends"]) > 0
    position, rng = Position(mmap_runs.load(name)[0], drop_backup=False), np.random.default_rng(1)
    lost = 0
    for _ in range(games):
        position.restart()
        while not position.over:
            position.step(int(rng.choice(np.flatnonzero(position.legal))))
        lost += position.lost
    assert met.any() and lost
    assert abs(met.sum() - lost) < 4 * np.sqrt(games / 2)


def test_an_agents_last_games():
    """A quarter of 16 games lies in the last two rows, three games of 0.8 and one of 0.4."""
    columns = {"games": [10, 12, 13, 16], "return": [0.0, 0.1, 0.4, 0.8], "dead_ends": [5.0, 1.0, 0.0, 2.0]}
    log = [dict(zip(columns, row)) for row in zip(*columns.values())]
    assert mmap_drop_backup.last_games(log)["return"] == pytest.approx((3 * 0.8 + 0.4) / 4)
    assert mmap_drop_backup.last_games(log)["dead_ends"] == pytest.approx(1.5)
    rows = [
        {"instance": "one", "method": "muzero-paper", "seed": seed, "config": {"program": ""},
         "result": {"judged": True, "valid": True, "costs": {"return": 0.9}, "samples": 16, "log": log}}
        for seed in range(2)
    ]  # fmt: skip
    (row,) = [r for r in mmap_drop_backup.assemble_drop_backup("full", rows)["rows"] if r["metric"] == "mean_return"]
    assert row["value"] == pytest.approx(0.7) and row["curve"]["x"][0] == 10 and row["curve"]["y"][-1] == 0.8


def test_the_agent_without_drop_backup_loses_games():
    """The smallest agent, two games: catches a switch that does not reach it."""
    name = mmap_drop_backup.LEARNING_PROGRAMS[0]
    config = {"samples": 2, "profile": "quick"}
    found = mmap_drop_backup.run_learning("muzero-no-backup", name, config, 0)
    assert found["valid"] and found["samples"] >= 2


def test_steps_are_timed():
    played = mmap_scaling.run_play("random", "rnn_0", {"seconds": 0.01}, 0)
    assert played["steps"] >= played["games"] * mmap_runs.num_buffers("rnn_0")
    steps = {step: [1.0, 9.0, 2.0] for step in mmap_scaling.STEPS}
    records = [
        {"instance": "rnn_0", "method": "random", "config": {"program": ""},
         "result": {"seconds": 2.0, "steps": 1000, "games": 5}},
        {"instance": "rnn_0", "method": "muzero-paper", "config": {"program": ""},
         "result": {"games": 16, "batch": 32, "simulations": 8, **steps}},
        {"instance": "rnn_0", "method": "muzero", "config": {"program": ""},
         "result": {"seconds": 2.0, "samples": 50, "valid": True}},
    ]  # fmt: skip
    made = mmap_scaling.assemble_scaling("quick", records)
    numbers = {row["metric"]: row["value"] for row in made["rows"]}
    assert numbers == {"step_us": 2000.0, "games_per_s": 25.0, **dict.fromkeys(mmap_scaling.STEPS, 2.0)}
    assert made["validated"] == 1 and {row["buffers"] for row in made["rows"]} == {174}


def test_the_papers_hyperparameters_are_those_of_its_profile():
    """Would catch a profile ``paper`` that drifts from the paper's table."""
    made = mmap_network.assemble_table6("quick", [])
    ours = {row["instance"]: row["value"] for row in made["rows"] if row["method"] == "paper"}
    assert len(made["paper"]) == 13
    assert all(ours[row["instance"]] == row["value"] for row in made["paper"])
    assert {row["method"] for row in made["rows"]} == {"paper", "full"}


def test_every_parameter_of_the_network_is_counted():
    made = mmap_network.run_network("muzero-paper", "quick", {}, 0)
    records = [{"instance": "quick", "method": "muzero-paper", "result": made}]
    rows = mmap_network.assemble_fig4("quick", records)["rows"]
    total = sum(row["value"] for row in rows if row["metric"] == "parameters")
    assert total == results.value({"id": "", "rows": rows}, metric="parameters_total")
    weights = {row["module"]: row["shapes"].get("w") for row in rows if "shapes" in row}
    assert weights["profile"] == [made["representation"]["profile"], 32]
