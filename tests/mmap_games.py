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
from learned_mapping.programs.program import Program, make_program
from learned_mapping_companion.datasets.manifest import Item, Manifest

SMALL = AgentConfig(
    games=16,
    moves=16,
    cold_games=4,
    simulations=4,
    width=32,
    batch=64,
    updates=8,
    unroll=2,
    learning_rate=3e-3,
    replay=4000,
    evaluate_every=0,
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


def dead_end_program(seed: int) -> Program:
    """Nearly all buffers in alias groups, and little memory: seeds 2, 3 and 24 meet dead ends in
    random play."""
    sizes = {"alias_fraction": 0.9, "parameter_fraction": 0.3, "fast_fraction": 0.1}
    return random_program(
        np.random.default_rng(seed), 120, **sizes, copy_ratio=0.5, compute_bound=0.5
    )


def awkward_program(rng: np.random.Generator) -> Program:
    """A small valid program with what real ones rarely have: alias groups over unrelated buffers of
    equal size, empty tensors, tensors larger than the fast memory, idle steps, several outputs,
    unused outputs, buffers not varied, latencies that are not monotone."""
    num_steps = int(rng.integers(3, 25))
    sizes, is_parameter = [], []
    for _ in range(int(rng.integers(1, 5))):
        sizes.append(int(rng.choice([0, 4, 4, 8, 8, 12, 40])))
        is_parameter.append(True)
    buffers, offsets, tables = [], [0], []
    for t in range(num_steps):
        readable = len(sizes)
        reads = rng.choice(readable, size=min(readable, int(rng.integers(0, 4))), replace=False)
        writes = range(readable, readable + int(rng.integers(0, 3)))
        for _ in writes:
            sizes.append(int(rng.choice([0, 4, 4, 8, 8, 12, 40])))
            is_parameter.append(False)
        here = [(t, int(n), False) for n in reads] + [(t, n, True) for n in writes]
        varied = rng.permutation(len(here))[: int(rng.integers(0, 4))]
        bits = {int(j): bit for bit, j in enumerate(varied)}
        buffers += [(*buffer, bits.get(j, -1)) for j, buffer in enumerate(here)]
        table = rng.choice([0.0, 0.5, 1.0, 2.0], size=1 << len(bits)) + rng.random(1 << len(bits))
        table[-1] = rng.choice([0.0, 0.25, 1.0, 1.0, 3.0])
        tables += table.tolist()
        offsets.append(len(tables))
    alias = np.full(len(buffers), -1)
    free = rng.random(len(buffers)) < rng.choice([0.0, 0.3, 0.8])
    for group in range(int(rng.integers(1, 6))):
        size = int(rng.choice([0, 4, 8, 12]))
        members = [
            b
            for b in range(len(buffers))
            if free[b] and alias[b] < 0 and sizes[buffers[b][1]] == size
        ]
        first = int(rng.integers(0, max(len(members), 1)))
        alias[members[first : first + int(rng.integers(1, 6))]] = group
    instructions, tensors, is_output, bits = zip(*buffers) if buffers else ((), (), (), ())
    return make_program(
        name="awkward",
        fast_bytes=int(rng.choice([12, 20, 32])),
        copy_bytes_per_s=float(rng.choice([4.0, 3.0, 16.0])),
        instruction_names=[f"i{t}" for t in range(num_steps)],
        instruction_kinds=["fusion"] * num_steps,
        tensor_names=[f"t{n}" for n in range(len(sizes))],
        tensor_bytes=sizes,
        tensor_is_parameter=is_parameter,
        tensor_is_output=[not p and rng.random() < 0.2 for p in is_parameter],
        buffer_instruction=instructions,
        buffer_tensor=tensors,
        buffer_is_output=is_output,
        buffer_alias=alias,
        buffer_bit=bits,
        latency_offsets=offsets,
        latency_s=tables,
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
    return env.padded([env.env_program(program) for program in programs])


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
