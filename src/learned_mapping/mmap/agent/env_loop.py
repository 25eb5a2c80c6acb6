"""Self-play on the JAX environment in one compiled loop: observe, search, step and begin anew, without Python between.

The same code runs on CPU and accelerator. What it plays is what `EnvGames` plays decision by decision: the same seeds,
the same searches in the same order. How many moves a call makes is an argument, so that compiling plays nothing, and a
clock can be asked between calls that take long.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.mmap import env
from learned_mapping.mmap.agent import env_games
from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.env_games import EnvGames
from learned_mapping.mmap.agent.network import Networks, Parameters
from learned_mapping.mmap.agent.search import make_decide

CALL_S = 1.0
"""A call of the loop shall take about as long, so that a limit in seconds is kept."""


class Moves(NamedTuple):
    """M decisions of each of G games, [M, G, ...]; positions are those before the decision unless said otherwise."""

    vector: np.ndarray  # [M, G, WIDTH] float16.
    ids: np.ndarray  # [M, G, 3].
    legal: np.ndarray  # [M, G, 3].
    cursor: np.ndarray  # [M, G].
    saved_s: np.ndarray  # [M, G].
    action: np.ndarray  # [M, G], -1 where the game is over.
    policy: np.ndarray  # [M, G, 3], this and the next two as in `search.Decisions`.
    value: np.ndarray  # [M, G].
    network_value: np.ndarray  # [M, G].
    cursor_after: np.ndarray  # [M, G], before the game begins anew, as the next three.
    saved_after_s: np.ndarray  # [M, G].
    resets: np.ndarray  # [M, G] dead ends met.
    played: jax.Array  # [M, G, B] int8: the actions; left on the device.


class Loop:
    """`search.make_decide` in a loop: compiled for a program's shape, a number of games and one of moves."""

    def __init__(self, networks: Networks, config: AgentConfig):
        self._decide = make_decide(networks, config)
        self._run = jax.jit(self._moves, donate_argnames="rows")

    def _move(self, parameters, program, tables, fresh, states, seed, count, temperature):
        """The states after a decision of every game, and the row of `Moves`; games that end begin anew."""
        vector, ids, legal, cursor, saved_s, *_ = env_games.look(program, tables, states)
        with jax.enable_x64(False):
            found = self._decide(parameters, vector, ids, legal, seed, count, temperature)
        over = cursor == program.num_buffers
        action = jnp.where(over, -1, found.action)
        after = jax.vmap(env_games.decide, in_axes=(None, 0, 0))(program, states, action)
        position = after.position
        row = Moves(
            vector.astype(jnp.float16), ids, legal, cursor, saved_s, action, found.policy, found.value,
            found.network_value, position.cursor, position.saved_s, after.resets, position.action,
        )  # fmt: skip
        ended = ~over & (position.cursor == program.num_buffers)
        return env_games.chosen(ended, fresh, after), row

    def _moves(self, fixed, states, rows: Moves, first, end, count, temperatures):
        """Moves first to end - 1; `count` is that of move 0."""

        def body(m, carry):
            states, rows = carry
            states, row = self._move(*fixed[:-1], states, fixed[-1], count + m, temperatures[m])
            return states, jax.tree.map(lambda store, value: store.at[m].set(value), rows, row)

        return jax.lax.fori_loop(first, end, body, (states, rows))

    def __call__(
        self, games: EnvGames, parameters: Parameters, seed: int, count: int, temperatures: np.ndarray,
        stop: Callable[[], bool],
    ) -> Moves | None:  # fmt: skip
        """Moves all games on, a decision per row of temperatures [M, G]; None, and they stand, where `stop` says so.

        Args:
          seed, count: int32, of the first search, as in `search.make_decide`; count grows by one per decision.
        """
        with env.exact():
            program, tables, states = games.played_on
            fixed = (parameters, program, tables, games.fresh, np.int32(seed))
            rows = self._rows(fixed, states, temperatures)
            first, size = 0, 1
            while first < len(temperatures):
                if stop():
                    return None
                since, end = time.perf_counter(), min(first + size, len(temperatures))
                states, rows = self._called(fixed, states, rows, first, end, count, temperatures)
                jax.block_until_ready(states)
                size = 2 * size if time.perf_counter() - since < CALL_S / 2 else max(size // 2, 1)
                first = end
        games.go_on(states)
        return Moves(*(part if name == "played" else np.asarray(part) for name, part in rows._asdict().items()))

    def compile(self, games: EnvGames, parameters: Parameters, temperatures: np.ndarray) -> None:
        """Compiles for these shapes, without a move."""
        with env.exact():
            program, tables, states = games.played_on
            fixed = (parameters, program, tables, games.fresh, np.int32(0))
            rows = self._rows(fixed, states, temperatures)
            jax.block_until_ready(self._called(fixed, states, rows, 0, 0, 0, temperatures))

    def _called(self, fixed, states, rows, first: int, end: int, count: int, temperatures):
        return self._run(fixed, states, rows, *map(np.int32, (first, end, count)), temperatures)

    def _rows(self, fixed: tuple[Any, ...], states: env.EnvState, temperatures: np.ndarray) -> Moves:
        shapes = jax.eval_shape(self._move, *fixed[:-1], states, fixed[-1], np.int32(0), temperatures[0])[1]
        return jax.tree.map(lambda leaf: jnp.zeros((len(temperatures), *leaf.shape), leaf.dtype), shapes)
