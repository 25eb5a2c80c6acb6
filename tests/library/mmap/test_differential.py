"""The JAX environment against the compiled kernel, move by move, on programs made to be awkward:
the rules of the game are written twice, as an undo log and as functions of a state, and neither
knows of the other."""

import functools
from pathlib import Path

import jax
import numpy as np
import pytest
from learned_mapping_builders.synthetic_programs import random_program

from learned_mapping.mmap import env
from learned_mapping.mmap.rules import kernel
from learned_mapping.mmap.rules.actions import DROP
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import read_program
from learned_mapping.programs.program import Program
from mmap_games import as_mapping, awkward_program, games, stacked

PROGRAMS = Path(__file__).parents[3] / "data" / "programs"
BATCH, BATCHES, SCAN = 700, 4, 130
"""Programs per batch of the JAX environment, batches, and steps of each game: above 10^5 before
games end."""


def synthetic(rng: np.random.Generator) -> Program:
    """A program of the synthetic family at a random difficulty."""
    return random_program(
        rng,
        int(rng.integers(10, 70)),
        alias_fraction=float(rng.choice([0.0, 0.2, 0.6])),
        alias_chain=float(rng.choice([0.3, 0.9])),
        locality=float(rng.choice([2.0, 10.0])),
        fast_fraction=float(rng.choice([0.1, 0.4])),
        copy_ratio=float(rng.choice([0.3, 1.0, 3.0])),
    )


def test_the_judge_accepts_what_the_kernel_plays():
    """Catches any move that the rules as the validator has them forbid, on programs that are
    awkward or real."""
    rng = np.random.default_rng(3)
    programs = [awkward_program(rng) for _ in range(300)]
    programs += [
        read_program(PROGRAMS / f"{name}.json.gz") for name in ("alexnet_train_batch_32", "lstm")
    ]
    for program in programs:
        for game in games(program, int(rng.integers(1000))):
            verdict = validate(program, as_mapping(program, game), exact=True)
            assert verdict.valid, str(verdict)
            assert verdict.costs["return"] == pytest.approx(game.value, abs=1e-12)


@functools.partial(jax.jit, static_argnames=("capacity", "steps"))
def play_env(programs: env.EnvProgram, key: jax.Array, place: jax.Array, capacity: int, steps: int):
    """Plays one random game per stacked program; returns per game and step the outcomes before the
    move, the action, and what is left at the end."""

    def one_game(program, key, place):
        def move(state, key):
            position = state.position
            key_action, key_place = jax.random.split(key)
            placing = position.legal.at[DROP].set(False)
            prefer = placing.any() & (jax.random.uniform(key_place) < place)
            legal = jax.numpy.where(prefer, placing, position.legal)
            action = jax.numpy.argmax(jax.random.uniform(key_action, (3,)) * legal)
            after, reward = env.step(program, state, action)
            names = ("cursor", "legal", "start", "end", "offset", "reward_s")
            seen = {name: getattr(position, name) for name in names}
            return after, seen | {
                "over": state.over,
                "resets": state.resets,
                "action": action,
                "reward": reward,
            }

        return jax.lax.scan(move, env.reset(program, capacity), jax.random.split(key, steps))

    return jax.vmap(one_game)(programs, jax.random.split(key, len(place)), place)


def compare_env(program: Program, seen: dict[str, np.ndarray], final: dict[str, np.ndarray]) -> int:
    """Replays a recorded game of the environment on the kernel, asserting equality at every step;
    returns the steps."""
    game = Game(program)
    outcomes, cursors, resets, rewards = [], [], [], []
    steps = int(np.argmax(seen["over"])) if seen["over"].any() else len(seen["over"])
    for action in seen["action"][:steps].tolist():
        outcomes.append(game.state.outcomes.copy())
        cursors.append(game.cursor)
        resets.append(game.resets)
        if not game.state.outcomes["legal"][action]:
            break
        rewards.append(kernel.step(game.program, game.state, action))
    expected = np.stack(outcomes)
    legal = expected["legal"] != 0
    count = len(rewards)
    assert count == steps, f"step {count} plays an action the kernel finds illegal"
    assert cursors == seen["cursor"][:steps].tolist()
    assert resets == seen["resets"][:steps].tolist()
    assert rewards == seen["reward"][:steps].tolist()
    np.testing.assert_array_equal(legal, seen["legal"][:steps])
    for name, neutral in (("start", -1), ("end", -1), ("offset", -1), ("reward_s", 0)):
        np.testing.assert_array_equal(
            np.where(legal, expected[name], neutral), seen[name][:steps], name
        )
    assert game.over == seen["over"].any() or steps == len(seen["over"])
    assert game.cursor == final["cursor"]
    assert float(game.state.game["saved_s"][0]) == final["saved_s"]
    assert game.state.supply_s.tolist() == final["supply_s"][: program.num_instructions].tolist()
    assert (
        game.state.moves["action"][: game.cursor].tolist()
        == final["action"][: game.cursor].tolist()
    )
    return steps


def test_env_equals_kernel_at_every_step():
    """Catches any difference between the JAX environment and the kernel, in a batch of different
    programs: legality, intervals, offsets, rewards, supplies, Drop-backup; and a capacity that
    fails without raising its flag."""
    rng = np.random.default_rng(11)
    batches = [
        [(awkward_program, synthetic)[i % 2](rng) for i in range(BATCH)] for _ in range(BATCHES)
    ]
    steps = resets = overflows = 0
    with env.exact():
        everything = stacked([program for batch in batches for program in batch])
        for i, batch in enumerate(batches):
            rows = slice(i * BATCH, (i + 1) * BATCH)
            programs = jax.tree.map(lambda leaf, rows=rows: leaf[rows], everything)
            place = rng.choice([0.3, 0.7, 0.95], size=BATCH)
            final, seen = jax.device_get(
                play_env(programs, jax.random.key(i), place, capacity=11, steps=SCAN)
            )
            overflows += int(final.overflow.sum())
            for j, program in enumerate(batch):
                if final.overflow[j]:
                    continue
                last = {
                    name: getattr(final.position, name)[j]
                    for name in ("cursor", "saved_s", "supply_s", "action")
                }
                steps += compare_env(
                    program, {name: values[j] for name, values in seen.items()}, last
                )
            resets += int(final.resets.sum())
    assert steps > 100_000 and resets > 100
    assert 0 < overflows < BATCH * BATCHES // 4, "the flag should be tried, and rarely"
