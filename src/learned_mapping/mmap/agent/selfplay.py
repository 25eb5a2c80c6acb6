"""Self-play: whole games that go on from one iteration to the next, and windows of the best game.

**Whole games** are the agent's own from the first buffer to the last. A chunk of one is learned
from before the game ends; the search's value stands for the rest. Beside windows they move faster,
so that few updates lie between the first decision of a game and its last.

**Windows** begin at a decision of the best game and end like it, so that what `moves` decisions are
worth is known a moment later. Some begin and end like the agent's own last cold game: they teach it
where it goes wrong.

Rewards and values are in units and relative to the *return to go* expected at a buffer: that of the
game a window follows, the best game's for whole games beside windows, else a running mean over
whole games. This is a potential (Ng et al. 1999), with which the best game stays the best where
nothing is discounted; a discount bends that a little.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.games import TOLERANCE, Best, Games, Guide
from learned_mapping.mmap.agent.priced_view import PricedView
from learned_mapping.mmap.agent.replay import Replay, decisions_left, lambda_returns
from learned_mapping.mmap.agent.search import Decisions
from learned_mapping.mmap.rules.actions import NEAREST
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program

Decide = Callable[[Games, np.ndarray], Decisions]
"""(positions, temperatures [G]) -> decisions."""
WINDOW_TEMPERATURES = (1.0, 0.5, 0.25)
COLD = 0.1
"""The temperature of a window after its hot moves."""
EQUAL_SHARE = 0.4
"""The share of the windows with hot moves that shall end like the best game."""
QUIET = 1000
"""Buffers without a change after which a window has ended, see `Games.end_like`."""
MEMORY = 200.0
"""Games over which the running mean of the return to go forgets."""
EVALUATION_GAMES, ARGMAX = 4, 0.01
"""Whole games that measure the agent alone, and their temperature."""
PACE = 20
"""Iterations that a whole game beside windows takes, where `AgentConfig.moves` would take more."""
TRACE = 0.95
"""lambda of TD(lambda)."""


class WholeGame(NamedTuple):
    """A finished game of the agent alone."""

    value: float  # Its return.
    cold: bool
    resets: int  # Dead ends met.
    actions: np.ndarray  # [B].
    saved_before: np.ndarray  # [B + 1] returns so far.


class WindowResult(NamedTuple):
    """The decisions of a window with which the best game returns more."""

    start: int
    stop: int  # Buffers [start, stop) were decided in the window.
    actions: np.ndarray  # [stop - start].


class Chunk(NamedTuple):
    """The yield of an iteration of self-play."""

    # Fields of `replay.FIELDS`; and ``own``, whether it is a position of the agent's own games.
    columns: dict[str, np.ndarray]
    whole: list[WholeGame]
    windows: list[WindowResult]  # Those better than the best game, best first.
    equal: float  # Share of the windows that end like the best game; 0 without windows.
    entropy: float  # Mean of the policy targets, nats.
    value_error: float  # Mean |network's value - target|, as a share of the possible saving.


class Played(NamedTuple):
    """The record of M moves of G games."""

    rows: dict[str, np.ndarray]  # [M, G, ...] by name.
    bootstrap: np.ndarray  # [G] values of what follows the last move.


class SelfPlay:
    """The games of a round of one program, in progress; `offer` a game and `begin` before they
    go on."""

    def __init__(self, program: Program, config: AgentConfig):
        make = functools.partial(Games, backup=config.backup)
        self.config = config
        self.games, self.evaluation = (
            make(program, config.whole_games),
            make(program, EVALUATION_GAMES),
        )
        """Whole games: those learned from, and those to measure by."""
        self.windows = make(program, config.windows) if config.windows else None
        self.single, self.best = Games(program, 1), Best(program)
        """A game to try things on, and the best game so far."""
        self.own_guide: Guide | None = None
        """The last cold whole game, once there is one that windows begin at."""
        self.unit = 1.0
        """Decisions of the best game at the start."""
        self.partial = np.zeros(config.whole_games, bool)
        """[whole games]: the game did not begin at the first buffer, and does not count."""
        self.hot_moves = max(config.moves // 4, 1)
        """The most hot moves of windows that have cold ones too."""
        self.to_go = np.zeros(program.num_buffers + 1)
        """[B + 1] the expected return to go before each buffer, 0 at the end."""

    def compile(self, decide: Decide) -> None:
        """Runs what is compiled once, decisions too."""
        for games in filter(None, (self.games, self.windows, self.evaluation)):
            decide(games, np.ones(len(games), np.float32))
            games.step(np.full(len(games), -1))
        self.single.start_at(self.best, np.zeros(1, np.int64), np.zeros(1, np.int64))
        self.single.end_like(self.best, np.zeros(1, np.int64), 0)
        self.single.restart([0])
        Game(self.single.program).play_random(np.random.default_rng(0))

    def see(self, prices: PricedView) -> None:
        """All games see these prices from now on."""
        for games in filter(None, (self.games, self.evaluation, self.single, self.windows)):
            games.prices = prices

    def offer(self, actions: np.ndarray, value: float) -> bool:
        """Takes a game by its actions [B] for the best one where it is; beside windows games shall
        then get what it got. Returns whether it is."""
        better = self.best.offer(actions, value)
        if better and self.windows is not None:
            self.to_go = self.best.to_go
        return better

    def follow_own(self, actions: np.ndarray) -> None:
        """Takes a game of the agent by its actions [B] as one that windows may begin at."""
        if self.windows is not None:
            self.own_guide = self.own_guide or Guide(self.single.program)
            self.own_guide.follow(actions)

    def expect(self, finished: Sequence[WholeGame]) -> None:
        """Moves the running mean of the return to go towards whole games; windows have the best
        game's."""
        if finished and self.windows is None and self.config.potential:
            mean = np.mean([game.value - game.saved_before for game in finished], axis=0)
            kept = (1.0 - 1.0 / MEMORY) ** len(finished)
            self.to_go = kept * self.to_go + (1.0 - kept) * mean

    def demonstration(self, actions: np.ndarray, confidence: float) -> Replay:
        """A game by its actions [B]: the policy targets are these, by `confidence`, of which the
        other legal ones share the rest; the values are the exact return to go."""
        games = self.single
        rows: dict[str, list[Any]] = {
            name: [] for name in ("vector", "ids", "legal", "action", "expected")
        }
        games.restart([0])
        games.observe()
        while not games.over[0]:
            legal = games.legal[0]
            action = next(a for a in NEAREST[actions[games.cursor[0]]] if legal[a])
            seen = (games.vector[0].copy(), games.ids[0].copy(), legal.copy(), action)
            expected = self.unit * (games.saved[0] + self.to_go[games.cursor[0]])
            for name, value in zip(rows, (*seen, expected)):
                rows[name].append(value)
            games.step(np.array([action]))
        columns = {name: np.array(values) for name, values in rows.items()}
        expected = np.append(columns.pop("expected"), self.unit * games.saved[0])
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

    def evaluate(self, decide: Decide) -> float:
        """The mean return of whole games by the most probable actions."""
        play_out(self.evaluation, decide, ARGMAX)
        return float(self.evaluation.saved.mean())

    def begin(self, to_go: np.ndarray) -> None:
        """Sets out from the best game with returns to go [B + 1]. Beside windows whole games begin
        at places all over the best one, so that they do not all end in the same iteration."""
        self.unit = max(float(len(self.best.decisions)), 1.0)
        if self.config.potential:
            self.to_go = to_go
        if self.windows is not None:
            games = np.arange(len(self.games))
            self.games.start_at(
                self.best,
                games,
                self.best.decisions[games * len(self.best.decisions) // len(games)],
            )
            self.games.observe()
            self.partial = games > 0

    def expected(self) -> np.ndarray:
        """[whole games] the return expected of each, in units: the potential."""
        return self.unit * (self.games.saved + self.to_go[self.games.cursor])

    def play(
        self, decide: Decide, rng: np.random.Generator, stop: Callable[[], bool]
    ) -> Chunk | None:
        """Some decisions of every game; None where `stop` cut them short."""
        finished: list[WholeGame] = []
        whole = self._play_whole(decide, stop, finished)
        if whole is None:
            return None
        if self.windows is None:
            return self._chunk([whole], finished, [], 0.0)
        windows = self._play_windows(self.windows, decide, rng, stop)
        return None if windows is None else self._chunk([whole, windows[0]], finished, *windows[1:])

    def _play_whole(
        self, decide: Decide, stop: Callable[[], bool], finished: list[WholeGame]
    ) -> Played | None:
        games, config = self.games, self.config
        temperature = np.ones(len(games), np.float32)
        temperature[len(games) - config.cold_games :] = config.cold_temperature

        def end(ended: np.ndarray) -> None:
            over = np.flatnonzero(ended)
            if len(over):
                finished.extend(self._whole_game(int(g)) for g in over if not self.partial[g])
                self.partial[over] = False
                games.restart(over)
                games.observe()

        moves = config.moves
        if self.windows is not None:
            moves = max(moves, -(-len(self.best.decisions) // PACE))
        rows = self._steps(
            games, self.expected, decide, np.tile(temperature, (moves, 1)), stop, end
        )
        return (
            None if rows is None else Played(rows, decide(games, temperature).value.astype(float))
        )

    def _play_windows(
        self, games: Games, decide, rng, stop
    ) -> tuple[Played, list[WindowResult], float] | None:
        """Windows of the best game and of the agent's own, those better than the best game, and the
        share of those that end like the game they follow."""
        own = self.own_guide or self.best
        first = len(games) if own is self.best else len(games) - self.config.own_windows
        sides = [(self.best, np.arange(first)), (own, np.arange(first, len(games)))]
        sides = [(guide, at) for guide, at in sides if len(at)]
        starts = np.concatenate([rng.choice(guide.decisions, len(at)) for guide, at in sides])
        for guide, at in sides:
            games.start_at(guide, at, starts[at])
        games.observe()

        def expected() -> np.ndarray:
            to_go = [guide.to_go[games.cursor[at]] for guide, at in sides]
            return self.unit * (games.saved + np.concatenate(to_go))

        temperatures, mixed = self._temperatures(rng)
        rows = self._steps(games, expected, decide, temperatures, stop)
        if rows is None:
            return None
        stops, before = games.cursor.copy(), expected()
        values = np.concatenate([games.end_like(guide, at, QUIET) for guide, at in sides])
        gain = values - np.concatenate([np.full(len(at), guide.saved[-1]) for guide, at in sides])
        better = [
            WindowResult(
                int(starts[g]),
                int(stops[g]),
                games.played(g)[starts[g] : stops[g]],
            )
            for g in np.argsort(-gain[:first], kind="stable")
            if gain[g] > TOLERANCE
        ]
        equal = self._adapt(np.abs(gain) <= TOLERANCE, mixed)
        return Played(rows, self.unit * values - before), better, equal

    def _steps(
        self,
        games: Games,
        expected,
        decide: Decide,
        temperatures: np.ndarray,
        stop,
        end=lambda ended: None,
    ):
        """A move of all games at each of the temperatures [M, G], and `end` with those that ended
        [G] by it; what the moves were, or None where `stop` cut them short."""
        rows: dict[str, list[np.ndarray]] = {}
        for temperature in temperatures:
            if stop():
                return None
            active, before = ~games.over, expected()
            decisions = decide(games, temperature)
            actions = np.where(active, decisions.action, -1)
            seen = {
                "vector": games.vector.astype(np.float16),
                "ids": games.ids.copy(),
                "legal": games.legal.copy(),
            }
            games.step(actions)
            ended = active & games.over
            record = {
                **seen,
                "action": actions,
                "policy": decisions.policy,
                "reward": expected() - before,
                "value": decisions.value,
                "network_value": decisions.network_value,
                "ended": ended,
                "active": active,
            }
            for name, value in record.items():
                rows.setdefault(name, []).append(np.asarray(value))
            end(ended)
        return {name: np.stack(values) for name, values in rows.items()}

    def _temperatures(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """[moves, windows] temperatures, and [windows] bool: hot moves first, then cold ones; the
        others keep one."""
        config = self.config
        mixed = np.arange(config.windows) % 2 == 0
        single = rng.choice(WINDOW_TEMPERATURES, config.windows)
        hot = rng.integers(1, self.hot_moves + 1, config.windows)
        moves = np.arange(config.moves)[:, None]
        return np.where(mixed, np.where(moves < hot, 1.0, COLD), single).astype(np.float32), mixed

    def _whole_game(self, g: int) -> WholeGame:
        """A game in progress that has just ended."""
        games, cold = self.games, g >= len(self.games) - self.config.cold_games
        return WholeGame(
            float(games.saved[g]),
            cold,
            int(games.resets[g]),
            games.played(g),
            games.saved_before(g),
        )

    def _adapt(self, same: np.ndarray, mixed: np.ndarray) -> float:
        """Lengthens the hot part of the windows where many end the same, else shortens it; returns
        how many do."""
        step = 1 if same[mixed].mean() > EQUAL_SHARE else -1
        self.hot_moves = int(np.clip(self.hot_moves + step, 1, self.config.moves))
        return float(same.mean())

    def _chunk(self, parts: Sequence[Played], finished, better, equal: float) -> Chunk:
        config, by_part, errors, own = self.config, [], [], []
        for part, (rows, bootstrap) in enumerate(parts):
            active, ended = rows["active"], rows["ended"]
            target = lambda_returns(
                rows["reward"],
                rows["value"],
                ended,
                active,
                bootstrap,
                config.discount,
                TRACE,
            )
            left = np.minimum(decisions_left(ended, active), np.iinfo(np.int16).max)
            kept = active.T.reshape(-1)
            of_own = np.full(active.shape, part == 0)
            if part == 1 and self.own_guide is not None:
                of_own[:, config.windows - config.own_windows :] = True
            own.append(of_own.T.reshape(-1)[kept])
            by_part.append({
                name: np.swapaxes(value, 0, 1).reshape(-1, *value.shape[2:])[kept]
                for name, value in (rows | {"target": target, "left": left}).items()
                if name not in ("value", "network_value", "ended", "active")
            })  # fmt: skip
            errors.append(np.abs(rows["network_value"] - target)[active])
        columns = {name: np.concatenate([part[name] for part in by_part]) for name in by_part[0]}
        columns["own"] = np.concatenate(own)
        policy = columns["policy"]
        entropy = -np.sum(policy * np.log(policy + 1e-20), axis=-1)
        error = float(np.concatenate(errors).mean()) / self.unit
        return Chunk(columns, finished, better, equal, float(entropy.mean()), error)


def play_out(games: Games, decide: Decide, temperature: float) -> None:
    """Plays whole games from the first buffer to the last."""
    games.restart(range(len(games)))
    games.observe()
    temperatures = np.full(len(games), temperature, np.float32)
    while not games.over.all():
        games.step(np.where(games.over, -1, decide(games, temperatures).action))
