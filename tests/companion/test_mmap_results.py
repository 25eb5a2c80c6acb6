"""Paper 1's further tables and figures: rows worked out by hand from small records, and tiny
runs."""

import dataclasses

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.mmap.agent.config import WHOLE
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.json_io import write_json
from learned_mapping_companion import results
from learned_mapping_companion.artifact import reported
from learned_mapping_companion.mmap import facts as mmap_facts
from learned_mapping_companion.mmap import runs as mmap_runs
from learned_mapping_companion.mmap import speedup as mmap_speedup
from learned_mapping_companion.mmap import table2 as mmap_table2
from learned_mapping_companion.mmap import tables as mmap_tables
from learned_mapping_companion.mmap.speedup import OURS, OURS_PROD


def record(
    instance: str, method: str, seed: int, latency: float, value: float = 0.5, **config
) -> dict:
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
    return {"id": "mmap.table3", **mmap_speedup.TABLE3.result(records)}


def test_prod_is_the_better_of_both_run_for_run():
    """Would catch a fallback applied to the mean of the seeds, and a ratio the wrong way up."""
    actual = table3()
    assert results.value(actual, instance="one", method=OURS, metric="speedup") == pytest.approx(
        (2.0 + 0.5) / 2
    )
    assert results.value(
        actual, instance="one", method=OURS_PROD, metric="speedup"
    ) == pytest.approx((2.0 + 1.0) / 2)
    assert results.value(actual, instance="two", method=OURS_PROD, metric="speedup") == 1.0
    assert results.value(actual, instance="two", method=OURS, metric="stall_s") == 0.5
    assert (actual["validated"], actual["invalid"]) == (3, 0)


def test_arms_of_figure_7_are_compared_for_equal_games():
    """Would catch an arm left out, one of another program, and an arm judged by games that the
    other had not."""
    name = mmap_table2.FIG7_PROGRAM
    plan = mmap_table2.FIG7.runs("full", 2)
    assert len(plan) == 12 and all(run.long for run in plan)
    assert not mmap_table2.FIG7.runs("quick", 2)
    runs = [run for run in plan if run.instance == name]
    arms = [record(name, run.method, run.seed, 1.0, 0.3) | {"config": run.config} for run in runs]
    for result in arms:
        fast = result["method"] == "muzero"
        games = [1, 50, 400] if fast else [1, 10, 50]
        curve = {"x": [0.1, 0.5, 1.0], "samples": games, "y": [0.1, 0.2, 0.3], "x_unit": "s"}
        result["result"] |= {"updates": 180.0, "samples": games[-1], "curve": curve}
        result["result"] |= {
            "decisions": 10 * 64 * 64 + 500.0,
            "actions": "2" * mmap_runs.num_buffers(name),
        }
    rows = mmap_table2.FIG7.result(arms)["rows"]
    for metric in ("return", "games", "updates"):
        actual = [row for row in rows if row["metric"] == metric]
        assert [row["method"] for row in actual] == [mmap_table2.BOTH, *mmap_table2.ALONE]
        assert {row["instance"] for row in actual} == {name}
    actual = {(r["method"], r["baseline"]): r["value"] for r in rows if r["metric"] == "by_games"}
    assert len(actual) == 2 * len(mmap_table2.ALONE)
    assert actual["muzero", "search-only"] == pytest.approx(0.2)
    assert actual["search-only", "muzero"] == pytest.approx(0.3)
    moves = {r["method"]: r["value"] for r in rows if r["metric"] == "moves_per_game"}
    assert moves == {
        arm: 9.0 if arm == "search-only" else 1.0 for arm in (mmap_table2.BOTH, *mmap_table2.ALONE)
    }
    actual = {(r["method"], r["baseline"]): r["value"] for r in rows if r["metric"] == "by_moves"}
    assert actual["muzero", "search-only"] == pytest.approx(0.3)
    # 400 games of moves are but 44 of its own
    assert actual["search-only", "muzero"] == pytest.approx(0.2)


