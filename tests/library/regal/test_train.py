import dataclasses

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learned_mapping_builders.training import imitation as train
from learned_mapping_builders.training.elites import find_elites, joined, origin_laws, own_elite
from learned_mapping_builders.training.imitation import (
    Example,
    RegalAgent,
    TrainConfig,
    imitation_loss,
    make_targets,
)

from learned_mapping.errors import InputError
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.agent import network
from learned_mapping.regal.agent.features import NODE_FEATURES, features
from learned_mapping.regal.agent.network import ENTRIES, make_batch
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.regal.searches.brkga import MutantLaw
from learned_mapping.regal.searches.local_search import LocalSearchParameters
from learned_mapping.regal.searches.proposals import BINS
from learned_mapping.regal.validate import validate

CONFIG = TrainConfig(imitation_iterations=2, steps=20, batch_nodes=128)


@pytest.fixture(scope="module")
def examples():
    """Graphs whose elites sit where one feature is positive: what imitation has to find out."""
    collected = []
    for seed in range(2):
        instance = Instance(random_graph(np.random.default_rng(seed), "layered", 30))
        seen = features(instance)
        elites = find_elites(
            instance, origin_laws(instance, seen), np.random.default_rng(0), evaluations=100
        )
        side = seen.nodes[:, NODE_FEATURES.index("balanced_4_1")] >= 0
        elites = elites._replace(devices=np.tile(side, (len(elites.costs), 1)).astype(np.int8))
        collected.append(Example(instance, seen, elites))
    return collected


def test_elites_come_best_first_with_their_costs():
    """Catches an order that is another's, and costs that are not their schedules'."""
    instance = Instance(random_graph(np.random.default_rng(3), "towers", 60))
    elites = find_elites(
        instance,
        origin_laws(instance, features(instance)),
        np.random.default_rng(0),
        evaluations=1000,
    )
    assert np.all(np.diff(elites.costs) >= 0)
    for cost, devices, order in zip(elites.costs, elites.devices, elites.orders):
        steps = [(x, -1) if x < 60 else divmod(x - 60, 2) for x in order[order >= 0].tolist()]
        schedule = Schedule.of(devices, np.array(steps), 2)
        assert validate(instance.graph, schedule, instance.machine).costs["makespan_s"] == cost


def test_an_elite_of_a_law_names_devices_as_the_law_does():
    """Catches devices named at random, a climb that is not counted or not made, and elites joined
    out of order."""
    instance = Instance(random_graph(np.random.default_rng(3), "layered", 30))
    sides = np.arange(30) % 2
    affinity = np.ones((30, 2))
    affinity[np.arange(30), sides] = 8.0
    climb = LocalSearchParameters()
    for law_sides, alpha in ((sides, affinity), (1 - sides, affinity[:, ::-1])):
        law = MutantLaw(alpha.ravel().copy(), np.ones(60))
        own = own_elite(instance, law, np.random.default_rng(0), evaluations=300, climb=climb)
        assert (own.devices[0] == law_sides).mean() >= 0.5
        for item in own.orders[0][own.orders[0] >= 30].tolist():
            tensor, target = divmod(item - 30, 2)
            assert target != own.devices[0][instance.graph.tensor_producer[tensor]]
    short = find_elites(
        instance,
        origin_laws(instance, features(instance)),
        np.random.default_rng(0),
        evaluations=100,
    )
    both = joined(short, own)
    assert len(both.costs) == len(short.costs) + 1 and np.all(np.diff(both.costs) >= 0)
    row = int(np.argmin(np.abs(both.costs - own.costs[0])))
    np.testing.assert_array_equal(both.devices[row], own.devices[0])


def test_pairs_pull_the_priorities_of_what_went_first(examples):
    """Catches a sign, a pair of another graph, and a transfer that is not compared with the uniform
    law."""
    batch = make_batch([examples[0].seen, examples[1].seen])
    nodes = batch.graphs.nodes.shape[0]
    targets = make_targets(examples[:2], batch, CONFIG, np.random.default_rng(0))
    assert targets.pair_weights.sum() == pytest.approx(1.0, abs=1e-5)
    real = targets.pairs[targets.pair_weights > 0]
    assert ((real < 60) | (real == nodes)).all() and (real == nodes).any()
    ops = real[(real < 60).all(axis=1)]
    assert np.array_equal(ops[:, 0] < 30, ops[:, 1] < 30)
    pairs, weights = np.zeros_like(targets.pairs), np.zeros_like(targets.pair_weights)
    pairs[:2], weights[:2] = [[3, nodes], [4, 5]], 0.5
    targets = targets._replace(pairs=pairs, pair_weights=weights)
    config = dataclasses.replace(CONFIG, strength_weight=0.0)
    of = jax.grad(lambda x: imitation_loss(x, batch, targets, config)[0])
    gradient = np.asarray(of(jnp.zeros((nodes, ENTRIES, 2, len(BINS)))))[:, -1, 0, -1]
    assert gradient[3] < 0 and gradient[4] < 0 < gradient[5] and np.count_nonzero(gradient) == 3


def test_a_step_moves_the_weights(examples, monkeypatch):
    """Iterations run, log finite rows, and a state comes back the same in another agent.

    One layer stands for the network, which takes long to compile.
    """
    shape = (-1, ENTRIES, 2, len(BINS))
    layer = hk.transform(
        lambda batch: hk.Linear(int(-np.prod(shape)))(batch.graphs.nodes).reshape(shape)
    )
    for module in (network, train):
        monkeypatch.setattr(module, "network", lambda model: hk.without_apply_rng(layer))
    config = dataclasses.replace(CONFIG, steps=1)
    agent, other = RegalAgent(examples[:2], config), RegalAgent(examples[:2], config)
    start = jax.tree_util.tree_leaves(agent.parameters)
    rows = [agent.iterate(lambda: False) for _ in range(2)]
    assert [row["iteration"] for row in rows] == [1, 2] and agent.done
    assert all(
        np.isfinite(value) for row in rows for value in row.values() if isinstance(value, float)
    )
    after = jax.tree_util.tree_leaves(agent.parameters)
    assert any(not np.array_equal(one, two) for one, two in zip(start, after))
    other.restore(*agent.state(), "state")
    assert other.done
    for one, two in zip(after, jax.tree_util.tree_leaves(other.parameters)):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(InputError, match="config"):
        RegalAgent(examples[:2], dataclasses.replace(config, seed=1)).restore(
            *agent.state(), "state"
        )
