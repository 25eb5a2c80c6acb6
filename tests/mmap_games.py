"""Programs and finished games that several tests share."""

from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from learned_mapping_builders.building import write_manifest
from learned_mapping_builders.synthetic_programs import random_program

from learned_mapping.mmap import env
from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.mapping import Mapping, make_mapping, write_mapping
from learned_mapping.mmap.rules.play import Game, PlayedGame
from learned_mapping.programs.formats import write_program
from learned_mapping.programs.program import Program
from learned_mapping_companion.datasets.manifest import Item, Manifest

SMALL = AgentConfig(
    games=16,
    moves=16,
    cold_games=4,
    simulations=4,
    width=32,
    latent=16,
    id_width=4,
    batch=64,
    updates=8,
    unroll=2,
    learning_rate=3e-3,
    average=0.5,
    replay=4000,
    evaluate_every=0,
    evaluation_games=16,
)
"""An agent that trains in seconds."""


def hard_program(seed: int, num_buffers: int | None = None) -> Program:
    """A synthetic program with alias groups, tight memory and a slow copy engine, all drawn from
    the seed."""
    rng = np.random.default_rng(seed)
    return random_program(
        rng,
        int(rng.integers(10, 80)) if num_buffers is None else num_buffers,
        alias_fraction=rng.uniform(0.0, 0.5),
        parameter_fraction=rng.uniform(0.0, 0.7),
        fast_fraction=rng.uniform(0.1, 1.0),
        copy_ratio=rng.uniform(0.1, 3.0),
        compute_bound=0.5,
    )


def played(program: Program, play: Callable, *arguments) -> PlayedGame:
    """A game from the start, by a method of `Game`."""
    game = Game(program)
    play(game, *arguments)
    return game.played()


def random_returns(program: Program, count: int) -> np.ndarray:
    """[count] returns of random games."""
    rng = np.random.default_rng(0)
    return np.array([played(program, Game.play_random, rng).value for _ in range(count)])


def random_action(key: jax.Array, state: env.EnvState) -> jax.Array:
    """A uniformly random legal action; 0 when the game is over."""
    return jnp.argmax(
        jnp.where(state.position.legal, jax.random.uniform(key, (3,), jnp.float32), -1.0)
    )


def as_mapping(program: Program, game: PlayedGame) -> Mapping:
    return make_mapping(program, game.action, game.offset, game.start, game.end)


def games(program: Program, seed: int) -> list[PlayedGame]:
    """A random game, and two that place much, one of them without NoCopy of outputs."""
    rng = np.random.default_rng(seed)
    preferences = rng.standard_normal((program.num_buffers, 3)) + np.array([1.0, 1.0, 0.0])
    copying = preferences.copy()
    copying[program.buffer_is_output, 1] -= 3.0
    by_preference = [
        played(program, Game.play_preferences, item) for item in (preferences, copying)
    ]
    return [played(program, Game.play_random, rng), *by_preference]


def stacked(programs: Sequence[Program]) -> env.EnvProgram:
    """Programs padded to one shape, along a leading axis; inside `env.exact`."""

    def pad(name: str, leaves: list[np.ndarray]) -> jax.Array:
        shape = np.max([leaf.shape for leaf in leaves], axis=0)
        padded = np.full((len(leaves), *shape), -1 if name == "updated" else 0, leaves[0].dtype)
        for i, leaf in enumerate(leaves):
            padded[(i, *map(slice, leaf.shape))] = leaf
        return jnp.asarray(padded)

    columns = zip(*(jax.device_get(env.env_program(program)) for program in programs))
    return env.EnvProgram(
        *(pad(name, list(leaves)) for name, leaves in zip(env.EnvProgram._fields, columns))
    )


def store_compiled(folder: Path, found: dict[str, tuple[Program, Mapping]]) -> None:
    """Writes programs and mappings as the set ``compiled``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (program, mapping) in found.items():
        write_program(folder / f"{name}.json.gz", program)
        write_mapping(folder / f"{name}.mapping.json.gz", mapping, program)
    items = [
        Item(name, item.digest, facts={"buffers": item.num_buffers})
        for name, (item, _) in found.items()
    ]
    write_manifest(
        folder / "manifest.json", Manifest("compiled", "Small ones.", None, tuple(items))
    )
