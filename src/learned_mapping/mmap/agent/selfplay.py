"""Self-play: whole games that go on from one iteration to the next, and windows of the best game.

**Whole games** are the agent's own from the first buffer to the last. A chunk of one is learned from before the game
ends; the search's value stands for the rest.

**Windows** begin at a decision of the best game and end like it, so that what `moves` decisions are worth is known a
moment later. Some begin and end like the agent's own last cold game: they teach it where it goes wrong.

Rewards and values are in units and relative to the *return to go* expected at a buffer: that of the game a window
follows, the best game's for whole games beside windows, else a running mean over whole games. This is a potential
(Ng et al. 1999), so the best game stays the best.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.agent.replay import Replay, decisions_left, lambda_returns
from learned_mapping.mmap.agent.search import Decisions
from learned_mapping.mmap.rules.actions import NEAREST

Decide = Callable[[Games, np.ndarray], Decisions]
"""(positions, temperatures [G]) -> decisions."""
WINDOW_TEMPERATURES = (1.0, 0.5, 0.25)
COLD = 0.1
"""The temperature of a window after its hot moves."""
EQUAL_SHARE = 0.4
"""Of the windows with hot moves, how many shall end like the best game."""
TOLERANCE = 1e-12
"""Returns that differ by less are equal."""


class WholeGame(NamedTuple):
    """A finished game of the agent alone."""

    value: float  # Its return.
    cold: bool
    resets: int  # Dead ends met.
    actions: np.ndarray  # [B].
    saved_before: np.ndarray  # [B + 1] returns so far.


class WindowResult(NamedTuple):
    """What a window came to."""

    value: float  # The return of the best game with the window's decisions in it.
    start: int
    stop: int  # Buffers [start, stop) were decided in the window.
    actions: np.ndarray  # [stop - start].


class Chunk(NamedTuple):
    """What an iteration of self-play has brought."""

    columns: dict[str, np.ndarray]  # Fields of `replay.FIELDS`.
    whole: list[WholeGame]
    windows: list[WindowResult]  # Those better than the best game, best first.
    equal: float  # Share of the windows that end like the best game; 0 without windows.
    entropy: float  # Mean of the policy targets, nats.
    value_error: float  # Mean |network's value - target|, as a share of the possible saving.


Played = tuple[dict[str, np.ndarray], list[WholeGame]]
"""What M moves of G games were, [M, G, ...] by name, and the games that they finished."""


class SelfPlay:
    """The games in progress.

    Args:
      games: to play on; those from ``games - windows`` on are windows.
      best: the best game so far; its decisions are the unit.
    """

    def __init__(self, games: Games, config: AgentConfig, best: Guide):
        self.games, self.config, self.best = games, config, best
        self.own: Guide | None = None
        """The last cold whole game, once there is one that windows begin at."""
        self.unit = max(float(len(best.decisions)), 1.0)
        self.whole = config.games - config.windows
        self._first_own = config.games - config.own_windows
        self.partial = np.zeros(self.whole, bool)
        """[whole]: the game did not begin at the first buffer, and does not count."""
        self.hot_moves = max(config.moves // 4, 1)
        """Of windows with hot and cold moves, at most."""
        self.to_go = np.zeros(games.program.num_buffers + 1)
        """[B + 1] the expected return to go before each buffer, 0 at the end."""

    def stagger(self) -> None:
        """Spreads the whole games over the best one, so that they do not all end in the same iteration."""
        games, spread = np.arange(self.whole), np.arange(self.whole) * len(self.best.decisions) // max(self.whole, 1)
        self.games.start_at(self.best, games, self.best.decisions[spread])
        self.games.observe()
        self.partial = games > 0

    def expected(self) -> np.ndarray:
        """[G] the return expected of each game, in units: the potential. A window's is that of the game it follows."""
        cursor = self.games.cursor
        to_go = self.to_go[cursor]
        if self.own is not None:
            own = cursor[self._first_own :]
            to_go[self._first_own :] = self.own.saved[-1] - self.own.saved[own]
        return self.unit * (self.games.saved + to_go)

    def play(self, decide: Decide, rng: np.random.Generator, stop: Callable[[], bool]) -> Chunk | None:
        """`moves` decisions of every game; None where `stop` cut them short."""
        games, config, whole = self.games, self.config, self.whole
        first = self._first_own if self.own is not None else config.games
        windows = [(self.best, np.arange(whole, first)), (self.own, np.arange(first, config.games))]
        starts = np.zeros(config.games, np.int64)
        for guide, at in windows:
            if len(at):
                starts[at] = rng.choice(guide.decisions, len(at))
                games.start_at(guide, at, starts[at])
        games.observe()
        temperatures, mixed = self._temperatures(rng)
        steps = self._steps(decide, temperatures, stop)
        if steps is None:
            return None
        played, finished = steps
        bootstrap = np.zeros(config.games)
        if whole:
            bootstrap[:whole] = decide(games, temperatures[-1]).value[:whole]
        stops, expected = games.cursor.copy(), self.expected()
        results, same = [], []
        for guide, at in windows:
            if len(at):
                values = games.end_like(guide, at, config.quiet)
                bootstrap[at] = self.unit * values - expected[at]
                gain = values - guide.saved[-1]
                same.append(np.abs(gain) <= TOLERANCE)
                if guide is self.best:
                    results = self._better(at, values, gain, starts, stops)
        equal = self._adapt(np.concatenate(same), mixed) if same else 0.0
        return self._chunk(played, bootstrap, finished, results, equal)

    def _steps(self, decide: Decide, temperatures: np.ndarray, stop: Callable[[], bool]) -> Played | None:
        games, whole = self.games, self.whole
        rows: dict[str, list[np.ndarray]] = {}
        finished: list[WholeGame] = []
        for temperature in temperatures:
            if stop():
                return None
            active, before = ~games.over, self.expected()
            found = decide(games, temperature)
            actions = np.where(active, found.action, -1)
            seen = {"vector": games.vector.astype(np.float16), "ids": games.ids.copy(), "legal": games.legal.copy()}
            games.step(actions)
            ended = active & games.over
            record = {
                **seen, "action": actions, "policy": found.policy, "reward": self.expected() - before,
                "value": found.value, "network_value": found.network_value, "ended": ended, "active": active,
            }  # fmt: skip
            for name, value in record.items():
                rows.setdefault(name, []).append(np.asarray(value))
            over = np.flatnonzero(ended[:whole])
            if len(over):
                finished += [self._whole_game(int(g)) for g in over if not self.partial[g]]
                self.partial[over] = False
                games.restart(over)
                games.observe()
        return {name: np.stack(values) for name, values in rows.items()}, finished

    def _temperatures(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """[moves, G] temperatures, and [windows] bool: hot moves first, then cold ones; the others keep one."""
        config = self.config
        column = np.ones(self.whole)
        column[self.whole - config.cold_games :] = config.cold_temperature
        mixed = np.arange(config.windows) % 2 == 0
        single = rng.choice(WINDOW_TEMPERATURES, config.windows)
        hot = rng.integers(1, self.hot_moves + 1, config.windows)
        moves = np.arange(config.moves)[:, None]
        windows = np.where(mixed, np.where(moves < hot, 1.0, COLD), single)
        return np.concatenate([np.tile(column, (config.moves, 1)), windows], axis=1).astype(np.float32), mixed

    def _whole_game(self, g: int) -> WholeGame:
        """A game in progress that has just ended."""
        games, cold = self.games, g >= self.whole - self.config.cold_games
        return WholeGame(float(games.saved[g]), cold, int(games.resets[g]), games.played(g), games.saved_before(g))

    def _better(self, at, values, gain, starts, stops) -> list[WindowResult]:
        """The windows that gain, best first."""
        results = []
        for i in np.argsort(-gain, kind="stable"):
            if gain[i] <= TOLERANCE:
                break
            g = int(at[i])
            start, stop = int(starts[g]), int(stops[g])
            results.append(WindowResult(float(values[i]), start, stop, self.games.played(g)[start:stop]))
        return results

    def _adapt(self, same: np.ndarray, mixed: np.ndarray) -> float:
        """Lengthens the hot part of the windows where many end the same, else shortens it; returns how many do."""
        step = 1 if same[mixed].mean() > EQUAL_SHARE else -1
        self.hot_moves = int(np.clip(self.hot_moves + step, 1, self.config.moves))
        return float(same.mean())

    def _chunk(self, played, bootstrap, finished, results, equal) -> Chunk:
        config, active, ended = self.config, played["active"], played["ended"]
        target = lambda_returns(
            played["reward"], played["value"], ended, active, bootstrap, config.discount, config.trace
        )
        left = np.minimum(decisions_left(ended, active), np.iinfo(np.int16).max)
        named = {"target": target, "left": left}
        kept = active.T.reshape(-1)
        columns = {
            name: np.swapaxes(value, 0, 1).reshape(-1, *value.shape[2:])[kept]
            for name, value in (played | named).items()
            if name not in ("value", "network_value", "ended", "active")
        }
        policy = columns["policy"]
        entropy = -np.sum(policy * np.log(policy + 1e-20), axis=-1)
        error = np.abs(played["network_value"] - target)[active]
        return Chunk(columns, finished, results, equal, float(entropy.mean()), float(error.mean()) / self.unit)


def record_game(games: Games, actions: np.ndarray, to_go: np.ndarray, unit: float, confidence: float) -> Replay:
    """A finished game as a demonstration: its actions are the policy targets, the exact return to go the values.

    Args:
      games: one game to play it on.
      actions: [B].
      to_go, unit: as in `SelfPlay`.
      confidence: the policy target of the action; the other legal ones share the rest.
    """
    rows: dict[str, list] = {name: [] for name in ("vector", "ids", "legal", "action", "expected")}
    games.restart([0])
    games.observe()
    while not games.over[0]:
        legal = games.legal[0]
        action = next(a for a in NEAREST[actions[games.cursor[0]]] if legal[a])
        seen = (games.vector[0].copy(), games.ids[0].copy(), legal.copy(), action)
        expected = unit * (games.saved[0] + to_go[games.cursor[0]])
        for name, value in zip(rows, (*seen, expected)):
            rows[name].append(value)
        games.step(np.array([action]))
    columns = {name: np.array(values) for name, values in rows.items()}
    expected = np.append(columns.pop("expected"), unit * games.saved[0])
    count = len(columns["action"])
    others = np.maximum(columns["legal"].sum(axis=1) - 1, 1)
    policy = columns["legal"] * ((1.0 - confidence) / others)[:, None]
    policy[np.arange(count), columns["action"]] = confidence
    columns |= {
        "policy": policy,
        "reward": np.diff(expected),
        "target": expected[-1] - expected[:-1],
        "left": np.minimum(np.arange(count)[::-1], np.iinfo(np.int16).max),
    }
    replay = Replay(max(count, 1))
    replay.add(columns)
    return replay
