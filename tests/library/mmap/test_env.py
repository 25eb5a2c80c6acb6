"""The JAX environment's own contract; that it plays by the rules is for test_differential to
say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learned_mapping_builders.synthetic_programs import random_program

from by_hand import hand_program
from learned_mapping.errors import InputError
from learned_mapping.mmap import env
from learned_mapping.mmap.agent.games import Games
from learned_mapping.mmap.observation import WIDTH
from learned_mapping.mmap.rules.actions import COPY, DROP, NO_COPY, toy_program
from learned_mapping.programs.program import Program
from mmap_games import random_action, stacked

TRACES = []


@jax.jit
def step(program, state, action):
    TRACES.append(1)
    return env.step(program, state, action)


reset = jax.jit(env.reset, static_argnums=1)


CAPACITY = 2
"""Slots in the toy games; all the toy's optimum needs."""


def crowd_program() -> Program:
    """Three tensors written at step 0 and read at step 1, which writes a fourth: four allocations
    that share a step."""
    uses = [*((0, name, True) for name in "abc"), *((1, name, name == "d") for name in "abcd")]
    return hand_program(
        uses, sizes=dict.fromkeys("abcd", 1), saving_s=0.0, fast_bytes=4, copy_bytes_per_s=1.0
    )


def two_programs() -> tuple[env.EnvProgram, env.EnvProgram]:
    """The toy and the crowd, padded to one shape."""
    both = stacked([toy_program(), crowd_program()])
    return tuple(jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in range(2))


def test_toy_optimum_without_recompiling():
    """Catches a step whose shapes or types change from one state to the next, and a wrong
    return."""
    with env.exact():
        program, _ = two_programs()
        state = reset(program, CAPACITY)
        rewards = []
        for action in (NO_COPY, NO_COPY, DROP, DROP, COPY, NO_COPY):
            assert not state.over
            state, reward = step(program, state, jnp.int32(action))
            rewards.append(float(reward))
        assert len(TRACES) == 1
        assert rewards == [1.0, 1.0, 0.0, 0.0, 1.0, 1.0] and float(state.position.saved_s) == 4.0
        assert bool(state.over) and not bool(state.overflow)

        # After the end, and for an illegal action, nothing changes.
        again, reward = step(program, state, jnp.int32(DROP))
        assert float(reward) == 0.0
        jax.tree.map(np.testing.assert_array_equal, again, state)
        after_drop, _ = step(program, reset(program, CAPACITY), jnp.int32(DROP))
        illegal = int(np.flatnonzero(~np.asarray(after_drop.position.legal))[0])
        unchanged, _ = step(program, after_drop, jnp.int32(illegal))
        jax.tree.map(np.testing.assert_array_equal, unchanged, after_drop)


def test_the_overflow_flag_rises_with_the_first_question_that_may_be_answered_wrongly():
    """Catches a flag that comes late: of three allocations in two slots one is forgotten, which
    ends at the very step where the fourth is to begin; reading what is resident asks nothing."""
    with env.exact():
        _, program = two_programs()
        state = reset(program, CAPACITY)
        flags = []
        for _ in range(7):
            flags.append(bool(state.overflow))
            state, _ = step(program, state, jnp.int32(NO_COPY))
        assert bool(state.over)
        assert flags == [False] * 6 + [True]


def test_unusable_settings_are_refused():
    """Catches an environment that computes in float32 unnoticed, or overflows its integers."""
    with pytest.raises(InputError, match="float64"):
        env.env_program(toy_program())
    with env.exact():
        with pytest.raises(InputError, match="fast_bytes"):
            env.env_program(toy_program().with_memory(fast_bytes=2**31))


def test_capacity_suffices_for_play_of_the_kind_it_was_measured_on():
    """Catches a capacity rule that counts too little; and that a large program needs fewer slots
    than buffers."""
    program = random_program(np.random.default_rng(0), 400)
    capacity = env.capacity_for(program)
    assert capacity < program.num_buffers
    assert env.capacity_for(toy_program()) == toy_program().num_buffers
    with env.exact():
        arrays = env.env_program(program)

        def play(key):
            def move(state, key):
                return env.step(arrays, state, random_action(key, state))[0], None

            return jax.lax.scan(move, env.reset(arrays, capacity), jax.random.split(key, 450))[0]

        final = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), 8))
        assert bool(final.over.all()) and not bool(final.overflow.any())


ILLEGAL = (-1, -2, 3, 7, 100, 2**31 - 1)
"""Numbers that are no action; -1 and 3 would index the last one."""


def test_what_is_no_action_changes_nothing():
    """Catches a number that is wrapped or clamped to an action: at every state of played games,
    alone and in a batch, whatever the integer's type."""
    rng = np.random.default_rng(5)
    with env.exact():
        batched, alone = jax.jit(jax.vmap(env.step, (None, None, 0))), jax.jit(env.step)
        game = random_program(rng, 12)
        program, slots = env.env_program(game), env.capacity_for(game)
        state = env.reset(program, slots)
        while not state.over:
            illegal = np.flatnonzero(~np.asarray(state.position.legal))
            # one shape is compiled once
            unwanted = np.resize([*ILLEGAL, *illegal], len(ILLEGAL) + 2)
            after, rewards = batched(program, state, jnp.array(unwanted, jnp.int32))
            assert not np.asarray(rewards).any()
            jax.tree.map(
                lambda a, b: np.testing.assert_array_equal(a, np.broadcast_to(b, a.shape)),
                after,
                state,
            )
            for number in (jnp.int64(2**40), jnp.int8(-128)):
                unchanged, reward = alone(program, state, number)
                assert reward == 0
                jax.tree.map(np.testing.assert_array_equal, unchanged, state)
            state, _ = alone(
                program, state, jnp.int32(rng.choice(np.flatnonzero(state.position.legal)))
            )


def test_games_of_many_programs_run_side_by_side():
    """Five programs of 3 to 59 buffers in one compiled loop beside the compiled game, which knows of
    no padding: the same choices, the same view, the same return. Catches padding that is read: a
    step behind the last, a buffer that is none, a neighbour's tables."""
    programs = [random_program(np.random.default_rng(seed), 3 + 14 * seed) for seed in range(5)]
    alone, rng = [Games(program, 1) for program in programs], np.random.default_rng(0)
    for games in alone:
        games.observe()
    with env.exact():
        program = env.padded([env.env_program(program) for program in programs])
        tables = env.padded([env.observation_tables(program) for program in programs])
        fresh = jax.vmap(env.reset, (0, None))(program, max(map(env.capacity_for, programs)))
        decide, look = jax.jit(jax.vmap(env.decide)), jax.jit(jax.vmap(env.observe))
        states, moves = decide(program, fresh, jnp.full(5, -1)), 0
        while not bool(states.over.all()):
            legal, (seen, _) = np.asarray(states.position.legal), look(program, tables, states)
            actions = np.full(5, -1)
            for i, games in enumerate(alone):
                np.testing.assert_array_equal(games.legal[0], legal[i])
                if legal[i].any():
                    np.testing.assert_allclose(games.vector[0, :WIDTH], seen[i], atol=2e-5)
                    actions[i] = rng.choice(np.flatnonzero(legal[i]))
                    games.step(actions[i : i + 1])
                    moves += 1
            states = decide(program, states, jnp.asarray(actions))
        saved = np.asarray(states.position.saved_s)
        for games, program, saved_s in zip(alone, programs, saved):
            assert games.over[0] and games.saved[0] * program.possible_saving_s == pytest.approx(
                saved_s, rel=1e-12
            )
        assert moves > 50 and not bool(states.overflow.any())