def test_a_game_is_worth_its_decisions():
    """Would catch forced moves that are counted, and a game whose actions are not looked at."""
    game, result, choices = Game(mmap_runs.load("rnn_0")[0]), "", 0
    while not game.over:
        choices += int(game.legal.sum()) > 1
        result += str(int(np.flatnonzero(game.legal)[-1]))
        game.step(int(result[-1]))
    assert (
        0
        < mmap_runs.decisions_of("rnn_0", result)
        == choices
        < mmap_runs.decisions_of("rnn_0", None)
        == len(result)
    )


def test_a_dead_end_loses_the_game_that_drop_backup_saves():
    """The share of lost games is that of games that stop at their first dead end; catches a count
    that misses some."""
    name, games = mmap_tables.TRAINED, 60
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


def test_the_papers_size_has_the_papers_settings():
    """Would catch a number of Table 6 that the paper's size has otherwise; noise and falling
    temperature it has not."""
    rows = {row["instance"]: row["value"] for row in mmap_facts.TABLE6.result([])["rows"]
            if row["method"] == "paper size"}  # fmt: skip
    printed = {row["instance"]: row["value"] for row in reported("mmap.table6")}
    shared = [name for name in printed if rows[name] is not None]
    assert {name: rows[name] for name in shared} == {name: printed[name] for name in shared}
    assert {name for name in printed if name not in shared} == {
        "initial temperature",
        "steps over which it falls",
        "final temperature",
        "share of root noise",
        "alpha of root noise",
    }


def test_stored_trainings_are_listed(tmp_path, monkeypatch):
    """Catches a mapping taken for a record, a control under the agent's name, and a curve without
    its columns."""
    monkeypatch.setattr(mmap_runs, "data_folder", lambda: tmp_path)
    assert mmap_runs.trainings() == []
    folder = tmp_path / "training" / "mmap"
    curve = [
        {"iteration": i, "cpu_s": float(i), "cold": None, "own_return": None, "best": 0.1 * i}
        for i in (1, 2)
    ]
    for seed, changes in ((1, {}), (0, {}), (0, {"frozen": True})):
        config = dataclasses.asdict(dataclasses.replace(WHOLE, **changes))
        result = {
            "schema": mmap_runs.SCHEMA,
            "program": "p",
            "seed": seed,
            "config": config,
            "cpu_seconds": 2.0,
            "games": 9,
            "updates": 5.0,
            "best_whole": 0.2,
            "curve": curve,
        }
        write_json(folder / f"p.{seed}.{len(changes)}.json", result)
    write_json(folder / "p.0.mapping.json", {"schema": "learned-mapping/mapping/1"})
    actual = mmap_runs.trainings()
    assert [(record["method"], record["seed"]) for record in actual] == [
        ("muzero", 0), ("muzero", 1), ("muzero-frozen", 0),
    ]  # fmt: skip
    write_json(folder / "torn.json", {**result, "curve": [{"cpu_s": 1.0}]})
    with pytest.raises(InputError, match="cold"):
        mmap_runs.trainings()


def test_a_curve_is_thinned_by_means():
    """250 rows of one game each: would catch a mean of rows without a game, and an evaluation that
    is dropped."""
    rows = [
        {
            "iteration": i,
            "own_return": 0.5 if i == 7 else None,
            "hot": None,
            "cold": float(i % 2),
            "dead_ends": 0.0,
            "equal": 0.0,
            "entropy": 1.0,
            "value_error": 0.0,
        }
        for i in range(1, 251)
    ]
    kept = mmap_runs.thinned(rows)
    assert len(kept) <= mmap_runs.CURVE_ROWS and kept[-1]["iteration"] == 250
    assert [row["own_return"] for row in kept if row["own_return"] is not None] == [0.5]
    assert kept[0]["hot"] is None and kept[0]["cold"] == pytest.approx(2 / 3, abs=1e-6)
