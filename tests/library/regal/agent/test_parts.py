"""A law for any number of devices from a network for two."""

import dataclasses

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping.regal.agent.parts import halves
from learned_mapping.regal.agent.policy import BINS, Policy, untrained
from learned_mapping.regal.methods import solve
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.rules.levels import op_cost
from learned_mapping.regal.validate import validate


class AlongTheOrder:
    """A policy that puts the first ops of a graph on the first side, the more surely the earlier."""

    def probabilities(self, instance):
        n = instance.graph.num_ops
        place = np.empty(n)
        place[instance.graph.topological_order] = (np.arange(n) + 0.5) / n
        p = np.full((n, 3, 2, len(BINS)), 1 / len(BINS))
        p[:, 0, 0] = np.where(np.arange(len(BINS)) == len(BINS) - 1, 1, 0)
        p[:, 0, 0] = (1 - place)[:, None] * p[:, 0, 0] + (place / len(BINS))[:, None]
        return p


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 5, 8])
def test_every_device_gets_its_share(devices):
    """Catches a cut of the wrong part, a device without ops, and shares that are not of cost."""
    graph = random_graph(np.random.default_rng(devices), "layered", 160)
    instance = Instance(graph, Devices(devices=devices))
    on = np.zeros(160, int)
    for ops, first, second, on_second, p in halves(instance, AlongTheOrder(), np.array(BINS)):
        assert len(p) == len(ops) == len(on_second)
        on[ops] = np.where(on_second, second.start, first.start)
    cost = op_cost(instance)
    share = np.bincount(on, cost, devices) / cost.sum()
    assert np.abs(share - 1 / devices).max() <= 1.5 * cost.max() / cost.sum()
    # The parts follow the policy: along the order, one device after the other.
    assert (np.diff(on[graph.topological_order]) >= 0).all()


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_a_device_is_told_apart_at_every_cut(devices):
    """A policy that is sure gives each op its own device the largest alpha, but for the priority:
    catches devices of the other side that take the own side's law."""

    class Sure(AlongTheOrder):
        def probabilities(self, instance):
            n = instance.graph.num_ops
            place = np.empty(n)
            place[instance.graph.topological_order] = np.arange(n)
            first = place < n / 2
            p = np.zeros((n, 3, 2, len(BINS)))
            high, low = len(BINS) - 1, 1
            for side, own in ((0, first), (1, ~first)):
                p[own, side, 0, high] = p[~own, side, 0, low] = 1
                p[own, side, 1, low] = p[~own, side, 1, high] = 1
            p[:, 2, :, low] = 1
            return p

    sure = Sure()
    graph = random_graph(np.random.default_rng(1), "layered", 128)
    graph = dataclasses.replace(graph, op_seconds=np.ones(128))
    instance = Instance(graph, Devices(devices=devices))
    policy = Policy({}, "runtime", "x", 0)
    object.__setattr__(policy, "probabilities", sure.probabilities)
    chosen = policy.choices(instance, np.random.default_rng(0))
    place = np.empty(128, int)
    place[graph.topological_order] = np.arange(128)
    assert (chosen[:, :-1, 0].argmax(axis=1) == place * devices // 128).all()
    assert (np.sort(chosen[:, :-1, 0], axis=1)[:, :-1] < len(BINS) - 1).all()


@pytest.mark.parametrize("family", sorted(GRAPH_FAMILIES))
@pytest.mark.parametrize("devices", [1, 3, 8])
def test_any_number_of_devices_is_served(devices, family):
    """Also fewer ops than devices."""
    for ops in (2, 40):
        graph = random_graph(np.random.default_rng(ops), family, ops)
        instance = Instance(graph, Devices(devices=devices))
        result = solve(instance, "regal-untrained", samples=300)
        assert validate(graph, result.solution, instance.machine).valid


def test_two_devices_are_as_the_network_has_them():
    instance = Instance(random_graph(np.random.default_rng(3), "towers", 30))
    policy = untrained(instance, 1)
    chosen = policy.choices(instance, np.random.default_rng(0))
    p = policy.probabilities(instance)
    assert chosen.shape == (30, 3, 2)
    assert (np.take_along_axis(p, chosen[..., None].astype(int), -1) > 0).all()


def test_unlike_speeds_are_one_clear_line():
    machine = Devices(flop_per_s=(1e12, 2e12))
    graph = random_graph(np.random.default_rng(3), "towers", 30)
    with pytest.raises(InputError, match="of one speed"):
        solve(Instance(graph, machine), "regal-untrained", samples=300)
