"""Inside the agent, and what it is made of: plans, rows and figures of stored trainings."""

from __future__ import annotations

import pytest

from learned_mapping.companion.figures import mmap_inside as figures
from learned_mapping.companion.mmap import inside, model
from learned_mapping.mmap.agent.config import AgentConfig, config_for, config_to_json
from learned_mapping.style import svg_text

NODES = [
    {"parent": -1, "action": -1, "visits": 4, "value": 1.0, "reward": None, "prior": None},
    {"parent": 0, "action": 0, "visits": 2, "value": 2.0, "reward": 0.5, "prior": 0.6},
    {"parent": 0, "action": 2, "visits": 1, "value": 0.5, "reward": 0.1, "prior": 0.4},
    {"parent": 1, "action": 1, "visits": 1, "value": 2.5, "reward": 0.0, "prior": 0.9},
]


def games(value: float) -> dict:
    return {
        "search": [value, value + 0.02], "more": [value + 0.03, value + 0.03], "head": [value - 0.1, value - 0.1],
    }  # fmt: skip


def result(value: float, *, error: float = 0.02) -> dict:
    log = [{"updates": u, "value_error": error / u, "entropy": 1.0 / u} for u in (1, 2, 4)]
    unroll = [
        {"step": k, "n": 3, "rank_correlation": 1.0 / k, "error": 0.1, "size": 0.3, "pairs": [[0, 0.1], [1, 0.9]]}
        for k in (1, 2)
    ]
    outcomes = dict.fromkeys(inside.QUALITIES, 0.5) | {"rank_correlation": value}
    embedding = {"knows": {"step": 0.8}, "shuffled": {"step": 0.0}, "points": [[0, 0, 0, 0], [1, 1, 1, 2]]}
    tree = {
        "buffer": 3, "tensor": "t", "made": 0, "legal": [True, True, True], "nodes": NODES, "head": [0.3, 0.3, 0.4],
        "policy": [0.8, 0.1, 0.1], "exact": [0.0, -1.0, None], "changes_mind": 0.25,
    }  # fmt: skip
    return {
        "judged": True, "valid": True, "costs": {"return": value}, "samples": 300, "updates": 2000.0,
        "decisions": 9e5, "log": log, "unroll": unroll, "outcomes": outcomes, "tree": tree, "embedding": embedding,
        "whole_games": games(value),
        "early": {"outcomes": {"rank_correlation": value - 0.3}, "whole_games": games(value - 0.4)},
        "recent_return": value - 0.1,
    }  # fmt: skip


def records(*values: float) -> list[dict]:
    config = {"program": "x", "seconds": 300.0}
    name = "alexnet_train_batch_32"
    return [
        {"instance": name, "method": "muzero", "seed": seed, "config": config, "result": result(value)}
        for seed, value in enumerate(values)
    ]


def test_rows_of_the_inside():
    """Would catch the head's games under the search's name, a gain turned round, and the second seed left out."""
    rows = inside.assemble_inside("full", records(0.6, 0.8))["rows"]
    found = {(row["method"], row["metric"]): row for row in rows if row["metric"] != "reward_correlation"}
    assert found["muzero", "whole_games"]["value"] == pytest.approx(0.71)
    assert found["policy head", "whole_games"]["value"] == pytest.approx(0.6)
    assert found["muzero", "search_gain"]["value"] == pytest.approx(0.11)
    assert found["32 simulations", "early_search_gain"]["value"] == pytest.approx(0.13)
    assert found["muzero", "early_whole_games"]["value"] == pytest.approx(0.31)
    assert found["muzero", "early_rank_correlation"]["value"] == pytest.approx(0.4)
    assert found["muzero", "rank_correlation"]["value"] == pytest.approx(0.7)
    assert found["muzero", "games"]["value"] == 300 and found["muzero", "updates"]["value"] == 2000
    assert [row["value"] for row in rows if row["metric"] == "reward_correlation"] == [1.0, 0.5]
    assert found["muzero", "value_error"]["curve"] == {"x": [1, 2, 4], "x_unit": "updates", "y": [0.02, 0.01, 0.005]}
    for figure in (figures.imagined(rows), figures.value_errors(rows)):
        assert "alexnet" in svg_text(figure)
    drawn = svg_text(figures.search_tree(found["muzero", "tree"]))
    assert drawn.count("1 visit,") == 2 and "NoCopy" in drawn and "+2.50" in drawn


def test_plans_are_long_and_not_quick():
    for plan in (inside.plan_inside, model.plan_model):
        runs = plan("full", 5)
        assert runs and all(run.long and run.method == "muzero" for run in runs) and not plan("quick", 5)
    planned = model.plan_model("full", 1)
    arms = [run.config["arm"] for run in planned if run.instance == model.INSTANCE]
    assert arms == list(model.ARMS)


def test_each_arm_changes_what_it_says():
    """Would catch an arm that is the agent as it is, and one that changes more than its name."""
    plain = config_to_json(AgentConfig())
    for arm, settings in model.ARMS.items():
        changed = config_to_json(config_for(228, **settings))
        differs = {name for name in plain if changed[name] != plain[name]}
        assert differs >= set(settings) and bool(differs) == (arm != "muzero")
        if arm != "windows":
            assert differs == set(settings)


def test_rows_of_the_model():
    made = []
    for arm, values in (("muzero", (0.7, 0.72)), ("no ids", (0.5, 0.52))):
        made += [{**each, "config": each["config"] | {"arm": arm}} for each in records(*values)]
    rows = {(r["method"], r["metric"]): r for r in model.assemble_model("full", made)["rows"]}
    assert rows["no ids", "difference"]["value"] == pytest.approx(-0.2)
    assert rows["no ids", "difference"]["high"] < 0
    assert rows["muzero", "recent_return"]["value"] == pytest.approx(0.61)
    assert ("muzero", "difference") not in rows
