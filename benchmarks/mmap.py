"""How fast the game and the agent are: exact steps per second in random legal play with
Drop-backup, and how that grows with size; prices by size; decisions per second of the agent,
learning included."""

import math
import multiprocessing
import time

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.learning.loop import Log, train
from learned_mapping.mmap import env
from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
from learned_mapping.mmap.agent.config import config_for
from learned_mapping.mmap.bounds.prices import FIRST, prices_of
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.rules.state import program_arrays
from learned_mapping.programs.program import Program
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.datasets.registry import builder

CORES = 2
BARS = {300: 200_000, 3_000: 150_000, 10_000: 100_000, 30_000: None}
"""Buffers -> steps per second to reach on two cores."""
ENV_BAR = 30_000
"""Steps per second of the JAX environment at 300 buffers."""
PRICE_BARS = {
    "inference_gru": None, "efficientnet_train_batch_32": None, "fleet_transformer_46_layers": 0.1,
}  # fmt: skip
"""Program -> CPU seconds of one core in which it has its prices, the last of 16,377 buffers."""
AGENT_BARS = {
    "alexnet_train_batch_32": 5_000, "wavenet_coherent_batch32": 3_000, "AlphaTensor": 3_000,
    "tensor2tensor_transformer_bf16": 3_000,
}  # fmt: skip
"""Program -> decisions per CPU second of one core to reach from `WARM_SECONDS` on, self-play and
learning together."""
WARM_SECONDS, AGENT_SECONDS = 60.0, 20.0
ENV_SIZES = {300: 64, 3_000: 16, 9_000: 8}
"""Buffers -> games side by side in the JAX environment."""
MOST_MOVES = 300
"""Of a game there, so that a long program takes no longer; every move works on all of the program's
arrays."""


def scarce_program(num_buffers: int) -> Program:
    """A program of which 30 % fits at a time, whose copies take as long as the program, with long
    alias groups."""
    rng = np.random.default_rng(num_buffers)
    return builder("synthetic_programs").random_program(
        rng, num_buffers, alias_fraction=0.15, alias_chain=0.5, fast_fraction=0.3, copy_ratio=1.0
    )


def kernel_rate(num_buffers: int, seed: int, seconds: float = 1.0, repeats: int = 5) -> float:
    """Steps per CPU second of one process, the best of `repeats`; decisions taken back count, as
    they are made."""
    game, rng = Game(scarce_program(num_buffers)), np.random.default_rng(seed)

    def moves_of_a_game() -> int:
        game.restart()
        game.play_random(rng)
        return game.played().moves

    moves_of_a_game()
    best = 0.0
    for _ in range(repeats):
        start, moves = time.process_time(), 0
        while (used := time.process_time() - start) < seconds / repeats or moves == 0:
            moves += moves_of_a_game()
        best = max(best, moves / used)
    return best


def price_seconds(program: Program, repeats: int = 5) -> float:
    """CPU seconds of the prices of a program, the least of `repeats`."""
    arrays, spent = program_arrays(program), []
    for _ in range(1 + repeats):
        start = time.process_time()
        prices_of(arrays, FIRST, np.ones(3))
        spent.append(time.process_time() - start)
    return min(spent)


def random_action(key: jax.Array, state: env.EnvState) -> jax.Array:
    """A uniformly random legal action; 0 when the game is over."""
    return jnp.argmax(
        jnp.where(state.position.legal, jax.random.uniform(key, (3,), jnp.float32), -1.0)
    )


def env_rate(num_buffers: int, capacity: int, repeats: int = 5) -> float:
    """Steps per second of the JAX environment, compile apart, the best of `repeats`; 0 if a game
    was not exact."""
    moves = min(num_buffers, MOST_MOVES)
    with env.exact():
        program = env.env_program(scarce_program(num_buffers))

        def play(key: jax.Array) -> env.EnvState:
            def move(state: env.EnvState, key: jax.Array):
                return env.step(program, state, random_action(key, state))[0], None

            return jax.lax.scan(move, env.reset(program, capacity), jax.random.split(key, moves))[0]

        play_batch = jax.jit(jax.vmap(play))
        keys = jax.random.split(jax.random.key(0), ENV_SIZES[num_buffers])
        final = jax.block_until_ready(play_batch(keys))
        best = 0.0
        for _ in range(repeats):
            start = time.perf_counter()
            final = jax.block_until_ready(play_batch(keys))
            best = max(best, int(final.moves.sum()) / (time.perf_counter() - start))
        return 0.0 if bool(final.overflow.any()) else best


def agent_rates(name: str) -> tuple[float, float]:
    """Decisions per CPU second of a training on a compiled program: in its first `AGENT_SECONDS`,
    and in as many from `WARM_SECONDS` on."""
    program, _ = compiled.load(name)
    agent, rates = MMapAgent(program, config_for(program.num_buffers, evaluate_every=0), seed=0), []
    for seconds in (AGENT_SECONDS, WARM_SECONDS - AGENT_SECONDS, AGENT_SECONDS):
        before, budget = agent.decisions, AgentBudget(seconds=seconds, cpu=True)
        if rates:
            agent.budget = budget
        else:
            agent.start(budget)
        train(agent, budget.spent, log=Log(None))
        rates.append((agent.decisions - before) / budget.seconds)
    return rates[0], rates[-1]


def benchmark() -> list[dict]:
    """Rows of name, value, unit and bar: the kernel by size on two cores, its growth, the JAX
    environment."""
    rows, per_step = [], {}
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        for num_buffers, bar in BARS.items():
            rate = sum(
                pool.starmap(
                    kernel_rate, [(num_buffers, seed) for seed in range(CORES)], chunksize=1
                )
            )
            per_step[num_buffers] = CORES / rate
            name = f"game kernel, {num_buffers:,} buffers, {CORES} processes"
            rows.append({"name": name, "value": rate, "unit": "steps/s", "bar": bar})
    sizes = np.log(list(per_step))
    exponent = float(np.polyfit(sizes, [math.log(seconds) for seconds in per_step.values()], 1)[0])
    rows.append(
        {
            "name": "game kernel, CPU seconds per step ~ buffers^",
            "value": exponent,
            "unit": "",
            "bar": None,
        }
    )
    for name, bar in PRICE_BARS.items():
        program, _ = compiled.load(name)
        about = f"prices, {name}, {program.num_buffers:,} buffers"
        rows.append({"name": about, "value": price_seconds(program), "unit": "s", "bar": bar})
    for size, games in ENV_SIZES.items():
        capacity = env.capacity_for(scarce_program(size))
        name = f"JAX environment, {size:,} buffers, {games} games, {capacity} slots"
        bar = ENV_BAR if size == min(ENV_SIZES) else None
        rows.append(
            {"name": name, "value": env_rate(size, capacity), "unit": "steps/s", "bar": bar}
        )
    for name, bar in AGENT_BARS.items():
        windows = (f"first {AGENT_SECONDS:.0f} s", None), (f"from {WARM_SECONDS:.0f} s on", bar)
        for rate, (when, least) in zip(agent_rates(name), windows):
            about = f"the agent, learning, {name}, {when}"
            rows.append({"name": about, "value": rate, "unit": "decisions/s", "bar": least})
    return rows
