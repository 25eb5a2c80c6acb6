"""The artifact of chips whose op times nobody knows: rows of hand-made records, and runs of a small
graph."""

import pytest

from learned_mapping_companion.mcm import chips
from learned_mapping_companion.worker import perform


def records(value):
    """A record for every run of the plan on two worlds, with a throughput by method, samples, spread and
    seed, and a curve that ends with it."""
    made = []
    for run in chips.CHIPS.runs("full", 2):
        if run.config["world"] > chips.FIRST_WORLD or run.config["spread"] == 0.25:
            continue
        reached = value(run.method, run.config["samples"], run.config["spread"], run.seed)
        curve = {"x": [0.1], "samples": [1], "y": [reached], "x_unit": "s"}
        result = {"valid": True, "throughput": reached, "seconds": 2.0, "curve": curve}
        made.append(
            {"method": run.method, "instance": run.instance, "config": run.config, "seed": run.seed}
            | {"result": result}
        )
    return made


def one(rows, **cells):
    (found,) = [row for row in rows if cells.items() <= row.items()]
    return found


def test_rows_by_hand():
    """Catches a ratio over another start or another number of measurements, spreads that are mixed,
    and a level that nobody reached."""

    def value(method, samples, spread, seed):
        if method == chips.START:
            return 100.0 if spread else 50.0
        if method == chips.LEARNED:
            return 150.0 if spread else 51.0
        return 104.0 if samples <= 60 else 120.0

    result = chips.CHIPS.result(records(value))
    rows = result["rows"]
    few = {"method": chips.LEARNED, "samples": 10}
    over = few | {"metric": "over_start", "baseline": chips.START}
    assert one(rows, spread=0.5, **over)["value"] == pytest.approx(1.5)
    assert one(rows, spread=0.0, **over)["value"] == pytest.approx(1.02)
    few |= {"metric": "ratio"}
    against = one(rows, spread=0.5, baseline="rl-balanced", **few)
    assert against["value"] == pytest.approx(1.25) and against["against"] == 430
    frozen = one(rows, spread=0.5, baseline="learned-times-throughput", **few)
    assert frozen["value"] == pytest.approx(150 / 104) and frozen["against"] == 60
    level = {"metric": "samples", "target": "1.05"}
    assert one(rows, method=chips.LEARNED, spread=0.5, **level)["value"] == 1
    assert one(rows, method=chips.LEARNED, spread=0.0, **level)["value"] is None
    assert one(rows, method="class-search", spread=0.5, **level)["value"] == 1
    assert result["validated"] == len(records(value)) and result["invalid"] == 0


def test_methods_that_learn_the_chips_get_the_fewest_measurements():
    """Catches a comparison in which ours measures most."""
    most = {}
    for run in chips.CHIPS.runs("full", 1):
        most[run.method] = max(most.get(run.method, 0), run.config["samples"])
    assert most[chips.LEARNED] < min(most[m] for m in chips.METHODS if m not in chips.LEARN_CHIPS)


def test_runs_of_a_small_graph():
    """Catches a run that cannot be performed in another process, chips that are the same in every
    world, and a result that depends on more than the seed."""
    task = {"task": "silicon.chips", "instance": "resnet_14", "method": chips.LEARNED, "seed": 1}
    found = {}
    for world in (100, 100, 101):
        config = {"samples": 4, "spread": 0.5, "world": world, "network": "quick"}
        result = perform(task | {"config": config})["result"]
        assert result["valid"] and result["curve"]["samples"][-1] == 4
        assert found.setdefault(world, result["throughput"]) == result["throughput"]
    assert found[100] != found[101]
