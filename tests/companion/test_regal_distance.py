"""Gains by distance: the graphs are as far from the training graphs as their distance says, and
rows are right."""

import functools

import numpy as np
import pytest
from learned_mapping_builders import regal_distance as sets
from learned_mapping_builders import regal_synthetic_graphs as synthetic
from learned_mapping_builders import regal_traced_graphs as traced
from learned_mapping_builders.topology import topology_digest
from learned_mapping_builders.training import regal_sets as training_sets

from learned_mapping.errors import InputError
from learned_mapping_companion.regal import distance as regal_distance
from learned_mapping_companion.regal.distance import (
    DISTANCES,
    NEAR_AND_FAR,
    schedule_set,
)
from learned_mapping_companion.regal.graphs import graph_of, members


@functools.cache
def graphs(name):
    return [graph_of(name, member) for member in members(name)]


@functools.cache
def topologies(name):
    return [topology_digest(graph) for graph in graphs(name)]


def test_distances_are_what_they_are_called():
    """Catches a graph nearer to the training graphs than its distance says, or farther."""
    for near, noise in (
        ("traced-trained", "traced-noise"),
        ("synthetic-trained", "synthetic-redrawn"),
    ):
        assert topologies(near) == topologies(noise)
        for one, two in zip(graphs(near), graphs(noise)):
            some = one.op_seconds > 0  # an op of a few picoseconds may come out the same
            assert (one.op_seconds != two.op_seconds)[some].mean() > 0.95 and one.name != two.name
    redrawn = np.concatenate(
        [np.log(graph.op_seconds / 1e-4) for graph in graphs("synthetic-redrawn")]
    )
    assert abs(redrawn.mean()) < 0.15 and abs(redrawn.std() - 1) < 0.1, (
        "times are of another law than the generator's"
    )
    for kind in ("traced", "synthetic"):
        trained = set(topologies(f"{kind}-trained"))
        for far in ("larger", "topology"):
            assert not trained & set(topologies(f"{kind}-{far}"))
    assert min(graph.num_ops for graph in graphs("traced-larger")) > training_sets.LARGEST_OPS
    pairs = zip(graphs("synthetic-trained"), graphs("synthetic-larger"))
    assert all(large.num_ops == 4 * small.num_ops for small, large in pairs)
    assert set(sets.NEW_FAMILIES) <= set(traced.names("test"))
    assert set(sets.GROWN) <= set(traced.names("train"))
    for small, large in zip(graphs("traced-trained"), graphs("traced-larger")):
        assert large.num_ops > 2 * small.num_ops


def test_synthetic_graphs_follow_the_rule():
    """The first of each family and size; test graphs nearest in ops. Catches graphs picked for
    their gains."""
    train, test = synthetic.accepted("train"), synthetic.accepted("test")
    families, expected, nearest = ("layered", "random-dag", "series-parallel", "towers"), [], []
    for low, high in ((0, 60), (80, 10**6)):
        for family in families:
            fits = (
                i for i, row in enumerate(train) if row.family == family and low < row.ops <= high
            )
            expected.append(next(fits))
    for i in expected:
        rows = [
            j for j, row in enumerate(test) if row.family == train[i].family and j not in nearest
        ]
        nearest.append(min(rows, key=lambda j: (abs(test[j].ops - train[i].ops), j)))
    assert sets.TRAINED == tuple(expected) and sets.TESTED == tuple(nearest)
    assert max(sets.TRAINED) < training_sets.SYNTHETIC_GRAPHS


def test_stored_graphs_are_the_builders():
    """Catches randomness without a seed, and files that fell behind: one member of each set, made
    anew."""
    for name, (chosen, make) in sets.SETS.items():
        assert members(name) == chosen
        if name != "traced-larger":  # seconds of tracing, which `lmap data build` does
            assert graph_of(name, chosen[-1]).digest == make(chosen[-1]).digest
    with pytest.raises(InputError, match="no set of graphs"):
        members("nowhere")
    with pytest.raises(InputError, match="is not in the set"):
        graph_of("traced-noise", "squeezenet")


def test_plans_share_what_does_not_learn():
    """BRKGA once for each set and seed, the network of each kind where it is asked; catches one
    network for both."""
    runs = NEAR_AND_FAR.runs("full", 2)
    assert len({run.digest for run in runs}) == len(runs)
    asked = {
        (name, distance == "four-devices")
        for distance, item in DISTANCES.items()
        for name in item.values()
    }
    assert sum(run.method == "brkga" for run in runs) == 2 * len(asked)
    networks = {
        r.config["network"].rpartition("-")[0]
        for r in runs
        if r.instance.startswith("synthetic-topology-2") and r.method == "regal-imitation"
    }
    assert networks == {"traced-runtime", "synthetic-runtime"}
    assert {run.config["devices"] for run in runs} == {2, 4}
    assert regal_distance.ROOM == training_sets.ROOM


def test_a_network_for_two_devices_refuses_four():
    """Catches a network that is used on devices it has no output for, and a refusal on two devices
    that goes unseen."""
    config = {
        "set": "synthetic-trained",
        "members": ["0"],
        "objective": "runtime",
        "transfers": "rendezvous",
    }
    config |= {"evaluations": 200, "network": "synthetic-runtime-0"}
    outcome = schedule_set("regal-imitation", "x", config | {"devices": 4}, 0)
    assert outcome == {
        "graphs": {},
        "refused": "devices: the trained networks are for 2 devices, got 4",
    }
    (actual,) = schedule_set("regal-imitation", "x", config | {"devices": 2}, 0)["graphs"].values()
    assert actual["valid"] and actual["cost"] >= actual["floor"] > 0
    with pytest.raises(InputError, match="no network is named"):
        schedule_set("regal-imitation", "x", config | {"devices": 2, "network": "nobody"}, 0)
