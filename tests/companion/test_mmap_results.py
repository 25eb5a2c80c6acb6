"""Paper 1's further tables and figures: rows worked out by hand from small records, and tiny runs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import spearmanr

from learned_mapping.companion import results
from learned_mapping.companion.artifact import reported
from learned_mapping.companion.mmap import facts as mmap_facts
from learned_mapping.companion.mmap import runs as mmap_runs
from learned_mapping.companion.mmap import runs as training
from learned_mapping.companion.mmap import speedup as mmap_speedup
from learned_mapping.companion.mmap import table2 as mmap_table2
from learned_mapping.companion.mmap import tables as mmap_tables
from learned_mapping.companion.mmap.speedup import OURS, OURS_PROD
from learned_mapping.errors import InputError
from learned_mapping.mmap.agent.config import WHOLE, WINDOWS
from learned_mapping.mmap.agent.observation import WIDTH
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.json_io import write_json


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
    """Two programs: the edit search takes 1 and 4 s on one, 5 on the other; the compiler 2."""
    records = []
    for name, times in (("one", (1.0, 4.0)), ("two", (5.0,))):
        records += [record(name, "xla", 0, 2.0)]
        records += [record(name, OURS, seed, time) for seed, time in enumerate(times)]
    return {"id": "mmap.table3", **mmap_speedup.assemble_table3("full", records)}


def value(result: dict, **keys) -> float:
    return results.value(result, **keys)


def test_prod_is_the_better_of_both_run_for_run():
    """Would catch a fallback applied to the mean of the seeds, and a ratio the wrong way up."""
    found = table3()
    assert value(found, instance="one", method=OURS, metric="speedup") == pytest.approx((2.0 + 0.5) / 2)
    assert value(found, instance="one", method=OURS_PROD, metric="speedup") == pytest.approx((2.0 + 1.0) / 2)
    assert value(found, instance="two", method=OURS_PROD, metric="speedup") == 1.0
    assert value(found, instance="two", method=OURS, metric="stall_s") == 0.5
    assert (found["validated"], found["invalid"]) == (3, 0)


def test_trainings_of_one_program_scatter():
    """Would catch the scatter of latencies, and that of programs with one training."""
    records = [record("one", "muzero", seed, time) for seed, time in enumerate((1.0, 2.0, 4.0))]
    records += [record("two", "muzero", 0, 3.0), record("three", "muzero", 0, 2.0), record("three", "muzero", 1, 2.5)]
    for made in records:
        made["result"] |= {"updates": 1500.0, "log": [], "best_found": 0.6}
    records += [record(name, "xla", 0, 2.0) for name in ("one", "two", "three")]
    found = {"id": "mmap.table3", **mmap_speedup.assemble_table3("full", records)}
    assert value(found, instance="all", metric="scatter") == pytest.approx((2.0 - 0.5 + 1.0 - 0.8) / 2)
    assert value(found, instance="all", metric="scatter_most") == pytest.approx(1.5)
    assert value(found, instance="one", method="muzero", metric="best_found") == pytest.approx(0.6)


def test_the_training_that_goes_on(monkeypatch):
    """Would catch its return in the place of the clock's, and a solution that is not counted as judged."""
    (run,) = mmap_table2.plan_fig5("full", 3)
    assert run.long and run.config["seconds"] > mmap_table2.seconds_for("full", run.instance)[1]
    assert not mmap_table2.plan_fig5("quick", 3)
    table = {"rows": [], "validated": 4, "invalid": 1}
    monkeypatch.setattr(mmap_table2.results, "load", lambda *_: table)
    made = record(run.instance, "muzero", 0, 1.0, 0.9)
    made["result"] |= {"best_found": 0.95, "updates": 12.0}
    found = mmap_table2.assemble_fig5("full", [made])
    shown = {row["metric"]: row["value"] for row in found["rows"]}
    assert shown == {"longer": 0.9, "longer_best_found": 0.95, "longer_samples": 10.0, "longer_updates": 12.0}
    assert (found["validated"], found["invalid"]) == (5, 1)


