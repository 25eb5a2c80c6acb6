"""The three environments by one list: pure, masked, without NaN, and one clear line where float64
is off."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.hardware.devices import Devices
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mmap import env as mmap_env
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal import env as regal_env
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.rules.instance import Instance

STATED = ("Reset", "Step", "Observe", "Mask", "Reward", "Termination", "Units")
WHERE = {"mmap": mmap_env.EnvState, "mcm": PartitionEnv, "regal": regal_env.EnvState}


def small_graph():
    """Twelve ops that bring no times of their own, where a NaN used to say so."""
    graph = random_graph(np.random.default_rng(3), "layered", 12)
    return replace(graph, op_seconds=None, op_flop=np.full(12, 1e9))


def play_mmap():
    program, tables = (
        mmap_env.env_program(toy_program()),
        mmap_env.observation_tables(toy_program()),
    )
    step, observe = jax.jit(mmap_env.step), jax.jit(mmap_env.observe)
    state = jax.jit(mmap_env.reset, static_argnums=1)(program, 16)
    yield (state, observe(program, tables, state)), None
    while not bool(state.over):
        state, reward = step(program, state, jnp.argmax(state.position.legal))
        yield (state, observe(program, tables, state)), reward


def play_mcm():
    env = PartitionEnv(ChipModel(small_graph(), ChipPackage(chips=3)))
    state = env.reset()
    yield (state, env.observe(state)), None
    state, reward = jax.jit(env.step)(state, jnp.zeros(12, jnp.int32), jax.random.PRNGKey(0))
    yield (state, env.observe(state)), reward


def play_regal():
    instance = Instance(small_graph())
    graph = jax.tree.map(
        lambda leaf: leaf[0], regal_env.env_graphs([instance], [features(instance)])
    )
    state, seen = regal_env.reset(graph, Devices(), jnp.asarray(1), 300)
    yield (state, seen), None
    choices = jnp.zeros((len(graph.flop), 3, 2), jnp.int32)
    yield regal_env.step(state, choices, jnp.asarray(2), (0.5, 2.0))


PLAYS = {"mmap": play_mmap, "mcm": play_mcm, "regal": play_regal}


@pytest.mark.parametrize("name", PLAYS)
def test_an_episode_holds_no_nan(name):
    """Also under JAX's own alarm; catches a NaN that stands for "nothing given" in what an agent
    keeps and checks."""
    with mmap_env.exact(), jax.debug_nans(True):
        rewards = []
        for state, reward in PLAYS[name]():
            for leaf in jax.tree.leaves(state):
                assert not np.isnan(np.asarray(leaf, np.float64)).any()
            rewards += [] if reward is None else [float(reward)]
    assert rewards and np.isfinite(rewards).all()


@pytest.mark.parametrize("name", WHERE)
def test_the_decision_process_is_stated(name):
    """Reset, step, what is seen, what is masked, reward, end and units, in this order."""
    text = WHERE[name].__doc__
    places = [text.find(f"- {word}: ") for word in STATED]
    assert -1 not in places and places == sorted(places)


def test_float64_that_is_off_is_one_line():
    """At every door, outside and inside `jit`; without it JAX says so in twenty lines about carries
    of loops."""
    with mmap_env.exact():
        program = mmap_env.env_program(toy_program())
        state = mmap_env.reset(program, 16)
        instance = Instance(small_graph())
        graph = jax.tree.map(
            lambda leaf: leaf[0], regal_env.env_graphs([instance], [features(instance)])
        )
        began, _ = regal_env.reset(graph, Devices(), jnp.asarray(1), 300)
    choices = jnp.zeros((len(graph.flop), 3, 2), jnp.int32)
    doors = {
        "mmap": [
            lambda: mmap_env.env_program(toy_program()),
            lambda: mmap_env.reset(program, 16),
            lambda: mmap_env.step(program, state, jnp.asarray(2)),
            lambda: jax.jit(mmap_env.step)(program, state, jnp.asarray(2)),
        ],
        "regal": [
            lambda: regal_env.env_graphs([instance], [features(instance)]),
            lambda: regal_env.reset(graph, Devices(), jnp.asarray(1), 300),
            lambda: regal_env.step(began, choices, jnp.asarray(2), (0.5, 2.0)),
        ],
    }
    for name, item in doors.items():
        for door in item:
            with pytest.raises(InputError) as actual:
                door()
            assert f"use `with learned_mapping.{name}.env.exact():`" in str(actual.value)
            assert "\n" not in str(actual.value)
