"""Paper 3's networks trained in a run, and its table of devices as they are."""

import numpy as np
import pytest

from learned_mapping.regal.agent.forward import knows_links, model_of
from learned_mapping_companion.artifact import find_artifact
from learned_mapping_companion.regal import links, live, network
from learned_mapping_companion.regal.methods import SHORT_TRAININGS, trainings_of


@pytest.fixture
def few_graphs(monkeypatch):
    """Six training graphs in the place of sixty-four."""
    monkeypatch.setattr(live, "GRAPHS", 6)


def test_training_graphs_have_something_to_gain_and_differ_from_seed_to_seed(few_graphs):
    first, again, other = (live.training_graphs(seed) for seed in (0, 0, 1))
    digests = [[instance.graph.digest for instance in each] for each in (first, again, other)]
    assert digests[0] == digests[1] and not {*digests[0]} & {*digests[2]}
    sizes = [instance.graph.num_ops for instance in first]
    assert len(sizes) == 6 and live.LEAST_OPS <= min(sizes) and max(sizes) <= live.MOST_OPS


@pytest.mark.parametrize("method", ["gnn-printed", "gnn-links", "mlp-all", "gas-printed"])
def test_a_network_is_of_the_kind_and_sees_what_its_name_says(few_graphs, method):
    """Catches an arm that is another than it is called: of the printed attributes the weights of
    ours stay 0."""
    model, _, seen = method.partition("-")
    policy = live.trained_live(0.2, 0, model=model, attributes=seen)
    assert model_of(policy.parameters) == model
    read = np.abs(policy.parameters["node_encoder/mlp_0"]["w"]).sum(axis=1) > 0
    assert 0 < read.sum() < len(read) if seen == "printed" else read.all()
    assert knows_links(policy.parameters) == (seen == "links")


def test_every_run_of_the_table_on_networks_is_a_training_and_valid(few_graphs):
    artifact = find_artifact("regal.network")
    assert [run.method for run in artifact.runs("full", 1)] == ["brkga", *SHORT_TRAININGS]
    records = []
    for method in ("brkga", "gnn-all"):
        for seed in (0, 1):
            config = {"graphs": ["synthetic-runtime/7"], "evaluations": 300}
            if method != "brkga":
                config["seconds"] = 0.4
            result = network.run_network(method, "runtime", config, seed)
            records.append({
                "instance": "runtime", "method": method, "seed": seed, "config": config,
                "result": result,
            })  # fmt: skip
    made = artifact.result(records)
    assert (made["validated"], made["invalid"]) == (4, 0)
    (gap,) = [
        row for row in made["rows"] if (row["method"], row["metric"]) == ("gnn-all", "gap_percent")
    ]
    (graph,) = [
        row
        for row in made["rows"]
        if (row["method"], row["metric"]) == ("gnn-all", "graph_gap_percent")
    ]
    assert gap["instance"] == "synthetic-runtime" and gap["n"] == 2 == len(graph["by_training"])
    assert trainings_of("gnn-all", "synthetic-runtime", 3) == [0, 1, 2]


def test_over_one_device_is_a_ratio_of_costs():
    """By hand: two graphs, one of half the time and one of all of it, are .71 of one device."""
    outcomes = {"one-device": (2.0, 8.0), "regal": (1.0, 8.0), "brkga": (2.0, 9.0)}
    records = [
        {
            "instance": "synthetic-runtime",
            "method": method,
            "seed": 0,
            "config": {"called": "70 GB/s"},
            "result": {
                "graphs": {
                    name: {"cost": cost, "valid": True, "seconds": 0.0, "fault": "", "floor": 0.0}
                    for name, cost in zip("ab", costs)
                }
            },
        }
        for method, costs in outcomes.items()
    ]
    trained = {"cost": 1.0, "valid": True, "seconds": 0.0, "fault": "", "floor": 0.0}
    records.append({
        "instance": "runtime", "method": "gnn-links", "seed": 0,
        "config": {"machines": {"70 GB/s": {}}},
        "result": {
            "graphs": {
                "synthetic-runtime/a@70 GB/s": trained,
                "synthetic-runtime/b@70 GB/s": trained | {"cost": 2.0},
            }
        },
    })  # fmt: skip
    rows = {
        (row["method"], row["metric"], row.get("baseline")): row["value"]
        for row in links.LINKS.result(records)["rows"]
    }
    assert rows["gnn-links", "over_one_device", None] == pytest.approx((1 * 2 / (2 * 8)) ** 0.5)
    assert rows["regal", "over_one_device", None] == pytest.approx(0.5**0.5)
    assert rows["brkga", "slower_percent", None] == 50.0
    saved = 100 * (1 - (1 * 8 / (2 * 9)) ** 0.5)
    assert rows["regal", "improvement_percent", "brkga"] == pytest.approx(saved)