def test_summaries_over_programs():
    found = table3()
    numbers = {row["metric"]: row["value"] for row in results.select(found, instance="all", method=OURS)}
    assert numbers["speedup"] == pytest.approx((1.25 + 0.4) / 2)
    assert (numbers["speedup_max"], numbers["speedup_min"], numbers["improved"]) == (1.25, pytest.approx(0.4), 1)
    prod = {row["metric"]: row["value"] for row in results.select(found, instance="all", method=OURS_PROD)}
    assert prod["speedup_min"] == 1.0 and prod["improved"] == 1
    assert {row["metric"] for row in reported("mmap.table3")} <= set(numbers)
    assert not results.select(found, method="muzero") and not results.select(found, method="prod")


def test_the_ends_of_table_4(monkeypatch):
    """Would catch a program in both groups, and worst programs in the order of the best."""
    rows = []
    for i in range(5):
        for method in (OURS, OURS_PROD):
            rows.append({"instance": f"p{i}", "method": method, "metric": "speedup", "value": 1.0 + 0.1 * i})
    table = {"id": "mmap.table3", "rows": rows, "validated": 5, "invalid": 0}
    monkeypatch.setattr(mmap_speedup.results, "load", lambda *_: table)
    monkeypatch.setattr(mmap_speedup, "reported", lambda _: [{"instance": "p4"}, {"instance": "p2"}, {"instance": "q"}])
    made = mmap_speedup.assemble_table4("full", [])["rows"]
    assert {r["instance"] for r in made if r["group"] == "named"} == {"p2"}
    groups = {group: [r["instance"] for r in made if r["group"] == group] for group in ("best", "worst")}
    assert list(dict.fromkeys(groups["best"])) == ["p4", "p3"]
    assert list(dict.fromkeys(groups["worst"])) == ["p0", "p1"]
    bars = mmap_speedup.assemble_fig10("full", [])["rows"]
    assert [r["instance"] for r in bars if (r["method"], r["metric"]) == (OURS_PROD, "speedup")] == [
        "p4", "p3", "p2", "p1", "p0",
    ]  # fmt: skip


def test_ten_games_of_one_training_and_their_correlations(monkeypatch):
    """Latency falls as the return rises, but for one game: Pearson and ranks by NumPy.
    Would catch stages that are not spread over the training, and those of another program or seed."""
    stages = [[3 * i + 1, 0.05 * i, 4.0 - 0.1 * i + (i == 7)] for i in range(19)]
    groups = {f"b{i}": "best" for i in range(6)} | {f"w{i}": "worst" for i in range(6)}
    four = [
        {"instance": name, "method": "muzero", "metric": "speedup", "value": 1.0, "group": group}
        for name, group in groups.items()
    ]
    three = [{"instance": "w1", "method": "muzero", "metric": "latency_s", "value": 1.0, "stages": stages}]
    three.append({"instance": "b5", "method": "muzero", "metric": "latency_s", "value": 1.0, "stages": stages[:3]})
    three.append({"instance": "b0", "method": "muzero", "metric": "latency_s", "value": 1.0})
    tables = {"mmap.table3": {"rows": three, "validated": 1, "invalid": 0}, "mmap.table4": {"rows": four}}
    monkeypatch.setattr(mmap_speedup.results, "load", lambda name, profile: tables[name])
    rows = mmap_speedup.assemble_fig6("full", [])["rows"]
    assert {row["instance"] for row in rows} == {"w1"}  # b5 is no end of the table, b0 has no stages
    shown = [(row["game"], row["return"], row["value"]) for row in rows if row["metric"] == "latency_s"]
    assert shown == [tuple(stages[i]) for i in range(0, 19, 2)]
    _, values, times = zip(*shown)
    found = {row["metric"]: row for row in rows}
    assert found["correlation"]["value"] == pytest.approx(np.corrcoef(values, times)[0, 1])
    assert found["rank_correlation"]["value"] == pytest.approx(spearmanr(values, times).statistic)
    assert mmap_speedup.pearson(np.ones(3), np.arange(3)) is None


