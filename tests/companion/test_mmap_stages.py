"""Return and cycles over a training: which programs, which games, which correlations."""

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping_companion import results
from learned_mapping_companion.mmap import stages
from learned_mapping_companion.table import row

SPEEDS = dict(zip("abcdefgh", (1.1, 0.9, 1.3, 1.0, 1.2, 0.8, 1.05, 0.99)))


@pytest.fixture
def compiler(monkeypatch):
    """A result of `mmap.compiler` of eight programs."""
    rows = [row(name, "muzero", "speedup_stalled", value) for name, value in SPEEDS.items()]
    rows += [
        row("all", "muzero", "speedup_stalled", 2.0),
        row("h", "edit-search", "speedup_stalled", 3.0),
    ]
    table = {"full": {"rows": rows}}
    monkeypatch.setattr(results, "stored", lambda artifact, profile="full": table.get(profile))
    monkeypatch.setattr(stages.runs, "program_digest", lambda name: name)
    monkeypatch.setattr("learned_mapping_companion.mmap.compiler.program_digest", lambda name: name)
    monkeypatch.setattr(stages.runs, "seconds_of", lambda name: 120.0)


def test_the_ends_of_the_priced_programs_are_trained_before_they_are_priced(compiler):
    """Catches a row over all programs, or another method's, taken for one; and prices of games not
    yet played."""
    assert stages.groups() == dict.fromkeys("cea", "best") | dict.fromkeys("hbf", "worst")
    assert stages.FIG6.runs("quick", 3) == []
    plan = stages.FIG6.runs("full", 3)
    assert [run.task for run in plan] == ["mmap.map"] * 18 + ["mmap.price"] * 180
    assert all(run.long for run in plan) and len({run.digest for run in plan}) == 198


def test_what_is_asked_for_before_it_is_trained_is_one_line(compiler, tmp_path, monkeypatch):
    """Catches a price that waits for no training, or breaks on a missing file."""
    monkeypatch.setattr(
        results, "runs_path", lambda artifact, profile: tmp_path / f"{artifact}.jsonl"
    )
    with pytest.raises(InputError, match="`lmap make mmap"):
        stages.games_of("a", 0)


def records(cycles, returns, failed=(), seed=0):
    """A training of program c and the prices of its games, by number."""
    common = {"instance": "c", "method": "muzero", "seed": seed}
    games = [[number, value, 0.0, "0"] for number, value in enumerate(returns, 1)]
    learned = {"judged": True, "valid": True, "games": games, "samples": 500, "updates": 3000}
    outcome = [{**common, "config": {"seconds": 120.0, "games": 10}, "result": learned}]
    for game, count in enumerate(cycles):
        result = {"judged": True, "valid": True, "failed": "no" if game in failed else ""}
        result |= {"stalled_cycles": count, "cycles": -count}
        outcome.append({**common, "config": {"seconds": 120.0, "game": game}, "result": result})
    return outcome


def test_correlations_are_of_return_and_cycles_and_near_the_best_of_those_near(compiler):
    """By hand: cycles fall with the return from afar and rise near the best. Catches a sign or a
    subset wrong."""
    returns = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.96, 0.98, 1.0]
    cycles = [100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 10.0, 12.0, 14.0]
    result = stages.FIG6.result(records(cycles, returns))
    value = {r["metric"]: r for r in result["rows"]}
    assert value["correlation"]["value"] == pytest.approx(np.corrcoef(returns, cycles)[0, 1])
    assert value["unstalled_correlation"]["value"] == pytest.approx(-value["correlation"]["value"])
    assert value["near_correlation"]["value"] == pytest.approx(1.0)
    assert value["rank_correlation"]["value"] == pytest.approx(-1 + 6 * 8 / (10 * 99))
    assert [value[name]["n"] for name in ("correlation", "near_correlation")] == [1, 1]
    assert value["games"]["value"] == 500 and (result["validated"], result["invalid"]) == (11, 0)
    points = [(r["return"], r["value"]) for r in result["rows"] if r["metric"] == "cycles"]
    assert points == list(zip(returns, cycles))


def test_a_correlation_is_the_mean_over_trainings_that_have_one(compiler):
    """Catches games of two trainings in one cloud, and no correlation taken for none."""
    returns = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    cycles = [10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    near = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.96, 0.98, 1.0]
    both = records(cycles, returns) + records(cycles[::-1], near, seed=1)
    value = {r["metric"]: r for r in stages.FIG6.result(both)["rows"]}
    expected = (np.corrcoef(returns, cycles)[0, 1] + np.corrcoef(near, cycles[::-1])[0, 1]) / 2
    assert value["correlation"]["value"] == pytest.approx(expected)
    assert value["near_correlation"]["value"] == pytest.approx(1.0)
    assert [value[name]["n"] for name in ("correlation", "near_correlation")] == [2, 1]


def test_a_training_counts_once_all_its_games_have_prices(compiler):
    """Catches a correlation over what happened to be priced."""
    assert stages.FIG6.result(records([1.0] * 10, [0.1] * 10, failed=[3]))["rows"] == []
