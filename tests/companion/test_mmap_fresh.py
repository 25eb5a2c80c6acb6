"""The table of twelve programs of other families, and the network that never saw them."""

import numpy as np
import pytest

from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.mmap import fresh, runs, unseen
from learned_mapping_companion.table import values_of


def record(name, method, values, latency_s=1.0, seed=0):
    """A run whose best return rises to each of `values`, one a second from the first second on."""
    curve = {"x": [1.0 + i for i in range(len(values))], "y": list(values)}
    costs = {"return": values[-1], "latency_s": latency_s}
    result = {"costs": costs, "curve": curve, "slow_s": 2.0, "samples": len(values), "judged": True}
    return {"instance": name, "method": method, "seed": seed, "config": {}, "result": result}


@pytest.fixture(scope="module")
def rows():
    names, records = compiled.names(fresh.PROGRAMS), []
    for k, name in enumerate(names):
        large = runs.num_buffers(name) > runs.LARGE
        records.append(record(name, "xla", [0.5], latency_s=1.1))
        records.append(record(name, "random", [0.1]))
        records.append(record(name, "evolution-logits", [0.3 + 0.01 * k]))
        records.append(record(name, "evolution-logits-64", [0.2 + 0.02 * k]))
        lead = 0.2 if large else 0.1
        records.append(record(name, "muzero", [0.1, 0.3 + 0.01 * k + 0.01 * max(k - 10, 0) + lead]))
    return list(fresh.assemble_fresh(records))


def cell(rows, instance, method, metric, baseline=None):
    (found,) = [
        row
        for row in rows
        if (row["instance"], row["method"], row["metric"]) == (instance, method, metric)
        and (baseline is None or row.get("baseline") == baseline)
    ]
    return found


def test_the_papers_evolution_is_the_better_of_its_two(rows):
    """Would catch one of the populations standing for both, and a mean over programs that mixes
    small and large ones."""
    best = values_of(
        [row for row in rows if row["method"] == fresh.BEST_OF_PAPER], "instance", metric="return"
    )
    names = compiled.names(fresh.PROGRAMS)
    assert [best[name] for name in names] == pytest.approx(
        [max(0.3 + 0.01 * k, 0.2 + 0.02 * k) for k in range(12)]
    )
    for size, lead in (("small", 0.1), ("large", 0.2)):
        found = cell(rows, size, "muzero", "part_difference", fresh.BEST_OF_PAPER)
        assert found["value"] == pytest.approx(lead) and found["n"] == 6


def test_speedups_are_over_the_compilers_mapping(rows):
    """Would catch a speedup the other way round; prod is never behind the compiler."""
    assert cell(rows, "all", "muzero", "speedup")["value"] == pytest.approx(1.1)
    assert cell(rows, "all", "prod", "speedup_min")["value"] >= 1.0
    assert cell(rows, "all", "muzero", "improved")["value"] == 12


def test_a_search_returns_nothing_before_its_first_game(rows):
    """Would catch a curve that shows its end from the start, and one that is cut off at its end."""
    curve = cell(rows, "all", "muzero", "after")["curve"]
    x, y = np.array(curve["x"]), np.array(curve["y"])
    assert not y[x < 1.0].any() and y[(x >= 1.0) & (x < 2.0)] == pytest.approx(0.1)
    end = cell(rows, "all", "muzero", "return")["value"]
    assert y[x >= 2.0] == pytest.approx(end) and x[-1] == pytest.approx(runs.SECONDS_LARGE)
    assert all(low <= value <= high for low, value, high in zip(curve["low"], y, curve["high"]))


def test_every_method_of_the_plan_runs_on_every_program():
    """Would catch a method that is compared and never run, or a shorter clock for one of them."""
    planned = fresh.FRESH.runs("full", 1)
    methods = {run.method for run in planned}
    compared = {*fresh.CONTRASTS}.union(*fresh.CONTRASTS.values()) - {fresh.BEST_OF_PAPER}
    assert compared | {*fresh.PAPER_EVOLUTION} <= methods
    for name in compiled.names(fresh.PROGRAMS):
        mine = [run for run in planned if run.instance == name]
        assert {run.method for run in mine} == methods
        clocks = {run.config["seconds"] for run in mine if "seconds" in run.config}
        assert clocks == {runs.LESS["random"]["seconds"], runs.seconds_of(name)}


def test_lessons_are_exact():
    """Would catch an alternative that is played out from another decision, or against another
    ending: each advantage is the return of a whole game played so, less the guide's."""
    from learned_mapping.mmap.agent.games import Guide
    from learned_mapping.mmap.rules.state import benefit_unit

    program, _ = compiled.load("rnn_0")
    taught = unseen.lessons(program, np.random.default_rng(0))
    guide = Guide(program)
    guide.follow(unseen.priced_view(program)[0].action.astype(np.int64))
    assert (taught.chosen.sum(axis=1) == 1).all() and taught.legal[taught.chosen].all()
    assert (taught.advantage[taught.chosen] == 0).all()
    rng, unit, checked = np.random.default_rng(0), benefit_unit(guide.program), 0
    worth = np.clip(guide.program.buffers["benefit_s"][guide.decisions] / unit, 0, 20) + 0.1
    chance = 0.5 / len(worth) + 0.5 * worth / worth.sum()
    count = min(unseen.DECISIONS, len(worth))
    picks = np.sort(rng.choice(guide.decisions, count, replace=False, p=chance / chance.sum()))
    for i, b in list(enumerate(picks))[::8]:
        for action in np.flatnonzero(taught.legal[i] & ~taught.chosen[i]):
            changed = guide.actions.copy()
            changed[b] = action
            value, played = guide.value_of(changed)
            if played[b] == action:  # without a dead end that takes it back
                lead = (value - guide.saved[-1]) * guide.possible_s / unit
                assert taught.advantage[i, action] == pytest.approx(lead, abs=1e-6)
                checked += 1
    assert checked > 5