def test_arms_of_figure_7_are_compared_for_equal_games():
    """Would catch an arm left out, one of another program, and an arm judged by games that the other had not."""
    name = mmap_table2.ABLATED[0]
    plan = mmap_table2.plan_fig7("full", 2)
    assert len(plan) == 24 and all(run.long for run in plan) and not mmap_table2.plan_fig7("quick", 2)
    runs = [run for run in plan if run.instance == name]
    arms = [record(name, run.method, run.seed, 1.0, 0.3) | {"config": run.config} for run in runs]
    for made in arms:
        fast = made["method"] == "muzero"
        games = [1, 50, 400] if fast else [1, 10, 50]
        curve = {"x": [0.1, 0.5, 1.0], "samples": games, "y": [0.1, 0.2, 0.3], "x_unit": "s"}
        made["result"] |= {"updates": 180.0, "samples": games[-1], "curve": curve}
        made["result"] |= {"decisions": 10 * 64 * 64 + 500.0, "actions": "2" * mmap_runs.num_buffers(name)}
    rows = mmap_table2.assemble_fig7("full", arms)["rows"]
    for metric in ("return", "games", "updates"):
        found = [row for row in rows if row["metric"] == metric]
        assert [row["method"] for row in found] == [mmap_table2.BOTH, *mmap_table2.ALONE]
        assert {row["instance"] for row in found} == {name}
    found = {(r["method"], r["baseline"]): r["value"] for r in rows if r["metric"] == "by_games"}
    assert len(found) == 2 * len(mmap_table2.ALONE)
    assert found["muzero", "search-only"] == pytest.approx(0.2)
    assert found["search-only", "muzero"] == pytest.approx(0.3)
    moves = {r["method"]: r["value"] for r in rows if r["metric"] == "moves_per_game"}
    assert moves == {"muzero": 1.0, "muzero-frozen": 1.0, "learning-only": 1.0, "search-only": 9.0}
    found = {(r["method"], r["baseline"]): r["value"] for r in rows if r["metric"] == "by_moves"}
    assert found["muzero", "search-only"] == pytest.approx(0.3)
    assert found["search-only", "muzero"] == pytest.approx(0.2)  # 400 games of moves are but 44 of its own


def test_random_play_with_and_without_drop_backup():
    """A game that meets a dead end is lost without Drop-backup: 0.2 + 0 + 0 over three."""
    found = {"returns": [0.2, 0.6, 0.4], "dead_ends": [0, 2, 1]}
    made = {"instance": "one", "method": "random", "config": {"program": "0" * 16}, "result": found}
    rows = {(r["method"], r["metric"]): r["value"] for r in mmap_tables.assemble_dropbackup("quick", [made])["rows"]}
    assert rows["random", "dead_ends"] == 1.0 and rows["random", "mean_return"] == pytest.approx(0.4)
    assert rows["random-no-backup", "lost"] == pytest.approx(2 / 3)
    assert rows["random-no-backup", "mean_return"] == pytest.approx(0.2 / 3)


def test_a_game_is_worth_its_decisions():
    """Would catch forced moves that are counted, and a game whose actions are not looked at."""
    game, made, choices = Game(mmap_runs.load("rnn_0")[0]), "", 0
    while not game.over:
        choices += int(game.legal.sum()) > 1
        made += str(int(np.flatnonzero(game.legal)[-1]))
        game.step(int(made[-1]))
    assert 0 < mmap_runs.decisions_of("rnn_0", made) == choices < mmap_runs.decisions_of("rnn_0", None) == len(made)


def test_dead_ends_of_trainings(monkeypatch):
    """Would catch the ends of a training swapped, iterations without a whole game counted, another table's training
    beside those of this one, and an arm left out of the plan."""
    log = [{"games": g, "hot": g / 100, "dead_ends": 1.0 / g} for g in range(1, 22)]
    log[1] |= {"hot": None, "dead_ends": None}
    told = {"log": log, "samples": 21, "updates": 50.0, "costs": {"return": 0.3}, "judged": True, "valid": True}
    rows = {row["metric"]: row for row in mmap_tables.trained_rows("rnn_2", "muzero", [told, told])}
    assert rows["dead_ends_first"]["value"] == pytest.approx((1 + 1 / 3) / 2)
    assert rows["dead_ends"]["value"] == pytest.approx((1 / 20 + 1 / 21) / 2)
    assert rows["mean_return"]["value"] == pytest.approx(0.205) and rows["mean_return"]["n"] == 2
    assert len(rows["dead_ends"]["curve"]["x"]) == 20
    rounds = [told | {"rounds": 2.0, "recent_return": 0.5}]
    rows = {row["metric"]: row["value"] for row in mmap_tables.trained_rows("rnn_2", "muzero", rounds)}
    assert rows["mean_return"] == 0.5 and rows["dead_ends"] == pytest.approx((1 / 20 + 1 / 21) / 2)

    planned = [run for run in mmap_tables.plan_dropbackup("full", 2) if run.method != "random"]
    assert {(run.method, run.seed) for run in planned} == {(arm, seed) for arm in mmap_tables.ARMS for seed in (0, 1)}
    assert not [run for run in mmap_tables.plan_dropbackup("quick", 2) if run.task == "mmap.map"]
    monkeypatch.setattr(mmap_tables, "read_record", lambda folder, run: {"result": told | {"costs": {"return": 0.1}}})
    played = {"method": "random", "config": {"program": "0" * 16}, "result": {"returns": [0.2], "dead_ends": [1]}}
    trained = [
        {"method": arm, "config": {}, "result": told, "instance": mmap_tables.TRAINED} for arm in mmap_tables.ARMS
    ]
    random = [played | {"instance": name} for name in (mmap_tables.TRAINED, "rnn_2")]
    made = mmap_tables.assemble_dropbackup("full", random + trained)["rows"]
    best = {(r["instance"], r["method"]): r["value"] for r in made if r["metric"] == "return"}
    assert best == {**{(mmap_tables.TRAINED, arm): 0.3 for arm in mmap_tables.ARMS}, ("rnn_2", "muzero"): 0.1}


