"""Paper 3's untouched test sets, their rows, the stored best schedules, and the table where memory
binds."""

import numpy as np
import pytest
from learned_mapping_builders import regal_synthetic_graphs as synthetic
from learned_mapping_builders.regal_best import joined
from learned_mapping_builders.topology import topology_digest

from learned_mapping.regal.methods import schedule_costs, solve
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.validate import validate
from learned_mapping_companion.datasets.registry import stored_manifest
from learned_mapping_companion.regal.graphs import (
    DATASETS,
    best_entries,
    graph_names,
    load_graph,
    members,
)
from learned_mapping_companion.regal.runs import outcome, schedule_limited
from learned_mapping_companion.statistics import resampled_means


def test_no_test_graph_has_a_topology_that_was_trained_or_validated_on():
    manifest = stored_manifest("regal-traced")
    topologies = {
        split: {item.facts["topology"] for item in manifest.split(split)}
        for split in ("train", "validation")
    }
    tested = {
        topology_digest(load_graph("traced-memory", name))
        for name in graph_names("traced-memory")[::7]
    }
    assert len(graph_names("traced-runtime")) == 98 and not tested & (
        topologies["train"] | topologies["validation"]
    )
    assert not {item.facts["topology"] for item in manifest.split("test")} & set.union(
        *topologies.values()
    )
    names = graph_names("synthetic-runtime")
    assert len(names) == 100 and not set(names) & set(members("synthetic-topology"))
    tested = {topology_digest(load_graph("synthetic-runtime", name)) for name in names}
    looked_at = {topology_digest(synthetic.generate("train", i)) for i in range(400)}
    looked_at |= {topology_digest(synthetic.generate("validation", i)) for i in range(60)}
    assert not tested & looked_at


def test_resampled_means_draw_graphs_and_runs():
    scores = {"a": [0.0, 2.0], "b": [10.0, 10.0]}
    tasks = np.array([[0, 0], [1, 1], [0, 1]] * 500)
    drawn = resampled_means(scores, tasks, np.random.default_rng(0)).reshape(500, 3)
    assert set(np.unique(drawn[:, 0])) == {0.0, 0.5, 1.0, 1.5, 2.0} and np.all(drawn[:, 1] == 10.0)
    assert drawn[:, 2].mean() == pytest.approx(5.5, abs=0.1)


@pytest.mark.parametrize("dataset", DATASETS)
def test_stored_best_schedules_are_valid_and_cost_what_they_say(dataset):
    kind, objective = DATASETS[dataset]
    actual = 0
    for graphs, split in ((kind, "test"), (dataset, "test"), (dataset, "fresh")):
        for name, entry in list(best_entries(graphs, objective, split).items())[::7]:
            graph = load_graph(graphs, name, split)
            assert entry["digest"] == graph.digest
            schedule = Schedule.of(
                np.array(entry["placement"]), np.array(entry["order"]), entry["devices"]
            )
            problem = Instance(graph, objective=objective)
            assert validate(graph, schedule, problem.machine).valid
            assert schedule_costs(problem, schedule)[problem.cost_name] == pytest.approx(
                entry["cost"], rel=1e-12
            )
            assert entry["bound"] <= entry["cost"] * (1 + 1e-9)
            actual += 1
    assert actual >= 6


def test_fresh_graphs_are_not_the_earlier_ones():
    """Catches a test set that was looked at before: no fresh graph is an earlier one, and of the
    generated ones none has the topology of one that was trained or validated on."""
    for dataset in DATASETS:
        digests = [
            {load_graph(dataset, name, split).digest for name in graph_names(dataset, split)[::5]}
            for split in ("test", "fresh")
        ]
        assert min(map(len, digests)) >= 19 and not digests[0] & digests[1]
    fresh = [
        load_graph("synthetic-runtime", n, "fresh")
        for n in graph_names("synthetic-runtime", "fresh")
    ]
    looked_at = {topology_digest(synthetic.generate("train", i)) for i in range(400)}
    looked_at |= {topology_digest(synthetic.generate("validation", i)) for i in range(60)}
    assert not {topology_digest(graph) for graph in fresh} & looked_at


def test_what_two_searches_found_of_a_graph_is_joined():
    """Catches a bound, a seed or the cheaper schedule that is lost where two processes search one
    set, and an entry of another graph of the name."""
    name, entry = next(iter(best_entries("traced", "runtime").items()))
    problem = Instance(load_graph("traced", name))
    cost = 2 * entry["cost"]
    dearer = entry | {"cost": cost, "bound": 0.0, "seeds": [7], "method": "dearer"}
    for entries in ((entry, dearer), (dearer, None, entry)):
        found = joined(problem, *entries)
        assert found == entry | {"bound": found["bound"], "seeds": sorted({*entry["seeds"], 7})}
        assert entry["bound"] <= found["bound"] <= entry["cost"]
    assert joined(problem, dearer | {"digest": "another"}, None) is None


@pytest.mark.parametrize("kind", ["traced", "traced-memory"])
def test_stored_bounds_of_memory_know_what_one_op_holds(kind):
    """Catches a proof that is lost: while an op runs its device holds all that it reads, writes and
    weighs, so that a schedule whose peak is no more than this of some op is the best there is."""
    for name, entry in best_entries(kind, "memory").items():
        graph = load_graph(kind, name)
        held = graph.op_weight_bytes.tolist()
        for tensor, producer in enumerate(graph.tensor_producer.tolist()):
            for op in {producer, *graph.consumers(tensor).tolist()}:
                held[op] += int(graph.tensor_bytes[tensor])
        assert min(entry["cost"], max(held)) <= entry["bound"] <= entry["cost"], name


def test_what_a_run_says_of_memory_is_in_bytes():
    """Catches the least seconds under the name of the least bytes, which no table would miss."""
    problem = Instance(load_graph("synthetic", "random-dag-40"), objective="memory")
    result = outcome(problem, solve(problem, "list-scheduler").solution, 0.0)
    held = (
        problem.graph.op_input_bytes + problem.graph.op_output_bytes + problem.graph.op_weight_bytes
    )
    assert held.max() <= result["floor"] <= result["cost"]


def test_under_a_limit_the_list_schedule_fails_and_an_evolution_fits():
    config = {"graphs": ["random-dag-40"], "share": 0.25, "evaluations": 500}
    rules, evolved = (
        schedule_limited(m, "synthetic-runtime", config, 0) for m in ("list-scheduler", "brkga")
    )
    assert (
        not rules["graphs"]["random-dag-40"]["fits"] and evolved["graphs"]["random-dag-40"]["fits"]
    )
    assert (
        rules["graphs"]["random-dag-40"]["limit_bytes"]
        == evolved["graphs"]["random-dag-40"]["limit_bytes"]
    )
