"""Tests of the JAX environment: the same model, the same repair, whatever it is batched with."""

import dataclasses
import itertools

import chex
import jax
import jax.numpy as jnp
import networkx
import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.env import Domains, PartitionEnv
from learned_mapping.mcm.repair.engine import repair_arrays
from learned_mapping.mcm.rules.constraints import is_valid
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph


def environments(count, chips, low=3, high=40):
    rng = np.random.default_rng(chips)
    for i in range(count):
        graph = random_graph(
            rng, list(GRAPH_FAMILIES)[i % len(GRAPH_FAMILIES)], int(rng.integers(low, high))
        )
        yield PartitionEnv(ChipModel(graph, ChipPackage(chips=chips, link_bytes_per_s=2e9)))


@pytest.mark.parametrize("chips", [1, 4, 36])
def test_rewards_are_the_models(chips):
    """Catches a reward of the candidate, of another package, or of less than double precision."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for env in environments(3, chips):
            step = jax.jit(jax.vmap(env.step, (None, 0, 0)))
            keys = jax.random.split(jax.random.PRNGKey(chips), 8)
            uniform = rng.integers(0, chips, (8, env.num_ops))
            for actions in (uniform, rng.dirichlet(np.ones(chips), (8, env.num_ops))):
                states, rewards = step(env.reset(), actions, keys)
                for row, reward in zip(np.asarray(states.assignment), rewards):
                    assert is_valid(row, env.graph.op_edges) and row.max() < chips
                    assert float(reward) == pytest.approx(env.model.throughput(row), rel=1e-12)


def test_a_step_is_the_same_alone_and_in_a_batch():
    """Catches a repair whose randomness depends on its neighbours, and a `rollout` of another
    repair."""
    (env,) = environments(1, 5, 30, 40)
    actions = np.random.default_rng(1).integers(0, 5, (6, env.num_ops))
    keys = jax.random.split(jax.random.PRNGKey(7), 6)
    state = env.reset()
    assert np.all(np.asarray(state.assignment) == -1)
    batch = np.asarray(
        jax.jit(jax.vmap(env.step, (None, 0, 0)))(state, actions, keys)[0].assignment
    )
    nested = jax.jit(jax.vmap(jax.vmap(env.step, (None, 0, 0)), (None, 0, 0)))
    again = nested(state, actions.reshape(2, 3, -1), keys.reshape(2, 3, -1))[0].assignment
    np.testing.assert_array_equal(np.asarray(again).reshape(6, -1), batch)
    for action, key, row in zip(actions, keys, batch):
        np.testing.assert_array_equal(env.step(state, action, key)[0].assignment, row)
        actual, throughput, _ = env.rollout(action[None], np.random.default_rng(np.asarray(key)))
        np.testing.assert_array_equal(actual[0], row)
        assert throughput[0] == env.model.throughput(row)
    assert len({tuple(row) for row in batch}) > 1


def test_packages_are_traced():
    """Catches a parameter compiled in: one compilation serves a sweep over links, arithmetic and
    overhead."""
    (env,) = environments(1, 4, 30, 40)
    package, key = env.model.package, jax.random.PRNGKey(0)
    action = np.random.default_rng(2).integers(0, 4, env.num_ops)
    names = ("flop_per_s", "link_bytes_per_s", "op_overhead_s")
    scales = 10.0 ** np.random.default_rng(3).uniform(-1, 1, (5, len(names)))
    swept = [
        dataclasses.replace(package, **{n: getattr(package, n) * s for n, s in zip(names, row)})
        for row in scales
    ]

    @jax.jit
    @chex.assert_max_traces(n=1)
    def played(package):
        state, reward = env.step(env.reset(package), action, key)
        return state.assignment, reward, env.observe(state).ops

    with jax.enable_x64(True):
        stacked = jax.tree.map(lambda *x: jnp.stack([jnp.float64(v) for v in x]), *swept)
        together = jax.jit(jax.vmap(lambda p: env.step(env.reset(p), action, key)[1]))(stacked)
        for one, reward in zip(swept, together):
            assignment, alone, ops = played(one)
            model = ChipModel(env.graph, one)
            assert float(alone) == pytest.approx(
                model.throughput(np.asarray(assignment)), rel=1e-12
            )
            assert float(reward) == pytest.approx(float(alone), rel=1e-12)
            np.testing.assert_allclose(ops, PartitionEnv(model).features.ops, atol=2e-7)
    assert len(set(np.asarray(together).tolist())) == 5


def test_an_illegal_action_changes_nothing():
    """Catches a chip that is not there taken for another, and weights that are no distribution:
    alone, jitted and in a batch beside legal ones."""
    (env,) = environments(1, 4, 10, 12)
    key, rng = jax.random.PRNGKey(3), np.random.default_rng(0)
    legal = rng.integers(0, 4, env.num_ops)
    state, reward = jax.jit(env.step)(env.reset(), legal, key)
    assert reward > 0
    unwanted = np.stack(
        [
            np.where(np.arange(env.num_ops) == 3, chip, legal)
            for chip in (-1, 4, 100, 2**31 - 1, -(2**31))
        ]
    )
    after, rewards = jax.jit(jax.vmap(env.step, (None, 0, None)))(
        state, np.vstack([legal[None], unwanted]), key
    )
    assert rewards[0] > 0 and not np.asarray(rewards[1:]).any()
    np.testing.assert_array_equal(
        after.assignment[1:], np.broadcast_to(state.assignment, unwanted.shape)
    )
    for weight in (-1.0, np.nan, np.inf, 0.0):
        weights = np.ones((env.num_ops, 4))
        weights[3] = weight
        after, reward = env.step(state, weights, key)
        assert reward == 0
        np.testing.assert_array_equal(after.assignment, state.assignment)
    after, reward = env.step(env.reset(), unwanted[0], key)
    assert reward == 0 and (np.asarray(after.assignment) == -1).all()


def test_an_action_of_another_shape_is_refused():
    """Catches a fault from within the callback, reals taken for chips, and a package of other
    chips."""
    (env,) = environments(1, 4, 10, 12)
    state, key, legal = env.reset(), jax.random.PRNGKey(3), np.zeros(env.num_ops, int)
    weights = np.ones((env.num_ops, 4))
    for action, seed in (
        (legal[:2], key),
        (weights[:, :3], key),
        (legal * 1.0, key),
        (legal, jax.numpy.int32(3)),
    ):
        with pytest.raises(InputError, match="environment: action: expected"):
            env.step(state, action, seed)
    with pytest.raises(InputError, match="chips"):
        env.reset(ChipPackage(chips=5))


def valid_partitions(graph, chips):
    """[K, N] every partition that uses a prefix of the chips and obeys the chain rule, by trying
    all."""
    every = np.array(list(itertools.product(range(chips), repeat=graph.num_ops)), np.int32)
    step = every[:, graph.op_edges[:, 1]] - every[:, graph.op_edges[:, 0]]
    every = every[((step >= 0) & (step <= 1)).all(axis=1)]
    if graph.op_chip is not None:
        every = every[((graph.op_chip < 0) | (every == graph.op_chip)).all(axis=1)]
    return every[[len(set(row)) == row.max() + 1 for row in every]]


@pytest.mark.parametrize("seed", range(18))
def test_the_chips_an_op_can_have_are_what_trying_all_leaves(seed):
    """The whole tree of prefixes of six ops on three chips, in a random order; every third graph has
    an op fixed to chip 1, some are of several pieces. Catches a chip that is offered and leads
    nowhere; and, of one piece, a chip kept back."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, list(GRAPH_FAMILIES)[seed % len(GRAPH_FAMILIES)], 6)
    pieces = networkx.number_connected_components(
        networkx.Graph(graph.op_edges.tolist() + [(op, op) for op in range(6)])
    )
    if seed % 3 == 1:
        fixed = np.full(6, -1, np.int32)
        fixed[int(graph.topological_order[-1])] = 1
        graph = dataclasses.replace(graph, op_chip=fixed)
    valid = valid_partitions(graph, 3)
    if not len(valid):
        return
    arrays, visited = repair_arrays(graph), 0

    def go_on(decided):
        nonlocal visited
        domains = Domains(arrays, 3)
        order = domains.order(np.random.default_rng(seed).permutation(6))
        for op, chip in zip(order, decided):
            domains.decide(int(op), chip)
        if len(decided) == 6:
            assert (valid == domains.bounds()[0]).all(axis=1).any()
            visited += 1
            return
        low, high = domains.bounds()
        op = order[len(decided)]
        offered = [*range(low[op], high[op] + 1)]
        fits = valid[(valid[:, order[: len(decided)]] == decided).all(axis=1)]
        assert offered and {*offered} <= {*fits[:, op].tolist()}
        assert pieces > 1 or {*offered} == {*fits[:, op].tolist()}
        for chip in offered:
            go_on([*decided, chip])

    go_on([])
    assert pieces > 1 or visited == len(valid)