def test_a_dead_end_loses_the_game_that_drop_backup_saves():
    """The share of lost games is that of games that stop at their first dead end; catches a count that misses some."""
    name, games = mmap_tables.QUICK_PROGRAMS[0], 60
    met = np.array(mmap_tables.run_random("random", name, {"games": games}, 0)["dead_ends"]) > 0
    game, rng = Game(mmap_runs.load(name)[0]), np.random.default_rng(1)
    lost = 0
    for _ in range(games):
        game.restart()
        while not game.over and game.resets == 0:
            game.step(int(rng.choice(np.flatnonzero(game.legal))))
        lost += game.resets > 0
    assert met.any() and lost
    assert abs(met.sum() - lost) < 4 * np.sqrt(games / 2)


def test_the_papers_settings_stand_beside_the_agents():
    """Would catch a setting of the paper that the light agent lacks and is given a number, and one left out."""
    made = mmap_facts.assemble_table6("quick", [])
    rows = {row["instance"]: row["value"] for row in made["rows"] if row["method"] == "windows"}
    printed = reported("mmap.table6")
    assert len(printed) == 13 and {row["instance"] for row in printed} <= set(rows)
    assert rows["batch size"] == WINDOWS.batch and rows["own windows"] == WINDOWS.own_windows
    assert rows["alpha of root noise"] is None and rows["training steps"] is None
    assert len(rows) == 13 + len(dataclasses.fields(WINDOWS)) - 6
    assert all(row["meaning"] for row in made["rows"] if not row["in_paper"])


def test_the_papers_size_has_the_papers_settings():
    """Would catch a number of Table 6 that the paper's size has otherwise; noise and falling temperature it has not."""
    rows = {row["instance"]: row["value"] for row in mmap_facts.assemble_table6("full", [])["rows"]
            if row["method"] == "paper size"}  # fmt: skip
    printed = {row["instance"]: row["value"] for row in reported("mmap.table6")}
    shared = [name for name in printed if rows[name] is not None]
    assert {name: rows[name] for name in shared} == {name: printed[name] for name in shared}
    assert {name for name in printed if name not in shared} == {
        "initial temperature", "steps over which it falls", "final temperature", "share of root noise",
        "alpha of root noise",
    }  # fmt: skip


def test_every_parameter_of_the_network_is_counted():
    both = mmap_facts.assemble_fig4("quick", [])["rows"]
    for method in ("paper network", "network"):
        rows = [row for row in both if row["method"] == method]
        _counted(rows)
    weights = {(row["part"], row["module"]): row["shapes"].get("w") for row in rows if "shapes" in row}
    assert weights["representation", "first"] == [WIDTH + 3 * WHOLE.id_width, WHOLE.width]


def _counted(rows) -> None:
    total = sum(row["value"] for row in rows if row["metric"] == "parameters")
    (whole,) = [row for row in rows if row["metric"] == "parameters_total"]
    assert total == whole["value"] and sum(whole["sees"].values()) == WIDTH


