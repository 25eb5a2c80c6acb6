import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices, device_seconds
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal import env
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.rollouts import rollouts, uniform_cost
from learned_mapping.regal.rules.decode import evaluate, fitness_of, make_workspace
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import brkga
from learned_mapping.regal.searches.proposals import law_of
from learned_mapping.regal.searches.random_numbers import stream

BINS = (0.5, 1.0, 2.0, 4.0, 8.0)


@pytest.fixture(scope="module")
def instance():
    return Instance(random_graph(np.random.default_rng(3), "layered", 24))


def some_laws(instance, count, seed=0):
    return np.random.default_rng(seed).integers(
        0, len(BINS), (count, instance.graph.num_ops, 3, 2), np.int8
    )


@pytest.mark.parametrize("objective", ["runtime", "memory"])
def test_a_rollout_is_brkga(instance, objective):
    """From a NumPy generator and in float64 each run of a group is the project's `brkga` with that
    law for its mutants alone, to the last bit: catches another evolution, another order of the
    law's entries, another count of generations, and random numbers that run on from one law to the
    next."""
    own, laws = Instance(instance.graph, objective=objective), some_laws(instance, 2)
    actual = rollouts(own.arrays, laws, BINS, np.random.default_rng(5), 900, dtype=float)
    for law, cost in zip(laws, actual):
        budget = Budget(samples=900)
        brkga(
            own,
            np.random.default_rng(5),
            budget,
            law=law_of(np.asarray(BINS)[law], in_initial=False),
        )
        assert cost == budget.best


def test_a_cheap_stream_searches_as_well(instance):
    """The stream and float32 change the numbers, not the search: means over 30 runs agree within
    their errors."""
    laws = some_laws(instance, 1, seed=2)
    cheap = [rollouts(instance.arrays, laws, BINS, stream(1, s), 900)[0] for s in range(30)]
    exact = [
        rollouts(instance.arrays, laws, BINS, np.random.default_rng(s), 900, dtype=float)[0]
        for s in range(30)
    ]
    error = np.hypot(np.std(cheap), np.std(exact)) / np.sqrt(30)
    assert abs(np.mean(cheap) - np.mean(exact)) < 3 * error
    assert np.std(cheap) == pytest.approx(np.std(exact), rel=0.6)


def test_rollouts_share_and_repeat(instance):
    """Same seed, same costs; equal laws of a group cost the same, others do not; a group is its
    parts."""
    laws = some_laws(instance, 3)
    laws[2] = laws[0]
    costs = rollouts(instance.arrays, laws, BINS, stream(1), 500)
    assert costs[0] == costs[2] and costs[0] != costs[1]
    np.testing.assert_array_equal(costs, rollouts(instance.arrays, laws, BINS, stream(1), 500))
    assert costs[1] == rollouts(instance.arrays, laws[1:2], BINS, stream(1), 500)[0]
    assert not np.array_equal(costs, rollouts(instance.arrays, laws, BINS, stream(2), 500))
    with pytest.raises(InputError, match="generation"):
        rollouts(instance.arrays, laws, BINS, stream(1), 179)