def test_stored_trainings_are_listed(tmp_path, monkeypatch):
    """Catches a mapping taken for a record, a control under the agent's name, and a curve without its columns."""
    monkeypatch.setattr(training, "data_folder", lambda: tmp_path)
    assert training.trainings() == []
    folder = tmp_path / "training" / "mmap"
    curve = [{"iteration": i, "cpu_s": float(i), "cold": None, "own_return": None, "best": 0.1 * i} for i in (1, 2)]
    for seed, changes in ((1, {}), (0, {}), (0, {"frozen": True})):
        config = dataclasses.asdict(dataclasses.replace(WHOLE, **changes))
        made = {"schema": training.SCHEMA, "program": "p", "seed": seed, "config": config, "cpu_seconds": 2.0,
                "games": 9, "updates": 5.0, "best_whole": 0.2, "curve": curve}  # fmt: skip
        write_json(folder / f"p.{seed}.{len(changes)}.json", made)
    write_json(folder / "p.0.mapping.json", {"schema": "learned-mapping/mapping/1"})
    found = training.trainings()
    assert [(record["method"], record["seed"]) for record in found] == [
        ("muzero", 0), ("muzero", 1), ("muzero-frozen", 0),
    ]  # fmt: skip
    write_json(folder / "torn.json", {**made, "curve": [{"cpu_s": 1.0}]})
    with pytest.raises(InputError, match="cold"):
        training.trainings()


def test_a_curve_is_thinned_by_means():
    """250 rows of one game each: would catch a mean of rows without a game, and an evaluation that is dropped."""
    rows = [
        {"iteration": i, "own_return": 0.5 if i == 7 else None, "hot": None, "cold": float(i % 2), "dead_ends": 0.0,
         "equal": 0.0, "entropy": 1.0, "value_error": 0.0} for i in range(1, 251)
    ]  # fmt: skip
    kept = training.thinned(rows)
    assert len(kept) <= training.CURVE_ROWS and kept[-1]["iteration"] == 250
    assert [row["own_return"] for row in kept if row["own_return"] is not None] == [0.5]
    assert kept[0]["hot"] is None and kept[0]["cold"] == pytest.approx(2 / 3, abs=1e-6)


def test_a_rival_counts_by_the_clock_with_the_larger_mean():
    """Would catch one unlucky long run in place of five short ones, a leader that has not run all the way and still
    counts, and a short search set against the agent."""
    name = "alexnet_train_batch_32"
    short, long = mmap_table2.seconds_for("full", name)
    runs = [record(name, "evolution-warm", seed, 1.0, value, seconds=short) for seed, value in enumerate((0.5, 0.7))]
    runs += [record(name, "evolution-logits", 0, 1.0, 0.4, seconds=short), record(name, "random", 0, 1.0, 0.2)]
    runs += [record(name, "edit-search", 0, 1.0, 0.9, seconds=short), record(name, "muzero", 0, 1.0, 0.6, seconds=long)]
    assert "evolution-logits" not in mmap_table2.clocks("full", runs)[1]
    for value, counts in ((0.51, [0.5, 0.7]), (0.65, [0.65])):
        longer = [*runs, record(name, "evolution-warm", 0, 1.0, value, seconds=long)]
        by_short, by_long = mmap_table2.clocks("full", longer)
        assert by_short["evolution-warm"][name] == [0.5, 0.7] and by_long["evolution-warm"][name] == counts
        assert by_long["evolution-logits"][name] == [0.4] and "edit-search" not in by_long
        shown = [run["result"]["costs"]["return"] for run in mmap_table2.better([*longer[:2], longer[-1]])]
        assert shown == counts


def test_first_rounds_of_trainings():
    """Would catch what a later round found in the first one's place, and trainings of one round among them."""
    log = [{"best_found": f, "best": b} for f, b in ((0.3, 0.2), (0.4, 0.35), (0.1, 0.35), (0.6, 0.6), (0.2, 0.6))]
    trainings = [{"log": log, "rounds": 3.0}, {"log": log[:2]}, {"log": log[:2], "rounds": 2.0}]
    (row,) = mmap_speedup.first_rounds("rnn_0", "muzero", trainings)
    assert (row["metric"], row["value"], row["n"]) == ("first_round", pytest.approx(0.35), 2)
    assert not mmap_speedup.first_rounds("rnn_0", "muzero", trainings[1:2])