def test_running_time_alone_is_the_same(odd_graph):
    """The decoder without memory gives the makespan of the one with it, in both readings of
    transfers."""
    rng = np.random.default_rng(0)
    for number in range(20):
        machine = Devices(transfers=("rendezvous", "free")[number % 2], devices=2 + number % 3 // 2)
        own = Instance(odd_graph(rng, 15), machine)
        chromosome, work = rng.random(own.chromosome_length), make_workspace(own)
        assert not own.arrays.counts_memory
        counting = own.arrays._replace(counts_memory=True)
        alone = fitness_of(own.arrays, chromosome, work)
        assert alone == evaluate(own.arrays, chromosome, work)[0]
        assert alone == fitness_of(counting, chromosome, work)


def test_environment_is_the_rollouts(instance):
    """jit and vmap over laws and over graphs of different sizes give what the compiled search
    gives; devices twice as fast, a traced argument, halve the running time of a graph that brings
    no times of its own."""
    slow = Instance(random_graph(np.random.default_rng(4), "layered", 18))
    both = [instance, slow]
    with env.exact():
        graphs = env.env_graphs(both, [features(item) for item in both])
        machine = Devices()
        reset = jax.jit(jax.vmap(lambda g: env.reset(g, machine, 7, 300)))
        states, seen = reset(graphs)
        assert seen.nodes.shape[:2] == (2, 25) and not states.done.any()
        for number, item in enumerate(both):
            assert states.uniform_cost[number] == uniform_cost(
                item.arrays, (7,), 300, env.UNIFORM_RUNS
            )
        laws = np.zeros((2, 3, 24, 3, 2), np.int8)
        laws[0] = some_laws(instance, 3)
        laws[1, :, :18] = some_laws(slow, 3)
        step = jax.jit(jax.vmap(lambda s, c: env.step(s, c, 9, BINS)))
        after, rewards = step(states, jnp.asarray(laws))
        assert after.done.all()
        for number, item in enumerate(both):
            costs = rollouts(
                item.arrays, laws[number, :, : item.graph.num_ops], BINS, stream(9), 300
            )
            np.testing.assert_array_equal(rewards[number], -costs / states.uniform_cost[number])
        one = jax.tree.map(lambda leaf: leaf[0], states)
        single = jax.vmap(lambda c: env.step(one, c, 9, BINS)[1])(jnp.asarray(laws[0]))
        np.testing.assert_array_equal(single, rewards[0])
        for bins in ((0.4, 1.0), (1.0, 101.0)):  # no table says their quantiles
            with pytest.raises(InputError, match=r"in \[0.5, 100.0\]"):
                env.step(one, jnp.asarray(laws[0]), 9, bins)
        bare = dataclasses.replace(instance.graph, op_seconds=None, op_flop=np.full(24, 1e9))
        given = jax.tree.map(
            lambda leaf: leaf[0], env.env_graphs([Instance(bare)], [features(instance)])
        )
        timed = jax.jit(lambda p: env.reset(given, p, 7, 300)[0].uniform_cost)
        fast = Devices(flop_per_s=2 * machine.flop_per_s, bytes_per_s=2 * machine.bytes_per_s)
        np.testing.assert_allclose(
            env.seconds_of(given, machine), device_seconds(bare, machine), rtol=1e-12
        )
        assert timed(fast) == pytest.approx(float(timed(machine)) / 2)
        late = Devices(op_overhead_s=(1e-3, 2e-3))
        kinds = ("input", *bare.op_kinds[1:])
        bare = dataclasses.replace(bare, op_kinds=kinds)
        given = jax.tree.map(
            lambda leaf: leaf[0], env.env_graphs([Instance(bare)], [features(instance)])
        )
        np.testing.assert_allclose(
            env.seconds_of(given, late), device_seconds(bare, late), rtol=1e-12
        )


@pytest.mark.parametrize("transfers", ["rendezvous", "free", "queued"])
def test_environment_prices_links_and_unlike_devices(instance, transfers):
    """Catches a link or a device's speed that the environment does not see, and one device's memory
    taken for all."""
    machine = Devices(
        memory_bytes=(2e9, 3e9),
        flop_per_s=(1e9, 3e9),
        transfers=transfers,
        link_bytes_per_s=((1e9, 5e11), (2e11, 1e9)),
        link_latency_s=1e-4,
    )
    bare = dataclasses.replace(instance.graph, op_seconds=None, op_flop=np.full(24, 1e7))
    priced = Instance(bare, machine)
    with env.exact():
        graph = env.env_graphs([Instance(bare)], [features(instance)])
        given = jax.tree.map(lambda leaf: leaf[0], graph)
        cost = jax.jit(lambda m: env.reset(given, m, 7, 300)[0].uniform_cost)
        assert cost(machine) == uniform_cost(priced.arrays, (7,), 300, env.UNIFORM_RUNS)
        assert cost(machine) != cost(dataclasses.replace(machine, link_latency_s=0.0))


def test_choices_of_another_shape_are_refused(instance):
    """Catches compiled code that reads past a law, and reals taken for bins."""
    with env.exact():
        graph = jax.tree.map(lambda leaf: leaf[0], env.env_graphs([instance], [features(instance)]))
        state, _ = env.reset(graph, Devices(), 7, 300)
        (law,) = some_laws(instance, 1).astype(np.int32)
        for wrong in (law[:-1], law[:, :2], law[..., :1], law[None, None], law.astype(float)):
            with pytest.raises(InputError, match="expected integers of shape"):
                env.step(state, wrong, 9, BINS)


def test_a_bin_that_is_not_there_changes_nothing(instance):
    """Catches a bin taken for the last one, or a fault from within the callback: alone, among laws
    and under vmap; what stands behind a graph's own ops is no bin of its."""
    with env.exact():
        graph = jax.tree.map(lambda leaf: leaf[0], env.env_graphs([instance], [features(instance)]))
        state, _ = env.reset(graph, Devices(), 7, 300)
        laws = some_laws(instance, 2).astype(np.int32)
        step = jax.jit(lambda c: env.step(state, c, 9, BINS))
        for number in (-1, len(BINS), 100, 2**31 - 1, -(2**31)):
            wrong = laws[0].copy()
            wrong[3, 0, 1] = number
            after, reward = step(wrong)
            assert reward == 0
            jax.tree.map(np.testing.assert_array_equal, after, state)
            after, rewards = step(np.stack([wrong, laws[1]]))
            assert rewards[0] == 0 > rewards[1] == step(laws[1])[1] and after.done
            beside = jax.vmap(lambda c: env.step(state, c, 9, BINS)[0].done)(
                np.stack([wrong, laws[1]])
            )
            assert beside.tolist() == [False, True]
